// SPDX-License-Identifier: Apache-2.0
//! What is kept of answers: told to the gate, and written down by name alone.

use super::*;
use torno_audit::RequestDecided;

/// The session's credential is bound where cookies are kept, and a rule covers the same.
fn keeping() -> World {
    let document = format!("{DOCUMENT}[[allow]]\nhost = \"allow.test\"\nmethods = [\"POST\"]\n");
    let mut world = ready(Mode::Placeholder);
    let kept = Binding {
        answers: Answers {
            cookies: Cookies::Broker,
            token_endpoints: vec![PathPattern::parse("/v1/token").unwrap()],
        },
        ..binding(Mode::Placeholder)
    };
    world.ask_owner(OperatorRequest::Bind(Box::new(kept)), None);
    world.accept(&document);
    world.begin("s1", &document).unwrap();
    world.notary.gate_joined(GATE, session("s1"), Generation(1));
    world
}

fn allowed(world: &mut World, path: &str) -> Allowed {
    let mut question = question(1, false);
    question.facts.path = RequestPath::parse(path).unwrap();
    question.facts.presented.clear();
    match world.ask(GATE, question).0 {
        Answer::Allowed(allowed) => *allowed,
        other => panic!("{other:?}"),
    }
}

fn ended(record: RecordSeq, cookies: &[&str]) -> GateMessage {
    GateMessage::Report(vec![Outcome {
        record,
        end: End::Completed { status: 200 },
        sent_bytes: 1,
        received_bytes: 2,
        reflected: 0,
        carried: 0,
        cookies: cookies.iter().map(|name| (*name).to_owned()).collect(),
        address: None,
        resolved_by_proxy: false,
    }])
}

#[test]
fn a_request_with_kept_cookies_is_recorded_with_its_binding_and_cookies_by_name() {
    let mut world = keeping();
    let yes = allowed(&mut world, "/v1/account");
    let kept = yes.keeping.clone().unwrap();
    assert!(yes.injection.is_none() && kept.cookies && !kept.tokens);
    assert_eq!(yes.credential(), Some(&credential()));
    world.send(GATE, ended(yes.record, &["sid", "odd\nname"]));
    let decided = |event: &Event| match event {
        Event::RequestDecided(decided) => {
            let RequestDecided {
                credential,
                binding,
                ..
            } = decided.as_ref();
            credential.is_none() && binding.as_ref().is_some_and(|id| id.as_str() == "b1")
        }
        _ => false,
    };
    assert_eq!(world.count(decided), 1);
    let mut names = world
        .records()
        .into_iter()
        .filter_map(|entry| match entry.event {
            Event::CookiesKept {
                names, credential, ..
            } => Some((names, credential)),
            _ => None,
        });
    let (names, of) = names.next().unwrap();
    assert_eq!((names.count(), of), (2, credential()));
    let shown = serde_json::to_string(&names).unwrap();
    assert!(
        shown.contains("sid") && shown.contains("odd\\\\u{a}name"),
        "{shown}"
    );

    let other = allowed(&mut world, "/elsewhere");
    assert_eq!(other.keeping, None);
    assert_eq!(other.credential(), None);
    let token = allowed(&mut world, "/v1/token");
    assert!(token.keeping.is_some_and(|kept| kept.tokens));
}

#[test]
fn a_gate_that_tells_of_cookies_of_nobody_writes_nothing_of_them() {
    let mut world = keeping();
    let kept = |event: &Event| matches!(event, Event::CookiesKept { .. });
    let plain = allowed(&mut world, "/elsewhere");
    world.send(GATE, ended(plain.record, &["sid"]));
    world.send(GATE, ended(RecordSeq(9_999), &["sid"]));
    assert_eq!(world.count(kept), 0);
}

#[test]
fn a_sealed_vault_holds_what_its_credentials_earned_too() {
    let mut world = keeping();
    world.ask_owner(OperatorRequest::Seal, None);
    for (path, is_held) in [
        ("/v1/account", true),
        ("/v1/token", true),
        ("/elsewhere", false),
    ] {
        let mut question = question(1, false);
        question.facts.path = RequestPath::parse(path).unwrap();
        question.facts.presented.clear();
        // The gate knows all there is to watch for: nothing else would be unlocked.
        question.watch = u64::MAX;
        let (answer, _) = world.ask(GATE, question);
        match answer {
            Answer::Refused(refusal) if is_held => {
                assert_eq!(refusal.reason, Reason::VaultSealed, "{path}");
            }
            Answer::Allowed(_) if !is_held => {}
            other => panic!("{path}: {other:?}"),
        }
    }
}
