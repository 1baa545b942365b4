// SPDX-License-Identifier: Apache-2.0

use super::*;
use proptest::prelude::*;

fn runs(document: &str, name: Option<&str>) -> Option<GraphqlOperation> {
    operation(document, name).ok()
}

const INTROSPECTION: &str = "query IntrospectionQuery { __schema { queryType { name } types { \
    ...FullType } directives { name args { ...InputValue } } } } \
    fragment FullType on __Type { kind fields(includeDeprecated: true) { name args { \
    ...InputValue } type { ofType { ofType { ofType { name } } } } } } \
    fragment InputValue on __InputValue { name defaultValue }";

#[test]
fn the_operation_that_would_run_is_told_by_its_name() {
    use GraphqlOperation::{Mutation, Query, Subscription};
    let two = "query Read($a: [Int!]! = [1, 2] @d) @live { me(id: $a, f: {x: -1.5e3, y: [A, \
               null, \"}\\\"\"]}) { ... on User @include(if: true) { n: name } ...F ... { x } } }\
               \n# mutation\nmutation Write { drop(text: \"\"\"} mutation \\\"\"\" x\"\"\") } \
               fragment F on User { id }";
    assert_eq!(runs(two, Some("Read")), Some(Query));
    assert_eq!(runs(two, Some("Write")), Some(Mutation));
    // Several operations and no name, or a name that is not there: nobody knows.
    for name in [None, Some(""), Some("F"), Some("read"), Some("Other")] {
        assert_eq!(runs(two, name), None, "{name:?}");
    }
    assert_eq!(runs("{ me }", None), Some(Query));
    assert_eq!(runs("{ me }", Some("")), Some(Query));
    assert_eq!(runs("{ me }", Some("x")), None);
    assert_eq!(runs("subscription { on }", None), Some(Subscription));
    assert_eq!(runs("mutation\u{20}{ query }", None), Some(Mutation));
    assert_eq!(runs("query mutation { a }", Some("mutation")), Some(Query));
    assert_eq!(runs(INTROSPECTION, None), Some(Query));
    assert_eq!(runs("#{ a }\rmutation { b }", None), Some(Mutation));
}

#[test]
fn what_is_no_executable_document_is_refused() {
    for wrong in [
        "",
        " ",
        "#",
        "{",
        "}",
        "{}",
        "{ a }}",
        "{ a } { b }",
        "query A { a } query A { b }",
        "query A { a } { b }",
        "type A { a: B }",
        "extend type A { a: B }",
        "schema { query: Q }",
        "fragment on on A { a } { a }",
        "fragment F on A { a }",
        "query { a ! }",
        "{ a(b) }",
        "{ a() }",
        "{ a(b: ) }",
        "{ a(b: 01) }",
        "{ a(b: 1x) }",
        "{ a(b: .5) }",
        "{ a(b: \"x) }",
        "{ a(b: \"\n\") }",
        "{ a(b: \"\\x\") }",
        "{ a(b: \"\"\"x\"\") }",
        "\u{feff}{ a }",
        "{ a } #\u{2028}mutation { b }",
        "{ a }\0",
        "{ a\u{a0} }",
        "Query { a }",
        "\"d\" query { a }",
        "query A($a: Int, ) { a } mutation",
        "query ($a) { a }",
        "{ a(b: [1) }",
        "{ .. }",
        "query A() { a }",
        "{ a @ }",
        "{ ... on { a } }",
        "{ a: { b } }",
        "mutation",
        "{ a(b: \"\\u12\") }",
    ] {
        assert_eq!(runs(wrong, None), None, "{wrong}");
        assert_eq!(runs(wrong, Some("A")), None, "{wrong}");
    }
    let deep = |depth: usize| format!("{}a{}", "{a".repeat(depth), "}".repeat(depth));
    assert!(runs(&deep(DEPTH_MAX), None).is_some());
    for hostile in [deep(200_000), format!("{{a(b:{}", "[".repeat(500_000))] {
        assert_eq!(runs(&hostile, None), None);
    }
}

proptest! {
    /// What stands between two tokens never changes what runs.
    #[test]
    fn spaces_commas_and_comments_never_change_what_runs(
        words in prop::collection::vec("(query|mutation|subscription|fragment|on|A|\\{|\\}|\\(|\\)|\\$|:|\\.\\.\\.|@|\"\\{\"|1)", 0..14),
        between in "( |,|\t|\n|#[a-z{}\"]{0,4}\n){1,3}",
    ) {
        let plain = words.join(" ");
        let other = format!("{between}{}{between}", words.join(&between));
        prop_assert_eq!(runs(&plain, None), runs(&other, None));
        prop_assert_eq!(runs(&plain, Some("A")), runs(&other, Some("A")));
    }

    /// Nothing of a mutation is ever read as a query.
    #[test]
    fn a_document_whose_only_operation_is_a_mutation_is_one(name in "[a-z]{0,3}", field in "[a-z]{1,5}") {
        let document = format!("mutation {name} {{ {field} }}");
        prop_assert_eq!(runs(&document, None), Some(GraphqlOperation::Mutation));
    }
}
