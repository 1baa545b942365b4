// SPDX-License-Identifier: Apache-2.0
//! The stub's answers, question by question, and hostile ones.

use hickory_proto::rr::rdata::opt::{EdnsCode, EdnsOption};
use proptest::prelude::*;

use super::*;

fn question(name: &str, record_type: RecordType) -> Message {
    let mut message = Message::new(7, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), record_type));
    message
}

fn ask(message: &Message, names: &mut NamePool) -> Message {
    let reply = answer(&message.to_vec().unwrap(), names).unwrap();
    Message::from_vec(&reply).unwrap()
}

fn address(name: &str, names: &mut NamePool) -> Option<Ipv4Addr> {
    let reply = ask(&question(name, RecordType::A), names);
    reply.answers.first().map(|record| match record.data {
        RData::A(A(address)) => address,
        ref other => panic!("{other:?}"),
    })
}

#[test]
fn each_name_gets_its_own_address_and_keeps_it() {
    let mut names = NamePool::new();
    let first = address("api.example.org.", &mut names).unwrap();
    let second = address("example.org.", &mut names).unwrap();
    assert_eq!(first, Ipv4Addr::new(198, 18, 0, 2));
    assert_eq!(second, Ipv4Addr::new(198, 18, 0, 3));
    assert_eq!(address("API.Example.ORG.", &mut names), Some(first));
    assert_eq!(names.name_of(first), Some("api.example.org"));
    assert_eq!(names.name_of(second), Some("example.org"));
    for other in [
        "198.18.0.0",
        "198.18.0.1",
        "198.18.0.4",
        "198.18.0.255",
        "198.17.255.255",
    ] {
        assert_eq!(names.name_of(other.parse().unwrap()), None);
    }
}

#[test]
fn other_types_are_empty_and_use_no_address() {
    let mut names = NamePool::new();
    for record_type in [
        RecordType::AAAA,
        RecordType::HTTPS,
        RecordType::SVCB,
        RecordType::TXT,
        RecordType::MX,
        RecordType::SRV,
        RecordType::ANY,
        RecordType::PTR,
        RecordType::Unknown(65_000),
    ] {
        let reply = ask(&question("a.example.org.", record_type), &mut names);
        assert_eq!(
            reply.metadata.response_code,
            ResponseCode::NoError,
            "{record_type}"
        );
        assert!(reply.answers.is_empty() && reply.authorities.is_empty());
        assert_eq!(reply.queries.len(), 1);
    }
    assert_eq!(names.names.len(), 0);
}

#[test]
fn localhost_is_the_loopback_and_takes_nothing_from_the_pool() {
    let mut names = NamePool::new();
    assert_eq!(address("localhost.", &mut names), Some(Ipv4Addr::LOCALHOST));
    assert_eq!(
        address("x.LocalHost.", &mut names),
        Some(Ipv4Addr::LOCALHOST)
    );
    assert_eq!(names.names.len(), 0);
}

#[test]
fn names_that_cannot_be_hosts_do_not_exist() {
    let mut names = NamePool::new();
    for labels in [
        &[&b"a b"[..], b"org"][..],
        &[b"a.b", b"org"],
        &[b"\0", b"org"],
        &[b"\xc3\xa4", b"org"],
        &[b"*", b"org"],
        &[b"127", b"0", b"0", b"1"],
        &[b"host", b"0x7f"],
        &[],
    ] {
        // Written by hand: the library's own names are too well behaved.
        let mut query = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in labels {
            query.push(u8::try_from(label.len()).unwrap());
            query.extend_from_slice(label);
        }
        query.extend_from_slice(&[0, 0, 1, 0, 1]);
        let reply = Message::from_vec(&answer(&query, &mut names).unwrap()).unwrap();
        assert_eq!(
            reply.metadata.response_code,
            ResponseCode::NXDomain,
            "{labels:?}"
        );
        assert!(reply.answers.is_empty());
    }
    assert_eq!(names.names.len(), 0);
}

#[test]
fn a_full_pool_fails_without_reusing_an_address() {
    let mut names = NamePool::new();
    let mut seen = std::collections::BTreeSet::new();
    for number in 0..NAMES_MAX {
        assert!(seen.insert(names.address_of(&format!("n{number}.example")).unwrap()));
    }
    let reply = ask(&question("one-more.example.", RecordType::A), &mut names);
    assert_eq!(reply.metadata.response_code, ResponseCode::ServFail);
    assert_eq!(
        address("n0.example.", &mut names),
        Some(Ipv4Addr::new(198, 18, 0, 2))
    );
    let (least, most) = (seen.first().unwrap(), seen.last().unwrap());
    assert!(*least > Ipv4Addr::new(198, 18, 0, 1) && *most < Ipv4Addr::new(198, 19, 255, 255));
    assert!(
        seen.iter()
            .all(|address| !matches!(address.octets()[3], 0 | 255))
    );
}

