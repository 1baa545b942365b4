// SPDX-License-Identifier: Apache-2.0
//! File requests: each on a thread of its own that is the workload's user and behind its walls, so
//! that a request can do nothing that a program inside couldn't.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use torno_guest_protocol::{
    DATA_BYTES_MAX, FileFailure, GuestMessage, HostMessage, RequestId, Stream,
};

use crate::exec::Surroundings;
use crate::link::{LinkClosed, Sender};
use crate::place::{Failure, Place};
use crate::settings::Settings;
use crate::stream::{Arrival, Inlet, Outlet};
use crate::{verbs, walls, workspace};

/// What the agent keeps of a request.
#[derive(Debug, Default)]
pub(crate) struct Request {
    pub(crate) inlet: Arc<Inlet>,
    pub(crate) outlet: Arc<Outlet>,
}

impl Request {
    /// Nobody waits for the answer any more.
    pub(crate) fn cancel(&self) {
        self.inlet.cancel();
        self.outlet.cancel();
    }
}

/// Begins a request.
pub(crate) fn start(
    id: RequestId,
    verb: HostMessage,
    around: &Surroundings,
    done: mpsc::Sender<RequestId>,
) -> io::Result<Request> {
    let done = Done { id, done };
    if matches!(
        verb,
        HostMessage::FillWorkspace { .. }
            | HostMessage::ShowDirectory { .. }
            | HostMessage::PackWorkspace { .. }
    ) {
        return workspace::start(verb, around, done);
    }
    let request = Request::default();
    let worker = Worker {
        id,
        settings: Arc::clone(&around.settings),
        inlet: Arc::clone(&request.inlet),
        outlet: Arc::clone(&request.outlet),
        host: around.host.clone(),
        runtime: Handle::current(),
        done,
    };
    around.nursery.start_thread(move || worker.run(&verb))?;
    Ok(request)
}

/// Tells the agent that a request is over, also when its thread panics or never starts.
pub(crate) struct Done {
    id: RequestId,
    done: mpsc::Sender<RequestId>,
}

impl Done {
    /// Whose end it tells.
    pub(crate) const fn id(&self) -> RequestId {
        self.id
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        // Full only while 16 others wait to be removed; then wait too. Never called on the runtime
        // unless a thread couldn't start, and then the queue can't be waited for.
        if let Err(mpsc::error::TrySendError::Full(id)) = self.done.try_send(self.id)
            && Handle::try_current().is_err()
        {
            let _agent_ends = self.done.blocking_send(id);
        }
    }
}

/// A request can stop without a last word: it was cancelled or the link is closed.
pub(crate) enum Stop {
    Failed(Failure),
    Silent,
}

impl<F: Into<Failure>> From<F> for Stop {
    fn from(failure: F) -> Self {
        Self::Failed(failure.into())
    }
}

impl From<LinkClosed> for Stop {
    fn from(_: LinkClosed) -> Self {
        Self::Silent
    }
}

struct Worker {
    id: RequestId,
    settings: Arc<Settings>,
    inlet: Arc<Inlet>,
    outlet: Arc<Outlet>,
    host: Sender,
    runtime: Handle,
    done: Done,
}

impl Worker {
    fn run(self, verb: &HostMessage) {
        let answer = match walls::drop_identity(&self.settings) {
            Ok(_) => self.carry_out(verb),
            Err(error) => Err(Stop::Failed(Failure::new(
                FileFailure::Denied,
                format!("{:#}", anyhow::Error::from(error)),
            ))),
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(Stop::Silent) => return,
            Err(Stop::Failed(Failure { code, message })) => GuestMessage::RequestFailed {
                request: self.id,
                code,
                message,
            },
        };
        // When the link is closed the agent is about to end.
        let _closed = self.runtime.block_on(self.host.control(&answer));
        drop(self.done);
    }

