// SPDX-License-Identifier: Apache-2.0
//! The policy document of a run: the directory's `torno.toml`, or one that is written from what
//! the person typed. And the texts that were accepted before, kept so that a change can be shown.

use crate::context::Context;
use crate::printable;
use crate::stop::{Outcome, Stop};
use std::io::Read;
use std::path::{Path, PathBuf};
use torno_policy::document::{self, DocumentError, Presets};
use torno_policy::grant::Grant;

/// The name of a policy file.
pub(crate) const NAME: &str = "torno.toml";
/// LIMIT: twice what a document may have, so that the parser and not the reader says so.
const TEXT_BYTES_MAX: u64 = 512 * 1024;

/// A document as it was read.
#[derive(Debug)]
pub(crate) struct Document {
    /// The file, or nothing where the person typed it.
    pub(crate) file: Option<PathBuf>,
    /// The text whose digest counts.
    pub(crate) text: String,
    /// What it grants.
    pub(crate) grant: Grant,
}

impl Document {
    /// Reads and parses a file.
    pub(crate) fn read(file: &Path) -> Outcome<Self> {
        let text = read_text(file)?;
        let grant = parse(&text).map_err(|error| invalid(file, &text, &error))?;
        Ok(Self {
            file: Some(file.to_owned()),
            text,
            grant,
        })
    }

    /// Takes a text that was written from arguments.
    pub(crate) fn typed(text: String) -> Outcome<Self> {
        let grant = parse(&text).map_err(|error| {
            Stop::new(printable::line(&error.message))
                .next("change the arguments, or write a torno.toml with `torno init`")
        })?;
        Ok(Self {
            file: None,
            text,
            grant,
        })
    }

    /// What it grants, one inert line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let lines = document::describe(&self.grant);
        lines.iter().map(|line| printable::line(line)).collect()
    }
}

/// Parses a document.
pub(crate) fn parse(text: &str) -> Result<Grant, DocumentError> {
    document::parse(text, &Presets::shipped())
}

/// The file that a command means: the one named, or `torno.toml` of the working directory.
pub(crate) fn named(context: &Context, file: Option<&Path>) -> PathBuf {
    context
        .directory
        .join(file.unwrap_or_else(|| Path::new(NAME)))
}

/// Reads a policy file as text.
pub(crate) fn read_text(file: &Path) -> Outcome<String> {
    let failed = |error: std::io::Error| {
        let stop = Stop::new(format!(
            "`{}` can't be read",
            printable::line(&file.display().to_string())
        ))
        .because(&error);
        match error.kind() {
            std::io::ErrorKind::NotFound => stop.next("write a first one with `torno init`"),
            _ => stop,
        }
    };
    let opened = open_regular(file).map_err(failed)?;
    let mut text = String::new();
    opened
        .take(TEXT_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(failed)?;
    Ok(text)
}

/// Opens a regular file of a directory that others fill: a FIFO in its place must not hold us up.
pub(crate) fn open_regular(file: &Path) -> std::io::Result<std::fs::File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = std::fs::File::from(rustix::fs::open(file, flags, Mode::empty())?);
    if opened.metadata()?.is_file() {
        Ok(opened)
    } else {
        Err(std::io::Error::other("it is no regular file"))
    }
}

/// A document with an error: the place, with the line and a caret.
pub(crate) fn invalid(file: &Path, text: &str, error: &DocumentError) -> Stop {
    let name = printable::line(&file.display().to_string());
    let mut stop = Stop::new(format!("`{name}` is no policy document")).code("document_invalid");
    stop.causes = vec![printable::lines(&document::render(error, text))];
    stop.next("correct it, then run `torno policy check` again")
}

/// The text that was accepted for this file before, as far as this machine kept it. It is shown,
/// and decides nothing: the notary's list of digests does.
pub(crate) fn accepted_before(context: &Context, file: &Path) -> Option<String> {
    let opened = open_regular(&kept(context, file)).ok()?;
    let mut text = String::new();
    opened.take(TEXT_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Keeps the text that was just accepted.
pub(crate) fn keep_accepted(context: &Context, file: &Path, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let place = kept(context, file);
    if let Some(directory) = place.parent() {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
    }
    std::fs::write(place, text)
}

fn kept(context: &Context, file: &Path) -> PathBuf {
    // The same file under another spelling is the same file.
    let file = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let name = document::digest(&file.display().to_string());
    let name = crate::notary::hex(name);
    context.paths.state().join("accepted").join(name)
}
