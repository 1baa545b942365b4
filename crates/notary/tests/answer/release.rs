// SPDX-License-Identifier: Apache-2.0
//! A credential leaves behind its record alone, once, in time, to whose question it was.

use super::*;

#[test]
fn a_pooled_question_gets_its_credential_with_the_answer_after_both_records() {
    let mut world = running(Mode::Inject);
    let before = world.records().len();
    let (answer, secret) = world.ask(GATE, question(1, true));
    assert_eq!(secret.as_deref(), Some(VALUE));
    let Answer::Allowed(allowed) = answer else {
        panic!()
    };
    let records = world.records();
    let [decided, released] = &records[before..] else {
        panic!("{records:?}")
    };
    assert!(matches!(&decided.event, Event::RequestDecided(_)));
    let Event::CredentialReleased(release) = &released.event else {
        panic!()
    };
    assert_eq!((release.decision, release.version), (allowed.record, 1));
    assert_eq!(allowed.record.0, u64::try_from(before).unwrap());
    assert_eq!(allowed.strip, ["authorization"]);
    // No right to a further connection or unlock comes along.
    assert_eq!(allowed.receipt, None);
}

#[test]
fn no_credential_is_answered_before_the_flush_that_covers_its_release() {
    let mut world = running(Mode::Inject);
    let first = world.ask_ahead(1).unwrap();
    assert_eq!(world.count(is_release), 1);
    // While it runs, the next is judged and written, and what releases nothing is answered.
    assert!(world.ask_ahead(2).is_none());
    assert_eq!(world.count(is_release), 2);
    let ask = GateMessage::Ask(vec![question(3, false)]);
    assert_eq!(
        world.notary.from_gates(vec![(GATE, ask)], world.now).len(),
        1
    );
    assert_eq!(world.notary.awaiting(), 2);
    let value = || Ok(VALUE.to_vec());
    assert_eq!(world.flushed(first), [(Ticket(1), value())]);
    let second = world.notary.flush().unwrap();
    assert_eq!(world.flushed(second), [(Ticket(2), value())]);
    assert!(world.notary.flush().is_none());
}

#[test]
fn what_happens_while_the_record_is_flushed_counts() {
    let kill = |world: &mut World| {
        let ticket = Ticket(5);
        world.desk(DeskMessage::Kill {
            ticket,
            session: None,
        });
    };
    let rotate = |world: &mut World| {
        let name = credential();
        world.ask_owner(
            OperatorRequest::Rotate { name },
            Some(b"ghp_fresh0123456789"),
        );
    };
    let revoke = |world: &mut World| {
        let name = credential();
        world.ask_owner(OperatorRequest::Revoke { name }, None);
    };
    let seal = |world: &mut World| {
        world.ask_owner(OperatorRequest::Seal, None);
    };
    type Meanwhile = fn(&mut World);
    let cases: [(Meanwhile, Reason); 5] = [
        (kill, Reason::SessionKilled),
        (rotate, Reason::BindingNotGranted),
        (revoke, Reason::CredentialRevoked),
        (seal, Reason::VaultSealed),
        (World::break_record, Reason::RecordUnavailable),
    ];
    for (meanwhile, reason) in cases {
        let mut world = running(Mode::Inject);
        let flush = world.ask_ahead(1).unwrap();
        meanwhile(&mut world);
        assert_eq!(world.flushed(flush), [(Ticket(1), Err(reason))]);
        assert_eq!(world.notary.awaiting(), 0);
    }
}

#[test]
fn gates_wait_when_many_releases_wait_for_one_flush() {
    let mut world = running(Mode::Inject);
    let first = world.ask_ahead(1).unwrap();
    let mut ticket = 2;
    while !world.notary.is_full() {
        assert!(world.ask_ahead(ticket).is_none());
        ticket += 1;
        assert!(ticket < 5_000, "there is no limit");
    }
    world.flushed(first);
    let rest = world.notary.flush().unwrap();
    let rest = world.flushed(rest);
    assert_eq!(rest.len(), usize::try_from(ticket).unwrap() - 2);
    assert!(!world.notary.is_full());
}

#[test]
fn an_unpooled_question_is_unlocked_by_its_receipt_once_and_in_time() {
    let mut world = running(Mode::Inject);
    let allowed = world.allowed(false);
    assert_eq!(world.count(is_release), 0);
    assert_eq!(world.unlock(GATE, &allowed).as_deref(), Ok(VALUE));
    assert_eq!(world.count(is_release), 1);
    assert_eq!(world.unlock(GATE, &allowed), Err(Reason::ReceiptInvalid));

    let late = world.allowed(false);
    world.now.boot_ms += VALID_MS + 1;
    assert_eq!(world.unlock(GATE, &late), Err(Reason::ReceiptInvalid));
    assert_eq!((world.count(is_release), world.count(is_refusal)), (1, 2));
}

#[test]
fn a_receipt_counts_on_its_own_sessions_socket_only() {
    let mut world = running(Mode::Inject);
    world.begin("s2", DOCUMENT).unwrap();
    let (other, older, nobody) = (GateId(2), GateId(3), GateId(4));
    world
        .notary
        .gate_joined(other, session("s2"), Generation(1));
    world
        .notary
        .gate_joined(older, session("s1"), Generation(0));
    let allowed = world.allowed(false);
    assert_eq!(world.unlock(other, &allowed), Err(Reason::ReceiptInvalid));
    assert_eq!(world.unlock(older, &allowed), Err(Reason::ReceiptInvalid));
    assert_eq!(world.unlock(nobody, &allowed), Err(Reason::SessionUnknown));
    assert_eq!(world.count(is_refusal), 3);
    // The theft did not spend it.
    assert!(world.unlock(GATE, &allowed).is_ok());
    assert_eq!(world.refused(older), Reason::SessionFenced);
    assert_eq!(world.refused(nobody), Reason::SessionUnknown);
}

