// SPDX-License-Identifier: Apache-2.0
#![expect(clippy::cast_possible_truncation, reason = "small random numbers")]

use super::*;
use crate::head::HeadScan;
use torno_policy::facts::Entry;
use torno_policy::names::{Authority, Scheme};

fn arrival() -> Arrival {
    Arrival {
        entry: Entry::Captured,
        scheme: Scheme::Https,
        asked: Asked::Name(Authority::parse("allow.test", Scheme::Https).unwrap()),
        disagreement: None,
    }
}

fn read(bytes: &[u8]) -> Result<Request, Fault> {
    let end = HeadScan::default()
        .end(bytes)?
        .ok_or(Fault::malformed("cut"))?;
    let head = Head::parse(&bytes[..end])?;
    normalize(RawRequest {
        arrival: &arrival(),
        head,
    })
}

fn reason(bytes: &[u8]) -> Option<Reason> {
    read(bytes).err().map(|fault| {
        assert_ne!(fault.hint, "cut", "{}", bytes.escape_ascii());
        fault.reason
    })
}

const MALFORMED: Option<Reason> = Some(Reason::MalformedRequest);

#[test]
fn odd_request_lines_are_refused() {
    // ATTACK: 003, 038, 043, 055, 059, 073, 075, 077, 080
    let bad_path = Some(Reason::BadPath);
    let bad_method = Some(Reason::BadMethod);
    let cases: &[(&str, Option<Reason>)] = &[
        ("", MALFORMED),
        ("GET", MALFORMED),
        ("GET /", MALFORMED),
        ("GET  / HTTP/1.1", MALFORMED),
        ("GET /  HTTP/1.1", MALFORMED),
        (" GET / HTTP/1.1", MALFORMED),
        ("GET / HTTP/1.1 ", MALFORMED),
        ("GET\t/ HTTP/1.1", MALFORMED),
        ("GET\t / HTTP/1.1", MALFORMED),
        ("GET /\tHTTP/1.1", MALFORMED),
        ("GET / HTTP/1.1\t", MALFORMED),
        ("GET / x HTTP/1.1", MALFORMED),
        ("GET / HTTP/0.9", MALFORMED),
        ("GET / HTTP/1.2", MALFORMED),
        ("GET / HTTP/2.0", MALFORMED),
        ("GET / HTTP/2", MALFORMED),
        ("GET / HTTP/1.1x", MALFORMED),
        ("GET / HTTP/1.10", MALFORMED),
        ("GET / HTTP/01.1", MALFORMED),
        ("GET / http/1.1", MALFORMED),
        ("GET / HTTPS/1.1", MALFORMED),
        ("GET / HTTP/1", MALFORMED),
        ("GET / HTTP 1.1", MALFORMED),
        ("PRI * HTTP/2.0", MALFORMED),
        ("GET /\0 HTTP/1.1", MALFORMED),
        ("GET /\x7f HTTP/1.1", MALFORMED),
        ("GET /\u{e9} HTTP/1.1", MALFORMED),
        ("GET /\r HTTP/1.1", MALFORMED),
        ("get / HTTP/1.1", bad_method),
        ("Get / HTTP/1.1", bad_method),
        ("G3T / HTTP/1.1", bad_method),
        ("GET: / HTTP/1.1", bad_method),
        ("GETGETGETGETGETGETGET / HTTP/1.1", bad_method),
        ("TRACE / HTTP/1.1", bad_method),
        ("TRACK / HTTP/1.1", bad_method),
        ("CONNECT allow.test:443 HTTP/1.1", bad_method),
        ("CONNECT / HTTP/1.1", bad_method),
        ("POST /?_method=DELETE HTTP/1.1", bad_method),
        ("POST /?a=b&_METHOD=DELETE HTTP/1.1", bad_method),
        ("POST /?%5fmethod=DELETE HTTP/1.1", bad_method),
        ("OPTIONS * HTTP/1.1", bad_path),
        ("GET allow.test HTTP/1.1", bad_path),
        ("GET ?x HTTP/1.1", bad_path),
        ("GET #x HTTP/1.1", bad_path),
        ("GET \\ HTTP/1.1", bad_path),
        ("GET //x HTTP/1.1", bad_path),
        ("GET //evil.test/ HTTP/1.1", bad_path),
        ("GET /a//b HTTP/1.1", bad_path),
        ("GET /public/../secret HTTP/1.1", bad_path),
        ("GET /public/./x HTTP/1.1", bad_path),
        ("GET /.. HTTP/1.1", bad_path),
        ("GET /../x HTTP/1.1", bad_path),
        ("GET /public/%2e%2e/secret HTTP/1.1", bad_path),
        ("GET /public/%2E./secret HTTP/1.1", bad_path),
        ("GET /public/..%2fsecret HTTP/1.1", bad_path),
        ("GET /public%2f%2e%2e/secret HTTP/1.1", bad_path),
        ("GET /%2fevil.test/ HTTP/1.1", bad_path),
        ("GET /public%2f/x HTTP/1.1", bad_path),
        ("GET /public%252fsecret HTTP/1.1", bad_path),
        ("GET /public%5csecret HTTP/1.1", bad_path),
        ("GET /public\\secret HTTP/1.1", bad_path),
        ("GET /%252e%252e/ HTTP/1.1", bad_path),
        ("GET /%00 HTTP/1.1", bad_path),
        ("GET /%0d%0a HTTP/1.1", bad_path),
        ("GET /% HTTP/1.1", bad_path),
        ("GET /%4 HTTP/1.1", bad_path),
        ("GET /%zz HTTP/1.1", bad_path),
        ("GET /%c0%ae HTTP/1.1", bad_path),
        ("GET /%ff HTTP/1.1", bad_path),
        ("GET /a;b HTTP/1.1", bad_path),
        ("GET /a%3bb HTTP/1.1", bad_path),
        ("GET /a#b HTTP/1.1", bad_path),
        ("GET /a?b#c HTTP/1.1", bad_path),
        ("GET /\"x HTTP/1.1", bad_path),
        ("GET /<x> HTTP/1.1", bad_path),
        ("GET http://allow.test/ HTTP/1.1", bad_path),
        ("GET ftp://allow.test/ HTTP/1.1", bad_path),
        ("GET HTTPS://allow.test/ HTTP/1.1", bad_path),
        ("GET https:allow.test HTTP/1.1", bad_path),
        (
            "GET https://evil.test/ HTTP/1.1",
            Some(Reason::NamesDisagree),
        ),
        (
            "GET https://allow.test:8443/ HTTP/1.1",
            Some(Reason::NamesDisagree),
        ),
        (
            "GET https://user@allow.test/ HTTP/1.1",
            Some(Reason::BadHost),
        ),
        (
            "GET https://allow.test:x@evil.test/ HTTP/1.1",
            Some(Reason::BadPort),
        ),
        ("GET https://[allow.test]/ HTTP/1.1", Some(Reason::BadHost)),
        ("GET https://allow%2etest/ HTTP/1.1", Some(Reason::BadHost)),
        ("GET https:/// HTTP/1.1", Some(Reason::BadHost)),
        ("GET https://allow.test\\@evil.test/ HTTP/1.1", bad_path),
        ("GET https://allow.test#@evil.test/ HTTP/1.1", bad_path),
        (
            "GET /x/info/refs?service=git-receive-pack&a HTTP/1.1",
            bad_path,
        ),
        ("GET /x/git-receive-pack HTTP/1.1", bad_method),
    ];
    for (line, expected) in cases {
        let bytes = format!("{line}\r\nHost: allow.test\r\n\r\n");
        assert_eq!(reason(bytes.as_bytes()), *expected, "{line:?}");
    }
}

