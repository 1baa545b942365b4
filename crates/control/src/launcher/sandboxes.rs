// SPDX-License-Identifier: Apache-2.0
//! The sandboxes of this machine and their lives.

mod boot;
mod claim;
mod listed;
mod machine;
mod probes;

pub(super) use super::failed::Failed;

use super::checkpoints::Checkpoints;
use super::disk::{DiskWatch, runs_low};
use super::images::Images;
use super::journal::{self, Entry, Journal};
use super::kvm::Kvm;
use super::machines::Machines;
use super::places::{self, Places};
use super::ranges::{Range, Ranges};
use super::shape;
use super::spare_network::SpareNetwork;
use super::spare_sandbox::SpareSandboxes;
use super::templates::Templates;
use crate::orders::{SandboxOrder, SandboxReady, Start};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;
use torno_control_api::images::Held;
use torno_policy::grant::Isolation;
use torno_policy::names::SessionId;
use torno_policy::standing::Phase;
use torno_sandbox::{
    CgroupHost, Entrances, Handle, HostFacts, Paths, Plan, Refusal, Rights, SandboxId, SandboxSpec,
    Started, VerifiedGuest,
};

/// How often a sandbox's first process is looked at.
pub(super) const END_POLL: Duration = Duration::from_millis(50);

/// A sandbox that runs, as its gate and the desk need to know it.
pub(super) struct StartedSandbox {
    pub(super) ready: SandboxReady,
    /// As `ready` says.
    pub(super) way_out: Vec<OwnedFd>,
    pub(super) environment: Vec<(String, String)>,
    /// Its name, if it was made ahead.
    pub(super) claimed: Option<String>,
    /// Readable when one of them has ended, and the sandbox must ([`Handle::vital`]).
    pub(super) vital: Vec<OwnedFd>,
}

/// Every sandbox.
pub(super) struct Sandboxes {
    pub(super) places: Places,
    pub(super) checkpoints: Checkpoints,
    disk: DiskWatch,
    /// For the next start.
    pub(super) network: SpareNetwork,
    pub(super) spares: SpareSandboxes,
    pub(super) templates: Templates,
    pub(super) journal: Journal,
    guest: Result<VerifiedGuest, String>,
    facts: HostFacts,
    live: BTreeMap<SessionId, Life>,
    ranges: Ranges,
    probes: Vec<(Isolation, probes::Probed)>,
    machines: Machines,
    kvm: Kvm,
    /// What sandboxes may be made of.
    pub(super) images: Images,
}

/// A session's sandbox. What it has goes in this order.
struct Life {
    handle: Handle,
    /// Processes that a kill found alive first.
    found: usize,
    _range: Range,
    /// Where it was made ahead.
    _entry: Option<Entry>,
    /// What it is made of; one made ahead has it in its entry.
    _image: Option<Held>,
}

/// A sandbox that runs, before it is entered.
struct Booted {
    started: Started,
    /// Our end of its agent's link.
    link: OwnedFd,
    range: Range,
    /// What every command in it starts from.
    environment: Vec<(String, String)>,
    entry: Option<Entry>,
    /// What it is made of, where it has no entry.
    image: Option<Held>,
}

impl Sandboxes {
    /// Reads the host's facts, and removes what an earlier life left behind.
    pub(super) fn new(
        start: &Start,
        rights: Result<(), Refusal>,
        disk: DiskWatch,
    ) -> anyhow::Result<Self> {
        let mut paths = Paths {
            keeper: Some(PathBuf::from("/proc/self/exe")),
            ..Paths::default()
        };
        // Runtimes that came with this installation lie beside the guest agent and are found first.
        if let Some(beside) = start.guest.parent() {
            let runtimes = beside.join("runtimes");
            paths.machines.insert(0, runtimes.join("machine"));
            paths.search.insert(0, runtimes);
        }
        let mut facts = HostFacts::gather(&paths);
        if let Err(refusal) = rights {
            facts.rights = Err(refusal);
        }
        let nft = facts.rights.is_ok().then(|| facts.nft.clone()).flatten();
        // Only what this directory names is ours: another daemon may run beside us.
        let mut ours = places::sessions(&start.directory)?;
        ours.extend(journal::written(&start.directory)?);
        let foreign = |id: &SandboxId| !ours.contains(id.as_str());
        for left in torno_sandbox::sweep(&facts.cgroups, foreign)? {
            tracing::warn!("sandbox {left} of an earlier life was still there; removed");
        }
        let rights = facts.rights.clone().ok();
        let root = rights == Some(Rights::Root);
        Ok(Self {
            places: Places::new(start.directory.clone(), root)?,
            checkpoints: Checkpoints::new(start.checkpoints.clone(), root)?,
            disk,
            guest: load_guest(&start.guest),
            network: SpareNetwork::new(nft),
            spares: SpareSandboxes::new(start.pool),
            templates: Templates::new(start.templates),
            journal: Journal::begin(&start.directory, facts.cgroups.clone())?,
            facts,
            live: BTreeMap::new(),
            ranges: Ranges::new(rights),
            probes: Vec::new(),
            machines: Machines::new(paths),
            kvm: Kvm::new(start.kvm),
            images: Images::new(start.images.clone()),
        })
    }