#[test]
fn a_killed_session_unlocks_nothing_and_its_kill_is_on_disk() {
    let mut world = running(Mode::Inject);
    let allowed = world.allowed(false);
    let kill = DeskMessage::Kill {
        ticket: Ticket(1),
        session: Some(session("s1")),
    };
    let (reply, effects) = world.desk(kill);
    let DeskReply::KillRecorded {
        sessions,
        placeholders,
        ..
    } = reply
    else {
        panic!()
    };
    assert_eq!((sessions, placeholders), (vec![session("s1")], 1));
    let cut = Effect::Revoke {
        session: session("s1"),
        credential: None,
    };
    assert_eq!(effects, [cut]);
    assert!(world.unlock(GATE, &allowed).is_err());
    assert_eq!(world.refused(GATE), Reason::SessionKilled);
    assert_eq!(world.count(|e| matches!(e, Event::SessionKilled)), 1);
    // Killed is final: neither end nor a second begin brings it back.
    let end = DeskMessage::End {
        ticket: Ticket(2),
        session: session("s1"),
        exit_status: None,
        cause: EndCause::Exited,
    };
    assert_eq!(
        world.desk(end).0,
        DeskReply::Done {
            ticket: Ticket(2),
            record: None
        }
    );
    assert!(world.begin("s1", DOCUMENT).is_err());
    let mut world = world.reopen();
    world.ask_owner(OperatorRequest::Unseal, Some(KEY));
    assert!(world.begin("s1", DOCUMENT).is_err());
}

#[test]
fn a_seal_cuts_what_lives_though_it_can_not_be_recorded() {
    // ATTACK: 101
    let mut world = running(Mode::Inject);
    world.break_record();
    let (reply, effects) = world.owner(OperatorRequest::Seal, None);
    assert!(matches!(reply, OperatorReply::Failed { code, .. } if code == "record"));
    assert!(!effects.is_empty(), "the keys are gone, and streams go on");
}

#[test]
fn what_cannot_be_recorded_does_not_happen() {
    let mut world = running(Mode::Inject);
    let allowed = world.allowed(false);
    world.break_record();
    world.now = START;
    assert_eq!(world.unlock(GATE, &allowed), Err(Reason::RecordUnavailable));
    assert_eq!(world.refused(GATE), Reason::RecordUnavailable);
    let (answer, secret) = world.ask(GATE, question(1, false));
    assert!(matches!(answer, Answer::Refused(r) if r.reason == Reason::RecordUnavailable));
    assert_eq!(secret, None);
    let refused = world.begin("s2", DOCUMENT).unwrap_err();
    assert_eq!(refused.reason, Reason::RecordUnavailable);
    // A change of the vault is taken back: nothing of it is there in the next life.
    let revoke = OperatorRequest::Revoke { name: credential() };
    let (reply, _) = world.owner(revoke, None);
    assert!(matches!(reply, OperatorReply::Failed { code, .. } if code == "record"));
    std::fs::remove_dir(world.root.path().join("record/checkpoint.new")).unwrap();
    let mut world = world.reopen();
    world.ask_owner(OperatorRequest::Unseal, Some(KEY));
    let OperatorReply::Listed { credentials, .. } = world.owner(OperatorRequest::List, None).0
    else {
        panic!()
    };
    assert!(!credentials[0].revoked);
}

// ATTACK: 101
#[test]
fn revoke_counts_between_answer_and_unlock_and_cuts_live_streams() {
    let mut world = running(Mode::Inject);
    let allowed = world.allowed(false);
    let effects = world.ask_owner(OperatorRequest::Revoke { name: credential() }, None);
    let cut = Effect::Revoke {
        session: session("s1"),
        credential: Some(credential()),
    };
    assert_eq!(effects, [cut]);
    assert_eq!(world.unlock(GATE, &allowed), Err(Reason::CredentialRevoked));
    world.refused(GATE);
    assert_eq!(world.count(is_release), 0);
}

// ATTACK: 101
#[test]
fn the_next_question_after_a_rotation_gets_the_new_value() {
    let mut world = running(Mode::Inject);
    let rotate = OperatorRequest::Rotate { name: credential() };
    world.ask_owner(rotate, Some(b"ghp_second0123456789"));
    let (_, secret) = world.ask(GATE, question(1, true));
    assert_eq!(secret.as_deref(), Some(&b"ghp_second0123456789"[..]));
    let records = world.records();
    let Event::CredentialReleased(release) = &records.last().unwrap().event else {
        panic!()
    };
    assert_eq!(release.version, 2);
}

#[test]
fn a_sealed_vault_refuses_credentialed_requests_and_starts() {
    let mut world = running(Mode::Inject);
    let allowed = world.allowed(false);
    world.ask_owner(OperatorRequest::Seal, None);
    assert_eq!(world.unlock(GATE, &allowed), Err(Reason::VaultSealed));
    assert_eq!(world.refused(GATE), Reason::VaultSealed);
    assert_eq!(
        world.begin("s2", DOCUMENT).unwrap_err().reason,
        Reason::VaultSealed
    );
    let (reply, _) = world.owner(OperatorRequest::Unseal, Some(&[8; 32]));
    assert!(matches!(reply, OperatorReply::Failed { code, .. } if code == "wrong_secret"));
    assert_eq!(world.count(|e| matches!(e, Event::UnsealFailed)), 1);
    world.ask_owner(OperatorRequest::Unseal, Some(KEY));
    assert_eq!(world.allowed(true).endpoint, endpoint());
}
