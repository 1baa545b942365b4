// SPDX-License-Identifier: Apache-2.0
//! Answers: what is packed is unpacked and searched, and what is minted in them stays here.

use super::stage::*;
use crate::scrub::packed::{bombs, brotli, zstd};
use torno_notary_protocol::gate::Keeping;
use torno_policy::Reason;
use torno_policy::names::{BindingId, CredentialName};

fn answer(fields: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

#[tokio::test]
async fn an_echo_in_any_coding_is_unpacked_and_scrubbed() {
    // ATTACK: 106
    let text = format!("{}{SECRET} y", "x".repeat(100_000));
    for (coding, body) in [
        ("gzip", gzip(text.as_bytes())),
        ("br", brotli(text.as_bytes())),
        ("zstd", zstd(text.as_bytes())),
    ] {
        let fields = format!("Content-Encoding: {coding}\r\nETag: \"1\"\r\n");
        let stage = stage(Notary::bearer(), fixed(answer(&fields, &body))).await;
        let heard = stage.send(get("/")).await;
        assert!(heard.contains(placeholder().as_str()), "{coding}");
        assert!(!heard.contains(SECRET), "{coding}");
        let head = heard.split("\r\n\r\n").next().unwrap().to_lowercase();
        assert!(!head.contains(coding) && !head.contains("etag"), "{head}");
    }
}

#[tokio::test]
async fn a_bomb_in_any_coding_ends_its_answer() {
    // ATTACK: 172
    for (coding, body) in bombs() {
        let fields = format!("Content-Encoding: {coding}\r\n");
        let stage = stage(Notary::bearer(), fixed(answer(&fields, &body))).await;
        let heard = stage.send(get("/")).await;
        assert!(heard.len() < 16 << 20, "{coding}: {}", heard.len());
        assert!(!heard.ends_with("\r\n0\r\n\r\n"), "{coding} looks whole");
    }
}

const TOKEN: &str = "opaque~token/0123456789";

fn post(path: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: allow.test\r\nContent-Length: 0\r\n\r\n")
}

/// An origin that mints at `/token` and repeats what it got elsewhere.
fn minting(kind: &'static str, body: &'static str) -> Script {
    std::sync::Arc::new(move |request: &[u8]| {
        let kind = format!("Content-Type: {kind}\r\n");
        if request.starts_with(b"POST /token ") {
            answer(&kind, body.as_bytes())
        } else {
            answer("Content-Type: text/plain\r\n", request)
        }
    })
}

#[tokio::test]
async fn a_minted_token_stays_here_and_its_placeholder_is_good_at_its_own_endpoint() {
    let body = r#"{ "access_token" : "opaque~token\/0123456789", "expires_in": 1.50,
        "token_type":"Bearer","refresh_token":"refresh-0123456789"}"#;
    let stage = stage(Notary::bearer(), minting("application/json", body)).await;
    let heard = stage.send(post("/token")).await;
    let minted = stage.notary.minted.lock().unwrap().clone();
    let [access, refresh] = minted.as_slice() else {
        panic!("{minted:?}")
    };
    let shown = format!(
        "{{ \"access_token\" : \"{}\", \"expires_in\": 1.50,\n        \
         \"token_type\":\"Bearer\",\"refresh_token\":\"{}\"}}",
        access.as_str(),
        refresh.as_str()
    );
    assert!(heard.ends_with(&format!("\r\n\r\n{shown}")), "{heard}");
    let length = format!("content-length: {}\r\n", shown.len());
    assert!(heard.contains(&length), "{heard}");

    let use_it = |path: &str, host: &str| {
        let token = access.as_str();
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n")
    };
    let heard = stage.send(use_it("/api", "allow.test")).await;
    let sent = stage.origin.request(1);
    let field = format!("authorization: Bearer {TOKEN}\r\n");
    assert!(sent.contains(&field) && !sent.contains(SECRET), "{sent}");
    // Its echo is the placeholder again, and the vault was asked once.
    assert!(
        heard.contains(access.as_str()) && !heard.contains(TOKEN),
        "{heard}"
    );
    assert_eq!(*stage.notary.unlocks.lock().unwrap(), 1);

    let elsewhere = stage.captured(asked("other.test", 443)).await;
    let mut elsewhere = stage.tls(elsewhere, "other.test").await;
    let heard = talk(&mut elsewhere, use_it("/api", "other.test").as_bytes()).await;
    assert!(heard.contains("undecidable"), "{heard}");
    assert_eq!(stage.origin.count(), 2);
}

#[tokio::test]
async fn a_credential_shaped_value_of_a_form_is_minted_too() {
    let body = "access_token=gho_0123456789abcdefABCDEF&scope=repo";
    let kind = "application/x-www-form-urlencoded";
    let stage = stage(Notary::bearer(), minting(kind, body)).await;
    let heard = stage.send(post("/token")).await;
    let minted = stage.notary.minted.lock().unwrap().clone();
    let shown = format!("\r\n\r\naccess_token={}&scope=repo", minted[0].as_str());
    assert!(heard.ends_with(&shown), "{heard}");
}

