// SPDX-License-Identifier: Apache-2.0
//! Requests that the gate signs by a binding's recipe, and claims that it signs: judged in earnest,
//! end to end.

use super::judge::judging;
use super::stage::*;
use std::sync::Arc;
use torno_policy::binding::{Algorithm, Hash, Hmac, Jwt, KeyForm, Mode, Recipe, SignedField, Slot};

fn hmac(text: &str, fields: &[(&str, &str)]) -> Slot {
    let field = |(name, value): &(&str, &str)| SignedField {
        name: (*name).to_owned(),
        value: Recipe::parse(value).unwrap(),
    };
    Slot::Hmac(Box::new(Hmac {
        hash: Hash::Sha256,
        key: KeyForm::Text,
        text: Recipe::parse(text).unwrap(),
        fields: fields.iter().map(field).collect(),
    }))
}

fn stripe() -> Slot {
    hmac(
        "{timestamp}.{method}.{body}",
        &[("x-sent-at", "{timestamp}"), ("x-signature", "v1={hex}")],
    )
}

fn jwt(algorithm: Algorithm) -> Slot {
    Slot::Jwt(Box::new(Jwt {
        algorithm,
        issuer: "app-1".to_owned(),
        subject: None,
        audience: None,
        key_id: None,
        lifetime_seconds: 600,
    }))
}

fn post(fields: &str, body: &str) -> String {
    format!("POST /hook HTTP/1.1\r\nHost: allow.test\r\n{fields}\r\n{body}")
}

#[tokio::test]
async fn what_goes_out_is_signed_and_the_clients_own_signature_does_not() {
    let stage = stage(judging(stripe(), Mode::Inject, "/**"), fixed(OK)).await;
    // HMAC-SHA-256 of `1795910400.POST.hello`, by Python's hmac.
    let signed = "x-sent-at: 1795910400\r\nx-signature: v1=42692494f8366a80b917c652d4d7b56e8a84bbddd4ea7b6ec774e4fe573b1f02\r\n";
    let own = "X-Signature: v1=mine\r\nX-Sent-At: 1\r\n";
    let whole = format!("{own}Content-Length: 5\r\n");
    let chunks = "Transfer-Encoding: chunked\r\n";
    for (request, body) in [
        (post(&whole, "hello"), "\r\n\r\nhello"),
        (
            post(chunks, "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"),
            "\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        ),
    ] {
        let before = stage.origin.count();
        let heard = stage.send(&request).await;
        assert!(heard.ends_with("ok"), "{heard}");
        let sent = stage.origin.request(before);
        assert!(sent.contains(signed), "{sent}");
        assert!(sent.ends_with(body), "{sent}");
        let lower = sent.to_ascii_lowercase();
        for (text, times) in [("x-signature", 1), ("x-sent-at", 1), ("mine", 0)] {
            assert_eq!(lower.matches(text).count(), times, "{text}: {sent}");
        }
        assert!(!sent.contains(SECRET), "{sent}");
    }
    // Without a body nothing is signed of one: `1795910400.GET.`.
    assert!(stage.send(get("/hook")).await.ends_with("ok"));
    let sent = stage.origin.request(2);
    let signed =
        "x-signature: v1=5a496e37308bbed737e783b8fb98754974d8a04b985e943d67e66c66a861b312\r\n";
    assert!(sent.contains(signed), "{sent}");
}

#[tokio::test]
async fn a_body_that_is_signed_is_read_whole_or_nothing_leaves() {
    // ATTACK: 202
    let stage = stage(judging(stripe(), Mode::Inject, "/**"), fixed(OK)).await;
    let large = post("Content-Length: 1048577\r\n", "");
    assert!(stage.send(large).await.starts_with("HTTP/1.1 413 "));
    let chunk = format!("{:x}\r\n{}\r\n", 600_000, "a".repeat(600_000));
    let chunks = format!("{chunk}{chunk}0\r\n\r\n");
    let large = post("Transfer-Encoding: chunked\r\n", &chunks);
    assert!(stage.send(large).await.starts_with("HTTP/1.1 413 "));
    assert_eq!(*stage.notary.unlocks.lock().unwrap(), 0);
    assert_eq!(stage.origin.count(), 0);
    // What is not signed streams, whatever its size.
    let slot = hmac(
        "{timestamp}{target}",
        &[("x-t", "{timestamp}"), ("x-s", "{hex}")],
    );
    let stage = stage_of(slot).await;
    let body = "a".repeat(1_100_000);
    let fields = format!("Content-Length: {}\r\n", body.len());
    assert!(stage.send(post(&fields, &body)).await.ends_with("ok"));
}

async fn stage_of(slot: Slot) -> Stage {
    stage(judging(slot, Mode::Inject, "/**"), fixed(OK)).await
}

#[tokio::test]
async fn a_placeholder_stands_where_the_signature_goes_and_nowhere_else() {
    let stage = stage(judging(stripe(), Mode::Placeholder, "/**"), fixed(OK)).await;
    let length = "Content-Length: 5\r\n";
    let mine = placeholder();
    let (good, stray) = (
        format!("X-Signature: {}\r\n{length}", mine.as_str()),
        format!("X-Sent-At: {}\r\n{length}", mine.as_str()),
    );
    assert!(stage.send(post(&good, "hello")).await.ends_with("ok"));
    let sent = stage.origin.request(0);
    assert!(
        sent.contains("\r\nx-signature: v1=") && !sent.contains("TRNO"),
        "{sent}"
    );
    let heard = stage.send(post(&stray, "hello")).await;
    assert!(heard.contains("credential_endpoint_mismatch"), "{heard}");
    let own = format!("X-Signature: v1=mine\r\n{length}");
    let heard = stage.send(post(&own, "hello")).await;
    assert!(heard.contains("own_credential"), "{heard}");
    assert_eq!(stage.origin.count(), 1);
}

#[tokio::test]
async fn a_shared_key_is_taken_out_of_an_answer_that_repeats_it() {
    // ATTACK: 099
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{SECRET}",
        SECRET.len()
    );
    let stage = stage(judging(stripe(), Mode::Inject, "/**"), fixed(answer)).await;
    let heard = stage.send(post("Content-Length: 0\r\n", "")).await;
    assert!(heard.ends_with(placeholder().as_str()), "{heard}");
    assert!(!heard.contains(SECRET), "{heard}");
}

