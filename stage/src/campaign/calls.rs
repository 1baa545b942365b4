// SPDX-License-Identifier: Apache-2.0
//! The kernel refuses the n-th call of a kind in the launcher, and in each process that it starts,
//! while a session begins, is kept, pauses, goes on or ends. The command may fail, in words; a role
//! may die of it. Then the daemon works, or works again once it is started, and when it has ended
//! the host is what it was.

mod inject;

use super::churn::{at_rest, kept, listed, planted, start};
use anyhow::{Context, Result, bail, ensure};
use inject::Tracing;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use torno_stage::crash::process;
use torno_stage::daemon::{Daemon, works};
use torno_stage::leftovers::{Host, Picture};
use torno_stage::world::random;

/// The same program, in namespaces of its own.
pub(super) const INSIDE: &str = "calls-inside";
/// Points, when no number is given.
const POINTS_DEFAULT: u32 = 200;
/// A user-space kernel traces its processes itself, and nobody is traced twice (ptrace(2)).
const LEVELS: &str = "container";
/// LIMIT: a command that takes longer hangs.
const COMMAND_WAIT: Duration = Duration::from_secs(120);
/// LIMIT: until a role that dies of a refused call is missed.
const DEATH_WAIT: Duration = Duration::from_millis(500);
/// LIMIT: a command that is traced; after this it goes on untraced, before who waits for a child
/// that strace lost gives it up.
const TRACED_WAIT: Duration = Duration::from_secs(10);
/// LIMIT: until sessions work again.
const AGAIN_WAIT: Duration = Duration::from_secs(5);
/// LIMIT: a daemon whose role died ends within this.
const END_WAIT: Duration = Duration::from_secs(60);
/// LIMIT: how long a host may take to come to rest.
const REST_WAIT: Duration = Duration::from_secs(30);
/// LIMIT: faults after which there is no point in going on.
const FAULTS_MAX: usize = 20;
/// What a kernel that is short of something, or forbids it, says.
const ERRORS: [&str; 5] = ["ENOMEM", "EIO", "ENOSPC", "EMFILE", "EPERM"];

/// What happens to a session while a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Begins,
    IsKept,
    Pauses,
    GoesOn,
    Stops,
    IsKilled,
}

const STEPS: [Step; 6] = [
    Step::Begins,
    Step::IsKept,
    Step::Pauses,
    Step::GoesOn,
    Step::Stops,
    Step::IsKilled,
];

/// One failure.
struct Point {
    level: String,
    step: Step,
    call: String,
    number: usize,
    error: &'static str,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            level,
            step,
            call,
            number,
            error,
        } = self;
        write!(
            f,
            "{level}, a session {step:?}: {call} number {number}: {error}"
        )
    }
}

/// How many calls of each kind a process makes at most, by level and step.
type Made = BTreeMap<(String, Step), BTreeMap<String, usize>>;

/// Starts the campaign where it is alone; whether nothing failed.
pub(super) fn run(count: Option<u32>, seed: Option<String>, levels: Option<&str>) -> Result<bool> {
    let count = count.unwrap_or(POINTS_DEFAULT);
    start(INSIDE, count, seed, levels.unwrap_or(LEVELS))
}

/// The campaign itself.
pub(super) fn inside(words: &[String]) -> Result<bool> {
    let [count, seed, levels] = words else {
        bail!("{INSIDE} POINTS SEED LEVELS");
    };
    let count: u32 = count.parse().context("not a number")?;
    let host = Host::new(&[]);
    planted::each_is_found(&host)?;
    let mut campaign = Campaign {
        empty: host.picture()?,
        host,
        daemon: Daemon::bare("")?,
        faults: Vec::new(),
        met: BTreeMap::new(),
        not_met: 0,
    };
    campaign
        .daemon
        .write_workspace("file", "of the workspace\n")?;
    let made = campaign.measure(levels)?;
    let mut point = 0;
    while point < count && campaign.faults.len() < FAULTS_MAX {
        let drawn = draw(seed, point, &made)?;
        point += 1;
        campaign.one(&drawn);
    }
    Ok(campaign.end(point))
}

