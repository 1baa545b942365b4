// SPDX-License-Identifier: Apache-2.0
//! The launcher: applies sandbox plans. It alone is root, of the host or, started by an ordinary
//! user, of a namespace that holds that user's subordinate ids; it has no network, no credential
//! and
//! no session data but shape, and opens no path that a client named but the read-only directories
//! of an accepted policy.

mod checkpoints;
mod disk;
mod failed;
mod images;
mod journal;
mod kvm;
mod leftovers;
mod levels;
mod machines;
mod over;
mod places;
mod ranges;
mod removal;
mod sandboxes;
mod shape;
mod spare_network;
mod spare_sandbox;
mod templates;

use crate::orders::{
    CheckpointOrder, FromSupervisor, LauncherReply, LauncherRequest, ReturnOrder, SandboxOrder,
};
use crate::role_channel::{self, exactly, receive};
use anyhow::{Context, bail};
use disk::{DiskWatch, Over, Spent};
use sandboxes::{Failed, Sandboxes, StartedSandbox};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
use tokio::sync::mpsc;
use torno_control_api::channel::Channel;
use torno_policy::names::SessionId;
use torno_policy::standing::Phase;
use torno_sandbox::Refusal;

/// The keeper process beside each sandbox.
pub(crate) fn keeper(arguments: Vec<String>) -> std::process::ExitCode {
    torno_sandbox::keeper_main(arguments.into_iter().map(OsString::from))
}

/// Becomes root of a user namespace where the daemon isn't root. Before anything else: the process
/// still has one thread, and its files in /proc are the user's, as newuidmap(1) wants.
pub(crate) fn take_rights() -> Result<(), Refusal> {
    torno_sandbox::enter_user_namespace(&torno_sandbox::Paths::default())
}

/// Runs the role until the supervisor's channel closes.
pub(crate) async fn run(supervisor: Channel, rights: Result<(), Refusal>) -> anyhow::Result<()> {
    let (start, descriptors) = receive(&supervisor).await?.context("no start")?;
    let FromSupervisor::Start(start) = start else {
        bail!("no start")
    };
    let [desk, _alive] = exactly(descriptors)?;
    let desk = Channel::new(desk)?;
    torno_sandbox::adopt_orphans().context("subreaper")?;
    let (disk, mut spent) = DiskWatch::start(start.directory.clone()).context("disk watch")?;
    let mut sandboxes = Sandboxes::new(&start, rights, disk)?;
    let mut gates: BTreeMap<SessionId, Channel> = BTreeMap::new();
    let (ended, mut endings) = mpsc::unbounded_channel();
    loop {
        tokio::select! {
            message = receive::<FromSupervisor>(&supervisor) => {
                if !heed(message?, &mut sandboxes, &mut gates)? {
                    return Ok(());
                }
            }
            request = receive::<LauncherRequest>(&desk) => {
                let Some((request, given)) = request? else {
                    sandboxes.kill_at_once(None);
                    return Ok(());
                };
                // Its gate joined before a start was ordered, but on another socket.
                while let LauncherRequest::Start(order) = &request
                    && !gates.contains_key(&order.session)
                {
                    let joins = receive::<FromSupervisor>(&supervisor);
                    let Ok(message) = tokio::time::timeout(JOIN_WAIT, joins).await else {
                        break;
                    };
                    if !heed(message?, &mut sandboxes, &mut gates)? {
                        return Ok(());
                    }
                }
                let mut service = Service {
                    sandboxes: &mut sandboxes,
                    gates: &mut gates,
                    ended: &ended,
                };
                let (reply, give) = service.serve(request, given).await;
                let give: Vec<_> = give.iter().map(AsFd::as_fd).collect();
                role_channel::send(&desk, &reply, &give).await?;
            }
            Some(spent) = spent.recv() => {
                let Spent::Session(Over { session, low }) = spent else {
                    sandboxes.make_room();
                    continue;
                };
                // The desk ends it, gate first. Were its sandbox killed here, that would look like
                // the death of its gate.
                let event = LauncherReply::DiskSpent { session, low };
                role_channel::send(&desk, &event, &[]).await?;
            }
            () = tokio::time::sleep_until(sandboxes.network.due()) => sandboxes.network.begin(),
            () = tokio::time::sleep_until(sandboxes.spares.due()) => sandboxes.tend_spares(),
            () = tokio::time::sleep_until(sandboxes.templates.due()) => sandboxes.tend_templates(),
            Some((session, phase)) = endings.recv() => {
                let event = LauncherReply::SandboxEnded { session, phase };
                role_channel::send(&desk, &event, &[]).await?;
            }
        }
    }
}