fn with_key(slot: Slot, key: &str) -> Arc<Notary> {
    let notary = judging(slot, Mode::Placeholder, "/**");
    *notary.secret.lock().unwrap() = key.to_owned();
    notary
}

const RSA: &str = include_str!("../../../inject/jwt/rfc7515_a2.pkcs8.pem");

fn echo(request: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
        request.len()
    );
    [head.as_bytes(), request].concat()
}

/// The origin answers with what it was sent, so with the token.
#[tokio::test]
async fn claims_are_signed_and_the_token_does_not_come_back() {
    // ATTACK: 099
    let notary = with_key(jwt(Algorithm::RS256), RSA);
    let stage = stage(notary, Arc::new(|request: &[u8]| echo(request))).await;
    let line = format!("Authorization: Bearer {}\r\n", placeholder().as_str());
    let heard = stage
        .send(post(&format!("{line}Content-Length: 0\r\n"), ""))
        .await;
    let sent = stage.origin.request(0);
    let token = sent.split("authorization: Bearer ").nth(1).unwrap();
    let token = token.split("\r\n").next().unwrap();
    let (claimed, signature) = token.rsplit_once('.').unwrap();
    assert!(
        token.starts_with("eyJ") && signature.len() == 342,
        "{token}"
    );
    assert!(!heard.contains(signature), "{heard}");
    let stands = format!("{claimed}.{}", placeholder().as_str());
    assert!(heard.contains(&stands), "{heard}");
    assert!(!sent.contains("PRIVATE"), "{sent}");
    // The same again: the token is young.
    let _heard = stage
        .send(post(&format!("{line}Content-Length: 0\r\n"), ""))
        .await;
    assert!(stage.origin.request(1).contains(token));
}

#[tokio::test]
async fn what_is_no_key_signs_nothing_and_is_not_told() {
    let stage = stage(with_key(jwt(Algorithm::ES256), SECRET), fixed(OK)).await;
    let line = format!("Authorization: Bearer {}\r\n", placeholder().as_str());
    let heard = stage
        .send(post(&format!("{line}Content-Length: 0\r\n"), ""))
        .await;
    assert!(heard.contains("no P-256 private key"), "{heard}");
    assert!(!heard.contains(SECRET), "{heard}");
    assert_eq!(stage.origin.count(), 0);
}