#[test]
fn odd_questions_get_safe_answers() {
    let mut names = NamePool::new();
    let mut two = question("a.example.", RecordType::A);
    two.add_query(Query::query(
        Name::from_ascii("b.example.").unwrap(),
        RecordType::A,
    ));
    assert_eq!(
        ask(&two, &mut names).metadata.response_code,
        ResponseCode::FormErr
    );

    let none = Message::new(7, MessageType::Query, OpCode::Query);
    assert_eq!(
        ask(&none, &mut names).metadata.response_code,
        ResponseCode::FormErr
    );

    let mut chaos = question("version.bind.", RecordType::TXT);
    chaos.queries[0].set_query_class(DNSClass::CH);
    assert_eq!(
        ask(&chaos, &mut names).metadata.response_code,
        ResponseCode::Refused
    );

    let transfer = question("example.", RecordType::AXFR);
    assert_eq!(
        ask(&transfer, &mut names).metadata.response_code,
        ResponseCode::Refused
    );

    for op_code in [OpCode::Status, OpCode::Notify, OpCode::Update] {
        let mut message = question("a.example.", RecordType::A);
        message.metadata.op_code = op_code;
        let reply = answer(&message.to_vec().unwrap(), &mut names).unwrap();
        assert_eq!(reply[3] & 0x0f, ResponseCode::NotImp.low(), "{op_code:?}");
    }

    let mut loaded = question("a.example.", RecordType::A);
    let data = RData::A(A(Ipv4Addr::LOCALHOST));
    loaded.add_answer(Record::from_rdata(
        Name::from_ascii("a.example.").unwrap(),
        1,
        data,
    ));
    assert_eq!(
        ask(&loaded, &mut names).metadata.response_code,
        ResponseCode::FormErr
    );
    assert_eq!(names.names.len(), 0);
}

#[test]
fn extensions_are_answered_and_their_options_ignored() {
    let mut names = NamePool::new();
    let mut message = question("a.example.", RecordType::A);
    let mut edns = Edns::new();
    edns.set_max_payload(4096);
    edns.options_mut()
        .insert(EdnsOption::Unknown(EdnsCode::Cookie.into(), vec![1; 8]));
    message.set_edns(edns.clone());
    let reply = ask(&message, &mut names);
    assert_eq!(reply.answers.len(), 1);
    assert!(
        reply
            .edns
            .is_some_and(|edns| edns.options().as_ref().is_empty())
    );

    edns.set_version(9);
    message.set_edns(edns);
    let reply = ask(&message, &mut names);
    assert_eq!(
        reply.metadata.response_code.low(),
        ResponseCode::BADVERS.low()
    );
    assert!(reply.answers.is_empty());
}

#[test]
fn answers_short_and_endless_messages_get_silence() {
    let mut names = NamePool::new();
    let mut response = question("a.example.", RecordType::A);
    response.metadata.message_type = MessageType::Response;
    assert_eq!(answer(&response.to_vec().unwrap(), &mut names), None);
    assert_eq!(answer(&[], &mut names), None);
    assert_eq!(answer(&[0; 11], &mut names), None);
    assert_eq!(answer(&[0; QUERY_BYTES_MAX + 1], &mut names), None);
}

#[test]
fn a_name_that_points_at_itself_is_malformed() {
    let mut names = NamePool::new();
    let query = [0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1];
    let reply = answer(&query, &mut names).unwrap();
    assert_eq!(reply[3] & 0x0f, ResponseCode::FormErr.low());
}

proptest! {
    #[test]
    fn garbage_never_panics(input in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzz_dns(&input);
    }

    #[test]
    fn a_damaged_question_never_panics(at in any::<prop::sample::Index>(), to in any::<u8>(), name in "[a-z0-9.-]{1,60}") {
        let mut message = Message::new(7, MessageType::Query, OpCode::Query);
        message.set_edns(Edns::new());
        if let Ok(name) = Name::from_ascii(&name) {
            message.add_query(Query::query(name, RecordType::A));
        }
        let mut query = message.to_vec().unwrap();
        let at = at.index(query.len());
        query[at] = to;
        fuzz_dns(&query);
    }

    #[test]
    fn addresses_and_places_are_one_to_one(index in 0..NAMES_MAX) {
        prop_assert_eq!(index_of(address_at(index)), Some(index));
    }
}
