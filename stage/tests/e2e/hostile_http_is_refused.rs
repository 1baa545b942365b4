// SPDX-License-Identifier: Apache-2.0
//! Bytes that are no request, or two at once, sent from inside over TLS to a granted host: each is
//! refused with a status, and none reaches the far end.

use crate::stage::at_each_level_for_both;
use torno_stage::unwalled::PYTHON;

/// Name, bytes after TLS to api.torno.test, and the statuses that are right.
const CASES: &[(&str, &str, &[u16])] = &[
    // ATTACK: 037
    (
        "another host",
        "GET /public HTTP/1.1\r\nHost: evil.torno.test\r\n\r\n",
        &[421],
    ),
    // ATTACK: 037
    (
        "another granted host",
        "GET /public HTTP/1.1\r\nHost: other.torno.test\r\n\r\n",
        &[421],
    ),
    // ATTACK: 003
    (
        "userinfo",
        "GET /public HTTP/1.1\r\nHost: api.torno.test:x@evil.torno.test\r\n\r\n",
        &[400],
    ),
    // ATTACK: 004
    (
        "two dots",
        "GET /public HTTP/1.1\r\nHost: api.torno.test..\r\n\r\n",
        &[400],
    ),
    // ATTACK: 009
    (
        "brackets",
        "GET /public HTTP/1.1\r\nHost: [api.torno.test]\r\n\r\n",
        &[400],
    ),
    // ATTACK: 010
    (
        "percent",
        "GET /public HTTP/1.1\r\nHost: api%2etorno.test\r\n\r\n",
        &[400],
    ),
    // ATTACK: 038
    (
        "absolute form differs",
        "GET https://evil.torno.test/public HTTP/1.1\r\nHost: api.torno.test\r\n\r\n",
        &[400, 421],
    ),
    // ATTACK: 045
    (
        "two hosts",
        "GET /public HTTP/1.1\r\nHost: api.torno.test\r\nHost: api.torno.test\r\n\r\n",
        &[400],
    ),
    // ATTACK: 045
    ("no host", "GET /public HTTP/1.1\r\n\r\n", &[400]),
    // ATTACK: 047
    (
        "both framings",
        "POST /public HTTP/1.1\r\nHost: api.torno.test\r\nContent-Length: 6\r\n\
         Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nG",
        &[400],
    ),
    // ATTACK: 049
    (
        "two lengths",
        "POST /public HTTP/1.1\r\nHost: api.torno.test\r\nContent-Length: 5\r\n\
         Content-Length: 6\r\n\r\nhello!",
        &[400],
    ),
    // ATTACK: 049
    (
        "a list of lengths",
        "POST /public HTTP/1.1\r\nHost: api.torno.test\r\nContent-Length: 5, 5\r\n\r\nhello",
        &[400],
    ),
    // ATTACK: 051
    (
        "bare LF",
        "GET /public HTTP/1.1\nHost: api.torno.test\n\n",
        &[400],
    ),
    // ATTACK: 052
    (
        "a huge chunk",
        "POST /public HTTP/1.1\r\nHost: api.torno.test\r\nTransfer-Encoding: chunked\r\n\r\n\
         10000000000000000\r\nx\r\n0\r\n\r\n",
        &[400],
    ),
    // ATTACK: 053
    (
        "a folded header",
        "GET /public HTTP/1.1\r\nHost: api.torno.test\r\nX-A: b\r\n c\r\n\r\n",
        &[400],
    ),
    // ATTACK: 053
    (
        "a space before the colon",
        "GET /public HTTP/1.1\r\nHost: api.torno.test\r\nX-A : b\r\n\r\n",
        &[400],
    ),
    // ATTACK: 055
    (
        "HTTP/1.0 with chunks",
        "POST /public HTTP/1.0\r\nHost: api.torno.test\r\nTransfer-Encoding: chunked\r\n\r\n\
         0\r\n\r\n",
        &[400],
    ),
    // ATTACK: 055
    (
        "HTTP/1.2",
        "GET /public HTTP/1.2\r\nHost: api.torno.test\r\n\r\n",
        &[400],
    ),
    // ATTACK: 059
    (
        "an HTTP/2 preface",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &[400],
    ),
    // ATTACK: 073
    (
        "dot segments",
        "GET /public/../v1/me HTTP/1.1\r\nHost: api.torno.test\r\n\r\n",
        &[400],
    ),
    // ATTACK: 073
    (
        "hidden dots",
        "GET /public/%2e%2e/v1 HTTP/1.1\r\nHost: api.torno.test\r\n\r\n",
        &[400],
    ),
    // ATTACK: 075
    (
        "a hidden slash",
        "GET /public/a%2fb HTTP/1.1\r\nHost: api.torno.test\r\n\r\n",
        &[403],
    ),
    // ATTACK: 075
    (
        "a hidden slash before hidden dots",
        "GET /public/x%2f..%2f..%2fv1/me HTTP/1.1\r\nHost: api.torno.test\r\n\r\n",
        &[400],
    ),
    // ATTACK: 075
    (
        "a lone percent",
        "GET /public/% HTTP/1.1\r\nHost: api.torno.test\r\n\r\n",
        &[400],
    ),
    // ATTACK: 077
    (
        "a fragment",
        "GET /public#x HTTP/1.1\r\nHost: api.torno.test\r\n\r\n",
        &[400],
    ),
    // ATTACK: 080
    (
        "a small method",
        "get /public HTTP/1.1\r\nHost: api.torno.test\r\n\r\n",
        &[400, 403],
    ),
    // ATTACK: 080
    (
        "TRACE",
        "TRACE /public HTTP/1.1\r\nHost: api.torno.test\r\n\r\n",
        &[400, 403],
    ),
    // ATTACK: 070
    ("no HTTP at all", "SSH-2.0-OpenSSH_9.2p1\r\n\r\n", &[400]),
];