#[test]
fn odd_header_fields_are_refused() {
    // ATTACK: 003, 007, 009, 010, 011, 045, 047, 049, 053, 055
    let bad_host = Some(Reason::BadHost);
    let disagree = Some(Reason::NamesDisagree);
    let chunked = "Transfer-Encoding: chunked";
    let host = "Host: allow.test";
    let cases: &[(String, Option<Reason>)] = &[
        ("X: 1".into(), MALFORMED),
        (format!("{host}\r\n{host}"), MALFORMED),
        (format!("{host}\r\nHost: evil.test"), MALFORMED),
        (format!("{host}\r\nhOST: evil.test"), MALFORMED),
        ("Host:".into(), bad_host),
        ("Host: ".into(), bad_host),
        ("Host: allow.test, evil.test".into(), bad_host),
        ("Host: allow.test evil.test".into(), bad_host),
        ("Host: allow.test/secret".into(), bad_host),
        ("Host: allow.test?x".into(), bad_host),
        ("Host: allow.test#x".into(), bad_host),
        ("Host: allow.test\\x".into(), bad_host),
        ("Host: user@allow.test".into(), bad_host),
        ("Host: allow.test:x@evil.test".into(), Some(Reason::BadPort)),
        ("Host: [allow.test]".into(), bad_host),
        ("Host: [::1".into(), bad_host),
        ("Host: [fe80::1%25lo]".into(), bad_host),
        ("Host: allow%2etest".into(), bad_host),
        ("Host: allow.test..".into(), bad_host),
        ("Host: .allow.test".into(), bad_host),
        ("Host: -allow.test".into(), bad_host),
        ("Host: xn--allow-.test".into(), bad_host),
        ("Host: allow.test.xn--".into(), bad_host),
        ("Host: 0x7f.1".into(), bad_host),
        ("Host: 2130706433".into(), bad_host),
        ("Host: \u{e9}.test".into(), bad_host),
        ("Host: allow.test:".into(), Some(Reason::BadPort)),
        ("Host: allow.test:0".into(), Some(Reason::BadPort)),
        ("Host: allow.test:65536".into(), Some(Reason::BadPort)),
        ("Host: allow.test:+443".into(), Some(Reason::BadPort)),
        ("Host: allow.test:443x".into(), Some(Reason::BadPort)),
        ("Host: allow.test:0443".into(), Some(Reason::BadPort)),
        ("Host: allow.test:80".into(), disagree),
        ("Host: evil.test".into(), disagree),
        ("Host: allow.test.evil.test".into(), disagree),
        ("Host: xallow.test".into(), disagree),
        ("Host: 127.0.0.1".into(), disagree),
        (
            format!("{host}\r\nContent-Length: 6\r\n{chunked}"),
            MALFORMED,
        ),
        (
            format!("{host}\r\n{chunked}\r\nContent-Length: 6"),
            MALFORMED,
        ),
        (
            format!("{host}\r\nContent-Length: 5\r\nContent-Length: 6"),
            MALFORMED,
        ),
        (
            format!("{host}\r\nContent-Length: 5\r\nContent-Length: 5"),
            MALFORMED,
        ),
        (format!("{host}\r\nContent-Length: 5, 5"), MALFORMED),
        (format!("{host}\r\nContent-Length: 5,6"), MALFORMED),
        (format!("{host}\r\nContent-Length:"), MALFORMED),
        (format!("{host}\r\nContent-Length: +5"), MALFORMED),
        (format!("{host}\r\nContent-Length: -5"), MALFORMED),
        (format!("{host}\r\nContent-Length: 0x5"), MALFORMED),
        (format!("{host}\r\nContent-Length: 5 5"), MALFORMED),
        (format!("{host}\r\nContent-Length: 05"), MALFORMED),
        (format!("{host}\r\nContent-Length: 5.0"), MALFORMED),
        (format!("{host}\r\nContent-Length: 1e3"), MALFORMED),
        (
            format!("{host}\r\nContent-Length: 18446744073709551616"),
            MALFORMED,
        ),
        (
            format!("{host}\r\nContent-Length: 9999999999999999999"),
            MALFORMED,
        ),
        (format!("{host}\r\nTransfer-Encoding:"), MALFORMED),
        (format!("{host}\r\nTransfer-Encoding: identity"), MALFORMED),
        (
            format!("{host}\r\nTransfer-Encoding: gzip, chunked"),
            MALFORMED,
        ),
        (
            format!("{host}\r\nTransfer-Encoding: chunked, chunked"),
            MALFORMED,
        ),
        (
            format!("{host}\r\nTransfer-Encoding: chunked, identity"),
            MALFORMED,
        ),
        (format!("{host}\r\nTransfer-Encoding: xchunked"), MALFORMED),
        (
            format!("{host}\r\nTransfer-Encoding: \"chunked\""),
            MALFORMED,
        ),
        (
            format!("{host}\r\nTransfer-Encoding: chunked;q=1"),
            MALFORMED,
        ),
        (
            format!("{host}\r\nTransfer-Encoding: \x0bchunked"),
            MALFORMED,
        ),
        (format!("{host}\r\n{chunked}\r\n{chunked}"), MALFORMED),
        (format!("{host}\r\nTransfer-Encoding : chunked"), MALFORMED),
        (format!("{host}\r\n Transfer-Encoding: chunked"), MALFORMED),
        (
            format!("{host}\r\nTransfer-Encoding\r\n : chunked"),
            MALFORMED,
        ),
        (format!("{host}\r\nX: a\r\n folded"), MALFORMED),
        (format!("{host}\r\nX: a\r\n\tfolded"), MALFORMED),
        (format!("{host}\r\nAuthorization: a\r\n b"), MALFORMED),
        ("Host:\r\n allow.test".into(), bad_host.and(MALFORMED)),
        (format!("{host}\r\n: value"), MALFORMED),
        (format!("{host}\r\nno colon"), MALFORMED),
        (format!("{host}\r\nX Y: 1"), MALFORMED),
        (format!("{host}\r\nX\t: 1"), MALFORMED),
        (format!("{host}\r\nX\0: 1"), MALFORMED),
        (format!("{host}\r\n\u{e9}: 1"), MALFORMED),
        (format!("{host}\r\nX(y): 1"), MALFORMED),
        (format!("{host}\r\n\"X\": 1"), MALFORMED),
        (format!("{host}\r\nX: a\0b"), MALFORMED),
        (format!("{host}\r\nX: a\rb"), MALFORMED),
        (format!("{host}\r\nX: a\x0bb"), MALFORMED),
        (format!("{host}\r\nX: a\x1bb"), MALFORMED),
        (format!("{host}\r\nX: a\x7fb"), MALFORMED),
        (format!("{host}\nX: 1"), MALFORMED),
        (format!("{host}\r\nX: 1\nY: 2"), MALFORMED),
        (format!("{host}\r\n\rX: 1"), MALFORMED),
        (format!("{host}\r\nExpect: 200-ok"), MALFORMED),
        (
            format!("{host}\r\nExpect: 100-continue\r\nExpect: 100-continue"),
            MALFORMED,
        ),
        (format!("{host}\r\n{}: 1", "x".repeat(257)), MALFORMED),
        (
            format!("{host}\r\n{}", "X: 1\r\n".repeat(127) + "X: 1"),
            Some(Reason::TooLarge),
        ),
        (
            format!("{host}\r\nX: {}", "x".repeat(70_000)),
            Some(Reason::TooLarge),
        ),
    ];
    for (fields, expected) in cases {
        let bytes = format!("POST / HTTP/1.1\r\n{fields}\r\n\r\n");
        let shown: String = fields.chars().take(80).collect();
        assert_eq!(reason(bytes.as_bytes()), *expected, "{shown:?}");
    }
    let old = format!("POST / HTTP/1.0\r\n{host}\r\n{chunked}\r\n\r\n");
    assert_eq!(reason(old.as_bytes()), MALFORMED);
    for front in ["\r\n", "\n", "\r\n\r\n\r\n", " ", "\0"] {
        let bytes = format!("{front}GET / HTTP/1.1\r\n{host}\r\n\r\n");
        assert_eq!(reason(bytes.as_bytes()), MALFORMED, "{front:?}");
    }
}

