// SPDX-License-Identifier: Apache-2.0
//! First packets as clients and attackers send them.

use super::*;

fn start(version: u32, pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut body = Vec::new();
    for text in pairs.iter().flat_map(|(name, value)| [name, value]) {
        body.extend_from_slice(text.as_bytes());
        body.push(0);
    }
    body.push(0);
    packet(version, &body)
}

fn read_start(pairs: &[(&str, &str)]) -> Result<Startup, Fault> {
    let packet = start(PROTOCOL_3_0, pairs);
    match read(&packet)? {
        Some((First::Start(startup), length)) => {
            assert_eq!(length, packet.len());
            Ok(startup)
        }
        other => panic!("{other:?}"),
    }
}

/// What psql 15 sends, byte for byte.
const PSQL: &[u8] = b"\0\0\0\x53\0\x03\0\0user\0app\0database\0shop\0application_name\0psql\0\
    client_encoding\0UTF8\0TimeZone\0UTC\0\0";

#[test]
fn a_recorded_start_is_read_and_written_again() {
    let mut packet = PSQL.to_vec();
    packet[3] = u8::try_from(packet.len()).unwrap();
    let (first, length) = read(&packet).unwrap().unwrap();
    assert_eq!(length, packet.len());
    let First::Start(startup) = first else {
        panic!("{first:?}")
    };
    assert_eq!(startup.login.user.as_str(), "app");
    assert_eq!(startup.login.database.as_str(), "shop");
    let written = startup.packet(&[]);
    assert_eq!(
        read(&written).unwrap(),
        Some((First::Start(startup), written.len()))
    );
    for cut in 0..packet.len() {
        assert_eq!(read(&packet[..cut]), Ok(None), "{cut}");
    }
}

#[test]
fn user_and_database_are_exact_and_named_once() {
    let only = read_start(&[("user", "app")]).unwrap();
    assert_eq!(only.login.database.as_str(), "app");
    for pairs in [
        &[("database", "shop")][..],
        &[("user", "app"), ("user", "admin")],
        &[("user", "app"), ("database", "shop"), ("database", "shop")],
        &[("user", "app\u{e9}")],
        &[("user", "app "), ("database", "shop")],
        // A connection string in the place of a name.
        &[("user", "app"), ("database", "dbname=shop user=admin")],
        &[("user", "app"), ("database", "postgres://admin@db/shop")],
        &[("user", "")],
    ] {
        assert!(read_start(pairs).is_err(), "{pairs:?}");
    }
}

#[test]
fn what_is_not_listed_does_not_reach_the_far_end() {
    for (name, value) in [
        ("options", "-c default_transaction_read_only=off"),
        ("replication", "true"),
        ("role", "admin"),
        ("default_transaction_read_only", "off"),
        ("_pq_.command", "1"),
        ("search_path", "x"),
        ("client_encoding", "SJIS"),
        ("client_encoding", "GBK"),
    ] {
        let refused = read_start(&[("user", "app"), (name, value)]).unwrap_err();
        assert_eq!(refused.reason, Reason::OperationNotGranted, "{name}");
    }
    let long = "x".repeat(129);
    for (name, value) in [("application_name", "a\nb"), ("TimeZone", long.as_str())] {
        assert!(
            read_start(&[("user", "app"), (name, value)]).is_err(),
            "{name}"
        );
    }
    let twice = [("user", "a"), ("TimeZone", "UTC"), ("timezone", "UTC")];
    assert!(read_start(&twice).is_err());
    for encoding in ["UTF8", "utf-8", "'utf-8'", "SQL_ASCII"] {
        let startup = read_start(&[("user", "a"), ("client_encoding", encoding)]).unwrap();
        assert!(startup.settings.is_empty());
    }
}

#[test]
fn only_first_packets_open_a_connection_of_postgresql() {
    assert_eq!(opens(&tls_request()), Some(true));
    assert_eq!(opens(b"\0\0"), None);
    assert_eq!(opens(b"\0\0\0\x08\x04\xd2\x16"), None);
    for wrong in [
        &b"GET / HT"[..],
        b"\x16\x03\x01\x02",
        b"\0\x01",
        b"\0\0\0\x07\x04\xd2\x16\x2f",
        b"\0\0\xff\xff\0\x03\0\0",
        b"\0\0\0\x09\0\x02\0\0\0",
        b"\0\0\0\0\0\0\0\0",
    ] {
        assert_eq!(opens(wrong), Some(false), "{wrong:?}");
    }
    assert!(read(&start(PROTOCOL_3_0 + 2, &[("user", "app")])).is_err());
    assert!(read(&packet(TLS, b"x")).is_err());
    assert!(read(&packet(CANCEL, b"1234567")).is_err());
    let key = CancelKey {
        process: 7,
        secret: 0xffff_fffe,
    };
    assert_eq!(read(&key.packet()), Ok(Some((First::Cancel(key), 16))));
}
