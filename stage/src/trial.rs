// SPDX-License-Identifier: Apache-2.0
//! One run of an attempt, watched from both ends.

use crate::attempt::{Attempt, Observation, PRELUDE, Secrets};
use crate::canary::Canary;
use crate::props::Props;
use crate::world::World;
use crate::world::git::reference;
use anyhow::Result;
use std::time::Duration;

/// After a script, before the far ends are read: what was sent on loopback has then arrived.
const SETTLE: Duration = Duration::from_millis(30);

/// What no attempt may see.
#[must_use]
pub fn secrets(world: &World, props: &Props) -> Secrets {
    Secrets {
        credentials: vec![
            Canary::new("the API's token", &world.api_token),
            Canary::new("the git token", &world.git_token),
        ],
        host: props.canary(),
    }
}

/// Runs an attempt's script by `run` and looks at both ends.
///
/// # Errors
/// When `run` fails to run it at all.
pub fn watch(
    attempt: &Attempt,
    world: &World,
    props: &mut Props,
    run: impl FnOnce(&str, &Props) -> Result<Vec<u8>>,
) -> Result<Observation> {
    let script = format!("{PRELUDE}\n{}\n", attempt.script);
    let main = || reference(&world.repositories(), "acme/app", "refs/heads/main");
    let before = main();
    let marks = [&world.evil, &world.api, &world.other, &world.git].map(|f| f.journal.mark());
    let output = run(&script, props)?;
    std::thread::sleep(SETTLE);
    let [evil, api, other, git] = marks;
    Ok(Observation {
        output,
        sink: world.evil.journal.since(evil),
        api: world.api.journal.since(api),
        other: world.other.journal.since(other),
        git: world.git.journal.since(git),
        branch_moved: main() != before,
        victim_died: props.victim_died()?,
        file_appeared: props.file_appeared(),
        recorded: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempts;
    use crate::unwalled::Unwalled;

    /// Attempts that need a running Torno to have something to reach.
    const NEED_TORNO: [&str; 3] = [
        "connect to Torno's control sockets",
        "read the record",
        "read the vault's key file",
    ];

    #[test]
    fn every_attempt_succeeds_with_its_wall_off() {
        let world = World::start().unwrap();
        let nowhere = std::path::Path::new("/nonexistent");
        let mut props = Props::new(&world, nowhere, nowhere).unwrap();
        let unwalled = Unwalled::new(&world).unwrap();
        let secrets = secrets(&world, &props);
        let mut failed = Vec::new();
        for attempt in attempts::all() {
            if NEED_TORNO.contains(&attempt.name) {
                continue;
            }
            let seen = watch(attempt, &world, &mut props, |script, props| {
                unwalled.run(script, &world, props)
            });
            let seen = seen.unwrap();
            if seen.success(&attempt.goal, &secrets).is_none() {
                let output = String::from_utf8_lossy(&seen.output).into_owned();
                failed.push(format!("{}:\n{output}", attempt.name));
            }
        }
        assert!(failed.is_empty(), "{}", failed.join("\n----\n"));
    }

    #[test]
    fn names_of_attempts_are_told_apart() {
        let mut names: Vec<_> = attempts::all().iter().map(|a| a.name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(all >= 25);
    }
}
