// SPDX-License-Identifier: Apache-2.0
//! A gate is given what its answers must be searched for.

use super::*;

/// What a gate was given for a receipt: watched placeholders and values, whether one is put in,
/// and the watch.
type Given = (Vec<(String, Vec<u8>)>, bool, u64);

impl World {
    /// A running session of a grant with two credentials; the question uses the first.
    fn running_with_two() -> Self {
        let mut world = ready(Mode::Inject);
        let put = OperatorRequest::Put {
            name: CredentialName::parse("other").unwrap(),
            shape: "glpat-".to_owned(),
        };
        world.ask_owner(put, Some(b"glpat-other0123456789"));
        let mut elsewhere = binding(Mode::Inject);
        elsewhere.id = BindingId::parse("b2").unwrap();
        elsewhere.credential = CredentialName::parse("other").unwrap();
        elsewhere.endpoint.host = Host::parse("elsewhere.test").unwrap();
        world.ask_owner(OperatorRequest::Bind(Box::new(elsewhere)), None);
        let two = format!("{DOCUMENT}[secret.other]\nenv = \"OTHER\"\n");
        world.accept(&two);
        world.begin("s1", &two).unwrap();
        world.notary.gate_joined(GATE, session("s1"), Generation(1));
        world
    }

    fn ask_with_watch(&mut self, watch: u64, pooled: bool) -> (Allowed, Option<Vec<u8>>) {
        let question = Question {
            watch,
            ..question(1, pooled)
        };
        match self.ask(GATE, question) {
            (Answer::Allowed(allowed), secret) => (*allowed, secret),
            (Answer::Refused(refusal), _) => panic!("{refusal:?}"),
            (Answer::Read(kind), _) => panic!("{kind:?}"),
        }
    }

    fn redeem(&mut self, allowed: &Allowed) -> Result<Given, Reason> {
        let receipt = allowed.receipt.clone().unwrap();
        let ticket = Ticket(9);
        let message = GateMessage::Unlock { ticket, receipt };
        let frame = self.send(GATE, message).pop().unwrap();
        match frame.message {
            NotaryMessage::Unlocked { released, .. } => {
                let values = frame.credentials.iter().map(|c| c.expose().to_vec());
                let watched = released.watched.into_iter().zip(values).collect();
                Ok((watched, released.injects, released.watch))
            }
            NotaryMessage::UnlockRefused { refusal, .. } => Err(refusal.reason),
            other => panic!("{other:?}"),
        }
    }
}

// ATTACK: 105
#[test]
fn a_gate_is_given_every_credential_of_its_session_to_watch_for_before_the_first_request() {
    let mut world = World::running_with_two();
    // Not with the answer, pooled or not: a peer must be verified first.
    let (allowed, secret) = world.ask_with_watch(0, true);
    assert!(allowed.unlock && secret.is_none());
    assert_eq!(world.count(is_watch), 0);
    let (watched, injects, watch) = world.redeem(&allowed).unwrap();
    let [(placeholder, value)] = watched.as_slice() else {
        panic!("{watched:?}")
    };
    assert!(placeholder.starts_with("glpat-") && value == b"glpat-other0123456789");
    assert!(injects && watch > 0);
    assert_eq!((world.count(is_watch), world.count(is_release)), (1, 1));
    let records = world.records();
    let Event::CredentialWatched(seen) = &records.last().unwrap().event else {
        panic!()
    };
    assert_eq!(seen.decision, allowed.record);
    assert_eq!((seen.credential.as_str(), seen.version), ("other", 1));
    assert_eq!(world.redeem(&allowed), Err(Reason::ReceiptInvalid));

    // Once it is taken up the answer brings the credential as ever.
    let (_, secret) = world.ask_with_watch(watch, true);
    assert_eq!(secret.as_deref(), Some(VALUE));
    assert_eq!(world.count(is_watch), 1);

    // A rotation is watched for from the next request on.
    let name = CredentialName::parse("other").unwrap();
    world.ask_owner(
        OperatorRequest::Rotate { name },
        Some(b"glpat-second0123456789"),
    );
    let (allowed, secret) = world.ask_with_watch(watch, true);
    assert_eq!(secret, None);
    let (watched, _, newer) = world.redeem(&allowed).unwrap();
    assert!(watched[0].1 == b"glpat-second0123456789" && newer > watch);
}

