// SPDX-License-Identifier: Apache-2.0
//! Rust source as the checks read it: the code without comments, literals and test modules.
//!
//! This is a lexer, not a parser: enough to count lines, find words and match braces, and small
//! enough to be read in a minute. What it can't see through (macros that make functions) it counts
//! as plain text.

use anyhow::{Context, Result};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// One source file.
#[derive(Debug)]
pub(crate) struct Source {
    /// Its path, from the workspace's root.
    pub(crate) path: PathBuf,
    /// Its text.
    pub(crate) text: String,
    /// The same length, with comments and the insides of literals blanked.
    pub(crate) code: String,
    /// Byte ranges of items under `#[cfg(test)]`.
    pub(crate) tests: Vec<Range<usize>>,
    /// The whole file is test code.
    pub(crate) all_test: bool,
}

/// A function found in a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// Its name.
    pub(crate) name: String,
    /// First line, from 1.
    pub(crate) line: usize,
    /// Lines from `fn` to its closing brace.
    pub(crate) lines: usize,
    /// Parameters, `self` included.
    pub(crate) parameters: usize,
}

impl Source {
    /// Reads a file below `root`.
    pub(crate) fn read(root: &Path, path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(root.join(path))
            .with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self::new(path, text))
    }

    /// Looks at a text as if it lay at `path`.
    pub(crate) fn new(path: &Path, text: String) -> Self {
        let code = blank(&text);
        let tests = test_items(&code);
        let all_test = path.iter().any(|part| {
            part == "tests" || part == "tests.rs" || part == "examples" || part == "benches"
        });
        Self {
            path: path.to_path_buf(),
            text,
            code,
            tests,
            all_test,
        }
    }

    /// Line number, from 1, of a byte.
    pub(crate) fn line_of(&self, at: usize) -> usize {
        let head = self.code.as_bytes().get(..at).unwrap_or_default();
        1 + head.iter().filter(|b| **b == b'\n').count()
    }

    /// Whether a byte lies in test code.
    pub(crate) fn is_test(&self, at: usize) -> bool {
        self.all_test || self.tests.iter().any(|range| range.contains(&at))
    }

    /// Lines outside test code.
    pub(crate) fn product_lines(&self) -> usize {
        if self.all_test {
            return 0;
        }
        let all = self.text.lines().count();
        let test: usize = self
            .tests
            .iter()
            .map(|range| self.line_of(range.end) + 1 - self.line_of(range.start))
            .sum();
        all.saturating_sub(test)
    }

    /// Byte positions outside test code where a word sequence such as `Command::new` stands alone.
    pub(crate) fn find(&self, words: &str) -> Vec<usize> {
        self.code
            .match_indices(words)
            .map(|(at, _)| at)
            .filter(|at| {
                let before = self.code.as_bytes().get(at.wrapping_sub(1)).copied();
                let after = self.code.as_bytes().get(at + words.len()).copied();
                let alone = |byte: Option<u8>| !byte.is_some_and(is_word);
                let starts_with_word = words.bytes().next().is_some_and(is_word);
                let ends_with_word = words.bytes().last().is_some_and(is_word);
                (!starts_with_word || alone(before)) && (!ends_with_word || alone(after))
            })
            .filter(|at| !self.is_test(*at))
            .collect()
    }

    /// Every function with a body, outside test code.
    pub(crate) fn functions(&self) -> Vec<Function> {
        self.find("fn")
            .into_iter()
            .filter_map(|at| self.function(at))
            .collect()
    }

    fn function(&self, at: usize) -> Option<Function> {
        let bytes = self.code.as_bytes();
        let mut i = at + 2;
        while bytes.get(i)?.is_ascii_whitespace() {
            i += 1;
        }
        let name_start = i;
        while bytes.get(i).is_some_and(|b| is_word(*b)) {
            i += 1;
        }
        let name = self.code.get(name_start..i)?.to_owned();
        if name.is_empty() {
            return None;
        }
        if bytes.get(i) == Some(&b'<') {
            i = close_angle(bytes, i)?;
        }
        let open = i + bytes.get(i..)?.iter().position(|b| *b == b'(')?;
        let close = close_bracket(bytes, open)?;
        let parameters = count_parameters(self.code.get(open + 1..close)?);
        let end = close
            + bytes
                .get(close..)?
                .iter()
                .position(|b| *b == b'{' || *b == b';')?;
        if bytes.get(end) == Some(&b';') {
            return None;
        }
        let last = close_bracket(bytes, end)?;
        let line = self.line_of(at);
        Some(Function {
            name,
            line,
            lines: self.line_of(last) + 1 - line,
            parameters,
        })
    }
}

