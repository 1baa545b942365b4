// SPDX-License-Identifier: Apache-2.0
use super::samples::{self, KINDS, entry, every_event, kind};
use super::*;
use crate::line::{self, LINE_BYTES_MAX, LineError, Record};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeSet;
use torno_policy::decision::{Decision, Refusal};
use torno_policy::facts::{self, RequestFacts};
use torno_policy::names::{Method, RequestPath, RuleName};

fn printed(seq: u64, event: Event) -> String {
    let record = Record {
        seq: RecordSeq(seq),
        entry: entry(event),
    };
    String::from_utf8(line::print(&record)).unwrap()
}

#[test]
fn the_bytes_of_one_record_of_each_kind_are_pinned() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/record.jsonl");
    let lines: Vec<String> = (0..)
        .zip(every_event())
        .map(|(n, e)| printed(n, e))
        .collect();
    let text = lines.join("\n") + "\n";
    if std::env::var_os("TORNO_GOLDEN").is_some_and(|how| how == "write") {
        std::fs::write(path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), text);
}

#[test]
fn there_is_a_sample_of_every_kind_and_it_reads_back() {
    let mut kinds = BTreeSet::new();
    for (seq, event) in (0..).zip(every_event()) {
        kinds.insert(kind(&event));
        let text = printed(seq, event.clone());
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["event"]["kind"], kind(&event));
        let read = line::parse(text.as_bytes()).unwrap();
        assert_eq!(read.entry.event, event);
        assert_eq!(line::print(&read), text.as_bytes());
    }
    assert_eq!(kinds.len(), KINDS);
}

// ATTACK: 217
#[test]
fn every_field_of_every_kind_is_required_and_no_other_is_taken() {
    for event in every_event() {
        let whole: Value = serde_json::from_str(&printed(1, event)).unwrap();
        for place in places(&whole, &[]) {
            let mut less = whole.clone();
            let field = place.last().unwrap().clone();
            object(&mut less, &place).remove(&field);
            refused(&less, &place);
            let mut more = whole.clone();
            object(&mut more, &place).insert("authorization".into(), "Bearer x".into());
            refused(&more, &place);
        }
    }
}

fn refused(value: &Value, place: &[String]) {
    let text = serde_json::to_vec(value).unwrap();
    // `session` is the one field that may be absent: a record of no session.
    if place != ["session"] || value.get("authorization").is_some() {
        assert!(line::parse(&text).is_err(), "{place:?} {value}");
    }
}

/// Paths of all fields of nested objects.
fn places(value: &Value, at: &[String]) -> Vec<Vec<String>> {
    let Value::Object(fields) = value else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for (name, inner) in fields {
        let mut place = at.to_vec();
        place.push(name.clone());
        all.extend(places(inner, &place));
        all.push(place);
    }
    all
}

fn object<'v>(value: &'v mut Value, place: &[String]) -> &'v mut serde_json::Map<String, Value> {
    let (_, parents) = place.split_last().unwrap();
    let mut inner = value;
    for name in parents {
        inner = &mut inner[name];
    }
    inner.as_object_mut().unwrap()
}

#[test]
fn another_spelling_of_a_record_is_refused() {
    let text = printed(4, Event::SessionKilled);
    let spellings = [
        text.replace(':', ": "),
        text.replace("session_killed", "session\\u005fkilled"),
        text.replace("\"seq\":4", "\"seq\":4,\"seq\":4"),
        text.replace("\"seq\":4", "\"seq\":4.0"),
        text.replace("\"seq\":4", "\"seq\":04"),
        format!("{text} "),
        format!("\u{feff}{text}"),
        text.replace("\"session\":\"s1\"", "\"session\":null"),
    ];
    for spelling in spellings {
        assert_ne!(spelling, text);
        assert!(line::parse(spelling.as_bytes()).is_err(), "{spelling}");
    }
    assert!(line::parse(text.as_bytes()).is_ok());
}

// ATTACK: 217
#[test]
fn a_secret_in_query_header_name_or_hint_has_no_way_into_the_record() {
    const SECRET: &str = "SEC-0123456789abcdef";
    let target = format!("/v1/items?token={SECRET}");
    let facts = RequestFacts {
        entry: facts::Entry::Connect,
        endpoint: samples::endpoint(),
        method: Method::parse("GET").unwrap(),
        path: RequestPath::parse(&target).unwrap(),
        websocket: false,
        presented: Vec::new(),
        own_credentials: vec![format!("x-{SECRET}")],
        git: None,
        content: None,
        body: None,
    };
    let refusal = Refusal {
        reason: Reason::HostNotGranted,
        layer: Layer::Session,
        rule: RuleName::new("default"),
        hint: SECRET.to_owned(),
    };
    let event = crate::RequestDecided::of(&facts, &Decision::Deny(refusal));
    assert_eq!(event.query_bytes, Some(6 + 20));
    assert_eq!(event.reason, Some(Reason::HostNotGranted));
    let text = printed(1, Event::RequestDecided(Box::new(event)));
    assert!(!text.contains(SECRET), "{text}");
    assert!(text.contains("/v1/items"));
}

