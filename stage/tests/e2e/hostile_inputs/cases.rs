// SPDX-License-Identifier: Apache-2.0
//! The inputs. A case's mark is part of its path, so that the far end's book can be read by it.

use super::fields;
use torno_stage::world::journal::Request;

/// What must come of it.
pub(super) enum Right {
    /// One of these codes (or texts of a refusal), and no whole request at the far end.
    Refused(&'static [&'static str]),
    /// 200, one request at the far end, and it is as it should be.
    Sent(fn(&Request) -> bool),
    /// One request at the far end, with exactly the one credential.
    Credentialed,
}

/// One input.
pub(super) struct Case {
    pub(super) what: String,
    /// How it goes in: `tls` (caught, port 443), `slow` (the same, byte by byte), `tunnel` (CONNECT
    /// and TLS), `proxy` (the loopback proxy), `plain` (caught, port 80), `raw` (caught, port 443,
    /// without TLS), `odd` (caught, port 8443).
    pub(super) entry: &'static str,
    /// The name that is dialled, and after a slash the one in the TLS hello.
    pub(super) name: &'static str,
    pub(super) bytes: Vec<u8>,
    pub(super) mark: String,
    pub(super) right: Right,
}

const API: &str = "api.torno.test";
const MALFORMED: &[&str] = &["malformed_request"];
const HOST: &[&str] = &["bad_host", "malformed_request"];
const PORT: &[&str] = &["bad_port", "malformed_request", "bad_host"];
const PATH: &[&str] = &["bad_path"];
const NAMES: &[&str] = &["names_disagree"];
const NOT_GRANTED: &[&str] = &["host_not_granted", "port_not_granted", "path_not_granted"];
const PLACEHOLDER: &[&str] = &["credential_endpoint_mismatch"];

/// Numbers the cases as they are added.
#[derive(Default)]
struct Cases(Vec<Case>);

impl Cases {
    /// Bytes over an entry; `@M@` becomes the mark.
    fn add(&mut self, (entry, name): (&'static str, &'static str), text: &str, right: Right) {
        let mark = format!("case-{:03}-", self.0.len());
        let what: String = text.chars().take(90).collect();
        self.0.push(Case {
            what: format!("{mark} {entry} {name} {what:?}"),
            entry,
            name,
            bytes: text.replace("@M@", &mark).into_bytes(),
            mark,
            right,
        });
    }

    fn refused(
        &mut self,
        at: (&'static str, &'static str),
        text: &str,
        codes: &'static [&'static str],
    ) {
        self.add(at, text, Right::Refused(codes));
    }

    /// A request over TLS with these lines after its request line and Host.
    fn with(&mut self, method: &str, lines: &str, right: Right) {
        let text = format!("{method} /public/@M@ HTTP/1.1\r\nHost: {API}\r\n{lines}");
        self.add(("tls", API), &text, right);
    }
}

/// Every input.
pub(super) fn all() -> Vec<Case> {
    let mut cases = Cases::default();
    hosts(&mut cases);
    authorities(&mut cases);
    names(&mut cases);
    framing(&mut cases);
    bodies(&mut cases);
    upgrades(&mut cases);
    targets(&mut cases);
    methods(&mut cases);
    git(&mut cases);
    credentials(&mut cases);
    claims(&mut cases);
    cases.0
}

/// A request line and Host, over TLS to the API.
fn get(host: &str) -> String {
    format!("GET /public/@M@ HTTP/1.1\r\nHost: {host}\r\n\r\n")
}