#[test]
fn one_spelling_comes_out_of_many() {
    // ATTACK: 004, 075
    for line in [
        "GET /%70ublic/%7Ex?a=%70 HTTP/1.1\r\nHost: ALLOW.test.",
        "GET https://allow.test:443/public/~x?a=%70 HTTP/1.1\r\nHost: allow.test:443",
    ] {
        let facts = read(format!("{line}\r\n\r\n").as_bytes()).unwrap().facts;
        assert_eq!(facts.endpoint.to_string(), "https://allow.test:443");
        assert_eq!(facts.path.to_string(), "/public/~x?a=%70");
    }
}

#[test]
fn a_placeholder_is_seen_wherever_it_stands() {
    // ATTACK: 086, 091, 097
    let ph = Placeholder::new("ghp_", [3; 16]);
    let text = ph.as_str();
    let percent: String = text.bytes().map(|b| format!("%{b:02x}")).collect();
    let basic = data_encoding::BASE64.encode(format!("user:{text}").as_bytes());
    let header = |name: &str| Location::Header(name.to_owned());
    let cases = [
        (
            format!("/ HTTP/1.1\r\nAuthorization: Bearer {text}"),
            header("authorization"),
        ),
        (
            format!("/ HTTP/1.1\r\nAuthorization: Basic {basic}"),
            header("authorization"),
        ),
        (format!("/ HTTP/1.1\r\nCookie: a={text}"), header("cookie")),
        (
            format!("/ HTTP/1.1\r\nReferer: http://x/{percent}"),
            header("referer"),
        ),
        (
            format!("/ HTTP/1.1\r\nProxy-Authorization: Basic {basic}"),
            header("proxy-authorization"),
        ),
        (format!("/ HTTP/1.1\r\nX_Y: {text}"), header("x_y")),
        (
            format!("/ HTTP/1.1\r\n{text}: 1"),
            header(&text.to_lowercase()),
        ),
        (format!("/{text} HTTP/1.1"), Location::Path),
        (format!("/{percent} HTTP/1.1"), Location::Path),
        (format!("/?{text}=1 HTTP/1.1"), Location::Query),
        (format!("/?a={percent} HTTP/1.1"), Location::Query),
    ];
    for (rest, location) in cases {
        let request = read(format!("GET {rest}\r\nHost: allow.test\r\n\r\n").as_bytes()).unwrap();
        let found = &request.facts.presented;
        assert_eq!(found.len(), 1, "{rest}: {found:?}");
        assert_eq!(
            (&found[0].location, found[0].digest),
            (&location, ph.digest()),
            "{rest}"
        );
        assert!(request.facts.own_credentials.is_empty(), "{rest}");
        assert!(
            !request
                .dispositions
                .iter()
                .zip(request.head.fields())
                .any(|(d, f)| {
                    *d == Disposition::Pass && f.value.windows(4).any(|w| w == b"TRNO")
                })
        );
    }
}

