// SPDX-License-Identifier: Apache-2.0
//! Carries one command's stream to and from this process's own standard streams. The sandbox never
//! gets a descriptor of ours (attack case 133): bytes are read here, checked, and written here.

mod input;
pub(crate) mod install;
mod output;

use crate::stop::{NOT_EXECUTABLE, NOT_FOUND, Outcome, REFUSED, Stop};
use crate::terminal::{self, ModeGuard};
use input::Input;
use output::Output;
use std::os::fd::OwnedFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use torno_control_api::attach::{self, ClientFrame, CommandFrame};

/// LIMIT: frames of input that wait for the command; then our reader waits too.
const INPUT_FRAMES_MAX: usize = 8;
/// LIMIT: signals and sizes that wait; a person does not press faster, and more are dropped.
const SIGNALS_MAX: usize = 64;
/// LIMIT: the third signal that a command does not heed ends the relay.
const UNHEEDED_MAX: u32 = 3;

/// How a command's stream ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The command ended with this status.
    Status(i32),
    /// It could not run, or was ended by Torno: code and message.
    Failed(String, String),
    /// The stream broke off without a last word: the gate is gone.
    Lost,
    /// Who read our output went away.
    OutputClosed,
    /// The person insisted, with this signal.
    Left(u8),
}

/// How to carry it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    /// The command has a terminal of its own, and ours goes into raw mode.
    pub(crate) terminal: bool,
    /// `--raw`: no filter before our terminal.
    pub(crate) raw: bool,
}

impl Ended {
    /// The exit code for the workload's end, where it is known from the stream alone.
    pub(crate) fn exit(&self) -> u8 {
        match self {
            Self::Status(status) => u8::try_from(*status).unwrap_or(REFUSED),
            // Of the command's stream alone: the desk's own `not_found` is no missing command.
            Self::Failed(code, _) => match code.as_str() {
                "not_found" => NOT_FOUND,
                "not_executable" => NOT_EXECUTABLE,
                other => crate::desk::exit_code(other),
            },
            Self::Lost => REFUSED,
            // As a shell says it of a command that died of SIGPIPE.
            Self::OutputClosed => 128 + 13,
            Self::Left(number) => 128_u8.saturating_add(*number),
        }
    }
}

/// Carries the stream until it ends.
pub(crate) async fn relay(stream: OwnedFd, manner: Manner) -> Outcome<Ended> {
    let failed =
        |error: std::io::Error| Stop::new("the command's stream can't be used").because(&error);
    let stream = std::os::unix::net::UnixStream::from(stream);
    stream.set_nonblocking(true).map_err(failed)?;
    let (from_command, to_command) = UnixStream::from_std(stream).map_err(failed)?.into_split();

    let _modes = manner
        .terminal
        .then(ModeGuard::raw)
        .transpose()
        .map_err(failed)?;
    let (typed, input) = mpsc::channel(INPUT_FRAMES_MAX);
    let (urgent, signals) = mpsc::channel(SIGNALS_MAX);
    let reader = Input::start(typed).map_err(failed)?;
    if manner.terminal {
        // It may have changed since it was asked for; an attached command has another's.
        let size = terminal::size();
        drop(urgent.try_send(ClientFrame::Resize(size.rows, size.columns)));
    }
    let mut arrivals = Arrivals::watch(manner.terminal).map_err(failed)?;
    let mut output = Output::start(manner).map_err(failed)?;

    let ended = {
        let read = read_frames(from_command, &mut output);
        let write = write_frames(to_command, input, signals);
        tokio::pin!(read, write);
        let mut writing = true;
        loop {
            tokio::select! {
                ended = &mut read => break ended,
                // The command reads no more; how it ends is for the other direction to say.
                () = &mut write, if writing => writing = false,
                arrival = arrivals.next() => match arrival {
                    // A full queue means that the command takes nothing: it would not take this.
                    Arrival::Send(frame) => drop(urgent.try_send(frame)),
                    Arrival::Leave(number) => break Ended::Left(number),
                },
            }
        }
    };
    drop(reader);
    tokio::select! {
        () = output.finish() => {}
        Arrival::Leave(_) = arrivals.next() => {}
    }
    Ok(ended)
}

async fn read_frames(mut stream: OwnedReadHalf, output: &mut Output) -> Ended {
    let mut buffer = Vec::with_capacity(attach::FRAME_BYTES_MAX);
    loop {
        loop {
            let Ok(found) = attach::split(&buffer) else {
                return Ended::Lost;
            };
            let Some((kind, body, used)) = found else {
                break;
            };
            let Ok(frame) = CommandFrame::decode(kind, body) else {
                return Ended::Lost;
            };
            buffer.drain(..used);
            let open = match frame {
                CommandFrame::Stdout(bytes) => output.out(bytes).await,
                CommandFrame::Stderr(bytes) => output.err(bytes).await,
                CommandFrame::Ended(status) => return Ended::Status(status),
                CommandFrame::Failed(code, message) => return Ended::Failed(code, message),
                _ => return Ended::Lost,
            };
            if !open {
                return Ended::OutputClosed;
            }
        }
        // LIMIT: `split` refuses a longer frame: the buffer holds one frame and one read.
        match stream.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return Ended::Lost,
            Ok(_) => {}
        }
    }
}

async fn write_frames(
    mut stream: OwnedWriteHalf,
    mut input: mpsc::Receiver<ClientFrame>,
    mut signals: mpsc::Receiver<ClientFrame>,
) {
    loop {
        let frame = tokio::select! {
            biased;
            Some(frame) = signals.recv() => frame,
            Some(frame) = input.recv() => frame,
            else => return,
        };
        if stream.write_all(&frame.encode()).await.is_err() {
            return;
        }
    }
}

enum Arrival {
    Send(ClientFrame),
    Leave(u8),
}

/// Signals of this process, as the command is told them.
struct Arrivals {
    interrupt: Option<Signal>,
    quit: Option<Signal>,
    terminate: Signal,
    hang_up: Signal,
    resized: Signal,
    terminal: bool,
    unheeded: u32,
}

impl Arrivals {
    fn watch(terminal: bool) -> std::io::Result<Self> {
        // With a terminal of its own the command gets Ctrl-C and Ctrl-\ as bytes.
        let typed = |kind| (!terminal).then(|| signal(kind)).transpose();
        Ok(Self {
            interrupt: typed(SignalKind::interrupt())?,
            quit: typed(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            resized: signal(SignalKind::window_change())?,
            terminal,
            unheeded: 0,
        })
    }

    async fn next(&mut self) -> Arrival {
        loop {
            let number = tokio::select! {
                Some(()) = maybe(&mut self.interrupt) => 2,
                Some(()) = maybe(&mut self.quit) => 3,
                Some(()) = self.terminate.recv() => 15,
                Some(()) = self.hang_up.recv() => return Arrival::Leave(1),
                Some(()) = self.resized.recv() => {
                    if self.terminal {
                        let size = terminal::size();
                        return Arrival::Send(ClientFrame::Resize(size.rows, size.columns));
                    }
                    continue;
                }
            };
            self.unheeded += 1;
            return if self.unheeded >= UNHEEDED_MAX {
                Arrival::Leave(number)
            } else {
                Arrival::Send(ClientFrame::Signal(number))
            };
        }
    }
}

async fn maybe(signal: &mut Option<Signal>) -> Option<()> {
    match signal {
        Some(signal) => signal.recv().await,
        None => std::future::pending().await,
    }
}
