// SPDX-License-Identifier: Apache-2.0
//! The agent: greets the host, takes its frames one by one, and ends everything when the link ends
//! or the host breaks the protocol.

mod beginning;
mod plan;

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use rustix::process::{getpid, set_child_subreaper};
use tokio::io::AsyncReadExt as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use torno_guest_protocol::{
    ChannelId, ExecId, FileFailure, Frame, GuestMessage, HostDecoder, HostMessage, MachineEnd,
    PROTOCOL_VERSION, ProcessFailure, RequestId, Stream, Wall,
};

use beginning::refuse_inherited_descriptors;

use crate::courier::{self, Courier};
use crate::exec::{Exec, FirstKeeper, Order, Surroundings};
use crate::files::{self, Request};
use crate::link::{self, Reader, Sender};
use crate::machine::{self, Machine, Stage};
use crate::nursery::{Keepers, Nursery};
use crate::settings::Settings;
use crate::{tree, walls};

/// Serves one link to its end.
pub(crate) fn run(settings: Settings) -> anyhow::Result<()> {
    refuse_inherited_descriptors()?;
    attend(settings, None)
}

/// Is the init of a machine until its end.
pub(crate) fn run_machine() -> anyhow::Result<()> {
    let setup = machine::read();
    let end = setup
        .as_ref()
        .map_or(MachineEnd::PowerOff, |setup| setup.end);
    let ready = setup.and_then(|setup| machine::set_up(&setup));
    let outcome = ready.and_then(|(settings, machine)| attend(settings, Some(machine)));
    machine::power_off(end);
    outcome
}

fn attend(settings: Settings, machine: Option<Machine>) -> anyhow::Result<()> {
    let limits = walls::limit_resources()?;
    set_child_subreaper(Some(getpid())).context("cannot become the orphans' parent")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(serve(Arc::new(settings), machine, limits));
    // As init our end is everybody's; elsewhere they are ended one by one.
    if !tree::kill_descendants(getpid(), &std::collections::HashSet::new())? {
        eprintln!("torno-guest: processes survive the kill; destroy the sandbox");
    }
    runtime.shutdown_background();
    outcome
}

async fn serve(
    settings: Arc<Settings>,
    machine: Option<Machine>,
    limits: Wall,
) -> anyhow::Result<()> {
    let (port, listeners, nobodys) = match machine {
        Some(machine) => (Some(machine.link), machine.listeners, Some(machine.nobodys)),
        None => (None, None, None),
    };
    let (mut link, writer) = link::open(port)?;
    let (host, writing) = link::start_writer(writer);
    let keepers = Keepers::default();
    let raised = Nursery::start(Arc::clone(&settings), keepers.clone())?;
    let raised = match raised {
        Ok((nursery, found)) => {
            // While the host is on its way here.
            let first_keeper = FirstKeeper::start(&nursery, &settings).await;
            Ok((nursery, found, first_keeper))
        }
        Err(error) => Err(error),
    };
    let mut decoder = HostDecoder::new();
    if let (Some(nobodys), Ok((nursery, ..))) = (nobodys, &raised) {
        let stage = Stage {
            nursery,
            keepers: &keepers,
            settings: &settings,
        };
        beginning::renewal(&mut link, &mut decoder, &host, nobodys, &stage).await?;
    }
    beginning::until_greeted(&mut link, &mut decoder, &settings).await?;
    let (nursery, mut found, first_keeper) = raised?;
    found.push(limits);
    let hello = GuestMessage::Hello {
        version: PROTOCOL_VERSION,
        guest: env!("CARGO_PKG_VERSION").into(),
        walls: found,
    };
    if host.control(&hello).await.is_err() {
        return Ok(());
    }
    let courier = listeners.map(|listeners| Courier::start(listeners, host.clone()));
    let courier = courier.transpose().context("the workload's sockets")?;
    let (closed, closings) = mpsc::channel(CLOSINGS_MAX);
    let (requests_done, done) = mpsc::channel(CLOSINGS_MAX);
    let agent = Agent {
        around: Surroundings {
            settings,
            nursery,
            host,
            first_keeper,
            closed,
        },
        requests_done,
        keepers,
        execs: HashMap::new(),
        requests: HashMap::new(),
        last_id: None,
        courier,
    };
    let outcome = agent.attend(link, decoder, closings, done).await;
    writing.abort();
    outcome
}

