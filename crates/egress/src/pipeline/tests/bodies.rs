// SPDX-License-Identifier: Apache-2.0
//! Credentials in bodies, end to end: what is judged in earnest is filled and sent.

use super::http2::{Client, to, told};
use super::judge::judging;
use super::stage::*;
use bytes::Bytes;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use torno_policy::binding::{Held, Mode, Pointer, Slot};
use torno_policy::facts::{ContentKind, Location, Unread};
use torno_policy::placeholder::Placeholder;

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";
const PARTS: &str = "multipart/form-data; boundary=X";

fn form() -> Slot {
    let field = "client_secret".to_owned();
    Slot::Form { field }
}

fn json() -> Slot {
    let pointer = Pointer::parse("/d/token").unwrap();
    Slot::Json { pointer }
}

fn multipart() -> Slot {
    let part = "token".to_owned();
    Slot::Multipart { part }
}

fn bound(slot: Slot) -> Arc<Notary> {
    judging(slot, Mode::Placeholder, "/**")
}

fn post(kind: &str, more: &str, body: &str) -> String {
    format!(
        "POST /token HTTP/1.1\r\nHost: allow.test\r\nContent-Type: {kind}\r\n{more}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn part(name: &str, content: &str) -> String {
    format!("--X\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{content}\r\n")
}

/// Each slot: its kind, and a body with the placeholder and a hole for what comes there.
fn all() -> [(Slot, &'static str, String); 3] {
    let parts = format!("{}{}--X--\r\n", part("a", "1\r\n"), part("token", "@"));
    [
        (
            form(),
            FORM,
            "grant_type=client_credentials&client_secret=@&scope=a+b".to_owned(),
        ),
        (
            json(),
            JSON,
            "{ \"d\" : {\"token\": \"@\",\"x\":1.0e2} }".to_owned(),
        ),
        (multipart(), PARTS, parts),
    ]
}

/// Head and body that the origin saw.
fn sent(stage: &Stage, number: usize) -> (String, String) {
    let whole = stage.origin.request(number);
    let (head, body) = whole.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[tokio::test]
async fn a_placeholder_in_a_body_becomes_the_value_and_every_other_byte_stays() {
    for (slot, kind, body) in all() {
        let stage = stage(bound(slot.clone()), fixed(OK)).await;
        let out = body.replace('@', SECRET);
        let with = body.replace('@', placeholder().as_str());
        let both = [post(kind, "", &with), post(kind, "", &with)].concat();
        let heard = stage.send(both).await;
        assert_eq!(heard.matches("HTTP/1.1 200").count(), 2, "{slot}: {heard}");
        for number in 0..2 {
            let (head, body) = sent(&stage, number);
            assert_eq!(body, out, "{slot}");
            assert!(
                head.ends_with(&format!("content-length: {}", out.len())),
                "{head}"
            );
        }
        let asked = stage.notary.asked.lock().unwrap().clone();
        assert_eq!((asked.len(), &asked[0].body), (4, &None), "{slot}");
        let read = asked[1].body.as_ref().unwrap();
        assert_eq!((&read.slot, read.held), (&slot, Held::Placeholder));
        assert_eq!(asked[1].presented.len(), 1);
        assert_eq!(asked[1].presented[0].location, Location::Slot);
        let outcomes = stage.notary.outcomes.lock().unwrap();
        assert_eq!(outcomes[0].carried, 0, "{slot}");
        assert_eq!(outcomes[0].sent_bytes, u64::try_from(out.len()).unwrap());
    }
}

#[tokio::test]
async fn chunks_become_a_length_and_a_digest_of_the_clients_body_is_left_out() {
    let (slot, _, body) = all()[0].clone();
    let stage = stage(bound(slot), fixed(OK)).await;
    let with = body.replace('@', placeholder().as_str());
    let (front, back) = with.split_at(40);
    let request = format!(
        "POST /token HTTP/1.1\r\nHost: allow.test\r\nContent-Type: {FORM}; charset=utf-8\r\n\
         Content-MD5: AAAA\r\nDigest: sha-256=x\r\nContent-Digest: a=:b:\r\nRepr-Digest: a=:b:\r\n\
         x-amz-content-sha256: 00\r\nX-Kept: 1\r\nTransfer-Encoding: chunked\r\n\r\n\
         {:x}\r\n{front}\r\n{:x};ext=1\r\n{back}\r\n0\r\nContent-Digest: a=:b:\r\n\r\n",
        front.len(),
        back.len()
    );
    assert!(stage.send(request).await.ends_with("ok"));
    let (head, out) = sent(&stage, 0);
    assert_eq!(out, body.replace('@', SECRET));
    let head = head.to_ascii_lowercase();
    assert!(
        head.ends_with(&format!("content-length: {}", out.len())),
        "{head}"
    );
    assert!(head.contains("x-kept: 1"), "{head}");
    for gone in ["digest", "md5", "sha256", "chunked"] {
        assert!(!head.contains(gone), "{head}");
    }
    // What is not filled keeps what was said of it.
    let plain = post(FORM, "Content-Digest: a=:b:\r\n", "a=1");
    assert!(stage.send(plain).await.ends_with("ok"));
    let (head, out) = sent(&stage, 1);
    assert!(
        head.contains("Content-Digest: a=:b:") && out == "a=1",
        "{head}"
    );
}

#[tokio::test]
async fn a_client_that_waits_for_word_sends_its_body_and_is_answered_once() {
    let (slot, kind, body) = all()[0].clone();
    let stage = stage(bound(slot), fixed(OK)).await;
    let with = body.replace('@', placeholder().as_str());
    let request = post(kind, "Expect: 100-continue\r\n", &with);
    let head = request.strip_suffix(&with).unwrap();
    let mut client = stage.secure().await;
    let heard = talk(&mut client, head.as_bytes()).await;
    assert_eq!(heard, "HTTP/1.1 100 Continue\r\n\r\n");
    // Split inside of the placeholder: ATTACK: 091
    let (front, back) = with.split_at(with.find("TRNO").unwrap() + 2);
    client.write_all(front.as_bytes()).await.unwrap();
    client.flush().await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(30)).await;
    let heard = talk(&mut client, back.as_bytes()).await;
    assert!(heard.ends_with("ok"), "{heard}");
    assert_eq!(sent(&stage, 0).1, body.replace('@', SECRET));
}

#[tokio::test]
async fn what_was_put_into_a_body_is_scrubbed_from_the_answer() {
    // ATTACK: 105, 106
    let value = "canary/canary+canary=0123";
    let encoded = "canary%2Fcanary%2Bcanary%3D0123";
    let echo = format!("{encoded} {value}");
    let script = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{echo}",
        echo.len()
    );
    let (slot, kind, body) = all()[0].clone();
    let stage = stage(bound(slot), fixed(script)).await;
    *stage.notary.secret.lock().unwrap() = value.to_owned();
    let heard = stage
        .send(post(kind, "", &body.replace('@', placeholder().as_str())))
        .await;
    let shown = placeholder();
    assert!(
        heard.ends_with(&format!("{0} {0}", shown.as_str())),
        "{heard}"
    );
    assert_eq!(sent(&stage, 0).1, body.replace('@', encoded));
}

#[tokio::test]
async fn a_stream_of_http2_has_its_body_filled_too() {
    for (slot, kind, body) in all() {
        let stage = stage(bound(slot.clone()), fixed(OK)).await;
        let client = Client::to(&stage).await;
        let with = body.replace('@', placeholder().as_str());
        let request = to("/token").method("POST").header("content-type", kind);
        let (answer, mut stream) = client.open(request.body(()).unwrap(), false).await;
        let (front, back) = with.split_at(with.len() / 2);
        stream
            .send_data(Bytes::copy_from_slice(front.as_bytes()), false)
            .unwrap();
        stream
            .send_data(Bytes::copy_from_slice(back.as_bytes()), true)
            .unwrap();
        let told = told(answer.await.unwrap()).await;
        assert_eq!((told.status, told.body.as_str()), (200, "ok"), "{slot}");
        let (head, out) = sent(&stage, 0);
        assert_eq!(out, body.replace('@', SECRET), "{slot}");
        assert!(
            head.ends_with(&format!("content-length: {}", out.len())),
            "{head}"
        );
    }
}

// ATTACK: 083, 086, 093, 202
#[tokio::test]
async fn what_has_no_one_place_or_can_not_be_read_is_not_sent() {
    let ph = placeholder();
    let ph = ph.as_str();
    let foreign = Placeholder::new("ghp_", [8; 16]);
    let foreign = foreign.as_str();
    let large = "x".repeat(1 << 20);
    let chunked = format!(
        "POST /token HTTP/1.1\r\nHost: allow.test\r\nContent-Type: {FORM}\r\n\
         Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{large}a=\r\n0\r\n\r\n",
        large.len() + 2
    );
    let of_form = |body: &str| post(FORM, "", body);
    let of_json = |body: &str| post(JSON, "", body);
    let of_parts = |body: &str| post(PARTS, "", body);
    let secret = format!("client_secret={ph}");
    let token = format!("{{\"d\":{{\"token\":\"{ph}\"}}}}");
    let parts = format!("{}--X--", part("token", ph));
    for (slot, request, code) in [
        (
            form(),
            of_form(&format!("{secret}&{secret}")),
            "placeholder_repeated",
        ),
        (
            form(),
            of_form(&format!("{secret}&Client_Secret=x")),
            "placeholder_repeated",
        ),
        (
            form(),
            of_form(&format!("{secret}&client%5fsecret=x")),
            "placeholder_repeated",
        ),
        (form(), of_form("client_secret=mine"), "own_credential"),
        (
            form(),
            of_form(&format!("client_secret=Bearer+{ph}")),
            "own_credential",
        ),
        (
            form(),
            of_form(&format!("client_secret={foreign}")),
            "placeholder_unknown",
        ),
        (
            form(),
            of_form(&format!("{secret}&note={foreign}")),
            "placeholder_unknown",
        ),
        (
            form(),
            of_form(&format!("{secret}&_method=DELETE")),
            "malformed_request",
        ),
        (form(), of_form(&format!("{secret}\n")), "malformed_request"),
        (form(), post(JSON, "", &token), "malformed_request"),
        (form(), post("text/plain", "", &secret), "malformed_request"),
        (
            form(),
            post(&format!("{FORM}; charset=utf-16"), "", &secret),
            "malformed_request",
        ),
        (
            form(),
            post(FORM, "Content-Type: text/plain\r\n", &secret),
            "malformed_request",
        ),
        (
            form(),
            post(FORM, "Content-Encoding: gzip\r\n", &secret),
            "malformed_request",
        ),
        (
            form(),
            post(FORM, "Content-Encoding: br, identity\r\n", &secret),
            "malformed_request",
        ),
        (form(), of_form(&format!("a={large}")), "too_large"),
        (form(), chunked, "too_large"),
        (
            form(),
            post(FORM, &format!("X: {ph}\r\n"), &secret),
            "credential_endpoint_mismatch",
        ),
        (
            json(),
            of_json(&token.replace("}}", ",\"TOKEN\":1}}")),
            "placeholder_repeated",
        ),
        (
            json(),
            of_json(&token.replace("token", "tok\\u0065n")),
            "placeholder_repeated",
        ),
        (
            json(),
            of_json(&token.replace(ph, "mine")),
            "own_credential",
        ),
        (
            json(),
            of_json(&format!("{token}{token}")),
            "malformed_request",
        ),
        (
            json(),
            of_json(&format!("\u{feff}{token}")),
            "malformed_request",
        ),
        (
            json(),
            of_json(&token.replace("}}", &format!(",\"token\":\"{ph}\"}}}}"))),
            "malformed_request",
        ),
        (
            json(),
            of_json(&token.replace(
                "\"d\":",
                &format!("\"e\":{}1{},\"d\":", "[".repeat(99), "]".repeat(99)),
            )),
            "malformed_request",
        ),
        (
            multipart(),
            of_parts(&format!("{}{parts}", part("token", "x"))),
            "placeholder_repeated",
        ),
        (
            multipart(),
            of_parts(&format!("{}{parts}", part("TOKEN", "x"))),
            "placeholder_repeated",
        ),
        (
            multipart(),
            of_parts(&parts.replace(ph, "mine")),
            "own_credential",
        ),
        (
            multipart(),
            of_parts(&format!("x\r\n{parts}")),
            "malformed_request",
        ),
        (
            multipart(),
            post(&PARTS.replace("=X", "=Y"), "", &parts),
            "malformed_request",
        ),
        (
            multipart(),
            post("multipart/form-data", "", &parts),
            "malformed_request",
        ),
    ] {
        let stage = stage(bound(slot), fixed(OK)).await;
        let heard = stage.send(request.as_bytes()).await;
        let shown: String = request.chars().take(250).collect();
        assert!(
            heard.contains(&format!("\"code\":\"{code}\"")),
            "{code}: {shown}: {heard}"
        );
        let status = if code == "too_large" { "413" } else { "4" };
        assert!(heard.starts_with(&format!("HTTP/1.1 {status}")), "{heard}");
        assert_eq!(stage.origin.count(), 0, "{shown}");
    }
}

#[tokio::test]
async fn a_second_placeholder_beside_the_slot_is_carried_and_counted() {
    let (slot, kind, _) = all()[0].clone();
    let stage = stage(bound(slot), fixed(OK)).await;
    let ph = placeholder();
    let body = format!("client_secret={0}&note={0}", ph.as_str());
    assert!(stage.send(post(kind, "", &body)).await.ends_with("ok"));
    let out = format!("client_secret={SECRET}&note={}", ph.as_str());
    assert_eq!(sent(&stage, 0).1, out);
    assert_eq!(stage.notary.outcomes.lock().unwrap()[0].carried, 1);
}

#[tokio::test]
async fn what_the_binding_is_not_for_streams_as_before() {
    let stage = stage(judging(form(), Mode::Placeholder, "/token"), fixed(OK)).await;
    let body = "x".repeat((1 << 20) + 1);
    let request = post(
        "application/octet-stream",
        "Content-Encoding: gzip\r\n",
        &body,
    );
    let heard = stage.send(request.replace("/token", "/upload")).await;
    assert!(heard.ends_with("ok"), "{heard}");
    assert_eq!(stage.notary.asked.lock().unwrap().len(), 1);
    assert_eq!(sent(&stage, 0).1.len(), body.len());
}

#[tokio::test]
async fn a_mode_that_fills_by_itself_fills_bodies() {
    for (slot, kind, body) in all() {
        let own = body.replace('@', "mine");
        let stage_one = stage(judging(slot.clone(), Mode::Inject, "/**"), fixed(OK)).await;
        assert!(stage_one.send(post(kind, "", &own)).await.ends_with("ok"));
        assert_eq!(sent(&stage_one, 0).1, body.replace('@', SECRET), "{slot}");
        let empty = body.replace('@', "");
        let mode = Mode::PlaceholderOrInject;
        let stage = stage(judging(slot.clone(), mode, "/**"), fixed(OK)).await;
        assert!(stage.send(post(kind, "", &empty)).await.ends_with("ok"));
        assert_eq!(sent(&stage, 0).1, body.replace('@', SECRET), "{slot}");
        // Without a body there is no place.
        let heard = stage.send(post(kind, "", "")).await;
        assert!(heard.contains("placeholder_missing"), "{heard}");
    }
}

#[tokio::test]
async fn a_yes_without_a_reading_or_for_another_slot_sends_nothing() {
    // ATTACK: 089
    for reads in [None, Some(Unread::Slot(json()))] {
        let notary = Notary::new(move |_| {
            Ok(Yes {
                slot: Some(form()),
                reads: reads.clone(),
                ..Yes::default()
            })
        });
        let stage = stage(notary, fixed(OK)).await;
        let kind = JSON;
        let heard = stage.send(post(kind, "", "{\"d\":{}}")).await;
        assert!(heard.contains("undecidable"), "{heard}");
        assert_eq!(stage.origin.count(), 0);
    }
}

#[tokio::test]
async fn a_body_is_read_for_a_rule_and_for_a_slot_once_each() {
    let pointer = Pointer::parse("/variables/token").unwrap();
    let slot = Slot::Json { pointer };
    let notary = Notary::new(move |facts| {
        let reads = match (&facts.content, &facts.body) {
            (None, _) => Some(Unread::Content(ContentKind::Graphql)),
            (Some(_), None) => Some(Unread::Slot(slot.clone())),
            (Some(_), Some(_)) => None,
        };
        Ok(Yes {
            reads,
            slot: Some(slot.clone()),
            ..Yes::default()
        })
    });
    let stage = stage(notary, fixed(OK)).await;
    let body = "{\"query\":\"{ me }\", \"variables\":{\"token\":\"@\"}}";
    let with = body.replace('@', placeholder().as_str());
    let heard = stage.send(post(JSON, "", &with)).await;
    assert!(heard.ends_with("ok"), "{heard}");
    assert_eq!(sent(&stage, 0).1, body.replace('@', SECRET));
    assert_eq!(stage.notary.asked.lock().unwrap().len(), 3);
}
