// SPDX-License-Identifier: Apache-2.0
//! Limits hold, a kill leaves nobody, an end and a failed start leave nothing.

use crate::harness::{Running, facts_for, ids_of, spec, traces};
use crate::inside::LEVELS;
use std::io;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use torno_sandbox::{
    Census, Level, PlanError, SandboxId, StartInputs, StartStep, Watch, plan, start_watched,
};

// ATTACK: 151
// ATTACK: 155
#[test]
fn a_kill_leaves_nobody_whatever_forked_and_left_its_session() {
    for level in LEVELS {
        let Some(mut sandbox) = Running::new(level) else {
            continue;
        };
        let code = "import os, time, ctypes
for _ in range(5):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(1, 0)
            os.execv('/bin/sh', ['sh', '-c', 'while :; do sleep 0.01 & wait; done'])
        os._exit(0)
time.sleep(0.3); print('forked')";
        assert_eq!(sandbox.run(code), "forked");
        let members = sandbox.started.handle.members();
        assert!(members.len() >= 2, "{level:?}: {members:?}");
        let begun = Instant::now();
        let census = sandbox.started.handle.kill();
        assert!(
            census.alive_before >= 2 && census.alive_after == 0,
            "{level:?}: {census:?}"
        );
        assert!(
            begun.elapsed() < Duration::from_secs(2),
            "{level:?}: {:?}",
            begun.elapsed()
        );
        for pid in members {
            let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            assert!(
                state.is_empty() || state.contains(") Z "),
                "{level:?}: {state}"
            );
        }
        assert_eq!(
            sandbox.started.handle.kill(),
            Census {
                alive_before: 0,
                alive_after: 0
            }
        );
        sandbox.started.handle.remove().unwrap();
    }
}

#[test]
fn a_removed_sandbox_leaves_no_group_mount_or_process() {
    for level in LEVELS {
        let Some(facts) = facts_for(level) else {
            continue;
        };
        let spec = spec(level);
        let sandbox = Running::of(&spec, &facts, None);
        let members = sandbox.started.handle.members();
        let (mounts, groups) = traces();
        let named = |path: &std::path::PathBuf| path.to_string_lossy().contains(spec.id.as_str());
        assert!(
            groups.iter().any(named),
            "the group is there while it lives"
        );
        assert!(
            !mounts.iter().any(|mount| mount.contains("/run/rootfs")),
            "no mount is on the host"
        );
        sandbox.started.handle.remove().unwrap();
        assert!(!traces().1.iter().any(named), "{level:?}");
        for pid in members {
            assert!(
                !std::path::Path::new(&format!("/proc/{pid}")).exists(),
                "{level:?}: {pid} lives or was not reaped"
            );
        }
    }
}

#[test]
fn a_dropped_handle_ends_the_sandbox() {
    let Some(facts) = facts_for(Level::Container) else {
        return;
    };
    let spec = spec(Level::Container);
    let sandbox = Running::of(&spec, &facts, None);
    drop(sandbox);
    assert!(
        !traces()
            .1
            .iter()
            .any(|path| path.to_string_lossy().contains(spec.id.as_str()))
    );
}

// ATTACK: 156
#[test]
fn a_fork_bomb_meets_its_limit() {
    let Some(facts) = facts_for(Level::Container) else {
        return;
    };
    let mut spec = spec(Level::Container);
    spec.limits.pids = 32;
    let mut sandbox = Running::of(&spec, &facts, None);
    let code = "import os, time
made = 0
try:
    for _ in range(500):
        if os.fork() == 0: time.sleep(60); os._exit(0)
        made += 1
except OSError as error: print(made, error.errno)";
    // A dead helper of the runtime may still take one place.
    let answer = sandbox.run(code);
    assert!(["31 11", "30 11"].contains(&answer.as_str()), "{answer}");
    assert!(sandbox.started.handle.members().len() <= 32);
    assert_eq!(sandbox.started.handle.kill().alive_after, 0);
}

// ATTACK: 157
#[test]
fn memory_runs_out_inside_only() {
    let Some(facts) = facts_for(Level::Container) else {
        return;
    };
    let mut spec = spec(Level::Container);
    spec.limits.memory_bytes = 64 << 20;
    let mut sandbox = Running::of(&spec, &facts, None);
    let code = "import os
pid = os.fork()
if pid == 0:
    hoard = [bytearray(os.urandom(1 << 20)) for _ in range(200)]
    os._exit(0)
print(os.WTERMSIG(os.waitpid(pid, 0)[1]))";
    let answer = sandbox.run(code);
    assert_eq!(
        answer, "9",
        "the child is killed by the group's own limit, the first process lives"
    );
    assert_eq!(sandbox.started.handle.memory_kills(), 1);
}

