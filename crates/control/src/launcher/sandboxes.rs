// SPDX-License-Identifier: Apache-2.0
//! The sandboxes of this machine: their directories, their lives, their id ranges.

use super::removal::remove_tree;
use crate::orders::{ProbeResult, SandboxOrder, Start};
use crate::roles::uids;
use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use torno_policy::grant::{Isolation, WorkspaceMode};
use torno_policy::names::SessionId;
use torno_sandbox::{
    AlsoDirectory, Handle, HostFacts, INSIDE_UID, Level, Paths, Refusal, Rights, SandboxId, SandboxSpec,
    StartInputs, UID_RANGE, VerifiedGuest, Workspace,
};

/// How often a sandbox's first process is looked at.
pub(super) const END_POLL: Duration = Duration::from_millis(50);
/// LIMIT: workspace copies of ended sessions that are kept for `diff` and `apply`; the oldest goes.
const KEPT_MAX: usize = 20;

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
    /// In the order of [`crate::orders::SandboxReady`].
    pub(super) way_out: Vec<OwnedFd>,
    pub(super) environment: Vec<(String, String)>,
    /// A pidfd of its first process.
    pub(super) process: OwnedFd,
}

/// Every sandbox.
pub(super) struct Sandboxes {
    directory: PathBuf,
    guest: Result<VerifiedGuest, String>,
    facts: HostFacts,
    live: BTreeMap<SessionId, Life>,
    ranges: BTreeSet<u32>,
    next_range: u32,
    probes: Option<Vec<ProbeResult>>,
}

struct Life {
    handle: Handle,
    range: u32,
}

impl Sandboxes {
    /// Reads the host's facts and removes what an earlier life left behind.
    pub(super) fn new(start: &Start, rights: Result<(), Refusal>) -> anyhow::Result<Self> {
        let mut paths = Paths {
            keeper: Some(PathBuf::from("/proc/self/exe")),
            ..Paths::default()
        };
        // Runtimes that came with this installation lie beside the guest agent and are found first.
        if let Some(beside) = start.guest.parent() {
            paths.search.insert(0, beside.join("runtimes"));
        }
        clear(&start.directory)?;
        let mut facts = HostFacts::gather(&paths);
        if let Err(refusal) = rights {
            facts.rights = Err(refusal);
        }
        Ok(Self {
            directory: start.directory.clone(),
            guest: load_guest(&start.guest),
            facts,
            live: BTreeMap::new(),
            ranges: BTreeSet::new(),
            next_range: 0,
            probes: None,
        })
    }

    /// Makes a session's directory and opens its workspace, owned by the caller: without root there
    /// is only one, the daemon's own user.
    pub(super) fn prepare(&mut self, session: &SessionId, owner: u32) -> Result<OwnedFd, Failed> {
        let of = self.directory.join(session.as_str());
        let workspace = of.join("workspace");
        let make = || -> anyhow::Result<OwnedFd> {
            std::fs::create_dir(&of).context("the session's directory")?;
            std::fs::create_dir(&workspace).context("the workspace")?;
            let opened = open_directory(&workspace)?;
            rustix::fs::fchmod(&opened, Mode::from_raw_mode(0o700))?;
            if self.facts.rights == Ok(Rights::Root) {
                let uid = rustix::fs::Uid::from_raw(owner);
                rustix::fs::fchown(&opened, Some(uid), None)?;
            }
            Ok(opened)
        };
        make().map_err(|e| Failed::internal(&format!("{e:#}")))
    }

    /// The workspace copy of a session, running or ended.
    pub(super) fn open_workspace(&self, session: &SessionId) -> Result<OwnedFd, Failed> {
        let path = self.directory.join(session.as_str()).join("workspace");
        open_directory(&path).map_err(|_| Failed {
            code: "workspace_gone".to_owned(),
            message: format!("the workspace copy of `{session}` is gone"),
            hint: format!("copies of the last {KEPT_MAX} sessions are kept until tornod ends"),
        })
    }

