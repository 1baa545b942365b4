// SPDX-License-Identifier: Apache-2.0
//! What a proxy's users do with curl: tunnels, absolute URLs, old versions, uploads of every kind,
//! ranges, redirects, credentials of their own. Real curl, real gate, real far end.

use crate::scenarios::{Scenario, try_all};
use crate::stage::at_each_level;

const SCENARIOS: &[Scenario<'static>] = &[
    (
        "a tunnel by the proxy's variable",
        "https_proxy=http://127.0.0.1:3128 curl -sS -w ' %{http_code} %{http_connect}\\n' \
         https://api.torno.test/public/x",
        &["for everybody\n 200 200\n", "code 0"],
    ),
    (
        "a tunnel by option",
        "curl -sS -x http://127.0.0.1:3128 -w ' %{http_code}\\n' https://api.torno.test/public/x",
        &["for everybody\n 200\n", "code 0"],
    ),
    (
        "a tunnel asked for with HTTP/1.0",
        "curl -sS --proxy1.0 127.0.0.1:3128 -w ' %{http_code}\\n' https://api.torno.test/public/x",
        &["for everybody\n 200\n", "code 0"],
    ),
    (
        "a tunnel with a user of the proxy",
        "curl -sS -x http://127.0.0.1:3128 --proxy-user me:own -w ' %{http_code}\\n' \
         https://api.torno.test/public/x",
        &["for everybody\n 200\n", "code 0"],
    ),
    (
        "no proxy at all",
        "curl -sS --noproxy '*' -w ' %{http_code} %{http_connect}\\n' https://api.torno.test/public/x",
        &["for everybody\n 200 000\n", "code 0"],
    ),
    (
        "an absolute URL of plain HTTP",
        "curl -sS -x http://127.0.0.1:3128 -w ' %{http_code}\\n' http://api.torno.test/public/x",
        &["port_not_granted", " 403\n", "code 0"],
    ),
    (
        "a tunnel to plain HTTP",
        "curl -sS --proxytunnel -x http://127.0.0.1:3128 -w ' %{http_code}\\n' \
         http://api.torno.test/public/x",
        &["port_not_granted", " 403\n", "code 0"],
    ),
    (
        "a tunnel to a host that is not granted",
        "curl -sS -x http://127.0.0.1:3128 -w ' %{http_code} %{http_connect}\\n' \
         https://evil.torno.test/",
        &["host_not_granted", " 403 200\n", "code 0"],
    ),
    (
        "another port",
        "curl -sS -w ' %{http_code}\\n' https://api.torno.test:8443/public/x",
        &["port_not_granted", " 403\n", "code 0"],
    ),
    (
        "SOCKS, which is not spoken",
        "curl -sS --max-time 20 --socks5-hostname 127.0.0.1:3128 https://api.torno.test/public/x; \
         test $? -ne 0 && echo refused",
        &["refused\n"],
    ),
    (
        "a bare address",
        "curl -sS -k --max-time 20 -w ' %{http_code}\\n' https://192.0.2.1/public/x",
        &["raw_address"],
    ),
    (
        "HTTP/1.0, which curl offers alone in the handshake",
        "curl -sS --http1.0 -w ' %{http_code}\\n' https://api.torno.test/public/x",
        &["for everybody\n 200\n", "code 0"],
    ),
    (
        "HTTP/1.0 without a word in the handshake",
        "curl -sS --http1.0 --no-alpn -w ' %{http_code}\\n' https://api.torno.test/public/x",
        &["for everybody\n 200\n", "code 0"],
    ),
    (
        "HTTP/2",
        "curl -sS --http2 -w ' %{http_code} %{http_version}\\n' https://api.torno.test/public/x",
        &["for everybody\n 200 2\n", "code 0"],
    ),
    (
        "TLS 1.1",
        "curl -sS --tls-max 1.1 https://api.torno.test/public/x; test $? -ne 0 && echo refused",
        &["refused\n"],
    ),
    (
        "HEAD",
        "curl -sS -I https://api.torno.test/v1/me -H \"authorization: Bearer $API_TOKEN\"",
        &[" 403", "code 0"],
    ),
    (
        "a method that is not granted",
        "echo x | curl -sS -T - -w ' %{http_code}\\n' https://api.torno.test/public/x",
        &["method_not_granted", " 403\n", "code 0"],
    ),
    (
        "TRACE",
        "curl -sS -X TRACE -w ' %{http_code}\\n' https://api.torno.test/public/x",
        &["bad_method", " 400\n", "code 0"],
    ),
    (
        "a body that waits for 100 Continue",
        "head -c 3000000 /dev/zero | tr '\\0' x > body; \
         curl -sS --http1.1 -H 'Expect: 100-continue' --data-binary @body -o back \
         -w '%{http_code}\\n' https://api.torno.test/public/back && cmp body back && echo same",
        &["200\n", "same\n", "code 0"],
    ),
    (
        "a body in chunks",
        "head -c 300000 /dev/zero | tr '\\0' x > body; \
         curl -sS --http1.1 -H 'Transfer-Encoding: chunked' --data-binary @body -o back \
         -w '%{http_code}\\n' https://api.torno.test/public/back && cmp body back && echo same",
        &["200\n", "same\n", "code 0"],
    ),
    (
        "a body of unknown length over HTTP/2",
        "head -c 300000 /dev/zero | tr '\\0' x > body; \
         curl -sS --http2 -X POST -T - -o back -w '%{http_code} %{http_version}\\n' \
         https://api.torno.test/public/back < body && cmp body back && echo same",
        &["200 2\n", "same\n", "code 0"],
    ),
    (
        "no body",
        "curl -sS -X POST -w ' %{http_code}\\n' https://api.torno.test/public/x",
        &[" 200\n", "code 0"],
    ),
    (
        "a form with a file",
        "echo content > file; curl -sS -F a=b -F f=@file -w ' %{http_code}\\n' \
         https://api.torno.test/public/back",
        &["content\n", " 200\n", "code 0"],
    ),
    (
        "chunks and a length",
        "curl -sS --http1.1 -H 'Transfer-Encoding: chunked' -H 'Content-Length: 5' -d hello \
         -w ' %{http_code}\\n' https://api.torno.test/public/x",
        &[" 400\n"],
    ),
    (
        "a range, which the far end does not know",
        "curl -sS -r 0-2 -w ' %{http_code}\\n' https://api.torno.test/public/x",
        &["for everybody\n 200\n", "code 0"],
    ),
    (
        "going on where a download ended",
        "printf 'for e' > part; curl -sS -C - -o part https://api.torno.test/public/x; \
         test $? -ne 0 && cat part",
        &["for e"],
    ),
    (
        "a redirect to a host that is not granted",
        "curl -sS -L -w ' %{http_code} %{num_redirects}\\n' https://api.torno.test/redirect \
         -H \"authorization: Bearer $API_TOKEN\"",
        &[" 403 1\n", "code 0"],
    ),
    (
        "two requests on one connection",
        "curl -sS --http1.1 -w '%{num_connects}\\n' https://api.torno.test/public/x \
         https://api.torno.test/public/y",
        &["for everybody\n1\nfor everybody\n0\n", "code 0"],
    ),
    (
        "a refusal between two requests on one connection",
        "curl -sS --http1.1 -o /dev/null -w '%{http_code} %{num_connects}\\n' \
         https://api.torno.test/public/x -o /dev/null https://api.torno.test/v1/other \
         -o /dev/null https://api.torno.test/public/y",
        &["200 1\n403 0\n200 0\n", "code 0"],
    ),
    (
        "twenty at once",
        "curl -sS --parallel -o /dev/null -w '%{http_code}\\n' \
         'https://api.torno.test/public/[1-20]' -o /dev/null | grep -c 200",
        &["20\n", "code 0"],
    ),
    (
        "a reader that leaves early, and the next",
        "curl -sSN https://api.torno.test/stream -H \"authorization: Bearer $API_TOKEN\" \
         2>/dev/null | head -n 2; curl -sS https://api.torno.test/public/x",
        &["line 0\nline 1\nfor everybody\n", "code 0"],
    ),
    (
        "a server that says to close",
        "curl -sS --http1.1 -H 'Connection: close' -w '%{num_connects}\\n' \
         https://api.torno.test/public/x https://api.torno.test/public/y",
        &["for everybody\n1\nfor everybody\n1\n", "code 0"],
    ),
    (
        "a large field",
        "curl -sS --http1.1 -H \"X-Large: $(head -c 30000 /dev/zero | tr '\\0' x)\" \
         -w ' %{http_code}\\n' https://api.torno.test/public/x",
        &["for everybody\n 200\n", "code 0"],
    ),
    (
        "a field that is too large",
        "curl -sS --http1.1 -H \"X-Large: $(head -c 70000 /dev/zero | tr '\\0' x)\" \
         -w ' %{http_code}\\n' https://api.torno.test/public/x",
        &["too_large"],
    ),
    (
        "one's own Basic",
        "curl -sS -u me:own -w ' %{http_code}\\n' https://api.torno.test/public/x",
        &[" 403\n", "code 0"],
    ),
    (
        "one's own cookie",
        "curl -sS -b a=b -w ' %{http_code}\\n' https://other.torno.test/public/x",
        &["own_credential", " 403\n", "code 0"],
    ),
    (
        "another host by its header",
        "curl -sS -H 'Host: other.torno.test' -w ' %{http_code}\\n' https://api.torno.test/public/x",
        &["names_disagree", " 421\n", "code 0"],
    ),
    (
        "dots as they are",
        "curl -sS --path-as-is -w ' %{http_code}\\n' https://api.torno.test/public/../v1/me",
        &["bad_path", " 400\n", "code 0"],
    ),
    (
        "a compressed answer with a credential in it",
        "curl -sS --compressed 'https://api.torno.test/echo?as=gzip' \
         -H \"authorization: Bearer $API_TOKEN\" | grep -q \"$API_TOKEN\" && echo scrubbed",
        &["scrubbed\n", "code 0"],
    ),
    (
        "an upgrade to HTTP/2 in clear text",
        "curl -sS --http2 --noproxy '*' -w ' %{http_code} %{http_version}\\n' \
         http://api.torno.test/public/x",
        &[" 403 1.1\n", "code 0"],
    ),
];

// ATTACK: 015, 038, 059
#[test]
fn curl_does_through_the_gate_what_it_does_through_a_proxy() {
    at_each_level("curl scenarios", |stage, level| {
        try_all(stage, level, SCENARIOS)
    });
}
