// SPDX-License-Identifier: Apache-2.0

use super::*;
use proptest::prelude::*;
use torno_policy::facts::GraphqlOperation::{Mutation, Query, Subscription};

fn graphql(body: &str) -> Option<Vec<GraphqlOperation>> {
    match graphql_body(body.as_bytes()) {
        Ok(Content::Graphql(said)) => Some(said),
        Ok(other) => panic!("{other:?}"),
        Err(fault) => {
            assert_eq!(fault.reason, Reason::MalformedRequest, "{body}");
            None
        }
    }
}

fn calls(body: &str) -> Option<Vec<String>> {
    match jsonrpc(body.as_bytes()) {
        Ok(Content::Jsonrpc(said)) => Some(said.into_iter().map(String::from).collect()),
        Ok(other) => panic!("{other:?}"),
        Err(_) => None,
    }
}

#[test]
fn a_graphql_body_says_what_would_run() {
    let two = "query A { a } mutation B { b }";
    let named = |name: &str| format!("{{\"query\":\"{two}\",\"operationName\":{name}}}");
    assert_eq!(graphql(&named("\"A\"")), Some(vec![Query]));
    assert_eq!(graphql(&named("\"\\u0042\"")), Some(vec![Mutation]));
    for name in ["null", "\"\"", "\"C\"", "1", "[\"A\"]"] {
        assert_eq!(graphql(&named(name)), None, "{name}");
    }
    let batch = "[{\"query\":\"{a}\"},{\"query\":\"subscription{b}\",\"variables\":{\"a\":1,\"A\":2}},\
                 {\"query\":\"{c}\",\"variables\":null,\"extensions\":{\"trace\":true}}]";
    assert_eq!(graphql(batch), Some(vec![Query, Subscription]));
    // The mutation stands behind an escape, and in a string nothing stands.
    let escaped = "{\"query\":\"\\u006dutation { a }\"}";
    assert_eq!(graphql(escaped), Some(vec![Mutation]));
    let quoted = r#"{"query":"{ a(b: \"} mutation { c }\") }"}"#;
    assert_eq!(graphql(quoted), Some(vec![Query]));
}

