// SPDX-License-Identifier: Apache-2.0
//! A gate that was taken over, against the running notary, dialer and desk: it can do what its own
//! session may do, each act recorded, and nothing else.

mod acts;
mod forgery;
mod packets;
mod played;
mod socket;
mod taken_over;

use crate::ledger::{Ledger, reason};
use acts::{connections, heard_no_more, receipt, refused, served, with_gates};
use forgery::{claims, flipped, forge, pointing_at};
use packets::{CASES, Packet, Towards};
use played::PlayedNotary;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use taken_over::{Reply, endpoint, facts, to_notary};
use torno_audit::Event;
use torno_audit::record::EndCause;
use torno_notary_protocol::gate::{End, GateMessage, Outcome, Question, Ticket};
use torno_notary_protocol::receipt::{Receipt, ReceiptKey, VALID_MS};
use torno_notary_protocol::transit;
use torno_policy::decision::Reason;
use torno_policy::facts::{GitFacts, GitOperation};
use torno_policy::names::{CredentialName, RecordSeq, Scheme};
use torno_stage::world::{API, EVIL, GIT, OTHER};

// ATTACK: 161
#[test]
fn a_receipt_is_good_for_its_gate_its_endpoint_its_time_and_once() {
    with_gates(
        "receipts at a hostile gate",
        |stage, [gate, other]: [_; 2]| {
            let why = Reason::ReceiptInvalid;
            served(stage, &gate);
            // Each act with a receipt of its own, so that none is refused for its age.
            let both = |case: &str, make: &dyn Fn() -> Receipt| {
                let made = make();
                refused(stage, &gate, (case, why), || gate.unlock(&made));
                let made = make();
                refused(stage, &gate, (case, why), || gate.dial(&made));
            };
            let fresh = || receipt(&gate);
            for wrong in [
                endpoint(Scheme::Https, EVIL, 443),
                endpoint(Scheme::Https, API, 8443),
                endpoint(Scheme::Http, API, 443),
            ] {
                both("wrong endpoint", &|| pointing_at(&fresh(), &wrong));
            }
            both("tag flipped", &|| forge(&fresh(), flipped));
            both("no tag", &|| {
                forge(&fresh(), |claims, _| format!("{claims}."))
            });
            // No record stands behind it: made without asking, or by another daemon.
            let own = ReceiptKey::new([7; 32]);
            let forged = || own.seal(&claims(&fresh())).unwrap();
            both("unlock before record, by a key of one's own", &forged);
            both("another session's", &|| receipt(&other));
            both("expired", &|| {
                let late = fresh();
                std::thread::sleep(Duration::from_millis(VALID_MS + 100));
                late
            });
            let page = gate.ask(facts(OTHER, "/page"), false).allowed();
            let unlock = || gate.unlock(page.receipt.as_ref().unwrap());
            refused(stage, &gate, ("a page without credential", why), unlock);

            served(stage, &other);
            served(stage, &gate);
            heard_no_more(stage, &gate);
            heard_no_more(stage, &other);
        },
    );
}

#[test]
fn a_receipt_that_was_used_is_used_up() {
    with_gates(
        "receipts twice at a hostile gate",
        |stage, [gate]: [_; 1]| {
            let why = Reason::ReceiptInvalid;
            let used = receipt(&gate);
            assert!(matches!(gate.unlock(&used), Reply::Unlocked(_)));
            refused(stage, &gate, ("unlocked twice", why), || gate.unlock(&used));
            let used = receipt(&gate);
            assert!(matches!(gate.dial(&used), Reply::Dialed(_)));
            // The journal has the first connection when its far end accepted it.
            std::thread::sleep(Duration::from_millis(300));
            refused(stage, &gate, ("dialled twice", why), || gate.dial(&used));
            heard_no_more(stage, &gate);
        },
    );
}

