// SPDX-License-Identifier: Apache-2.0
//! Requests that a rule judges by what they say.

use super::*;
use torno_policy::binding::Held;
use torno_policy::facts::{BodySlot, Content, ContentKind, GraphqlOperation, LfsBatch, Unread};
use torno_policy::facts::{GitFacts, GitOperation};
use torno_policy::organisation::SHIPPED;

const GRAPHQL: &str = "[secret.token]\n\n[sandbox]\nlimits = { records = 40 }\n\n[[allow]]\n\
    host = \"allow.test\"\npaths = [\"/v1/graphql\"]\ngraphql = [\"query\"]\n";

fn graphql() -> World {
    let mut world = ready(Mode::PlaceholderOrInject);
    world.accept(GRAPHQL);
    world.begin("s1", GRAPHQL).unwrap();
    world.notary.gate_joined(GATE, session("s1"), Generation(1));
    world
}

fn says(content: Option<GraphqlOperation>) -> Question {
    let mut asked = question(1, true);
    asked.facts = facts("/v1/graphql");
    asked.facts.content = content.map(|said| Content::Graphql(vec![said]));
    asked
}

#[test]
fn what_a_rule_judges_is_asked_for_before_anything_is_recorded_or_released() {
    let mut world = graphql();
    let before = world.records().len();
    let (answer, secret) = world.ask(GATE, says(None));
    assert_eq!(answer, Answer::Read(Unread::Content(ContentKind::Graphql)));
    assert_eq!((secret, world.records().len()), (None, before));
    let (answer, secret) = world.ask(GATE, says(Some(GraphqlOperation::Mutation)));
    let Answer::Refused(refusal) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(refusal.reason, Reason::OperationNotGranted);
    assert!(
        refusal.hint.contains("add \"mutation\" to graphql"),
        "{}",
        refusal.hint
    );
    assert_eq!((secret, world.records().len()), (None, before + 1));
    let (answer, secret) = world.ask(GATE, says(Some(GraphqlOperation::Query)));
    assert!(matches!(answer, Answer::Allowed(_)), "{answer:?}");
    assert_eq!(secret.as_deref(), Some(VALUE));
    // Where the rule does not speak, its credential's binding is as it was.
    let (answer, _) = world.ask(GATE, question(1, true));
    assert!(matches!(answer, Answer::Allowed(_)), "{answer:?}");
}

#[test]
fn asking_without_end_has_the_bound_of_the_sessions_records() {
    let mut world = graphql();
    let read = (0..100)
        .filter(|_| matches!(world.ask(GATE, says(None)).0, Answer::Read(_)))
        .count();
    assert!((1..=40).contains(&read), "{read}");
}

/// The notary under a further rule of the organisation, with a session of this document.
fn ruled(rule: &str, document: &str) -> World {
    let organisation = Organisation::parse(&format!("{SHIPPED}{rule}")).unwrap();
    let mut world = prepared(
        empty_under(organisation),
        binding(Mode::PlaceholderOrInject),
    );
    world.accept(document);
    world.begin("s1", document).unwrap();
    world.notary.gate_joined(GATE, session("s1"), Generation(1));
    world
}

fn reason(answer: &Answer) -> Option<Reason> {
    match answer {
        Answer::Refused(refusal) => Some(refusal.reason),
        Answer::Allowed(_) | Answer::Read(_) => None,
    }
}

#[test]
fn what_the_organisation_judges_of_the_content_is_read_before_it_refuses() {
    let forbid = "@id(\"queries-alone\")\nforbid (principal, action == Action::\"request\", resource)\n\
        when { context.path == \"/v1/graphql\" }\n\
        unless { context has graphql && [\"query\"].containsAll(context.graphql) };\n";
    for (asks, refused) in [
        ("", "organisation_forbids"),
        ("@ask ", "approval_unavailable"),
    ] {
        let document = GRAPHQL.replace("[\"query\"]", "[\"query\", \"mutation\"]");
        let mut world = ruled(&format!("{asks}{forbid}"), &document);
        let (answer, _) = world.ask(GATE, says(None));
        let unread = Unread::Content(ContentKind::Graphql);
        assert_eq!(answer, Answer::Read(unread), "{asks}");
        let (answer, _) = world.ask(GATE, says(Some(GraphqlOperation::Query)));
        assert!(matches!(answer, Answer::Allowed(_)), "{answer:?}");
        let mutation = world.ask(GATE, says(Some(GraphqlOperation::Mutation))).0;
        let code = reason(&mutation).map(|reason| reason.code());
        assert_eq!(code, Some(refused), "{mutation:?}");
    }
}

