// SPDX-License-Identifier: Apache-2.0
//! One exec, from the agent's side: its keeper, its three streams, its end.
//!
//! ```text
//!   start ──▶ running ──▶ draining ──▶ ended ──▶ closed
//!     │ ProcessFailed │ keeper reports   │ outputs empty:   │ keeper gone: no
//!     ▼               │ the end          │ ProcessEnded     │ descendant left
//!   closed ◀──────────┘ keeper lost: ProcessFailed
//! ```
//! What a program leaves running stays under its keeper and can still be killed after `ended`.

mod pump;

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use torno_guest_protocol::{
    ExecId, Frame, GuestDecoder, GuestMessage, HostMessage, ProcessFailure, ProcessStatus, Signal,
    Stream, TerminalSize, encode_control,
};

use self::pump::{Output, Sink, Source, pump_input};
use crate::handover::{self, Streams};
use crate::link::{LinkClosed, Sender};
use crate::nursery::Nursery;
use crate::settings::Settings;
use crate::stream::{Inlet, Outlet};
use crate::terminal::Terminal;

/// What the agent keeps of an exec.
#[derive(Debug)]
pub(crate) struct Exec {
    pub(crate) stdin: Arc<Inlet>,
    pub(crate) stdout: Arc<Outlet>,
    pub(crate) stderr: Arc<Outlet>,
    orders: mpsc::Sender<Order>,
}

/// What the host wants of a running exec.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    Signal(Signal),
    Resize(TerminalSize),
}

/// What every exec needs of the agent.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    pub(crate) settings: Arc<Settings>,
    pub(crate) nursery: Nursery,
    pub(crate) host: Sender,
    /// For the first exec, made before any program ran; a later one could be reached by programs.
    pub(crate) first_keeper: FirstKeeper,
    pub(crate) closed: mpsc::Sender<ExecId>,
}

/// The place of a keeper that was started ahead, or of none.
#[derive(Clone, Debug, Default)]
pub(crate) struct FirstKeeper(Arc<Mutex<Option<StdUnixStream>>>);

impl FirstKeeper {
    /// Starts it. Where that fails the first exec starts its own, and says what is wrong.
    pub(crate) async fn start(nursery: &Nursery, settings: &Arc<Settings>) -> Self {
        let keeper = start_keeper(nursery, settings).await.ok();
        Self(Arc::new(Mutex::new(keeper)))
    }

    fn take(&self) -> Option<StdUnixStream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

async fn start_keeper(nursery: &Nursery, settings: &Arc<Settings>) -> io::Result<StdUnixStream> {
    let (ours, theirs) = StdUnixStream::pair()?;
    nursery
        .start_keeper(Arc::clone(settings), theirs.into())
        .await?;
    Ok(ours)
}

impl Exec {
    /// Begins an exec. `plan` is the host's `StartProcess`, passed on to the keeper as it came.
    pub(crate) fn start(exec: ExecId, plan: HostMessage, around: Surroundings) -> Self {
        let (orders, queue) = mpsc::channel(ORDERS_MAX);
        let this = Self {
            stdin: Arc::default(),
            stdout: Arc::default(),
            stderr: Arc::default(),
            orders,
        };
        let running = Running {
            exec,
            stdin: Arc::clone(&this.stdin),
            stdout: Arc::clone(&this.stdout),
            stderr: Arc::clone(&this.stderr),
            around,
        };
        tokio::spawn(running.run(plan, queue));
        this
    }

    /// Passes an order on; false if the host sends faster than a keeper can take.
    pub(crate) fn order(&self, order: Order) -> bool {
        // An exec that has just closed needs no order any more.
        !matches!(
            self.orders.try_send(order),
            Err(mpsc::error::TrySendError::Full(_))
        )
    }
}

struct Running {
    exec: ExecId,
    stdin: Arc<Inlet>,
    stdout: Arc<Outlet>,
    stderr: Arc<Outlet>,
    around: Surroundings,
}

/// The agent's ends of the program's streams.
enum Ends {
    Pipes {
        stdin: pipe::Sender,
        stdout: pipe::Receiver,
        stderr: pipe::Receiver,
    },
    Terminal(Arc<Terminal>),
}

impl Running {
    async fn run(self, plan: HostMessage, orders: mpsc::Receiver<Order>) {
        let told = match self.begin(&plan).await {
            Ok((keeper, ends)) => self.attend(keeper, ends, orders).await,
            Err(error) => {
                let message = format!("cannot prepare the process: {error}");
                self.fail(ProcessFailure::NoResources, message).await
            }
        };
        // The agent only stops listening, and the link only closes, when the agent itself ends.
        let _agent_ends = (told, self.around.closed.send(self.exec).await);
    }

