// SPDX-License-Identifier: Apache-2.0
//! Framing of both sides, end to end.

use super::stage::*;
use tokio::io::AsyncWriteExt;
use torno_policy::Reason;

#[tokio::test]
async fn pipelined_requests_are_each_judged_and_answered_in_order() {
    let notary = Notary::new(|facts| match facts.path.path() {
        "/no" => Err(no(Reason::PathNotGranted)),
        _ => Ok(Yes::default()),
    });
    let stage = stage(notary, fixed(OK)).await;
    let heard = stage
        .send([get("/a"), get("/no"), get("/b")].concat())
        .await;
    let lines: Vec<_> = heard.matches("HTTP/1.1 ").collect();
    assert_eq!(lines.len(), 3, "{heard}");
    assert!(heard.contains("path_not_granted"));
    assert_eq!(stage.origin.count(), 2);
    assert_eq!(
        *stage.origin.connections.lock().unwrap(),
        1,
        "the connection is used again"
    );
}

#[tokio::test]
async fn the_body_of_a_refused_request_is_never_a_request() {
    // ATTACK: 054
    let stage = stage(
        Notary::new(|_| Err(no(Reason::MethodNotGranted))),
        fixed(OK),
    )
    .await;
    let inner = get("/inner");
    let request = format!(
        "POST / HTTP/1.1\r\nHost: allow.test\r\nContent-Length: {}\r\n\r\n{inner}{inner}",
        inner.len()
    );
    let heard = stage.send(request).await;
    assert_eq!(heard.matches("HTTP/1.1 ").count(), 1, "{heard}");
    assert_eq!(stage.notary.asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn bodies_are_framed_anew_and_trailers_kept() {
    // ATTACK: 051
    let script = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n\0PAUSE2\r\nde\r\n0\r\nX-Sum: 1\r\n\r\n";
    let stage = stage(Notary::yes(), fixed(script)).await;
    let request = "POST /u HTTP/1.1\r\nHost: allow.test\r\nTransfer-Encoding: chunked\r\n\r\n\
                   5;ext=1\r\nhello\r\n1\r\n!\r\n0\r\nX-T: 2\r\nAuthorization: no\r\n\r\n";
    let heard = stage.send(request).await;
    assert!(
        heard.ends_with("3\r\nabc\r\n2\r\nde\r\n0\r\nX-Sum: 1\r\n\r\n"),
        "{heard}"
    );
    let sent = stage.origin.request(0);
    assert!(
        sent.ends_with("5\r\nhello\r\n1\r\n!\r\n0\r\nX-T: 2\r\n\r\n"),
        "{sent}"
    );
}

#[tokio::test]
async fn a_large_body_streams_both_ways_with_its_length() {
    let stage = stage(Notary::yes(), fixed(OK)).await;
    let body = "x".repeat(300_000);
    let request = "PUT /u HTTP/1.1\r\nHost: allow.test\r\nExpect: 100-continue\r\nContent-Length: 300000\r\n\r\n";
    let mut client = stage.secure().await;
    assert_eq!(
        talk(&mut client, request.as_bytes()).await,
        "HTTP/1.1 100 Continue\r\n\r\n"
    );
    let heard = talk(&mut client, body.as_bytes()).await;
    assert!(heard.ends_with("ok"), "{heard}");
    assert!(stage.origin.request(0).ends_with(&body));
    assert!(!stage.origin.request(0).to_lowercase().contains("expect"));
    assert_eq!(stage.notary.outcomes.lock().unwrap()[0].sent_bytes, 300_000);
}

#[tokio::test]
async fn hostile_answers_become_one_refusal_or_one_answer() {
    // ATTACK: 057, 060
    let refused = [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok",
        "HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        "HTTP/1.1 200 OK\r\n folded: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
        "HTTP/2 200\r\n\r\n",
        "ICY 200 OK\r\n\r\n",
        &"HTTP/1.1 100 Continue\r\n\r\n".repeat(40),
    ];
    for script in refused {
        let stage = stage(Notary::yes(), fixed(script)).await;
        let heard = stage.send(get("/")).await;
        assert!(heard.starts_with("HTTP/1.1 502 "), "{script}: {heard}");
        assert_eq!(heard.matches("HTTP/1.1 ").count(), 1, "{script}: {heard}");
    }
    let answered = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokEXTRA", "ok"),
        ("HTTP/1.1 204 No Content\r\n\r\nEXTRA", "\r\n\r\n"),
        (
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nEXTRA",
            "\r\n\r\n",
        ),
        (
            "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            "ok",
        ),
        (
            "HTTP/1.0 200 OK\r\n\r\nuntil close\0CLOSE",
            "b\r\nuntil close\r\n0\r\n\r\n",
        ),
    ];
    for (script, end) in answered {
        let stage = stage(Notary::yes(), fixed(script)).await;
        let mut client = stage.secure().await;
        let heard = talk(&mut client, get("/").as_bytes()).await;
        assert!(heard.ends_with(end), "{script}: {heard}");
        let again = talk(&mut client, get("/").as_bytes()).await;
        assert!(again.ends_with(end), "{script}: {again}");
        assert_eq!(heard.matches("HTTP/1.1 ").count(), 1);
    }
}

#[tokio::test]
async fn upgrades_overrides_and_claims_of_identity_are_dropped() {
    // ATTACK: 059, 060, 062, 080, 095, 124
    let stage = stage(Notary::yes(), fixed(OK)).await;
    let request = "GET / HTTP/1.1\r\nHost: allow.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
        HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nX-HTTP-Method-Override: DELETE\r\nX-Forwarded-For: 192.0.2.1\r\n\
        Forwarded: for=192.0.2.1\r\nX-Original-URL: /secret\r\nX_Real_IP: 1\r\nProxy-Authorization: Basic eDp5\r\nAccept: */*\r\n\r\n";
    let second = get("/second");
    stage.send(format!("{request}{second}")).await;
    let sent = stage.origin.request(0);
    assert_eq!(
        sent,
        "GET / HTTP/1.1\r\nhost: allow.test\r\nAccept: */*\r\n\r\n"
    );
    assert_eq!(stage.notary.asked.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_placeholder_in_a_trailer_ends_the_request() {
    // ATTACK: 086
    let stage = stage(Notary::yes(), fixed(OK)).await;
    let request = format!(
        "POST / HTTP/1.1\r\nHost: allow.test\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-T: {}\r\n\r\n",
        placeholder().as_str()
    );
    let heard = stage.send(request).await;
    assert!(heard.contains("credential_endpoint_mismatch"), "{heard}");
    assert_eq!(stage.origin.count(), 0, "the request was never whole");
}

#[tokio::test]
async fn a_body_carries_placeholders_inert_and_they_are_counted_across_any_split() {
    // ATTACK: 086, 091
    let ph = placeholder();
    let body = format!("{{\"a\":\"{}\",\"b\":\"{}\"}}", ph.as_str(), ph.as_str());
    for at in [10, 30, 50, 70] {
        let stage = stage(Notary::bearer(), fixed(OK)).await;
        let mut client = stage.secure().await;
        let (a, b) = body.split_at(at);
        let head = "POST / HTTP/1.1\r\nHost: allow.test\r\nTransfer-Encoding: chunked\r\n\r\n";
        client
            .write_all(format!("{head}{:x}\r\n{a}\r\n", a.len()).as_bytes())
            .await
            .unwrap();
        client.flush().await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        talk(
            &mut client,
            format!("{:x}\r\n{b}\r\n0\r\n\r\n", b.len()).as_bytes(),
        )
        .await;
        let sent = stage.origin.request(0);
        assert!(sent.contains(a) && sent.contains(b));
        assert_eq!(sent.matches(SECRET).count(), 1, "in the slot only");
        assert_eq!(
            stage.notary.outcomes.lock().unwrap()[0].carried,
            2,
            "split at {at}"
        );
    }
}

#[tokio::test]
async fn an_encoded_body_passes_byte_for_byte_and_nothing_in_it_is_replaced() {
    // ATTACK: 093
    let packed = gzip(placeholder().as_str().as_bytes());
    for coding in ["gzip", "br", "zstd", "gzip, gzip", "x-unknown", "identity"] {
        let stage = stage(Notary::bearer(), fixed(OK)).await;
        let head = format!(
            "POST / HTTP/1.1\r\nHost: allow.test\r\nContent-Encoding: {coding}\r\n\
             Content-Length: {}\r\n\r\n",
            packed.len()
        );
        let heard = stage.send([head.as_bytes(), &packed].concat()).await;
        assert!(heard.ends_with("ok"), "{coding}: {heard}");
        let sent = stage.origin.requests.lock().unwrap()[0].clone();
        assert!(sent.ends_with(&packed), "{coding}");
        let secrets = memchr::memmem::find_iter(&sent, SECRET.as_bytes()).count();
        assert_eq!(secrets, 1, "{coding}: in the slot only");
        let kept = format!("content-encoding: {coding}\r\n");
        let sent = String::from_utf8_lossy(&sent).to_ascii_lowercase();
        assert!(sent.contains(&kept), "{coding}: {sent}");
    }
}

#[tokio::test]
async fn bytes_that_nobody_asked_for_are_never_an_answer() {
    // ATTACK: 057
    let script = format!("{OK}\0PAUSEHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged");
    let stage = stage(Notary::yes(), fixed(script)).await;
    let mut client = stage.secure().await;
    let post = "POST / HTTP/1.1\r\nHost: allow.test\r\nContent-Length: 0\r\n\r\n";
    for _ in 0..2 {
        let heard = talk(&mut client, post.as_bytes()).await;
        assert!(heard.ends_with("ok"), "{heard}");
    }
    assert_eq!(*stage.origin.connections.lock().unwrap(), 2);
}

/// Whatever a program sends in one head, the question about it is one that the notary's socket
/// takes: a gate that can't ask ends, and its sandbox with it.
#[tokio::test]
async fn what_is_asked_about_one_request_fits_a_message() {
    use torno_notary_protocol::gate::{GateMessage, Question, Ticket};
    let stage = stage(Notary::yes(), fixed(OK)).await;
    let name = format!("x-{}", "n".repeat(250));
    let made = |number: u16| {
        let mut random = [0; 16];
        random[..2].copy_from_slice(&number.to_be_bytes());
        torno_policy::placeholder::Placeholder::new("", random)
    };
    let value: Vec<_> = (0..1_500).map(|n| made(n).as_str().to_owned()).collect();
    let value = value.join(",");
    let request = format!("GET / HTTP/1.1\r\nHost: allow.test\r\n{name}: {value}\r\n\r\n");
    stage.send(request).await;
    let asked = stage.notary.asked.lock().unwrap();
    for facts in asked.iter() {
        let question = Question {
            ticket: Ticket(1),
            facts: facts.clone(),
            pooled: false,
            serves: None,
            watch: 0,
        };
        let ask = GateMessage::Ask(vec![question]);
        let frame = torno_notary_protocol::transit::encode_compact(&ask, &[]);
        assert!(
            frame.is_ok(),
            "{} placeholders: {:?}",
            facts.presented.len(),
            frame.err()
        );
    }
}
