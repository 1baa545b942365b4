// SPDX-License-Identifier: Apache-2.0
//! kill -9 of one role in the middle of work. The far end is the oracle: every request that it saw
//! has its record, every credential that it saw a release; after a restart the record verifies and
//! nothing of the session is left anywhere.

pub mod cut;
mod oracle;
mod orphans;

pub use oracle::Judged;

use crate::daemon::Daemon;
use crate::world::{World, random};
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The roles that a process can be killed of.
pub const ROLES: [&str; 9] = [
    "supervisor",
    "desk",
    "notary",
    "dialer",
    "launcher",
    "gate",
    "porter",
    "keeper",
    // Its first process: the agent, gVisor's kernel, QEMU.
    "sandbox",
];

/// How the command line of a sandbox's first process begins, at each level.
const FIRST: [&[u8]; 3] = [
    b"/.torno/torno-guest\0init\0",
    b"runsc-sandbox\0",
    b"/machine/usr/bin/qemu-system-",
];

/// What is going on when the blow falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The session is being started: workspace copied, gate and sandbox made.
    Starting,
    /// Requests are under way, with the credential and without, some with a body.
    Working,
    /// Changes of the workspace are being brought back.
    Applying,
    /// The session is being ended in good order.
    Stopping,
    /// The session is being killed by its operator.
    Killing,
}

impl Step {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Starting,
        Self::Working,
        Self::Applying,
        Self::Stopping,
        Self::Killing,
    ];

    /// The steps in which a role has a process: a porter lives for one job on files.
    #[must_use]
    pub fn of(role: &str) -> &'static [Self] {
        if role == "porter" {
            &[Self::Starting, Self::Applying]
        } else {
            &Self::ALL
        }
    }
}

/// One blow.
#[derive(Debug, Clone, Copy)]
pub struct Blow {
    /// Whose process dies.
    pub role: &'static str,
    /// When.
    pub step: Step,
    /// How long into that step; for a role that the step itself starts, after its process came.
    pub after: Duration,
}

/// How a blow ended; whatever must hold held.
#[derive(Debug, Clone, Copy)]
pub enum Struck {
    /// The role's process was there and died of it.
    Killed(Judged),
    /// There was no such process at that moment.
    Missed(Judged),
}

/// Requests whose path is theirs alone: with the credential, without, and with a body.
const LOOP: &str = "n=0; while :; do n=$((n+1)); echo $n > changed
curl -sS -m 5 -o /dev/null -H \"authorization: Bearer $API_TOKEN\" https://api.torno.test/public/$1/c$n
curl -sS -m 5 -o /dev/null https://other.torno.test/public/$1/p$n
curl -sS -m 5 -o /dev/null -H \"authorization: Bearer $API_TOKEN\" --data-binary @bulk-0 \
https://api.torno.test/public/$1/b$n
done";
/// LIMIT: how long anything here may take before it is a finding; the machine may be busy.
const WAIT: Duration = Duration::from_secs(60);
/// LIMIT: how long a role's process is waited for in its step, before the blow has missed.
const APPEAR_WAIT: Duration = Duration::from_secs(5);
/// Files of the workspace, so that a porter has work for a moment.
const BULK_FILES: usize = 300;

/// Fills the workspace that sessions get a copy of.
///
/// # Errors
/// When a file can't be written.
pub fn furnish(daemon: &Daemon) -> Result<()> {
    for number in 0..BULK_FILES {
        daemon.write_workspace(&format!("bulk-{number}"), &"x".repeat(8192))?;
    }
    Ok(())
}

/// Strikes once and looks at everything that must hold afterwards.
///
/// # Errors
/// What did not hold.
pub fn strike(daemon: &mut Daemon, world: &World, level: &str, blow: Blow) -> Result<Struck> {
    let name = random()?;
    let before = orphans::Before::look(daemon)?;
    let marks = oracle::Marks::take(world);
    let command = ["/bin/sh", "-c", LOOP, "crash-campaign", &name];
    let mut run = quiet(&mut daemon.run_command(level, &command))?;
    if blow.step != Step::Starting {
        until("no request arrived", || marks.seen(world, &name) > 2)?;
    }
    let mut aside = begin(daemon, blow.step)?;
    let struck = hit(daemon, blow, &mut run)?;
    if let Some(aside) = &mut aside {
        wait_for(aside, "the operator's command went on")?;
    }
    let stands = matches!(blow.role, "gate" | "porter" | "keeper" | "sandbox") || !struck;
    if stands {
        end_sessions(daemon, &mut run)?;
    } else {
        wait_for(&mut run, "`torno run` went on without its daemon")?;
        daemon.wait_for_end(WAIT)?;
    }
    let restarted = restart(daemon)?;
    before.nothing_is_left(daemon, restarted, &name)?;
    let judged = marks.judge(world, daemon, &name)?;
    Ok(if struck {
        Struck::Killed(judged)
    } else {
        Struck::Missed(judged)
    })
}

