// SPDX-License-Identifier: Apache-2.0
//! A body of `multipart/form-data` (RFC 7578), in the one form that clients write: no preamble,
//! every part with a plain name, nothing nested, encoded or behind the end. What two servers could
//! cut in two ways is refused.

use super::form::{STEERING, steering};
use super::slot::{Found, Place, held};
use crate::head::{Head, is_token_byte};
use crate::refuse::Fault;
use memchr::memmem;
use std::ops::Range;
use torno_policy::binding::{Held, may_mean};
use torno_policy::facts::Location;

/// LIMIT: RFC 2046 §5.1.1.
const BOUNDARY_BYTES_MAX: usize = 70;
/// LIMIT: forms have dozens of fields.
const PARTS_MAX: usize = 256;
/// LIMIT: two or three short lines; file names have at most 255 bytes.
const PART_HEAD_BYTES_MAX: usize = 2048;

fn fault(hint: &'static str) -> Fault {
    // ATTACK: 086
    Fault::malformed(hint).at(Location::Body)
}

/// The boundary that the head names, in one way.
pub(crate) fn boundary(head: &Head) -> Result<String, Fault> {
    let form = || {
        Fault::malformed(
            "send one Content-Type: multipart/form-data with a boundary of letters, digits and \
             `-_.`, and nothing else",
        )
    };
    let given = head
        .single("content-type")
        .ok()
        .flatten()
        .ok_or_else(form)?;
    let given = std::str::from_utf8(given).map_err(|_| form())?;
    let (kind, parameter) = given.split_once(';').ok_or_else(form)?;
    let (name, value) = parameter.trim().split_once('=').ok_or_else(form)?;
    let unquoted = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
    let value = unquoted.unwrap_or(value);
    let known = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let is_plain = (1..=BOUNDARY_BYTES_MAX).contains(&value.len()) && value.bytes().all(known);
    let is_form = kind.trim().eq_ignore_ascii_case("multipart/form-data");
    if is_form && name.eq_ignore_ascii_case("boundary") && is_plain {
        Ok(value.to_owned())
    } else {
        Err(form())
    }
}

/// The content of the part of this name.
pub(crate) fn find(body: &[u8], boundary: &str, wanted: &str) -> Result<Found, Fault> {
    let (parts, end) = cut(body, boundary)?;
    let mut found = None;
    for range in parts {
        let part = Part::read(body, range)?;
        if STEERING.iter().any(|name| may_mean(part.name, name)) {
            return Err(steering());
        }
        if may_mean(part.name, wanted) {
            let is_one = part.name == wanted && part.is_text && found.is_none();
            let value = body.get(part.content.clone()).unwrap_or_default();
            found = Some(if is_one {
                Found::at(held(value), Place::of(part.content))
            } else {
                Found::without_place(Held::Twice)
            });
        }
    }
    Ok(found.unwrap_or_else(|| {
        let head = format!("content-disposition: form-data; name=\"{wanted}\"");
        let place = Place {
            cut: end..end,
            before: format!("--{boundary}\r\n{head}\r\n\r\n"),
            after: "\r\n".to_owned(),
        };
        Found::at(Held::Nothing, place)
    }))
}

/// The parts, each from behind its delimiter to the next, and where the last delimiter begins. The
/// delimiter's text stands nowhere else: servers differ in the line end that they want before it.
fn cut(body: &[u8], boundary: &str) -> Result<(Vec<Range<usize>>, usize), Fault> {
    let delimiter = format!("--{boundary}");
    let form = || {
        fault(
            "send the parts one after the other, each behind its boundary on a line of its own, \
             nothing before the first and nothing behind the last",
        )
    };
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut open: Option<usize> = None;
    for at in memmem::find_iter(body, delimiter.as_bytes()) {
        match open {
            None if at == 0 => {}
            None => return Err(form()),
            Some(start) => {
                let end = at.checked_sub(2).filter(|end| *end >= start);
                let end = end.filter(|end| body.get(*end..at) == Some(b"\r\n"));
                parts.push(start..end.ok_or_else(form)?);
            }
        }
        if parts.len() > PARTS_MAX {
            return Err(fault("send fewer parts"));
        }
        let behind = at + delimiter.len();
        match body.get(behind..).unwrap_or_default() {
            b"--" | b"--\r\n" => return Ok((parts, at)),
            [b'\r', b'\n', ..] => open = Some(behind + 2),
            _ => return Err(form()),
        }
    }
    Err(form())
}