#[test]
fn a_frozen_sandbox_does_nothing_and_can_be_killed() {
    for level in LEVELS {
        let Some(mut sandbox) = Running::new(level) else {
            continue;
        };
        sandbox.started.handle.set_frozen(true).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        sandbox.send("print('awake')");
        assert!(
            !sandbox.says_something_within(Duration::from_millis(200)),
            "{level:?}"
        );
        sandbox.started.handle.set_frozen(false).unwrap();
        assert_eq!(sandbox.answer().trim(), "awake", "{level:?}");
        sandbox.started.handle.set_frozen(true).unwrap();
        assert_eq!(sandbox.started.handle.kill().alive_after, 0, "{level:?}");
    }
}

// ATTACK: 158
#[test]
fn disk_and_inodes_run_out_inside_only() {
    for level in LEVELS {
        let Some(mut sandbox) = Running::new(level) else {
            continue;
        };
        let code = "import errno, os
for place in ('/tmp', '/home/agent', '/workspace', '/dev/shm'):
    written = 0
    try:
        with open(place + '/fill', 'wb', buffering=0) as file:
            while written < 200 << 20: written += file.write(bytes(1 << 20))
    except OSError as error: print(errno.errorcode[error.errno], written <= 40 << 20)
    os.unlink(place + '/fill')";
        assert_eq!(
            sandbox.run(code),
            ["ENOSPC True"; 4].join("\n"),
            "{level:?}"
        );
        if level == Level::Container {
            let code = "import errno
made = 0
try:
    while made < 100000: open(f'/tmp/f{made}', 'x'); made += 1
except OSError as error: print(errno.errorcode[error.errno], made < 5000)";
            assert_eq!(sandbox.run(code), "ENOSPC True");
        }
    }
}

/// Fails the start at one step.
struct FailAt(StartStep);

impl Watch for FailAt {
    fn before(&mut self, step: StartStep) -> io::Result<()> {
        if step == self.0 {
            Err(io::Error::other("injected"))
        } else {
            Ok(())
        }
    }
}

#[test]
fn a_start_that_fails_at_any_step_leaves_nothing() {
    for level in LEVELS {
        let Some(facts) = facts_for(level) else {
            continue;
        };
        for step in StartStep::ALL {
            let spec = spec(level);
            let plan = plan(&spec, &facts).unwrap();
            let (host, inside) = UnixStream::pair().unwrap();
            let inputs = StartInputs {
                link: inside.into(),
                workspace: None,
                network: None,
            };
            let error = start_watched(&plan, inputs, &mut FailAt(step)).unwrap_err();
            assert!(error.to_string().contains(&step.to_string()), "{error}");
            let left =
                |path: &std::path::PathBuf| path.to_string_lossy().contains(spec.id.as_str());
            assert!(!traces().1.iter().any(left), "{level:?} {step}");
            // The link's other end is closed everywhere: no process holds it.
            host.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            assert_eq!(
                io::Read::read(&mut &host, &mut [0; 1]).unwrap(),
                0,
                "{level:?} {step}"
            );
        }
    }
}

#[test]
fn runc_makes_the_same_sandbox() {
    let Some(mut facts) = facts_for(Level::Container) else {
        return;
    };
    let Some(runc) = torno_sandbox::Runtime::find(&crate::harness::paths(), "runc") else {
        println!("SKIP: container sandbox by runc: no runc");
        return;
    };
    facts.container_runtime = Some(runc);
    let spec = spec(Level::Container);
    if facts.rights != Ok(torno_sandbox::Rights::Root) && !facts.cgroups.v1.is_empty() {
        let error = plan(&spec, &facts).unwrap_err();
        assert!(matches!(error, PlanError::RuncNeedsRoot), "{error}");
        return;
    }
    let mut sandbox = Running::of(&spec, &facts, None);
    assert_eq!(
        sandbox.run("import os; print(os.getuid(), os.getpid(), os.uname().nodename)"),
        "1000 1 sandbox"
    );
    assert_eq!(sandbox.started.handle.kill().alive_after, 0);
    sandbox.started.handle.remove().unwrap();
    assert!(
        !traces()
            .1
            .iter()
            .any(|path| path.to_string_lossy().contains(spec.id.as_str()))
    );
}

