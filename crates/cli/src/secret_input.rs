// SPDX-License-Identifier: Apache-2.0
//! Reads a secret: from a file, from standard input, or typed without echo. Never from an argument
//! or a variable. Its bytes lie in one buffer that never moves and is zeroized when dropped.

use crate::context::note;
use crate::stop::{Outcome, Stop};
use crate::terminal::{self, ModeGuard};
use std::os::fd::BorrowedFd;
use std::path::Path;
use torno_notary_protocol::transit::CredentialInTransit;
use zeroize::Zeroizing;

/// LIMIT: a credential is at most 64 KiB, and a frame to the notary has room for one.
const SECRET_BYTES_MAX: usize = 64 * 1024;

/// A secret that is not sent yet. Deliberately without Debug, Display, Clone and Serialize.
pub(crate) struct Typed(Zeroizing<Vec<u8>>);

impl Typed {
    /// Without the one newline that editors and `echo` put at the end.
    pub(crate) fn without_newline(mut self) -> Self {
        if self.0.last() == Some(&b'\n') {
            self.0.pop();
            if self.0.last() == Some(&b'\r') {
                self.0.pop();
            }
        }
        self
    }

    /// On its way to the notary.
    pub(crate) fn into_transit(self) -> CredentialInTransit {
        CredentialInTransit::new(self.0)
    }

    fn is_same(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    /// Whether it begins with this text.
    pub(crate) fn begins_with(&self, text: &str) -> bool {
        self.0.starts_with(text.as_bytes())
    }

    /// Refuses what can't be a secret.
    pub(crate) fn not_empty(self, what: &str) -> Outcome<Self> {
        if self.0.is_empty() {
            Err(Stop::new(format!("the {what} is empty"))
                .next("nothing was changed; type it at a terminal, pipe it in, or name a file"))
        } else {
            Ok(self)
        }
    }
}

/// The whole of a file, byte for byte.
pub(crate) fn from_file(path: &Path) -> Outcome<Typed> {
    use std::os::fd::AsFd;
    let file = std::fs::File::open(path).map_err(|error| {
        Stop::new(format!("`{}` can't be read", path.display())).because(&error)
    })?;
    read_all(file.as_fd(), &path.display().to_string())
}

/// Standard input: typed without echo at a terminal, else all of it.
pub(crate) fn from_stdin(prompt: &str) -> Outcome<Typed> {
    let stdin = rustix::stdio::stdin();
    if terminal::is_terminal(stdin) {
        type_silently(prompt)
    } else {
        read_all(stdin, "standard input")
    }
}

/// A new passphrase: typed twice at a terminal.
pub(crate) fn new_passphrase() -> Outcome<Typed> {
    let first = from_stdin("New passphrase: ")?.without_newline();
    if terminal::is_terminal(rustix::stdio::stdin()) {
        let second = from_stdin("Again: ")?.without_newline();
        if !first.is_same(&second) {
            return Err(Stop::new("the two passphrases differ").next("nothing was made; try again"));
        }
    }
    first.not_empty("passphrase")
}

fn read_all(from: BorrowedFd<'_>, name: &str) -> Outcome<Typed> {
    let mut buffer = fresh();
    let mut length = 0;
    loop {
        let Some(room) = buffer.get_mut(length..).filter(|room| !room.is_empty()) else {
            return Err(Stop::new(format!(
                "{name} has more than {SECRET_BYTES_MAX} bytes; that is no credential"
            )));
        };
        match rustix::io::read(from, room) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                return Err(Stop::new(format!("{name} can't be read")).because(&error));
            }
        }
    }
    buffer.truncate(length);
    Ok(Typed(buffer))
}

/// One byte more than allowed, so that a full buffer means too much. Its capacity never changes,
/// so no copy is left behind.
fn fresh() -> Zeroizing<Vec<u8>> {
    Zeroizing::new(vec![0; SECRET_BYTES_MAX + 1])
}

fn type_silently(prompt: &str) -> Outcome<Typed> {
    let failed = |error: &(dyn std::error::Error + 'static)| {
        Stop::new("the terminal can't be read").because(error)
    };
    let modes = ModeGuard::silent().map_err(|error| failed(&error))?;
    note(prompt);
    let mut typed = fresh();
    typed.clear();
    let ended = loop {
        let mut key = Zeroizing::new([0_u8; 1]);
        match rustix::io::read(rustix::stdio::stdin(), &mut *key) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => break Err(failed(&error)),
            Ok(0) => break Ok(()),
            Ok(_) => {}
        }
        match *key {
            [b'\r' | b'\n' | 0x04] => break Ok(()),
            [0x03] => break Err(Stop::new("nothing was typed to the end").exit(130)),
            [0x08 | 0x7f] => drop(typed.pop()),
            [0x15] => typed.clear(),
            [_] if typed.len() >= SECRET_BYTES_MAX => break Err(Stop::new("that is too long")),
            [byte] => typed.push(byte),
        }
    };
    drop(modes);
    note("\n");
    ended.map(|()| Typed(typed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_newline_goes_and_no_more() {
        let strip = |text: &str| {
            Typed(Zeroizing::new(text.into()))
                .without_newline()
                .0
                .to_vec()
        };
        assert_eq!(strip("secret\n"), b"secret");
        assert_eq!(strip("secret\r\n"), b"secret");
        assert_eq!(strip("secret\n\n"), b"secret\n");
        assert_eq!(strip("secret "), b"secret ");
    }

    #[test]
    fn a_file_over_the_limit_is_refused() {
        use std::io::Write;
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&vec![b'x'; SECRET_BYTES_MAX]).unwrap();
        assert!(from_file(file.path()).is_ok_and(|typed| typed.0.len() == SECRET_BYTES_MAX));
        file.write_all(b"x").unwrap();
        assert!(from_file(file.path()).is_err());
    }
}
