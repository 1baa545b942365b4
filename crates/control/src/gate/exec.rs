// SPDX-License-Identifier: Apache-2.0
//! One command: its guest's events and its clients' frames, brought together. Output that a client
//! does not read is not credited to the guest, so a slow client slows its own command only, and a
//! signal gets through however much output waits.

use super::link::{ExecEvent, ExecHandle, Link};
use crate::front_door::stream::StreamSearch;
use crate::front_door::vault_value;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use torno_control_api::attach::{self, ClientFrame, CommandFrame};
use torno_guest_protocol::{ExecId, HostMessage, Signal, Stream, TerminalSize};

/// LIMIT: input frames of one client that wait; the client's socket holds the rest.
const INPUT_MAX: usize = 4;
/// LIMIT: output frames that wait for a client which joined later; one that is slower is let go.
const JOINED_MAX: usize = 64;

/// A client of a command.
struct Client {
    output: Output,
}

enum Output {
    /// The one that started it: waited for.
    First(mpsc::UnboundedSender<CommandFrame>),
    /// Joined later: never waited for.
    Joined(mpsc::Sender<CommandFrame>),
}

/// Runs a command to its end and returns its status.
pub(super) async fn run(
    link: Arc<Link>,
    mut handle: ExecHandle,
    (first, mut joining): (OwnedFd, mpsc::UnboundedReceiver<OwnedFd>),
    search: StreamSearch,
) -> i32 {
    let exec = handle.id;
    let (input, mut frames) = mpsc::channel::<ClientFrame>(INPUT_MAX);
    let mut clients = Vec::new();
    if let Ok(client) = Client::first(first, input.clone(), Arc::clone(&link), exec) {
        clients.push(client);
    }
    let mut pending = Pending::new(search);
    loop {
        tokio::select! {
            event = handle.events.recv() => match event {
                Some(ExecEvent::Output(stream, bytes)) => {
                    let count = bytes.len();
                    let frame = match stream {
                        Stream::Stderr => CommandFrame::Stderr(bytes.to_vec()),
                        Stream::Stdout
                        | Stream::Stdin
                        | Stream::File
                        | Stream::Outward
                        | Stream::Inward => CommandFrame::Stdout(bytes.to_vec()),
                    };
                    clients.retain(|client| client.offer(&frame));
                    if !clients.iter().any(Client::is_first) {
                        // Nobody to wait for: the output is dropped and the command goes on.
                        link.consumed(exec, stream, count).await;
                    }
                }
                Some(ExecEvent::Ended(status)) => {
                    clients.retain(|client| client.offer(&CommandFrame::Ended(status)));
                    return status;
                }
                Some(ExecEvent::Failed(code, message)) => {
                    let frame = CommandFrame::Failed(code, message);
                    clients.retain(|client| client.offer(&frame));
                    return 127;
                }
                None => return 137,
            },
            frame = frames.recv(), if pending.has_room() => {
                let Some(frame) = frame else { continue };
                if let Err(credential) = pending.take(frame, &link, exec).await {
                    let signal = Signal::Kill;
                    // A closed link has ended it already.
                    let _ = link.say(&HostMessage::SendSignal { exec, signal }).await;
                    let failure = vault_value("standard input", &credential);
                    let told = format!("{}: {}", failure.message, failure.hint);
                    let frame = CommandFrame::Failed(failure.code, told);
                    clients.retain(|client| client.offer(&frame));
                    return 125;
                }
            }
            () = handle.stdin_grown.notified() => pending.flush(&link, exec).await,
            Some(socket) = joining.recv() => {
                if let Ok(client) = Client::joined(socket, input.clone()) {
                    clients.push(client);
                }
            }
        }
    }
}

/// Standard input that was searched and waits for the guest's credit.
struct Pending {
    search: StreamSearch,
    bytes: VecDeque<u8>,
    end: bool,
}

impl Pending {
    const fn new(search: StreamSearch) -> Self {
        Self {
            search,
            bytes: VecDeque::new(),
            end: false,
        }
    }

