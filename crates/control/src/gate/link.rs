// SPDX-License-Identifier: Apache-2.0
//! The link to the guest agent: frames in, frames out, and the table of commands. The guest is
//! hostile once a workload has run: a frame out of order, over its credit or for nobody ends the
//! link, and with it the sandbox.

mod kind;

use super::courier::{Courier, Serve};
use super::transfer::{self, Transfers};
use crate::orders::HELLO_WAIT;
use anyhow::{Context, bail, ensure};
use bytes::{Bytes, BytesMut};
use kind::kind_of;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, mpsc};
use torno_guest_protocol::{
    ConnectionId, ExecId, Frame, GuestDecoder, GuestMessage, HostMessage, PROTOCOL_VERSION,
    ProcessStatus, ReceiveWindow, SendWindow, Stream, encode_control, encode_credit, encode_data,
    encode_end_of_file,
};

/// LIMIT: frames that wait to be written; a guest that does not read stops its own commands.
const OUTGOING_MAX: usize = 64;
/// LIMIT: an agent's complaint in an error.
const COMPLAINT_CHARACTERS_MAX: usize = 1000;
/// LIMIT: commands at once in one session.
const EXECS_MAX: usize = 256;

/// What happens to one command, as the guest says.
#[derive(Debug)]
pub(super) enum ExecEvent {
    /// Bytes of an output stream.
    Output(Stream, Bytes),
    /// It ended: exit status, or 128 + signal.
    Ended(i32),
    /// It could not be started or was lost.
    Failed(String, String),
}

/// The state of one command's streams.
struct ExecRow {
    events: mpsc::UnboundedSender<ExecEvent>,
    stdin: SendWindow,
    stdin_grown: Arc<Notify>,
    stdout: ReceiveWindow,
    stderr: ReceiveWindow,
}

/// The link, shared by the commands' tasks.
pub(super) struct Link {
    outgoing: mpsc::Sender<Bytes>,
    /// Carries connections, where the stack is a machine's own.
    courier: Option<Arc<Courier>>,
    execs: Mutex<BTreeMap<ExecId, ExecRow>>,
    /// Carries a workspace, where it lies in a machine's memory.
    pub(super) transfers: Transfers,
}

/// What a started command's task holds.
pub(super) struct ExecHandle {
    pub(super) id: ExecId,
    pub(super) events: mpsc::UnboundedReceiver<ExecEvent>,
    /// Notified when more standard input may be sent.
    pub(super) stdin_grown: Arc<Notify>,
}

/// Shakes hands and returns the link and its reader, which runs until the link is broken.
pub(super) async fn open(
    link: OwnedFd,
    couriered: Option<Serve>,
) -> anyhow::Result<(Arc<Link>, impl Future<Output = anyhow::Result<()>> + Send)> {
    let socket = std::os::unix::net::UnixStream::from(link);
    socket.set_nonblocking(true)?;
    let (mut from_guest, to_guest) = UnixStream::from_std(socket)?.into_split();
    let (outgoing, queue) = mpsc::channel(OUTGOING_MAX);
    let courier = couriered.map(|serve| Arc::new(Courier::new(serve, outgoing.clone())));
    let link = Arc::new(Link {
        outgoing,
        courier,
        execs: Mutex::default(),
        transfers: Transfers::default(),
    });
    tokio::spawn(write(to_guest, queue));
    link.say(&HostMessage::Hello {
        version: PROTOCOL_VERSION,
    })
    .await?;
    let mut decoder = GuestDecoder::new();
    let is_machine = link.courier.is_some();
    let first = first_word(&mut from_guest, &mut decoder, is_machine);
    let hello = tokio::time::timeout(HELLO_WAIT, first).await;
    match hello.context("the guest agent said nothing in 60 s")?? {
        Some(Frame::Control(GuestMessage::Hello { version, .. })) => {
            ensure!(
                version == PROTOCOL_VERSION,
                "the guest agent speaks version {version}"
            );
        }
        Some(Frame::Control(GuestMessage::MachineUnusable { message })) => {
            let plain = message.chars().filter(|c| !c.is_control());
            let message: String = plain.take(COMPLAINT_CHARACTERS_MAX).collect();
            bail!("the machine could not be made a sandbox: {message}");
        }
        Some(_) => bail!("the guest agent did not say hello first"),
        None => bail!("the guest agent is gone"),
    }
    let reader = read(Arc::clone(&link), from_guest, decoder);
    Ok((link, reader))
}

