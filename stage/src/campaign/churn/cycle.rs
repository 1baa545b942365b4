// SPDX-License-Identifier: Apache-2.0
//! One session's life: at one level, with or without a copy of the workspace, ended in one way.

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};
use std::fmt;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};
use torno_stage::daemon::Daemon;

/// What lies in `file` of the workspace.
pub(super) const WORKSPACE: &str = "of the workspace\n";
/// LIMIT: sixteen emulated machines that boot at once on two cores; more than this is a finding.
const LIFE_WAIT: Duration = Duration::from_secs(300);
/// LIMIT: within this a client dies after it was started.
const CLIENT_DIES_MS_MAX: u64 = 2_000;

/// How a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// Its command does.
    Command,
    /// Its command does, with an exit code of its own.
    Code,
    /// Its command does, and leaves others behind.
    LeavesOthers,
    /// `torno session stop`, while a command runs.
    Stopped,
    /// `torno kill`, while a command runs.
    Killed,
    /// The client is killed, at some moment of start or work.
    ClientDies,
}

const ENDINGS: [Ending; 6] = [
    Ending::Command,
    Ending::Code,
    Ending::LeavesOthers,
    Ending::Stopped,
    Ending::Killed,
    Ending::ClientDies,
];

/// One cycle.
#[derive(Debug, Clone)]
pub(super) struct Cycle {
    level: String,
    ending: Ending,
    copy: bool,
    after: Duration,
    word: String,
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let workspace = if self.copy { "copy" } else { "none" };
        write!(f, "{:9}  {workspace}  {:?}", self.level, self.ending)
    }
}

impl Cycle {
    /// The cycle of a number: the same for a seed on every machine with these levels.
    pub(super) fn draw(seed: &str, number: u32, levels: &[String]) -> Self {
        let digest = Sha256::digest(format!("{seed} {number}"));
        let byte = |place: usize| digest.get(place).copied().unwrap_or_default();
        let pick = |place: usize, sides: usize| usize::from(byte(place)) % sides.max(1);
        let ms = u64::from(byte(3)) << 8 | u64::from(byte(4));
        Self {
            level: levels
                .get(pick(0, levels.len()))
                .cloned()
                .unwrap_or_default(),
            ending: ENDINGS
                .get(pick(1, ENDINGS.len()))
                .copied()
                .unwrap_or(Ending::Command),
            copy: pick(2, 2) == 0,
            after: Duration::from_millis(ms % CLIENT_DIES_MS_MAX),
            word: format!("cycle-{number}-{}", byte(5)),
        }
    }

    /// Lives it.
    pub(super) fn go(&self, daemon: &Daemon) -> Result<()> {
        let script = match self.ending {
            Ending::Command => format!("cat /workspace/file; echo {}", self.word),
            Ending::Code => format!("echo {}; exit 7", self.word),
            Ending::LeavesOthers => format!(
                "(setsid sleep 1000 &); (nohup sleep 1000 >/dev/null 2>&1 &); echo {}",
                self.word
            ),
            Ending::ClientDies => "sleep 1000".to_owned(),
            Ending::Stopped | Ending::Killed => return self.detached(daemon),
        };
        let mut run = daemon.run_in(&self.level, &self.workspace(), &["/bin/sh", "-c", &script]);
        let child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.context("cannot start torno")?;
        if self.ending == Ending::ClientDies {
            std::thread::sleep(self.after);
            child.kill().context("the client")?;
            child.wait().context("the client")?;
            return Ok(());
        }
        let output = within(child)?;
        let said = String::from_utf8_lossy(&output.stdout);
        let told = String::from_utf8_lossy(&output.stderr);
        let code = if self.ending == Ending::Code { 7 } else { 0 };
        ensure!(
            said.contains(&self.word) && output.status.code() == Some(code),
            "{}: {said}{told}",
            output.status
        );
        ensure!(
            self.ending != Ending::Command || !self.copy || said.contains(WORKSPACE.trim()),
            "no workspace: {said}{told}"
        );
        Ok(())
    }

    fn workspace(&self) -> [&'static str; 2] {
        ["--workspace", if self.copy { "copy" } else { "none" }]
    }

    /// A session whose command is still at work when an operator ends it.
    fn detached(&self, daemon: &Daemon) -> Result<()> {
        let options = ["--detach", self.workspace()[0], self.workspace()[1]];
        let mut start = daemon.run_in(&self.level, &options, &[]);
        let output = within(
            start
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()?,
        )?;
        let told = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {told}", output.status);
        let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let mut exec = daemon.torno(&["session", "exec", &id, "--"]);
        exec.args(["/bin/sh", "-c", "echo begun; exec sleep 1000"]);
        let mut exec = exec.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        begun(&mut exec)?;
        let verb: &[&str] = if self.ending == Ending::Killed {
            &["kill", &id]
        } else {
            &["session", "stop", &id]
        };
        daemon.must(verb)?;
        let ended = within(exec)?;
        ensure!(!ended.status.success(), "the command outlived its session");
        Ok(())
    }
}

/// Waits for the command's first word.
fn begun(exec: &mut Child) -> Result<()> {
    use std::io::Read;
    let mut word = [0; 5];
    let stdout = exec.stdout.as_mut().context("no output")?;
    stdout
        .read_exact(&mut word)
        .context("the command said nothing")
}

/// Waits for a program; one that goes on is a finding.
fn within(mut child: Child) -> Result<Output> {
    let end = Instant::now() + LIFE_WAIT;
    while child.try_wait()?.is_none() {
        if Instant::now() > end {
            let _dead = child.kill();
            let output = child.wait_with_output()?;
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            anyhow::bail!("went on for {} s: {told}", LIFE_WAIT.as_secs());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().context("torno")
}
