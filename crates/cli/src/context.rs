// SPDX-License-Identifier: Apache-2.0
//! What every command is given: places, time, and how to speak. Read once from the surroundings by
//! `main`, so that the commands themselves ask neither environment nor clock.

use crate::printable;
use crate::stop::{Outcome, Stop};
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use torno_control_api::paths::Paths;

/// The surroundings of one run of `torno`.
#[derive(Debug)]
pub(crate) struct Context {
    /// Where sockets and stores lie.
    pub(crate) paths: Paths,
    /// `--output json`.
    pub(crate) json: bool,
    /// The daemon may be started when it is not running.
    pub(crate) may_start: bool,
    /// Colour on standard error.
    pub(crate) color: bool,
    /// Colour on standard output.
    pub(crate) color_out: bool,
    /// The working directory.
    pub(crate) directory: PathBuf,
    /// `HOME`.
    pub(crate) home: Option<PathBuf>,
    /// `CREDENTIALS_DIRECTORY` of systemd.
    pub(crate) credentials: Option<PathBuf>,
    /// `PATH`, for finding `tornod`.
    pub(crate) search_path: Option<std::ffi::OsString>,
    /// This binary.
    pub(crate) executable: Option<PathBuf>,
    /// Unix seconds.
    pub(crate) now: u64,
}

impl Context {
    /// Prints a result: JSON of the value, or lines for a person.
    pub(crate) fn show<T: Serialize>(&self, value: &T, human: &str) -> Outcome {
        if self.json {
            let text = serde_json::to_string(value).map_err(|error| {
                Stop::new("the result can't be written as JSON").because(&error)
            })?;
            say(&format!("{}\n", printable::json(&text)))
        } else {
            say(human)
        }
    }

    /// Tells a person, on standard error, that a slow step begins.
    pub(crate) fn progress(&self, step: &str) {
        if !self.json && io::stderr().is_terminal() {
            note(&format!("torno: {step} …\n"));
        }
    }

    /// Bold, where the terminal takes it.
    pub(crate) fn bold(&self, text: &str) -> String {
        if self.color {
            format!("\x1b[1m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// Asks a question on the terminal; anything but `y` or `yes` is no.
    pub(crate) fn confirm(&self, question: &str) -> Outcome<bool> {
        if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
            return Ok(false);
        }
        note(&format!("{} [y/N] ", printable::line(question)));
        let mut answer = String::new();
        io::stdin()
            .read_line(&mut answer)
            .map_err(|error| Stop::new("the answer can't be read").because(&error))?;
        Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
    }
}

/// Writes to standard output. A closed pipe is the reader's right and no failure.
pub(crate) fn say(text: &str) -> Outcome {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Stop::new("standard output can't be written").because(&error)),
    }
}

/// Writes to standard error; when nobody can read it, there is nobody to tell.
pub(crate) fn note(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
