// SPDX-License-Identifier: Apache-2.0
//! Starts real sandboxes with a first process that runs Python sent over the link.

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use torno_policy::grant::{FileRules, HostLimits, Limits};
use torno_sandbox::{
    Entrances, HostFacts, Level, Paths, Rights, SandboxId, SandboxSpec, Sockets, StartInputs,
    Started, SubordinateIds, VerifiedGuest, Workspace, plan, start,
};

/// The sentinel that a gVisor build can be named with, besides the search path.
const RUNSC_DIRECTORY: &str = "../../target/tools/runsc/usr/bin";
static NEXT: AtomicU32 = AtomicU32::new(0);

pub(crate) fn paths() -> Paths {
    let mut paths = Paths::default();
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join(RUNSC_DIRECTORY);
    paths.search.insert(0, built);
    paths
}

/// The facts, or a loud skip: this level can't be tested here.
pub(crate) fn facts_for(level: Level) -> Option<HostFacts> {
    let facts = HostFacts::gather(&paths());
    let runtime = match level {
        Level::Container => &facts.container_runtime,
        _ => &facts.gvisor_runtime,
    };
    let missing = if !rustix::process::geteuid().is_root() {
        Some("root".to_owned())
    } else if facts.nft.is_none() {
        Some("nft".to_owned())
    } else if !Path::new("/usr/bin/python3").exists() {
        Some("/usr/bin/python3".to_owned())
    } else if runtime.is_none() {
        Some(format!("a runtime for {}", level.name()))
    } else {
        None
    };
    if let Some(missing) = missing {
        println!("SKIP: {} sandbox: no {missing}", level.name());
        return None;
    }
    torno_sandbox::adopt_orphans().unwrap();
    Some(facts)
}

/// A fresh spec of modest limits.
pub(crate) fn spec(level: Level) -> SandboxSpec {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/guest.py");
    let digest = HEXLOWER.encode(&Sha256::digest(std::fs::read(&source).unwrap()));
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut id = String::new();
    write!(id, "t{:0>12}{number:0>13}", std::process::id()).unwrap();
    SandboxSpec {
        id: SandboxId::parse(&id).unwrap(),
        level,
        also: vec![],
        workspace: Workspace::None,
        files: FileRules::default(),
        env: vec![("GREETING".into(), "hello".into())],
        git_hosts: vec!["git.example.org".into()],
        home: vec![],
        limits: Limits {
            wall_seconds: 60,
            idle_seconds: 60,
            cpu_milli: 2000,
            memory_bytes: 512 << 20,
            pids: 128,
            disk_bytes: 96 << 20,
            egress_bytes: 1 << 20,
            records: 1000,
            requests: 1,
            rate: 1,
            ingress_bytes: 0,
            streams: 1,
            each_host: HostLimits {
                requests: 1,
                egress_bytes: 0,
                ingress_bytes: 0,
                streams: 1,
            },
        },
        ca_pem: "-----BEGIN CERTIFICATE-----\nc2Vzc2lvbg==\n-----END CERTIFICATE-----\n".into(),
        uid_base: uid_base(number),
        guest: VerifiedGuest::load(&source, &digest).unwrap(),
        guest_arguments: vec!["init".into()],
        image: None,
    }
}

/// The first id of the n-th sandbox: as root anywhere, else from the ids of this namespace.
fn uid_base(number: u32) -> u32 {
    static OWN: OnceLock<Option<SubordinateIds>> = OnceLock::new();
    let own = OWN.get_or_init(|| match HostFacts::gather(&paths()).rights {
        Ok(Rights::Namespace(ids)) => Some(ids),
        Ok(Rights::Root) | Err(_) => None,
    });
    own.map_or(0x4000_0000 + number * 65_536, |ids| {
        ids.base(number % ids.ranges())
    })
}

/// The ids of a sandbox on the host, from its spec's first: of its root, and of the agent.
pub(crate) fn ids_of(spec: &SandboxSpec, facts: &HostFacts) -> (std::ops::Range<u32>, u32) {
    let base = spec.uid_base;
    match facts.rights {
        Ok(Rights::Namespace(_)) => (base..base + 3, base + 1),
        _ => (base..base + 65_536, base + 1000),
    }
}

/// A running sandbox and the host's end of its link.
pub(crate) struct Running {
    pub(crate) started: Started,
    link: UnixStream,
}

impl Running {
    pub(crate) fn of(spec: &SandboxSpec, facts: &HostFacts, workspace: Option<OwnedFd>) -> Self {
        let plan = plan(spec, facts).unwrap();
        let is_given = workspace.is_some();
        let (host, inputs) = inputs(workspace);
        let started = start(&plan, inputs).unwrap_or_else(|error| {
            panic!(
                "{error}: {}",
                std::error::Error::source(&error)
                    .map(ToString::to_string)
                    .unwrap_or_default()
            )
        });
        let mut running = Self::begun(started, host);
        if is_given {
            // The first process starts in `/`, as the agent does.
            running.run("import os; os.chdir('/workspace')");
        }
        running
    }

    /// One that was started already.
    pub(crate) fn begun(started: Started, link: UnixStream) -> Self {
        Self { started, link }
    }

    pub(crate) fn new(level: Level) -> Option<Self> {
        let facts = facts_for(level)?;
        Some(Self::of(&spec(level), &facts, None))
    }

    /// Where its dials land.
    pub(crate) fn sockets(&self) -> &Sockets {
        match &self.started.entrances {
            Entrances::Sockets(sockets) => sockets,
            Entrances::Link => panic!("a machine has no sockets on the host"),
        }
    }

    /// Sends Python, without waiting.
    pub(crate) fn send(&mut self, code: &str) {
        let length = u32::try_from(code.len()).unwrap();
        self.link.write_all(&length.to_le_bytes()).unwrap();
        self.link.write_all(code.as_bytes()).unwrap();
    }

    pub(crate) fn answer(&mut self) -> String {
        let mut length = [0; 4];
        self.link.read_exact(&mut length).unwrap();
        let mut text = vec![0; usize::try_from(u32::from_le_bytes(length)).unwrap()];
        self.link.read_exact(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    pub(crate) fn says_something_within(&self, limit: Duration) -> bool {
        let limit = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: limit.subsec_nanos().into(),
        };
        let mut watched = [rustix::event::PollFd::new(
            &self.link,
            rustix::event::PollFlags::IN,
        )];
        rustix::event::poll(&mut watched, Some(&limit)).unwrap() > 0
    }

    /// Runs Python inside; answers what it printed.
    pub(crate) fn run(&mut self, code: &str) -> String {
        self.send(code);
        self.answer().trim_end().to_owned()
    }
}

/// What a start is given, and our end of its link.
pub(crate) fn inputs(workspace: Option<OwnedFd>) -> (UnixStream, StartInputs) {
    let (host, inside) = UnixStream::pair().unwrap();
    host.set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let inputs = StartInputs {
        link: inside.into(),
        workspace,
        network: None,
    };
    (host, inputs)
}

/// What of the sandboxes can be seen on the host: mounts and groups.
pub(crate) fn traces() -> (Vec<String>, Vec<PathBuf>) {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut groups = vec![];
    let mut queue = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(directory) = queue.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                queue.push(entry.path());
                groups.push(entry.path());
            }
        }
    }
    (mounts.lines().map(str::to_owned).collect(), groups)
}
