// SPDX-License-Identifier: Apache-2.0
//! A tripwire on its way out freezes its session: nothing is decided, unlocked or judged for it any
//! more, its gates cut what they have, and the record says which one, where and whereto.

use super::*;
use torno_policy::tripwire::Wire;

/// A session that runs, and its tripwire of `.netrc`.
fn laid() -> (World, Placeholder) {
    let mut world = ready(Mode::Inject);
    let begun = world.begin("s1", DOCUMENT).unwrap();
    world.begin("s2", DOCUMENT).unwrap();
    world.notary.gate_joined(GATE, session("s1"), Generation(1));
    world
        .notary
        .gate_joined(GateId(2), session("s2"), Generation(1));
    let wires: Vec<_> = begun.tripwires.iter().map(|t| t.wire).collect();
    assert_eq!(wires, Wire::ALL);
    let netrc = begun.tripwires.iter().find(|t| t.wire == Wire::Netrc);
    (world, Placeholder::parse(&netrc.unwrap().value).unwrap())
}

fn carrying(placeholder: &Placeholder) -> Question {
    let mut asked = question(7, true);
    asked.facts.presented = vec![Presented {
        location: Location::Query,
        digest: placeholder.digest(),
    }];
    asked
}

fn seen(world: &World) -> Vec<torno_audit::TripwireSeen> {
    let records = world.records();
    let seen = records.into_iter().filter_map(|entry| match entry.event {
        Event::TripwireSeen(seen) => Some((entry.session, *seen)),
        _ => None,
    });
    let (sessions, seen): (Vec<_>, Vec<_>) = seen.unzip();
    assert!(sessions.iter().all(|id| *id == Some(session("s1"))));
    seen
}

/// It may nothing, and its neighbour everything.
fn is_frozen(world: &mut World) {
    assert_eq!(world.refused(GATE), Reason::SessionFrozen);
    let (answer, secret) = world.ask(GateId(2), question(1, true));
    assert!(matches!(answer, Answer::Allowed(_)) && secret.is_some());
    let kill = DeskMessage::Kill {
        ticket: Ticket(1),
        session: Some(session("s1")),
    };
    let DeskReply::KillRecorded { sessions, .. } = world.desk(kill).0 else {
        panic!()
    };
    assert_eq!(sessions, [session("s1")]);
}

#[test]
fn a_tripwire_in_a_head_freezes_its_session_alone_with_its_place_in_the_record() {
    let (mut world, wire) = laid();
    let allowed = world.allowed(false);
    let frames = world.send(GATE, GateMessage::Ask(vec![carrying(&wire)]));
    // What is under way is cut before anything is answered.
    let whole = NotaryMessage::Revoke { credential: None };
    assert_eq!(frames[0].message, whole);
    assert_eq!(frames[0].gate, GATE);
    let NotaryMessage::Answers(answers) = &frames[1].message else {
        panic!()
    };
    let Answer::Refused(refusal) = &answers[0].answer else {
        panic!()
    };
    assert_eq!(refusal.reason, Reason::Tripwire);
    assert_eq!(refusal.rule.as_str(), "tripwire.netrc");
    assert!(!refusal.hint.contains(wire.as_str()));
    let seen = seen(&world);
    assert_eq!(seen.len(), 1);
    assert_eq!(
        (seen[0].wire, seen[0].location.as_str()),
        (Wire::Netrc, "query")
    );
    assert_eq!(seen[0].endpoint, question(1, true).facts.endpoint);
    assert_eq!(world.unlock(GATE, &allowed), Err(Reason::ReceiptInvalid));
    is_frozen(&mut world);
}

#[test]
fn no_pause_and_no_resume_takes_a_freeze_away() {
    let (mut world, wire) = laid();
    world.send(GATE, GateMessage::Ask(vec![carrying(&wire)]));
    for resume in [false, true] {
        let (ticket, session) = (Ticket(1), session("s1"));
        let message = if resume {
            DeskMessage::Resume { ticket, session }
        } else {
            DeskMessage::Pause { ticket, session }
        };
        assert!(matches!(world.desk(message).0, DeskReply::Done { .. }));
        assert_eq!(world.refused(GATE), Reason::SessionFrozen);
    }
    is_frozen(&mut world);
}

#[test]
fn a_tripwire_that_a_gate_found_in_a_body_freezes_its_session() {
    let (mut world, _) = laid();
    let record = world.allowed(true).record;
    let refusal = Refusal {
        reason: Reason::Tripwire,
        layer: torno_policy::Layer::Vault,
        rule: Wire::SshKey.rule(),
        hint: String::new(),
    };
    let outcome = Outcome {
        record,
        end: End::Refused(refusal),
        sent_bytes: 0,
        received_bytes: 0,
        reflected: 0,
        carried: 0,
        cookies: Vec::new(),
        address: None,
        resolved_by_proxy: false,
    };
    let frames = world.send(GATE, GateMessage::Report(vec![outcome]));
    assert_eq!(frames.len(), 1);
    let seen = seen(&world);
    assert_eq!(
        (seen[0].wire, seen[0].location.as_str()),
        (Wire::SshKey, "body")
    );
    is_frozen(&mut world);
}

#[test]
fn a_release_that_waits_for_its_flush_is_none_once_its_session_is_frozen() {
    let (mut world, wire) = laid();
    let flush = world.ask_ahead(3).unwrap();
    let ask = GateMessage::Ask(vec![carrying(&wire)]);
    world.notary.from_gates(vec![(GATE, ask)], world.now);
    let answers = world.flushed(flush);
    assert_eq!(answers, [(Ticket(3), Err(Reason::SessionFrozen))]);
}

#[test]
fn a_document_may_do_without_tripwires() {
    let mut world = ready(Mode::Inject);
    let document = format!("[sandbox]\ntripwires = false\n{DOCUMENT}");
    world.accept(&document);
    assert_eq!(world.begin("s1", &document).unwrap().tripwires, []);
}
