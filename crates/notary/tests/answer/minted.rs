// SPDX-License-Identifier: Apache-2.0
//! Placeholders for values that a far end made with a credential.

use super::*;
use torno_policy::placeholder::PlaceholderDigest;

fn mint(
    world: &mut World,
    gate: GateId,
    record: RecordSeq,
    count: u32,
) -> Result<Vec<String>, Reason> {
    let ticket = Ticket(5);
    let message = GateMessage::Mint {
        ticket,
        record,
        count,
    };
    let frame = world.send(gate, message).pop().unwrap();
    assert!(frame.credentials.is_empty());
    match frame.message {
        NotaryMessage::Minted { placeholders, .. } => Ok(placeholders),
        NotaryMessage::MintRefused { refusal, .. } => Err(refusal.reason),
        other => panic!("{other:?}"),
    }
}

fn digest_of(placeholder: &str) -> PlaceholderDigest {
    Placeholder::parse(placeholder).unwrap().digest()
}

/// A question that presents a placeholder in the slot.
fn presenting(ticket: u64, placeholder: &str, path: &str) -> Question {
    let mut question = question(ticket, true);
    question.facts.path = RequestPath::parse(path).unwrap();
    question.facts.presented = vec![Presented {
        digest: digest_of(placeholder),
        location: Location::Header("authorization".to_owned()),
    }];
    question
}

const fn is_mint(event: &Event) -> bool {
    matches!(event, Event::CredentialMinted { count: 2, .. })
}

#[test]
fn a_minted_value_is_used_like_the_credential_that_made_it_and_nothing_is_unlocked() {
    let mut world = running(Mode::PlaceholderOrInject);
    let record = world.allowed(true).record;
    let named = mint(&mut world, GATE, record, 2).unwrap();
    assert_eq!(named.len(), 2);
    assert_eq!(world.count(is_mint), 1);
    let releases = world.count(is_release);

    let (answer, secret) = world.ask(GATE, presenting(2, &named[1], "/v1/x"));
    let Answer::Allowed(allowed) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(secret, None);
    assert!(allowed.minted && !allowed.unlock);
    let injection = allowed.injection.as_ref().unwrap();
    assert_eq!(injection.placeholder, named[1]);
    assert_eq!(injection.credential, credential());
    assert!(world.unlock(GATE, &allowed).is_err());
    assert_eq!(world.count(is_release), releases);

    // Where the credential may not go, what it made may not.
    let (answer, _) = world.ask(GATE, presenting(3, &named[0], "/elsewhere"));
    assert!(matches!(answer, Answer::Refused(_)), "{answer:?}");
}

#[test]
fn only_an_open_request_with_a_credential_mints_and_only_for_its_own_session() {
    let mut world = running(Mode::PlaceholderOrInject);
    world.begin("s2", DOCUMENT).unwrap();
    let other = GateId(2);
    world
        .notary
        .gate_joined(other, session("s2"), Generation(1));
    let record = world.allowed(true).record;
    assert!(mint(&mut world, other, record, 1).is_err());
    assert!(mint(&mut world, GATE, RecordSeq(record.0 + 1), 1).is_err());
    assert!(mint(&mut world, GATE, record, 0).is_err());
    let named = mint(&mut world, GATE, record, 1).unwrap();
    let (answer, _) = world.ask(other, presenting(2, &named[0], "/v1/x"));
    let Answer::Refused(refusal) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(refusal.reason, Reason::PlaceholderUnknown);
}

#[test]
fn a_session_has_a_bounded_number_of_minted_values_and_none_once_it_is_over() {
    let mut world = running(Mode::PlaceholderOrInject);
    let record = world.allowed(true).record;
    let named = mint(&mut world, GATE, record, 32).unwrap();
    assert_eq!(mint(&mut world, GATE, record, 1), Err(Reason::LimitReached));
    world.desk(DeskMessage::Kill {
        ticket: Ticket(1),
        session: Some(session("s1")),
    });
    assert_eq!(
        mint(&mut world, GATE, record, 1),
        Err(Reason::SessionKilled)
    );
    let (answer, _) = world.ask(GATE, presenting(2, &named[0], "/v1/x"));
    assert!(matches!(answer, Answer::Refused(_)), "{answer:?}");
}