#[test]
fn own_credentials_are_known_by_name() {
    // ATTACK: 083
    for name in [
        "Authorization",
        "X-Api-Key",
        "Api-Key",
        "X-Auth-Token",
        "PRIVATE-TOKEN",
        "x-goog-api-key",
        "X-Amz-Security-Token",
        "Cookie",
        "apikey",
        "X-Access-Token",
        "X-Vault-Token",
        "Ocp-Apim-Subscription-Key",
        "X-Client-Secret",
        "X-Auth-Email-Auth",
    ] {
        let bytes = format!("GET / HTTP/1.1\r\nHost: allow.test\r\n{name}: abc\r\n\r\n");
        let facts = read(bytes.as_bytes()).unwrap().facts;
        assert_eq!(facts.own_credentials, [name.to_lowercase()]);
    }
    for name in [
        "Accept",
        "Idempotency-Key",
        "X-CSRF-Token",
        "Author",
        "X-Author",
        "Git-Protocol",
        "User-Agent",
        "If-None-Match",
        "Keyboard",
        "npm-auth-type",
    ] {
        let bytes = format!("GET / HTTP/1.1\r\nHost: allow.test\r\n{name}: abc\r\n\r\n");
        assert!(
            read(bytes.as_bytes())
                .unwrap()
                .facts
                .own_credentials
                .is_empty(),
            "{name}"
        );
    }
}

