// SPDX-License-Identifier: Apache-2.0
//! `decide` against the slow reference, on random pairs of world and act.

use crate::faults::{FAULTS, Fault};
use crate::reference::{Outcome, reference};
use crate::world::{self, Dice};
use std::collections::BTreeMap;
use torno_policy::Decision;
use torno_policy::decide::{decide, explain};
use torno_policy::grant::Verdict;

fn outcome(decision: Decision) -> Outcome {
    match decision {
        Decision::Allow(permit) => Outcome::Allow(
            permit
                .injection()
                .map(|injection| injection.binding.to_string()),
        ),
        Decision::Ask(_) => Outcome::Ask,
        Decision::Deny(refusal) => Outcome::Deny(refusal.reason),
    }
}

/// Random pairs of world and act; `TORNO_PAIRS` asks for more of them.
fn pairs() -> u64 {
    std::env::var("TORNO_PAIRS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(20_000)
}

// ATTACK: 081, 229, 243
#[test]
fn decide_agrees_with_the_slow_reference_and_reaches_every_reason() {
    let organisation = world::organisation();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for seed in 0..pairs() {
        let mut dice = Dice::new(seed);
        let world = world::world(&mut dice);
        let act = world::act(&mut dice, &world);
        let layers = world.layers(&organisation);
        let decided = outcome(decide(&layers, &act));
        let expected = reference(&world, &act, Fault::None);
        assert_eq!(decided, expected, "seed {seed}\n{world:#?}\n{act:#?}");
        let explained = explain(&layers, &act);
        let lowest = explained
            .layers
            .iter()
            .map(|opinion| opinion.verdict())
            .min()
            .unwrap();
        let verdict = match &decided {
            Outcome::Allow(_) => Verdict::Allow,
            Outcome::Ask => Verdict::Ask,
            Outcome::Deny(_) => Verdict::Deny,
        };
        assert_eq!(
            lowest, verdict,
            "explain differs from decide at seed {seed}"
        );
        let name = match decided {
            Outcome::Allow(Some(_)) => "allow with credential".to_owned(),
            Outcome::Allow(None) => "allow".to_owned(),
            Outcome::Ask => "ask".to_owned(),
            Outcome::Deny(reason) => reason.code().to_owned(),
        };
        *counts.entry(name).or_default() += 1;
    }
    for name in REACHED {
        let count = counts.get(name).copied().unwrap_or(0);
        assert!(
            count * 1000 >= pairs(),
            "{name} was reached {count} times only: {counts:?}"
        );
    }
    assert_eq!(counts.len(), REACHED.len(), "{counts:?}");
}

#[test]
fn every_seeded_fault_is_told_apart() {
    for fault in FAULTS {
        let found = (0..pairs()).find(|seed| {
            let mut dice = Dice::new(*seed);
            let world = world::world(&mut dice);
            let act = world::act(&mut dice, &world);
            reference(&world, &act, fault) != reference(&world, &act, Fault::None)
        });
        assert!(found.is_some(), "no pair shows {fault:?}");
    }
}

/// What `decide` can answer; the other reasons belong to gate, dialer, vault and record.
const REACHED: [&str; 26] = [
    "allow",
    "allow with credential",
    "ask",
    "session_killed",
    "session_ended",
    "session_fenced",
    "session_unknown",
    "organisation_forbids",
    "host_not_granted",
    "port_not_granted",
    "method_not_granted",
    "path_not_granted",
    "git_not_granted",
    "ref_not_granted",
    "phase_not_granted",
    "tool_not_granted",
    "credential_endpoint_mismatch",
    "placeholder_unknown",
    "placeholder_missing",
    "placeholder_repeated",
    "own_credential",
    "binding_ambiguous",
    "binding_not_granted",
    "binding_expired",
    "credential_revoked",
    "undecidable",
];
