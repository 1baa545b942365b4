// SPDX-License-Identifier: Apache-2.0
//! The person's own terminal: its size, and its modes, which are put back on every way out.

use rustix::termios::{self, OptionalActions, Termios};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use torno_control_api::request::TerminalSize;

/// The terminal is in another mode until this is dropped.
#[derive(Debug)]
pub(crate) struct ModeGuard {
    before: Termios,
}

impl ModeGuard {
    /// Raw mode: every key goes to the workload.
    pub(crate) fn raw() -> io::Result<Self> {
        Self::enter(Termios::make_raw)
    }

    /// Key by key and silent, Ctrl-C included: for typing a secret.
    pub(crate) fn silent() -> io::Result<Self> {
        Self::enter(|modes| {
            use termios::{LocalModes, SpecialCodeIndex};
            let off = LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG;
            modes.local_modes.remove(off);
            modes.special_codes[SpecialCodeIndex::VMIN] = 1;
            modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        })
    }

    fn enter(change: impl FnOnce(&mut Termios)) -> io::Result<Self> {
        let before = termios::tcgetattr(rustix::stdio::stdin())?;
        let mut modes = before.clone();
        change(&mut modes);
        termios::tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &modes)?;
        Ok(Self { before })
    }
}

impl Drop for ModeGuard {
    fn drop(&mut self) {
        // A terminal that is gone needs no modes.
        let _ = termios::tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Both ends of a conversation are this terminal.
pub(crate) fn is_conversation() -> bool {
    is_terminal(rustix::stdio::stdin()) && is_terminal(rustix::stdio::stdout())
}

/// The descriptor is a terminal.
pub(crate) fn is_terminal(fd: BorrowedFd<'_>) -> bool {
    termios::isatty(fd.as_fd())
}

/// The terminal's size; a terminal that does not know says 24 × 80.
pub(crate) fn size() -> TerminalSize {
    match termios::tcgetwinsize(rustix::stdio::stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => TerminalSize {
            rows: size.ws_row,
            columns: size.ws_col,
        },
        Ok(_) | Err(_) => TerminalSize {
            rows: 24,
            columns: 80,
        },
    }
}