    /// Starts a sandbox, or gives the session one of its shape that was made ahead.
    pub(super) fn start(
        &mut self,
        order: SandboxOrder,
        given: Vec<OwnedFd>,
    ) -> Result<StartedSandbox, Failed> {
        let (session, phase) = (order.session.clone(), order.phase);
        self.places.check_fence(&session)?;
        listed::check(&order, given)?;
        if self.live.contains_key(&session) {
            return Err(Failed::internal("the session has a sandbox already"));
        }
        let (shape, own) = shape::split(order);
        let claimed = match self.spares.take(&shape) {
            Some(waiting) => self.claim(&session, phase, (&shape, &own), waiting)?,
            None => None,
        };
        let booted = match claimed {
            Some(booted) => booted,
            None => {
                // A machine's copy goes in over the link.
                let shares = shape.has_workspace() && !shape.is_machine();
                let workspace = shares.then(|| self.places.open(&session, phase));
                let workspace = workspace.transpose()?;
                self.boot(&session, (&shape, &own), workspace)?
            }
        };
        let disk_bytes = shape.disk_bytes();
        self.spares.used(shape, Instant::now());
        self.enter(session, disk_bytes, booted)
    }

    /// Enters a sandbox as a session's.
    fn enter(
        &mut self,
        session: SessionId,
        disk_bytes: u64,
        booted: Booted,
    ) -> Result<StartedSandbox, Failed> {
        let Started {
            entrances,
            handle,
            link,
            renewal: _,
        } = booted.started;
        let vital = handle.vital();
        let vital = vital.map_err(|e| Failed::internal(&e.to_string()))?;
        self.disk
            .add(session.clone(), disk_bytes, handle.directories());
        let claimed = booted.entry.as_ref().map(|entry| entry.id().to_string());
        let life = Life {
            handle,
            found: 0,
            _range: booted.range,
            _entry: booted.entry,
            _image: booted.image,
        };
        self.live.insert(session, life);
        let (ready, way_out) = way_out(entrances, link.unwrap_or(booted.link))?;
        Ok(StartedSandbox {
            ready,
            way_out,
            environment: booted.environment,
            claimed,
            vital,
        })
    }

    /// The workspace copy of a session, for its owner's porter; and, where its files belong to ids
    /// that only this namespace has, the namespace.
    pub(super) fn bring_back(&self, session: &SessionId) -> Result<Vec<OwnedFd>, Failed> {
        let runs = self.live.contains_key(session);
        let mut given = vec![self.places.open(session, Phase::Locked)?];
        if !self.places.give_back(session, runs)? {
            let own = rustix::fs::open(
                "/proc/self/ns/user",
                OFlags::RDONLY | OFlags::CLOEXEC,
                Mode::empty(),
            );
            given.push(own.map_err(|e| Failed::internal(&format!("our own namespace: {e}")))?);
        }
        Ok(given)
    }

    /// Sessions that have a sandbox.
    pub(super) fn live_sessions(&self) -> BTreeSet<SessionId> {
        self.live.keys().cloned().collect()
    }

    /// Where groups lie.
    pub(super) fn cgroups(&self) -> &CgroupHost {
        &self.facts.cgroups
    }

    fn guest(&self) -> Result<VerifiedGuest, Failed> {
        self.guest.clone().map_err(|message| Failed {
            code: "guest_unusable".to_owned(),
            message,
            hint: "install torno, tornod and torno-guest of one build together".to_owned(),
        })
    }

    fn plan(&self, spec: &SandboxSpec) -> Result<Plan, Failed> {
        torno_sandbox::plan(spec, &self.facts)
            .map_err(|e| Failed::new("sandbox_refused", &e, "change the policy's [sandbox]"))
    }

    /// Kills a session's sandbox: processes before and after.
    pub(super) fn kill(&mut self, session: &SessionId) -> (u32, u32) {
        let Some(life) = self.live.get_mut(session) else {
            return (0, 0);
        };
        let census = life.handle.kill();
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        (
            count(life.found.max(census.alive_before)),
            count(census.alive_after),
        )
    }

