// SPDX-License-Identifier: Apache-2.0
//! How deep a rule is, before Cedar reads it: its parser and evaluator recurse, and a text that is
//! nested or chained without bound would take the whole process with it.

use crate::document::DocumentError;

/// LIMIT: brackets and `if`s open at once; rules that people write stay below ten.
const NESTING_MAX: usize = 32;
/// LIMIT: operators of one rule; each may be a level of the tree. Lists have none, so a rule can
/// still name thousands of hosts.
const OPERATORS_MAX: usize = 256;

/// Walks over the text once, without strings and comments.
pub(super) fn check(text: &str) -> Result<(), DocumentError> {
    let bytes = text.as_bytes();
    let (mut open, mut ifs, mut operators) = (0_usize, 0_usize, 0_usize);
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let start = at;
        at += 1;
        match byte {
            b'"' => at = after_string(bytes, at),
            b'/' if bytes.get(at) == Some(&b'/') => at = after_line(bytes, at),
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            b';' => (open, ifs, operators) = (0, 0, 0),
            b'&' | b'|' | b'+' | b'-' | b'*' | b'.' | b'!' | b'<' | b'>' | b'=' => operators += 1,
            _ if is_word(byte) => {
                while bytes.get(at).is_some_and(|byte| is_word(*byte)) {
                    at += 1;
                }
                match bytes.get(start..at) {
                    Some(b"if") => ifs += 1,
                    Some(b"in" | b"is" | b"has" | b"like") => operators += 1,
                    Some(_) | None => {}
                }
            }
            _ => {}
        }
        if open + ifs > NESTING_MAX || operators > OPERATORS_MAX {
            let message = "this rule is too deep; split it into several rules".to_owned();
            return Err(DocumentError {
                message,
                span: Some(start..at.min(bytes.len())),
            });
        }
    }
    Ok(())
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn after_string(bytes: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    at
}

fn after_line(bytes: &[u8], mut at: usize) -> usize {
    while bytes
        .get(at)
        .is_some_and(|byte| !matches!(byte, b'\n' | b'\r'))
    {
        at += 1;
    }
    at
}
