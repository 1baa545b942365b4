// SPDX-License-Identifier: Apache-2.0
//! What a request says is read when the notary wants it, and leaves as it came.

use super::super::making::MAKING_MAX;
use super::stage::*;
use crate::normalize::CONTENT_BYTES_MAX;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use torno_policy::Reason;
use torno_policy::facts::{Content, ContentKind, GraphqlOperation, Unread};

/// Wants GraphQL below `/graphql` and JSON-RPC below `/rpc`; refuses mutations and `drop`.
fn judge() -> Arc<Notary> {
    Notary::new(|facts| {
        let reads = match facts.path.path() {
            "/graphql" => Some(ContentKind::Graphql),
            "/rpc" => Some(ContentKind::Jsonrpc),
            _ => None,
        };
        let is_bad = match &facts.content {
            Some(Content::Graphql(said)) => said.contains(&GraphqlOperation::Mutation),
            Some(Content::Jsonrpc(said)) => said.iter().any(|method| method.as_str() == "drop"),
            Some(Content::Lfs(_) | Content::Aws(_)) | None => false,
        };
        if is_bad {
            return Err(no(Reason::OperationNotGranted));
        }
        Ok(Yes {
            reads: reads.map(Unread::Content),
            ..Yes::default()
        })
    })
}

fn post(path: &str, fields: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: allow.test\r\nContent-Type: application/json\r\n{fields}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn the_body_that_was_judged_is_the_body_that_leaves() {
    let stage = stage(judge(), fixed(OK)).await;
    let body = "{ \"query\" :\"{ me }\" ,\n \"variables\":{\"z\":1,\"a\":1e2} }";
    assert!(stage.send(post("/graphql", "", body)).await.ends_with("ok"));
    assert!(
        stage
            .origin
            .request(0)
            .ends_with(&format!("\r\n\r\n{body}"))
    );
    let asked = stage.notary.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert_eq!(asked[0].content, None);
    let said = Content::Graphql(vec![GraphqlOperation::Query]);
    assert_eq!(asked[1].content, Some(said));
    // The next request on the same connections is itself again.
    let both = [post("/graphql", "", body), post("/rpc", "", CALL)].concat();
    assert_eq!(stage.send(both).await.matches("HTTP/1.1 200").count(), 2);
    assert_eq!(stage.origin.count(), 3);
    assert!(stage.origin.request(2).ends_with(CALL));
}

const CALL: &str = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}";

#[tokio::test]
async fn a_chunked_body_is_judged_whole_and_keeps_its_end() {
    let stage = stage(judge(), fixed(OK)).await;
    let request = "POST /graphql HTTP/1.1\r\nHost: allow.test\r\nContent-Type: application/json; \
                   charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{\"query\":\r\n8;x=y\r\n\
                   \"{ me }\"\r\n1\r\n}\r\n0\r\nX-T: 2\r\n\r\n";
    assert!(stage.send(request).await.ends_with("ok"));
    let sent = stage.origin.request(0);
    let whole = "12\r\n{\"query\":\"{ me }\"}\r\n0\r\nX-T: 2\r\n\r\n";
    assert!(sent.ends_with(whole), "{sent}");
    let plain = request.replace("X-T: 2\r\n", "");
    assert!(stage.send(plain).await.ends_with("ok"));
    assert!(stage.origin.request(1).ends_with("}\r\n0\r\n\r\n"));
}

#[tokio::test]
async fn a_client_that_waits_is_told_to_go_on_before_the_answer() {
    let stage = stage(judge(), fixed(OK)).await;
    let head = post("/rpc", "Expect: 100-continue\r\n", CALL);
    let head = head.strip_suffix(CALL).unwrap();
    let mut client = stage.secure().await;
    let told = talk(&mut client, head.as_bytes()).await;
    assert_eq!(told, "HTTP/1.1 100 Continue\r\n\r\n");
    let heard = talk(&mut client, CALL.as_bytes()).await;
    assert!(heard.ends_with("ok"), "{heard}");
    assert!(stage.origin.request(0).ends_with(CALL));
}

