// SPDX-License-Identifier: Apache-2.0
//! A paused session may nothing, until it is resumed; what it had under way is cut, and what was
//! decided before is worth nothing after.

use super::*;

fn pause(world: &mut World, name: &str) -> DeskReply {
    world
        .desk(DeskMessage::Pause {
            ticket: Ticket(1),
            session: session(name),
        })
        .0
}

fn resume(world: &mut World, name: &str) -> DeskReply {
    world
        .desk(DeskMessage::Resume {
            ticket: Ticket(1),
            session: session(name),
        })
        .0
}

fn written(world: &World) -> [usize; 2] {
    [
        world.count(|event| *event == Event::SessionPaused),
        world.count(|event| *event == Event::SessionResumed),
    ]
}

#[test]
fn a_paused_session_may_nothing_until_it_is_resumed_and_both_are_recorded() {
    let mut world = running(Mode::Inject);
    let before = world.allowed(false);
    assert!(matches!(
        pause(&mut world, "s1"),
        DeskReply::Done {
            record: Some(_),
            ..
        }
    ));
    assert_eq!(world.refused(GATE), Reason::SessionPaused);
    // Not even what was allowed before.
    assert_eq!(world.unlock(GATE, &before), Err(Reason::ReceiptInvalid));
    // Nothing is written a second time.
    assert!(matches!(
        pause(&mut world, "s1"),
        DeskReply::Done { record: None, .. }
    ));
    assert!(matches!(
        resume(&mut world, "s1"),
        DeskReply::Done {
            record: Some(_),
            ..
        }
    ));
    assert!(matches!(
        resume(&mut world, "s1"),
        DeskReply::Done { record: None, .. }
    ));
    assert_eq!(written(&world), [1, 1]);
    let (answer, secret) = world.ask(GATE, question(1, true));
    assert!(matches!(answer, Answer::Allowed(_)) && secret.is_some());
    assert_eq!(world.unlock(GATE, &before), Err(Reason::ReceiptInvalid));
}

#[test]
fn what_waits_for_its_flush_is_not_released_to_a_session_that_was_paused_meanwhile() {
    let mut world = running(Mode::Inject);
    let flush = world.ask_ahead(3).unwrap();
    pause(&mut world, "s1");
    let answers = world.flushed(flush);
    assert_eq!(answers, [(Ticket(3), Err(Reason::SessionPaused))]);
}

#[test]
fn a_paused_session_is_killed_and_no_resume_brings_it_back() {
    let mut world = running(Mode::Inject);
    pause(&mut world, "s1");
    let kill = DeskMessage::Kill {
        ticket: Ticket(1),
        session: Some(session("s1")),
    };
    let DeskReply::KillRecorded { sessions, .. } = world.desk(kill).0 else {
        panic!()
    };
    assert_eq!(sessions, [session("s1")]);
    for reply in [
        resume(&mut world, "s1"),
        pause(&mut world, "s1"),
        resume(&mut world, "s2"),
    ] {
        assert!(matches!(reply, DeskReply::Refused { .. }), "{reply:?}");
    }
    assert_eq!(world.refused(GATE), Reason::SessionKilled);
}

// ATTACK: 131
#[test]
fn what_was_revoked_in_a_pause_stays_revoked_after_it() {
    let mut world = running(Mode::Inject);
    world.allowed(true);
    pause(&mut world, "s1");
    world.ask_owner(OperatorRequest::Revoke { name: credential() }, None);
    resume(&mut world, "s1");
    // The host was granted by its credential alone.
    assert_eq!(world.refused(GATE), Reason::HostNotGranted);
}
