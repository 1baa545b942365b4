// SPDX-License-Identifier: Apache-2.0
//! Runs every escape, first with its wall off and then in a session, and judges what both ends saw:
//! refused in exactly the listed words, and nothing of the host reached.

use crate::attempt::{self, Goal, Observation, Secrets};
use crate::daemon::Daemon;
use crate::escape::bait::Bait;
use crate::escape::{ALLOWED, Escape, Inside, PRELUDE, Without, all, loose};
use crate::props::Props;
use crate::trial;
use crate::unwalled::Unwalled;
use crate::world::World;
use anyhow::Result;
use std::collections::BTreeSet;
use std::fmt;

/// What became of a control.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Control {
    /// With its wall off it reached what it wants.
    Succeeded,
    /// The wall can't be taken off here; why.
    Nothing(&'static str),
    /// It did not succeed; what it wrote.
    Failed(String),
}

/// One escape at one level.
#[derive(Debug)]
pub struct Row {
    /// The escape's name.
    pub name: &'static str,
    /// The cases and scenarios that it answers.
    pub of: &'static str,
    /// The words that it met.
    pub met: String,
    /// What is wrong, if anything is.
    pub problem: Option<String>,
    /// All that it wrote.
    pub output: Vec<u8>,
}

/// Everything that escapes aim at, and what is known of their controls.
#[derive(Debug)]
pub struct Judge<'w> {
    // Before the props, among which it lies.
    bait: Bait,
    world: &'w World,
    props: Props,
    secrets: Secrets,
    escapes: Vec<Escape>,
}

impl<'w> Judge<'w> {
    /// Lays out what escapes aim at; of all of them, those whose name contains this.
    ///
    /// # Errors
    /// When it can't be laid out.
    pub fn new(world: &'w World, daemon: &Daemon, only: &str) -> Result<Self> {
        let props = Props::new(world, daemon.home(), &daemon.key_file())?;
        Ok(Self {
            bait: Bait::new(&props)?,
            world,
            secrets: trial::secrets(world, &props),
            props,
            escapes: all()
                .into_iter()
                .filter(|escape| escape.attempt.name.contains(only))
                .collect(),
        })
    }

    /// Each with its wall off.
    ///
    /// # Errors
    /// When one can't be run at all.
    pub fn controls(&mut self) -> Result<Vec<(&'static str, Control)>> {
        let unwalled = Unwalled::new(self.world)?;
        let mut controls = Vec::new();
        for escape in self.escapes.clone() {
            let control = self.control(&escape, &unwalled)?;
            controls.push((escape.attempt.name, control));
        }
        Ok(controls)
    }

    fn control(&mut self, escape: &Escape, unwalled: &Unwalled) -> Result<Control> {
        if let Without::Nothing(why) = escape.without {
            return Ok(Control::Nothing(why));
        }
        let world = self.world;
        let seen = self.watch(escape, |script, props, bait| match escape.without {
            Without::Most(gifts) => loose::run(script, gifts, bait),
            Without::Walls | Without::Nothing(_) => unwalled.run(script, world, props),
        })?;
        Ok(match seen.success(&escape.attempt.goal, &self.secrets) {
            Some(_) => Control::Succeeded,
            None => Control::Failed(String::from_utf8_lossy(&seen.output).into_owned()),
        })
    }

    /// Each in this session.
    pub fn at(&mut self, level: &str, inside: &Inside<'_>) -> Vec<Row> {
        let mut rows = Vec::new();
        for escape in self.escapes.clone() {
            let seen = self.watch(&escape, |script, _, _| inside.run(script));
            let listed = escape.meets.at(level);
            let (met, problem, output) = match seen {
                Ok(seen) => {
                    let met = words(&seen.output);
                    let problem = self.problem(&escape, &seen, &met, listed);
                    (met, problem, seen.output)
                }
                Err(error) => (String::new(), Some(format!("{error:#}")), Vec::new()),
            };
            rows.push(Row {
                name: escape.attempt.name,
                of: escape.of,
                met,
                problem,
                output,
            });
        }
        rows
    }

    fn watch(
        &mut self,
        escape: &Escape,
        run: impl FnOnce(&str, &Props, &Bait) -> Result<Vec<u8>>,
    ) -> Result<Observation> {
        let (attempt, bait) = (&escape.attempt, &self.bait);
        let script = format!("{}{PRELUDE}{}", attempt::PRELUDE, attempt.script);
        trial::watch(attempt, self.world, &mut self.props, |_, props| {
            run(&bait.fill(&props.fill(&script)), props, bait)
        })
    }

    fn problem(
        &self,
        escape: &Escape,
        seen: &Observation,
        met: &str,
        listed: &str,
    ) -> Option<String> {
        let goal = &escape.attempt.goal;
        // Of what a kernel of its own grants, only the script can say so, and the host has nothing
        // of it: then the list must have the word for that.
        let by_own_word = matches!(goal, Goal::Says(ALLOWED));
        let reached = seen.success(goal, &self.secrets).filter(|_| !by_own_word);
        let differs = (met != listed).then(|| format!("it met `{met}`; listed is `{listed}`"));
        reached.or_else(|| seen.leak(&self.secrets)).or(differs)
    }
}

/// What a script says it met: each word once, sorted.
fn words(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let said = text
        .lines()
        .filter_map(|line| line.strip_prefix("refused: "));
    let codes = text.match_indices("{\"code\":\"").filter_map(|(at, mark)| {
        let rest = text.get(at + mark.len()..)?;
        rest.get(..rest.find('"')?)
    });
    let own = text.contains(ALLOWED).then_some("own");
    let all: BTreeSet<&str> = said.chain(codes).chain(own).collect();
    all.into_iter().collect::<Vec<_>>().join(" ")
}

/// The knobs by which a kernel starts programs or leads packets, as the host has them now.
#[must_use]
pub fn knobs() -> Vec<String> {
    let paths = [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/hostname",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/poweroff_cmd",
        "/proc/sys/net/ipv4/ip_forward",
        "/proc/sys/vm/overcommit_memory",
        "/sys/kernel/uevent_helper",
    ];
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    paths
        .iter()
        .map(|path| format!("{path}: {}", read(path).trim()))
        .collect()
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Succeeded => f.write_str("succeeded"),
            Self::Nothing(why) => write!(f, "none: {why}"),
            Self::Failed(_) => f.write_str("FAILED"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_refusals_codes_and_what_was_granted_each_once() {
        let output = b"refused: EPERM\nrefused: ENOENT\nrefused: EPERM\nrefusedx\n\
            HTTP/1.1 403\r\n\r\n{\"code\":\"host_not_granted\",\"x\":1}\nit was allowed\n";
        assert_eq!(words(output), "ENOENT EPERM host_not_granted own");
        assert_eq!(words(b"nothing"), "");
    }
}
