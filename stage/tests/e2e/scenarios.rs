// SPDX-License-Identifier: Apache-2.0
//! Many small scenarios of one client in one session: what is typed, and what must be said.

use crate::stage::Stage;

/// What it is, a shell script in a fresh directory, and texts that must stand in its output. The
/// last line of that is `code N`.
pub(crate) type Scenario<'s> = (&'s str, &'s str, &'s [&'s str]);

/// Between two outputs: no client says it.
const MARK: &str = "-=- scenario ";

/// Runs all of them in one session, and names each that said something else.
#[track_caller]
pub(crate) fn try_all(stage: &Stage, level: &str, scenarios: &[Scenario<'_>]) {
    let scripts = scenarios
        .iter()
        .enumerate()
        .map(|(number, (_, script, _))| {
            format!(
                "echo; echo '{MARK}{number}'; mkdir s{number}; \
             (cd s{number}\n{script}\n) </dev/null 2>&1; echo \"code $?\"; rm -rf s{number}\n"
            )
        });
    let ran = stage.shell(level, &scripts.collect::<String>()).good();
    let mut said: Vec<&str> = ran.stdout.split(MARK).collect();
    said.remove(0);
    assert_eq!(said.len(), scenarios.len(), "{ran:#?}");
    let wrong: Vec<String> = scenarios
        .iter()
        .zip(said)
        .filter_map(|((what, script, wanted), said)| {
            let missing: Vec<_> = wanted
                .iter()
                .filter(|text| !said.contains(**text))
                .collect();
            (!missing.is_empty())
                .then(|| format!("{what}: no {missing:?}\n  $ {script}\n  said {said}"))
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "{level}: {} of {}:\n{}",
        wrong.len(),
        scenarios.len(),
        wrong.join("\n")
    );
}
