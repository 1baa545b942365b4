// SPDX-License-Identifier: Apache-2.0
//! What a session may do follows from its row: begin, flood, report, tools, kill, end.

use super::*;

#[test]
fn a_restart_ends_what_was_running_and_fences_its_generation() {
    let world = running(Mode::Inject);
    let mut world = world.reopen();
    let ended = |event: &Event| matches!(event, Event::SessionEnded { .. });
    assert_eq!(world.count(ended), 1);
    world.ask_owner(OperatorRequest::Unseal, Some(KEY));
    assert_eq!(world.refused(GATE), Reason::SessionUnknown);
    assert_eq!(
        world.begin("s2", DOCUMENT).unwrap().generation,
        Generation(2)
    );
    world.notary.gate_joined(GATE, session("s2"), Generation(1));
    assert_eq!(world.refused(GATE), Reason::SessionFenced);
    let key = SigningKey::from_seed(&[1; 32]);
    world.notary.close(world.now).unwrap();
    verify(&world.root.path().join("record"), key.public(), &[]).unwrap();
}

#[test]
fn placeholders_are_never_shared_and_mean_nothing_elsewhere() {
    let mut world = ready(Mode::Placeholder);
    let first = world.begin("s1", DOCUMENT).unwrap();
    let second = world.begin("s2", DOCUMENT).unwrap();
    let of = |begun: &Begun| Placeholder::parse(&begun.placeholders[0].1).unwrap();
    let (mine, theirs) = (of(&first), of(&second));
    assert_ne!(mine, theirs);
    assert!(mine.as_str().starts_with("ghp_"));
    world.notary.gate_joined(GATE, session("s1"), Generation(1));
    let mut with = |placeholder: &Placeholder| {
        let mut asked = question(1, true);
        asked.facts.presented = vec![Presented {
            location: Location::Header("authorization".to_owned()),
            digest: placeholder.digest(),
        }];
        world.ask(GATE, asked)
    };
    let (answer, secret) = with(&mine);
    assert!(matches!(answer, Answer::Allowed(_)));
    assert!(secret.is_some());
    let (answer, secret) = with(&theirs);
    assert!(matches!(answer, Answer::Refused(r) if r.reason == Reason::PlaceholderUnknown));
    assert_eq!(secret, None);
}

#[test]
fn a_document_counts_only_after_it_was_accepted() {
    let mut world = ready(Mode::Inject);
    let other = format!("{DOCUMENT}# changed\n");
    let refused = world.begin("s1", &other).unwrap_err();
    assert!(refused.hint.contains("torno trust"), "{}", refused.hint);
    world.accept(&other);
    world.begin("s1", &other).unwrap();
}

#[test]
fn a_credential_that_is_not_there_is_named_with_the_command_that_puts_it() {
    let mut world = ready(Mode::Inject);
    let document = "[secret.absent]\nenv = \"TOKEN\"\n";
    world.accept(document);
    let refused = world.begin("s1", document).unwrap_err();
    assert!(
        refused.hint.contains("torno secret put absent"),
        "{}",
        refused.hint
    );
}

#[test]
fn a_flood_freezes_its_own_session_alone_and_its_end_is_still_recorded() {
    let mut world = ready(Mode::Inject);
    let document = format!("[sandbox]\nlimits = {{ records = 4 }}\n{DOCUMENT}");
    world.accept(&document);
    world.begin("s1", &document).unwrap();
    world.begin("s2", DOCUMENT).unwrap();
    world.notary.gate_joined(GATE, session("s1"), Generation(1));
    world
        .notary
        .gate_joined(GateId(2), session("s2"), Generation(1));
    let mut reasons = Vec::new();
    for _ in 0..20 {
        if let Answer::Refused(refusal) = world.ask(GATE, question(1, false)).0 {
            reasons.push(refusal.reason);
        }
    }
    assert_eq!(reasons, vec![Reason::LimitReached; 17]);
    assert_eq!(world.count(|e| matches!(e, Event::BudgetFrozen { .. })), 1);
    let before = world.records().len();
    let refused = WireRefusal {
        refusal: world.begin("s1", DOCUMENT).unwrap_err(),
        location: None,
        target: "x".to_owned(),
        count: 1,
    };
    world.send(GATE, GateMessage::Refused(vec![refused; 100]));
    assert_eq!(world.records().len(), before);
    let (answer, secret) = world.ask(GateId(2), question(1, true));
    assert!(matches!(answer, Answer::Allowed(_)) && secret.is_some());
    let kill = DeskMessage::Kill {
        ticket: Ticket(1),
        session: None,
    };
    let DeskReply::KillRecorded { sessions, .. } = world.desk(kill).0 else {
        panic!()
    };
    assert_eq!(sessions.len(), 2);
}

