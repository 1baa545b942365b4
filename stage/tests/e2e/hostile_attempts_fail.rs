// SPDX-License-Identifier: Apache-2.0
//! The demo's attempts, each with its wall off and then sealed, as tests.

use crate::stage::{Stage, at_each_level_for_both};
use torno_stage::props::Props;
use torno_stage::unwalled::{PYTHON, Unwalled};
use torno_stage::{attempts, trial};

#[test]
fn every_attempt_succeeds_unwalled_and_fails_sealed() {
    at_each_level_for_both("hostile attempts", |stage, level| {
        attempts_fail(stage, level, |_| None);
    });
}

/// Makes every attempt, each in a sandbox of its own, after what `before` gives of shell.
pub(crate) fn attempts_fail(
    stage: &Stage,
    level: &str,
    before: impl Fn(&str) -> Option<&'static str>,
) {
    let daemon = &stage.daemon;
    let mut props = Props::new(&stage.world, daemon.home(), &daemon.key_file()).unwrap();
    let secrets = trial::secrets(&stage.world, &props);
    let mut failed = Vec::new();
    for attempt in attempts::all() {
        let first = before(attempt.name);
        let sealed = trial::watch(attempt, &stage.world, &mut props, |script, props| {
            let script = props.fill(script);
            let ran = match first {
                None => stage.run(level, &[PYTHON, "-c", &script]),
                Some(first) => {
                    let words = format!("{first}exec \"$0\" -c \"$1\"");
                    let ran = stage.run(level, &["/bin/sh", "-c", &words, PYTHON, &script]);
                    assert_ne!(ran.code, Some(77), "{}: {ran:?}", attempt.name);
                    ran
                }
            };
            assert_ne!(ran.code, Some(125), "{}: {ran:?}", attempt.name);
            Ok([ran.stdout, ran.stderr].concat().into_bytes())
        });
        let sealed = sealed.unwrap();
        let got = sealed
            .success(&attempt.goal, &secrets)
            .or_else(|| sealed.leak(&secrets));
        if let Some(got) = got {
            let output = String::from_utf8_lossy(&sealed.output).into_owned();
            failed.push(format!("{}: {got}\n{output}", attempt.name));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n---\n"));
}

#[test]
fn what_is_on_the_host_can_be_reached_without_walls() {
    // The three attempts at Torno's own sockets and files need a running Torno as their control.
    let stage = crate::stage::Stage::new();
    let daemon = &stage.daemon;
    let mut props = Props::new(&stage.world, daemon.home(), &daemon.key_file()).unwrap();
    let secrets = trial::secrets(&stage.world, &props);
    let unwalled = Unwalled::new(&stage.world).unwrap();
    let torno = ["control sockets", "the record", "key file"];
    let about_torno = |name: &str| torno.iter().any(|part| name.contains(part));
    let mut tried = 0;
    for attempt in attempts::all().into_iter().filter(|a| about_torno(a.name)) {
        let seen = trial::watch(attempt, &stage.world, &mut props, |script, props| {
            unwalled.run(script, &stage.world, props)
        });
        let seen = seen.unwrap();
        assert!(
            seen.success(&attempt.goal, &secrets).is_some(),
            "{}",
            attempt.name
        );
        tried += 1;
    }
    assert_eq!(tried, torno.len());
}