#[test]
fn a_probe_starts_a_sandbox_or_names_what_is_missing() {
    let id = SandboxId::parse("probeprobeprobeprobeprobe2").unwrap();
    for level in LEVELS {
        let Some(facts) = facts_for(level) else {
            continue;
        };
        let named = (&id, spec(level).uid_base);
        let found = torno_sandbox::probe(level, &facts, named).unwrap();
        assert_eq!(found.level, level);
        assert!(
            !traces()
                .1
                .iter()
                .any(|path| path.to_string_lossy().contains("torno-probe"))
        );
    }
    let Some(mut facts) = facts_for(Level::Container) else {
        return;
    };
    facts.container_runtime = None;
    let named = (&id, spec(Level::Container).uid_base);
    let missing = torno_sandbox::probe(Level::Container, &facts, named).unwrap_err();
    assert_eq!(missing.fix, "apt-get install crun");
    // A runtime that says yes and does nothing is no runtime.
    let mut facts = facts_for(Level::Container).unwrap();
    facts.container_runtime.as_mut().unwrap().path = "/bin/true".into();
    assert!(torno_sandbox::probe(Level::Container, &facts, named).is_err());
    let mut facts = facts_for(Level::Container).unwrap();
    facts.nft = Some("/bin/false".into());
    assert_eq!(
        torno_sandbox::probe(Level::Container, &facts, named)
            .unwrap_err()
            .fix,
        "modprobe nf_tables"
    );
}

#[test]
fn a_keeper_ends_the_sandbox_when_its_launcher_is_gone() {
    for level in LEVELS {
        let Some(mut facts) = facts_for(level) else {
            continue;
        };
        let own = std::env::current_exe().unwrap();
        let keeper = own
            .parent()
            .unwrap()
            .parent()
            .unwrap()
            .join("examples/keeper");
        if !keeper.exists() {
            println!("SKIP: a keeper: the example `keeper` is not built");
            return;
        }
        facts.keeper = Some(keeper.clone());
        let spec = spec(level);
        let mut sandbox = Running::of(&spec, &facts, None);
        assert_eq!(sandbox.run("print(1)"), "1");
        // A second one, whose launcher is this test and whose pipe closes now.
        let mut second = std::process::Command::new(&keeper)
            .arg("keeper")
            .args(sandbox.started.handle.directories())
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        drop(second.stdin.take());
        assert!(second.wait().unwrap().success());
        assert!(sandbox.started.handle.members().is_empty(), "{level:?}");
        assert!(
            !traces()
                .1
                .iter()
                .any(|path| path.to_string_lossy().contains(spec.id.as_str())),
            "{level:?}"
        );
        sandbox.started.handle.remove().unwrap();
    }
}

#[test]
fn its_processes_have_ids_and_namespaces_of_their_own() {
    for level in LEVELS {
        let Some(facts) = facts_for(level) else {
            continue;
        };
        let spec = spec(level);
        let sandbox = Running::of(&spec, &facts, None);
        let own = |kind: &str| std::fs::read_link(format!("/proc/self/ns/{kind}")).unwrap();
        // The runtime's last helper of the host's root ends by itself.
        let deadline = Instant::now() + Duration::from_secs(5);
        let is_roots = |pid: &i32| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.contains("Uid:\t0\t")
        };
        while sandbox.started.handle.members().iter().any(is_roots) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        for pid in sandbox.started.handle.members() {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let ids = status
                .lines()
                .filter(|line| line.starts_with("Uid:") || line.starts_with("Gid:"))
                .flat_map(|line| line.split_whitespace().skip(1))
                .map(|id| id.parse::<u32>().unwrap());
            for id in ids {
                assert!(ids_of(&spec, &facts).0.contains(&id), "{level:?}: {status}");
            }
            // The user-space kernel is itself a process of the host, without reach.
            let all: &[&str] = match level {
                Level::Container => &["net", "mnt", "user", "ipc", "uts", "pid", "cgroup"],
                _ => &["net", "mnt", "user", "ipc", "uts"],
            };
            for kind in all {
                let its = std::fs::read_link(format!("/proc/{pid}/ns/{kind}")).unwrap();
                assert_ne!(its, own(kind), "{level:?} {kind} of {status}");
            }
        }
    }
}

#[test]
fn a_sweep_ends_what_an_earlier_launcher_left() {
    let Some(facts) = facts_for(Level::Container) else {
        return;
    };
    let spec = spec(Level::Container);
    let sandbox = Running::of(&spec, &facts, None);
    let swept = torno_sandbox::sweep(&facts.cgroups, |id| *id != spec.id).unwrap();
    assert_eq!(swept, std::slice::from_ref(&spec.id));
    assert!(sandbox.started.handle.members().is_empty());
    sandbox.started.handle.remove().unwrap();
}
