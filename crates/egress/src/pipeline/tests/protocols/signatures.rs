// SPDX-License-Identifier: Apache-2.0
//! Requests to AWS that are signed anew, end to end. The signatures are those that botocore 1.43
//! makes of the same requests with the real key.

use super::stage::*;
use std::sync::Arc;
use torno_policy::binding::{Sigv4, Slot};

const DIGEST: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn signs(service: &'static str) -> Arc<Notary> {
    Notary::new(move |_| {
        Ok(Yes {
            slot: Some(Slot::Sigv4(Sigv4 {
                key_id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
                region: "eu-central-1".to_owned(),
                service: service.to_owned(),
            })),
            ..Yes::default()
        })
    })
}

/// What a client with the placeholder as its key id sends at the time of the tests' clock.
fn signed(line: &str, service: &str, more: &str) -> String {
    format!(
        "{line} HTTP/1.1\r\nHost: allow.test\r\nX-Amz-Date: 20261129T000005Z\r\nAuthorization: \
         AWS4-HMAC-SHA256 Credential={}/20261129/eu-central-1/{service}/aws4_request, \
         SignedHeaders=host;x-amz-date, Signature={DIGEST}\r\n{more}\r\n",
        placeholder().as_str()
    )
}

#[tokio::test]
async fn a_request_is_signed_anew_over_what_goes_out_and_its_body_streams() {
    let stage = stage(signs("s3"), fixed(OK)).await;
    let fields = "Content-Type: text/plain\r\nX-Amz-Content-Sha256: UNSIGNED-PAYLOAD\r\n\
                  X-Amz-Security-Token: mine\r\nTransfer-Encoding: chunked\r\n";
    let head = signed("PUT /bucket/a%20b?x-id=PutObject", "s3", fields);
    let heard = stage.send(format!("{head}5\r\nhello\r\n0\r\n\r\n")).await;
    assert!(heard.ends_with("ok"), "{heard}");
    let sent = stage.origin.request(0);
    let expected = "\r\nx-amz-date: 20261129T000000Z\r\nauthorization: AWS4-HMAC-SHA256 \
        Credential=AKIAIOSFODNN7EXAMPLE/20261129/eu-central-1/s3/aws4_request, \
        SignedHeaders=content-type;host;x-amz-content-sha256;x-amz-date, \
        Signature=59f9aebebd6d92522b3bf643f6fd98e748051fc373c8c7dd4ae6ed94f83c4e3e\r\n";
    assert!(sent.contains(expected), "{sent}");
    assert!(sent.contains("\r\n5\r\nhello\r\n0\r\n\r\n"), "{sent}");
    let lower = sent.to_ascii_lowercase();
    for (once, times) in [
        ("authorization:", 1),
        ("x-amz-date:", 1),
        ("x-amz-security-token", 0),
        ("trno", 0),
        (&SECRET.to_ascii_lowercase(), 0),
    ] {
        assert_eq!(lower.matches(once).count(), times, "{once}: {sent}");
    }
}

#[tokio::test]
async fn a_body_whose_digest_nobody_said_is_read_and_signed_before_anything_is_asked() {
    // ATTACK: 202
    let stage = stage(signs("dynamodb"), fixed(OK)).await;
    let fields = "Content-Type: application/x-amz-json-1.0\r\nContent-Length: 7\r\n\
                  X-Amz-Target: DynamoDB_20120810.GetItem\r\n";
    let head = signed("POST /", "dynamodb", fields);
    let heard = stage.send(format!("{head}{{\"a\":1}}")).await;
    assert!(heard.ends_with("ok"), "{heard}");
    let sent = stage.origin.request(0);
    let expected = "SignedHeaders=content-type;host;x-amz-date;x-amz-target, \
        Signature=58c66245990d0cce3c1839a0d8276efa820e1ad494c154040bb3d221f2128b7f\r\n";
    assert!(sent.contains(expected), "{sent}");
    assert!(sent.ends_with("\r\n\r\n{\"a\":1}"), "{sent}");

    let asked = stage.notary.asked.lock().unwrap().len();
    let large = signed("POST /", "dynamodb", "Content-Length: 1048577\r\n");
    let heard = stage.send(large).await;
    assert!(heard.starts_with("HTTP/1.1 413 "), "{heard}");
    let chunks = signed("POST /", "dynamodb", "Transfer-Encoding: chunked\r\n");
    let chunk = format!("{:x}\r\n{}\r\n", 600_000, "a".repeat(600_000));
    let heard = stage.send(format!("{chunks}{chunk}{chunk}0\r\n\r\n")).await;
    assert!(heard.starts_with("HTTP/1.1 413 "), "{heard}");
    assert_eq!(stage.notary.asked.lock().unwrap().len(), asked);
    assert_eq!(stage.origin.count(), 1);
}

#[tokio::test]
async fn what_is_signed_for_another_region_or_not_at_all_unlocks_nothing() {
    let stage = stage(signs("s3"), fixed(OK)).await;
    let bearer = format!(
        "GET /b/k HTTP/1.1\r\nHost: allow.test\r\nAuthorization: Bearer {}\r\n\r\n",
        placeholder().as_str()
    );
    let elsewhere = signed("GET /b/k", "s3", "").replace("eu-central-1", "us-east-1");
    for (request, code) in [
        (bearer, "credential_endpoint_mismatch"),
        (elsewhere, "credential_endpoint_mismatch"),
        (
            signed("GET /b/k", "dynamodb", ""),
            "credential_endpoint_mismatch",
        ),
        (
            signed("GET /b/k", "s3", "").replace("T000005Z", "T002001Z"),
            "malformed_request",
        ),
        (
            signed("GET /b/k", "s3", "Range: bytes=0-9\r\n").replace("=host;", "=host;range;"),
            "undecidable",
        ),
    ] {
        let heard = stage.send(&request).await;
        assert!(heard.contains(code), "{request}: {heard}");
    }
    // The last is refused when its answer would be searched: the credential was unlocked.
    assert_eq!(*stage.notary.unlocks.lock().unwrap(), 1);
    assert_eq!(stage.origin.count(), 0);
}

#[tokio::test]
async fn the_key_is_taken_out_of_an_answer_that_repeats_it() {
    // ATTACK: 099
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{SECRET}",
        SECRET.len()
    );
    let stage = stage(signs("s3"), fixed(answer)).await;
    let heard = stage.send(signed("GET /b/k", "s3", "")).await;
    assert!(heard.ends_with(placeholder().as_str()), "{heard}");
    assert!(!heard.contains(SECRET), "{heard}");
}