#[test]
fn a_batch_over_many_gates_is_answered_each_to_its_own() {
    let mut world = running(Mode::Inject);
    world.begin("s2", DOCUMENT).unwrap();
    world
        .notary
        .gate_joined(GateId(2), session("s2"), Generation(1));
    let ask = |from: u64| GateMessage::Ask((from..from + 400).map(|t| question(t, true)).collect());
    let batch = vec![(GATE, ask(0)), (GateId(2), ask(1000))];
    let mut tickets = std::collections::BTreeMap::new();
    for frame in world.send_all(batch) {
        let bytes = torno_notary_protocol::transit::encode(&frame.message, &frame.credentials);
        assert!(bytes.is_ok(), "a frame fits its socket");
        let NotaryMessage::Answers(answers) = frame.message else {
            panic!()
        };
        for answered in answers {
            assert_eq!(
                frame.credentials[answered.credential.unwrap()].expose(),
                VALUE
            );
            tickets.insert(answered.ticket, frame.gate);
        }
    }
    assert_eq!(tickets.len(), 800);
    assert!(
        tickets
            .iter()
            .all(|(t, gate)| (t.0 < 1000) == (*gate == GATE))
    );
    assert_eq!(world.count(is_release), 800);
}

#[test]
fn a_report_about_a_request_of_another_session_is_an_alarm() {
    let mut world = running(Mode::Inject);
    world.begin("s2", DOCUMENT).unwrap();
    world
        .notary
        .gate_joined(GateId(2), session("s2"), Generation(1));
    let allowed = world.allowed(true);
    let outcome = Outcome {
        record: allowed.record,
        end: End::Completed { status: 201 },
        sent_bytes: 1,
        received_bytes: 2,
        reflected: 1,
        carried: 0,
        cookies: Vec::new(),
        address: None,
        resolved_by_proxy: false,
    };
    world.send(GateId(2), GateMessage::Report(vec![outcome.clone()]));
    let ended = |event: &Event| matches!(event, Event::RequestEnded(_));
    assert_eq!((world.count(ended), world.count(is_refusal)), (0, 1));
    world.send(GATE, GateMessage::Report(vec![outcome.clone(), outcome]));
    assert_eq!((world.count(ended), world.count(is_refusal)), (1, 2));
    let reflected = |event: &Event| matches!(event, Event::CredentialReflected { .. });
    assert_eq!(world.count(reflected), 1);
    let kill = DeskMessage::Kill {
        ticket: Ticket(1),
        session: None,
    };
    let DeskReply::KillRecorded {
        credentialed_writes,
        ..
    } = world.desk(kill).0
    else {
        panic!()
    };
    assert!(credentialed_writes.contains(&(session("s1"), 1)));
}

fn tool(name: &str) -> Act {
    Act::Tool(ToolFacts {
        tool: ToolName::parse(name).unwrap(),
        arguments: serde_json::json!({"path": "x"}),
    })
}

