// SPDX-License-Identifier: Apache-2.0
//! A role's channel to another role: JSON messages over packets, perhaps with descriptors. Both
//! ends are ours, so a message of another shape means a broken role and is an error; of a gate,
//! which parses hostile bytes and may be taken over, it is a fault to be recorded ([`hear`]).

use anyhow::{Context, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use torno_control_api::channel::{Channel, Packet};
use torno_policy::decision::Reason;

/// This process's channel to the supervisor: its standard input, the one descriptor it inherits.
pub(crate) fn supervisor() -> anyhow::Result<Channel> {
    let stdin = std::io::stdin();
    let socket = stdin
        .as_fd()
        .try_clone_to_owned()
        .context("standard input")?;
    // From here on nothing finds the supervisor by reading standard input.
    let null = std::fs::File::open("/dev/null").context("/dev/null")?;
    rustix::stdio::dup2_stdin(&null).context("standard input")?;
    Channel::new(socket).context("standard input is no channel; roles are started by tornod")
}

/// Sends one message.
pub(crate) async fn send<M: Serialize>(
    channel: &Channel,
    message: &M,
    descriptors: &[BorrowedFd<'_>],
) -> anyhow::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    channel
        .send(&bytes, descriptors)
        .await
        .context("the role at the other end is gone")
}

/// Receives one message; `None` when the other role is gone.
pub(crate) async fn receive<M: DeserializeOwned>(
    channel: &Channel,
) -> anyhow::Result<Option<(M, Vec<OwnedFd>)>> {
    match channel.receive().await? {
        Some(packet) => parse(packet).map(Some),
        None => Ok(None),
    }
}

/// What came from a gate.
pub(crate) enum Heard<M> {
    Message(M),
    /// What no honest gate sends. Who hears it has it recorded once and closes the channel.
    Fault(Reason),
    /// It is gone.
    Left,
}

/// Hears a gate that speaks JSON.
pub(crate) async fn hear<M: DeserializeOwned>(gate: &Channel) -> Heard<M> {
    hear_as(gate, |bytes| serde_json::from_slice(bytes).ok()).await
}

/// Hears a gate. Descriptors are a fault: a gate hands nothing on.
pub(crate) async fn hear_as<M>(gate: &Channel, read: impl Fn(&[u8]) -> Option<M>) -> Heard<M> {
    match gate.receive().await {
        Ok(Some(Packet { bytes, descriptors })) if descriptors.is_empty() => match read(&bytes) {
            Some(message) => Heard::Message(message),
            None => Heard::Fault(Reason::MalformedRequest),
        },
        Ok(Some(_)) => Heard::Fault(Reason::MalformedRequest),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            Heard::Fault(Reason::MalformedRequest)
        }
        Ok(None) | Err(_) => Heard::Left,
    }
}

/// Reads a packet as a message.
pub(crate) fn parse<M: DeserializeOwned>(packet: Packet) -> anyhow::Result<(M, Vec<OwnedFd>)> {
    let message = serde_json::from_slice(&packet.bytes).context("a message of another shape")?;
    Ok((message, packet.descriptors))
}

/// Takes exactly `N` descriptors.
pub(crate) fn exactly<const N: usize>(descriptors: Vec<OwnedFd>) -> anyhow::Result<[OwnedFd; N]> {
    let count = descriptors.len();
    match descriptors.try_into() {
        Ok(array) => Ok(array),
        Err(_) => bail!("{count} descriptors where {N} belong"),
    }
}
