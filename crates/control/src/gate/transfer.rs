// SPDX-License-Identifier: Apache-2.0
//! A machine's workspace on its way over the link: bytes between a porter's stream and the guest
//! agent, under the windows that commands have. The gate understands nothing of them. One goes at a
//! time; what the guest sends unasked, over its credit or beyond what was allowed ends the link.

use super::link::Link;
use anyhow::{Context, bail};
use bytes::{Bytes, BytesMut};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{Notify, mpsc};
use torno_guest_protocol::{
    DATA_BYTES_MAX, FileFailure, Frame, GuestMessage, HostMessage, ReceiveWindow, RequestId,
    SendWindow, Stream, encode_credit, encode_data, encode_end_of_file,
};

/// What happens to a transfer, as the guest says.
#[derive(Debug)]
enum Event {
    Bytes(Bytes),
    Done,
    Failed(FileFailure),
}

/// The transfer that goes on, if one does.
#[derive(Default)]
pub(super) struct Transfers {
    now: Mutex<Option<Row>>,
    is_last: AtomicBool,
}

/// One transfer, from the host's word to the guest's last.
struct Row {
    id: RequestId,
    events: mpsc::UnboundedSender<Event>,
    inward: SendWindow,
    grown: Arc<Notify>,
    outward: ReceiveWindow,
    /// Bytes that the guest may still send.
    left: u64,
}

/// What its task holds.
struct Transfer {
    link: Arc<Link>,
    id: RequestId,
    events: mpsc::UnboundedReceiver<Event>,
    grown: Arc<Notify>,
}

/// Whether a frame belongs to a transfer.
pub(super) fn is_carried(frame: &Frame<GuestMessage>) -> bool {
    match frame {
        Frame::Control(_) => false,
        Frame::Data { stream, .. }
        | Frame::EndOfFile { stream, .. }
        | Frame::Credit { stream, .. } => *stream == Stream::File,
    }
}

impl Transfers {
    /// From now on the session is over but for its files.
    pub(super) fn begin_last(&self) {
        self.is_last.store(true, Ordering::Release);
    }

    /// Whether a message is about a command that the last transfer killed: its client is told how
    /// the session ended, and not how its process did.
    pub(super) fn silences(&self, message: &GuestMessage) -> bool {
        let is_of_command = matches!(
            message,
            GuestMessage::ProcessEnded { .. } | GuestMessage::ProcessFailed { .. }
        );
        is_of_command && self.is_last.load(Ordering::Acquire)
    }

    /// One frame of the guest.
    pub(super) fn take(&self, frame: Frame<GuestMessage>) -> anyhow::Result<()> {
        match frame {
            Frame::Control(_) => bail!("a message is no part of a transfer"),
            Frame::Data { channel, bytes, .. } => self.with(RequestId(channel.0), |row| {
                row.outward.accept(bytes.len())?;
                let count = u64::try_from(bytes.len())?;
                row.left = row
                    .left
                    .checked_sub(count)
                    .context("the guest sent more of its workspace than it may")?;
                // Nobody wants it any more: it is dropped.
                let _ = row.events.send(Event::Bytes(bytes));
                Ok(())
            }),
            Frame::EndOfFile { channel, .. } => {
                self.with(RequestId(channel.0), |row| Ok(row.outward.end()?))
            }
            Frame::Credit { channel, bytes, .. } => self.with(RequestId(channel.0), |row| {
                row.inward.grant(bytes)?;
                row.grown.notify_one();
                Ok(())
            }),
        }
    }

    /// The guest's last word of one.
    pub(super) fn answer(
        &self,
        id: RequestId,
        outcome: Result<(), FileFailure>,
    ) -> anyhow::Result<()> {
        let row = self.row().take_if(|row| row.id == id);
        let row = row.context("the guest answered what was not asked")?;
        let event = match outcome {
            Ok(()) => Event::Done,
            Err(code) => Event::Failed(code),
        };
        let _ = row.events.send(event);
        row.grown.notify_one();
        Ok(())
    }

    fn with(
        &self,
        id: RequestId,
        act: impl FnOnce(&mut Row) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut row = self.row();
        let row = row.as_mut().filter(|row| row.id == id);
        act(row.context("the guest sent a file that was not asked for")?)
    }