#[test]
fn a_gate_gets_no_credential_that_its_session_was_not_granted() {
    with_gates(
        "questions of a hostile gate",
        |stage, [gate, other]: [_; 2]| {
            let stolen = other.api("/v1/me");
            let mut plans = facts(
                GIT,
                "/acme/secret-plans.git/info/refs?service=git-upload-pack",
            );
            plans.git = Some(GitFacts {
                repository: "/acme/secret-plans".to_owned(),
                operation: GitOperation::DiscoverFetch,
            });
            let cases = [
                (
                    "a host that is not granted",
                    facts(EVIL, "/"),
                    Reason::HostNotGranted,
                ),
                (
                    "another session's placeholder",
                    stolen,
                    Reason::PlaceholderUnknown,
                ),
                (
                    "the credential at another granted host",
                    gate.presenting(facts(OTHER, "/")),
                    Reason::CredentialEndpointMismatch,
                ),
                (
                    "a path beside the binding",
                    gate.api("/v1/keys"),
                    Reason::PathNotGranted,
                ),
                (
                    "a repository beside the grant",
                    plans,
                    Reason::GitNotGranted,
                ),
            ];
            for (case, facts, why) in cases {
                for pooled in [true, false] {
                    let ask = || gate.ask(facts.clone(), pooled);
                    refused(stage, &gate, (case, why), ask);
                }
            }
            // A report about another session's request, and about one that nobody made.
            let foreign = other.ask(other.api("/v1/me"), false).allowed().record;
            for record in [foreign, RecordSeq(u64::MAX)] {
                let mark = gate.ledger.mark();
                let report = GateMessage::Report(vec![outcome(record)]);
                let report = transit::encode_compact(&report, &[]);
                assert!(gate.notary.say(&report.unwrap(), &[]));
                let said = reason(&gate.ledger.one(mark));
                assert_eq!(said, Some(Reason::SessionUnknown));
            }
            served(stage, &gate);
            heard_no_more(stage, &gate);
            heard_no_more(stage, &other);
        },
    );
}

fn outcome(record: RecordSeq) -> Outcome {
    Outcome {
        record,
        end: End::Completed { status: 200 },
        sent_bytes: 0,
        received_bytes: 0,
        reflected: 0,
        carried: 0,
        cookies: Vec::new(),
        address: None,
        resolved_by_proxy: false,
    }
}

// ATTACK: 155
#[test]
fn a_gate_that_outlived_its_session_gets_nothing() {
    with_gates(
        "a gate after its end",
        |stage, [killed, ended, other]: [_; 3]| {
            for (gate, command, why) in [
                (
                    &killed,
                    ["kill", &killed.session].as_slice(),
                    Reason::SessionKilled,
                ),
                (
                    &ended,
                    &["session", "stop", &ended.session],
                    Reason::SessionEnded,
                ),
            ] {
                served(stage, gate);
                let before = receipt(gate);
                let reached = connections(stage);
                stage.torno(command).good();
                let ask = |pooled| gate.ask(gate.api("/v1/me"), pooled);
                refused(stage, gate, ("ask", why), || ask(false));
                refused(stage, gate, ("ask for the credential", why), || ask(true));
                let invalid = ("unlock", Reason::ReceiptInvalid);
                refused(stage, gate, invalid, || gate.unlock(&before));
                // The dialer dropped it with its process, though its socket lives on here.
                let dialed = gate.dial(&before);
                assert!(matches!(dialed, Reply::Closed), "{dialed:?}");
                assert_eq!(connections(stage), reached);
                heard_no_more(stage, gate);
            }
            served(stage, &other);
        },
    );
}

#[test]
fn a_gate_of_no_session_gets_nothing_even_with_the_receipt_key() {
    let notary = PlayedNotary::start();
    let session = "nosuchsessionnosuchsession";
    let ledger = Ledger::new(notary.record(), session);
    let gate = notary.gate(session);
    let question = |pooled| {
        let facts = facts(OTHER, "/page");
        let ticket = Ticket(1);
        let question = Question {
            ticket,
            facts,
            pooled,
            serves: None,
            watch: 0,
        };
        GateMessage::Ask(vec![question])
    };
    // Made when it is used: two seconds are short on a machine under load.
    let unlock = || GateMessage::Unlock {
        ticket: Ticket(2),
        receipt: notary.receipt(session),
    };
    let messages: [&dyn Fn() -> GateMessage; 3] =
        [&|| question(false), &|| question(true), &unlock];
    for message in messages {
        let mark = ledger.mark();
        let said = to_notary(&gate, &message()).refused();
        assert_eq!(said, Reason::SessionUnknown);
        assert_eq!(reason(&ledger.one(mark)), Some(said));
    }
    notary.end();
}