/// LIMIT: what joined before is in the socket already. Only a start that a kill has overtaken waits
/// this long, and is then refused.
const JOIN_WAIT: Duration = Duration::from_millis(100);

/// What the supervisor says; false when it is gone, and every sandbox with it.
fn heed(
    message: Option<(FromSupervisor, Vec<OwnedFd>)>,
    sandboxes: &mut Sandboxes,
    gates: &mut BTreeMap<SessionId, Channel>,
) -> anyhow::Result<bool> {
    match message {
        Some((FromSupervisor::GateJoined { session, .. }, given)) => {
            let [gate] = exactly(given)?;
            gates.insert(session, Channel::new(gate)?);
        }
        Some((FromSupervisor::Kill { session }, _)) => {
            sandboxes.kill_at_once(session.as_ref());
        }
        Some(_) => bail!("not for the launcher"),
        None => {
            sandboxes.kill_at_once(None);
            return Ok(false);
        }
    }
    Ok(true)
}

/// One request.
struct Service<'a> {
    sandboxes: &'a mut Sandboxes,
    gates: &'a mut BTreeMap<SessionId, Channel>,
    ended: &'a mpsc::UnboundedSender<(SessionId, Phase)>,
}

impl Service<'_> {
    async fn serve(
        &mut self,
        request: LauncherRequest,
        given: Vec<OwnedFd>,
    ) -> (LauncherReply, Vec<OwnedFd>) {
        match self.try_serve(request, given).await {
            Ok(reply) => reply,
            Err(Failed {
                code,
                message,
                hint,
            }) => (
                LauncherReply::Failed {
                    code,
                    message,
                    hint,
                },
                Vec::new(),
            ),
        }
    }

    async fn try_serve(
        &mut self,
        request: LauncherRequest,
        given: Vec<OwnedFd>,
    ) -> Result<(LauncherReply, Vec<OwnedFd>), Failed> {
        let reply = match request {
            LauncherRequest::Prepare {
                session,
                phase,
                owner,
            } => {
                let workspace = self.sandboxes.places.prepare(&session, phase, owner)?;
                return Ok((LauncherReply::Prepared, vec![workspace]));
            }
            LauncherRequest::OpenWorkspace { session } => {
                return Ok((
                    LauncherReply::Workspace,
                    self.sandboxes.bring_back(&session)?,
                ));
            }
            LauncherRequest::Return(order) => return self.serve_return(order),
            LauncherRequest::Checkpoint(order) => return self.serve_checkpoint(order, given),
            LauncherRequest::Start(order) => self.start(*order, given).await?,
            LauncherRequest::Kill { session } => {
                self.gates.remove(&session);
                let census = self.sandboxes.kill(&session);
                LauncherReply::Killed {
                    before: census.0,
                    after: census.1,
                }
            }
            LauncherRequest::Hold { session, held } => {
                self.sandboxes.hold(&session, held)?;
                LauncherReply::Held
            }
            LauncherRequest::GiveUpSpares => {
                self.sandboxes.give_up_spares();
                LauncherReply::Removed
            }
            LauncherRequest::LeaveInstall { session } => {
                self.sandboxes.leave(&session)?;
                LauncherReply::Removed
            }
            LauncherRequest::MergeInstall { session, owner } => {
                self.sandboxes.places.merge_install(&session, owner)?;
                LauncherReply::Removed
            }
            LauncherRequest::Remove {
                session,
                keep_workspace,
            } => {
                self.gates.remove(&session);
                self.sandboxes.remove(&session, keep_workspace)?;
                LauncherReply::Kept(self.sandboxes.places.kept_sessions())
            }
            LauncherRequest::Leftovers { living, remove } => {
                let (found, forgotten) = self.sandboxes.leftovers(&living, remove)?;
                LauncherReply::Leftovers {
                    found,
                    forgotten,
                    kept: self.sandboxes.places.kept_sessions(),
                }
            }
            LauncherRequest::Probe { only } => LauncherReply::Probed(self.sandboxes.probe(only)),
            LauncherRequest::FindImage { image, isolation } => {
                self.sandboxes.find_image(&image, isolation)?
            }
        };
        Ok((reply, Vec::new()))
    }

    /// A sandbox, whose way out and link its gate gets.
    async fn start(
        &mut self,
        order: SandboxOrder,
        given: Vec<OwnedFd>,
    ) -> Result<LauncherReply, Failed> {
        let (session, phase) = (order.session.clone(), order.phase);
        let started = self.sandboxes.start(order, given)?;
        if let Err(failed) = self.hand_over(&session, &started).await {
            // Nobody would ever ask for it: it goes at once.
            self.sandboxes.kill(&session);
            self.sandboxes.leave(&session)?;
            return Err(failed);
        }
        self.watch_end(&session, phase, started.vital);
        Ok(LauncherReply::Started {
            environment: started.environment,
            claimed: started.claimed,
        })
    }

    /// What is kept of sessions' workspaces.
    fn serve_checkpoint(
        &mut self,
        order: CheckpointOrder,
        given: Vec<OwnedFd>,
    ) -> Result<(LauncherReply, Vec<OwnedFd>), Failed> {
        let checkpoints = &mut self.sandboxes.checkpoints;
        match order {
            CheckpointOrder::Begin { name, owner } => {
                let (tree, room) = checkpoints.begin(name, owner)?;
                return Ok((LauncherReply::CheckpointBegun { room }, vec![tree]));
            }
            CheckpointOrder::Keep(about) => {
                let [baseline] = exactly(given).map_err(|e| Failed::internal(&format!("{e:#}")))?;
                checkpoints.keep(&about, baseline)?;
            }
            CheckpointOrder::GiveUp { name } => checkpoints.give_up(&name)?,
            CheckpointOrder::List => {
                return Ok((LauncherReply::Checkpoints(checkpoints.list()?), Vec::new()));
            }
            CheckpointOrder::Open { name } => {
                let (about, tree) = checkpoints.open(&name)?;
                return Ok((LauncherReply::Checkpoints(vec![about]), vec![tree]));
            }
            CheckpointOrder::OpenBaseline { name } => {
                let (about, baseline) = checkpoints.baseline(&name)?;
                return Ok((LauncherReply::Checkpoints(vec![about]), vec![baseline]));
            }
            CheckpointOrder::Remove { name } => checkpoints.remove(&name)?,
            CheckpointOrder::RemoveFound(about) => checkpoints.remove_found(&about)?,
        }
        Ok((LauncherReply::Removed, Vec::new()))
    }

    /// What came out of a machine.
    fn serve_return(&self, order: ReturnOrder) -> Result<(LauncherReply, Vec<OwnedFd>), Failed> {
        let places = &self.sandboxes.places;
        match order {
            ReturnOrder::Prepare {
                session,
                returned,
                owner,
            } => {
                let made = places.prepare_return(&session, returned, owner)?;
                return Ok((LauncherReply::Prepared, vec![made]));
            }
            ReturnOrder::Take { session, phase } => places.take_return(&session, phase)?,
            ReturnOrder::Drop { session, returned } => places.drop_return(&session, returned)?,
        }
        Ok((LauncherReply::Removed, Vec::new()))
    }

    /// Gives the session's gate its way out and the link.
    async fn hand_over(
        &mut self,
        session: &SessionId,
        started: &StartedSandbox,
    ) -> Result<(), Failed> {
        let gate = self
            .gates
            .get(session)
            .ok_or_else(|| Failed::internal("the gate is gone"))?;
        let give: Vec<_> = started.way_out.iter().map(AsFd::as_fd).collect();
        let sent = role_channel::send(gate, &started.ready, &give).await;
        sent.map_err(|e| Failed::internal(&format!("{e:#}")))
    }

    /// Says once when the sandbox has ended, or has lost what it can't be without.
    fn watch_end(&self, session: &SessionId, phase: Phase, vital: Vec<OwnedFd>) {
        let (ended, session) = (self.ended.clone(), session.clone());
        tokio::task::spawn_local(async move {
            // A thread of the blocking pool would wait as well; polling a pidfd costs less.
            while !sandboxes::has_one_ended(&vital) {
                tokio::time::sleep(sandboxes::END_POLL).await;
            }
            // The receiver lives as long as the launcher.
            let _ = ended.send((session, phase));
        });
    }
}