    /// Starts a sandbox.
    pub(super) fn start(
        &mut self,
        order: SandboxOrder,
        bound: Option<OwnedFd>,
    ) -> Result<StartedSandbox, Failed> {
        let session = order.session.clone();
        let range = self.take_range()?;
        let uid_base = self.uid_base(range);
        let workspace = match order.workspace {
            WorkspaceMode::Copy => Some(self.open_workspace(&session)?),
            WorkspaceMode::Bind => bound,
            WorkspaceMode::None => None,
        };
        let spec = self.spec(order, uid_base)?;
        let plan = torno_sandbox::plan(&spec, &self.facts)
            .map_err(|e| Failed::new("sandbox_refused", &e, "change the policy's [sandbox]"))?;
        let environment = environment_of(plan.config());
        let (ours, theirs) = link_pair()?;
        let inputs = StartInputs {
            link: theirs,
            workspace,
            network: None,
        };
        let started = torno_sandbox::start(&plan, inputs)
            .map_err(|e| Failed::new("sandbox_failed", &e, "run `torno doctor`"))?;
        let process = started.handle.process().try_clone_to_owned();
        let process = process.map_err(|e| Failed::internal(&e.to_string()))?;
        self.ranges.insert(range);
        self.live.insert(
            session,
            Life {
                handle: started.handle,
                range,
            },
        );
        let tcp_v6 = started.tcp_v6.ok_or_else(|| {
            Failed::internal("this kernel has no IPv6, so IPv6 dials can't be seen; enable it")
        })?;
        let way_out = vec![
            started.tcp_v4,
            tcp_v6,
            started.dns_udp,
            started.dns_tcp,
            started.proxy,
            ours,
        ];
        Ok(StartedSandbox {
            way_out,
            environment,
            process,
        })
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
        Ok(SandboxSpec {
            id,
            level: level(order.isolation)?,
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
            uid_base,
            guest,
            guest_arguments: guest_arguments(order.workspace, order.isolation),
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
        (count(census.alive_before), count(census.alive_after))
    }

    /// Kills without asking who wants to know.
    pub(super) fn kill_at_once(&mut self, session: Option<&SessionId>) {
        let wanted = |id: &SessionId| session.is_none_or(|session| session == id);
        for (_, life) in self.live.iter_mut().filter(|(id, _)| wanted(id)) {
            life.handle.kill();
        }
    }

    /// Removes what is left of a session.
    pub(super) fn remove(&mut self, session: &SessionId, keep: bool) -> Result<(), Failed> {
        if let Some(life) = self.live.remove(session) {
            self.ranges.remove(&life.range);
            life.handle
                .remove()
                .map_err(|e| Failed::new("sandbox_left", &e, "run `torno doctor`"))?;
        }
        if !keep {
            let path = self.directory.join(session.as_str());
            remove_tree(&path)
                .map_err(|e| Failed::internal(&format!("`{}`: {e}", path.display())))?;
        }
        self.drop_old_copies()
            .map_err(|e| Failed::internal(&format!("{e:#}")))
    }

    fn drop_old_copies(&self) -> anyhow::Result<()> {
        let mut copies = Vec::new();
        for entry in std::fs::read_dir(&self.directory)? {
            let entry = entry?;
            let live = entry
                .file_name()
                .to_str()
                .and_then(|name| SessionId::parse(name).ok());
            if live.is_some_and(|id| !self.live.contains_key(&id)) {
                copies.push((entry.metadata()?.modified()?, entry.path()));
            }
        }
        copies.sort();
        for (_, path) in copies.iter().take(copies.len().saturating_sub(KEPT_MAX)) {
            remove_tree(path)?;
        }
        Ok(())
    }

    /// Boot probes, made once in this life.
    pub(super) fn probe(&mut self) -> Vec<ProbeResult> {
        if let Some(probes) = &self.probes {
            return probes.clone();
        }
        let levels = [Level::Container, Level::Gvisor, Level::Microvm, Level::Vm];
        let probes: Vec<_> = levels
            .into_iter()
            .map(|level| self.probe_level(level))
            .collect();
        self.probes = Some(probes.clone());
        probes
    }

    fn probe_level(&self, level: Level) -> ProbeResult {
        let isolation = match level {
            Level::Container => Isolation::Container,
            Level::Gvisor => Isolation::Gvisor,
            Level::Microvm => Isolation::Microvm,
            Level::Vm => Isolation::Vm,
        };
        let uid_base = self.uid_base(self.ranges_max());
        match torno_sandbox::probe(level, &self.facts, uid_base) {
            Ok(guarantees) => {
                let of = |stands: bool| {
                    let walls = guarantees.walls.iter().filter(move |w| w.stands == stands);
                    walls.map(|wall| format!("{}: {}", wall.name, wall.how))
                };
                let absent = of(false).collect();
                let mut lines = vec![
                    format!("boundary: {}", guarantees.boundary),
                    format!("network stack: {}", guarantees.network_stack),
                    format!("runtime: {}", guarantees.runtime),
                ];
                lines.extend(of(true));
                lines.extend(guarantees.warnings.iter().cloned());
                ProbeResult {
                    isolation,
                    works: true,
                    lines,
                    absent,
                    fix: None,
                }
            }
            Err(missing) => ProbeResult {
                isolation,
                works: false,
                lines: vec![missing.to_string()],
                absent: Vec::new(),
                fix: Some(missing.fix),
            },
        }
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

/// What an earlier launcher left: its sandboxes were killed by their keepers, their copies are stale.
fn clear(directory: &Path) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(directory).context("the sandboxes' directory")? {
        remove_tree(&entry?.path()).context("a sandbox of an earlier life")?;
    }
    Ok(())
}

/// What the guest agent is told: whom to run programs as, and which walls it must raise. gVisor has
/// no landlock; its own boundary stands there instead.
fn guest_arguments(workspace: WorkspaceMode, isolation: Isolation) -> Vec<String> {
    let id = INSIDE_UID.to_string();
    let place = match workspace {
        WorkspaceMode::Copy | WorkspaceMode::Bind => "/workspace",
        WorkspaceMode::None => "/home/agent",
    };
    let words = [
        "init",
        "--workload-uid",
        &id,
        "--workload-gid",
        &id,
        "--workspace",
        place,
    ];
    let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    if isolation == Isolation::Container {
        words.push("--require-landlock".to_owned());
    }
    words
}

/// The guest agent, if it is the one that was built with this binary.
fn load_guest(path: &Path) -> Result<VerifiedGuest, String> {
    let digest = option_env!("TORNO_GUEST_SHA256")
        .ok_or_else(|| "this tornod was built without its guest agent".to_owned())?;
    VerifiedGuest::load(path, digest).map_err(|e| e.to_string())
}

fn level(isolation: Isolation) -> Result<Level, Failed> {
    match isolation {
        Isolation::Container => Ok(Level::Container),
        Isolation::Gvisor => Ok(Level::Gvisor),
        Isolation::Microvm => Ok(Level::Microvm),
        Isolation::Vm => Ok(Level::Vm),
        Isolation::Strongest => Err(Failed::internal("the desk has not chosen a level")),
    }
}

/// The first process's environment, as the plan has it.
fn environment_of(config: &str) -> Vec<(String, String)> {
    let config: serde_json::Value = serde_json::from_str(config).unwrap_or_default();
    let entries = config
        .pointer("/process/env")
        .and_then(|env| env.as_array());
    let pair = |entry: &serde_json::Value| {
        let (name, value) = entry.as_str()?.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    entries.into_iter().flatten().filter_map(pair).collect()
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

fn open_directory(path: &Path) -> anyhow::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).with_context(|| format!("`{}`", path.display()))
}
