// SPDX-License-Identifier: Apache-2.0
//! Before the agent serves anything: nothing came in but the standard descriptors, a machine was
//! made its session's, and the host has said its first word.

use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::io::AsyncReadExt as _;
use torno_guest_protocol::{Frame, GuestMessage, HostDecoder, HostMessage, PROTOCOL_VERSION};

use crate::link::{Reader, Sender};
use crate::machine::{self, Nobodys, Stage};
use crate::settings::Settings;

/// Waits, for as long as somebody holds the other end, for what makes this machine a session's, and
/// takes it in. One that can't take all of it in is nobody's, and ends.
pub(super) async fn renewal(
    link: &mut Reader,
    decoder: &mut HostDecoder,
    host: &Sender,
    nobodys: Nobodys,
    stage: &Stage<'_>,
) -> anyhow::Result<()> {
    let renewal = loop {
        if host.control(&GuestMessage::MachineReady {}).await.is_err() {
            bail!("the link closed before the machine was anybody's");
        }
        match first(link, decoder).await? {
            HostMessage::RehearseMachine {} => stage.rehearse().await?,
            HostMessage::RenewMachine { renewal } => break renewal,
            _ => bail!("the host did not say first whose this machine is"),
        }
    };
    let renewed = nobodys.renew(&renewal, stage.settings);
    if let Err(error) = &renewed {
        let message = machine::complaint(error);
        // A closed link is an end as well.
        let _closed = host
            .control(&GuestMessage::MachineUnusable { message })
            .await;
        tokio::time::sleep(machine::COMPLAINT_WAIT).await;
    }
    renewed.context("the machine could not be renewed")
}

/// The host's greeting.
pub(super) async fn until_greeted(
    link: &mut Reader,
    decoder: &mut HostDecoder,
    settings: &Settings,
) -> anyhow::Result<()> {
    let greeted = greeting(link, decoder);
    if settings.made_ahead {
        // For as long as somebody holds the other end.
        return greeted.await;
    }
    tokio::time::timeout(GREETING_WAIT, greeted)
        .await
        .context("the host did not greet in time")?
}

async fn greeting(link: &mut Reader, decoder: &mut HostDecoder) -> anyhow::Result<()> {
    match first(link, decoder).await? {
        HostMessage::Hello {
            version: PROTOCOL_VERSION,
        } => Ok(()),
        HostMessage::Hello { version } => {
            bail!("the host speaks version {version}, we {PROTOCOL_VERSION}; use one release")
        }
        _ => bail!("the host did not greet first"),
    }
}

/// The next message, where nothing else may come.
async fn first(link: &mut Reader, decoder: &mut HostDecoder) -> anyhow::Result<HostMessage> {
    let mut buffer = [0; 1_024];
    loop {
        match decoder.next_frame()? {
            Some(Frame::Control(message)) => return Ok(message),
            Some(_) => bail!("the host did not greet first"),
            None => {}
        }
        let count = link
            .read(&mut buffer)
            .await
            .context("cannot read the link")?;
        if count == 0 {
            bail!("the link closed before the greeting");
        }
        decoder.push(buffer.get(..count).unwrap_or_default());
    }
}

/// Only the three standard descriptors may come in: a forgotten one would be a way out.
pub(super) fn refuse_inherited_descriptors() -> anyhow::Result<()> {
    let mut open = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd").context("cannot list own descriptors")? {
        open.extend(
            entry?
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<u32>().ok()),
        );
    }
    // One of them is the listing's own, closed by now.
    let still_open = open
        .into_iter()
        .filter(|fd| *fd > 2 && std::fs::symlink_metadata(format!("/proc/self/fd/{fd}")).is_ok());
    let extra: Vec<u32> = still_open.collect();
    if !extra.is_empty() {
        bail!("inherited descriptors {extra:?}; the launcher must pass only the standard three");
    }
    Ok(())
}

// LIMIT: the host greets as soon as it has the link; a link without host shall not keep a sandbox.
const GREETING_WAIT: Duration = Duration::from_secs(30);