// ATTACK: 001, 003, 004, 005, 007, 009, 010, 045
fn hosts(cases: &mut Cases) {
    for host in [
        "api.torno.test\0",
        "evil.torno.test\0.api.torno.test",
        "x@api.torno.test",
        "api.torno.test@",
        "api.torno.test:443@evil.torno.test",
        ".api.torno.test",
        "api..torno.test",
        "api.torno.test...",
        "xn--api-.torno.test",
        "xn--.torno.test",
        "[api.torno.test]:443",
        "[::1",
        "[fe80::1%25lo]",
        "%61pi.torno.test",
        "api.torno.test%00",
        "api.torno.test, other.torno.test",
        "api.torno.test other.torno.test",
        "",
        "api_torno_test:",
        "api.torno.test\u{ff0e}",
        "\u{430}pi.torno.test",
    ] {
        let codes = &["bad_host", "bad_port", "malformed_request"];
        cases.refused(("tls", API), &get(host), codes);
    }
    for host in [
        "xapi.torno.test",
        "api.torno.test.evil.torno.test",
        "torno.test",
    ] {
        cases.refused(("tls", API), &get(host), NAMES);
    }
    let twice = format!("GET /public/@M@ HTTP/1.1\r\nHost: {API}\r\nhost: {API}\r\n\r\n");
    cases.refused(("tls", API), &twice, MALFORMED);
    let one = |r: &Request| fields(r, "host") == [API];
    for host in ["api.torno.test.", "API.Torno.TEST", "api.torno.test:443"] {
        cases.add(("tls", API), &get(host), Right::Sent(one));
    }
}

// ATTACK: 001, 003, 009, 010, 011, 014, 037, 038, 088
fn authorities(cases: &mut Cases) {
    let proxy = ("proxy", "-");
    for (authority, codes) in [
        ("evil.torno.test\0.api.torno.test:443", HOST),
        ("api.torno.test@evil.torno.test:443", HOST),
        ("api.torno.test:443@evil.torno.test:443", PORT),
        ("[api.torno.test]:443", HOST),
        ("%65vil.torno.test:443", HOST),
        ("api.torno.test/x:443", HOST),
        ("api.torno.test#:443", HOST),
        ("api.torno.test?:443", HOST),
        ("api.torno.test\\@evil.torno.test:443", HOST),
        ("api.torno.test:0", PORT),
        ("api.torno.test:65536", PORT),
        ("api.torno.test:443x", PORT),
        ("api.torno.test:+443", PORT),
        ("api.torno.test:-443", PORT),
        ("api.torno.test:0x1bb", PORT),
        ("api.torno.test:4 43", PORT),
        ("api.torno.test:", PORT),
        ("api.torno.test", PORT),
        ("https://api.torno.test:443", PORT),
        (":443", HOST),
    ] {
        let text = format!("CONNECT {authority} HTTP/1.1\r\nHost: api.torno.test:443\r\n\r\n");
        cases.refused(proxy, &text, codes);
    }
    for url in [
        "http://api.torno.test\0evil/@M@",
        "http://api.torno.test@evil.torno.test/@M@",
        "http://x:y@api.torno.test/@M@",
        "http://api.torno.test\\@evil.torno.test/@M@",
        "http://api.torno.test\\.evil.torno.test/@M@",
        "http://%61pi.torno.test/@M@",
        "http://[api.torno.test]/@M@",
        "http:///@M@",
        "http://:80/@M@",
        "http:api.torno.test/@M@",
        "//api.torno.test/@M@",
        "ftp://api.torno.test/@M@",
        "file:///etc/passwd",
    ] {
        let text = format!("GET {url} HTTP/1.1\r\nHost: api.torno.test\r\n\r\n");
        let codes = &[
            "bad_host",
            "bad_path",
            "bad_port",
            "malformed_request",
            "unknown_protocol",
        ];
        cases.refused(proxy, &text, codes);
    }
    for (target, host) in [
        ("http://evil.torno.test/@M@", API),
        ("http://api.torno.test/@M@", "evil.torno.test"),
        ("http://api.torno.test:81/@M@", API),
    ] {
        let text = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        cases.refused(proxy, &text, NAMES);
    }
    for field in [
        "Proxy-Authorization: Bearer @PH@",
        "X-Any: @PH@",
        "User-Agent: @PH@",
    ] {
        let text = format!("CONNECT {API}:443 HTTP/1.1\r\nHost: {API}:443\r\n{field}\r\n\r\n");
        cases.refused(proxy, &text, PLACEHOLDER);
    }
}

