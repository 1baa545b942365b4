// SPDX-License-Identifier: Apache-2.0
//! The output of an install phase, shown on standard error while the session starts: hostile text
//! like any command's, so it goes through the filter.

use crate::screen::Screen;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use torno_control_api::attach::{self, CommandFrame};

/// LIMIT: what is read at once; frames are at most 64 KiB.
const PIECE_BYTES: usize = 16 * 1024;

/// The install phase's output on its way to standard error.
pub(crate) struct InstallOutput {
    reader: JoinHandle<()>,
    theirs: OwnedFd,
}

impl InstallOutput {
    /// Begins to show what comes; `stream` is to be given to the desk.
    pub(crate) fn begin() -> std::io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let reader = thread::spawn(move || show(ours));
        Ok(Self {
            reader,
            theirs: theirs.into(),
        })
    }

    /// The end that the desk passes on.
    pub(crate) fn stream(&self) -> &OwnedFd {
        &self.theirs
    }

    /// Shows the rest, once the desk has given its end up.
    pub(crate) fn finish(self) {
        drop(self.theirs);
        // A reader that panicked has shown what it could.
        let _ = self.reader.join();
    }
}

fn show(mut stream: UnixStream) {
    // Commands of an install phase get no input. A stream that is closed already gives none either.
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut screen = Screen::default();
    let mut buffer = Vec::new();
    let mut piece = vec![0_u8; PIECE_BYTES];
    loop {
        while let Ok(Some((kind, body, used))) = attach::split(&buffer) {
            if let Ok(CommandFrame::Stdout(bytes) | CommandFrame::Stderr(bytes)) =
                CommandFrame::decode(kind, body)
            {
                // Standard error that is closed leaves nobody to show it to.
                let _ = std::io::stderr().write_all(&screen.filter(&bytes));
            }
            buffer.drain(..used);
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => break,
            Ok(read) => buffer.extend_from_slice(piece.get(..read).unwrap_or_default()),
        }
        if attach::split(&buffer).is_err() {
            break;
        }
    }
    let _ = std::io::stderr().write_all(&screen.restore());
}