#[test]
fn the_fuzz_targets_hold_on_mutated_seeds() {
    let seeds: [&[u8]; 11] = [
        b"POST /a%41?x HTTP/1.1\r\nHost: allow.test\r\nContent-Length: 5\r\nX: y\r\n\r\n",
        b"5;a\r\nhello\r\n0\r\nX: 1\r\n\r\n",
        b"\x16\x03\x01\x00\x2d\x01\x00\x00\x29\x03\x03",
        b"/v1/geo?a=1&key={credential}&b=%41",
        b"/bot{credential}/getMe?k%65y=x;key",
        b"00380000000000000000000000000000000000000000 refs/heads/a0000",
        b"query={ a(b: \"x\") { ...F } } fragment F on T { c }",
        b"{\"query\":\"query A { a } mutation B { b }\",\"operationName\":\"A\"}",
        b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"a\":[1,2.5e3]}}]",
        b"{\"operation\":\"upload\",\"ref\":{\"name\":\"refs/heads/a\"},\"objects\":[]}",
        b"Bearer ghp_0123456789abcdefABCDEF&<\"/+x Z2hwXzAxMjM0NTY3ODlhYmNkZWZBQkNERUYmPCIvK3g=",
    ];
    let targets = [
        crate::fuzz::fuzz_request_head,
        crate::fuzz::fuzz_tls_hello,
        crate::fuzz::fuzz_chunked,
        crate::fuzz::fuzz_pkt_line,
        crate::fuzz::fuzz_graphql,
        crate::fuzz::fuzz_jsonrpc,
        crate::fuzz::fuzz_slot,
        crate::fuzz::fuzz_aws_form,
        crate::fuzz::fuzz_signature,
        crate::fuzz::fuzz_scrub,
    ];
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for round in 0..3_000 {
        let mut data = seeds[round % seeds.len()].to_vec();
        for _ in 0..next(4) {
            let at = next(data.len());
            match next(3) {
                0 => data[at] = next(256) as u8,
                1 => {
                    data.remove(at);
                }
                _ => data.insert(at, b"\r\n\0 ;:%0a"[next(9)]),
            }
        }
        for target in targets {
            target(&data);
        }
    }
}

