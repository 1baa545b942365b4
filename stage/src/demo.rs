// SPDX-License-Identifier: Apache-2.0
//! `torno-demo`: a hostile program in a real sandbox uses a real git token and a real API key, and
//! fails to see either and to send anything elsewhere. Every attempt first runs with its wall off,
//! where it must succeed; then sealed, at each level, where it must not.
//!
//! Arguments: `--level NAME` (again for more), `--only TEXT` (attempts whose name contains it).

use anyhow::{Context, Result, bail};
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use torno_stage::attempt::{Attempt, Observation, Secrets};
use torno_stage::canary::Sweep;
use torno_stage::crash::cut;
use torno_stage::daemon::{self, Daemon};
use torno_stage::props::Props;
use torno_stage::unwalled::{PYTHON, Unwalled};
use torno_stage::world::World;
use torno_stage::{attempts, table, trial, work};

struct Arguments {
    levels: Vec<String>,
    only: String,
}

/// What a run has to show, counted.
#[derive(Default)]
struct Tally {
    passed: u32,
    failed: Vec<String>,
}

impl Tally {
    fn check(&mut self, good: bool, what: impl FnOnce() -> String) {
        if good {
            self.passed += 1;
        } else {
            self.failed.push(what());
        }
    }
}

/// Everything that the acts share.
struct Show {
    world: World,
    daemon: Daemon,
    props: Props,
    secrets: Secrets,
    attempts: Vec<&'static Attempt>,
    /// Everything that sandboxes wrote, for the canary search.
    outputs: Vec<u8>,
    tally: Tally,
    color: bool,
}

