// SPDX-License-Identifier: Apache-2.0
//! The program that makes a machine, behind its walls: a strict peer stands where Firecracker or
//! Cloud Hypervisor would, and everything else is as with them.

use crate::harness::{facts_for, paths, spec};
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use torno_sandbox::{
    HostFacts, Kvm, Level, MachineParts, Monitor, Paths, SandboxId, SandboxSpec, StartError,
    StartInputs, Started, VerifiedGuest, boot_probe, plan, start,
};

/// Where the parts of a machine and the peers lie; nothing without either.
struct Place {
    directory: tempfile::TempDir,
    facts: HostFacts,
    /// The sandbox that was started last.
    last: String,
}

/// The peer under both names, or a loud skip.
fn place(names: &[&str]) -> Option<Place> {
    let facts = facts_for(Level::Container)?;
    let own = std::env::current_exe().unwrap();
    let peer = own.ancestors().nth(2).unwrap().join("examples/monitor");
    let machine = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/machine");
    for (part, what) in [(&peer, "the peer"), (&machine, "parts of a machine")] {
        if !part.exists() {
            println!("SKIP: monitors behind their walls: no {what}");
            return None;
        }
    }
    let directory = tempfile::tempdir().unwrap();
    for name in names {
        std::fs::copy(&peer, directory.path().join(name)).unwrap();
    }
    let usual = Paths::default().search;
    let search = [directory.path().to_owned()].into_iter().chain(usual);
    let paths = Paths {
        search: search.collect(),
        machines: vec![machine],
        ..paths()
    };
    let mut facts = facts;
    facts.find_machine(&paths);
    let parts = facts.machine.as_mut().unwrap();
    // Peers boot nothing: any file stands for what they are told to read.
    let file = |name: &str| {
        let path: PathBuf = directory.path().join(name);
        std::fs::write(&path, [0; 4096]).unwrap();
        path
    };
    parts.image = Some(file("usr.erofs"));
    parts.kvm.kernel = Some(file("vmlinux"));
    Some(Place {
        directory,
        facts,
        last: String::new(),
    })
}

impl Place {
    fn kvm(&mut self) -> &mut Kvm {
        let parts: &mut MachineParts = self.facts.machine.as_mut().unwrap();
        &mut parts.kvm
    }

    /// Processes and groups of the sandbox that was started last.
    fn left(&self) -> String {
        let id = self.last.as_str();
        assert!(!id.is_empty());
        let named = format!("*{id}*");
        let commands = [
            ("pgrep", vec!["-f", id]),
            ("find", vec!["/sys/fs/cgroup", "-name", &named]),
        ];
        let outputs = commands.map(|(program, words)| {
            let output = std::process::Command::new(program).args(words).output();
            String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
        });
        outputs.concat()
    }

    fn start(&mut self, monitor: Monitor, memory_mib: u64) -> Result<Started, StartError> {
        self.kvm().proven = vec![(Level::Microvm, monitor)];
        let mut spec: SandboxSpec = spec(Level::Microvm);
        self.last = spec.id.to_string();
        spec.limits.memory_bytes = memory_mib << 20;
        let (_ours, theirs) = UnixStream::pair().unwrap();
        let inputs = StartInputs {
            link: theirs.into(),
            workspace: None,
            network: None,
        };
        start(&plan(&spec, &self.facts).unwrap(), inputs)
    }
}

const BOTH: [(Monitor, &str); 2] = [
    (Monitor::Firecracker, "firecracker"),
    (Monitor::CloudHypervisor, "cloud-hypervisor"),
];

#[test]
fn a_monitor_is_told_in_order_has_its_one_device_and_reaches_nothing_else() {
    for (monitor, name) in BOTH {
        let Some(mut place) = place(&[name]) else {
            return;
        };
        if !place.kvm().is_there {
            println!("not told here: a monitor has its one device: no /dev/kvm");
            return;
        }
        let started = place.start(monitor, 256).unwrap();
        let mut link = UnixStream::from(started.link.unwrap());
        link.set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        link.write_all(b"look?").unwrap();
        let mut text = String::new();
        link.read_to_string(&mut text).unwrap();
        let seen: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(seen["kvm"], true, "{seen}");
        assert_eq!(seen["made"], 0, "{seen}");
        assert_eq!(seen["written"], 0, "{seen}");
        assert_eq!(seen["memory"], false, "{seen}");
        assert_eq!(seen["capable"], 0, "{seen}");
        // Two lines of heading, and loopback.
        assert_eq!(seen["devices"], 3, "{seen}");
        // Nobody listens any more: what else the guest dials is refused.
        assert_eq!(seen["dialled"], false, "{seen}");
        let run = seen["run"].as_array().unwrap();
        assert!(run.contains(&"api.sock".into()), "{seen}");
        started.handle.remove().unwrap();
    }
}

