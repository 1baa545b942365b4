// SPDX-License-Identifier: Apache-2.0
//! Limits, revocation, push, and what happens when something breaks.

use super::stage::*;
use crate::Limits;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use torno_notary_protocol::gate::End;
use torno_policy::Reason;
use torno_policy::facts::{GitOperation, RefChange};
use torno_policy::names::CredentialName;

#[tokio::test]
async fn a_revoked_credential_cuts_its_stream_with_a_reset() {
    // ATTACK: 101, 155
    let script = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n";
    let stage = stage(Notary::bearer(), fixed(script)).await;
    let mut client = stage.secure().await;
    let heard = talk(&mut client, get("/events").as_bytes()).await;
    assert!(
        heard.ends_with("9\r\ndata: 1\n\n\r\n"),
        "an event is not held: {heard}"
    );
    stage
        .pipeline
        .revoke(Some(&CredentialName::parse("c2").unwrap()));
    assert_eq!(stage.notary.outcomes.lock().unwrap().len(), 0);
    stage
        .pipeline
        .revoke(Some(&CredentialName::parse("c1").unwrap()));
    let end = tokio::time::timeout(Duration::from_secs(1), client.read_u8())
        .await
        .unwrap();
    assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    let outcomes = stage.notary.outcomes.lock().unwrap();
    assert_eq!(outcomes[0].end, End::Aborted { status: Some(200) });
}

#[tokio::test]
async fn a_panic_ends_its_own_request_with_a_refusal() {
    let notary = Notary::new(|facts| match facts.path.path() {
        "/panic" => panic!("on purpose"),
        _ => Ok(Yes::default()),
    });
    let stage = stage(notary, fixed(OK)).await;
    let heard = stage.send([get("/panic")].concat()).await;
    assert!(heard.contains("undecidable"), "{heard}");
    assert_eq!(stage.reasons(), [Reason::Undecidable]);
}

