// SPDX-License-Identifier: Apache-2.0
//! Cookies that stay in the gate, on every way that a request takes.

use super::http2::{Client, to, told};
use super::stage::*;
use super::websocket;
use std::sync::Arc;
use torno_notary_protocol::gate::Keeping;
use torno_policy::names::{BindingId, CredentialName};

const SESSION: &str = "opaque-session-0123456789";

/// What a binding with this name keeps.
fn keeping(binding: &str) -> Option<Keeping> {
    Some(Keeping {
        binding: BindingId::parse(binding).unwrap(),
        credential: CredentialName::parse("c1").unwrap(),
        cookies: true,
        tokens: false,
    })
}

/// The credential goes in at `/login`, and bindings keep cookies but for what is under `/free`.
fn brokering() -> Arc<Notary> {
    Notary::new(|facts| {
        let path = facts.path.path();
        Ok(Yes {
            slot: path.starts_with("/login").then(bearer),
            own_credentials: true,
            keeping: match path {
                path if path.starts_with("/free") => None,
                path if path.starts_with("/other") => keeping("b2"),
                _ => keeping("b1"),
            },
            ..Yes::default()
        })
    })
}

/// Sets the session's cookie at any `/login`, and repeats everything in head and body.
fn shop() -> Script {
    Arc::new(|request: &[u8]| {
        let asked = String::from_utf8_lossy(request);
        let cookie = asked
            .lines()
            .find_map(|line| line.strip_prefix("cookie: "))
            .unwrap_or("none");
        let body = format!("{SESSION}\ncookies: {cookie}\n");
        let set = if asked.contains(" /login") || asked.contains(" /free/set") {
            format!("Set-Cookie: sid={SESSION}; Path=/; Secure; HttpOnly\r\n")
        } else {
            String::new()
        };
        let length = body.len();
        format!(
            "HTTP/1.1 200 OK\r\n{set}X-Echo: {cookie}\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    })
}

fn with_cookie(path: &str, cookie: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: allow.test\r\nCookie: {cookie}\r\n\r\n")
}

#[tokio::test]
async fn a_kept_cookie_goes_back_to_its_host_and_never_into_the_sandbox() {
    let stage = stage(brokering(), shop()).await;
    let heard = stage.send(get("/login")).await;
    let marker = "set-cookie: sid=kept-by-torno; Path=/; Secure; HttpOnly\r\n";
    assert!(heard.contains(marker), "{heard}");
    // The answer that sets it repeats it: that is found already.
    assert!(heard.ends_with("kept-by-torno\ncookies: none\n"), "{heard}");
    assert!(!heard.contains(SESSION), "{heard}");

    // The client's own of that name and any other are replaced.
    for own in ["sid=kept-by-torno", "sid=mine; other=1"] {
        let heard = stage.send(with_cookie("/account", own)).await;
        let sent = stage.origin.request(stage.origin.count() - 1);
        let field = format!("cookie: sid={SESSION}\r\n");
        assert_eq!(sent.matches("cookie: ").count(), 1, "{sent}");
        assert!(sent.contains(&field), "{sent}");
        assert!(!sent.contains("authorization"), "{sent}");
        assert!(heard.contains("cookies: sid=kept-by-torno\n"), "{heard}");
        assert!(!heard.contains(SESSION), "{heard}");
    }
    let outcomes = stage.notary.outcomes.lock().unwrap();
    assert_eq!(outcomes[0].cookies, ["sid"]);
    assert!(outcomes[1].cookies.is_empty() && outcomes[1].reflected > 0);
}

#[tokio::test]
async fn a_kept_cookie_is_put_into_no_other_request() {
    let stage = stage(brokering(), shop()).await;
    stage.send(get("/login")).await;
    for path in ["/free", "/other"] {
        let heard = stage.send(get(path)).await;
        assert!(heard.ends_with("cookies: none\n"), "{path}: {heard}");
    }
    // A marker means nothing, and goes nowhere.
    stage.send(with_cookie("/free", "sid=kept-by-torno")).await;
    let sent = stage.origin.request(stage.origin.count() - 1);
    assert!(!sent.contains("kept-by-torno"), "{sent}");
    // Where nothing is kept, a cookie of a host that got a credential is dropped.
    let heard = stage.send(get("/free/set")).await;
    assert!(!heard.to_lowercase().contains("set-cookie"), "{heard}");
    // Another host, with the same binding.
    let elsewhere = stage.captured(asked("other.test", 443)).await;
    let mut elsewhere = stage.tls(elsewhere, "other.test").await;
    let request = "GET /account HTTP/1.1\r\nHost: other.test\r\n\r\n";
    let heard = talk(&mut elsewhere, request.as_bytes()).await;
    assert!(heard.ends_with("cookies: none\n"), "{heard}");
}

#[tokio::test]
async fn a_revocation_empties_the_jar() {
    let c1 = CredentialName::parse("c1").unwrap();
    for revoked in [Some(&c1), None] {
        let stage = stage(brokering(), shop()).await;
        stage.send(get("/login")).await;
        let other = CredentialName::parse("c2").unwrap();
        stage.pipeline.revoke(Some(&other));
        let heard = stage.send(get("/account")).await;
        assert!(heard.ends_with("cookies: sid=kept-by-torno\n"), "{heard}");
        stage.pipeline.revoke(revoked);
        let heard = stage.send(get("/account")).await;
        assert!(heard.ends_with("cookies: none\n"), "{heard}");
        assert!(!heard.contains(SESSION), "{heard}");
    }
}

#[tokio::test]
async fn a_stream_of_http2_has_the_same_jar() {
    let stage = stage(brokering(), shop()).await;
    let client = Client::to(&stage).await;
    let login = client.get("/login").await;
    let marker = "sid=kept-by-torno; Path=/; Secure; HttpOnly";
    assert_eq!(login.field("set-cookie"), marker);
    let request = to("/account")
        .header("cookie", "a=1")
        .header("cookie", "b=2");
    let (answer, _) = client.open(request.body(()).unwrap(), true).await;
    let told = told(answer.await.unwrap()).await;
    assert!(
        told.body.ends_with("cookies: sid=kept-by-torno\n"),
        "{told:?}"
    );
    assert!(!told.body.contains(SESSION), "{told:?}");
    let sent = stage.origin.request(1);
    assert!(
        sent.contains(&format!("cookie: sid={SESSION}\r\n")),
        "{sent}"
    );
}

#[tokio::test]
async fn a_handshake_of_a_websocket_takes_and_sets_cookies() {
    let set = format!("Set-Cookie: sid={SESSION}\r\nX-Echo: {SESSION}\r\n");
    let stage = stage(brokering(), shop()).await;
    let socket = websocket::open(stage, "Cookie: a=1\r\n", &set).await;
    assert!(!socket.asked.contains("cookie"), "{}", socket.asked);
    assert!(socket.told.contains("set-cookie: sid=kept-by-torno\r\n"));
    assert!(!socket.told.contains(SESSION), "{}", socket.told);
    let again = websocket::open(socket.stage, "Cookie: a=1\r\n", "").await;
    let field = format!("cookie: sid={SESSION}\r\n");
    assert!(again.asked.contains(&field), "{}", again.asked);
    assert_eq!(again.asked.matches("cookie").count(), 1);
}
