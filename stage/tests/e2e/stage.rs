// SPDX-License-Identifier: Apache-2.0
//! What every story begins and ends with: a world and a daemon, and a search for the canaries.

use std::cell::RefCell;
use std::process::Output;
use std::sync::OnceLock;
use torno_stage::account::Who;
use torno_stage::canary::{Canary, Sweep};
use torno_stage::daemon::{self, Daemon};
use torno_stage::world::{EVIL, OTHER, World};

/// The levels of this version.
pub(crate) const LEVELS: [&str; 2] = ["container", "gvisor"];

/// A world, a daemon, and everything that sandboxes said.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) daemon: Daemon,
    heard: RefCell<Vec<u8>>,
}

/// What a command in a sandbox did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: Option<i32>,
}

impl Ran {
    /// It ended well.
    #[track_caller]
    pub(crate) fn good(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self
    }
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::of(Who::Caller)
    }

    /// The same, run by somebody.
    pub(crate) fn of(who: Who) -> Self {
        let world = World::start().unwrap();
        let daemon = Daemon::start_as(who, &world).unwrap();
        Self {
            world,
            daemon,
            heard: RefCell::new(b"heard:\n".to_vec()),
        }
    }

    /// `torno run` at a level.
    pub(crate) fn run(&self, level: &str, command: &[&str]) -> Ran {
        self.hear(&self.daemon.run(level, command).unwrap())
    }

    /// A shell script at a level.
    pub(crate) fn shell(&self, level: &str, script: &str) -> Ran {
        self.run(level, &["/bin/sh", "-c", script])
    }

    /// Any `torno` command.
    pub(crate) fn torno(&self, arguments: &[&str]) -> Ran {
        self.hear(&self.daemon.torno(arguments).output().unwrap())
    }

    /// Keeps what was said, for the search at the end.
    pub(crate) fn hear(&self, output: &Output) -> Ran {
        let mut heard = self.heard.borrow_mut();
        heard.extend_from_slice(&output.stdout);
        heard.extend_from_slice(&output.stderr);
        Ran {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code(),
        }
    }

    /// The story is over: no canary in what sandboxes said, in logs, stores, record and workspace,
    /// nor at a far end that must not have it; and the record verifies.
    #[track_caller]
    pub(crate) fn end(self) {
        let mut sweep = Sweep::default();
        sweep.add("what was heard", self.heard.borrow().clone());
        sweep.add("tornod's log", format!("log:\n{}", self.daemon.log_text()));
        sweep
            .add_tree("the stores", &self.daemon.home().join("state"))
            .unwrap();
        sweep
            .add_tree("the workspace", &self.daemon.workspace())
            .unwrap();
        for (name, bytes) in self.world.journals() {
            if [EVIL, OTHER].contains(&name) {
                sweep.add(name, [b"far end:\n", bytes.as_slice()].concat());
            }
        }
        let canaries = [
            Canary::new("the API's token", &self.world.api_token),
            Canary::new("the git token", &self.world.git_token),
        ];
        let swept = sweep.run(&canaries).unwrap();
        assert!(swept.hits.is_empty(), "{:#?}", swept.hits);
        self.torno(&["audit", "verify"]).good();
    }
}

/// Tells a story at every level; a level that does not work here is a skip, said aloud.
#[track_caller]
pub(crate) fn at_each_level(story: &str, tell: impl Fn(&Stage, &str)) {
    at_each_level_as(&[Who::Caller], story, |_, stage, level| tell(stage, level));
}

/// The same, and once more with a Torno that an ordinary user runs.
#[track_caller]
pub(crate) fn at_each_level_for_both(story: &str, tell: impl Fn(&Stage, &str)) {
    at_each_level_as(&Who::ALL, story, |_, stage, level| tell(stage, level));
}

/// The same for those whom the story names.
#[track_caller]
pub(crate) fn at_each_level_as(whom: &[Who], story: &str, tell: impl Fn(Who, &Stage, &str)) {
    for who in whom {
        for level in LEVELS {
            at_level_as(*who, story, level, |stage| tell(*who, stage, level));
        }
    }
}

/// Tells a story at one level.
#[track_caller]
pub(crate) fn at_level(story: &str, level: &str, tell: impl Fn(&Stage)) {
    at_level_as(Who::Caller, story, level, tell);
}

#[track_caller]
fn at_level_as(who: Who, story: &str, level: &str, tell: impl Fn(&Stage)) {
    // Shown when the story fails.
    println!("{story}: {level}, run by {}", who.name());
    match missing(who, level) {
        None => {
            let stage = Stage::of(who);
            tell(&stage);
            stage.end();
        }
        Some(why) => match who {
            Who::Caller => println!("SKIP: {story} at {level}: {why}"),
            Who::User => println!("SKIP: {story} at {level}, not root: {why}"),
        },
    }
}

/// The levels, and what each lacks here.
type Found = Vec<(&'static str, Option<String>)>;

/// What is missing for a level here. Looked up once: a level does not come and go.
pub(crate) fn missing(who: Who, level: &str) -> Option<String> {
    static CALLERS: OnceLock<Found> = OnceLock::new();
    static USERS: OnceLock<Found> = OnceLock::new();
    let found = match who {
        Who::Caller => &CALLERS,
        Who::User => &USERS,
    };
    let found = found.get_or_init(|| match Daemon::bare_as(who, "") {
        Ok(daemon) => LEVELS
            .map(|level| (level, daemon::works(&daemon, level).unwrap().err()))
            .to_vec(),
        // No daemon at all: every level is missing, which CI's list of skips doesn't allow.
        Err(error) => LEVELS
            .map(|level| (level, Some(format!("{error:#}"))))
            .to_vec(),
    });
    found
        .iter()
        .find(|(name, _)| *name == level)
        .and_then(|(_, why)| why.clone())
}
