// SPDX-License-Identifier: Apache-2.0
//! The workspace of a machine, which shares no directory with its host: filled from an archive
//! before any program runs, and sent as one at the end. The host keeps what no program may change
//! out of what it takes back; the mounts here only tell programs so.
//!
//! ```text
//!   FillWorkspace ── unpack, as the workload's user ── narrow, by mounts ──▶ WorkspaceFilled
//!   ShowDirectory ── unpack, likewise ── closed for writing ───────────────▶ DirectoryShown
//!   PackWorkspace ── all processes killed, if it is the last ── pack ──────▶ WorkspacePacked
//! ```

mod narrow;
mod pack;
mod shown;
mod unpack;

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc as std_mpsc};

use bytes::BytesMut;
use rustix::process::getpid;
use tokio::runtime::Handle;
use torno_guest_protocol::{
    ArchiveError, ArchiveReader, DATA_BYTES_MAX, FileFailure, GuestMessage, HostMessage, RequestId,
    Stream,
};

use crate::exec::Surroundings;
use crate::files::{Done, Request, Stop};
use crate::link::Sender;
use crate::nursery::Nursery;
use crate::place::Failure;
use crate::settings::Settings;
use crate::stream::{Arrival, Inlet, Outlet};
use crate::{tree, walls};

/// Begins a transfer on a thread of the agent's own: as init it may mount, and read what programs
/// made unreadable.
pub(crate) fn start(verb: HostMessage, around: &Surroundings, done: Done) -> io::Result<Request> {
    let request = Request::default();
    let transfer = Transfer {
        id: done.id(),
        settings: Arc::clone(&around.settings),
        nursery: around.nursery.clone(),
        inlet: Arc::clone(&request.inlet),
        outlet: Arc::clone(&request.outlet),
        host: around.host.clone(),
        runtime: Handle::current(),
    };
    std::thread::Builder::new()
        .name("workspace".into())
        .spawn(move || {
            transfer.run(&verb);
            drop(done);
        })?;
    Ok(request)
}

impl From<ArchiveError> for Failure {
    fn from(error: ArchiveError) -> Self {
        let code = match error {
            ArchiveError::Bytes { .. } | ArchiveError::Entries => FileFailure::TooLarge,
            _ => FileFailure::Failed,
        };
        Self::new(code, error.to_string())
    }
}

#[derive(Clone)]
struct Transfer {
    id: RequestId,
    settings: Arc<Settings>,
    nursery: Nursery,
    inlet: Arc<Inlet>,
    outlet: Arc<Outlet>,
    host: Sender,
    runtime: Handle,
}

impl Transfer {
    fn run(&self, verb: &HostMessage) {
        let request = self.id;
        let answer = match verb {
            HostMessage::FillWorkspace { write, hide, .. } => self
                .fill(self.settings.workspace.clone())
                .and_then(|()| Ok(narrow::apply(&self.settings, write.as_deref(), hide)?))
                .map(|()| GuestMessage::WorkspaceFilled { request }),
            HostMessage::ShowDirectory {
                path, bytes_max, ..
            } => self
                .show(path, *bytes_max)
                .map(|()| GuestMessage::DirectoryShown { request }),
            HostMessage::PackWorkspace {
                bytes_max, last, ..
            } => self
                .pack(*bytes_max, *last)
                .map(|()| GuestMessage::WorkspacePacked { request }),
            _ => Err(Stop::Silent),
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(Stop::Silent) => return,
            Err(Stop::Failed(Failure { code, message })) => GuestMessage::RequestFailed {
                request,
                code,
                message,
            },
        };
        // When the link is closed the agent is about to end.
        let _closed = self.runtime.block_on(self.host.control(&answer));
    }

    /// No program has run yet, so nothing stands in the way and nobody holds a file of it open.
    fn show(&self, path: &str, bytes_max: u64) -> Result<(), Stop> {
        let place = shown::open(&self.settings, path, bytes_max)?;
        self.fill(place.clone())?;
        Ok(shown::close(&place)?)
    }

    /// Unpacks what comes into an empty directory, on a thread that is the workload's user and
    /// behind its walls.
    fn fill(&self, top: PathBuf) -> Result<(), Stop> {
        let (done, outcome) = std_mpsc::sync_channel(1);
        let transfer = self.clone();
        self.nursery.start_thread(move || {
            let filled = match walls::drop_identity(&transfer.settings) {
                Ok(_) => transfer.unpack(&top),
                Err(error) => Err(Stop::Failed(Failure::new(
                    FileFailure::Denied,
                    error.to_string(),
                ))),
            };
            // The transfer waits for as long as it lives.
            let _waited = done.send(filled);
        })?;
        outcome.recv().unwrap_or(Err(Stop::Silent))
    }

    fn unpack(&self, top: &Path) -> Result<(), Stop> {
        // The host's own tree: the room in memory is the limit.
        let mut reader = ArchiveReader::new(u64::MAX);
        let mut tree = unpack::Tree::at(top)?;
        loop {
            let bytes = match self.runtime.block_on(self.inlet.next()) {
                Arrival::Bytes(bytes) => bytes,
                Arrival::End if reader.is_complete() => return Ok(()),
                Arrival::End => {
                    let cut = "the archive ended within the tree; look at the porter's log";
                    return Err(Failure::new(FileFailure::Failed, cut).into());
                }
                Arrival::Cancelled => return Err(Stop::Silent),
            };
            reader.push(&bytes);
            while let Some(piece) = reader.next_piece().map_err(Failure::from)? {
                tree.take(&piece)?;
            }
            if let Some(credit) = self.inlet.consume(bytes.len()) {
                self.runtime
                    .block_on(self.host.credit(self.id.into(), Stream::File, credit))?;
            }
        }
    }

    fn pack(&self, bytes_max: u64, last: bool) -> Result<(), Stop> {
        if last && !tree::kill_descendants(getpid(), &HashSet::new())? {
            let left = "a process survives the kill, so the tree would move while it is read";
            return Err(Failure::new(FileFailure::Busy, left).into());
        }
        pack::pack(&self.settings.workspace, bytes_max, &mut |out| {
            while out.len() >= DATA_BYTES_MAX {
                self.send(out)?;
            }
            Ok(())
        })
        .and_then(|mut rest| {
            while !rest.is_empty() {
                self.send(&mut rest)?;
            }
            Ok(())
        })?;
        let ended = self.host.end_of_file(self.id.into(), Stream::File);
        Ok(self.runtime.block_on(ended)?)
    }

    /// Sends as much as there is credit for.
    fn send(&self, out: &mut BytesMut) -> Result<(), Stop> {
        let room = self.runtime.block_on(self.outlet.room());
        let bytes = out.split_to(room.ok_or(Stop::Silent)?.min(out.len()));
        self.outlet.take(bytes.len());
        let sent = self.host.data(self.id.into(), Stream::File, &bytes);
        Ok(self.runtime.block_on(sent)?)
    }
}
