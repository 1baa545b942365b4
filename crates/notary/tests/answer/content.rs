// SPDX-License-Identifier: Apache-2.0
//! Requests that a rule judges by what they say.

use super::*;
use torno_policy::facts::{Content, ContentKind, GraphqlOperation};

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
    assert_eq!(answer, Answer::Read(ContentKind::Graphql));
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