struct Part<'a> {
    name: &'a str,
    /// It is no file, of no type but plain text, and does not say how long it is.
    is_text: bool,
    content: Range<usize>,
}

impl<'a> Part<'a> {
    fn read(body: &'a [u8], range: Range<usize>) -> Result<Self, Fault> {
        let whole = body.get(range.clone()).unwrap_or_default();
        let near = whole.get(..PART_HEAD_BYTES_MAX).unwrap_or(whole);
        let end = memmem::find(near, b"\r\n\r\n");
        let end = end.ok_or_else(|| fault("give each part a short head and an empty line"))?;
        let head = std::str::from_utf8(whole.get(..end).unwrap_or_default());
        let head = head.map_err(|_| fault("write the heads of parts in UTF-8"))?;
        let content = range.start + end + 4..range.end;
        let (mut disposition, mut kind, mut has_length) = (None, None, false);
        for line in head.split("\r\n") {
            let (name, value) = field(line)?;
            let place = match name.to_ascii_lowercase().as_str() {
                "content-disposition" => &mut disposition,
                "content-type" => &mut kind,
                // Some clients say how long it is, and are right.
                "content-length" if value == content.len().to_string() => {
                    has_length = true;
                    continue;
                }
                "content-transfer-encoding" if is_identity(value) => continue,
                _ => {
                    return Err(fault(
                        "give parts Content-Disposition and Content-Type alone",
                    ));
                }
            };
            if place.replace(value).is_some() {
                return Err(fault(
                    "give each part one Content-Disposition and one Content-Type",
                ));
            }
        }
        let form = || {
            fault(
                "name each part as `Content-Disposition: form-data; name=\"…\"`, perhaps with a \
                 `filename=\"…\"`, and nothing else",
            )
        };
        let (name, is_file) = disposed(disposition.ok_or_else(form)?).ok_or_else(form)?;
        let kind = kind.map(str::to_ascii_lowercase);
        let starts = |start| kind.as_ref().is_some_and(|kind| kind.starts_with(start));
        if starts("multipart/") || starts("message/") {
            return Err(fault("nest no parts in a part"));
        }
        Ok(Self {
            name,
            is_text: !is_file && !has_length && kind.as_deref().is_none_or(is_plain_text),
            content,
        })
    }
}

/// `Name: value`, on one line without control characters.
fn field(line: &str) -> Result<(&str, &str), Fault> {
    let form = || fault("write the heads of parts as `Name: value`, without folds");
    let (name, value) = line.split_once(':').ok_or_else(form)?;
    let is_token = !name.is_empty() && name.bytes().all(is_token_byte);
    if !is_token || value.chars().any(char::is_control) {
        return Err(form());
    }
    Ok((name, value.trim_matches(' ')))
}

fn is_identity(coding: &str) -> bool {
    let known = ["7bit", "8bit", "binary"];
    known.iter().any(|known| coding.eq_ignore_ascii_case(known))
}

fn is_plain_text(kind: &str) -> bool {
    let mut parts = kind.split(';').map(str::trim);
    let charset = |part: &str| matches!(part, "charset=utf-8" | "charset=\"utf-8\"");
    parts.next() == Some("text/plain") && parts.all(charset)
}

/// The name, and whether it is a file. ATTACK: 086 – a name in an encoding of its own (RFC 5987),
/// an escaped or missing quote, or a second name is read in as many ways as there are servers.
fn disposed(value: &str) -> Option<(&str, bool)> {
    let (kind, mut rest) = value.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("form-data") {
        return None;
    }
    let (mut name, mut file) = (None, None);
    loop {
        let (key, behind) = rest.trim_start_matches(' ').split_once("=\"")?;
        let (text, behind) = behind.split_once('"')?;
        let place = match key {
            "name" => &mut name,
            "filename" => &mut file,
            _ => return None,
        };
        if text.contains('\\') || place.replace(text).is_some() {
            return None;
        }
        match behind.strip_prefix(';') {
            Some(more) => rest = more,
            None if behind.is_empty() => return Some((name?, file.is_some())),
            None => return None,
        }
    }
}

#[cfg(test)]
mod tests;