struct Agent {
    around: Surroundings,
    requests_done: mpsc::Sender<RequestId>,
    keepers: Keepers,
    execs: HashMap<ExecId, Exec>,
    requests: HashMap<RequestId, Request>,
    /// The highest number the host has used; it uses none twice.
    last_id: Option<u32>,
    /// Carries the workload's connections, where the stack is the machine's own.
    courier: Option<Arc<Courier>>,
}

impl Agent {
    async fn attend(
        mut self,
        mut link: Reader,
        mut decoder: HostDecoder,
        mut closings: mpsc::Receiver<ExecId>,
        mut done: mpsc::Receiver<RequestId>,
    ) -> anyhow::Result<()> {
        let mut children = signal(SignalKind::child()).context("cannot watch children")?;
        let mut buffer = vec![0; READ_BYTES];
        loop {
            while let Some(frame) = decoder.next_frame()? {
                if self.take(frame).await? {
                    return Ok(());
                }
            }
            tokio::select! {
                count = link.read(&mut buffer) => match count.context("cannot read the link")? {
                    0 if decoder.is_mid_frame() => bail!("the link was cut within a frame"),
                    0 => return Ok(()),
                    count => decoder.push(buffer.get(..count).unwrap_or_default()),
                },
                Some(exec) = closings.recv() => {
                    self.execs.remove(&exec);
                }
                Some(request) = done.recv() => {
                    self.requests.remove(&request);
                }
                Some(()) = children.recv() => {
                    if self.keepers.reap() {
                        self.kill_strays()?;
                    }
                }
            }
        }
    }

    /// Kills whatever is our child without being a keeper: the family of a keeper that was killed.
    fn kill_strays(&self) -> anyhow::Result<()> {
        let keepers = self.keepers.lock();
        if !tree::kill_descendants(getpid(), &keepers)? {
            bail!("processes of a lost exec survive the kill");
        }
        Ok(())
    }

    /// Acts on one frame; true when the host wants the end.
    async fn take(&mut self, frame: Frame<HostMessage>) -> anyhow::Result<bool> {
        if courier::is_carried(&frame) {
            self.courier()?.take(&frame)?;
            return Ok(false);
        }
        match frame {
            Frame::Control(message) => return self.obey(message).await,
            Frame::Data {
                channel,
                stream,
                bytes,
            } => {
                if let Some(inlet) = self.inlet(channel, stream)? {
                    inlet.accept(&bytes)?;
                }
            }
            Frame::EndOfFile { channel, stream } => {
                if let Some(inlet) = self.inlet(channel, stream)? {
                    inlet.end()?;
                }
            }
            Frame::Credit {
                channel,
                stream,
                bytes,
            } => {
                if let Some(outlet) = self.outlet(channel, stream)? {
                    outlet.grant(bytes)?;
                }
            }
        }
        Ok(false)
    }

    async fn obey(&mut self, message: HostMessage) -> anyhow::Result<bool> {
        match message {
            HostMessage::Hello { .. } => bail!("the host greeted twice"),
            HostMessage::RehearseMachine {} | HostMessage::RenewMachine { .. } => {
                bail!("the host renewed what is somebody's")
            }
            HostMessage::Shutdown {} => return Ok(true),
            HostMessage::StartProcess { exec, .. } => self.start_process(exec, message).await?,
            HostMessage::Resize { exec, size } => self.order(exec, Order::Resize(size))?,
            HostMessage::SendSignal { exec, signal } => self.order(exec, Order::Signal(signal))?,
            HostMessage::CloseConnection { connection, reset } => {
                self.courier()?.close(connection, reset)?;
            }
            HostMessage::CancelRequest { request } => {
                self.known(ChannelId::from(request))?;
                if let Some(request) = self.requests.get(&request) {
                    request.cancel();
                }
            }
            HostMessage::ReadFile { request, .. }
            | HostMessage::WriteFile { request, .. }
            | HostMessage::ListDirectory { request, .. }
            | HostMessage::StatPath { request, .. }
            | HostMessage::MakeDirectory { request, .. }
            | HostMessage::MovePath { request, .. }
            | HostMessage::RemovePath { request, .. }
            | HostMessage::FillWorkspace { request, .. }
            | HostMessage::ShowDirectory { request, .. }
            | HostMessage::PackWorkspace { request, .. } => {
                self.start_request(request, message).await?
            }
        }
        Ok(false)
    }