/// The failure of a number: the same for a seed where the same calls are made.
fn draw(seed: &str, point: u32, made: &Made) -> Result<Point> {
    let digest = Sha256::digest(format!("{seed} {point}"));
    let mut numbers = digest.chunks_exact(4).map(|part| {
        part.iter()
            .fold(0_usize, |number, byte| number << 8 | usize::from(*byte))
    });
    let mut below = |sides: usize| numbers.next().unwrap_or_default() % sides.max(1);
    let ((level, step), calls) = made.iter().nth(below(made.len())).context("no step")?;
    let (call, most) = calls.iter().nth(below(calls.len())).context("no call")?;
    Ok(Point {
        level: level.clone(),
        step: *step,
        call: call.clone(),
        number: 1 + below(*most),
        error: ERRORS.get(below(ERRORS.len())).copied().unwrap_or("EIO"),
    })
}

struct Campaign {
    host: Host,
    empty: Picture,
    daemon: Daemon,
    faults: Vec<String>,
    met: BTreeMap<(Step, bool), u32>,
    not_met: u32,
}

impl Campaign {
    /// What each step calls, told by steps in which nothing fails.
    fn measure(&mut self, levels: &str) -> Result<Made> {
        let mut made = Made::new();
        for level in levels.split(',') {
            if let Err(why) = works(&self.daemon, level)? {
                println!("SKIP: {level}: {why}");
                continue;
            }
            for step in STEPS {
                let id = self.prepare(level, step)?;
                let mut tracing = Tracing::watch(process(&self.daemon, "launcher")?)?;
                let done = ended(self.command(level, step, &id, "measured"), &mut tracing)?;
                // Of a step that strace held up, the calls until then.
                let calls = tracing.end()?;
                ensure!(done == Some(0), "{step:?} at {level} fails by itself");
                self.clear()?;
                println!(
                    "{level}, a session {step:?}: {} kinds of calls",
                    calls.len()
                );
                made.insert((level.to_owned(), step), calls);
            }
        }
        ensure!(!made.is_empty(), "no level works here");
        Ok(made)
    }

