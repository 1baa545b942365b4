// SPDX-License-Identifier: Apache-2.0
//! What a request asks to become: a WebSocket, or nothing else that is spoken here. Whoever says
//! `websocket` says all of RFC 6455 §4.1 in one spelling; any other token of `Upgrade` is dropped
//! with the field.

use crate::head::{Framing, Head, is_token_byte, list_members};
use crate::refuse::Fault;
use data_encoding::BASE64;
use torno_policy::names::Method;

/// A WebSocket that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Offer {
    /// `Sec-WebSocket-Key`: 16 bytes in base64, one spelling.
    pub(crate) key: String,
    /// Subprotocols, as the client prefers them.
    pub(crate) protocols: Vec<String>,
}

/// LIMIT: subprotocols of one offer; clients offer one to five.
const PROTOCOLS_MAX: usize = 32;
const KEY_BYTES: usize = 16;
const KEY_CHARS: usize = 24;

const FORM: Fault = Fault::malformed(
    "open a WebSocket with GET and HTTP/1.1, no body, one `Upgrade: websocket`, `Connection: \
     Upgrade`, `Sec-WebSocket-Version: 13` and one key of 16 bytes in base64",
);

/// ATTACK: 059, 062 – reads what a head asks to become; nothing for what is dropped.
pub(super) fn offer(
    head: &Head,
    method: &Method,
    (framing, is_http10): (Option<Framing>, bool),
) -> Result<Option<Offer>, Fault> {
    if !list_members(head.values("upgrade")).any(|token| token == "websocket") {
        return Ok(None);
    }
    let one = |name| head.single(name).ok().flatten().ok_or(FORM);
    let is_plain_get = method.as_str() == "GET"
        && matches!(framing, None | Some(Framing::Empty))
        && !is_http10
        && head.values("expect").next().is_none();
    let named: Vec<_> = list_members(head.values("connection")).collect();
    let is_asked = one("upgrade")?.eq_ignore_ascii_case(b"websocket")
        && named.iter().any(|name| name == "upgrade")
        && !named.iter().any(|name| name == "close");
    if !is_plain_get || !is_asked || one("sec-websocket-version")? != b"13" {
        return Err(FORM);
    }
    Ok(Some(Offer {
        key: key(one("sec-websocket-key")?)?,
        protocols: protocols(head)?,
    }))
}

fn key(value: &[u8]) -> Result<String, Fault> {
    let decoded = BASE64.decode(value).map_err(|_| FORM)?;
    if value.len() == KEY_CHARS && decoded.len() == KEY_BYTES {
        Ok(BASE64.encode(&decoded))
    } else {
        Err(FORM)
    }
}

fn protocols(head: &Head) -> Result<Vec<String>, Fault> {
    let form = Fault::malformed(
        "offer at most 32 WebSocket subprotocols, each one token, none of them twice",
    );
    let values = head.values("sec-websocket-protocol");
    let mut offered: Vec<String> = Vec::new();
    for member in values.flat_map(|value| value.split(|b| *b == b',')) {
        let member = member.trim_ascii();
        let text = std::str::from_utf8(member).map_err(|_| form.clone())?;
        let is_token = !text.is_empty() && member.iter().all(|b| is_token_byte(*b));
        let is_new = !offered.iter().any(|known| known == text);
        if !is_token || !is_new || offered.len() == PROTOCOLS_MAX {
            return Err(form);
        }
        offered.push(text.to_owned());
    }
    Ok(offered)
}