    fn carry_out(&self, verb: &HostMessage) -> Result<GuestMessage, Stop> {
        let request = self.id;
        let place = |path: &str| Place::parse(path, &self.settings);
        Ok(match verb {
            HostMessage::ReadFile {
                path, bytes_max, ..
            } => self.read(&place(path)?, *bytes_max)?,
            HostMessage::WriteFile {
                path, mode, write, ..
            } => {
                let file = verbs::open_to_write(&place(path)?, *mode, *write)?;
                self.write(file)?
            }
            HostMessage::ListDirectory { path, after, .. } => {
                let (entries, more) = verbs::list(&place(path)?, after.as_deref())?;
                GuestMessage::DirectoryListed {
                    request,
                    entries,
                    more,
                }
            }
            HostMessage::StatPath { path, .. } => {
                let (metadata, target) = verbs::describe(&place(path)?)?;
                GuestMessage::PathDescribed {
                    request,
                    metadata,
                    target,
                }
            }
            HostMessage::MakeDirectory {
                path,
                mode,
                parents,
                ..
            } => {
                verbs::make_directory(&place(path)?, *mode, *parents)?;
                GuestMessage::DirectoryMade { request }
            }
            HostMessage::MovePath {
                from, to, replace, ..
            } => {
                verbs::rename(&place(from)?, &place(to)?, *replace)?;
                GuestMessage::PathMoved { request }
            }
            HostMessage::RemovePath {
                path, recursive, ..
            } => {
                verbs::remove(&place(path)?, *recursive)?;
                GuestMessage::PathRemoved { request }
            }
            HostMessage::Hello { .. }
            | HostMessage::StartProcess { .. }
            | HostMessage::Resize { .. }
            | HostMessage::SendSignal { .. }
            | HostMessage::CancelRequest { .. }
            | HostMessage::CloseConnection { .. }
            | HostMessage::FillWorkspace { .. }
            | HostMessage::ShowDirectory { .. }
            | HostMessage::PackWorkspace { .. }
            | HostMessage::RehearseMachine {}
            | HostMessage::RenewMachine { .. }
            | HostMessage::Shutdown {} => return Err(Stop::Silent),
        })
    }

    // ATTACK: 174
    fn read(&self, place: &Place, bytes_max: u64) -> Result<GuestMessage, Stop> {
        let (mut file, metadata) = verbs::open_to_read(place)?;
        if metadata.bytes > bytes_max {
            return Err(too_large(bytes_max).into());
        }
        let opened = GuestMessage::FileOpened {
            request: self.id,
            metadata,
        };
        self.runtime.block_on(self.host.control(&opened))?;
        let mut buffer = vec![0; DATA_BYTES_MAX];
        let mut total: u64 = 0;
        loop {
            let room = self
                .runtime
                .block_on(self.outlet.room())
                .ok_or(Stop::Silent)?;
            let part = buffer.get_mut(..room).unwrap_or_default();
            let count = read_some(&mut file, part)?;
            let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else {
                break;
            };
            total += count as u64;
            if total > bytes_max {
                return Err(too_large(bytes_max).into());
            }
            self.outlet.take(count);
            self.runtime
                .block_on(self.host.data(self.id.into(), Stream::File, bytes))?;
        }
        self.runtime
            .block_on(self.host.end_of_file(self.id.into(), Stream::File))?;
        Ok(GuestMessage::FileRead {
            request: self.id,
            bytes: total,
        })
    }

    fn write(&self, mut file: File) -> Result<GuestMessage, Stop> {
        let mut total: u64 = 0;
        loop {
            let bytes = match self.runtime.block_on(self.inlet.next()) {
                Arrival::Bytes(bytes) => bytes,
                Arrival::End => break,
                Arrival::Cancelled => return Err(Stop::Silent),
            };
            file.write_all(&bytes)?;
            total += bytes.len() as u64;
            if let Some(credit) = self.inlet.consume(bytes.len()) {
                self.runtime
                    .block_on(self.host.credit(self.id.into(), Stream::File, credit))?;
            }
        }
        Ok(GuestMessage::FileWritten {
            request: self.id,
            bytes: total,
        })
    }
}

fn read_some(file: &mut File, part: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(part) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn too_large(bytes_max: u64) -> Failure {
    Failure::new(
        FileFailure::TooLarge,
        format!("the file is longer than {bytes_max} bytes; read a part of it with a command"),
    )
}
