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
            permit.keeping().map(|keeping| keeping.binding.to_string()),
        ),
        Decision::Ask(_) => Outcome::Ask,
        Decision::Deny(refusal) => Outcome::Deny(refusal.reason),
    }
}

/// Random pairs of world and act; `TORNO_PAIRS` asks for more of them.
fn pairs() -> u64 {
    number("TORNO_PAIRS").unwrap_or(20_000)
}

/// The pairs' own seeds; `TORNO_SEED` is the first.
fn seeds() -> impl Iterator<Item = u64> {
    let first = number("TORNO_SEED").unwrap_or(0);
    (0..pairs()).map(move |number| first.wrapping_add(number))
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

// ATTACK: 081, 229, 243
#[test]
fn decide_agrees_with_the_slow_reference_and_reaches_every_reason() {
    let organisation = world::organisation();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for seed in seeds() {
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
            Outcome::Allow(_, _) => Verdict::Allow,
            Outcome::Ask => Verdict::Ask,
            Outcome::Deny(_) => Verdict::Deny,
        };
        assert_eq!(
            lowest, verdict,
            "explain differs from decide at seed {seed}"
        );
        let name = match decided {
            Outcome::Allow(Some(_), _) => "allow with credential".to_owned(),
            Outcome::Allow(None, _) => "allow".to_owned(),
            Outcome::Ask => "ask".to_owned(),
            Outcome::Deny(reason) => reason.code().to_owned(),
        };
        *counts.entry(name).or_default() += 1;
    }
    for (name, count) in &counts {
        println!("{count:8}  {name}");
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
    let organisation = world::organisation();
    for fault in FAULTS {
        let found = seeds().position(|seed| {
            let mut dice = Dice::new(seed);
            let world = world::world(&mut dice);
            let act = world::act(&mut dice, &world);
            let decided = outcome(decide(&world.layers(&organisation), &act));
            reference(&world, &act, fault) != decided
        });
        let found = found.unwrap_or_else(|| panic!("no pair shows {fault:?}"));
        println!("{fault:?} is found by pair {found}");
    }
    assert!(FAULTS.len() >= 10);
}

/// What of `torno_policy` a second opinion may know: the types of documents and facts, and the
/// names in them.
const DOCUMENT_TYPES: [&str; 7] = [
    "Reason", "binding", "facts", "grant", "names", "registry", "standing",
];

#[test]
fn the_reference_shares_the_document_types_and_nothing_else() {
    let sources = [
        include_str!("reference.rs"),
        include_str!("reference/dialect.rs"),
        include_str!("reference/slot.rs"),
        include_str!("reference/tool.rs"),
    ];
    let mentions: Vec<&str> = sources
        .iter()
        .flat_map(|source| source.split("torno_policy::").skip(1))
        .map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next().unwrap())
        .collect();
    assert!(mentions.len() >= DOCUMENT_TYPES.len(), "{mentions:?}");
    for mention in mentions {
        assert!(DOCUMENT_TYPES.contains(&mention), "it shares `{mention}`");
    }
    // Matching is code, wherever its type is declared.
    for code in [
        ".matches(",
        ".covers(",
        ".allows(",
        ".judge(",
        ".contains_path(",
        ".held(",
        ".fill(",
        ".judged(&",
        ".denies(",
        ".means(",
    ] {
        assert!(
            !sources.iter().any(|source| source.contains(code)),
            "{code}"
        );
    }
}

/// What `decide` can answer; the other reasons belong to gate, dialer, vault and record.
const REACHED: [&str; 33] = [
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
    "websocket_not_granted",
    "git_not_granted",
    "ref_not_granted",
    "operation_not_granted",
    "content_unread",
    "phase_not_granted",
    "tool_not_granted",
    "credential_endpoint_mismatch",
    "placeholder_unknown",
    "placeholder_missing",
    "placeholder_repeated",
    "own_credential",
    "binding_ambiguous",
    "binding_not_granted",
    "binding_denies",
    "binding_expired",
    "credential_revoked",
    "undecidable",
    "tripwire",
    "session_frozen",
    "session_paused",
];