#[test]
fn tool_calls_are_judged_and_recorded_whatever_the_answer() {
    let mut world = running(Mode::Inject);
    for (name, wanted) in [
        ("bash", None),
        ("apply", Some(Reason::ApprovalUnavailable)),
        ("mcp:db/drop", Some(Reason::ToolNotGranted)),
    ] {
        let judge = DeskMessage::Judge {
            ticket: Ticket(1),
            session: session("s1"),
            act: Box::new(tool(name)),
        };
        let reason = match world.desk(judge).0 {
            DeskReply::Permitted { .. } => None,
            DeskReply::Refused { refusal, .. } => Some(refusal.reason),
            other => panic!("{other:?}"),
        };
        assert_eq!(reason, wanted, "{name}");
    }
    assert_eq!(world.count(|e| matches!(e, Event::ToolDecided { .. })), 3);
}

#[test]
fn an_explanation_says_what_enforcement_does_and_writes_nothing() {
    let mut world = running(Mode::Inject);
    for path in ["/v1/items", "/v2/items"] {
        let explain = DeskMessage::Explain {
            ticket: Ticket(1),
            session: session("s1"),
            act: Box::new(Act::Request(facts(path))),
        };
        let before = world.records().len();
        let DeskReply::Explained { refusal, .. } = world.desk(explain).0 else {
            panic!()
        };
        assert_eq!(world.records().len(), before);
        let mut asked = question(1, false);
        asked.facts = facts(path);
        let enforced = match world.ask(GATE, asked).0 {
            Answer::Allowed(_) => None,
            Answer::Refused(refusal) => Some(refusal),
            Answer::Read(kind) => panic!("{kind:?}"),
        };
        assert_eq!(refusal, enforced, "{path}");
    }
}

#[test]
fn a_kills_receipt_is_taken_of_a_killed_session_only() {
    let mut world = running(Mode::Inject);
    let killed = || DeskMessage::Killed {
        ticket: Ticket(1),
        session: session("s1"),
        processes: 2,
        leftovers: vec!["one".to_owned()],
    };
    assert!(matches!(world.desk(killed()).0, DeskReply::Refused { .. }));
    world.allowed(true);
    let kill = DeskMessage::Kill {
        ticket: Ticket(1),
        session: None,
    };
    world.desk(kill);
    assert!(matches!(world.desk(killed()).0, DeskReply::Done { .. }));
    let cut = |event: &Event| {
        matches!(
            event,
            Event::KillCompleted {
                cut: 1,
                processes: 2,
                ..
            }
        )
    };
    assert_eq!(world.count(cut), 1);
}

#[test]
fn an_ended_session_is_cut_and_its_end_recorded_once() {
    let mut world = running(Mode::Inject);
    let end = || DeskMessage::End {
        ticket: Ticket(1),
        session: session("s1"),
        exit_status: Some(3),
        cause: EndCause::Exited,
    };
    let (reply, effects) = world.desk(end());
    assert!(matches!(
        reply,
        DeskReply::Done {
            record: Some(_),
            ..
        }
    ));
    assert_eq!(effects.len(), 1);
    assert_eq!(world.notary.gates_of(&session("s1")), [GATE]);
    assert_eq!(world.refused(GATE), Reason::SessionEnded);
    world.desk(end());
    assert_eq!(world.count(|e| matches!(e, Event::SessionEnded { .. })), 1);
}

#[test]
fn a_binding_that_goes_cuts_the_streams_it_covered() {
    let mut world = running(Mode::Inject);
    let allowed = world.allowed(false);
    let id = BindingId::parse("b1").unwrap();
    let effects = world.ask_owner(OperatorRequest::Unbind { id }, None);
    assert_eq!(effects.len(), 1);
    assert_eq!(world.unlock(GATE, &allowed), Err(Reason::BindingNotGranted));
    assert_eq!(world.count(is_release), 0);
}

#[test]
fn one_sessions_receipts_push_out_no_other_sessions() {
    let mut world = running(Mode::Inject);
    world.begin("s2", DOCUMENT).unwrap();
    world
        .notary
        .gate_joined(GateId(2), session("s2"), Generation(1));
    let mine = world.allowed(false);
    let flood = (0..5_000).map(|ticket| question(ticket, false)).collect();
    world.send(GateId(2), GateMessage::Ask(flood));
    assert!(world.unlock(GATE, &mine).is_ok());
}
