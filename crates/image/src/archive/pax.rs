// SPDX-License-Identifier: Apache-2.0
//! A pax extended header: records of `length key=value\n` that replace fields of the next header.

use super::ArchiveError;

/// What an extended header says of the next entry. Everything else it may say is about owners,
/// attributes and comments, which no image brings here.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pax {
    pub(super) path: Option<Vec<u8>>,
    pub(super) target: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) mtime: Option<i64>,
}

impl Pax {
    /// Reads the records. A key that stands there twice is refused: readers differ in which counts.
    pub(super) fn parse(mut text: &[u8]) -> Result<Self, ArchiveError> {
        let mut pax = Self::default();
        while !text.is_empty() {
            let (record, rest) = record(text)?;
            text = rest;
            let at = record.iter().position(|byte| *byte == b'=');
            let at = at.ok_or(ArchiveError::Pax("has a record without `=`"))?;
            let (key, value) = record.split_at(at);
            let value = value.get(1..).unwrap_or_default();
            pax.set(key, value)?;
        }
        Ok(pax)
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), ArchiveError> {
        let is_new = match key {
            b"path" => self.path.replace(value.to_vec()).is_none(),
            b"linkpath" => self.target.replace(value.to_vec()).is_none(),
            b"size" => self.size.replace(decimal(value)?).is_none(),
            b"mtime" => self.mtime.replace(seconds(value)?).is_none(),
            _ if key.starts_with(b"GNU.sparse.") => {
                return Err(ArchiveError::Pax("speaks of a file with holes"));
            }
            _ => true,
        };
        if is_new {
            Ok(())
        } else {
            Err(ArchiveError::Pax("says a thing twice"))
        }
    }
}

/// The first record without its length and end of line, and what follows it.
fn record(text: &[u8]) -> Result<(&[u8], &[u8]), ArchiveError> {
    let broken = ArchiveError::Pax("has a record of a wrong length");
    let Some(space) = text.iter().position(|byte| *byte == b' ') else {
        return Err(broken);
    };
    let (digits, _) = text.split_at(space);
    let length = usize::try_from(decimal(digits)?).unwrap_or(usize::MAX);
    if length > text.len() || length <= space + 1 {
        return Err(broken);
    }
    let (record, rest) = text.split_at(length);
    let record = record.get(space + 1..).unwrap_or_default();
    match record.strip_suffix(b"\n") {
        Some(record) => Ok((record, rest)),
        None => Err(broken),
    }
}

fn decimal(text: &[u8]) -> Result<u64, ArchiveError> {
    let number = std::str::from_utf8(text).ok();
    let plain = number.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = plain.and_then(|text| text.parse().ok());
    number.ok_or(ArchiveError::Pax("has a number that is none"))
}

/// Whole seconds of a time such as `1700000000.25` or `-5.5`.
fn seconds(text: &[u8]) -> Result<i64, ArchiveError> {
    if text.starts_with(b"-") {
        return Ok(0);
    }
    let whole = text.split(|byte| *byte == b'.').next().unwrap_or_default();
    i64::try_from(decimal(whole)?).map_err(|_| ArchiveError::Pax("has a time that is too large"))
}