impl Offer {
    /// Writes the fields of the handshake. No extension is ever offered: frames stay readable.
    pub(crate) fn push_fields(&self, head: &mut Vec<u8>) {
        let mut push = |name: &str, value: &str| {
            crate::inject::push_field(head, name.as_bytes(), value.as_bytes());
        };
        push("upgrade", "websocket");
        push("connection", "Upgrade");
        push("sec-websocket-version", "13");
        push("sec-websocket-key", &self.key);
        if !self.protocols.is_empty() {
            push("sec-websocket-protocol", &self.protocols.join(", "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==";
    const BASE: [&str; 4] = [
        "upgrade: websocket",
        "connection: Upgrade",
        "sec-websocket-version: 13",
        KEY,
    ];

    fn ask(method: &str, fields: &[&str]) -> Result<Option<Offer>, Fault> {
        let text = format!("{method} / HTTP/1.1\r\n{}\r\n\r\n", fields.join("\r\n"));
        let head = Head::parse(text.as_bytes()).unwrap();
        let framing = crate::head::framing(&head).unwrap();
        offer(&head, &Method::parse(method).unwrap(), (framing, false))
    }

    fn with(change: &str) -> Result<Option<Offer>, Fault> {
        ask("GET", &[&BASE[..], &[change]].concat())
    }

    #[test]
    fn a_websocket_is_asked_for_in_one_way() {
        // ATTACK: 062
        let plain = ask("GET", &BASE).unwrap().unwrap();
        assert_eq!(plain.key, "dGhlIHNhbXBsZSBub25jZQ==");
        assert!(plain.protocols.is_empty());
        let mut spelled = BASE;
        spelled[0] = "Upgrade: WebSocket";
        spelled[1] = "Connection: keep-alive, UPGRADE";
        assert_eq!(ask("GET", &spelled).unwrap(), Some(plain));
        for (at, wrong) in [
            (0, "upgrade: websocket, h2c"),
            (0, "upgrade: h2c, websocket"),
            (0, "upgrade: websocket, websocket"),
            (1, "connection: keep-alive"),
            (1, "connection: close, upgrade"),
            (2, "sec-websocket-version: 8"),
            (2, "sec-websocket-version: 13, 8"),
            (2, "x: 1"),
            (3, "x: 1"),
            (3, "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ"),
            (3, "sec-websocket-key: dGhlIHNhbXBsZSBub25jZR=="),
            (3, "sec-websocket-key: dGhlIHNhbXBsZSBub25jZTE="),
        ] {
            let mut fields = BASE;
            fields[at] = wrong;
            assert_eq!(ask("GET", &fields), Err(FORM), "{wrong}");
        }
        for twice in [
            "upgrade: websocket",
            "upgrade: h2c",
            "sec-websocket-version: 13",
            KEY,
            "content-length: 1",
            "transfer-encoding: chunked",
            "expect: 100-continue",
        ] {
            assert_eq!(with(twice), Err(FORM), "{twice}");
        }
        assert_eq!(ask("POST", &BASE), Err(FORM));
        assert_eq!(ask("HEAD", &BASE), Err(FORM));
    }

    #[test]
    fn another_upgrade_is_no_offer() {
        // ATTACK: 059, 062
        for token in ["h2c", "TLS/1.0", "foo", "websocket/13", "\"websocket\"", ""] {
            let mut fields = BASE;
            let line = format!("upgrade: {token}");
            fields[0] = &line;
            assert_eq!(ask("GET", &fields), Ok(None), "{token}");
        }
    }

    #[test]
    fn subprotocols_are_tokens_each_offered_once() {
        let offered = with("sec-websocket-protocol: chat.v2,\tMQTT")
            .unwrap()
            .unwrap();
        assert_eq!(offered.protocols, ["chat.v2", "MQTT"]);
        let mut head = Vec::new();
        offered.push_fields(&mut head);
        let head = String::from_utf8(head).unwrap();
        assert!(
            head.ends_with("sec-websocket-protocol: chat.v2, MQTT\r\n"),
            "{head}"
        );
        assert!(!head.contains("extensions"));
        for wrong in ["a, a", "a,,b", "", "a b", "a/b", "\"a\""] {
            let line = format!("sec-websocket-protocol: {wrong}");
            assert!(with(&line).is_err(), "{wrong}");
        }
        let many: Vec<_> = (0..33).map(|at| format!("p{at}")).collect();
        assert!(with(&format!("sec-websocket-protocol: {}", many.join(","))).is_err());
    }
}
