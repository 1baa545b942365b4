// SPDX-License-Identifier: Apache-2.0
//! Host spellings: what is one host, and what is refused.

use super::*;

fn check(text: &str, expected: Result<&str, HostError>) {
    let got = Host::parse(text).map(|host| host.to_string());
    assert_eq!(got, expected.map(str::to_owned), "{text:?}");
}

#[test]
fn canonical_hosts_are_kept() {
    for text in [
        "allow.test",
        "a",
        "xn--bcher-kva.example",
        "r3---sn-x.example.com",
        "127.0.0.1",
    ] {
        check(text, Ok(text));
    }
    check("a_b.example.com", Ok("a_b.example.com"));
}

#[test]
fn case_and_one_trailing_dot_are_folded() {
    check("ALLOW.Test", Ok("allow.test"));
    check("allow.test.", Ok("allow.test"));
    check("XN--BCHER-KVA.example.", Ok("xn--bcher-kva.example"));
}

// ATTACK: 001, 003, 010, 011
#[test]
fn foreign_bytes_in_a_host_are_refused() {
    for text in [
        "evil.test\0.allow.test",
        "allow.test:x@evil.test",
        "allow.test@evil.test",
        "%65vil.test",
        "allow%2etest",
        "allow.test/secret",
        "allow.test\\evil",
        "allow.test?x",
        "allow.test#x",
        "allow.test ",
        " allow.test",
        "allow.test\t",
        "allow.test\r\n",
        "bücher.example",
        "allow\u{3002}test",
        "a,b",
        "::1",
        "_x.test",
    ] {
        check(text, Err(HostError::Character));
    }
}

// ATTACK: 004
#[test]
fn dots_that_make_empty_labels_are_refused() {
    for text in ["allow.test..", ".allow.test", "a..b", "-a.test", "a-.test"] {
        check(text, Err(HostError::Label));
    }
    check(".", Err(HostError::Length));
    check("", Err(HostError::Length));
    check("127.0.0.1.", Err(HostError::Address));
}

// ATTACK: 005
#[test]
fn a_longer_name_is_another_host() {
    let rule = Host::parse("allow.test");
    for text in [
        "allow.test.evil.test",
        "xallow.test",
        "notallow.test",
        "allow.tes",
    ] {
        assert_ne!(Host::parse(text), rule, "{text}");
    }
}

// ATTACK: 007
#[test]
fn punycode_that_hides_plain_ascii_is_refused() {
    for text in [
        "xn--allow-.test",
        "allow.test.xn--",
        "xn--.test",
        "xn--a-.test",
        "xn--zzzzzz.test",
    ] {
        let got = Host::parse(text);
        assert!(got.is_err(), "{text} became {got:?}");
    }
    check("xn--allow-ge.test", Err(HostError::Punycode));
    check("xn--BCHER-KVb.test", Err(HostError::Punycode));
}

// ATTACK: 009
#[test]
fn brackets_hold_an_ipv6_address_and_nothing_else() {
    check("[::1]", Ok("[::1]"));
    check("[0:0:0:0:0:0:0:1]", Ok("[::1]"));
    check("[2001:DB8::A]", Ok("[2001:db8::a]"));
    for text in [
        "[allow.test]",
        "[::1",
        "[fe80::1%25lo]",
        "[fe80::1%lo]",
        "[127.0.0.1]",
        "[]",
        "[[::1]]",
        "[::1].test",
        "[v1.x]",
        "[::1]:443",
        "[ ::1]",
    ] {
        check(text, Err(HostError::Address));
    }
}

#[test]
fn odd_spellings_of_ipv4_are_refused() {
    for text in [
        "127.1",
        "0x7f.1",
        "0x7f000001",
        "2130706433",
        "010.0.0.1",
        "127.0.0.01",
        "1.2.3",
        "1.2.3.4.5",
        "256.0.0.1",
        "1.2.3.0x4",
        "0x",
        "1.2.3.4.",
        "a.1",
        "allow.0X7F",
    ] {
        check(text, Err(HostError::Address));
    }
}

#[test]
fn lengths_are_bounded() {
    let label = "a".repeat(63);
    check(&format!("{label}.test"), Ok(&format!("{label}.test")));
    check(&format!("{label}a.test"), Err(HostError::Label));
    let name = [label.as_str(), &label, &label, &"a".repeat(61)].join(".");
    assert_eq!(name.len(), 253);
    check(&name, Ok(&name));
    check(&format!("{name}a"), Err(HostError::Length));
    check(&"a.".repeat(100_000), Err(HostError::Length));
}

#[test]
fn serde_takes_the_canonical_spelling_only() {
    assert!(serde_json::from_str::<Host>("\"allow.test\"").is_ok());
    for text in ["\"Allow.test\"", "\"allow.test.\"", "\"[0::1]\"", "\"a b\""] {
        assert!(serde_json::from_str::<Host>(text).is_err(), "{text}");
    }
}
