// SPDX-License-Identifier: Apache-2.0
//! Escapes: attempts to leave a sandbox that public lists of attacks name, each with what refuses
//! it at each level, and with a control: the same script gets what it wants once its wall is off.

pub mod bait;
mod bench;
mod calls;
mod devices;
mod families;
mod judge;
pub mod loose;
mod prelude;
mod reach;
mod session;
mod spaces;

pub use judge::{Control, Judge, Row, knobs};
pub use prelude::PRELUDE;
pub use session::Inside;

use crate::attempt::{Attempt, Goal};
use crate::attempts;
use loose::Gift;

/// Every level, in the order of the tables.
pub const LEVELS: [&str; 4] = ["container", "gvisor", "microvm", "vm"];

/// An attempt to leave, and everything that is expected of it.
#[derive(Debug, Clone, Copy)]
pub struct Escape {
    /// Script, goal, and the wall that is in its way.
    pub attempt: Attempt,
    /// The cases and public scenarios that it answers.
    pub of: &'static str,
    /// What it meets.
    pub meets: Meets,
    /// How its wall comes off.
    pub without: Without,
}

/// The words that an escape prints of its refusals, sorted: names of errors, codes of Torno's, or
/// `absent` for what isn't there. `own` among them: the sandbox's own kernel granted it, and what
/// it granted is its own.
#[derive(Debug, Clone, Copy)]
pub struct Meets {
    /// At `container`.
    pub container: &'static str,
    /// At `gvisor`.
    pub gvisor: &'static str,
    /// At `microvm` and `vm`: both boot one kernel with one agent.
    pub machine: &'static str,
}

/// How a wall is taken off for the control.
#[derive(Debug, Clone, Copy)]
pub enum Without {
    /// An ordinary program on the host ([`crate::unwalled`]).
    Walls,
    /// In a container of root's with every capability and system call, and with these gifts.
    Most(&'static [Gift]),
    /// It can't be taken off on this machine; why.
    Nothing(&'static str),
}

impl Meets {
    /// What is listed for a level.
    #[must_use]
    pub fn at(&self, level: &str) -> &'static str {
        match level {
            "container" => self.container,
            "gvisor" => self.gvisor,
            _ => self.machine,
        }
    }
}

/// What all three kinds of level meet.
const fn meets(container: &'static str, gvisor: &'static str, machine: &'static str) -> Meets {
    Meets {
        container,
        gvisor,
        machine,
    }
}

/// Every escape: the tables, then those of the demo's attempts that the public lists name as well.
#[must_use]
pub fn all() -> Vec<Escape> {
    let tables: [&[Escape]; 6] = [
        &bench::ESCAPES,
        &reach::ESCAPES,
        &devices::ESCAPES,
        &spaces::ESCAPES,
        &calls::ESCAPES,
        &families::ESCAPES,
    ];
    let demo = attempts::all().into_iter().filter_map(|attempt| {
        let (_, of, meets) = reach::OF_THE_DEMO
            .iter()
            .find(|(name, ..)| *name == attempt.name)?;
        Some(Escape {
            attempt: *attempt,
            of,
            meets: *meets,
            without: Without::Walls,
        })
    });
    tables.into_iter().flatten().copied().chain(demo).collect()
}

/// One that says itself whether it was allowed: of a call of the kernel, nobody else can know.
const fn says(name: &'static str, of: &'static str, script: &'static str, meets: Meets) -> Escape {
    Escape {
        attempt: Attempt {
            name,
            goal: Goal::Says(ALLOWED),
            wall: "the calls of the kernel that a workload may make",
            script,
        },
        of,
        meets,
        without: Without::Most(&[]),
    }
}

/// The same where this machine can't take its wall off, and why.
const fn lacking(why: &'static str, escape: Escape) -> Escape {
    Escape {
        without: Without::Nothing(why),
        ..escape
    }
}

/// One that wants something of the host.
const fn wants(
    name: &'static str,
    goal: Goal,
    wall: &'static str,
    script: &'static str,
) -> Attempt {
    Attempt {
        name,
        goal,
        wall,
        script,
    }
}

/// What a script prints when it was allowed what it must not do.
const ALLOWED: &str = "it was allowed";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn escapes_are_told_apart_and_each_list_is_whole() {
        let all = all();
        let names: BTreeSet<_> = all.iter().map(|escape| escape.attempt.name).collect();
        assert_eq!(names.len(), all.len());
        let of = |list: &str| {
            let named = all.iter().flat_map(|escape| escape.of.split(", "));
            named
                .filter(|case| case.starts_with(list))
                .collect::<BTreeSet<_>>()
                .len()
        };
        assert_eq!(of("SandboxEscapeBench "), 18);
        assert_eq!(of("sandboxbench "), 15);
        assert!(all.len() - reach::OF_THE_DEMO.len() > 70);
    }

    #[test]
    fn nothing_is_granted_where_the_kernel_is_the_hosts() {
        for escape in all() {
            let Escape { attempt, meets, .. } = escape;
            assert!(!meets.container.contains("own"), "{}", attempt.name);
        }
    }
}