    /// Holds every process of a session's sandbox still, or lets them go on.
    pub(super) fn hold(&mut self, session: &SessionId, held: bool) -> Result<(), Failed> {
        let life = self.live.get_mut(session);
        let life = life.ok_or_else(|| Failed::internal("the session has no sandbox"))?;
        life.handle.set_frozen(held).map_err(|error| Failed {
            code: "session_not_held".to_owned(),
            message: format!("not every process of `{session}` stood still: {error}"),
            hint: "try again; `torno kill` ends it all the same".to_owned(),
        })
    }

    /// Kills without asking who wants to know.
    pub(super) fn kill_at_once(&mut self, session: Option<&SessionId>) {
        let wanted = |id: &SessionId| session.is_none_or(|session| session == id);
        for (_, life) in self.live.iter_mut().filter(|(id, _)| wanted(id)) {
            life.found = life.found.max(life.handle.kill().alive_before);
        }
        if session.is_none() {
            self.give_up_spares();
        }
    }

    /// Ends all that waits for sessions.
    pub(super) fn give_up_spares(&mut self) {
        self.spares.give_up();
        self.templates.give_up();
    }

    /// Removes a session's sandbox; its directories stay.
    pub(super) fn leave(&mut self, session: &SessionId) -> Result<(), Failed> {
        let Some(life) = self.live.remove(session) else {
            return Ok(());
        };
        self.spares.session_ended(Instant::now());
        self.disk.remove(session);
        life.handle
            .remove()
            .map_err(|e| Failed::new("sandbox_left", &e, "run `torno doctor`"))
    }

    /// Removes what is left of a session.
    pub(super) fn remove(&mut self, session: &SessionId, keep: bool) -> Result<(), Failed> {
        self.leave(session)?;
        if keep {
            self.places.keep(session);
        } else {
            self.places.remove(session)?;
        }
        self.places.drop_old(&self.live)
    }

    /// Lets go of kept copies, oldest first, as long as the disk runs low. Beside the loop: a large
    /// tree takes a while.
    pub(super) fn make_room(&self) {
        let kept = self.places.kept(&self.live);
        let removals = self.places.removals();
        let removing = std::thread::Builder::new().name("room".to_owned());
        let removed = removing.spawn(move || {
            for path in kept {
                let parent = path.parent().unwrap_or(&path);
                if !runs_low(parent) {
                    return;
                }
                tracing::warn!("the disk runs low: {} goes", path.display());
                if let Err(error) = removals.now(&path, &places::aside(&path)) {
                    tracing::error!("{}: {error}", path.display());
                }
            }
        });
        if let Err(error) = removed {
            tracing::error!("no thread to make room: {error}");
        }
    }
}

/// Whether a process behind one of these pidfds has ended.
pub(super) fn has_one_ended(processes: &[OwnedFd]) -> bool {
    let watched = processes.iter();
    let mut poll_fds: Vec<_> = watched.map(|p| PollFd::new(p, PollFlags::IN)).collect();
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    matches!(poll(&mut poll_fds, Some(&now)), Ok(1..))
}

/// The guest agent, if it is the one that was built with this binary.
fn load_guest(path: &Path) -> Result<VerifiedGuest, String> {
    let digest = option_env!("TORNO_GUEST_SHA256")
        .ok_or_else(|| "this tornod was built without its guest agent".to_owned())?;
    VerifiedGuest::load(path, digest).map_err(|e| e.to_string())
}

/// What the gate is given.
fn way_out(entrances: Entrances, link: OwnedFd) -> Result<(SandboxReady, Vec<OwnedFd>), Failed> {
    let sockets = match entrances {
        Entrances::Link => return Ok((SandboxReady::Link, vec![link])),
        Entrances::Sockets(sockets) => sockets,
    };
    let tcp_v6 = sockets.tcp_v6.ok_or_else(|| {
        Failed::internal("this kernel has no IPv6, so IPv6 dials can't be seen; enable it")
    })?;
    let way_out = vec![
        sockets.tcp_v4,
        tcp_v6,
        sockets.dns_udp,
        sockets.dns_tcp,
        sockets.proxy,
        link,
    ];
    Ok((SandboxReady::Sockets, way_out))
}

fn link_pair() -> Result<(OwnedFd, OwnedFd), Failed> {
    let pair = rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::STREAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    );
    pair.map_err(|e| Failed::internal(&e.to_string()))
}