#[tokio::test]
async fn a_push_is_asked_about_with_its_references() {
    // ATTACK: 078
    let notary = Notary::new(|facts| match &facts.git.as_ref().unwrap().operation {
        GitOperation::Push(refs)
            if refs.iter().all(|r| r.name.starts_with("refs/heads/agent/")) =>
        {
            Ok(Yes::default())
        }
        _ => Err(no(Reason::RefNotGranted)),
    });
    let stage = stage(notary, fixed(OK)).await;
    let push = |name: &str| {
        let old = "0".repeat(40);
        let new = "a".repeat(40);
        let line = format!("{old} {new} {name}\0 report-status\n");
        let body = format!("{:04x}{line}0000PACK....", line.len() + 4);
        format!(
            "POST /acme/app.git/git-receive-pack HTTP/1.1\r\nHost: allow.test\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    assert!(stage.send(push("refs/heads/agent/x")).await.ends_with("ok"));
    assert!(stage.origin.request(0).ends_with("0000PACK...."));
    let heard = stage.send(push("refs/heads/main")).await;
    assert!(heard.contains("ref_not_granted"), "{heard}");
    assert_eq!(stage.origin.count(), 1);
    let asked = stage.notary.asked.lock().unwrap();
    let git = asked[0].git.as_ref().unwrap();
    assert_eq!(git.repository, "/acme/app");
    let GitOperation::Push(refs) = &git.operation else {
        panic!("{git:?}")
    };
    assert_eq!(refs[0].change, RefChange::Create);
}

/// A push of one reference, as a body.
fn push_of(name: &str) -> Vec<u8> {
    let (old, new) = ("0".repeat(40), "a".repeat(40));
    let line = format!("{old} {new} {name}\0 report-status\n");
    format!("{:04x}{line}0000PACK....", line.len() + 4).into_bytes()
}

/// Git shows the body of an answer to its first request, when it is text.
#[tokio::test]
async fn a_refused_discovery_is_told_in_the_form_that_git_shows() {
    let stage = stage(Notary::new(|_| Err(no(Reason::GitNotGranted))), fixed(OK)).await;
    for (target, kind) in [
        ("/a/b.git/info/refs?service=git-upload-pack", "text/plain"),
        ("/a/b.git/info/refs?service=git-receive-pack", "text/plain"),
        ("/a/b.git/info/refs", "application/json"),
        ("/", "application/json"),
    ] {
        let heard = stage
            .send(format!("GET {target} HTTP/1.1\r\nHost: allow.test\r\n\r\n"))
            .await;
        assert!(heard.starts_with("HTTP/1.1 403 "), "{heard}");
        assert!(
            heard.contains(&format!("\r\ncontent-type: {kind}\r\n")),
            "{heard}"
        );
        assert!(heard.contains("\"code\":\"git_not_granted\""), "{heard}");
    }
}

#[tokio::test]
async fn an_encoded_push_is_judged_by_what_is_in_it_or_refused_unsent() {
    // ATTACK: 093
    let notary = Notary::new(|facts| match &facts.git.as_ref().unwrap().operation {
        GitOperation::Push(refs) if refs[0].name == "refs/heads/agent/x" => Ok(Yes::default()),
        _ => Err(no(Reason::RefNotGranted)),
    });
    let stage = stage(notary, fixed(OK)).await;
    let (good, bad) = (push_of("refs/heads/agent/x"), push_of("refs/heads/main"));
    let head = |fields: &str, body: &[u8]| {
        let line = "POST /acme/app.git/git-receive-pack HTTP/1.1\r\nHost: allow.test";
        let head = format!("{line}\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
        [head.as_bytes(), body].concat()
    };
    let coded = |coding: &str| format!("Content-Encoding: {coding}\r\n");
    let packed = gzip(&good);
    let heard = stage.send(head(&coded("gzip"), &packed)).await;
    assert!(heard.ends_with("ok"), "{heard}");
    assert!(stage.origin.requests.lock().unwrap()[0].ends_with(&packed));
    let heard = stage.send(head(&coded("gzip"), &gzip(&bad))).await;
    assert!(heard.contains("ref_not_granted"), "{heard}");
    let asked = stage.notary.asked.lock().unwrap().len();
    let bomb = gzip(&vec![b'f'; 8 << 20]);
    let twice = gzip(&packed);
    for (fields, body) in [
        (coded("br"), &good),
        (coded("deflate"), &good),
        (coded("zstd"), &good),
        (coded("x-unknown"), &good),
        (coded("gzip, gzip"), &twice),
        (coded("gzip, identity"), &packed),
        (format!("{0}{0}", coded("gzip")), &twice),
        (coded("gzip"), &twice),
        // It says what it is not, either way.
        (coded("gzip"), &good),
        (coded("identity"), &packed),
        (String::new(), &packed),
        (coded("gzip"), &bomb),
    ] {
        let heard = stage.send(head(&fields, body)).await;
        assert!(heard.starts_with("HTTP/1.1 4"), "{fields}: {heard}");
    }
    assert_eq!(stage.notary.asked.lock().unwrap().len(), asked);
    assert_eq!(stage.origin.count(), 1);
}

#[tokio::test]
async fn the_session_holds_no_more_connections_and_sends_no_more_than_it_may() {
    // ATTACK: 163
    let limits = Limits {
        connections_max: 2,
        egress_bytes_max: 400,
        head_wait: Duration::from_millis(200),
        ..Limits::default()
    };
    let stage = stage_with(Notary::yes(), fixed(OK), limits).await;
    let (mut one, _two) = (stage.secure().await, stage.secure().await);
    let mut three = stage.captured(asked("allow.test", 443)).await;
    assert_eq!(hear(&mut three).await, "");
    assert_eq!(stage.reasons(), [Reason::LimitReached]);
    let big = format!(
        "POST / HTTP/1.1\r\nHost: allow.test\r\nContent-Length: 500\r\n\r\n{}",
        "x".repeat(500)
    );
    let heard = talk(&mut one, big.as_bytes()).await;
    assert!(heard.starts_with("HTTP/1.1 429 "), "{heard}");
    assert_eq!(stage.origin.count(), 0);
}

#[tokio::test]
async fn a_slow_head_is_not_waited_for() {
    let limits = Limits {
        head_wait: Duration::from_millis(150),
        ..Limits::default()
    };
    let stage = stage_with(Notary::never(), fixed(OK), limits).await;
    let mut client = stage.captured(asked("plain.test", 80)).await;
    let heard = talk(&mut client, b"GET / HTTP/1.1\r\nHos").await;
    assert!(heard.starts_with("HTTP/1.1 400 "), "{heard}");
}

#[tokio::test]
async fn an_unverified_far_end_gets_no_byte() {
    // ATTACK: 046
    let stage = stage(Notary::bearer(), fixed(OK)).await;
    let other = identity(&["wrong.test"]);
    let wrong = origin(Some(&other), fixed(OK)).await;
    stage
        .dialer
        .hosts
        .lock()
        .unwrap()
        .insert("allow.test".to_owned(), wrong.address);
    let heard = stage.send(get("/")).await;
    assert!(
        heard.starts_with("HTTP/1.1 502 ") && heard.contains("upstream_tls"),
        "{heard}"
    );
    assert_eq!(wrong.count(), 0);
    assert_eq!(
        *stage.notary.unlocks.lock().unwrap(),
        0,
        "nothing was unlocked"
    );
}

#[tokio::test]
async fn a_refusal_is_safe_to_show() {
    // ATTACK: 112
    let stage = stage(Notary::new(|_| Err(no(Reason::HostNotGranted))), fixed(OK)).await;
    let heard = stage.send(get("/%3Cscript%3E")).await;
    assert!(heard.contains("x-content-type-options: nosniff\r\n"));
    assert!(heard.contains("content-type: application/json\r\n"));
    assert!(
        heard.contains("\\u003canother\\u003e") && !heard.contains('<'),
        "{heard}"
    );
}

#[tokio::test]
async fn a_connection_that_the_far_end_closed_is_replaced() {
    let closing = format!("{OK}\0CLOSE");
    let stage = stage(Notary::bearer(), fixed(closing)).await;
    let mut client = stage.secure().await;
    for _ in 0..3 {
        assert!(talk(&mut client, get("/").as_bytes()).await.ends_with("ok"));
    }
    assert_eq!(*stage.origin.connections.lock().unwrap(), 3);
}

#[tokio::test]
async fn an_early_answer_is_read_though_the_body_was_not() {
    // ATTACK: 054
    let early = std::sync::Arc::new(|_: &[u8]| b"HTTP/1.1 200 OK\r\n\r\n".to_vec());
    let stage = stage(Notary::yes(), early).await;
    // An origin of its own, which answers at the head and never reads the body.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    stage
        .dialer
        .hosts
        .lock()
        .unwrap()
        .insert("plain.test".to_owned(), address);
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(stream.read(&mut [0; 1024]).await.unwrap() > 0);
        let answer = b"HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno";
        tokio::io::AsyncWriteExt::write_all(&mut stream, answer)
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
    });
    let mut client = stage.captured(asked("plain.test", 80)).await;
    let request = format!(
        "POST / HTTP/1.1\r\nHost: plain.test\r\nContent-Length: 900000\r\n\r\n{}{}",
        "x".repeat(40_000),
        get("/inner")
    );
    let heard = talk(&mut client, request.as_bytes()).await;
    assert!(
        heard.starts_with("HTTP/1.1 413 ") && heard.ends_with("no"),
        "{heard}"
    );
    assert_eq!(heard.matches("HTTP/1.1 ").count(), 1);
}

#[tokio::test]
async fn a_sealed_vault_lets_nothing_out() {
    // ATTACK: 089
    let stage = stage(Notary::new(|_| Err(no(Reason::VaultSealed))), fixed(OK)).await;
    let request = format!(
        "GET / HTTP/1.1\r\nHost: allow.test\r\nAuthorization: Bearer {}\r\n\r\n",
        placeholder().as_str()
    );
    let heard = stage.send(request).await;
    assert!(
        heard.starts_with("HTTP/1.1 503 ") && heard.contains("vault_sealed"),
        "{heard}"
    );
    assert!(stage.dialer.dialled.lock().unwrap().is_empty());
    assert_eq!(stage.reasons(), [], "the notary has the record");
}

#[tokio::test]
async fn of_a_burst_nobody_is_asked_about_before_its_connection_can_be_made() {
    let limits = Limits {
        connect_wait: Duration::from_secs(8),
        ..Limits::default()
    };
    let stage = stage_with(Notary::yes(), fixed(OK), limits).await;
    // A connection that waits in the pool needs no place.
    assert!(stage.send(get("/first")).await.contains("200"));
    // It takes connections and says nothing on them.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let hosts = || stage.dialer.hosts.lock().unwrap();
    hosts().insert("other.test".to_owned(), address);
    let burst = 64 + 10;
    let mut clients = Vec::new();
    for _ in 0..burst {
        let stream = stage.captured(asked("other.test", 443)).await;
        let mut client = stage.tls(stream, "other.test").await;
        client
            .write_all(get("/x").replace("allow", "other").as_bytes())
            .await
            .unwrap();
        clients.push(client);
    }
    let asked_for = |host: &str| {
        let asked = stage.notary.asked.lock().unwrap();
        asked
            .iter()
            .filter(|f| f.endpoint.host.name() == Some(host))
            .count()
    };
    while asked_for("other.test") < 64 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(stage.send(get("/second")).await.contains("200"));
    assert_eq!((asked_for("other.test"), asked_for("allow.test")), (64, 2));
    let mut refused = Vec::new();
    for client in &mut clients {
        let mut heard = String::new();
        for _ in 0..5 {
            if heard.is_empty() {
                heard = hear(client).await;
            }
        }
        refused.push(heard);
    }
    // Each had its turn, and its answer.
    assert_eq!(asked_for("other.test"), burst);
    assert!(
        refused.iter().all(|text| text.starts_with("HTTP/1.1 ")),
        "{refused:?}"
    );
}