    fn row(&self) -> MutexGuard<'_, Option<Row>> {
        // The row is consistent after every statement, so a poisoned lock is still good.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends what comes on `stream` into the guest's workspace.
pub(super) async fn fill(
    link: Arc<Link>,
    order: &HostMessage,
    id: RequestId,
    stream: OwnedFd,
) -> Result<(), FileFailure> {
    let mut transfer = Transfer::begin(link, id, 0)?;
    let filled = transfer.fill(order, stream);
    filled.await.unwrap_or(Err(FileFailure::Failed))
}

/// Sends the guest's workspace, at most `bytes_max` bytes of an archive, to `stream`.
pub(super) async fn pack(
    link: Arc<Link>,
    order: &HostMessage,
    (id, bytes_max): (RequestId, u64),
    stream: OwnedFd,
) -> Result<(), FileFailure> {
    let mut transfer = Transfer::begin(link, id, bytes_max)?;
    let packed = transfer.pack(order, stream);
    packed.await.unwrap_or(Err(FileFailure::Failed))
}

impl Transfer {
    fn begin(link: Arc<Link>, id: RequestId, left: u64) -> Result<Self, FileFailure> {
        let (events, receiver) = mpsc::unbounded_channel();
        let grown = Arc::new(Notify::new());
        let row = Row {
            id,
            events,
            inward: SendWindow::new(),
            grown: Arc::clone(&grown),
            outward: ReceiveWindow::new(),
            left,
        };
        let mut place = link.transfers.row();
        if place.is_some() {
            return Err(FileFailure::Busy);
        }
        *place = Some(row);
        drop(place);
        Ok(Self {
            link,
            id,
            events: receiver,
            grown,
        })
    }

    async fn fill(
        &mut self,
        order: &HostMessage,
        stream: OwnedFd,
    ) -> anyhow::Result<Result<(), FileFailure>> {
        let mut source = open(stream)?;
        self.link.say(order).await?;
        let mut buffer = vec![0; DATA_BYTES_MAX];
        loop {
            let count = source.read(&mut buffer).await?;
            let mut bytes = buffer.get(..count).unwrap_or_default();
            if bytes.is_empty() {
                break;
            }
            while !bytes.is_empty() {
                let Some(taken) = self.credit(bytes.len()).await else {
                    return self.outcome().await;
                };
                let (now, later) = bytes.split_at_checked(taken).unwrap_or((bytes, &[]));
                let mut frame = BytesMut::new();
                encode_data(self.id.into(), Stream::File, now, &mut frame);
                self.link.send(frame).await?;
                bytes = later;
            }
        }
        let mut frame = BytesMut::new();
        encode_end_of_file(self.id.into(), Stream::File, &mut frame);
        self.link.send(frame).await?;
        self.outcome().await
    }

    async fn pack(
        &mut self,
        order: &HostMessage,
        stream: OwnedFd,
    ) -> anyhow::Result<Result<(), FileFailure>> {
        let mut target = open(stream)?;
        self.link.say(order).await?;
        let mut is_wanted = true;
        loop {
            match self.events.recv().await.context("the link is gone")? {
                Event::Bytes(bytes) => {
                    // A porter that has refused it still leaves the guest to come to its end.
                    is_wanted = is_wanted && target.write_all(&bytes).await.is_ok();
                    self.consumed(bytes.len()).await?;
                }
                Event::Done => return Ok(Ok(())),
                Event::Failed(code) => return Ok(Err(code)),
            }
        }
    }

    /// Waits for credit; nothing when the guest has said its last word.
    async fn credit(&self, wanted: usize) -> Option<usize> {
        loop {
            let taken = {
                let mut row = self.link.transfers.row();
                let row = row.as_mut().filter(|row| row.id == self.id)?;
                row.inward.take(wanted)
            };
            if taken > 0 {
                return Some(taken);
            }
            self.grown.notified().await;
        }
    }

    async fn consumed(&self, bytes: usize) -> anyhow::Result<()> {
        let credit = {
            let mut row = self.link.transfers.row();
            let row = row.as_mut().filter(|row| row.id == self.id);
            row.and_then(|row| row.outward.consume(bytes))
        };
        if let Some(credit) = credit {
            let mut frame = BytesMut::new();
            encode_credit(self.id.into(), Stream::File, credit, &mut frame);
            self.link.send(frame).await?;
        }
        Ok(())
    }

    /// The guest's last word of what it was sent.
    async fn outcome(&mut self) -> anyhow::Result<Result<(), FileFailure>> {
        match self.events.recv().await.context("the link is gone")? {
            Event::Done => Ok(Ok(())),
            Event::Failed(code) => Ok(Err(code)),
            Event::Bytes(_) => bail!("the guest sent a workspace that was not asked for"),
        }
    }
}

fn open(stream: OwnedFd) -> anyhow::Result<UnixStream> {
    let socket = std::os::unix::net::UnixStream::from(stream);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket).context("the porter's stream")
}

#[cfg(test)]
mod tests;
