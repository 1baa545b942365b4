// SPDX-License-Identifier: Apache-2.0
//! What the server is told before each transaction of a connection that may only read, or that
//! takes a role: that it may not write, and as whom it acts. Whatever a statement did to these
//! settings (some functions can), the next transaction begins with them.

use super::frame::{Frame, put};
use torno_policy::binding::Slot;
use torno_policy::postgres::Access;

/// The message, where there is something to say.
pub(super) fn message(slot: &Slot) -> Option<Vec<u8>> {
    let Slot::Postgres { access, role } = slot else {
        return None;
    };
    let mut text = String::new();
    if *access == Access::Read {
        text.push_str("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY;");
        text.push_str("SET standard_conforming_strings = on;");
    }
    if let Some(role) = role {
        // A name has no quote in it.
        text.push_str(&format!("SET ROLE \"{role}\";"));
    }
    if text.is_empty() {
        return None;
    }
    text.push('\0');
    let mut message = Vec::new();
    put(b'Q', text.as_bytes(), &mut message);
    Some(message)
}

/// A message in the place of a refused one, on which the server fails as it would on an error of
/// the client's: what came before it in the same run is undone.
pub(super) fn failing() -> Vec<u8> {
    let mut message = Vec::new();
    put(b'P', b"\0refused by the gate\0\0\0", &mut message);
    message
}

/// What an answer to [`message`] is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// It is done.
    Ready,
    /// Nothing to tell.
    Quiet,
    /// Something that has nothing to do with it.
    Other,
    /// It failed: nothing more may be asked.
    Failed,
}

pub(super) fn said(frame: &Frame) -> Said {
    match (frame.kind, frame.body.as_ref()) {
        (b'Z', b"I") => Said::Ready,
        (b'C' | b'N', _) => Said::Quiet,
        (b'S' | b'A', _) => Said::Other,
        _ => Said::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use torno_policy::postgres::Name;

    #[test]
    fn a_connection_that_reads_is_kept_from_writing_before_each_transaction() {
        let slot = |access, role| Slot::Postgres { access, role };
        let reader = Name::parse("reader");
        let text = |slot| message(&slot).map(|m| String::from_utf8(m[5..].to_vec()).unwrap());
        assert_eq!(text(slot(Access::Write, None)), None);
        let read = text(slot(Access::Read, None)).unwrap();
        assert!(read.starts_with("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY;"));
        let both = text(slot(Access::Read, reader.clone())).unwrap();
        assert!(both.ends_with("SET ROLE \"reader\";\0"));
        let role = text(slot(Access::Write, reader)).unwrap();
        assert_eq!(role, "SET ROLE \"reader\";\0");
        let frame = |kind, body: &'static [u8]| Frame {
            kind,
            body: body.into(),
        };
        assert_eq!(said(&frame(b'Z', b"I")), Said::Ready);
        assert_eq!(said(&frame(b'Z', b"T")), Said::Failed);
        assert_eq!(said(&frame(b'E', b"")), Said::Failed);
    }
}