#[test]
fn what_is_no_message_is_one_record_and_the_end_of_that_gate() {
    for Packet { name, make } in CASES {
        with_gates(name, |stage, [first, gate, other]: [_; 3]| {
            let file = std::fs::File::open("/dev/null").unwrap();
            let is_end = |said: &Event| {
                let died = EndCause::RoleDied;
                matches!(said, Event::SessionEnded { cause, .. } if *cause == died)
            };
            // Without a notary a gate ends at once, and its session with it.
            for (towards, gate, socket, records) in [
                (Towards::Notary, &first, &first.notary, 2),
                (Towards::Dialer, &gate, &gate.dialer, 1),
            ] {
                let case = format!("{name} {towards:?}");
                let (mark, reached) = (gate.ledger.mark(), connections(stage));
                let (bytes, gives) = make(gate, towards);
                let give = [file.as_fd()];
                let give = if gives { &give[..] } else { &[] };
                assert!(socket.say(&bytes, give), "{case}");
                assert!(socket.is_closed(), "{case}: not cut off");
                let said = gate.ledger.wait_for(mark, records);
                let first = said.first().and_then(reason);
                assert_eq!(first, Some(Reason::MalformedRequest), "{case}");
                assert!(said.iter().skip(1).all(is_end), "{case}: {said:?}");
                assert_eq!(connections(stage), reached, "{case}");
            }
            heard_no_more(stage, &first);
            // The desk has such a session ended: its record is the end.
            let mark = gate.ledger.mark();
            let (bytes, gives) = make(&gate, Towards::Desk);
            let give = [file.as_fd()];
            let give = if gives { &give[..] } else { &[] };
            assert!(gate.desk.say(&bytes, give), "{name}");
            let said = gate.ledger.one(mark);
            assert!(is_end(&said), "{name}: {said:?}");
            heard_no_more(stage, &gate);
            served(stage, &other);
        });
    }
}

// ATTACK: 163, 216
#[test]
fn a_flood_costs_its_own_session_and_nobody_else() {
    with_gates(
        "floods of a hostile gate",
        |stage, [gate, deaf, other]: [_; 3]| {
            // Bad receipts, without end: so many alarms, and the dialer serves it no more.
            let bad = forge(&receipt(&gate), |claims, _| format!("{claims}.AAAA"));
            let mark = gate.ledger.mark();
            let mut refused = 0;
            while let Reply::Refused(_) = gate.dial(&bad) {
                refused += 1;
                assert!(refused < 1_000, "the dialer never has enough");
            }
            gate.ledger.wait_for(mark, refused);
            served(stage, &other);

            // Questions, without end, by one who reads no answer: it is let go, and what it had sent by
            // then is nobody's.
            let mark = deaf.ledger.mark();
            let question = Question {
                ticket: Ticket(1),
                facts: facts(EVIL, "/"),
                pooled: true,
                serves: CredentialName::parse("api").ok(),
                watch: 0,
            };
            let many = GateMessage::Ask(vec![question; 64]);
            let many = transit::encode_compact(&many, &[]).unwrap();
            let end = Instant::now() + Duration::from_secs(120);
            let mut waits = Vec::new();
            while !deaf.notary.is_hung_up() {
                assert!(Instant::now() < end, "it is never let go");
                if deaf.notary.try_say(&many, &[]) {
                    continue;
                }
                if waits.len() < 5 {
                    let began = Instant::now();
                    let _ = receipt(&other);
                    waits.push(began.elapsed());
                }
            }
            let cut = |event: &Event| matches!(event, Event::RequestRefused(refused) if refused.reason == Reason::LimitReached);
            let alarms = deaf.ledger.since(mark).iter().filter(|e| cut(e)).count();
            assert_eq!(alarms, 1);
            assert_eq!(deaf.ledger.nobodys(mark), 0);
            assert!(
                waits.iter().all(|wait| *wait < Duration::from_secs(5)),
                "{waits:?}"
            );
            served(stage, &other);
            heard_no_more(stage, &gate);
            heard_no_more(stage, &deaf);
        },
    );
}
