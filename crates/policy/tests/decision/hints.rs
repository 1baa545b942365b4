// SPDX-License-Identifier: Apache-2.0
//! Every refusal teaches: it names who decided and what to do next, in one short line, and shows
//! nothing of the request but host, port and method.

use crate::world::{self, Dice};
use std::collections::BTreeMap;
use torno_policy::decide::{decide, next_step};
use torno_policy::facts::Act;
use torno_policy::{Decision, Reason, Refusal};

/// A step begins with, or names, one of these.
const STEPS: [&str; 20] = [
    "`torno ",
    "add ",
    "send ",
    "leave ",
    "use ",
    "list ",
    "ask at ",
    "narrow ",
    "give its ",
    "start a new one",
    "do it outside",
    "owner can",
    "person ",
    "run `",
    "try again",
    "end it",
    "says what may",
    "must list",
    "torno.toml",
    "give what",
];

#[track_caller]
fn teaches(refusal: &Refusal, act: &Act) {
    let hint = &refusal.hint;
    assert!(!refusal.rule.as_str().is_empty(), "{refusal:?}");
    assert!((20..400).contains(&hint.len()), "{refusal:?}");
    assert!(hint.is_ascii() || hint.contains('…'), "{refusal:?}");
    assert!(!hint.contains(char::is_control), "{refusal:?}");
    assert!(STEPS.iter().any(|step| hint.contains(step)), "{refusal:?}");
    if let Act::Request(facts) = act {
        let path = facts.path.path();
        assert!(
            path.len() < 3 || !hint.contains(path),
            "{refusal:?} {facts:?}"
        );
        if let Some(query) = facts.path.query().filter(|query| query.len() > 2) {
            assert!(!hint.contains(query), "{refusal:?} {facts:?}");
        }
    }
}

#[test]
fn every_refusal_says_who_decided_and_what_to_do_and_nothing_of_the_request() {
    let organisation = world::organisation();
    let mut taught: BTreeMap<Reason, u32> = BTreeMap::new();
    for seed in 0..20_000 {
        let mut dice = Dice::new(seed);
        let world = world::world(&mut dice);
        let act = world::act(&mut dice, &world);
        if let Decision::Deny(refusal) = decide(&world.layers(&organisation), &act) {
            teaches(&refusal, &act);
            *taught.entry(refusal.reason).or_default() += 1;
            // Whoever reads the record later is told something too.
            if let Act::Request(facts) = &act {
                let hint = next_step(refusal.reason, facts);
                teaches(&Refusal { hint, ..refusal }, &act);
            }
        }
    }
    assert!(taught.len() >= 28, "{taught:?}");
}
