// SPDX-License-Identifier: Apache-2.0
//! A refusal as clients of PostgreSQL read it: an ErrorResponse whose message says what to do next
//! and whose detail names reason, rule and layer.

use torno_policy::{Layer, Reason, Refusal};

/// When something is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// Before a session ran, which then never does.
    Login,
    /// A statement; the session goes on.
    Statement,
    /// In the middle; the session ends.
    Session,
}

/// The whole message.
pub(crate) fn error_response(refusal: &Refusal, when: When) -> Vec<u8> {
    let severity = match when {
        When::Login | When::Session => "FATAL",
        When::Statement => "ERROR",
    };
    let detail = format!(
        "refused: {} by {} ({})",
        refusal.reason.code(),
        refusal.rule,
        layer(refusal.layer)
    );
    message(
        severity,
        sqlstate(refusal.reason, when),
        &refusal.hint,
        &detail,
    )
}

/// The session was cut from outside: `admin_shutdown`.
pub(crate) fn cut() -> Vec<u8> {
    let hint = "this connection was cut: its credential was revoked or the session ends";
    message("FATAL", "57P01", hint, "refused: credential_revoked")
}

fn message(severity: &str, state: &str, text: &str, detail: &str) -> Vec<u8> {
    let mut body = Vec::new();
    let fields = [
        (b'S', severity),
        (b'V', severity),
        (b'C', state),
        (b'M', text),
        (b'D', detail),
    ];
    for (field, text) in fields {
        body.push(field);
        // Visible ASCII only: a hint can break no field and steer no terminal.
        let plain = text
            .bytes()
            .map(|b| if (b' '..0x7f).contains(&b) { b } else { b'?' });
        body.extend(plain);
        body.push(0);
    }
    body.push(0);
    let mut message = Vec::new();
    crate::postgres::put(b'E', &body, &mut message);
    message
}

/// Classes of SQLSTATE (PostgreSQL, appendix A).
fn sqlstate(reason: Reason, when: When) -> &'static str {
    match reason.status() {
        400 => "08P01",
        413 => "54000",
        429 => "53400",
        502..=504 => "08001",
        _ if reason == Reason::PlaceholderUnknown => "28P01",
        _ if when == When::Login => "28000",
        _ => "42501",
    }
}

fn layer(layer: Layer) -> &'static str {
    match layer {
        Layer::Wire => "wire",
        Layer::Standing => "standing",
        Layer::Organisation => "organisation",
        Layer::Session => "session",
        Layer::Tool => "tool",
        Layer::Vault => "vault",
        Layer::Record => "record",
        Layer::Connect => "connect",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use torno_policy::names::RuleName;

    #[test]
    fn a_refusal_is_an_error_of_postgresql_that_can_break_no_field() {
        let refusal = |reason| Refusal {
            reason,
            layer: Layer::Vault,
            rule: RuleName::new("binding.b"),
            hint: "do\0this\x1b[2J".to_owned(),
        };
        let told = error_response(&refusal(Reason::BindingNotGranted), When::Statement);
        assert_eq!(
            told,
            b"E\0\0\0\x5aSERROR\0VERROR\0C42501\0Mdo?this?[2J\0\
              Drefused: binding_not_granted by binding.b (vault)\0\0"
        );
        let state = |reason, when| {
            let told = String::from_utf8(error_response(&refusal(reason), when)).unwrap();
            told.split('\0')
                .find_map(|f| f.strip_prefix('C'))
                .unwrap()
                .to_owned()
        };
        assert_eq!(state(Reason::BindingNotGranted, When::Login), "28000");
        assert_eq!(state(Reason::PlaceholderUnknown, When::Login), "28P01");
        assert_eq!(state(Reason::UpstreamTls, When::Login), "08001");
        assert_eq!(state(Reason::MalformedRequest, When::Session), "08P01");
        assert_eq!(state(Reason::TooLarge, When::Session), "54000");
        assert_eq!(state(Reason::LimitReached, When::Statement), "53400");
    }
}
