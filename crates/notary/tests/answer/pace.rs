// SPDX-License-Identifier: Apache-2.0
//! Requests and their rate are counted by the notary, each session's alone.

use super::*;

fn paced(limits: &str) -> World {
    let mut world = ready(Mode::Inject);
    let document = format!("[sandbox]\nlimits = {{ {limits} }}\n{DOCUMENT}");
    world.accept(&document);
    world.begin("s1", &document).unwrap();
    world.begin("s2", DOCUMENT).unwrap();
    world.notary.gate_joined(GATE, session("s1"), Generation(1));
    world
        .notary
        .gate_joined(GateId(2), session("s2"), Generation(1));
    world
}

fn rules(world: &mut World, count: usize) -> Vec<String> {
    let mut rules = Vec::new();
    for _ in 0..count {
        match world.ask(GATE, question(1, true)).0 {
            Answer::Allowed(_) => rules.push("allowed".to_owned()),
            Answer::Refused(refusal) => {
                assert_eq!(refusal.reason, Reason::LimitReached);
                rules.push(refusal.rule.to_string());
            }
            Answer::Read(kind) => panic!("{kind:?}"),
        }
    }
    rules
}

const fn is_denied(event: &Event) -> bool {
    matches!(event, Event::RequestDecided(decided) if decided.reason.is_some())
}

// ATTACK: 163
#[test]
fn a_session_that_asks_too_fast_is_refused_once_in_the_record_and_its_neighbour_is_not() {
    let mut world = paced("rate = \"3/s\"");
    let mut expected = vec!["allowed"; 3];
    expected.extend(["limits.rate"; 97]);
    assert_eq!(rules(&mut world, 100), expected);
    assert_eq!(world.count(is_denied), 1);
    for ticket in 0..50 {
        let (answer, secret) = world.ask(GateId(2), question(ticket, true));
        assert!(matches!(answer, Answer::Allowed(_)) && secret.is_some());
    }
    world.now.boot_ms += 1_000;
    expected.truncate(4);
    assert_eq!(rules(&mut world, 4), expected);
    assert_eq!(world.count(is_denied), 2);
}

#[test]
fn a_session_makes_as_many_requests_as_its_document_says() {
    let mut world = paced("requests = 2");
    let expected = ["allowed", "allowed", "limits.requests", "limits.requests"];
    assert_eq!(rules(&mut world, 4), expected);
    world.now.boot_ms += 3_600_000;
    assert_eq!(rules(&mut world, 1), ["limits.requests"]);
}