/// Starts what an operator does in a step.
fn begin(daemon: &Daemon, step: Step) -> Result<Option<Child>> {
    let session = || -> Result<String> {
        let sessions = daemon.sessions()?;
        sessions.into_iter().next().context("no session is listed")
    };
    let mut command = match step {
        Step::Starting | Step::Working => return Ok(None),
        Step::Applying => daemon.torno(&["session", "apply", &session()?, "--yes"]),
        Step::Stopping => daemon.torno(&["session", "stop", &session()?]),
        Step::Killing => daemon.torno(&["kill", "--all"]),
    };
    quiet(&mut command).map(Some)
}

/// Waits for the role's process and kills it. Whether there was one.
fn hit(daemon: &Daemon, blow: Blow, run: &mut Child) -> Result<bool> {
    let end = Instant::now() + APPEAR_WAIT;
    loop {
        if let Some(pid) = process(daemon, blow.role)? {
            std::thread::sleep(blow.after);
            // The number may be somebody else's by now.
            if process(daemon, blow.role)? != Some(pid) {
                return Ok(false);
            }
            return Ok(kill_process(pid, Signal::KILL).is_ok());
        }
        let over = !matches!(run.try_wait(), Ok(None));
        if over || Instant::now() > end {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_micros(300));
    }
}

/// Brings the daemon up again, with its vault open, when it is down. Whether it was.
fn restart(daemon: &mut Daemon) -> Result<bool> {
    let down = !daemon.runs();
    if down {
        daemon.up().context("after the blow")?;
        let key = daemon.key_file();
        let key = key.to_str().context("a path that is not UTF-8")?;
        daemon.must(&["vault", "unseal", "--key-file", key])?;
    }
    daemon.must(&["audit", "verify"])?;
    let sessions = daemon.sessions()?;
    anyhow::ensure!(sessions.is_empty(), "sessions are left: {sessions:?}");
    Ok(down)
}

/// The death of a gate, a porter or of something of a sandbox is not the daemon's: what runs on is
/// ended by an operator.
fn end_sessions(daemon: &Daemon, run: &mut Child) -> Result<()> {
    std::thread::sleep(Duration::from_millis(300));
    if run.try_wait()?.is_none() {
        daemon.must(&["kill", "--all"])?;
    }
    wait_for(run, "`torno run` went on without its session")
}

/// Starts a command of the operator's; one that finds its daemon dead must not start another.
fn quiet(command: &mut Command) -> Result<Child> {
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    let command = command.env("TORNO_NO_START", "1");
    command.spawn().context("cannot start torno")
}

fn wait_for(child: &mut Child, what: &str) -> Result<()> {
    let waited = until(what, || matches!(child.try_wait(), Ok(Some(_)) | Err(_)));
    if waited.is_err() {
        let _dead = child.kill();
        let _reaped = child.wait();
    }
    waited
}

fn until(what: &str, mut holds: impl FnMut() -> bool) -> Result<()> {
    let end = Instant::now() + WAIT;
    while !holds() {
        if Instant::now() > end {
            bail!("{what}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// A role's process: the supervisor, or below it by the name that it was given.
///
/// # Errors
/// When tornod does not run.
pub fn process(daemon: &Daemon, role: &str) -> Result<Option<Pid>> {
    let supervisor = daemon.pid().context("tornod does not run")?;
    let below = |parent: u32, name: &str| {
        let name = format!("{name}\0");
        child(parent, |line| line.starts_with(name.as_bytes()))
    };
    let launcher = below(supervisor, "tornod-launcher");
    let number = match role {
        "supervisor" => Some(supervisor),
        // The launcher starts both, and reaps what becomes an orphan below it.
        "keeper" => launcher.and_then(|pid| below(pid, "/proc/self/exe\0keeper")),
        "sandbox" => launcher.and_then(|pid| {
            let is_first = |line: &[u8]| FIRST.iter().any(|begin| line.starts_with(begin));
            child(pid, is_first)
        }),
        other => below(supervisor, &format!("tornod-{other}")),
    };
    Ok(number.and_then(|number| Pid::from_raw(i32::try_from(number).ok()?)))
}

/// A child by its command line. Lowest number first, so oldest first: the session's gate, not the
/// one made ahead of the next.
fn child(parent: u32, is: impl Fn(&[u8]) -> bool) -> Option<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).ok()?;
    let children = tasks.flatten().map(|task| task.path().join("children"));
    let text: Vec<String> = children
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .collect();
    let numbers = text.iter().flat_map(|text| text.split_whitespace());
    let mut numbers: Vec<u32> = numbers.filter_map(|number| number.parse().ok()).collect();
    numbers.sort_unstable();
    let line = |number: &u32| std::fs::read(format!("/proc/{number}/cmdline"));
    numbers
        .into_iter()
        .find(|number| line(number).is_ok_and(|line| is(&line)))
}