fn main() -> ExitCode {
    match arguments().and_then(|arguments| run(&arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("torno-demo: {error:#}");
            println!("0 passed, 1 failed");
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> Result<Arguments> {
    let mut levels = Vec::new();
    let mut only = String::new();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words
            .next()
            .with_context(|| format!("`{word}` needs a value"))?;
        match word.as_str() {
            "--level" => levels.push(value),
            "--only" => only = value,
            _ => bail!("`{word}` is no argument; there are --level NAME and --only TEXT"),
        }
    }
    if levels.is_empty() {
        levels = vec!["container".to_owned(), "gvisor".to_owned()];
    }
    Ok(Arguments { levels, only })
}

fn run(arguments: &Arguments) -> Result<bool> {
    println!("Torno: a hostile program, two real credentials, and nothing to see.\n");
    let mut show = set_up(&arguments.only)?;
    let controlled = show.walls_off()?;
    for level in &arguments.levels {
        show.work(level)?;
        show.sealed(level, &controlled)?;
        show.cut(level);
    }
    show.search()?;
    show.verify()?;
    Ok(show.end())
}

fn set_up(only: &str) -> Result<Show> {
    let world = World::start().context("the world around Torno")?;
    println!("  an HTTPS API that demands a token       https://api.torno.test");
    println!("  a real git server that demands a token  https://git.torno.test");
    println!("  the attacker's own server               https://evil.torno.test");
    let daemon = Daemon::start(&world)?;
    println!(
        "  a fresh vault with both tokens, bound   {}\n",
        daemon.home().display()
    );
    let props = Props::new(&world, daemon.home(), &daemon.key_file())?;
    let secrets = trial::secrets(&world, &props);
    let attempts: Vec<_> = attempts::all()
        .into_iter()
        .filter(|a| a.name.contains(only))
        .collect();
    Ok(Show {
        world,
        daemon,
        props,
        secrets,
        attempts,
        outputs: Vec::new(),
        tally: Tally::default(),
        color: std::env::var_os("NO_COLOR").is_none() && std::io::stdout().is_terminal(),
    })
}

impl Show {
    /// Each attempt with its wall off. The names of those that succeeded.
    fn walls_off(&mut self) -> Result<Vec<&'static str>> {
        println!("Walls off: each attempt as an ordinary program with the real tokens.");
        let unwalled = Unwalled::new(&self.world)?;
        let mut controlled = Vec::new();
        for attempt in &self.attempts {
            let world = &self.world;
            let seen = trial::watch(attempt, world, &mut self.props, |script, props| {
                unwalled.run(script, world, props)
            })?;
            match seen.success(&attempt.goal, &self.secrets) {
                Some(_) => controlled.push(attempt.name),
                None => println!("  did not even succeed with its wall off: {}", attempt.name),
            }
        }
        println!(
            "  {} of {} succeed.\n",
            controlled.len(),
            self.attempts.len()
        );
        Ok(controlled)
    }

    fn work(&mut self, level: &str) -> Result<()> {
        println!(
            "{}",
            table::heading(&format!("Level {level}: honest work"), self.color)
        );
        for done in work::all(&self.daemon, &self.world, level)? {
            match &done.result {
                Ok(()) => println!("  ok      {}", done.name),
                Err(why) => println!("  failed  {}\n          {why}", done.name),
            }
            let name = format!("{level}: {}", done.name);
            self.tally.check(done.result.is_ok(), || name);
        }
        println!();
        Ok(())
    }

    fn sealed(&mut self, level: &str, controlled: &[&str]) -> Result<()> {
        println!(
            "{}",
            table::heading(&format!("Level {level}: attempts"), self.color)
        );
        println!("{}", table::head());
        for number in 0..self.attempts.len() {
            let Some(attempt) = self.attempts.get(number).copied() else {
                continue;
            };
            let daemon = &self.daemon;
            let records = daemon.records()?.len();
            let seen = trial::watch(attempt, &self.world, &mut self.props, |script, props| {
                let output = daemon.run(level, &[PYTHON, "-c", &props.fill(script)])?;
                // A refusal of Torno's own to start would prove nothing.
                if output.status.code() == Some(125) {
                    let said = String::from_utf8_lossy(&output.stderr).into_owned();
                    bail!("torno run refused to start `{}`: {said}", attempt.name);
                }
                Ok([output.stdout, output.stderr].concat())
            });
            let (seen, problem) = match seen {
                Ok(mut seen) => {
                    let fresh = self.daemon.records()?.split_off(records);
                    seen.recorded = daemon::last_refusal(&fresh);
                    let problem = self.problem(attempt, &seen, controlled);
                    (seen, problem)
                }
                Err(error) => (Observation::default(), Some(format!("{error:#}"))),
            };
            self.outputs.extend_from_slice(&seen.output);
            println!(
                "{}",
                table::row(number + 1, attempt, &seen, problem.as_deref())
            );
            let name = attempt.name;
            self.tally.check(problem.is_none(), || {
                format!("{level}: {name}: {}", problem.unwrap_or_default())
            });
        }
        println!();
        Ok(())
    }

    fn problem(
        &self,
        attempt: &Attempt,
        seen: &Observation,
        controlled: &[&str],
    ) -> Option<String> {
        if !controlled.contains(&attempt.name) {
            return Some("it did not succeed with its wall off, so it shows nothing".to_owned());
        }
        let got = seen.success(&attempt.goal, &self.secrets);
        got.or_else(|| seen.leak(&self.secrets))
    }

    fn cut(&mut self, level: &str) {
        println!(
            "{}",
            table::heading(&format!("Level {level}: kill"), self.color)
        );
        match cut::watch(&self.daemon, &self.world, level) {
            Ok(cut) => {
                println!(
                    "  a streaming upload had sent {} bytes when it was killed in {} ms;",
                    cut.bytes,
                    cut.took.as_millis()
                );
                println!("  after the report came {} bytes.", cut.late_bytes);
                for line in cut.receipt.lines() {
                    println!("  {line}");
                }
                let good = cut.late_bytes == 0 && cut.exit == Some(137);
                self.tally.check(good, || {
                    let (late, exit) = (cut.late_bytes, cut.exit);
                    format!("{level}: kill: {late} late bytes, exit code {exit:?}")
                });
            }
            Err(error) => {
                println!("  failed  {error:#}");
                self.tally
                    .check(false, || format!("{level}: kill: {error:#}"));
            }
        }
        println!();
    }

    /// The canary search over everything that was written down.
    fn search(&mut self) -> Result<()> {
        let mut sweep = Sweep::default();
        sweep.add("what sandboxes wrote", self.outputs.clone());
        sweep.add(
            "tornod's log",
            [b"log\n", self.daemon.log_text().as_bytes()].concat(),
        );
        sweep.add_tree("the stores", &self.daemon.home().join("state"))?;
        sweep.add_tree("the workspace", &self.daemon.workspace())?;
        let swept = sweep.run(&self.secrets.credentials)?;
        println!(
            "Canary search: {} surfaces, {} bytes, {} decoys planted and found, {} hits.",
            swept.surfaces,
            swept.bytes,
            swept.decoys,
            swept.hits.len()
        );
        for hit in &swept.hits {
            println!("  {hit}");
        }
        self.tally
            .check(swept.hits.is_empty(), || "the canary search".to_owned());
        Ok(())
    }

    fn verify(&mut self) -> Result<()> {
        let output = self.daemon.torno(&["audit", "verify"]).output()?;
        let said = [output.stdout, output.stderr].concat();
        println!(
            "\n$ torno audit verify\n{}",
            String::from_utf8_lossy(&said).trim()
        );
        self.tally
            .check(output.status.success(), || "torno audit verify".to_owned());
        Ok(())
    }

    fn end(self) -> bool {
        println!("\nNext, in a repository of your own:");
        // The directory that this program lies in, where torno, tornod and torno-guest lie too.
        let beside = std::env::current_exe().ok();
        if let Some(directory) = beside.as_deref().and_then(Path::parent) {
            println!("  export PATH={}:$PATH", directory.display());
        }
        println!("  torno init && torno trust && torno run -- make test\n");
        for failure in &self.tally.failed {
            println!("failed: {failure}");
        }
        println!(
            "{} passed, {} failed",
            self.tally.passed,
            self.tally.failed.len()
        );
        self.tally.failed.is_empty()
    }
}
