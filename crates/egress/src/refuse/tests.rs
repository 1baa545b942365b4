// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::ports::{Answered, AtHand, Pending, Unlocked};
use torno_notary_protocol::gate::Outcome;
use torno_notary_protocol::receipt::Receipt;
use torno_policy::facts::RequestFacts;
use torno_policy::names::RecordSeq;

#[derive(Default)]
struct Told(Mutex<Vec<(String, u32)>>);

impl Ask for Told {
    fn ask<'a>(&'a self, _: &'a RequestFacts, _: AtHand) -> Pending<'a, Result<Answered, Refusal>> {
        panic!("must not be asked")
    }
    fn unlock<'a>(&'a self, _: &'a Receipt) -> Pending<'a, Result<Unlocked, Refusal>> {
        panic!("must not be unlocked")
    }
    fn mint(&self, _: RecordSeq, _: u32) -> Pending<'_, Result<Vec<String>, Refusal>> {
        panic!("nothing was minted")
    }
    fn report(&self, _: Outcome) {
        panic!("nothing was allowed")
    }
    fn refused(&self, refusal: WireRefusal) {
        self.0.lock().unwrap().push((refusal.target, refusal.count));
    }
}

#[tokio::test(start_paused = true)]
async fn repeats_are_one_record_with_a_count() {
    let told = Arc::new(Told::default());
    let refusals = Refusals::new(told.clone());
    let fault = Fault::malformed("x");
    for _ in 0..5 {
        refusals.record(&fault, "a");
    }
    refusals.record(&fault, "b");
    let seen = |told: &Told| told.0.lock().unwrap().clone();
    assert_eq!(seen(&told), [("a".to_owned(), 1), ("b".to_owned(), 1)]);
    tokio::time::advance(Duration::from_secs(2)).await;
    refusals.record(&fault, "a");
    assert_eq!(seen(&told).last(), Some(&("a".to_owned(), 5)));
    refusals.record(&fault, "a");
    drop(refusals);
    assert_eq!(seen(&told).last(), Some(&("a".to_owned(), 1)));
    assert_eq!(seen(&told).iter().map(|(_, n)| n).sum::<u32>(), 8);
}

#[tokio::test]
async fn a_target_is_escaped_and_bounded_in_the_record() {
    // ATTACK: 212, 218
    let told = Arc::new(Told::default());
    let refusals = Refusals::new(told.clone());
    let hostile = format!("a\r\n{{\"x\":1}}\x1b[2K\u{2028}{}", "y".repeat(1 << 20));
    refusals.record(&Fault::malformed("x"), &hostile);
    let target = told.0.lock().unwrap()[0].0.clone();
    assert!(
        target.len() <= 256 && target.bytes().all(|b| (b' '..0x7f).contains(&b)),
        "{target}"
    );
}

#[test]
fn a_refused_rate_says_when_to_come_back() {
    let refusal = |rule: &str| Refusal {
        reason: Reason::LimitReached,
        layer: Layer::Session,
        rule: RuleName::new(rule),
        hint: "try again in 20 ms".to_owned(),
    };
    let answered = |rule| {
        let bytes = answer(&refusal(rule), Form::Http, false, false);
        String::from_utf8(bytes).unwrap()
    };
    let rate = answered("limits.rate");
    assert!(rate.starts_with("HTTP/1.1 429 "), "{rate}");
    assert!(rate.contains("\r\nretry-after: 1\r\n"), "{rate}");
    assert!(!answered("limits.requests").contains("retry-after"));
}

/// The shape that programs rely on.
#[test]
fn the_bytes_of_a_refusal_are_pinned() {
    let refusal = Refusal {
        reason: Reason::HostNotGranted,
        layer: Layer::Session,
        rule: RuleName::new("grant.default"),
        hint: "add [[allow]] host = \"a.test\"".to_owned(),
    };
    let bytes = answer(&refusal, Form::Http, true, false);
    let expected = "HTTP/1.1 403 Forbidden\r\ncontent-type: application/json\r\n\
        x-content-type-options: nosniff\r\ncache-control: no-store\r\ncontent-length: 109\r\n\
        connection: close\r\n\r\n\
        {\"code\":\"host_not_granted\",\"layer\":\"session\",\"rule\":\"grant.default\",\
        \"hint\":\"add [[allow]] host = \\\"a.test\\\"\"}";
    assert_eq!(String::from_utf8(bytes).unwrap(), expected);
}
