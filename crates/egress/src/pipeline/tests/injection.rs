// SPDX-License-Identifier: Apache-2.0
//! Injection and scrubbing, end to end.

#![expect(clippy::string_slice, reason = "texts of tests are ASCII")]

use super::stage::*;
use data_encoding::BASE64;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use torno_notary_protocol::gate::End;
use torno_policy::binding::Slot;

#[tokio::test]
async fn a_captured_request_carries_the_secret_and_its_echo_is_scrubbed() {
    // ATTACK: 105
    let echo = format!(
        "HTTP/1.1 200 {SECRET}\r\nX-Echo: Bearer {SECRET}\r\nContent-Length: {}\r\n\r\n{SECRET}",
        SECRET.len()
    );
    let stage = stage(Notary::bearer(), fixed(echo)).await;
    let heard = stage.send(get("/public/x")).await;
    let sent = stage.origin.request(0);
    assert!(
        sent.contains(&format!("authorization: Bearer {SECRET}\r\n")),
        "{sent}"
    );
    assert!(
        sent.starts_with("GET /public/x HTTP/1.1\r\nhost: allow.test\r\n"),
        "{sent}"
    );
    assert!(!heard.contains(SECRET), "{heard}");
    let shown = placeholder();
    let shown = shown.as_str();
    assert!(
        heard.starts_with(&format!("HTTP/1.1 200 {shown}\r\n")),
        "{heard}"
    );
    assert!(
        heard.contains(&format!("X-Echo: Bearer {shown}\r\n")),
        "{heard}"
    );
    assert!(heard.ends_with(&format!("\r\n\r\n{shown}")), "{heard}");
    let outcomes = stage.notary.outcomes.lock().unwrap();
    assert_eq!(outcomes.len(), 1);
    assert_eq!(outcomes[0].end, End::Completed { status: 200 });
    assert_eq!(outcomes[0].reflected, 3);
    assert_eq!(*stage.notary.unlocks.lock().unwrap(), 1);
}

#[tokio::test]
async fn a_large_answer_is_scrubbed_across_every_border_of_its_pieces() {
    // ATTACK: 105
    // The distance from the border of a record, of a read or of a piece is another each time.
    let echo = |at: usize| format!("{}{SECRET}", "x".repeat(at % 50));
    let body: String = (0..6_000).map(echo).collect();
    let length = body.len();
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
    let stage = stage(Notary::bearer(), fixed(answer)).await;
    let mut client = stage.secure().await;
    client.write_all(get("/").as_bytes()).await.unwrap();
    let mut heard = Vec::new();
    while !heard.ends_with(b"\r\n0\r\n\r\n") {
        let read = client.read_buf(&mut heard);
        let read = tokio::time::timeout(Duration::from_secs(30), read).await;
        assert_ne!(read.unwrap().unwrap(), 0);
    }
    let heard = String::from_utf8(heard).unwrap();
    for start in 0..=SECRET.len() - 12 {
        assert!(!heard.contains(&SECRET[start..start + 12]));
    }
    client.write_all(get("/").as_bytes()).await.unwrap();
    hear(&mut client).await;
    assert_eq!(stage.notary.outcomes.lock().unwrap()[0].reflected, 6_000);
}

#[tokio::test]
async fn exactly_one_authorization_goes_out_and_it_is_ours() {
    // ATTACK: 097
    let stage = stage(Notary::bearer(), fixed(OK)).await;
    let request = "GET / HTTP/1.1\r\nHost: allow.test\r\nauthorization: mine\r\nAUTHORIZATION: mine2\r\n\
                   Authorization_: mine3\r\nConnection: x-drop, authorization\r\nX-Drop: 1\r\n\r\n";
    stage.send(request).await;
    let sent = stage.origin.request(0).to_ascii_lowercase();
    assert_eq!(sent.matches("authorization").count(), 1, "{sent}");
    assert!(!sent.contains("mine") && !sent.contains("x-drop"), "{sent}");
}

