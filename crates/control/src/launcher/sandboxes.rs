// SPDX-License-Identifier: Apache-2.0
//! The sandboxes of this machine: their lives and their id ranges.

use super::disk::{DiskWatch, runs_low};
use super::levels;
use super::machines::Machines;
use super::places::{self, Places};
use super::removal::remove_tree;
use super::spare_network::SpareNetwork;
use crate::orders::{ProbeResult, SandboxOrder, SandboxReady, Start};
use crate::roles::uids;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use torno_policy::grant::{Isolation, WorkspaceMode};
use torno_policy::names::SessionId;
use torno_policy::standing::Phase;
use torno_sandbox::{
    AlsoDirectory, Entrances, Handle, HomeFile, HostFacts, Paths, Refusal, Rights, SandboxId,
    SandboxSpec, StartInputs, UID_RANGE, VerifiedGuest, Workspace,
};

/// How often a sandbox's first process is looked at.
pub(super) const END_POLL: Duration = Duration::from_millis(50);

/// A failure that a person can act on; nothing was left half-done.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) code: String,
    pub(super) message: String,
    pub(super) hint: String,
}

impl Failed {
    pub(super) fn internal(message: &str) -> Self {
        Self {
            code: "sandbox_failed".to_owned(),
            message: message.to_owned(),
            hint: "run `torno doctor`; tornod's log has the details".to_owned(),
        }
    }

    fn new(code: &str, error: &dyn std::error::Error, hint: &str) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message = format!("{message}: {cause}");
            source = cause.source();
        }
        Self {
            code: code.to_owned(),
            message,
            hint: hint.to_owned(),
        }
    }
}

/// A sandbox that runs, as its gate and the desk need to know it.
pub(super) struct StartedSandbox {
    pub(super) ready: SandboxReady,
    /// As `ready` says.
    pub(super) way_out: Vec<OwnedFd>,
    pub(super) environment: Vec<(String, String)>,
    /// A pidfd of its first process.
    pub(super) process: OwnedFd,
}

/// Every sandbox.
pub(super) struct Sandboxes {
    pub(super) places: Places,
    disk: DiskWatch,
    /// For the next start.
    pub(super) network: SpareNetwork,
    guest: Result<VerifiedGuest, String>,
    facts: HostFacts,
    live: BTreeMap<SessionId, Life>,
    ranges: BTreeSet<u32>,
    next_range: u32,
    probes: Vec<ProbeResult>,
    machines: Machines,
}