    fn has_room(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Carries out one frame of a client, or names the credential whose value it would bring in. A
    /// link that is closed ends the command by itself.
    async fn take(&mut self, frame: ClientFrame, link: &Link, exec: ExecId) -> Result<(), String> {
        match frame {
            ClientFrame::Stdin(bytes) => {
                self.bytes.extend(self.search.push(bytes)?);
                self.flush(link, exec).await;
            }
            ClientFrame::StdinEnd => {
                self.bytes.extend(self.search.finish());
                self.end = true;
                self.flush(link, exec).await;
            }
            ClientFrame::Resize(rows, columns) => {
                let size = TerminalSize { rows, columns };
                let _ = link.say(&HostMessage::Resize { exec, size }).await;
            }
            ClientFrame::Signal(number) => {
                if let Some(signal) = signal(number) {
                    let _ = link.say(&HostMessage::SendSignal { exec, signal }).await;
                }
            }
            _ => {}
        }
        Ok(())
    }

    async fn flush(&mut self, link: &Link, exec: ExecId) {
        while !self.bytes.is_empty() {
            let (front, _) = self.bytes.as_slices();
            match link.send_stdin(exec, front).await {
                Ok(0) => return,
                Ok(sent) => drop(self.bytes.drain(..sent)),
                Err(_) => {
                    self.bytes.clear();
                    return;
                }
            }
        }
        if std::mem::take(&mut self.end) {
            // A closed link ends the command by itself.
            let _ = link.end_stdin(exec).await;
        }
    }
}

/// The signals that a client may send (signal(7), the numbers of every Linux architecture we run
/// on).
fn signal(number: u8) -> Option<Signal> {
    match number {
        1 => Some(Signal::Hangup),
        2 => Some(Signal::Interrupt),
        3 => Some(Signal::Quit),
        9 => Some(Signal::Kill),
        10 => Some(Signal::User1),
        12 => Some(Signal::User2),
        15 => Some(Signal::Terminate),
        18 => Some(Signal::Continue),
        20 => Some(Signal::TerminalStop),
        _ => None,
    }
}

impl Client {
    fn first(
        socket: OwnedFd,
        input: mpsc::Sender<ClientFrame>,
        link: Arc<Link>,
        exec: ExecId,
    ) -> std::io::Result<Self> {
        let (reader, writer) = split(socket)?;
        tokio::spawn(async move {
            read(reader, input.clone()).await;
            // Who started the command gives no more input; a command that ended takes none.
            let _ = input.send(ClientFrame::StdinEnd).await;
        });
        let (output, mut queue) = mpsc::unbounded_channel::<CommandFrame>();
        // LIMIT: the queue holds at most the credit of two streams, half a MiB.
        tokio::spawn(async move {
            let mut writer = writer;
            while let Some(frame) = queue.recv().await {
                let written = writer.write_all(&frame.encode()).await;
                match frame {
                    CommandFrame::Stdout(bytes) => {
                        link.consumed(exec, Stream::Stdout, bytes.len()).await;
                    }
                    CommandFrame::Stderr(bytes) => {
                        link.consumed(exec, Stream::Stderr, bytes.len()).await;
                    }
                    _ => {}
                }
                if written.is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            output: Output::First(output),
        })
    }

    fn joined(socket: OwnedFd, input: mpsc::Sender<ClientFrame>) -> std::io::Result<Self> {
        let (reader, mut writer) = split(socket)?;
        tokio::spawn(read(reader, input));
        let (output, mut queue) = mpsc::channel::<CommandFrame>(JOINED_MAX);
        tokio::spawn(async move {
            while let Some(frame) = queue.recv().await {
                if writer.write_all(&frame.encode()).await.is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            output: Output::Joined(output),
        })
    }

    /// Gives a frame to the client; false when the client is gone or too slow.
    fn offer(&self, frame: &CommandFrame) -> bool {
        match &self.output {
            Output::First(output) => output.send(frame.clone()).is_ok(),
            Output::Joined(output) => output.try_send(frame.clone()).is_ok(),
        }
    }

    fn is_first(&self) -> bool {
        matches!(self.output, Output::First(_))
    }
}

fn split(socket: OwnedFd) -> std::io::Result<(OwnedReadHalf, OwnedWriteHalf)> {
    let socket = std::os::unix::net::UnixStream::from(socket);
    socket.set_nonblocking(true)?;
    Ok(UnixStream::from_std(socket)?.into_split())
}

/// Reads a client's frames until it goes away. A frame of another form ends the reading: the
/// client is no brain of ours.
async fn read(mut reader: OwnedReadHalf, input: mpsc::Sender<ClientFrame>) {
    let mut buffer = Vec::new();
    let mut piece = [0_u8; 16 * 1024];
    loop {
        while let Ok(Some((kind, body, used))) = attach::split(&buffer) {
            let Ok(frame) = ClientFrame::decode(kind, body) else {
                return;
            };
            if input.send(frame).await.is_err() {
                return;
            }
            buffer.drain(..used);
        }
        if attach::split(&buffer).is_err() {
            return;
        }
        match reader.read(&mut piece).await {
            Ok(0) | Err(_) => return,
            Ok(read) => buffer.extend_from_slice(piece.get(..read).unwrap_or_default()),
        }
    }
}

/// Tells a client that its command could not be started.
pub(super) async fn fail(socket: OwnedFd, code: &str, message: &str) {
    let Ok((_, mut writer)) = split(socket) else {
        return;
    };
    let frame = CommandFrame::Failed(code.to_owned(), message.to_owned());
    // A client that went away needs no answer.
    let _ = writer.write_all(&frame.encode()).await;
}
