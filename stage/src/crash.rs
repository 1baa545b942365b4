// SPDX-License-Identifier: Apache-2.0
//! kill -9 of one role in the middle of work. The far end is the oracle: every credential that it
//! saw has its record; after a restart the record verifies and no process of the sandbox is left.

use crate::daemon::Daemon;
use crate::world::World;
use crate::world::journal::Request;
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// The roles that a process can be killed of.
pub const ROLES: [&str; 6] = ["supervisor", "desk", "notary", "dialer", "launcher", "gate"];

/// What is going on when the blow falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The session is being started.
    Starting,
    /// Requests with the credential are under way.
    Working,
    /// The session is being killed by its operator.
    Killing,
}

impl Step {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Starting, Self::Working, Self::Killing];
}

/// One blow.
#[derive(Debug, Clone, Copy)]
pub struct Blow {
    /// Whose process dies.
    pub role: &'static str,
    /// When.
    pub step: Step,
    /// How long into that step.
    pub after: Duration,
}

/// In the workload's command line, and nowhere else.
const MARK: &str = "torno-crash-campaign";
const LOOP: &str = ": torno-crash-campaign; while :; do curl -sS -m 5 -o /dev/null \
    -H \"authorization: Bearer $API_TOKEN\" https://api.torno.test/v1/me; done";
/// LIMIT: how long anything here may take before it is a finding.
const WAIT: Duration = Duration::from_secs(30);

/// Strikes once and looks at everything that must hold afterwards.
///
/// # Errors
/// What did not hold.
pub fn strike(daemon: &mut Daemon, world: &World, level: &str, blow: Blow) -> Result<()> {
    let before = used(world);
    let recorded = released(daemon)?;
    let mut run = daemon
        .run_command(level, &["/bin/sh", "-c", LOOP])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start torno")?;
    let mut killing = None;
    if blow.step != Step::Starting {
        until("no request arrived", || used(world) > before + 1)?;
    }
    if blow.step == Step::Killing {
        killing = Some(
            daemon
                .torno(&["kill", "--all"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?,
        );
    }
    std::thread::sleep(blow.after);
    // A gate may not be there yet, or no longer: then there is nothing to kill, and that is fine.
    if let Some(pid) = process(daemon, blow.role)? {
        kill_process(pid, Signal::KILL).context("kill -9")?;
    }
    if let Some(mut killing) = killing {
        killing.wait().context("torno kill")?;
    }
    if blow.role == "gate" {
        end_sessions(daemon, &mut run)?;
    } else {
        wait_for(&mut run, "`torno run` went on without its daemon")?;
        daemon.wait_for_end(WAIT)?;
    }
    let seen = after(daemon, world)? - before;
    let released = released(daemon)? - recorded;
    ensure!(
        released >= seen,
        "the far end saw {seen} credentials, {released} are recorded"
    );
    Ok(())
}

/// What must hold after any blow. How often the far end saw the credential by then.
fn after(daemon: &mut Daemon, world: &World) -> Result<usize> {
    until("a process of the sandbox lives on", || {
        leftovers().is_empty()
    })?;
    let seen = used(world);
    std::thread::sleep(Duration::from_millis(300));
    ensure!(used(world) == seen, "requests went on after the blow");
    if !daemon.runs() {
        daemon.up().context("after the blow")?;
        let key = daemon.key_file();
        let key = key.to_str().context("a path that is not UTF-8")?;
        daemon.must(&["vault", "unseal", "--key-file", key])?;
    }
    daemon.must(&["audit", "verify"])?;
    let sessions = daemon.sessions()?;
    ensure!(sessions.is_empty(), "sessions are left: {sessions:?}");
    Ok(seen)
}

/// How many releases of a credential are recorded.
fn released(daemon: &Daemon) -> Result<usize> {
    let records = daemon.must(&["audit", "export", "--format", "jsonl"])?;
    Ok(records
        .lines()
        .filter(|l| l.contains("credential_released"))
        .count())
}

/// A gate's death is its session's death; the daemon stays.
fn end_sessions(daemon: &Daemon, run: &mut Child) -> Result<()> {
    // When the blow came before the gate did, the session runs: end it as an operator would.
    std::thread::sleep(Duration::from_millis(500));
    if run.try_wait()?.is_none() {
        daemon.must(&["kill", "--all"])?;
    }
    wait_for(run, "`torno run` went on without its gate")
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

/// How often the API saw the real credential.
fn used(world: &World) -> usize {
    let real = format!("Bearer {}", world.api_token);
    let is_real = |r: &&Request| r.header("authorization").as_ref() == Some(&real);
    world.api.journal.requests().iter().filter(is_real).count()
}

/// Processes of the workload, seen from the host; `torno run` itself is none.
#[must_use]
pub fn leftovers() -> Vec<String> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = processes.filter_map(|p| std::fs::read(p.path().join("cmdline")).ok());
    lines
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(MARK) && line.starts_with("/bin/sh"))
        .collect()
}

/// A role's process: the supervisor, or a child of it by the name that it was given.
fn process(daemon: &Daemon, role: &str) -> Result<Option<Pid>> {
    let supervisor = daemon.pid().context("tornod does not run")?;
    let pid = |number: u32| i32::try_from(number).ok().and_then(Pid::from_raw);
    if role == "supervisor" {
        return Ok(pid(supervisor));
    }
    // Lowest number first, so oldest first: the session's gate, not the one made ahead of the next.
    let name = format!("tornod-{role}");
    for entry in std::fs::read_dir("/proc").context("/proc")?.flatten() {
        let Ok(number) = entry.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat
            .rsplit(") ")
            .next()
            .and_then(|rest| rest.split(' ').nth(1));
        let child = parent.and_then(|p| p.parse::<u32>().ok()) == Some(supervisor);
        if child && line.split(|b| *b == 0).next() == Some(name.as_bytes()) {
            return Ok(pid(number));
        }
    }
    Ok(None)
}