// ATTACK: 218
#[test]
fn the_largest_event_of_each_kind_is_one_bounded_line() {
    let huge = "\\\u{2028}\"".repeat(4 << 20);
    let hostile = || List::new((0..100_000).map(|_| ShortText::new("\\\"".repeat(200))));
    let argv = List::new((0..1000).map(|_| LongText::new("\"".repeat(5000))));
    let mut decided = samples::request_decided();
    decided.path = LongText::new(&huge);
    decided.rule = ShortText::new(&huge);
    let events = [
        Event::CommandStarted {
            exec: u64::MAX,
            argv,
            source: Source::GuestReported,
        },
        Event::KillCompleted {
            processes: u32::MAX,
            leftovers: hostile(),
            cut: u32::MAX,
        },
        Event::RequestDecided(Box::new(decided)),
        Event::Hidden {
            place: LongText::new(&huge),
            shape: ShortText::new(&huge),
        },
        Event::BindingSet(Box::new(crate::record::BindingSet {
            paths: hostile(),
            denied: List::new((0..100_000).map(|_| ShortText::new("\\\"".repeat(200)))),
            slot: ShortText::new(&huge),
            ..samples::binding_set()
        })),
    ];
    for event in events {
        let text = printed(u64::MAX, event.clone());
        assert!(text.len() < 80 << 10, "{}", text.len());
        assert!(!text.contains('\n'));
        assert_eq!(line::parse(text.as_bytes()).unwrap().entry.event, event);
    }
}

#[test]
fn a_line_over_the_bound_is_refused_unread() {
    let long = vec![b' '; LINE_BYTES_MAX + 1];
    assert_eq!(line::parse(&long), Err(LineError::Length));
}

// ATTACK: 212
#[test]
fn a_forged_line_inside_a_field_stays_inside_it() {
    let forged = printed(9, Event::SessionKilled);
    let texts = [
        format!("x\n{forged}\n"),
        format!("x\r{forged}"),
        format!("x\u{2028}{forged}\u{2029}"),
        format!("x\0{forged}"),
        format!("x\u{85}{forged}"),
        format!("\"}}}}\n{forged}"),
        "\u{1b}[2J\u{202e}gpj.exe".to_owned(),
    ];
    for text in texts {
        let event = Event::Hidden {
            place: LongText::new(&text),
            shape: ShortText::new(&text),
        };
        let line = printed(5, event.clone());
        assert_eq!(line.lines().count(), 1);
        assert!(!line.contains(['\0', '\r', '\u{1b}', '\u{85}', '\u{2028}', '\u{202e}']));
        assert_eq!(line::parse(line.as_bytes()).unwrap().entry.event, event);
    }
}

#[test]
fn ends_and_kills_are_final_and_acts_are_not() {
    let finals: Vec<&str> = every_event()
        .iter()
        .filter(|event| event.is_final())
        .map(kind)
        .collect();
    let expected = [
        "session_ended",
        "session_killed",
        "kill_completed",
        "budget_frozen",
        "tripwire_seen",
        "vault_sealed",
    ];
    assert_eq!(finals, expected);
}

proptest! {
    #[test]
    fn parse_of_print_is_the_same_record(
        seq in any::<u64>(),
        at_ms in any::<u64>(),
        with_session in any::<bool>(),
        which in 0..KINDS,
        text in any::<Vec<u8>>(),
        wide in ".*",
    ) {
        let mut event = every_event().swap_remove(which);
        match &mut event {
            Event::Hidden { place, shape } => {
                *place = LongText::new(&text);
                *shape = ShortText::new(&wide);
            }
            Event::RequestDecided(decided) => decided.path = LongText::new(&wide),
            Event::RequestRefused(refused) => refused.target = ShortText::new(&text),
            Event::CommandStarted { argv, .. } => {
                *argv = List::new(text.chunks(3).map(LongText::new));
            }
            _ => {}
        }
        let session = with_session.then(|| samples::session("s9"));
        let record = Record { seq: RecordSeq(seq), entry: Entry { at_ms, session, event } };
        let line = line::print(&record);
        prop_assert!(!line.contains(&b'\n'));
        prop_assert_eq!(line::parse(&line), Ok(record));
    }

    #[test]
    fn no_bytes_make_the_reader_panic_or_break_its_promise(bytes in any::<Vec<u8>>()) {
        prop_assert!(crate::fuzz_reader(&bytes));
    }
}

#[test]
fn what_was_said_where_a_rule_judges_it_is_written_down_and_nowhere_else() {
    use torno_policy::facts::{Content, RpcMethod};
    let plain = samples::request_decided();
    let text = printed(1, Event::RequestDecided(Box::new(plain.clone())));
    assert!(!text.contains("content"), "{text}");
    let said = (0..40).filter_map(|at| RpcMethod::parse(&format!("tools/{at}")));
    let mut decided = plain;
    decided.content = Some(crate::ContentNote::of(&Content::Jsonrpc(said.collect())));
    let text = printed(1, Event::RequestDecided(Box::new(decided)));
    let start = "\"content\":{\"jsonrpc\":{\"count\":40,\"first\":[\"tools/0\",";
    assert!(text.contains(start) && !text.contains("tools/32"), "{text}");
    assert!(line::parse(text.as_bytes()).is_ok());
}
