// SPDX-License-Identifier: Apache-2.0
//! A refusal as clients of gRPC read it: HTTP 200 with fields alone, and the reason in them.

use std::fmt::Write as _;
use torno_policy::Refusal;

/// Codes of gRPC: what was refused, what is used up, what did not answer.
const PERMISSION_DENIED: u8 = 7;
const RESOURCE_EXHAUSTED: u8 = 8;
const UNAVAILABLE: u8 = 14;

/// The whole answer, without a body.
pub(super) fn answer(refusal: &Refusal) -> Vec<u8> {
    let code = match refusal.reason.status() {
        429 => RESOURCE_EXHAUSTED,
        502..=504 => UNAVAILABLE,
        _ => PERMISSION_DENIED,
    };
    let Refusal {
        reason, rule, hint, ..
    } = refusal;
    let message = format!("{}: {hint} ({rule})", reason.code());
    let message = percent_encoded(&message);
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/grpc\r\ncontent-length: 0\r\n\
         grpc-status: {code}\r\ngrpc-message: {message}\r\n\r\n"
    )
    .into_bytes()
}

/// Visible ASCII without `%` stays (gRPC over HTTP/2, "Status-Message").
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'%' | 0..=0x1f | 0x7f.. => {
                // INVARIANT: writing to a String never fails.
                let _ = write!(encoded, "%{byte:02X}");
            }
            plain => encoded.push(char::from(plain)),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use torno_policy::names::RuleName;
    use torno_policy::{Layer, Reason};

    #[test]
    fn a_refusal_of_grpc_is_a_status_whose_text_can_break_no_field() {
        let refusal = |reason| Refusal {
            reason,
            layer: Layer::Session,
            rule: RuleName::new("grant"),
            hint: "100 %\r\nset-cookie: a=b\u{e9}".to_owned(),
        };
        let told = String::from_utf8(answer(&refusal(Reason::PathNotGranted))).unwrap();
        let message =
            "grpc-message: path_not_granted: 100 %25%0D%0Aset-cookie: a=b%C3%A9 (grant)\r\n\r\n";
        assert!(told.starts_with("HTTP/1.1 200 OK\r\n"), "{told}");
        assert!(told.contains("grpc-status: 7\r\n"), "{told}");
        assert!(told.ends_with(message), "{told}");
        for (reason, code) in [
            (Reason::LimitReached, "grpc-status: 8\r\n"),
            (Reason::ConnectFailed, "grpc-status: 14\r\n"),
            (Reason::HostNotGranted, "grpc-status: 7\r\n"),
        ] {
            let told = String::from_utf8(answer(&refusal(reason))).unwrap();
            assert!(told.contains(code), "{told}");
        }
    }
}
