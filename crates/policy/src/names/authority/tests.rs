// SPDX-License-Identifier: Apache-2.0
//! Authorities: one port, no userinfo.

use super::*;

fn check(text: &str, expected: Option<&str>) {
    let got = Authority::parse(text, Scheme::Https)
        .ok()
        .map(|authority| authority.to_string());
    assert_eq!(got.as_deref(), expected, "{text:?}");
}

#[test]
fn a_missing_port_is_the_schemes() {
    check("allow.test", Some("allow.test:443"));
    check("[::1]", Some("[::1]:443"));
    let plain = Authority::parse("allow.test", Scheme::Http).map(|authority| authority.port);
    assert_eq!(plain, Ok(Port::HTTP));
}

// ATTACK: 014
#[test]
fn a_malformed_port_is_refused() {
    check("allow.test:8443", Some("allow.test:8443"));
    for port in [
        "",
        "0",
        "443x",
        "+443",
        "-1",
        "65536",
        "0443",
        " 443",
        "443 ",
        "٤٤٣",
        "99999999999",
    ] {
        check(&format!("allow.test:{port}"), None);
    }
    check("[::1]:", None);
    check("[::1]x", None);
    check("[::1]443", None);
}

// ATTACK: 003, 019
#[test]
fn userinfo_is_refused() {
    for text in [
        "allow.test:x@evil.test",
        "a@b",
        "allow.test:443@evil.test:443",
        "@",
        ":443",
        "",
    ] {
        check(text, None);
    }
}

// ATTACK: 014
#[test]
fn connect_needs_its_port() {
    assert_eq!(
        Authority::parse_with_port("allow.test"),
        Err(AuthorityError::Port)
    );
    assert_eq!(
        Authority::parse_with_port("[::1]"),
        Err(AuthorityError::Port)
    );
    let full = Authority::parse_with_port("Allow.test.:443").map(|authority| authority.to_string());
    assert_eq!(full.as_deref(), Ok("allow.test:443"));
}