#[tokio::test]
async fn what_can_not_be_named_does_not_come_in() {
    let body = r#"{"access_token":"opaque~token/0123456789"}"#;
    let stage = stage(Notary::bearer(), minting("application/json", body)).await;
    *stage.notary.mints_nothing.lock().unwrap() = true;
    let heard = stage.send(post("/token")).await;
    assert!(!heard.contains(TOKEN), "{heard}");
    assert!(heard.contains(Reason::LimitReached.code()), "{heard}");
}

#[tokio::test]
async fn a_minted_value_that_can_not_be_kept_does_not_come_in() {
    let long = format!("{{\"access_token\":\"{}\"}}", "t".repeat(8_193));
    let behind = format!(
        "{{\"access_token\":\"opaque~token/0123456789\",\"scope\":\"{}\"}}",
        "s".repeat(100_000)
    );
    let unended = format!("{{\"access_token\":\"{}\"}}", "t".repeat(100_000));
    let key = r#"{"pem":"-----BEGIN PRIVATE KEY-----\ntttttttttttttt\n"}"#;
    for body in [&long, &behind, &unended, key] {
        let whole = answer("Content-Type: application/json\r\n", body.as_bytes());
        let stage = stage(Notary::bearer(), fixed(whole)).await;
        let heard = stage.send(post("/token")).await;
        assert!(heard.starts_with("HTTP/1.1 502"), "{heard}");
        assert!(!heard.contains("opaque~") && !heard.contains("ttttttt"));
        assert!(stage.notary.minted.lock().unwrap().is_empty());
    }
}

#[tokio::test]
async fn an_answer_that_unpacks_to_more_than_is_looked_at_does_not_come_in() {
    let text = |length| {
        format!(
            "{{\"a\":\"{}\",\"access_token\":\"{TOKEN}\"}}",
            "s".repeat(length)
        )
    };
    // Packed, both are far below what is read of an answer.
    for (length, status) in [(200_000, "200"), (1_100_000, "502")] {
        let packed = gzip(text(length).as_bytes());
        let fields = "Content-Type: application/json\r\nContent-Encoding: gzip\r\n";
        let stage = stage(Notary::bearer(), fixed(answer(fields, &packed))).await;
        let heard = stage.send(post("/token")).await;
        assert!(heard.starts_with(&format!("HTTP/1.1 {status}")), "{length}");
        assert!(!heard.contains(TOKEN), "{length}");
        let minted = stage.notary.minted.lock().unwrap().len();
        assert_eq!(minted, usize::from(status == "200"), "{length}");
    }
}

#[tokio::test]
async fn an_answer_that_mints_nothing_is_the_same_whatever_its_length() {
    for length in [0, 1, 65_535, 65_536, 65_537, 200_000] {
        let text = "Z".repeat(length);
        for framing in ["length", "chunks"] {
            let body = format!("\"{text}\"");
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
            let whole = if framing == "length" {
                format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())
            } else {
                let size = body.len();
                format!("{head}Transfer-Encoding: chunked\r\n\r\n{size:x}\r\n{body}\r\n0\r\n\r\n")
            };
            let stage = stage(Notary::bearer(), fixed(whole)).await;
            let heard = stage.send(post("/token")).await;
            assert_eq!(heard.matches('Z').count(), length, "{length} in {framing}");
            assert_eq!(heard.matches('"').count(), 2, "{length} in {framing}");
            assert!(stage.notary.minted.lock().unwrap().is_empty());
        }
    }
}

#[tokio::test]
async fn a_request_without_effect_or_without_credential_mints_nothing() {
    let body = r#"{"access_token":"opaque~token/0123456789"}"#;
    let whole = answer("Content-Type: application/json\r\n", body.as_bytes());
    for (notary, request) in [(Notary::bearer(), get("/")), (Notary::yes(), post("/"))] {
        let stage = stage(notary, fixed(whole.clone())).await;
        let heard = stage.send(request).await;
        assert!(heard.ends_with(body), "{heard}");
    }
}

/// A token endpoint of a binding.
fn declared() -> std::sync::Arc<Notary> {
    Notary::new(|facts| {
        let is_token = facts.path.path() == "/token";
        Ok(Yes {
            slot: Some(bearer()),
            keeping: is_token.then(|| Keeping {
                binding: BindingId::parse("b1").unwrap(),
                credential: CredentialName::parse("c1").unwrap(),
                cookies: false,
                tokens: true,
            }),
            ..Yes::default()
        })
    })
}

fn form(path: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: allow.test\r\nContent-Type: {kind}\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
}

