// SPDX-License-Identifier: Apache-2.0
//! What every story begins and ends with: a world and a daemon, and a search for the canaries.

use crate::search;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Output;
use std::sync::{Mutex, PoisonError};
use torno_stage::account::Who;
use torno_stage::daemon::level::{self, told};
use torno_stage::daemon::{self, Daemon};
use torno_stage::witness::{self, Witness};
use torno_stage::world::World;

/// A world, a daemon, and everything that sandboxes said.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) daemon: Daemon,
    /// What sandboxes and commands said.
    pub(crate) heard: RefCell<Vec<u8>>,
    /// What sandboxes left in their writable places.
    pub(crate) files: RefCell<Vec<u8>>,
    collected: RefCell<BTreeSet<PathBuf>>,
    /// Reads the network between sandboxes and gates, where it may.
    pub(crate) witness: Option<Witness>,
    /// Whether the witness may miss something of this story.
    pub(crate) seen_in_part: Cell<bool>,
}

/// Runs a command and keeps the writable places of its sandbox for the search: they lie in memory
/// and go with it.
const KEEP: &str = r#""$@"; code=$?
tar -C / --exclude=workspace/.stage-files.tar -cf /workspace/.stage-files.tar home tmp workspace \
    2>/dev/null
exit $code"#;
const KEPT: &str = "workspace/.stage-files.tar";

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
        Self::of(Who::Caller, "")
    }

    /// The same, run by somebody, with further lines of the operator's `upstreams.toml`.
    pub(crate) fn of(who: Who, further: &str) -> Self {
        let world = World::start().unwrap();
        let daemon = Daemon::start_with(who, &world, further).unwrap();
        let witness = witness::may_watch().then(|| Witness::start(&daemon));
        Self {
            world,
            daemon,
            heard: RefCell::new(b"heard:\n".to_vec()),
            files: RefCell::new(b"files:\n".to_vec()),
            collected: RefCell::default(),
            witness,
            seen_in_part: Cell::new(level::named().is_some_and(level::is_machine)),
        }
    }

    /// `torno run` at a level; what the command leaves in its sandbox is searched at the end.
    pub(crate) fn run(&self, level: &str, command: &[&str]) -> Ran {
        let mut kept = vec!["/bin/sh", "-c", KEEP, "keep"];
        kept.extend(command);
        let ran = self.run_bare(level, &kept);
        self.collect();
        ran
    }

    /// The same with the command itself as the first process, and what it leaves not kept.
    pub(crate) fn run_bare(&self, level: &str, command: &[&str]) -> Ran {
        self.hear(&self.daemon.run(level, command).unwrap())
    }

    /// Takes what sandboxes left: only the last copies of workspaces are kept.
    fn collect(&self) {
        let mut collected = self.collected.borrow_mut();
        for entry in std::fs::read_dir(self.daemon.sandboxes())
            .unwrap()
            .flatten()
        {
            let path = entry.path().join(KEPT);
            if let (false, Ok(bytes)) = (collected.contains(&path), std::fs::read(&path)) {
                self.files.borrow_mut().extend(bytes);
                collected.insert(path);
            }
        }
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

    /// Not all that this story's gates are asked can be read on their network: its clients export
    /// no keys of TLS, or something speaks in a gate's place.
    pub(crate) fn is_not_seen_whole(&self, why: &str) {
        println!("not searched whole: between sandboxes and gates: {why}");
        self.seen_in_part.set(true);
    }

    /// The story is over, told at no level in particular: see [`Self::end_at`].
    #[track_caller]
    pub(crate) fn end(self) {
        let works = |level: &&&str| missing(Who::Caller, level).is_none();
        self.end_at(told().iter().find(works).unwrap());
    }

    /// The story is over: no canary in what sandboxes said and wrote, between them and their gates
    /// both ways, in logs, stores, record and workspace, at a far end outside of the one slot; and
    /// the record verifies.
    #[track_caller]
    pub(crate) fn end_at(self, level: &str) {
        search::everything(self, level);
    }
}