// ATTACK: 014, 015, 037, 040, 042
fn names(cases: &mut Cases) {
    for (name, host) in [
        ("api.torno.test/other.torno.test", API),
        ("api.torno.test/other.torno.test", "other.torno.test"),
        ("other.torno.test/api.torno.test", API),
        ("other.torno.test/other.torno.test", API),
        ("evil.torno.test/api.torno.test", API),
    ] {
        for entry in ["tls", "tunnel"] {
            let text = format!(
                "GET /public/@M@ HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer @PH@\r\n\r\n"
            );
            cases.refused((entry, name), &text, NAMES);
        }
    }
    cases.refused(("odd", API), &get(API), NAMES);
    cases.refused(("odd", API), &get("api.torno.test:8443"), NOT_GRANTED);
    cases.refused(("plain", API), &get(API), NOT_GRANTED);
    cases.refused(("raw", API), &get("api.torno.test:443"), NOT_GRANTED);
    cases.refused(
        ("proxy", "-"),
        &get(API).replace("GET /", "GET http://api.torno.test/"),
        NOT_GRANTED,
    );
    // One verdict on every entry.
    let delete = get(API).replace("GET", "DELETE");
    for entry in ["tls", "slow", "tunnel"] {
        cases.refused((entry, API), &delete, &["method_not_granted"]);
        cases.add((entry, API), &get(API), Right::Sent(|_| true));
    }
}

// ATTACK: 043, 047, 049, 051, 052, 053, 055
fn framing(cases: &mut Cases) {
    for before in ["\r\n", "\n", "\r\n\r\n\r\n", " ", "\t", "\0", "x\r\n"] {
        let codes = &["bad_method", "malformed_request", "unknown_protocol"];
        cases.refused(("tls", API), &format!("{before}{}", get(API)), codes);
    }
    for lines in [
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding:\u{b}chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding:\r\n\r\n0\r\n\r\n",
        "Transfer_Encoding: chunked\r\nContent-Length: 0\r\nTransfer-Encoding : chunked\r\n\r\n",
        "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        "Content-Length: +5\r\n\r\nhello",
        "Content-Length: -5\r\n\r\nhello",
        "Content-Length: 0x5\r\n\r\nhello",
        "Content-Length: 5 5\r\n\r\nhello",
        "Content-Length: 5,6\r\n\r\nhello!",
        "Content-Length: \r\n\r\n",
        "Content-Length: 18446744073709551621\r\n\r\nhello",
        "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5;a=\u{1}\r\nhello\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5;a\nb\r\nhello\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n-1\r\nhello\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n8000000000000000\r\nhello\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n00000000000000000005\r\nhello\r\n0\r\n\r\n",
        "X-A: b\rX-B: c\r\n\r\n",
        "X-A: b\0c\r\n\r\n",
        "X-A: b\r\n\tc\r\n\r\n",
        "X-A\t: b\r\n\r\n",
        ": b\r\n\r\n",
        "X-A\r\n\r\n",
        "X A: b\r\n\r\n",
        "X-\u{e9}: b\r\n\r\n",
    ] {
        cases.with("POST", lines, Right::Refused(MALFORMED));
    }
    for line in [
        "GET /public/@M@ HTTP/1.1x",
        "GET /public/@M@ HTTP/2.0",
        "GET /public/@M@ HTTP/1.10",
        "GET /public/@M@ http/1.1",
        "GET /public/@M@ HTTP/0.9",
        "GET /public/@M@",
        "GET  /public/@M@ HTTP/1.1",
        "GET /public/@M@  HTTP/1.1",
        "GET /public/@M@ HTTP/1.1 x",
        "GET\t/public/@M@\tHTTP/1.1",
    ] {
        let codes = &[
            "malformed_request",
            "bad_method",
            "bad_path",
            "unknown_protocol",
        ];
        cases.refused(
            ("tls", API),
            &format!("{line}\r\nHost: {API}\r\n\r\n"),
            codes,
        );
    }
}

