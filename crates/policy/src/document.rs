// SPDX-License-Identifier: Apache-2.0
//! The policy file: `torno.toml` text → canonical [`Grant`]. Unknown keys are errors, and every
//! error points at its place in the text. What the file leaves out has the narrowest default.

use crate::grant::{AllowRule, Grant};
use sha2::{Digest, Sha256};
use std::ops::Range;

mod describe;
mod dialects;
mod fields;
mod files;
mod limits;
mod presets;
mod rules;
mod sandbox;
mod secrets;
mod tools;
mod widens;

pub use describe::describe;
pub use limits::{LIMITS_DEFAULT, LIMITS_MAX};
pub use presets::{Preset, PresetHost, Presets, digest_with, presets_named};
pub use widens::widens;

use fields::{Fields, fail};

/// What is wrong with a document, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DocumentError {
    /// What is wrong, one line, with what to do next.
    pub message: String,
    /// The bytes of the text it is about, when known.
    pub span: Option<Range<usize>>,
}

/// SHA-256 of a document: what `torno trust` accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DocumentDigest(pub [u8; 32]);

/// The digest of a text's bytes. For a document that may name presets: [`digest_with`].
#[must_use]
pub fn digest(text: &str) -> DocumentDigest {
    DocumentDigest(Sha256::digest(text.as_bytes()).into())
}

/// LIMIT: a policy file is read by a person before it counts; 256 KiB bounds what parsing costs.
const TEXT_BYTES_MAX: usize = 256 * 1024;

/// LIMIT: allow rules; they have an index, so no decision walks them.
const ALLOW_MAX: usize = 1_024;
/// LIMIT: rules of any other kind; `decide` walks them once for each request.
const RULES_MAX: usize = 256;

/// Reads a policy file. `presets` are the ones that the operator learnt.
///
/// # Errors
/// The first thing that is wrong with it, with its place.
pub fn parse(text: &str, presets: &Presets) -> Result<Grant, DocumentError> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("a policy file has at most {TEXT_BYTES_MAX} bytes; shorten it");
        return Err(DocumentError {
            message,
            span: None,
        });
    }
    refuse_invisible(text)?;
    let root = toml::de::DeTable::parse(text).map_err(|error| DocumentError {
        message: one_line(error.message()),
        span: error.span(),
    })?;
    let known = ["sandbox", "install", "secret", "git", "allow", "tool"];
    let root = Fields::of_table(root.get_ref(), 0..0, &known)?;

    let sandbox = sandbox::read(root.get("sandbox"))?;
    let (install, mut allow) = sandbox::read_install(root.get("install"), presets)?;
    allow.extend(rules::read(root.get("allow"), "grant.allow", presets)?);
    let secrets = secrets::read(root.get("secret"))?;
    let git = secrets::read_git(root.get("git"))?;
    let tools = tools::read(root.get("tool"))?;
    secrets::check_variables(&secrets, &sandbox.env, root.get("secret"))?;
    check_counts(&allow, git.len().max(secrets.len()).max(tools.len()))?;
    Ok(Grant {
        sandbox,
        install,
        allow: allow.into(),
        secrets,
        git,
        tools,
    })
}

/// Shows the error under the line it is about, with a caret.
#[must_use]
pub fn render(error: &DocumentError, text: &str) -> String {
    let Some(span) = &error.span else {
        return error.message.clone();
    };
    let before = text.get(..span.start).unwrap_or(text);
    let number = before.matches('\n').count() + 1;
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = text
        .get(line_start..)
        .and_then(|rest| rest.lines().next())
        .unwrap_or("");
    let column = text
        .get(line_start..span.start)
        .unwrap_or("")
        .chars()
        .count();
    let marked = text
        .get(span.clone())
        .unwrap_or("")
        .lines()
        .next()
        .unwrap_or("");
    let room = line.chars().count().saturating_sub(column);
    let carets = "^".repeat(marked.chars().count().clamp(1, room.max(1)));
    // A tab would move the caret; control characters would move the terminal.
    let shown: String = line
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let gutter = " ".repeat(number.to_string().len());
    let pad = " ".repeat(column);
    format!(
        "{gutter} |\n{number} | {shown}\n{gutter} | {pad}{carets} {}",
        error.message
    )
}

/// A person accepts this text by reading it, so nothing in it may be invisible or turn the line
/// around (control characters are TOML's own business).
fn refuse_invisible(text: &str) -> Result<(), DocumentError> {
    // ATTACK: 183
    let invisible = |c: char| {
        matches!(
            c,
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{3164}'
        ) || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(c, '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
            || matches!(c, '\u{80}'..='\u{9f}' | '\u{1d173}'..='\u{1d17a}')
            || matches!(c, '\u{e0000}'..='\u{e0fff}')
    };
    match text.char_indices().find(|(_, c)| invisible(*c)) {
        Some((at, c)) => {
            let message = format!("U+{:04X} is invisible; remove it", u32::from(c));
            fail(at..at + c.len_utf8(), message)
        }
        None => Ok(()),
    }
}

fn check_counts(allow: &[AllowRule], others: usize) -> Result<(), DocumentError> {
    let message = if allow.len() > ALLOW_MAX {
        format!("a policy file has at most {ALLOW_MAX} allow rules; merge some")
    } else if others > RULES_MAX {
        format!("a policy file has at most {RULES_MAX} rules of one kind; merge some")
    } else {
        return Ok(());
    };
    Err(DocumentError {
        message,
        span: None,
    })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