#[test]
fn nothing_is_watched_for_that_was_revoked_or_that_the_session_does_not_hold() {
    let mut world = running(Mode::Inject);
    let put = OperatorRequest::Put {
        name: CredentialName::parse("foreign").unwrap(),
        shape: "glpat-".to_owned(),
    };
    world.ask_owner(put, Some(b"glpat-foreign0123456789"));
    let (_, secret) = world.ask_with_watch(0, true);
    assert_eq!((secret.as_deref(), world.count(is_watch)), (Some(VALUE), 0));

    let mut world = World::running_with_two();
    let name = CredentialName::parse("other").unwrap();
    world.ask_owner(OperatorRequest::Remove { name }, None);
    let (allowed, _) = world.ask_with_watch(0, false);
    let (watched, injects, _) = world.redeem(&allowed).unwrap();
    assert!(watched.is_empty() && injects);
    assert_eq!(world.count(is_watch), 0);
}

#[test]
fn a_credential_that_was_revoked_before_it_was_watched_for_refuses_and_later_does_not() {
    let mut world = World::running_with_two();
    let name = CredentialName::parse("other").unwrap();
    let mut known = World::running_with_two();
    let allowed = known.ask_with_watch(0, false).0;
    let (_, _, watch) = known.redeem(&allowed).unwrap();
    for world in [&mut world, &mut known] {
        let name = name.clone();
        world.ask_owner(OperatorRequest::Revoke { name }, None);
    }
    assert_eq!(world.refused(GATE), Reason::CredentialRevoked);
    // The gate knows the value: its answers are searched.
    let (_, secret) = known.ask_with_watch(watch, true);
    assert_eq!(secret.as_deref(), Some(VALUE));
}

// ATTACK: 243
#[test]
fn an_explanation_knows_what_the_gate_has_taken_up() {
    let name = CredentialName::parse("other").unwrap();
    let mut fresh = World::running_with_two();
    let mut known = World::running_with_two();
    let allowed = known.ask_with_watch(0, false).0;
    known.redeem(&allowed).unwrap();
    for world in [&mut fresh, &mut known] {
        let name = name.clone();
        world.ask_owner(OperatorRequest::Revoke { name }, None);
    }
    let refused = [fresh, known].map(|mut world| {
        let explain = DeskMessage::Explain {
            ticket: Ticket(1),
            session: session("s1"),
            act: Box::new(Act::Request(question(1, true).facts)),
        };
        match world.desk(explain).0 {
            DeskReply::Explained { refusal, .. } => refusal.map(|refusal| refusal.reason),
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(refused, [Some(Reason::CredentialRevoked), None]);
}

// ATTACK: 101
#[test]
fn a_new_value_cuts_every_stream_of_the_sessions_that_hold_it() {
    let whole = |session: &str| Effect::Revoke {
        session: SessionId::parse(session).unwrap(),
        credential: None,
    };
    let mut world = World::running_with_two();
    let name = || CredentialName::parse("other").unwrap();
    let rotate = OperatorRequest::Rotate { name: name() };
    let cut = world.ask_owner(rotate, Some(b"glpat-second0123456789"));
    assert_eq!(cut, [whole("s1")]);
    world.ask_owner(OperatorRequest::Remove { name: name() }, None);
    let put = OperatorRequest::Put {
        name: name(),
        shape: "glpat-".to_owned(),
    };
    assert_eq!(
        world.ask_owner(put, Some(b"glpat-third0123456789")),
        [whole("s1")]
    );
    let put = OperatorRequest::Put {
        name: CredentialName::parse("foreign").unwrap(),
        shape: "glpat-".to_owned(),
    };
    assert!(
        world
            .ask_owner(put, Some(b"glpat-foreign0123456789"))
            .is_empty()
    );
}

#[test]
fn a_credential_comes_with_the_answer_only_where_the_connection_was_used_with_it() {
    let mut world = running(Mode::Inject);
    let serves = |serves| Question {
        serves,
        ..question(1, true)
    };
    let other = CredentialName::parse("other").ok();
    for used_with in [None, other] {
        let (answer, secret) = world.ask(GATE, serves(used_with));
        assert!(matches!(answer, Answer::Allowed(allowed) if allowed.unlock));
        assert_eq!(secret, None);
    }
    assert_eq!(world.count(is_release), 0);
    let (_, secret) = world.ask(GATE, serves(Some(credential())));
    assert_eq!(secret.as_deref(), Some(VALUE));
}

#[test]
fn a_sealed_vault_refuses_a_request_whose_answer_could_not_be_searched() {
    let mut world = World::running_with_two();
    let allowed = world.ask_with_watch(0, false).0;
    world.ask_owner(OperatorRequest::Seal, None);
    assert_eq!(world.redeem(&allowed), Err(Reason::VaultSealed));
    assert_eq!(world.refused(GATE), Reason::VaultSealed);
    assert_eq!(world.count(is_watch), 0);
}