#[tokio::test]
async fn what_is_not_granted_or_could_be_read_otherwise_is_not_sent() {
    // ATTACK: 200, 202
    let mutation = "{\"query\":\"mutation{drop}\"}";
    let batch = format!("[{CALL},{}]", CALL.replace("tools/list", "drop"));
    let query = "{\"query\":\"{me}\"}";
    let large = format!(
        "{{\"query\":\"{{me}}\",\"variables\":\"{}\"}}",
        "x".repeat(1 << 20)
    );
    let chunked = format!(
        "POST /graphql HTTP/1.1\r\nHost: allow.test\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{large}\r\n0\r\n\r\n",
        large.len()
    );
    let typed = |kind: &str| post("/graphql", "", query).replace("application/json", kind);
    let gets = |query: &str| format!("GET /graphql?{query} HTTP/1.1\r\nHost: allow.test\r\n\r\n");
    for (request, code) in [
        (post("/graphql", "", mutation), "operation_not_granted"),
        (post("/rpc", "", &batch), "operation_not_granted"),
        (
            post("/graphql", "", "{\"query\":\"{me}\""),
            "malformed_request",
        ),
        (
            post("/graphql?query=mutation{drop}", "", query),
            "malformed_request",
        ),
        (post("/rpc?method=drop", "", CALL), "malformed_request"),
        (post("/rpc?%6dethod=drop", "", CALL), "malformed_request"),
        (
            post("/graphql", "Content-Encoding: gzip\r\n", query),
            "malformed_request",
        ),
        (
            post("/graphql", "Content-Type: text/plain\r\n", query),
            "malformed_request",
        ),
        (typed("application/graphql"), "malformed_request"),
        (typed("text/plain"), "malformed_request"),
        (
            typed("application/json; charset=utf-16"),
            "malformed_request",
        ),
        (
            typed("multipart/form-data; boundary=x"),
            "malformed_request",
        ),
        (post("/graphql", "", ""), "malformed_request"),
        (post("/graphql", "", &large), "too_large"),
        (chunked, "too_large"),
        (gets("query=mutation%7Bdrop%7D"), "operation_not_granted"),
        (gets("hash=00"), "malformed_request"),
        (
            post("/graphql", "", query).replace("POST", "GET"),
            "malformed_request",
        ),
    ] {
        let stage = stage(judge(), fixed(OK)).await;
        let heard = stage.send(request.as_bytes()).await;
        let shown: String = request.chars().take(300).collect();
        assert!(
            heard.contains(&format!("\"code\":\"{code}\"")),
            "{shown}: {heard}"
        );
        assert_eq!(stage.origin.count(), 0, "{shown}");
    }
    assert_eq!(CONTENT_BYTES_MAX, 1 << 20);
}

#[tokio::test]
async fn what_no_rule_reads_streams_as_before() {
    let stage = stage(judge(), fixed(OK)).await;
    let body = "{".repeat(CONTENT_BYTES_MAX + 1);
    let heard = stage.send(post("/v1", "", &body)).await;
    assert!(heard.ends_with("ok"), "{heard}");
    assert_eq!(stage.notary.asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn while_bodies_are_waited_for_others_may_connect() {
    let stage = stage(judge(), fixed(OK)).await;
    let mut waiting = Vec::new();
    for _ in 0..MAKING_MAX {
        let mut client = stage.secure().await;
        let head = post("/graphql", "", &" ".repeat(20));
        let (head, _) = head.split_at(head.len() - 20);
        client.write_all(head.as_bytes()).await.unwrap();
        waiting.push(client);
    }
    while stage.notary.asked.lock().unwrap().len() < MAKING_MAX {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(stage.send(get("/")).await.ends_with("ok"));
    assert_eq!(stage.origin.count(), 1);
}

#[tokio::test]
async fn a_notary_that_asks_again_and_again_is_not_obeyed() {
    let notary = judge();
    *notary.reads_always.lock().unwrap() = true;
    let stage = stage(notary, fixed(OK)).await;
    let heard = stage.send(post("/rpc", "", CALL)).await;
    assert!(heard.contains("undecidable"), "{heard}");
    assert_eq!(stage.origin.count(), 0);
}