/// Tells a story at every level; a level that does not work here is a skip, said aloud.
#[track_caller]
pub(crate) fn at_each_level(story: &str, tell: impl Fn(&Stage, &str)) {
    at_each_level_as(&[Who::Caller], story, |_, stage, level| tell(stage, level));
}

/// The same, with further lines of the operator's `upstreams.toml`.
#[track_caller]
pub(crate) fn at_each_level_with(story: &str, upstreams: &str, tell: impl Fn(&Stage, &str)) {
    for level in told() {
        at_level_as((Who::Caller, upstreams), story, level, |stage| {
            tell(stage, level);
        });
    }
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
        for level in told() {
            at_level_as((*who, ""), story, level, |stage| tell(*who, stage, level));
        }
    }
}

/// Tells a story at one level; a run at another one leaves it to the others.
#[track_caller]
pub(crate) fn at_level(story: &str, level: &str, tell: impl Fn(&Stage)) {
    if level::named().is_some_and(|named| named != level) {
        return;
    }
    at_level_as((Who::Caller, ""), story, level, tell);
}

/// The same at a level with a kernel of its own. What it says to its gate is on no network that
/// could be read, and its search begins with a sandbox of another level, which has a workspace.
#[track_caller]
pub(crate) fn at_machine(story: &str, levels: &[&str], tell: impl Fn(&Stage, &str)) {
    // A run of one level tells of every machine at that one, or of none.
    let levels = match level::named() {
        Some(named) if level::is_machine(named) => vec![named],
        Some(_) => Vec::new(),
        None => levels.to_vec(),
    };
    for level in levels {
        println!("{story}: {level}");
        match cannot(Who::Caller, story, level) {
            None => {
                let stage = Stage::new();
                tell(&stage, level);
                stage.is_not_seen_whole(CARRIED);
                stage.end();
                println!("TOLD: {story} at {level}");
            }
            Some(why) => println!("SKIP: {story} at {level}: {why}"),
        }
    }
}

/// Why the witness reads nothing of a machine.
const CARRIED: &str = "a machine's connections are carried over its link";

/// Why a story can't be told: it is left out at the level, or the level doesn't work here.
pub(crate) fn cannot(who: Who, story: &str, level: &str) -> Option<String> {
    let left_out = level::left_out(story, level).map(str::to_owned);
    left_out.or_else(|| missing(who, level))
}

#[track_caller]
fn at_level_as((who, upstreams): (Who, &str), story: &str, level: &str, tell: impl Fn(&Stage)) {
    // Shown when the story fails.
    println!("{story}: {level}, run by {}", who.name());
    let named = match who {
        Who::Caller => story.to_owned(),
        Who::User => format!("{story}, not root,"),
    };
    match cannot(who, &named, level) {
        None => {
            let stage = Stage::of(who, upstreams);
            tell(&stage);
            stage.end_at(level);
            println!("TOLD: {named} at {level}");
        }
        Some(why) => println!("SKIP: {named} at {level}: {why}"),
    }
}

/// The levels, and what each lacks here.
type Found = BTreeMap<String, Option<String>>;

/// What is missing for a level here. Looked up once: a level does not come and go.
pub(crate) fn missing(who: Who, level: &str) -> Option<String> {
    static CALLERS: Mutex<Found> = Mutex::new(Found::new());
    static USERS: Mutex<Found> = Mutex::new(Found::new());
    let found = match who {
        Who::Caller => &CALLERS,
        Who::User => &USERS,
    };
    // A story that failed meanwhile has left the table as it was.
    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
    let look = || match Daemon::bare_as(who, "") {
        Ok(daemon) => daemon::works(&daemon, level).unwrap().err(),
        // No daemon at all: the level is missing, which CI's list of skips doesn't allow.
        Err(error) => Some(format!("{error:#}")),
    };
    found.entry(level.to_owned()).or_insert_with(look).clone()
}