#[test]
fn a_push_whose_commands_never_come_is_not_read_for_ever() {
    // Empty stored blocks of deflate: as long as one likes, and nothing when unpacked.
    let empty = [&[0_u8, 0, 0, 0xff, 0xff][..]; 4096].concat();
    let start = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    let body = [&start[..], &empty].concat();
    let head = b"POST /a/b.git/git-receive-pack HTTP/1.1\r\nhost: allow.test\r\n\
        content-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut request = read(head).unwrap();
    let mut reading = request.reading_push().unwrap();
    assert_eq!(request.take(&mut reading, &body, false), Ok(false));
    let long = [&start[..], &empty.repeat(8)].concat();
    let fault = request.take(&mut reading, &long, false).unwrap_err();
    assert_eq!(fault.reason, Reason::TooLarge);
}

#[test]
fn connection_does_not_take_away_what_says_how_a_body_is_read() {
    for name in ["content-type", "Content-Encoding", "close, content-length"] {
        let head = format!(
            "POST /graphql HTTP/1.1\r\nhost: allow.test\r\nconnection: {name}\r\n\
             content-type: application/json\r\ncontent-length: 2\r\n\r\n"
        );
        let fault = read(head.as_bytes()).err().unwrap();
        assert_eq!(fault.reason, Reason::MalformedRequest, "{name}");
    }
}