/// The agent's first word; a machine that booted for this session has said before that it waits.
async fn first_word(
    from_guest: &mut OwnedReadHalf,
    decoder: &mut GuestDecoder,
    is_machine: bool,
) -> anyhow::Result<Option<Frame<GuestMessage>>> {
    let first = next(from_guest, decoder).await?;
    if is_machine && first == Some(Frame::Control(GuestMessage::MachineReady {})) {
        return next(from_guest, decoder).await;
    }
    Ok(first)
}

async fn write(mut to_guest: OwnedWriteHalf, mut queue: mpsc::Receiver<Bytes>) {
    while let Some(frame) = queue.recv().await {
        if to_guest.write_all(&frame).await.is_err() {
            // The reader sees the same end.
            return;
        }
    }
}

async fn next(
    from_guest: &mut OwnedReadHalf,
    decoder: &mut GuestDecoder,
) -> anyhow::Result<Option<Frame<GuestMessage>>> {
    let mut buffer = [0_u8; 16 * 1024];
    loop {
        if let Some(frame) = decoder.next_frame()? {
            return Ok(Some(frame));
        }
        let read = from_guest.read(&mut buffer).await?;
        if read == 0 {
            return Ok(None);
        }
        decoder.push(buffer.get(..read).unwrap_or_default());
    }
}

async fn read(
    link: Arc<Link>,
    mut from_guest: OwnedReadHalf,
    mut decoder: GuestDecoder,
) -> anyhow::Result<()> {
    while let Some(frame) = next(&mut from_guest, &mut decoder).await? {
        link.take(frame)?;
    }
    Ok(())
}

impl Link {
    fn execs(&self) -> MutexGuard<'_, BTreeMap<ExecId, ExecRow>> {
        // The table is consistent after every statement, so a poisoned lock is still good.
        self.execs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn send(&self, frame: BytesMut) -> anyhow::Result<()> {
        self.outgoing
            .send(frame.freeze())
            .await
            .ok()
            .context("the link is closed")
    }

    /// Sends a message.
    pub(super) async fn say(&self, message: &HostMessage) -> anyhow::Result<()> {
        let mut frame = BytesMut::new();
        encode_control(message, &mut frame)?;
        self.send(frame).await
    }

    /// Enters a command before it is started, so that no event of it is for nobody.
    pub(super) fn enter(&self, id: ExecId) -> anyhow::Result<ExecHandle> {
        let (events, receiver) = mpsc::unbounded_channel();
        let stdin_grown = Arc::new(Notify::new());
        let row = ExecRow {
            events,
            stdin: SendWindow::new(),
            stdin_grown: Arc::clone(&stdin_grown),
            stdout: ReceiveWindow::new(),
            stderr: ReceiveWindow::new(),
        };
        let mut execs = self.execs();
        ensure!(
            execs.len() < EXECS_MAX,
            "the session runs {EXECS_MAX} commands already"
        );
        ensure!(!execs.contains_key(&id), "the command's number is taken");
        execs.insert(id, row);
        Ok(ExecHandle {
            id,
            events: receiver,
            stdin_grown,
        })
    }

    /// Sends as much of `bytes` as the guest's credit allows, and says how much that was.
    pub(super) async fn send_stdin(&self, id: ExecId, bytes: &[u8]) -> anyhow::Result<usize> {
        let taken = self
            .execs()
            .get_mut(&id)
            .map_or(bytes.len(), |row| row.stdin.take(bytes.len()));
        if taken > 0 {
            let mut frame = BytesMut::new();
            encode_data(
                id.into(),
                Stream::Stdin,
                bytes.get(..taken).unwrap_or_default(),
                &mut frame,
            );
            self.send(frame).await?;
        }
        Ok(taken)
    }

    /// Says that no more input comes.
    pub(super) async fn end_stdin(&self, id: ExecId) -> anyhow::Result<()> {
        let mut frame = BytesMut::new();
        encode_end_of_file(id.into(), Stream::Stdin, &mut frame);
        self.send(frame).await
    }

    /// Says that output was passed on, so that the guest may send more.
    pub(super) async fn consumed(&self, id: ExecId, stream: Stream, bytes: usize) {
        let credit = self.execs().get_mut(&id).and_then(|row| match stream {
            Stream::Stdout => row.stdout.consume(bytes),
            Stream::Stderr => row.stderr.consume(bytes),
            Stream::Stdin | Stream::File | Stream::Outward | Stream::Inward => None,
        });
        if let Some(credit) = credit {
            let mut frame = BytesMut::new();
            encode_credit(id.into(), stream, credit, &mut frame);
            // A closed link ends the command by itself.
            let _ = self.send(frame).await;
        }
    }