    async fn start_process(&mut self, exec: ExecId, plan: HostMessage) -> anyhow::Result<()> {
        self.new_id(exec.0)?;
        let refusal = if self.execs.len() >= EXECS_MAX {
            Some((
                ProcessFailure::Busy,
                "too many execs at once; end one first".to_owned(),
            ))
        } else {
            plan::fault(&plan).map(|message| (ProcessFailure::BadArguments, message))
        };
        if let Some((code, message)) = refusal {
            // A closed link is noticed by the next read.
            let failed = GuestMessage::ProcessFailed {
                exec,
                code,
                message,
            };
            let _closed = self.host().control(&failed).await;
            return Ok(());
        }
        self.execs
            .insert(exec, Exec::start(exec, plan, self.around.clone()));
        Ok(())
    }

    async fn start_request(&mut self, id: RequestId, verb: HostMessage) -> anyhow::Result<()> {
        self.new_id(id.0)?;
        let started = if self.requests.len() < REQUESTS_MAX {
            files::start(id, verb, &self.around, self.requests_done.clone()).ok()
        } else {
            None
        };
        match started {
            Some(request) => {
                self.requests.insert(id, request);
            }
            None => {
                let failed = GuestMessage::RequestFailed {
                    request: id,
                    code: FileFailure::Busy,
                    message: "too many file requests at once; wait for one to end".into(),
                };
                // A closed link is noticed by the next read.
                let _closed = self.host().control(&failed).await;
            }
        }
        Ok(())
    }

    fn order(&self, exec: ExecId, order: Order) -> anyhow::Result<()> {
        self.known(ChannelId::from(exec))?;
        match self.execs.get(&exec) {
            Some(running) if !running.order(order) => bail!("the host floods exec {}", exec.0),
            _ => Ok(()),
        }
    }

    fn inlet(
        &self,
        channel: ChannelId,
        stream: Stream,
    ) -> anyhow::Result<Option<&crate::stream::Inlet>> {
        self.known(channel)?;
        Ok(match stream {
            Stream::Stdin => self.execs.get(&ExecId(channel.0)).map(|exec| &*exec.stdin),
            Stream::File => self
                .requests
                .get(&RequestId(channel.0))
                .map(|request| &*request.inlet),
            Stream::Stdout | Stream::Stderr | Stream::Outward | Stream::Inward => {
                bail!("the host sent on a stream of ours")
            }
        })
    }

    fn outlet(
        &self,
        channel: ChannelId,
        stream: Stream,
    ) -> anyhow::Result<Option<&crate::stream::Outlet>> {
        self.known(channel)?;
        let exec = self.execs.get(&ExecId(channel.0));
        Ok(match stream {
            Stream::Stdout => exec.map(|exec| &*exec.stdout),
            Stream::Stderr => exec.map(|exec| &*exec.stderr),
            Stream::File => self
                .requests
                .get(&RequestId(channel.0))
                .map(|request| &*request.outlet),
            Stream::Stdin | Stream::Outward | Stream::Inward => {
                bail!("the host gave credit for its own stream")
            }
        })
    }

    /// A number that was used: what comes late for an ended exec or request is dropped.
    fn known(&self, channel: ChannelId) -> anyhow::Result<()> {
        if self.last_id.is_none_or(|last| channel.0 > last) {
            bail!("the host used channel {} before it began", channel.0);
        }
        Ok(())
    }

    fn new_id(&mut self, id: u32) -> anyhow::Result<()> {
        if self.last_id.is_some_and(|last| id <= last) {
            bail!("the host used number {id} again or out of order");
        }
        self.last_id = Some(id);
        Ok(())
    }

    fn courier(&self) -> anyhow::Result<&Courier> {
        let courier = self.courier.as_deref();
        courier.context("the host spoke of a connection where none is carried")
    }

    const fn host(&self) -> &Sender {
        &self.around.host
    }
}

// LIMIT: far above what a brain runs side by side; each costs a keeper process.
const EXECS_MAX: usize = 256;
// LIMIT: each is a thread with at most a window of data.
const REQUESTS_MAX: usize = 64;
// LIMIT: ended execs and requests that wait for their removal; their tasks wait when it is full.
const CLOSINGS_MAX: usize = 16;
// LIMIT: two full data frames; the decoder holds at most one frame more.
const READ_BYTES: usize = 64 * 1024;