const SEND: &str = r"
import base64, socket, ssl, sys
for case in sys.argv[1:]:
    stream = socket.create_connection(('api.torno.test', 443), timeout=20)
    stream = ssl.create_default_context().wrap_socket(stream, server_hostname='api.torno.test')
    stream.settimeout(10)
    got = b''
    try:
        stream.sendall(base64.b64decode(case))
        while b'\r\n' not in got:
            part = stream.recv(65536)
            if not part:
                break
            got += part
    except OSError as error:
        got = got or str(error).encode()
    print(got.split(b'\r\n')[0].decode(errors='replace'))
";

#[test]
fn each_malformed_request_is_refused_and_reaches_nobody() {
    use base64::Engine;
    at_each_level_for_both("hostile HTTP", |stage, level| {
        let encoded: Vec<String> = CASES
            .iter()
            .map(|(_, bytes, _)| base64::engine::general_purpose::STANDARD.encode(bytes))
            .collect();
        let mut command = vec![PYTHON, "-c", SEND];
        command.extend(encoded.iter().map(String::as_str));
        let ran = stage.run(level, &command).good();
        let answers: Vec<&str> = ran.stdout.lines().collect();
        assert_eq!(answers.len(), CASES.len(), "{ran:?}");
        let mut wrong = Vec::new();
        for ((name, _, right), answer) in CASES.iter().zip(answers) {
            let status = answer.split(' ').nth(1).and_then(|s| s.parse::<u16>().ok());
            if !status.is_some_and(|status| right.contains(&status)) {
                wrong.push(format!("{name}: `{answer}`, wanted {right:?}"));
            }
        }
        // A granted head may have gone ahead of a body that then turned out to be broken; whole it
        // never was.
        let seen = stage.world.api.journal.requests();
        let whole: Vec<_> = seen.iter().filter(|r| r.body_sha256.is_some()).collect();
        assert!(
            wrong.is_empty() && whole.is_empty(),
            "{}\n{whole:?}",
            wrong.join("\n")
        );
        assert!(stage.world.evil.journal.connections().is_empty());
        assert!(stage.world.other.journal.connections().is_empty());
    });
}