    /// One frame of the guest.
    fn take(&self, frame: Frame<GuestMessage>) -> anyhow::Result<()> {
        if transfer::is_carried(&frame) {
            return self.transfers.take(frame);
        }
        match frame {
            Frame::Data {
                channel,
                stream: Stream::Outward,
                bytes,
            } => self.courier()?.accept(ConnectionId(channel.0), bytes),
            Frame::EndOfFile {
                channel,
                stream: Stream::Outward,
            } => self.courier()?.end(ConnectionId(channel.0)),
            Frame::Credit {
                channel,
                stream: Stream::Inward,
                bytes,
            } => self.courier()?.grant(ConnectionId(channel.0), bytes),
            Frame::Control(message) => self.take_message(message),
            Frame::Data {
                channel,
                stream,
                bytes,
            } => self.take_output(ExecId(channel.0), stream, bytes),
            Frame::EndOfFile { channel, stream } => {
                let mut execs = self.execs();
                let Some(row) = execs.get_mut(&ExecId(channel.0)) else {
                    return Ok(());
                };
                match stream {
                    Stream::Stdout => row.stdout.end()?,
                    Stream::Stderr => row.stderr.end()?,
                    Stream::Stdin | Stream::File | Stream::Outward | Stream::Inward => {
                        bail!("the guest ended a stream of the host")
                    }
                }
                Ok(())
            }
            Frame::Credit {
                channel,
                stream,
                bytes,
            } => {
                let mut execs = self.execs();
                let Some(row) = execs.get_mut(&ExecId(channel.0)) else {
                    return Ok(());
                };
                ensure!(
                    stream == Stream::Stdin,
                    "the guest gave credit for its own stream"
                );
                row.stdin.grant(bytes)?;
                row.stdin_grown.notify_one();
                Ok(())
            }
        }
    }

    /// Bytes of a command's output.
    fn take_output(&self, exec: ExecId, stream: Stream, bytes: Bytes) -> anyhow::Result<()> {
        let mut execs = self.execs();
        // Bytes of a command that ended may still be on their way.
        let Some(row) = execs.get_mut(&exec) else {
            return Ok(());
        };
        let window = match stream {
            Stream::Stdout => &mut row.stdout,
            Stream::Stderr => &mut row.stderr,
            Stream::Stdin | Stream::File | Stream::Outward | Stream::Inward => {
                bail!("the guest sent a stream of the host")
            }
        };
        window.accept(bytes.len())?;
        // A task that is gone has had its command killed.
        let _ = row.events.send(ExecEvent::Output(stream, bytes));
        Ok(())
    }

    /// Serves no further connection of a machine, and says no more how its commands end.
    pub(super) fn close_way_out(&self) {
        self.transfers.begin_last();
        if let Some(courier) = &self.courier {
            courier.close();
        }
    }

    fn courier(&self) -> anyhow::Result<&Arc<Courier>> {
        let courier = self.courier.as_ref();
        courier.context("the guest carries connections, which come by sockets here")
    }

    fn take_message(&self, message: GuestMessage) -> anyhow::Result<()> {
        if self.transfers.silences(&message) {
            return Ok(());
        }
        match message {
            GuestMessage::ProcessStarted { .. } => {}
            GuestMessage::ProcessEnded { exec, status } => {
                let status = match status {
                    ProcessStatus::Exited(code) => code & 0xff,
                    ProcessStatus::Signaled(signal) => 128 + (signal & 0x7f),
                };
                if let Some(row) = self.execs().remove(&exec) {
                    let _ = row.events.send(ExecEvent::Ended(status));
                }
            }
            GuestMessage::ProcessFailed {
                exec,
                code,
                message,
            } => {
                if let Some(row) = self.execs().remove(&exec) {
                    let code = serde_json::to_value(code)?;
                    let code = code.as_str().unwrap_or("failed").to_owned();
                    let _ = row.events.send(ExecEvent::Failed(code, message));
                }
            }
            GuestMessage::ConnectionOpened { connection, entry } => {
                self.courier()?.open(connection, entry)?;
            }
            GuestMessage::ConnectionClosed { connection } => self.courier()?.closed(connection)?,
            GuestMessage::Hello { .. }
            | GuestMessage::MachineUnusable { .. }
            | GuestMessage::MachineReady {} => {
                bail!("the guest said hello twice")
            }
            GuestMessage::WorkspaceFilled { request }
            | GuestMessage::DirectoryShown { request }
            | GuestMessage::WorkspacePacked { request } => {
                self.transfers.answer(request, Ok(()))?;
            }
            GuestMessage::RequestFailed { request, code, .. } => {
                self.transfers.answer(request, Err(code))?;
            }
            // Nothing here asks for single files yet, so an answer to that is out of order.
            other => bail!("the guest answered what was not asked: {}", kind_of(&other)),
        }
        Ok(())
    }
}