const FORM: &str = "application/x-www-form-urlencoded";

#[tokio::test]
async fn a_placeholder_refreshes_at_the_token_endpoint_that_made_it_alone() {
    let body = r#"{"access_token":"access-0123456789","refresh_token":"refresh/0123456789&x"}"#;
    let stage = stage(declared(), minting("application/json", body)).await;
    let first = "grant_type=client_credentials";
    let heard = stage.send(form("/token", FORM, first)).await;
    assert!(!heard.contains("0123456789"), "{heard}");
    let minted = stage.notary.minted.lock().unwrap().clone();
    let [access, refresh] = minted.as_slice() else {
        panic!("{minted:?}")
    };
    let (access, refresh) = (access.as_str(), refresh.as_str());

    let json = format!("{{\"refresh_token\" : \"{refresh}\", \"a\":1}}");
    let pair = format!("a=1&refresh_token={refresh}&b=2");
    for (kind, body, sent) in [
        (
            FORM,
            &pair,
            "\r\n\r\na=1&refresh_token=refresh%2F0123456789%26x&b=2",
        ),
        (
            "application/json",
            &json,
            "\r\n\r\n{\"refresh_token\" : \"refresh/0123456789&x\", \"a\":1}",
        ),
    ] {
        let heard = stage.send(form("/token", kind, body)).await;
        let last = stage.origin.request(stage.origin.count() - 1);
        assert!(last.ends_with(sent), "{last}");
        assert!(last.contains(&format!("authorization: Bearer {SECRET}\r\n")));
        // The same tokens again: the same placeholders.
        assert!(heard.contains(access) && heard.contains(refresh), "{heard}");
        assert!(!heard.contains("0123456789"), "{heard}");
    }

    // Elsewhere, in another field, or the access token in its place: what it is, inert.
    let wrong = format!("refresh_token={access}");
    let other = format!("other={refresh}");
    for (path, body) in [
        ("/elsewhere", &pair),
        ("/token", &other),
        ("/token", &wrong),
    ] {
        stage.send(form(path, FORM, body)).await;
        let last = stage.origin.request(stage.origin.count() - 1);
        assert!(last.ends_with(&format!("\r\n\r\n{body}")), "{last}");
    }
    let twice = format!("refresh_token={refresh}&refresh_token={refresh}");
    let heard = stage.send(form("/token", FORM, &twice)).await;
    assert!(heard.contains("malformed_request"), "{heard}");
}

#[tokio::test]
async fn an_answer_of_a_token_endpoint_that_can_not_be_read_is_refused() {
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(70_000));
    // It repeats what the client sent of ours: that makes it none of ours.
    let ours = placeholder();
    let holding = format!("{{\"access_token\":\"{}.0123456789\"}}", ours.as_str());
    for (kind, body, reason) in [
        (
            "text/plain",
            "opaque-token-0123456789",
            "neither JSON nor a form",
        ),
        (
            "application/json",
            r#"{"access_token":"short"}"#,
            "12 to 8192",
        ),
        (
            "application/json",
            r#"{"access_token":"a-0123456789","access_token":"b-0123456789"}"#,
            "each member once",
        ),
        ("application/json", &*long.leak(), "over 64 KiB"),
        ("application/json", &*holding.leak(), "12 to 8192"),
    ] {
        let stage = stage(declared(), minting(kind, body)).await;
        let heard = stage.send(form("/token", FORM, "a=1")).await;
        assert!(heard.starts_with("HTTP/1.1 502 "), "{heard}");
        assert!(heard.contains(reason), "{heard}");
        assert!(!heard.contains("0123456789"), "{heard}");
    }
}

#[tokio::test]
async fn a_form_of_a_token_endpoint_has_placeholders_for_its_tokens() {
    let body = "access_token=opaque%2D0123456789&scope=a%2Cb&token_type=bearer";
    let stage = stage(declared(), minting(FORM, body)).await;
    let heard = stage.send(form("/token", FORM, "a=1")).await;
    let minted = stage.notary.minted.lock().unwrap().clone();
    let shown = minted[0].as_str();
    let shown = format!("\r\n\r\naccess_token={shown}&scope=a%2Cb&token_type=bearer");
    assert!(heard.ends_with(&shown), "{heard}");
}

#[tokio::test]
async fn an_echo_in_a_character_set_of_two_bytes_does_not_come_in() {
    // ATTACK: 106 – many frameworks answer in the set that `Accept-Charset` asks for.
    let text = format!("{{\"you sent\":\"{SECRET}\"}}");
    let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let fields = "Content-Type: application/json; charset=utf-16le\r\n";
    let stage = stage(Notary::bearer(), fixed(answer(fields, &wide))).await;
    let heard = stage.send(get("/")).await;
    assert!(!heard.replace('\0', "").contains(SECRET), "{heard:?}");
}