// ATTACK: 054, 086
fn bodies(cases: &mut Cases) {
    let inner = format!("GET /v1/keys HTTP/1.1\r\nHost: {API}\r\n\r\n");
    let with_body = |line: &str| {
        let length = inner.len();
        format!("{line} HTTP/1.1\r\nHost: {API}\r\nContent-Length: {length}\r\n\r\n{inner}")
    };
    let plain = |r: &Request| r.body_bytes > 40;
    cases.add(
        ("tls", API),
        &with_body("GET /public/@M@"),
        Right::Sent(plain),
    );
    cases.add(
        ("slow", API),
        &with_body("POST /public/@M@"),
        Right::Sent(plain),
    );
    cases.refused(
        ("tls", API),
        &with_body("POST /secret/@M@"),
        &["path_not_granted"],
    );
    let inert = |r: &Request| r.body_bytes > 30 && fields(r, "authorization").is_empty();
    cases.with(
        "POST",
        "Transfer-Encoding: chunked\r\n\r\n6\r\ntoken=\r\n0\r\n\r\n",
        Right::Sent(|r| r.body_bytes == 6),
    );
    cases.with(
        "POST",
        "Content-Length: 60\r\n\r\n@PH@@PH@@PH@",
        Right::Sent(inert),
    );
}

