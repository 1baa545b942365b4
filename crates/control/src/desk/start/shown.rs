// SPDX-License-Identifier: Apache-2.0
//! Directories of the host (`also`) at a machine, which mounts none: a porter sends each over the
//! gate's link, as the caller's user, from the descriptor that the caller's client opened. They lie
//! in the machine's memory, where nobody writes to them.

use super::super::gates::Gate;
use super::super::porters;
use super::super::transfer::{TRANSFER_WAIT, carried_bytes};
use super::attempt::{Attempt, also_directories};
use super::files::Hidden;
use super::{internal, out_of_turn};
use crate::front_door;
use crate::orders::{GateRequest, PorterJob, PorterReply, WorkspaceOrder, WorkspaceWay};
use anyhow::Context;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use torno_control_api::request::Failure;
use torno_guest_protocol::FileFailure;
use torno_notary_protocol::desk::Fingerprint;

impl Attempt<'_> {
    /// Shows each of them, where the sandbox is a machine. Returns what was hidden, and the bytes
    /// that they take together.
    pub(super) async fn show(
        &self,
        gate: &Gate,
        also: &[OwnedFd],
        fingerprints: &[Fingerprint],
    ) -> Result<(Hidden, u64), Failure> {
        let shape = &self.begun.grant.sandbox;
        let (mut all, mut bytes) = (Vec::new(), 0_u64);
        if !self.isolation.is_machine() {
            return Ok((all, bytes));
        }
        let places = also_directories(&shape.also, &self.wanted.also)?;
        for ((written, (_, inside)), directory) in shape.also.iter().zip(places).zip(also) {
            self.still_starting()?;
            let bytes_max = carried_bytes(shape).saturating_sub(bytes);
            let job = PorterJob::Show {
                fingerprints: fingerprints.to_vec(),
                bytes_max,
            };
            let inside = inside.display().to_string();
            let way = WorkspaceWay::Show { inside, bytes_max };
            let moving = self.send(gate, (&job, way), directory);
            let moved = tokio::time::timeout(TRANSFER_WAIT, moving).await;
            let (hidden, taken) = outcome(written, moved.ok())?;
            all.extend(hidden);
            bytes = bytes.saturating_add(taken);
        }
        Ok((all, bytes))
    }

    async fn send(
        &self,
        gate: &Gate,
        (job, way): (&PorterJob, WorkspaceWay),
        directory: &OwnedFd,
    ) -> anyhow::Result<(PorterReply, Option<FileFailure>)> {
        let transfer = self
            .desk
            .sessions
            .with(self.session, |row| row.take_number());
        let transfer = transfer.context("the session is gone")?;
        let (ours, theirs) = UnixStream::pair()?;
        let order = GateRequest::MoveWorkspace(WorkspaceOrder { transfer, way });
        gate.tell(&order, &[theirs.as_fd()]).await?;
        drop(theirs);
        let give = [directory.as_fd(), ours.as_fd()];
        let packed = porters::run(self.desk, self.session, self.caller, job, &give).await;
        drop(ours);
        let moved = gate.moved(transfer).await.context("the gate is gone")?;
        Ok((packed?, moved))
    }
}

/// What was hidden of one, as the person wrote its place, and its size; or why the start fails.
fn outcome(
    written: &str,
    moved: Option<anyhow::Result<(PorterReply, Option<FileFailure>)>>,
) -> Result<(Hidden, u64), Failure> {
    let at = |place: &str| match place {
        "" => written.to_owned(),
        place => format!("{written}/{place}"),
    };
    let why = match moved {
        None => format!(
            "the machine did not take it in {} s",
            TRANSFER_WAIT.as_secs()
        ),
        Some(Err(error)) => return Err(internal(&error)),
        Some(Ok((PorterReply::VaultValue { place, credential }, _))) => {
            return Err(front_door::vault_value(&at(&place), &credential));
        }
        Some(Ok((
            PorterReply::Copied {
                hidden,
                left_out,
                bytes,
            },
            None,
        ))) => {
            let hidden = hidden.into_iter().map(|(place, shape)| (at(&place), shape));
            let left = left_out.iter();
            let left = left.map(|place| (at(place), "special file, left out".to_owned()));
            return Ok((hidden.chain(left).collect(), bytes));
        }
        Some(Ok((_, Some(FileFailure::NoSpace)))) => {
            "the machine has no room for it: raise limits.memory".to_owned()
        }
        Some(Ok((_, Some(FileFailure::Denied | FileFailure::NotADirectory)))) => {
            "there is no place for it: another directory of `also`, or a file, lies there"
                .to_owned()
        }
        Some(Ok((PorterReply::Failed { message }, _))) => message,
        Some(Ok((_, Some(_)))) => "the machine's agent could not lay it".to_owned(),
        Some(Ok(_)) => return Err(out_of_turn("porter")),
    };
    Err(Failure {
        code: "also_unusable".to_owned(),
        message: format!("`{written}` of `also`: {why}"),
        hint: "mend the directory or list another; `gvisor` and `container` mount them".to_owned(),
    })
}

#[cfg(test)]
mod tests;