    async fn begin(&self, plan: &HostMessage) -> io::Result<(UnixStream, Ends)> {
        let size = match plan {
            HostMessage::StartProcess { tty, .. } => *tty,
            _ => None,
        };
        let (ends, streams) = match size {
            Some(size) => open_terminal(size)?,
            None => open_pipes()?,
        };
        for stream in &streams {
            // So that the program may open /dev/stdout; where we are the same user it is so
            // already.
            let settings = &self.around.settings;
            let _same_user = rustix::fs::fchown(stream, Some(settings.uid), Some(settings.gid));
        }
        let mut bytes = BytesMut::new();
        encode_control(plan, &mut bytes).map_err(io::Error::other)?;
        let first = bytes.get(..1).unwrap_or_default();
        let give = |keeper: StdUnixStream| {
            handover::send(&keeper, first, &streams).map(|sent| (keeper, sent))
        };
        let given = self.around.first_keeper.take().map(give);
        let (ours, sent) = match given {
            Some(Ok(given)) => given,
            // None was started ahead, or it is gone.
            Some(Err(_)) | None => {
                give(start_keeper(&self.around.nursery, &self.around.settings).await?)?
            }
        };
        drop(streams);
        ours.set_nonblocking(true)?;
        let mut keeper = UnixStream::from_std(ours)?;
        keeper
            .write_all(bytes.get(sent..).unwrap_or_default())
            .await?;
        Ok((keeper, ends))
    }

    /// Serves the exec until its keeper is gone.
    async fn attend(
        &self,
        mut keeper: UnixStream,
        ends: Ends,
        mut orders: mpsc::Receiver<Order>,
    ) -> Result<(), LinkClosed> {
        let (program_ended, ended) = watch::channel(false);
        let terminal = match &ends {
            Ends::Terminal(terminal) => Some(Arc::clone(terminal)),
            Ends::Pipes { .. } => None,
        };
        let mut terminal = terminal;
        let (mut inputs, mut outputs) = self.pump(ends, &ended);
        let mut decoder = GuestDecoder::new();
        let mut status = None;
        let mut is_reported = false;
        loop {
            tokio::select! {
                Some(order) = orders.recv() => {
                    carry_out(order, terminal.as_deref(), &mut keeper).await;
                }
                message = next_report(&mut keeper, &mut decoder) => match message {
                    Some(started @ GuestMessage::ProcessStarted { .. }) => {
                        self.around.host.control(&started).await?;
                    }
                    Some(GuestMessage::ProcessEnded { status: end, .. }) => {
                        status = Some(end);
                        let _outputs_may_be_over = program_ended.send(true);
                    }
                    Some(GuestMessage::ProcessFailed { code, message, .. }) => {
                        inputs.shutdown().await;
                        outputs.shutdown().await;
                        return self.fail(code, message).await;
                    }
                    // Without words or with wrong ones: the keeper is gone or was taken over.
                    _ if is_reported => return Ok(()),
                    _ => match status {
                        Some(status) => {
                            return self.finish(status, &mut inputs, &mut outputs).await;
                        }
                        None => {
                            inputs.shutdown().await;
                            outputs.shutdown().await;
                            let message = "the keeper was killed from inside; start it again";
                            // The agent ends the family when it reaps the keeper.
                            return self.fail(ProcessFailure::KeeperLost, message.into()).await;
                        }
                    },
                },
                Some(_pump) = outputs.join_next(), if !is_reported => {}
            }
            if let Some(status) = status
                && outputs.is_empty()
                && !is_reported
            {
                self.finish(status, &mut inputs, &mut outputs).await?;
                terminal = None;
                is_reported = true;
            }
        }
    }