#[test]
fn a_graphql_body_that_could_be_read_otherwise_is_refused() {
    // ATTACK: 200
    for wrong in [
        r#"{"query":"{a}","query":"mutation{b}"}"#,
        r#"{"query":"{a}","Query":"mutation{b}"}"#,
        r#"{"query":"{a}","\u0071uery":"mutation{b}"}"#,
        r#"{"query":"{a}","id":"7"}"#,
        r#"{"query":"{a}","documentId":"7"}"#,
        r#"{"query":"{a}","extensions":{"persistedQuery":{"version":1,"sha256Hash":"00"}}}"#,
        r#"{"extensions":{"persistedQuery":{"version":1,"sha256Hash":"00"}}}"#,
        r#"{"query":"{a}","extensions":[]}"#,
        r#"{"query":"{a}","variables":"{}"}"#,
        r#"{"query":null}"#,
        r#"{"query":["{a}"]}"#,
        r#"{"operationName":"A"}"#,
        r#"[]"#,
        r#"[[{"query":"{a}"}]]"#,
        r#""{a}""#,
        "{a}",
        "",
        "null",
    ] {
        assert_eq!(graphql(wrong), None, "{wrong}");
    }
    let many = |count: usize| format!("[{}]", vec![r#"{"query":"{a}"}"#; count].join(","));
    assert!(graphql(&many(BATCH_MAX)).is_some());
    assert!(graphql(&many(BATCH_MAX + 1)).is_none());
}

#[test]
fn a_graphql_query_in_the_url_is_read_once_and_whole() {
    let read = |query: &str| match graphql_query(query) {
        Ok(Content::Graphql(said)) => Some(said),
        Ok(_) | Err(_) => None,
    };
    assert_eq!(read("query=%7Bme%7D"), Some(vec![Query]));
    assert_eq!(
        read("query=mutation+A%7Bme%7D&operationName=A"),
        Some(vec![Mutation])
    );
    assert_eq!(read("variables=%7B%7D&query={me}"), Some(vec![Query]));
    for wrong in [
        "",
        "query",
        "query=",
        "query={a}&query=mutation{b}",
        "query={a(s:\"x;query=mutation{m};\")}",
        "query={a}&%71uery=mutation{b}",
        "query={a}&Query=mutation{b}",
        "query={a}&id=1",
        "query={a}&extensions=%7B%7D",
        "a=b",
        "query={a}&",
        "query=%ff",
        "query={a};query=mutation{b}",
        "query=%2522",
    ] {
        assert_eq!(read(wrong), None, "{wrong}");
    }
}

#[test]
fn json_rpc_says_its_methods_and_nothing_twice() {
    let call = |method: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#);
    assert_eq!(
        calls(&call("tools/list")),
        Some(vec!["tools/list".to_owned()])
    );
    let batch = format!("[{},{},{}]", call("b"), call("a"), call("b"));
    assert_eq!(calls(&batch), Some(vec!["a".to_owned(), "b".to_owned()]));
    // ATTACK: 200
    for wrong in [
        r#"{"jsonrpc":"2.0","method":"tools/list","method":"tools/call"}"#,
        r#"{"jsonrpc":"2.0","method":"tools/list","Method":"tools/call"}"#,
        r#"{"jsonrpc":"2.0","method":"tools/list","\u006dethod":"tools/call"}"#,
        r#"{"jsonrpc":"2.0","method":"tools/list","params":{"a":{"b":1,"b":2}}}"#,
        r#"{"jsonrpc":"2.0","method":"tools/list","extra":1}"#,
        r#"{"jsonrpc":"1.0","method":"tools/list"}"#,
        r#"{"jsonrpc":2.0,"method":"tools/list"}"#,
        r#"{"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"jsonrpc":"2.0","method":7}"#,
        r#"{"jsonrpc":"2.0","method":""}"#,
        r#"{"jsonrpc":"2.0","method":"tools/*"}"#,
        r#"{"jsonrpc":"2.0","method":"tools/list "}"#,
        r#"{"jsonrpc":"2.0","method":"tools\u0000/list"}"#,
        "[]",
        "[1]",
        "7",
        "{}",
        "\u{feff}{}",
    ] {
        assert_eq!(calls(wrong), None, "{wrong}");
    }
}

#[test]
fn an_lfs_batch_is_a_download_or_an_upload() {
    let read = |body: &str| match lfs_batch(body.as_bytes()) {
        Ok(Content::Lfs(batch)) => Some((batch.is_upload, batch.reference)),
        Ok(_) | Err(_) => None,
    };
    let objects = r#""objects":[{"oid":"00","size":1}],"transfers":["basic"],"hash_algo":"sha256""#;
    let whole = format!(r#"{{"operation":"upload","ref":{{"name":"refs/heads/a"}},{objects}}}"#);
    assert_eq!(read(&whole), Some((true, Some("refs/heads/a".to_owned()))));
    let fetched = format!(r#"{{"operation":"download",{objects}}}"#);
    assert_eq!(read(&fetched), Some((false, None)));
    for wrong in [
        r#"{"operation":"download","operation":"upload"}"#,
        r#"{"operation":"download","Operation":"upload"}"#,
        r#"{"operation":"verify"}"#,
        r#"{"operation":"upload","ref":{"name":"main"}}"#,
        r#"{"operation":"upload","ref":{"name":"refs/heads/a","Name":"refs/heads/main"}}"#,
        r#"{"operation":"upload","ref":"refs/heads/a"}"#,
        r#"[{"operation":"download"}]"#,
        "{}",
    ] {
        assert_eq!(read(wrong), None, "{wrong}");
    }
}

proptest! {
    /// A batch says no less than its members do.
    #[test]
    fn a_batch_says_what_each_member_says(kinds in prop::collection::vec(0_usize..3, 1..6)) {
        let words = ["query", "mutation", "subscription"];
        let all = [Query, Mutation, Subscription];
        let members: Vec<_> = kinds
            .iter()
            .map(|kind| format!(r#"{{"query":"{} {{ a }}"}}"#, words[*kind]))
            .collect();
        let said = graphql(&format!("[{}]", members.join(","))).unwrap();
        for kind in kinds {
            prop_assert!(said.contains(&all[kind]));
        }
    }
}