#[tokio::test]
async fn basic_is_rendered_and_its_rendered_echo_is_scrubbed() {
    // ATTACK: 106
    let pair = BASE64.encode(format!("git:{SECRET}").as_bytes());
    let body = format!("x {pair} y");
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let slot = Slot::Basic {
        user: "git".to_owned(),
    };
    let notary = Notary::new(move |_| {
        Ok(Yes {
            slot: Some(slot.clone()),
            own_credentials: false,
            ..Yes::default()
        })
    });
    let stage = stage(notary, fixed(answer)).await;
    let heard = stage.send(get("/")).await;
    assert!(
        stage
            .origin
            .request(0)
            .contains(&format!("authorization: Basic {pair}\r\n"))
    );
    let middle = &pair[8..pair.len() - 4];
    assert!(!heard.contains(middle), "{heard}");
    assert!(
        heard.contains("x Z2l0O") && heard.ends_with(" y"),
        "{heard}"
    );
}

#[tokio::test]
async fn a_compressed_echo_is_unpacked_and_an_unreadable_one_refused() {
    // ATTACK: 106
    let body = gzip(format!("x {SECRET} y").as_bytes());
    let head = format!(
        "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let stage_one = stage(Notary::bearer(), fixed([head.as_bytes(), &body].concat())).await;
    let ask = "GET / HTTP/1.1\r\nHost: allow.test\r\nAccept-Encoding: gzip, br\r\nRange: bytes=0-5\r\nIf-Range: x\r\n\r\n";
    let heard = stage_one.send(ask).await;
    assert!(
        heard.contains(&format!("x {} ", placeholder().as_str())) && !heard.contains(SECRET),
        "{heard}"
    );
    assert!(
        !heard.contains("gzip") && !heard.contains("ETag"),
        "{heard}"
    );
    let sent = stage_one.origin.request(0).to_lowercase();
    assert!(
        sent.contains("accept-encoding: identity\r\n") && !sent.contains("range"),
        "{sent}"
    );
    for coding in ["br", "zstd", "gzip, gzip", "x"] {
        let script =
            format!("HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: 2\r\n\r\nok");
        let stage = stage(Notary::bearer(), fixed(script)).await;
        let heard = stage.send(get("/")).await;
        assert!(heard.starts_with("HTTP/1.1 502 "), "{coding}: {heard}");
    }
}

#[tokio::test]
async fn a_secret_that_was_stored_comes_back_scrubbed_from_any_host_and_any_cut() {
    // ATTACK: 105, 108
    let notary = Notary::new(|facts| {
        let slot = (facts.endpoint.host.name() == Some("allow.test")).then(bearer);
        Ok(Yes {
            slot,
            own_credentials: false,
            ..Yes::default()
        })
    });
    let (a, b) = SECRET.split_at(15);
    let script = format!(
        "HTTP/1.1 401 No\r\nTransfer-Encoding: chunked\r\n\r\nf\r\n{a}\r\n\0PAUSE{:x}\r\n{b}\r\n0\r\nX-Echo: {SECRET}\r\n\r\n",
        b.len()
    );
    let stage = stage(notary, fixed(script)).await;
    for (host, port) in [("allow.test", 443), ("plain.test", 80)] {
        let mut stream = stage.captured(asked(host, port)).await;
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let heard = if port == 443 {
            let mut client = stage.tls(stream, host).await;
            talk(&mut client, request.as_bytes()).await
        } else {
            talk(&mut stream, request.as_bytes()).await
        };
        assert!(!heard.contains(a) && !heard.contains(b), "{host}: {heard}");
        assert_eq!(
            heard.matches(placeholder().as_str()).count(),
            2,
            "{host}: {heard}"
        );
    }
}

#[tokio::test]
async fn redirects_are_not_followed_and_their_locations_are_scrubbed() {
    // ATTACK: 032, 099
    let script = format!(
        "HTTP/1.1 307 T\r\nLocation: https://evil.test/?t={SECRET}\r\nSet-Cookie: s={SECRET}\r\n\
         Alt-Svc: h3=\":443\"\r\nWWW-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n"
    );
    let stage = stage(Notary::bearer(), fixed(script)).await;
    let heard = stage.send(get("/")).await;
    let location = format!(
        "Location: https://evil.test/?t={}\r\n",
        placeholder().as_str()
    );
    assert!(
        heard.contains(&location) && !heard.contains(SECRET),
        "{heard}"
    );
    assert!(
        !heard.contains("Set-Cookie") && !heard.contains("Alt-Svc"),
        "{heard}"
    );
    assert!(
        heard.contains("WWW-Authenticate: Basic realm=x\r\n"),
        "{heard}"
    );
    assert_eq!(stage.dialer.dialled.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_secret_that_cannot_be_scrubbed_or_written_is_not_sent() {
    // ATTACK: 096
    for secret in [
        "short",
        "with\r\nheader: 1 and more",
        "with\0nul and some more",
    ] {
        let stage = stage(Notary::bearer(), fixed(OK)).await;
        *stage.notary.secret.lock().unwrap() = secret.to_owned();
        let heard = stage.send(get("/")).await;
        assert!(
            heard.contains("undecidable") && !heard.contains(secret),
            "{heard}"
        );
        assert_eq!(stage.origin.count(), 0);
    }
}

#[tokio::test]
async fn a_connection_serves_one_credential_only() {
    let notary = Notary::new(|facts| {
        let slot = (facts.path.path() == "/secret").then(bearer);
        Ok(Yes {
            slot,
            own_credentials: false,
            ..Yes::default()
        })
    });
    let stage = stage(notary, fixed(OK)).await;
    let mut client = stage.secure().await;
    for path in ["/secret", "/open", "/open"] {
        assert!(
            talk(&mut client, get(path).as_bytes())
                .await
                .ends_with("ok")
        );
    }
    assert_eq!(*stage.origin.connections.lock().unwrap(), 2);
    assert!(!stage.origin.request(1).contains("authorization"));
}

#[tokio::test]
async fn a_literal_placeholder_and_an_own_credential_stay_here() {
    // ATTACK: 083, 089
    let request = format!(
        "GET / HTTP/1.1\r\nHost: allow.test\r\nX-Api-Key: mine\r\nX-Other: {}\r\nAuthorization: Bearer {0}\r\n\r\n",
        placeholder().as_str()
    );
    let stage = stage(Notary::yes(), fixed(OK)).await;
    stage.send(request).await;
    let sent = stage.origin.request(0);
    assert_eq!(sent, "GET / HTTP/1.1\r\nhost: allow.test\r\n\r\n");
    let asked = stage.notary.asked.lock().unwrap();
    assert_eq!(asked[0].presented.len(), 2);
    assert_eq!(asked[0].own_credentials, ["x-api-key"]);
}

#[tokio::test]
async fn a_watched_credential_is_scrubbed_from_an_answer_that_did_not_carry_it() {
    // ATTACK: 105. Kept by the far end since an earlier session, shown before this one used it.
    const KEPT: &str = "glpat-keptSINCEanEARLIERsession42";
    let kept = format!(
        "HTTP/1.1 200 OK\r\nX-Kept: {KEPT}\r\nContent-Length: {}\r\n\r\n{KEPT}\0PAUSE",
        KEPT.len()
    );
    let stage = stage(Notary::yes(), fixed(kept)).await;
    let stands = ("glpat-PLACEHOLDER".to_owned(), KEPT.to_owned());
    *stage.notary.watched.lock().unwrap() = Some(stands);
    let heard = stage.send(get("/public/kept")).await;
    assert!(heard.contains("X-Kept: glpat-PLACEHOLDER\r\n"), "{heard}");
    assert!(!heard.contains(KEPT), "{heard}");
    assert!(!stage.origin.request(0).contains(KEPT));
    // It asks to have every answer readable, as for a credential that it sent.
    let sent = stage.origin.request(0);
    assert!(sent.contains("accept-encoding: identity\r\n"), "{sent}");
    // The next question says that this watch is taken up: nothing is unlocked again.
    let heard = stage.send(get("/public/kept")).await;
    assert!(!heard.contains(KEPT), "{heard}");
    assert_eq!(*stage.notary.watches.lock().unwrap(), [0, WATCH]);
    assert_eq!(*stage.notary.unlocks.lock().unwrap(), 1);
}

#[tokio::test]
async fn a_watched_and_an_injected_credential_come_together() {
    const KEPT: &str = "glpat-keptSINCEanEARLIERsession42";
    let both = format!("{SECRET} {KEPT}");
    let both = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{both}",
        both.len()
    );
    let stage = stage(Notary::bearer(), fixed(both)).await;
    let stands = ("glpat-PLACEHOLDER".to_owned(), KEPT.to_owned());
    *stage.notary.watched.lock().unwrap() = Some(stands);
    for _ in 0..2 {
        let heard = stage.send(get("/v1/me")).await;
        let shown = format!("{} glpat-PLACEHOLDER", placeholder().as_str());
        assert!(heard.ends_with(&shown), "{heard}");
        assert!(stage.origin.request(0).contains(SECRET));
    }
}
