// SPDX-License-Identifier: Apache-2.0
//! One call to a monitor's interface: what is said, what has to come back, and what its refusal
//! looks like to a person.

use super::http::{self, HttpError, Method};
use serde_json::Value;
use std::os::unix::net::UnixStream;
use std::time::Instant;
use thiserror::Error;

/// One call, as data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    /// What it does, for people.
    pub(super) name: &'static str,
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) body: Option<Value>,
    /// What says that it was done.
    pub(super) status: u16,
}

/// Why a call was not done.
#[derive(Debug, Error)]
pub enum CallError {
    /// The monitor said no.
    #[error("the call `{call}` was refused with {status}: `{message}`")]
    Refused {
        /// Which.
        call: &'static str,
        /// What came back.
        status: u16,
        /// The monitor's words, bounded and plain.
        message: String,
    },
    /// It said nothing, or what is no answer.
    #[error("the call `{call}` got no answer")]
    Unanswered {
        /// Which.
        call: &'static str,
        /// Why.
        #[source]
        source: HttpError,
    },
}

/// LIMIT: a monitor's words in an error.
const MESSAGE_CHARACTERS_MAX: usize = 300;

impl Call {
    /// Tells the monitor, on a connection of this call's own.
    pub(super) fn tell(&self, to: UnixStream, deadline: Instant) -> Result<(), CallError> {
        let asked = http::ask(to, (self.method, self.path), self.body.as_ref(), deadline);
        let answer = asked.map_err(|source| CallError::Unanswered {
            call: self.name,
            source,
        })?;
        if answer.status == self.status {
            return Ok(());
        }
        Err(CallError::Refused {
            call: self.name,
            status: answer.status,
            message: plain(&answer.body),
        })
    }
}

/// Words of a monitor, fit to be shown. Firecracker puts them into `fault_message`; Cloud
/// Hypervisor's are shown as they come.
fn plain(body: &[u8]) -> String {
    let said = serde_json::from_slice::<Value>(body).ok();
    let fault = said.as_ref().and_then(|said| said.get("fault_message"));
    let text = match fault.and_then(Value::as_str) {
        Some(fault) => fault.to_owned(),
        None => String::from_utf8_lossy(body).into_owned(),
    };
    let plain = text
        .chars()
        .map(|c| if c.is_control() || c == '`' { ' ' } else { c });
    plain.take(MESSAGE_CHARACTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_refusal_are_bounded_and_plain() {
        assert_eq!(
            plain(br#"{"fault_message":"no\n`kernel`\u001b[0m"}"#),
            "no  kernel  [0m"
        );
        assert_eq!(plain(b"[\"Error from API\"]"), "[\"Error from API\"]");
        assert_eq!(plain(&[0xff; 2000]).chars().count(), MESSAGE_CHARACTERS_MAX);
    }
}
