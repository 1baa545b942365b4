// SPDX-License-Identifier: Apache-2.0
//! What the launcher says when it did not do what was ordered.

/// A failure that a person can act on; nothing was left half-done.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) code: String,
    pub(super) message: String,
    pub(super) hint: String,
}

impl Failed {
    pub(super) fn internal(message: &str) -> Self {
        Self {
            code: "sandbox_failed".to_owned(),
            message: message.to_owned(),
            hint: "run `torno doctor`; tornod's log has the details".to_owned(),
        }
    }

    pub(super) fn new(code: &str, error: &dyn std::error::Error, hint: &str) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message = format!("{message}: {cause}");
            source = cause.source();
        }
        Self {
            code: code.to_owned(),
            message,
            hint: hint.to_owned(),
        }
    }
}