    /// All output was sent: no input is wanted any more, and the end is the last word.
    async fn finish(
        &self,
        status: ProcessStatus,
        inputs: &mut JoinSet<()>,
        outputs: &mut JoinSet<()>,
    ) -> Result<(), LinkClosed> {
        while outputs.join_next().await.is_some() {}
        self.stdin.cancel();
        inputs.shutdown().await;
        self.around
            .host
            .control(&GuestMessage::ProcessEnded {
                exec: self.exec,
                status,
            })
            .await
    }

    async fn fail(&self, code: ProcessFailure, message: String) -> Result<(), LinkClosed> {
        let failed = GuestMessage::ProcessFailed {
            exec: self.exec,
            code,
            message,
        };
        self.around.host.control(&failed).await
    }

    fn pump(&self, ends: Ends, ended: &watch::Receiver<bool>) -> (JoinSet<()>, JoinSet<()>) {
        let (mut inputs, mut outputs) = (JoinSet::new(), JoinSet::new());
        let output = |stream, outlet: &Arc<Outlet>, source| {
            let pump = Output {
                exec: self.exec,
                stream,
                outlet: Arc::clone(outlet),
                host: self.around.host.clone(),
                ended: ended.clone(),
            };
            pump.run(source)
        };
        let input = |sink| {
            pump_input(
                self.exec,
                Arc::clone(&self.stdin),
                self.around.host.clone(),
                sink,
            )
        };
        match ends {
            Ends::Pipes {
                stdin,
                stdout,
                stderr,
            } => {
                inputs.spawn(input(Sink::Pipe(Some(stdin))));
                outputs.spawn(output(Stream::Stdout, &self.stdout, Source::Pipe(stdout)));
                outputs.spawn(output(Stream::Stderr, &self.stderr, Source::Pipe(stderr)));
            }
            Ends::Terminal(terminal) => {
                inputs.spawn(input(Sink::Terminal(Arc::clone(&terminal))));
                outputs.spawn(output(
                    Stream::Stdout,
                    &self.stdout,
                    Source::Terminal(terminal),
                ));
            }
        }
        (inputs, outputs)
    }
}

fn open_pipes() -> io::Result<(Ends, Streams)> {
    let ((in_read, in_write), (out_read, out_write), (err_read, err_write)) =
        (io::pipe()?, io::pipe()?, io::pipe()?);
    let ends = Ends::Pipes {
        stdin: pipe::Sender::from_owned_fd(in_write.into())?,
        stdout: pipe::Receiver::from_owned_fd(out_read.into())?,
        stderr: pipe::Receiver::from_owned_fd(err_read.into())?,
    };
    Ok((ends, [in_read.into(), out_write.into(), err_write.into()]))
}

fn open_terminal(size: TerminalSize) -> io::Result<(Ends, Streams)> {
    let (terminal, slave) = Terminal::open(size)?;
    let streams: [OwnedFd; 3] = [slave.try_clone()?, slave.try_clone()?, slave];
    Ok((Ends::Terminal(Arc::new(terminal)), streams))
}

async fn carry_out(order: Order, terminal: Option<&Terminal>, keeper: &mut UnixStream) {
    match order {
        Order::Resize(size) => {
            // A terminal whose program has ended needs no size.
            let _ended = terminal.map(|terminal| terminal.resize(size));
        }
        Order::Signal(signal) => {
            // The keeper knows its exec; the number is only for the reader of a trace.
            let message = HostMessage::SendSignal {
                exec: ExecId(0),
                signal,
            };
            let mut bytes = BytesMut::new();
            if encode_control(&message, &mut bytes).is_ok() {
                // A keeper that is gone is noticed by its closed socket.
                let _keeper_gone = keeper.write_all(&bytes).await;
            }
        }
    }
}

/// The keeper's next message, `None` when it is gone or talks nonsense. Safe to drop and call
/// again.
async fn next_report(keeper: &mut UnixStream, decoder: &mut GuestDecoder) -> Option<GuestMessage> {
    let mut buffer = [0; 4_096];
    loop {
        match decoder.next_frame() {
            Ok(Some(Frame::Control(message))) => return Some(message),
            Ok(Some(_)) | Err(_) => return None,
            Ok(None) => {}
        }
        match keeper.read(&mut buffer).await {
            Ok(count @ 1..) => decoder.push(buffer.get(..count)?),
            Ok(0) | Err(_) => return None,
        }
    }
}

// LIMIT: signals and sizes waiting for one keeper; a person's window drag makes tens a second.
const ORDERS_MAX: usize = 64;