#[test]
fn a_machine_that_does_not_dial_once_is_no_sandbox_and_leaves_nothing() {
    let Some(mut place) = place(&["firecracker"]) else {
        return;
    };
    if !place.kvm().is_there {
        println!("not told here: a machine that does not dial: no /dev/kvm");
        return;
    }
    for (memory_mib, why, seconds) in [
        (201, "did not start within 10 s", 9),
        (202, "more than once", 0),
        (203, "ended before the machine had started", 0),
    ] {
        let mut began = Instant::now();
        let mut made = place.start(Monitor::Firecracker, memory_mib);
        // The second dial of a slow peer finds nobody who listens: it is no second link either.
        for _ in 0..TRIES {
            if made.is_err() {
                break;
            }
            drop(made);
            began = Instant::now();
            made = place.start(Monitor::Firecracker, memory_mib);
        }
        let error = made.unwrap_err();
        let text = format!("{:?} {error}", error);
        let chain = said(&error);
        assert!(chain.contains(why), "{chain} {text}");
        assert!(began.elapsed() >= Duration::from_secs(seconds));
        assert_eq!(place.left(), "", "{why}");
    }
}

/// LIMIT: a peer dials twice within a millisecond, unless the machine is busy.
const TRIES: usize = 20;

fn said(error: &dyn std::error::Error) -> String {
    let source = error.source().map(said).unwrap_or_default();
    format!("{error}: {source}")
}

#[test]
fn the_first_monitor_whose_machine_greets_is_chosen() {
    let Some(mut place) = place(&["firecracker", "cloud-hypervisor"]) else {
        return;
    };
    if !place.kvm().is_there {
        println!("not told here: the first monitor is chosen: no /dev/kvm");
        return;
    }
    let shell = std::fs::canonicalize("/bin/sh").unwrap();
    let guest = guest(&shell);
    let id = SandboxId::parse("probeprobeprobeprobeprobe4").unwrap();
    let probe = boot_probe(Level::Microvm, &place.facts, &guest, (&id, 0x4700_0000));
    assert_eq!(probe.monitor, Some(Monitor::Firecracker), "{probe:?}");
    // One that can't be run is passed by, and said.
    std::fs::write(place.directory.path().join("firecracker"), "no program").unwrap();
    let probe = boot_probe(Level::Microvm, &place.facts, &guest, (&id, 0x4700_0000));
    assert_eq!(probe.monitor, Some(Monitor::CloudHypervisor), "{probe:?}");
    assert!(
        probe.lines[0].starts_with("KVM is there, and Firecracker: "),
        "{probe:?}"
    );
    place.kvm().is_there = false;
    let probe = boot_probe(Level::Microvm, &place.facts, &guest, (&id, 0x4700_0000));
    assert_eq!(probe.monitor, None, "{probe:?}");
}

fn guest(path: &Path) -> VerifiedGuest {
    use sha2::Digest;
    let digest = sha2::Sha256::digest(std::fs::read(path).unwrap());
    VerifiedGuest::load(path, &data_encoding::HEXLOWER.encode(&digest)).unwrap()
}

#[test]
fn where_no_machine_starts_on_kvm_that_is_said_in_time_and_none_is_left() {
    let Some(place) = place(&[]) else { return };
    if !place.facts.machine.as_ref().unwrap().kvm.is_there {
        println!("not told here: no machine starts on KVM: no /dev/kvm");
        return;
    }
    // An init that ends at once: not even where KVM works there is a greeting.
    let guest = guest(&std::fs::canonicalize("/bin/true").unwrap());
    let id = SandboxId::parse("probeprobeprobeprobeprobe3").unwrap();
    let began = Instant::now();
    let probe = boot_probe(Level::Microvm, &place.facts, &guest, (&id, 0x4701_0000));
    assert!(began.elapsed() < Duration::from_secs(25), "{probe:?}");
    assert_eq!(probe.monitor, None);
    assert!(
        probe.lines[0].starts_with("KVM is there, and QEMU: "),
        "{probe:?}"
    );
    println!("{:?} after {:?}", probe.lines, began.elapsed());
    let left = std::process::Command::new("pgrep")
        .args(["-f", "accel kvm"])
        .output();
    assert!(left.unwrap().stdout.is_empty(), "a machine is left");
}