// ATTACK: 059, 060, 062, 070
fn upgrades(cases: &mut Cases) {
    fn bare(r: &Request) -> bool {
        ["upgrade", "http2-settings", "sec-websocket-key"]
            .iter()
            .all(|name| fields(r, name).is_empty())
            && !fields(r, "connection")
                .iter()
                .any(|v| v.to_lowercase().contains("upgrade"))
    }
    for token in [
        "h2c",
        "foo",
        "tcp",
        "TLS/1.0",
        "websocket/13",
        "h2c, foo",
        "HTTP/2.0",
    ] {
        let lines = format!(
            "Upgrade: {token}\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        );
        cases.with("GET", &lines, Right::Sent(bare));
    }
    // Who asks for a WebSocket is told what is missing, and gets no plain request instead.
    for token in ["websocket", "WebSocket", "websocket, h2c", "h2c, websocket"] {
        let lines = format!(
            "GET /public/@M@ HTTP/1.1\r\nHost: {API}\r\nUpgrade: {token}\r\n\
             Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Sec-WebSocket-Version: 13\r\n\r\n"
        );
        let codes: &[&str] = if token.contains(',') {
            &["malformed_request"]
        } else {
            &["websocket_not_granted"]
        };
        cases.refused(("tls", API), &lines, codes);
    }
    // Bytes after an Upgrade are the next request, and judged.
    let next = format!(
        "Upgrade: foo\r\nConnection: upgrade\r\n\r\nGET /v1/keys HTTP/1.1\r\nHost: {API}\r\n\r\n"
    );
    cases.with("GET", &next, Right::Sent(bare));
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    cases.with("GET", &format!("\r\n{preface}"), Right::Sent(bare));
    for bytes in [
        preface,
        "SSH-2.0-x\r\n",
        "\u{1}\u{2}\u{3}\r\n\r\n",
        "EHLO x\r\n\r\n",
        "*1\r\n$4\r\nPING\r\n",
    ] {
        for entry in ["tls", "raw", "plain"] {
            let codes = &["unknown_protocol", "malformed_request", "bad_method"];
            cases.refused((entry, API), bytes, codes);
        }
    }
    let proxied = "PROXY TCP4 1.2.3.4 5.6.7.8 1 443\r\n";
    for entry in ["tls", "plain", "raw"] {
        let codes = &["unknown_protocol", "malformed_request", "bad_method"];
        cases.refused((entry, API), &format!("{proxied}{}", get(API)), codes);
    }
}

// ATTACK: 073, 075, 077, 112
fn targets(cases: &mut Cases) {
    for path in [
        "/public/./../v1/me",
        "/..",
        "/public/..",
        "/public/%2E%2e/v1",
        "/public/.%2e/v1",
        "/public/..%2fv1",
        "/public/%2e",
        "/public//v1",
        "//public",
        "/public/%00",
        "/public/%252e%252e/v1",
        "/public/%c0%ae%c0%ae/v1",
        "/public/%5c..%5cv1",
        "/public/\\..\\v1",
        "/public/%zz",
        "/public/%2",
        "/public/%2F..",
        "/public/%0d%0aX-A:%20b",
        "/public/x#y",
        "/public/..;/v1",
        "public/x",
        "?/public/",
        "*",
    ] {
        let codes = &["bad_path", "malformed_request"];
        let text = format!("GET {path} HTTP/1.1\r\nHost: {API}\r\n\r\n");
        cases.refused(("tls", API), &text, codes);
    }
    for path in [
        "/v1/keys?/public/@M@",
        "/v1/keys?x=/public/../public/@M@",
        "/Public/@M@",
        "/publicx/@M@",
        "/v1/%3Cscript%3Ealert(1)%3C/script%3E@M@",
    ] {
        let text = format!("GET {path} HTTP/1.1\r\nHost: {API}\r\n\r\n");
        cases.refused(
            ("tls", API),
            &text,
            &["path_not_granted", "placeholder_missing", "bad_path"],
        );
    }
    let text = format!("GET /%70ublic/@M@?next=../secret HTTP/1.1\r\nHost: {API}\r\n\r\n");
    cases.add(
        ("tls", API),
        &text,
        Right::Sent(|r| r.target.starts_with("/public/")),
    );
    let script = format!("GET /public/<script>alert(1)</script> HTTP/1.1\r\nHost: {API}\r\n\r\n");
    cases.refused(("tls", API), &script, PATH);
}

// ATTACK: 080
fn methods(cases: &mut Cases) {
    for method in [
        "Get", "FOO", "get", "TRACE", "TRACK", "CONNECT", "G\u{1}T", "GET,POST", "PRI",
    ] {
        let text = get(API).replacen("GET", method, 1);
        let codes = &[
            "bad_method",
            "malformed_request",
            "method_not_granted",
            "unknown_protocol",
        ];
        cases.refused(("tls", API), &text, codes);
    }
    for query in [
        "_method=DELETE",
        "a=b&_method=PUT",
        "_METHOD=DELETE",
        "%5fmethod=DELETE",
    ] {
        let text = get(API).replacen("@M@", &format!("@M@?{query}"), 1);
        cases.refused(
            ("tls", API),
            &text,
            &["bad_method", "bad_path", "malformed_request"],
        );
    }
    fn bare(r: &Request) -> bool {
        r.headers
            .iter()
            .all(|(name, _)| !name.to_lowercase().contains("override"))
            && fields(r, "x-http-method").is_empty()
    }
    cases.with(
        "POST",
        "X-HTTP-Method-Override: DELETE\r\nX-HTTP-Method: DELETE\r\nX-Method-Override: PUT\r\n\
         Content-Length: 0\r\n\r\n",
        Right::Sent(bare),
    );
    let options = format!("OPTIONS * HTTP/1.1\r\nHost: {API}\r\n\r\n");
    cases.refused(
        ("tls", API),
        &options,
        &["bad_path", "malformed_request", "method_not_granted"],
    );
}

// ATTACK: 078
fn git(cases: &mut Cases) {
    let at = ("tls", "git.torno.test");
    let host = "HTTP/1.1\r\nHost: git.torno.test\r\nContent-Length: 4\r\n\r\n0000";
    for line in [
        "POST /acme/app.git/GIT-RECEIVE-PACK",
        "POST /acme/app.git/git-receive-pack/",
        "POST /acme/app.git/git-receive-pack/x",
        "PUT /acme/app.git/git%2dReceive-pack",
        "POST /acme/secret-plans.git/git-receive-pack",
        "POST /acme/app.git/../secret-plans.git/git-upload-pack",
        "GET /acme/app.git/info/refs?service=git%2Dreceive-pack",
        "GET /acme/app.git/info/refs?service=git-receive-pack&service=git-upload-pack",
        "GET /acme/app.git/info/refs?SERVICE=git-receive-pack",
        "GET /acme/app.git/info/refs?service=GIT-RECEIVE-PACK",
        "GET /acme/app.git/info/refs",
        "PUT /acme/app.git/objects/aa/bb",
        "GET /acme/secret-plans.git/HEAD",
        "GET /acme/app.git/%2e%2e/secret-plans.git/HEAD",
        "PROPFIND /acme/app.git/",
    ] {
        let codes = &[
            "not_granted",
            "bad_path",
            "malformed_request",
            "binding",
            "placeholder",
        ];
        cases.refused(at, &format!("{line} {host}"), codes);
    }
}

// ATTACK: 083, 086, 091, 096, 097, 098
fn credentials(cases: &mut Cases) {
    let bound = |line: &str| format!("{line}\r\n\r\n");
    for line in [
        "User-Agent: x @PH@",
        "Referer: https://api.torno.test/?t=@PH@",
        "Cookie: a=@PH@",
        "X-Custom: @PH@",
        "Content-Type: multipart/form-data; boundary=@PH@",
        "Range: @PH@",
    ] {
        cases.with("GET", &bound(line), Right::Refused(PLACEHOLDER));
    }
    for target in [
        "/public/@M@?token=@PH@",
        "/public/@M@?@PH@=1",
        "/public/@M@/@PH@",
    ] {
        let text = format!("GET {target} HTTP/1.1\r\nHost: {API}\r\n\r\n");
        cases.refused(("tls", API), &text, PLACEHOLDER);
    }
    let trailer = "Transfer-Encoding: chunked\r\nTrailer: x-t\r\n\r\n0\r\nX-T: @PH@\r\n\r\n";
    cases.with("POST", trailer, Right::Refused(PLACEHOLDER));
    let token = "Authorization: Bearer @PH@";
    cases.refused(
        ("plain", API),
        &format!("GET /public/@M@ HTTP/1.1\r\nHost: {API}\r\n{token}\r\n\r\n"),
        &["not_granted", "credential_endpoint_mismatch"],
    );
    let own = "Authorization: Bearer of-my-own-account";
    cases.with(
        "GET",
        &bound(own),
        Right::Refused(&["own_credential", "placeholder_missing"]),
    );
    for line in [
        "X-Api-Key: mine",
        "Private-Token: mine",
        "Cookie: session=mine",
    ] {
        let text = format!("GET /@M@ HTTP/1.1\r\nHost: other.torno.test\r\n{line}\r\n\r\n");
        if !line.starts_with("Cookie") {
            cases.refused(("tls", "other.torno.test"), &text, &["own_credential"]);
        }
    }
    // However it is cut or spelled, exactly ours goes out, or nothing.
    let full = format!("GET /public/@M@ HTTP/1.1\r\nHost: {API}\r\n{token}\r\n\r\n");
    for entry in ["tls", "slow", "tunnel"] {
        cases.add((entry, API), &full, Right::Credentialed);
    }
    cases.with(
        "GET",
        "authorization:Bearer @PH@\r\n\r\n",
        Right::Credentialed,
    );
    for lines in [
        format!("{token}\r\n{own}\r\n\r\n"),
        format!("{own}\r\n{token}\r\n\r\n"),
        format!("{token}\r\n{token}\r\n\r\n"),
    ] {
        let codes = &[
            "placeholder_repeated",
            "malformed_request",
            "own_credential",
            "placeholder_missing",
        ];
        cases.with("GET", &lines, Right::Refused(codes));
    }
}

// ATTACK: 095, 118, 124
fn claims(cases: &mut Cases) {
    const CLAIMS: [&str; 16] = [
        "forwarded",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-forwarded-port",
        "x-forwarded-prefix",
        "x-real-ip",
        "x-original-url",
        "x-rewrite-url",
        "x-original-host",
        "x-host",
        "true-client-ip",
        "cf-connecting-ip",
        "via",
        "proxy-authorization",
        "proxy-connection",
    ];
    fn bare(r: &Request) -> bool {
        CLAIMS.iter().all(|name| fields(r, name).is_empty())
    }
    for name in CLAIMS {
        let value = if name == "forwarded" {
            "for=1.2.3.4;host=evil.torno.test"
        } else {
            "evil.torno.test"
        };
        cases.with(
            "GET",
            &format!("{name}: {value}\r\n\r\n"),
            Right::Sent(bare),
        );
    }
}