#[test]
fn a_fetch_of_large_files_passes_where_the_organisation_forbids_pushes() {
    let forbid = "@id(\"no-push\")\nforbid (principal, action == Action::\"request\", resource)\n\
        when { context has git && context.git == \"push\" };\n";
    let document = "[git.\"https://allow.test/v1/app\"]\nsecret = \"token\"\nfetch = \"allow\"\n\
        push = { refs = [\"refs/heads/agent/*\"] }\n";
    let mut world = ruled(forbid, document);
    let batch = |is_upload: Option<bool>| {
        let mut asked = question(1, true);
        asked.facts = facts("/v1/app.git/info/lfs/objects/batch");
        asked.facts.git = Some(GitFacts {
            repository: "/v1/app".to_owned(),
            operation: GitOperation::LfsBatch,
        });
        asked.facts.content = is_upload.map(|is_upload| {
            Content::Lfs(LfsBatch {
                is_upload,
                reference: None,
            })
        });
        asked
    };
    let (answer, _) = world.ask(GATE, batch(None));
    assert_eq!(answer, Answer::Read(Unread::Content(ContentKind::Lfs)));
    let (answer, _) = world.ask(GATE, batch(Some(false)));
    assert!(matches!(answer, Answer::Allowed(_)), "{answer:?}");
    let (answer, _) = world.ask(GATE, batch(Some(true)));
    assert_eq!(
        reason(&answer),
        Some(Reason::OrganisationForbids),
        "{answer:?}"
    );
    // What no reading changes is refused at once.
    let mut asked = question(1, true);
    asked.facts = facts("/v1/app.git/git-receive-pack");
    asked.facts.git = Some(GitFacts {
        repository: "/v1/app".to_owned(),
        operation: GitOperation::Push(Vec::new()),
    });
    let (answer, _) = world.ask(GATE, asked);
    assert_eq!(
        reason(&answer),
        Some(Reason::OrganisationForbids),
        "{answer:?}"
    );
}

#[test]
fn the_slot_of_a_body_is_asked_for_before_anything_is_recorded_or_released() {
    let slot = Slot::Form {
        field: "client_secret".to_owned(),
    };
    let mut row = binding(Mode::PlaceholderOrInject);
    row.slot = slot.clone();
    row.methods = vec![Method::parse("POST").unwrap()];
    let mut world = prepared(empty(), row);
    world.begin("s1", DOCUMENT).unwrap();
    world.notary.gate_joined(GATE, session("s1"), Generation(1));
    let before = world.records().len();
    let (answer, secret) = world.ask(GATE, question(1, true));
    assert_eq!(answer, Answer::Read(Unread::Slot(slot.clone())));
    assert_eq!((secret, world.records().len()), (None, before));
    for (held, refused) in [
        (Held::Nothing, None),
        (Held::Own, Some(Reason::OwnCredential)),
        (Held::Twice, Some(Reason::PlaceholderRepeated)),
        (Held::Nowhere, Some(Reason::PlaceholderMissing)),
    ] {
        let mut asked = question(1, true);
        let slot = slot.clone();
        asked.facts.body = Some(Box::new(BodySlot { slot, held }));
        let (answer, secret) = world.ask(GATE, asked);
        assert_eq!(reason(&answer), refused, "{held:?}");
        assert_eq!(secret.is_some(), refused.is_none(), "{held:?}");
    }
}
