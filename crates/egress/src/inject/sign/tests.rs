// SPDX-License-Identifier: Apache-2.0
//! What is signed is what the documentation of AWS signs: its examples for IAM and S3, and cases
//! of its test suite for Signature Version 4.

use super::*;
use crate::head::Head;
use crate::identify::{Arrival, Asked};
use crate::normalize::{RawRequest, Reading, Request, normalize};
use std::time::{Duration, UNIX_EPOCH};
use torno_notary_protocol::gate::{Allowed, Injection};
use torno_notary_protocol::receipt::{ReceiptClaims, ReceiptKey};
use torno_policy::binding::Mode;
use torno_policy::facts::Entry;
use torno_policy::names::{
    Authority, BindingId, CredentialName, Generation, RecordSeq, Scheme, SessionId,
};
use torno_policy::placeholder::Placeholder;

/// The two days of the examples, as Unix time, and a key of each.
const SUITE: (&str, u64) = ("20150830T123600Z", 1_440_938_160);
const S3: (&str, u64) = ("20130524T000000Z", 1_369_353_600);
const SUITE_KEY: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const S3_KEY: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn scope(key_id: &str, region: &str, service: &str) -> Sigv4 {
    Sigv4 {
        key_id: key_id.to_owned(),
        region: region.to_owned(),
        service: service.to_owned(),
    }
}

/// A request of a client that signed for the scope, as it is understood.
fn understood(
    line: &str,
    (host, fields, signed): (&str, &str, &str),
    (scope, date): (&Sigv4, &str),
) -> Request {
    let id = Placeholder::new("", [1; 16]);
    let text = format!(
        "{line} HTTP/1.1\r\nHost: {host}\r\nX-Amz-Date: {date}\r\n{fields}Authorization: \
         AWS4-HMAC-SHA256 Credential={}/{}/{}/{}/aws4_request, SignedHeaders={signed}, \
         Signature={EMPTY}\r\n\r\n",
        id.as_str(),
        date.get(..8).unwrap(),
        scope.region,
        scope.service,
    );
    let arrival = Arrival {
        entry: Entry::Captured,
        scheme: Scheme::Https,
        asked: Asked::Name(Authority::parse(host, Scheme::Https).unwrap()),
        disagreement: None,
    };
    let head = Head::parse(text.as_bytes()).unwrap();
    let raw = RawRequest {
        arrival: &arrival,
        head,
    };
    normalize(raw).unwrap_or_else(|fault| panic!("{line}: {fault:?}"))
}

fn allowed(request: &Request, slot: Slot) -> Allowed {
    let claims = ReceiptClaims {
        session: SessionId::parse("s1").unwrap(),
        generation: Generation(1),
        endpoint: request.facts.endpoint.clone(),
        record: RecordSeq(1),
        issued_ms: 0,
    };
    Allowed {
        transcripts: false,
        minted: false,
        keeping: None,
        record: RecordSeq(1),
        receipt: ReceiptKey::new([9; 32]).seal(&claims).ok(),
        endpoint: request.facts.endpoint.clone(),
        injection: Some(Injection {
            binding: BindingId::parse("b1").unwrap(),
            credential: CredentialName::parse("c1").unwrap(),
            slot,
            mode: Mode::Placeholder,
            placeholder: String::new(),
        }),
        unlock: true,
        strip: vec!["authorization".to_owned()],
        own_credentials: false,
    }
}

/// The lines that go out for it.
fn lines(
    request: &Request,
    (scope, seconds, key): (&Sigv4, u64, &str),
    is_scrubbed: bool,
) -> Result<String, Refusal> {
    let slot = Slot::Sigv4(scope.clone());
    let now = UNIX_EPOCH + Duration::from_secs(seconds);
    let signing = signing(&slot, request.signed.as_ref(), now)?.unwrap();
    let allowed = allowed(request, slot.clone());
    let sending = Sending {
        framing: request.framing,
        allowed: &allowed,
        request,
        is_scrubbed,
    };
    let lines = signing.fields(sending, key.as_bytes())?;
    Ok(String::from_utf8(lines.to_vec()).unwrap())
}

