// SPDX-License-Identifier: Apache-2.0
//! A placeholder at every spot that no binding names: refused where it would be read as what it
//! stands for, carried as it is where it is inert, and never the value.

use super::judge::judging;
use super::stage::*;
use data_encoding::{BASE64, BASE64URL_NOPAD};
use torno_policy::binding::Mode;
use torno_policy::placeholder::Placeholder;

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Refused(&'static str),
    /// So many are counted.
    Carried(u32),
}

const MISMATCH: Fate = Fate::Refused("credential_endpoint_mismatch");

/// A request for a host with a placeholder at each spot.
fn spots(host: &str, ph: &str) -> Vec<(&'static str, String, Fate)> {
    let get = |target: &str, fields: &str| {
        format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n")
    };
    let field = |name: &str, value: &str| get("/x", &format!("{name}: {value}\r\n"));
    let post = |kind: &str, body: &str| {
        format!(
            "POST /x HTTP/1.1\r\nHost: {host}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let percent: String = ph.bytes().map(|b| format!("%{b:02x}")).collect();
    let escaped: String = ph.bytes().map(|b| format!("\\u{b:04x}")).collect();
    let parts = |name: &str, file: &str| {
        format!(
            "--X\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"{file}\"\r\n\r\nx\r\n--X--\r\n"
        )
    };
    let multipart = "multipart/form-data; boundary=X";
    let (front, back) = ph.split_at(20);
    let chunked = format!(
        "POST /x HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n\
         {:x}\r\n{front}\r\n{:x}\r\n{back}\r\n0\r\n",
        front.len(),
        back.len()
    );
    vec![
        (
            "a segment of the path",
            get(&format!("/a/{ph}/b"), ""),
            MISMATCH,
        ),
        (
            "the path, in base64",
            get(&format!("/{}", BASE64URL_NOPAD.encode(ph.as_bytes())), ""),
            MISMATCH,
        ),
        ("a query's name", get(&format!("/x?{ph}=1"), ""), MISMATCH),
        ("a query's value", get(&format!("/x?a={ph}"), ""), MISMATCH),
        (
            "a query, escaped",
            get(&format!("/x?a={percent}"), ""),
            MISMATCH,
        ),
        (
            "a query, in base64",
            get(
                &format!("/x?a={}", BASE64URL_NOPAD.encode(ph.as_bytes())),
                "",
            ),
            MISMATCH,
        ),
        ("Cookie", field("Cookie", &format!("s={ph}")), MISMATCH),
        ("User-Agent", field("User-Agent", ph), MISMATCH),
        (
            "Referer",
            field("Referer", &format!("https://x.test/{ph}")),
            MISMATCH,
        ),
        ("a field", field("X-Any", ph), MISMATCH),
        ("a field's name", field(ph, "1"), MISMATCH),
        ("a field, in JSON", field("X-Any", &escaped), MISMATCH),
        (
            "a field, in base64",
            field("X-Any", &BASE64.encode(ph.as_bytes())),
            MISMATCH,
        ),
        (
            "a field that is dropped",
            field("X-Forwarded-For", ph),
            MISMATCH,
        ),
        (
            "Proxy-Authorization",
            field("Proxy-Authorization", &format!("Bearer {ph}")),
            MISMATCH,
        ),
        (
            "Basic in another field",
            field(
                "X-Auth",
                &format!("Basic {}", BASE64.encode(format!("u:{ph}").as_bytes())),
            ),
            MISMATCH,
        ),
        (
            "the method",
            format!("{ph} /x HTTP/1.1\r\nHost: {host}\r\n\r\n"),
            Fate::Refused("unknown_protocol"),
        ),
        ("a trailer", format!("{chunked}X-T: {ph}\r\n\r\n"), MISMATCH),
        (
            "a body in chunks",
            format!("{chunked}\r\n"),
            Fate::Carried(1),
        ),
        (
            "JSON",
            post("application/json", &format!("{{\"a\":\"{ph}\"}}")),
            Fate::Carried(1),
        ),
        (
            "a form",
            post(
                "application/x-www-form-urlencoded",
                &format!("a={ph}&b={ph}"),
            ),
            Fate::Carried(2),
        ),
        (
            "a part's name",
            post(multipart, &parts(ph, "a")),
            Fate::Carried(1),
        ),
        (
            "a part's file name",
            post(multipart, &parts("a", ph)),
            Fate::Carried(1),
        ),
    ]
}

// ATTACK: 085, 086, 091
#[tokio::test]
async fn at_no_spot_that_nobody_bound_does_a_placeholder_become_the_value() {
    let ph = placeholder();
    for mode in [Mode::Placeholder, Mode::Inject] {
        for host in ["allow.test", "other.test"] {
            for (spot, request, fate) in spots(host, ph.as_str()) {
                let stage = stage(judging(bearer(), mode, "/**"), fixed(OK)).await;
                let stream = stage.captured(asked(host, 443)).await;
                let mut client = stage.tls(stream, host).await;
                let heard = talk(&mut client, request.as_bytes()).await;
                let shown = format!("{mode:?} {host}, {spot}: {heard}");
                let sent: String = (0..stage.origin.count())
                    .map(|at| stage.origin.request(at))
                    .collect();
                // The bound slot alone has it, where the binding fills by itself.
                let by_itself = host == "allow.test" && mode == Mode::Inject;
                let slot = format!("authorization: Bearer {SECRET}\r\n");
                let beside = if by_itself {
                    sent.replacen(&slot, "", 1)
                } else {
                    sent.clone()
                };
                assert!(!beside.contains(SECRET), "{shown} {sent}");
                match fate {
                    Fate::Refused(code) => {
                        assert!(heard.contains(&format!("\"code\":\"{code}\"")), "{shown}");
                        assert!(!sent.contains(ph.as_str()), "{shown} {sent}");
                    }
                    Fate::Carried(count) => {
                        assert!(heard.ends_with("ok"), "{shown}");
                        let (_, body) = request.split_once("\r\n\r\n").unwrap();
                        assert!(sent.ends_with(body), "{shown} {sent}");
                        assert_eq!(
                            stage.notary.outcomes.lock().unwrap()[0].carried,
                            count,
                            "{shown}"
                        );
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn a_placeholder_of_another_session_is_refused_at_every_spot_outside_of_a_body() {
    let foreign = Placeholder::new("ghp_", [8; 16]);
    for (spot, request, fate) in spots("allow.test", foreign.as_str()) {
        let code = match fate {
            MISMATCH if spot == "a trailer" => "credential_endpoint_mismatch",
            MISMATCH => "placeholder_unknown",
            Fate::Refused(code) => code,
            Fate::Carried(_) => continue,
        };
        let stage = stage(judging(bearer(), Mode::Placeholder, "/**"), fixed(OK)).await;
        let heard = stage.send(request).await;
        assert!(
            heard.contains(&format!("\"code\":\"{code}\"")),
            "{spot}: {heard}"
        );
    }
}
