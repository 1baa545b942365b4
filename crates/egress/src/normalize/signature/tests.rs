// SPDX-License-Identifier: Apache-2.0
//! Which signatures are understood, and what becomes of the client's own fields.

use super::*;
use crate::identify::{Arrival, Asked};
use crate::normalize::{RawRequest, Request, normalize};
use torno_policy::facts::Entry;
use torno_policy::names::{Authority, Scheme};

const DIGEST: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const DATE: &str = "X-Amz-Date: 20150830T123600Z\r\n";

fn id() -> String {
    Placeholder::new("AKIA", [5; 16]).as_str().to_owned()
}

fn understood(fields: &str) -> Result<Request, Fault> {
    let head = format!("PUT /b/k HTTP/1.1\r\nHost: s3.test\r\n{fields}\r\n");
    let asked = Authority::parse("s3.test", Scheme::Https).unwrap();
    let arrival = Arrival {
        entry: Entry::Captured,
        scheme: Scheme::Https,
        asked: Asked::Name(asked),
        disagreement: None,
    };
    let head = Head::parse(head.as_bytes()).unwrap();
    normalize(RawRequest {
        arrival: &arrival,
        head,
    })
}

fn signed_by(credential: &str) -> String {
    format!(
        "Authorization: AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host;x-amz-date, \
         Signature={DIGEST}\r\n"
    )
}

fn authorization() -> String {
    signed_by(&format!("{}/20150830/eu-central-1/s3/aws4_request", id()))
}

#[test]
fn a_signature_is_read_with_its_scope_and_payload() {
    let fields = format!("{}{DATE}", authorization());
    let signed = understood(&fields).unwrap().signed.unwrap();
    assert_eq!((&*signed.region, &*signed.service), ("eu-central-1", "s3"));
    assert_eq!(signed.fields, ["host", "x-amz-date"]);
    assert_eq!(signed.at.to_string(), "20150830T123600Z");
    assert_eq!(signed.payload, Payload::of(b""));
    assert_eq!(signed.payload, Payload::Hashed(DIGEST.to_owned()));
    let body = format!("{fields}Content-Length: 3\r\n");
    let request = understood(&body).unwrap();
    assert!(request.has_unread_payload());
    for declared in [
        DIGEST,
        "UNSIGNED-PAYLOAD",
        "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    ] {
        let fields = format!("{body}X-Amz-Content-Sha256: {declared}\r\n");
        let signed = understood(&fields).unwrap().signed.unwrap();
        assert_eq!(signed.payload, Payload::Declared(declared.to_owned()));
    }
    // No space after the commas is well-formed too (curl writes it so).
    let tight = fields.replace(", ", ",");
    assert!(understood(&tight).unwrap().signed.is_some());
}

#[test]
fn another_signature_under_a_placeholder_is_refused_in_words() {
    let (good, id) = (authorization(), id());
    let scope = "/20150830/eu-central-1/s3/aws4_request";
    for (bad, word) in [
        (
            good.replace("HMAC-SHA256", "ECDSA-P256-SHA256"),
            "Version 4",
        ),
        (format!("Authorization: AWS {id}:c2ln\r\n"), "Version 4"),
        (format!("authorization: aws {id}:c2ln\r\n"), "Version 4"),
        (good.replace("SHA256 ", "SHA256"), "write Authorization"),
        (good.replace("/aws4_request", "/aws5_request"), "write"),
        (good.replace("/s3/", "/s3/s3/"), "write"),
        (
            good.replace(", Signature", ", Signature=0, Signature"),
            "write",
        ),
        (good.replace(", Signature=", ", Sig="), "write"),
        (
            good.replace("SignedHeaders=host;", "SignedHeaders=Host;"),
            "write",
        ),
        (
            good.replace("SignedHeaders=host;", "SignedHeaders=;"),
            "write",
        ),
        (
            good.replace(DIGEST, DIGEST.trim_start_matches('e')),
            "write",
        ),
        (good.replace(DIGEST, &DIGEST.to_uppercase()), "write"),
        (signed_by(&format!("x/{id}{scope}")), "write"),
        (signed_by(&format!("x.{id}{scope}")), "write"),
        (signed_by(&format!("{id}{id}{scope}")), "write"),
        (format!("{good}{good}"), "one Authorization"),
        (good.replace("20150830/", "20150831/"), "for the day"),
    ] {
        let fault = understood(&format!("{bad}{DATE}")).err();
        let fault = fault.unwrap_or_else(|| panic!("{bad}"));
        assert_eq!(fault.reason, torno_policy::Reason::MalformedRequest);
        assert!(fault.hint.contains(word), "{bad}: {}", fault.hint);
    }
    for date in [
        "",
        "Date: Sun, 30 Aug 2015 12:36:00 GMT\r\n",
        "X-Amz-Date: 20150830T123600Z\r\nX-Amz-Date: 20150830T123600Z\r\n",
        "X-Amz-Date: 20150830T126000Z\r\n",
    ] {
        let fault = understood(&format!("{good}{date}")).err().unwrap();
        assert!(fault.hint.contains("X-Amz-Date"), "{date}");
    }
}

#[test]
fn a_body_that_is_signed_in_chunks_is_refused_with_a_way_on() {
    let fields = format!("{}{DATE}Content-Length: 3\r\n", authorization());
    for (declared, word) in [
        ("STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "chunks"),
        ("STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", "chunks"),
        ("STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", "chunks"),
        ("unsigned-payload", "64 hexadecimal"),
        ("E3B0", "64 hexadecimal"),
    ] {
        let fields = format!("{fields}X-Amz-Content-Sha256: {declared}\r\n");
        let fault = understood(&fields).err().unwrap();
        assert!(fault.hint.contains(word), "{declared}");
    }
    let twice = format!("X-Amz-Content-Sha256: {DIGEST}\r\n").repeat(2);
    let fault = understood(&format!("{fields}{twice}")).err().unwrap();
    assert!(fault.hint.contains("one X-Amz-Content-Sha256"));
}

#[test]
fn the_clients_session_token_and_date_do_not_go_out_where_its_key_is_a_placeholder() {
    let fields = format!(
        "{}{DATE}X-Amz-Security-Token: mine\r\nX-Amz-Acl: private\r\n",
        authorization()
    );
    let request = understood(&fields).unwrap();
    assert_eq!(request.facts.own_credentials, Vec::<String>::new());
    let of = |name: &str| {
        let mut all = request.head.fields().zip(&request.dispositions);
        *all.find(|(field, _)| field.is(name)).unwrap().1
    };
    assert_eq!(of("x-amz-security-token"), Disposition::Drop);
    assert_eq!(of("x-amz-date"), Disposition::Drop);
    assert_eq!(of("x-amz-acl"), Disposition::Pass);
    assert_eq!(of("authorization"), Disposition::Placeholder);
    // With a key of its own it is the client's own credential, and so is its token.
    let own = fields.replace(&id(), "AKIAIOSFODNN7EXAMPLE");
    let request = understood(&own).unwrap();
    assert_eq!(request.signed, None);
    let names = ["authorization", "x-amz-security-token"];
    assert_eq!(request.facts.own_credentials, names);
}