struct Life {
    handle: Handle,
    range: u32,
    /// Processes that a kill found alive first.
    found: usize,
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
        let ours = places::sessions(&start.directory)?;
        let foreign = |id: &SandboxId| !ours.contains(id.as_str());
        for left in torno_sandbox::sweep(&facts.cgroups, foreign)? {
            tracing::warn!("sandbox {left} of an earlier life was still there; removed");
        }
        Ok(Self {
            places: Places::new(start.directory.clone(), facts.rights == Ok(Rights::Root))?,
            disk,
            guest: load_guest(&start.guest),
            network: SpareNetwork::new(nft),
            facts,
            live: BTreeMap::new(),
            ranges: BTreeSet::new(),
            next_range: 0,
            probes: Vec::new(),
            machines: Machines::new(paths),
        })
    }

    /// Starts a sandbox.
    pub(super) fn start(
        &mut self,
        order: SandboxOrder,
        bound: Option<OwnedFd>,
    ) -> Result<StartedSandbox, Failed> {
        let session = order.session.clone();
        let disk_bytes = order.limits.disk_bytes;
        self.places.check_fence(&session)?;
        if self.live.contains_key(&session) {
            return Err(Failed::internal("the session has a sandbox already"));
        }
        let workspace = match order.workspace {
            WorkspaceMode::Copy => Some(self.places.open(&session, order.phase)?),
            WorkspaceMode::Bind => bound,
            WorkspaceMode::None => None,
        };
        let range = self.take_range()?;
        let uid_base = self.uid_base(range);
        let spec = self.spec(order, uid_base)?;
        let plan = torno_sandbox::plan(&spec, &self.facts)
            .map_err(|e| Failed::new("sandbox_refused", &e, "change the policy's [sandbox]"))?;
        let environment = plan.environment().to_vec();
        let (ours, theirs) = link_pair()?;
        let inputs = StartInputs {
            link: theirs,
            workspace,
            network: self.network.take(),
        };
        let started = torno_sandbox::start(&plan, inputs)
            .map_err(|e| Failed::new("sandbox_failed", &e, "run `torno doctor`"))?;
        let process = started.handle.process().try_clone_to_owned();
        let process = process.map_err(|e| Failed::internal(&e.to_string()))?;
        self.ranges.insert(range);
        let groups = started.handle.directories();
        self.disk.add(session.clone(), disk_bytes, groups);
        self.live.insert(
            session,
            Life {
                handle: started.handle,
                range,
                found: 0,
            },
        );
        let (ready, way_out) = way_out(started.entrances, ours)?;
        Ok(StartedSandbox {
            ready,
            way_out,
            environment,
            process,
        })
    }

    /// The workspace copy of a session, for its owner's porter.
    pub(super) fn bring_back(&self, session: &SessionId) -> Result<OwnedFd, Failed> {
        self.places
            .give_back(session, self.live.contains_key(session))?;
        self.places.open(session, Phase::Locked)
    }

    fn spec(&self, order: SandboxOrder, uid_base: u32) -> Result<SandboxSpec, Failed> {
        let guest = self.guest.clone().map_err(|message| Failed {
            code: "guest_unusable".to_owned(),
            message,
            hint: "install torno, tornod and torno-guest of one build together".to_owned(),
        })?;
        let id = SandboxId::parse(order.session.as_str())
            .map_err(|e| Failed::internal(&e.to_string()))?;
        let also = order
            .also
            .into_iter()
            .map(|(host, inside)| AlsoDirectory { host, inside });
        let home = order.home.into_iter();
        let home = home.map(|(below, text)| HomeFile { below, text });
        Ok(SandboxSpec {
            id,
            level: levels::of(order.isolation)?,
            also: also.collect(),
            workspace: match order.workspace {
                WorkspaceMode::Copy => Workspace::Copy,
                WorkspaceMode::Bind => Workspace::Bind,
                WorkspaceMode::None => Workspace::None,
            },
            files: order.files,
            env: order.env,
            git_hosts: order.git_hosts,
            limits: order.limits,
            ca_pem: order.ca_pem,
            home: home.collect(),
            uid_base,
            guest,
            guest_arguments: levels::guest_arguments(order.workspace, order.isolation),
        })
    }

    /// Where a range begins, in the launcher's ids.
    fn uid_base(&self, range: u32) -> u32 {
        match self.facts.rights {
            Ok(Rights::Namespace(ids)) => ids.base(range),
            Ok(Rights::Root) | Err(_) => uids::SANDBOXES + range * UID_RANGE,
        }
    }

    /// How many there are, besides the one for probes.
    fn ranges_max(&self) -> u32 {
        match self.facts.rights {
            Ok(Rights::Namespace(ids)) => ids.ranges(),
            Ok(Rights::Root) | Err(_) => uids::SANDBOX_RANGES,
        }
    }

    /// A range of host ids that no live sandbox has.
    fn take_range(&mut self) -> Result<u32, Failed> {
        let ranges = self.ranges_max();
        for _ in 0..ranges {
            let range = self.next_range;
            self.next_range = (range + 1) % ranges;
            if !self.ranges.contains(&range) {
                return Ok(range);
            }
        }
        Err(Failed::internal(
            "every range of user ids is taken by a live sandbox",
        ))
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

    /// Kills without asking who wants to know.
    pub(super) fn kill_at_once(&mut self, session: Option<&SessionId>) {
        let wanted = |id: &SessionId| session.is_none_or(|session| session == id);
        for (_, life) in self.live.iter_mut().filter(|(id, _)| wanted(id)) {
            life.found = life.found.max(life.handle.kill().alive_before);
        }
    }

    /// Removes a session's sandbox; its directories stay.
    pub(super) fn leave(&mut self, session: &SessionId) -> Result<(), Failed> {
        let Some(life) = self.live.remove(session) else {
            return Ok(());
        };
        self.ranges.remove(&life.range);
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
        let removing = std::thread::Builder::new().name("room".to_owned());
        let removed = removing.spawn(move || {
            for path in kept {
                let parent = path.parent().unwrap_or(&path);
                if !runs_low(parent) {
                    return;
                }
                tracing::warn!("the disk runs low: {} goes", path.display());
                if let Err(error) = remove_tree(&path) {
                    tracing::error!("{}: {error}", path.display());
                }
            }
        });
        if let Err(error) = removed {
            tracing::error!("no thread to make room: {error}");
        }
    }

    /// Boot probes, each made once in this life.
    pub(super) fn probe(&mut self, only: Option<Isolation>) -> Vec<ProbeResult> {
        let uid_base = self.uid_base(self.ranges_max());
        let wanted = levels::ALL
            .into_iter()
            .filter(|level| only.is_none_or(|only| *level == only));
        let probe = |level| {
            let is_machine = matches!(level, Isolation::Microvm | Isolation::Vm);
            if is_machine && only.is_none() {
                self.machines.find(&mut self.facts);
            } else if is_machine && !self.machines.prepare(&mut self.facts) {
                return levels::coming(level);
            }
            if let Some(failure) = self.machines.failure().filter(|_| is_machine) {
                return levels::missing(level, failure);
            }
            if let Some(found) = self.probes.iter().find(|found| found.isolation == level) {
                return found.clone();
            }
            let found = levels::probe(level, &self.facts, uid_base);
            self.probes.push(found.clone());
            found
        };
        wanted.map(probe).collect()
    }
}

/// Whether the process behind a pidfd has ended.
pub(super) fn has_ended(process: &OwnedFd) -> bool {
    let mut poll_fds = [PollFd::new(process, PollFlags::IN)];
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