    /// The session that a step is about.
    fn prepare(&self, level: &str, step: Step) -> Result<String> {
        if step == Step::Begins {
            return Ok(String::new());
        }
        let mut start = self
            .daemon
            .run_in(level, &["--detach", "--workspace", "copy"], &[]);
        let output = start.stdin(Stdio::null()).output().context("torno")?;
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "no session: {told}");
        let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if step == Step::GoesOn {
            self.daemon.must(&["session", "pause", &id])?;
        }
        Ok(id)
    }

    fn command(&self, level: &str, step: Step, id: &str, name: &str) -> Command {
        let torno = |words: &[&str]| self.daemon.torno(words);
        match step {
            Step::Begins => {
                let options = ["--workspace", "copy"];
                self.daemon
                    .run_in(level, &options, &["/bin/sh", "-c", "true"])
            }
            Step::IsKept => torno(&["session", "checkpoint", id, "--name", name]),
            Step::Pauses => torno(&["session", "pause", id]),
            Step::GoesOn => torno(&["session", "resume", id]),
            Step::Stops => torno(&["session", "stop", id]),
            Step::IsKilled => torno(&["kill", id]),
        }
    }

    /// Ends what sessions there are.
    fn clear(&self) -> Result<()> {
        for id in self.daemon.sessions()? {
            self.daemon.must(&["kill", &id])?;
        }
        let left = at_rest(|| listed(&self.daemon))?;
        ensure!(left.is_empty(), "{left:?}");
        Ok(())
    }

    fn one(&mut self, point: &Point) {
        let judged = self.judged(point);
        eprintln!("{point}: {judged:?}");
        match judged {
            Ok(Some(has_failed)) => {
                *self.met.entry((point.step, has_failed)).or_default() += 1;
            }
            Ok(None) => self.not_met += 1,
            Err(error) => {
                eprintln!("{}", self.daemon.log_text());
                self.faults.push(format!("{point}: {error:#}"));
                // The next one begins with a daemon of its own, as after one that held.
                self.daemon.down();
            }
        }
    }

    /// One failure and all that must hold. Whether the command failed, if a call did.
    fn judged(&mut self, point: &Point) -> Result<Option<bool>> {
        if !self.daemon.runs() {
            self.daemon.up()?;
        }
        let id = self.prepare(&point.level, point.step)?;
        let launcher = process(&self.daemon, "launcher")?;
        let mut tracing = Tracing::fail(launcher, &point.call, point.number, point.error)?;
        let name = format!("p{}-{}", point.number, random()?.get(..6).unwrap_or("x"));
        let command = self.command(&point.level, point.step, &id, &name.to_lowercase());
        let code = ended(command, &mut tracing);
        let met = tracing.end_of_failing()?;
        let code = code?;
        ensure!(code.is_some(), "the command hangs");
        self.works_again(&point.level)?;
        self.daemon.down();
        let left = self.host.at_rest(&self.empty, REST_WAIT)?;
        ensure!(left.is_empty(), "left over: {left:#?}");
        self.daemon.up()?;
        let left = at_rest(|| kept(&self.daemon))?;
        ensure!(left.is_empty(), "{left:#?}");
        Ok((met > 0).then_some(code != Some(0)))
    }

    /// The daemon goes on, or has ended and comes up; then a session works.
    fn works_again(&mut self, level: &str) -> Result<()> {
        // `torno` would start a daemon of its own where there is none: first this one has ended.
        std::thread::sleep(DEATH_WAIT);
        let is_ending = process(&self.daemon, "launcher").is_ok_and(|found| found.is_none());
        if !self.daemon.runs() || is_ending {
            self.daemon.wait_for_end(END_WAIT)?;
            self.daemon.up()?;
        }
        self.clear()?;
        // A level whose probe failed is probed again after a second.
        let end = Instant::now() + AGAIN_WAIT;
        loop {
            let options = ["--workspace", "copy"];
            let mut run = self
                .daemon
                .run_in(level, &options, &["/bin/sh", "-c", "cat file"]);
            let output = run.stdin(Stdio::null()).output().context("torno")?;
            if output.status.success() && output.stdout == b"of the workspace\n" {
                break;
            }
            ensure!(
                Instant::now() < end,
                "no session works any more: {output:?}"
            );
            std::thread::sleep(DEATH_WAIT);
        }
        self.daemon.must(&["audit", "verify"])?;
        Ok(())
    }

    fn end(&self, points: u32) -> bool {
        for ((step, has_failed), count) in &self.met {
            let told = if *has_failed {
                "failed, in words"
            } else {
                "did not care"
            };
            println!("{count:5}  a session {step:?}: the command {told}");
        }
        println!(
            "{} points met no such call; what must hold held",
            self.not_met
        );
        for fault in &self.faults {
            println!("failed: {fault}");
        }
        let failed = u32::try_from(self.faults.len()).unwrap_or(u32::MAX);
        println!("{} passed, {failed} failed", points.saturating_sub(failed));
        self.faults.is_empty()
    }
}

/// The code of a command's end; nothing for one that hung, which is dead now. Who traces is told to
/// let go before that: strace loses a child that is born of a process in the middle of its own
/// start now and then, and holds it for ever.
fn ended(mut command: Command, tracing: &mut Tracing) -> Result<Option<i32>> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child: Child = command.stderr(Stdio::null()).spawn().context("torno")?;
    let end = Instant::now() + COMMAND_WAIT;
    let let_go = Instant::now() + TRACED_WAIT;
    while Instant::now() < end {
        if Instant::now() > let_go {
            tracing.let_go();
        }
        if let Some(status) = child.try_wait().context("torno")? {
            return Ok(Some(status.code().unwrap_or(-1)));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().context("torno")?;
    child.wait().context("torno")?;
    Ok(None)
}