/// Every `.rs` file below a directory, sorted.
pub(crate) fn rust_files(root: &Path, below: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut next = vec![below.to_path_buf()];
    while let Some(directory) = next.pop() {
        let Ok(entries) = std::fs::read_dir(root.join(&directory)) else {
            continue;
        };
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot list {}", directory.display()))?;
            let path = directory.join(entry.file_name());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                next.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Blanks comments and the insides of literals; newlines stay.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut i = 0;
    while let Some(byte) = bytes.get(i).copied() {
        let previous_is_word = i > 0 && bytes.get(i - 1).is_some_and(|b| is_word(*b));
        let end = match byte {
            b'/' if bytes.get(i + 1) == Some(&b'/') => line_end(bytes, i),
            b'/' if bytes.get(i + 1) == Some(&b'*') => block_end(bytes, i),
            b'"' => string_end(bytes, i + 1),
            b'r' | b'b' | b'c' if !previous_is_word => match literal_end(bytes, i) {
                Some(end) => end,
                None => {
                    i += 1;
                    continue;
                }
            },
            b'\'' => match char_end(bytes, i) {
                Some(end) => end,
                None => {
                    i += 1;
                    continue;
                }
            },
            _ => {
                i += 1;
                continue;
            }
        };
        for slot in code.iter_mut().take(end).skip(i) {
            if *slot != b'\n' {
                *slot = b' ';
            }
        }
        i = end;
    }
    String::from_utf8_lossy(&code).into_owned()
}

fn line_end(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    from + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len())
}

fn block_end(bytes: &[u8], from: usize) -> usize {
    let mut depth = 0_usize;
    let mut i = from;
    while i < bytes.len() {
        match bytes.get(i..i + 2) {
            Some(b"/*") => {
                depth += 1;
                i += 2;
            }
            Some(b"*/") => {
                depth -= 1;
                i += 2;
                if depth == 0 {
                    return i;
                }
            }
            _ => i += 1,
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], mut i: usize) -> usize {
    while let Some(byte) = bytes.get(i) {
        match byte {
            b'\\' => i += 2,
            b'"' => return i + 1,
            _ => i += 1,
        }
    }
    bytes.len()
}

/// The end of `r"…"`, `r#"…"#`, `b"…"`, `br"…"`, `b'…'`, `c"…"` that begins at `from`.
fn literal_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut i = from;
    while matches!(bytes.get(i), Some(b'b' | b'c' | b'r')) && i < from + 2 {
        i += 1;
    }
    let raw = bytes.get(from..i)?.contains(&b'r');
    let hashes = bytes.get(i..)?.iter().take_while(|b| **b == b'#').count();
    match bytes.get(i + hashes)? {
        b'"' if raw => {
            let mut close = vec![b'"'];
            close.resize(hashes + 1, b'#');
            let inside = bytes.get(i + hashes + 1..)?;
            let at = inside.windows(close.len()).position(|w| w == close)?;
            Some(i + hashes + 1 + at + close.len())
        }
        b'"' if hashes == 0 => Some(string_end(bytes, i + 1)),
        b'\'' if hashes == 0 && !raw => char_end(bytes, i),
        _ => None,
    }
}

/// The end of a character literal; `None` for a lifetime.
fn char_end(bytes: &[u8], from: usize) -> Option<usize> {
    if bytes.get(from + 1) == Some(&b'\\') {
        let rest = bytes.get(from + 3..)?;
        return Some(from + 4 + rest.iter().position(|b| *b == b'\'')?);
    }
    // LIMIT: one character is at most four bytes long.
    (from + 2..=from + 5).find_map(|at| {
        let inside = std::str::from_utf8(bytes.get(from + 1..at)?).ok()?;
        let one = inside.chars().count() == 1;
        (bytes.get(at) == Some(&b'\'') && one).then_some(at + 1)
    })
}

/// Ranges of items that carry `#[cfg(test)]`.
fn test_items(code: &str) -> Vec<Range<usize>> {
    let bytes = code.as_bytes();
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, _) in code.match_indices("#[cfg(test)]") {
        if found.iter().any(|range| range.contains(&at)) {
            continue;
        }
        let rest = bytes.get(at..).unwrap_or_default();
        let end = rest
            .iter()
            .position(|b| *b == b'{' || *b == b';')
            .map(|p| p + at);
        let end = match end {
            Some(open) if bytes.get(open) == Some(&b'{') => close_bracket(bytes, open),
            other => other,
        };
        found.push(at..end.unwrap_or(bytes.len()));
    }
    found
}

/// The position of the bracket that closes the one at `open`.
fn close_bracket(bytes: &[u8], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (i, byte) in bytes.iter().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(i);
                }
            }
            _ => {}
        }
    }
    None
}

/// The position after the `>` that closes the `<` at `open`; `->` does not close.
fn close_angle(bytes: &[u8], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (i, byte) in bytes.iter().enumerate().skip(open) {
        match byte {
            b'<' => depth += 1,
            b'>' if bytes.get(i - 1) != Some(&b'-') => {
                depth -= 1;
                if depth == 0 {
                    return Some(i + 1);
                }
            }
            _ => {}
        }
    }
    None
}

fn count_parameters(list: &str) -> usize {
    let mut depth = 0_usize;
    let mut count = 0;
    let mut in_one = false;
    let mut previous = b' ';
    for byte in list.bytes() {
        match byte {
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            b'>' if previous == b'-' => {}
            b')' | b']' | b'}' | b'>' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                in_one = false;
                previous = byte;
                continue;
            }
            _ => {}
        }
        if !byte.is_ascii_whitespace() && !in_one {
            in_one = true;
            count += 1;
        }
        previous = byte;
    }
    count
}

#[cfg(test)]
mod tests;