fn signature(lines: &str) -> (&str, &str) {
    let (front, signature) = lines.trim_end().split_once(", Signature=").unwrap();
    (front.split_once("SignedHeaders=").unwrap().1, signature)
}

#[test]
fn the_suite_of_signature_version_4_is_signed_as_it_says() {
    let form = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 13\r\n";
    for (line, fields, signed, body, expected) in [
        (
            "GET /",
            "",
            "host;x-amz-date",
            "",
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
        ),
        (
            "GET /?Param2=value2&Param1=value1",
            "",
            "host;x-amz-date",
            "",
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        (
            "GET /",
            "My-Header1: value1\r\nMy-Header2:  \"a   b   c\"\r\n",
            "host;my-header1;my-header2;x-amz-date",
            "",
            "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
        ),
        (
            "GET /",
            "My-Header1: value2\r\nMy-Header1: value2\r\nMy-Header1: value1\r\n",
            "host;my-header1;x-amz-date",
            "",
            "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
        ),
        (
            "POST /",
            "",
            "host;x-amz-date",
            "",
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
        ),
        (
            "POST /",
            form,
            "content-type;host;x-amz-date",
            "Param1=value1",
            "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
        ),
    ] {
        let scope = scope("AKIDEXAMPLE", "us-east-1", "service");
        let host = "example.amazonaws.com";
        let mut request = understood(line, (host, fields, signed), (&scope, SUITE.0));
        if !body.is_empty() {
            let taken = request.take(&mut Reading::Payload, body.as_bytes(), true);
            assert_eq!(taken, Ok(true));
        }
        let lines = lines(&request, (&scope, SUITE.1, SUITE_KEY), false).unwrap();
        assert_eq!(signature(&lines), (signed, expected), "{line} {fields}");
    }
}

#[test]
fn the_documented_request_to_iam_is_signed_as_it_says() {
    let scope = scope("AKIDEXAMPLE", "us-east-1", "iam");
    let fields = "Content-Type: application/x-www-form-urlencoded; charset=utf-8\r\n";
    let signed = "content-type;host;x-amz-date";
    let line = "GET /?Action=ListUsers&Version=2010-05-08";
    let asked = ("iam.amazonaws.com", fields, signed);
    let request = understood(line, asked, (&scope, SUITE.0));
    let lines = lines(&request, (&scope, SUITE.1, SUITE_KEY), true).unwrap();
    assert_eq!(
        lines,
        "x-amz-date: 20150830T123600Z\r\nauthorization: AWS4-HMAC-SHA256 \
         Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, \
         SignedHeaders=content-type;host;x-amz-date, \
         Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7\r\n"
    );
}

#[test]
fn the_documented_requests_to_s3_are_signed_as_they_say() {
    let scope = scope("AKIAIOSFODNN7EXAMPLE", "us-east-1", "s3");
    let welcome = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
    for (line, fields, payload, signed, expected) in [
        (
            "GET /test.txt",
            "Range: bytes=0-9\r\n",
            EMPTY,
            "host;range;x-amz-content-sha256;x-amz-date",
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            "PUT /test$file.text",
            "Date: Fri, 24 May 2013 00:00:00 GMT\r\nX-Amz-Storage-Class: REDUCED_REDUNDANCY\r\n\
             Content-Length: 21\r\n",
            welcome,
            "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        (
            "GET /?lifecycle",
            "",
            EMPTY,
            "host;x-amz-content-sha256;x-amz-date",
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        ),
        (
            "GET /?max-keys=2&prefix=J",
            "",
            EMPTY,
            "host;x-amz-content-sha256;x-amz-date",
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ] {
        let fields = format!("{fields}X-Amz-Content-Sha256: {payload}\r\n");
        let asked = ("examplebucket.s3.amazonaws.com", &*fields, signed);
        let request = understood(line, asked, (&scope, S3.0));
        let lines = lines(&request, (&scope, S3.1, S3_KEY), false).unwrap();
        assert_eq!(signature(&lines), (signed, expected), "{line}");
    }
}

#[test]
fn the_path_is_signed_as_it_is_sent_and_for_others_than_s3_encoded_once_more() {
    for (sent, of_s3, of_others) in [
        ("/b/k", "/b/k", "/b/k"),
        ("/b/a%20b%2Fc", "/b/a%20b%2Fc", "/b/a%2520b%252Fc"),
        (
            "/b/a+b=c:d@e",
            "/b/a%2Bb%3Dc%3Ad%40e",
            "/b/a%2Bb%3Dc%3Ad%40e",
        ),
        ("/%E1%88%B4/", "/%E1%88%B4/", "/%25E1%2588%25B4/"),
    ] {
        assert_eq!(as_sent(sent), of_s3);
        assert_eq!(encoded_again(sent), of_others);
    }
    for (query, signed) in [
        ("b=2&a=1&&a=0", "a=0&a=1&b=2"),
        ("a=%7e%2f&B", "B=&a=~%2F"),
        ("a=b=c+d", "a=b%3Dc%2Bd"),
        ("k=%E1%88%b4", "k=%E1%88%B4"),
    ] {
        let path = RequestPath::parse(&format!("/?{query}")).unwrap();
        assert_eq!(canonical_query(&path), signed);
    }
}

#[test]
fn what_was_signed_for_another_place_or_time_is_not_signed_anew() {
    let bound = scope("AKIDEXAMPLE", "us-east-1", "service");
    let asked = ("example.amazonaws.com", "", "host;x-amz-date");
    let refused = |scope: &Sigv4, seconds: u64| {
        let request = understood("GET /", asked, (scope, SUITE.0));
        let lines = lines(&request, (&bound, seconds, SUITE_KEY), false);
        lines.err().map(|refusal| refusal.reason)
    };
    assert_eq!(refused(&bound, SUITE.1 + 900), None);
    assert_eq!(refused(&bound, SUITE.1 - 900), None);
    let stale = Some(Reason::MalformedRequest);
    assert_eq!(refused(&bound, SUITE.1 + 901), stale);
    assert_eq!(refused(&bound, SUITE.1 - 901), stale);
    let elsewhere = Some(Reason::CredentialEndpointMismatch);
    for (region, service) in [("eu-central-1", "service"), ("us-east-1", "s3")] {
        let other = scope("AKIDEXAMPLE", region, service);
        assert_eq!(refused(&other, SUITE.1), elsewhere, "{region} {service}");
    }
    // And a body that nobody hashed is not signed at all.
    let body = ("example.amazonaws.com", "Content-Length: 3\r\n", "host");
    let request = understood("POST /", body, (&bound, SUITE.0));
    let lines = lines(&request, (&bound, SUITE.1, SUITE_KEY), false);
    assert_eq!(lines.err().map(|r| r.reason), Some(Reason::Undecidable));
}

#[test]
fn a_field_that_does_not_go_out_is_not_signed_and_a_part_is_not_asked_for_as_the_whole() {
    let bound = scope("AKIDEXAMPLE", "us-east-1", "service");
    let fields = "Accept-Encoding: gzip\r\nX-Forwarded-For: 1\r\nX-Amz-Security-Token: t\r\n\
                  X-Amz-Acl: a\r\n";
    let signed = "accept-encoding;content-length;host;x-amz-date;x-forwarded-for";
    let asked = ("example.amazonaws.com", fields, signed);
    let request = understood("GET /", asked, (&bound, SUITE.0));
    let out = lines(&request, (&bound, SUITE.1, SUITE_KEY), true).unwrap();
    assert_eq!(signature(&out).0, "host;x-amz-acl;x-amz-date");
    let out = lines(&request, (&bound, SUITE.1, SUITE_KEY), false).unwrap();
    assert_eq!(
        signature(&out).0,
        "accept-encoding;host;x-amz-acl;x-amz-date"
    );
    let asked = (
        "example.amazonaws.com",
        "Range: bytes=0-9\r\n",
        "host;range",
    );
    let request = understood("GET /", asked, (&bound, SUITE.0));
    assert!(lines(&request, (&bound, SUITE.1, SUITE_KEY), false).is_ok());
    let refused = lines(&request, (&bound, SUITE.1, SUITE_KEY), true).unwrap_err();
    assert!(refused.hint.contains("one request"), "{refused:?}");
}
