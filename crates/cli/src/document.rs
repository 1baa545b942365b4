// SPDX-License-Identifier: Apache-2.0
//! The policy document of a run: the directory's `torno.toml`, or one that is written from what
//! the person typed. And the texts that were accepted before, kept so that a change can be shown.

use crate::context::Context;
use crate::notary::Notary;
use crate::printable;
use crate::stop::{Outcome, Stop};
use std::io::Read;
use std::path::{Path, PathBuf};
use torno_policy::document::{self, DocumentDigest, DocumentError, Presets};
use torno_policy::grant::Grant;
use torno_policy::names::PresetName;

/// The name of a policy file.
pub(crate) const NAME: &str = "torno.toml";
/// LIMIT: twice what a document may have, so that the parser and not the reader says so.
const TEXT_BYTES_MAX: u64 = 512 * 1024;

/// A document as it was read.
#[derive(Debug)]
pub(crate) struct Document {
    /// The file, or nothing where the person typed it.
    pub(crate) file: Option<PathBuf>,
    /// The text.
    pub(crate) text: String,
    /// What it grants. What its presets give is missing until [`Self::with_presets`].
    pub(crate) grant: Grant,
    /// What counts when it was accepted. Like `grant`, of the text alone at first.
    pub(crate) digest: DocumentDigest,
    /// The presets that it names, each with its text once they were asked for.
    pub(crate) presets: Vec<(PresetName, Option<String>)>,
}

impl Document {
    /// Reads and parses a file.
    pub(crate) fn read(file: &Path) -> Outcome<Self> {
        let text = read_text(file)?;
        let grant = parse(&text).map_err(|error| invalid(file, &text, &error))?;
        Ok(Self::of(Some(file.to_owned()), text, grant))
    }

    fn of(file: Option<PathBuf>, text: String, grant: Grant) -> Self {
        let named = document::presets_named(&text).into_iter();
        Self {
            file,
            digest: document::digest(&text),
            presets: named.map(|name| (name, None)).collect(),
            text,
            grant,
        }
    }

    /// The same document with the operator's presets in place of their names.
    pub(crate) async fn with_presets(mut self, notary: &Notary) -> Outcome<Self> {
        if self.presets.is_empty() {
            return Ok(self);
        }
        let known = notary.presets().await?;
        let mut names = self.presets.iter().map(|(name, _)| name);
        if let Some(name) = names.find(|name| known.preset(name).is_none()) {
            return Err(
                Stop::new(format!("preset `{name}` is not confirmed on this machine"))
                    .code("preset_unknown")
                    .next(format!("torno preset learn {name} -- CMD…")),
            );
        }
        let name = self.file.as_deref().unwrap_or_else(|| Path::new(NAME));
        self.grant = document::parse(&self.text, &known)
            .map_err(|error| invalid(name, &self.text, &error))?;
        self.digest = document::digest_with(&self.text, &known);
        for (name, text) in &mut self.presets {
            *text = known.preset(name).map(document::Preset::text);
        }
        Ok(self)
    }

    /// Takes a text that was written from arguments.
    pub(crate) fn typed(text: String) -> Outcome<Self> {
        let grant = parse(&text).map_err(|error| {
            Stop::new(printable::line(&error.message))
                .next("change the arguments, or write a torno.toml with `torno init`")
        })?;
        Ok(Self::of(None, text, grant))
    }

    /// What it grants, one inert line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = document::describe(&self.grant);
        let unread: Vec<_> = self
            .presets
            .iter()
            .filter(|(_, text)| text.is_none())
            .collect();
        let nothing = self.grant.allow.is_empty()
            && self.grant.secrets.is_empty()
            && self.grant.git.is_empty();
        if nothing && !unread.is_empty() {
            // The last line says that nothing is reached, which only the preset can tell.
            lines.pop();
        }
        lines.extend(unread.iter().map(|(name, _)| {
            format!("reaches what preset {name} gives: `torno preset show {name}`")
        }));
        lines.iter().map(|line| printable::line(line)).collect()
    }
}

/// Parses a document; what its presets give is the notary's to say.
pub(crate) fn parse(text: &str) -> Result<Grant, DocumentError> {
    document::parse(text, &Presets::unread())
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
pub(crate) fn accepted_before(context: &Context, file: &Path) -> Option<Accepted> {
    let opened = open_regular(&kept(context, file)).ok()?;
    let mut text = String::new();
    opened.take(KEPT_BYTES_MAX).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// LIMIT: a text and the presets that it names, as JSON.
const KEPT_BYTES_MAX: u64 = 8 * TEXT_BYTES_MAX;

/// What was accepted: the text, and the presets that it named as they stood.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Accepted {
    text: String,
    presets: Vec<(PresetName, String)>,
}

impl Accepted {
    /// Its digest and what it granted.
    pub(crate) fn read(&self) -> Option<(DocumentDigest, Grant)> {
        let known = self
            .presets
            .iter()
            .try_fold(Presets::shipped(), |known, (name, text)| {
                let preset = document::Preset::parse(text).ok()?;
                Some(known.with(name.clone(), preset))
            })?;
        let grant = document::parse(&self.text, &known).ok()?;
        Some((document::digest_with(&self.text, &known), grant))
    }
}

/// Keeps what was just accepted.
pub(crate) fn keep_accepted(
    context: &Context,
    file: &Path,
    document: &Document,
) -> std::io::Result<()> {
    let named = document.presets.iter().cloned();
    let accepted = Accepted {
        text: document.text.clone(),
        presets: named
            .filter_map(|(name, text)| Some((name, text?)))
            .collect(),
    };
    use std::os::unix::fs::DirBuilderExt;
    let place = kept(context, file);
    if let Some(directory) = place.parent() {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
    }
    std::fs::write(place, serde_json::to_vec(&accepted)?)
}

fn kept(context: &Context, file: &Path) -> PathBuf {
    // The same file under another spelling is the same file.
    let file = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let name = document::digest(&file.display().to_string());
    let name = crate::notary::hex(name);
    context.paths.state().join("accepted").join(name)
}
