// SPDX-License-Identifier: Apache-2.0
//! Tripwires on their way out: seen in a head before the question, and in a body before its piece
//! leaves.

use super::stage::*;
use data_encoding::HEXLOWER;
use torno_notary_protocol::gate::End;
use torno_policy::Reason;
use torno_policy::facts::Location;
use torno_policy::tripwire::Wire;

fn post(body: &str) -> String {
    let length = body.len();
    format!("POST /in HTTP/1.1\r\nHost: allow.test\r\nContent-Length: {length}\r\n\r\n{body}")
}

fn always(transcripts: bool) -> std::sync::Arc<Notary> {
    Notary::new(move |_| {
        Ok(Yes {
            transcripts,
            ..Yes::default()
        })
    })
}

#[tokio::test]
async fn a_tripwire_in_a_head_is_among_the_facts_however_it_is_written() {
    let value = tripwire().value;
    let hex = HEXLOWER.encode(value.as_bytes());
    let digest = tripwire().issued().unwrap().digest;
    let header = Location::Header("x-note".to_owned());
    for (request, location) in [
        (get(&format!("/in?d={hex}")), Location::Query),
        (get(&format!("/in/{hex}")), Location::Path),
        (
            format!("GET /in HTTP/1.1\r\nHost: allow.test\r\nX-Note: {hex}\r\n\r\n"),
            header,
        ),
    ] {
        let stage = stage(always(false), fixed(OK)).await;
        stage.send(request).await;
        let asked = stage.notary.asked.lock().unwrap();
        let presented = &asked[0].presented;
        let is_it = |one: &torno_policy::facts::Presented| {
            (&one.location, one.digest) == (&location, digest)
        };
        assert!(presented.iter().any(is_it), "{location:?}: {presented:?}");
    }
}

#[tokio::test]
async fn a_tripwire_in_a_body_never_reaches_the_far_end() {
    let value = tripwire().value;
    let hex = HEXLOWER.encode(value.as_bytes());
    let padded = format!("{}{value}", "x".repeat(200_000));
    for body in [value.as_str(), &hex, &padded] {
        let stage = stage(always(false), fixed(OK)).await;
        let heard = stage.send(post(body)).await;
        assert!(heard.contains("\"code\":\"tripwire\""), "{heard}");
        assert!(heard.contains("tripwire.aws_credentials"), "{heard}");
        let sent = stage.origin.requests.lock().unwrap().concat();
        assert!(memchr::memmem::find(&sent, body.as_bytes()).is_none());
        let outcomes = stage.notary.outcomes.lock().unwrap();
        let End::Refused(refusal) = &outcomes[0].end else {
            panic!("{outcomes:?}")
        };
        assert_eq!(refusal.reason, Reason::Tripwire);
        assert_eq!(Wire::of_rule(&refusal.rule), Some(Wire::AwsCredentials));
    }
}

#[tokio::test]
async fn a_models_transcript_carries_one_and_that_is_counted() {
    let stage = stage(always(true), fixed(OK)).await;
    let body = format!("{{\"content\":\"{}\"}}", tripwire().value);
    let heard = stage.send(post(&body)).await;
    assert!(heard.starts_with("HTTP/1.1 200"), "{heard}");
    assert!(stage.origin.request(0).contains(&body));
    assert_eq!(stage.notary.outcomes.lock().unwrap()[0].carried, 1);
}

#[tokio::test]
async fn a_tripwire_in_a_trailer_never_reaches_the_far_end() {
    let value = tripwire().value;
    let hex = HEXLOWER.encode(value.as_bytes());
    for said in [&hex, &value] {
        let stage = stage(always(false), fixed(OK)).await;
        let request = format!(
            "POST /in HTTP/1.1\r\nHost: allow.test\r\nTransfer-Encoding: chunked\r\n\r\n\
             2\r\nhi\r\n0\r\nX-Note: {said}\r\n\r\n"
        );
        let heard = stage.send(request).await;
        let sent = stage.origin.requests.lock().unwrap().concat();
        assert!(
            memchr::memmem::find(&sent, said.as_bytes()).is_none(),
            "it left: {said}"
        );
        assert!(heard.contains("\"code\":\"tripwire\""), "{heard}");
    }
}
