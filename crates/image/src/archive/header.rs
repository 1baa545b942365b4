// SPDX-License-Identifier: Apache-2.0
//! One header of 512 bytes: POSIX ustar, and what GNU and the seventh edition made of it.

use super::ArchiveError;

/// Headers and padding are counted in these.
pub(super) const BLOCK: usize = 512;

/// A header whose sum is right, its fields as bytes.
pub(super) struct Header<'a> {
    /// The name, with ustar's prefix before it.
    pub(super) name: Vec<u8>,
    pub(super) mode: u32,
    pub(super) size: u64,
    pub(super) mtime: i64,
    pub(super) kind: u8,
    pub(super) target: &'a [u8],
}

/// Reads a header; nothing for a block of zeros, which ends an archive.
pub(super) fn read(block: &[u8; BLOCK]) -> Result<Option<Header<'_>>, ArchiveError> {
    if block.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    check_sum(block)?;
    let magic = field(block, 257, 8);
    // GNU's magic is followed by other fields than a prefix.
    let is_posix = magic == b"ustar\x0000";
    let is_old = magic.iter().all(|byte| *byte == 0) || magic == b"ustar  \0";
    if !is_posix && !is_old {
        return Err(ArchiveError::Header("it is neither ustar nor GNU's"));
    }
    let mut name = Vec::new();
    if is_posix {
        name.extend_from_slice(text(field(block, 345, 155)));
        if !name.is_empty() {
            name.push(b'/');
        }
    }
    name.extend_from_slice(text(field(block, 0, 100)));
    let kind = field(block, 156, 1).first().copied().unwrap_or_default();
    Ok(Some(Header {
        name,
        mode: u32::try_from(number(field(block, 100, 8))? & 0o777).unwrap_or_default(),
        size: number(field(block, 124, 12))?,
        mtime: i64::try_from(time(field(block, 136, 12))?)
            .map_err(|_| ArchiveError::Header("its time is too large"))?,
        kind,
        target: text(field(block, 157, 100)),
    }))
}

fn field(block: &[u8; BLOCK], at: usize, length: usize) -> &[u8] {
    block.get(at..at + length).unwrap_or_default()
}

/// The sum of all bytes, its own field read as spaces.
fn check_sum(block: &[u8; BLOCK]) -> Result<(), ArchiveError> {
    let sum: u64 = block
        .iter()
        .enumerate()
        .map(|(at, byte)| {
            let is_sum = (148..156).contains(&at);
            u64::from(if is_sum { b' ' } else { *byte })
        })
        .sum();
    if number(field(block, 148, 8))? == sum {
        Ok(())
    } else {
        Err(ArchiveError::Header("its sum is wrong"))
    }
}

/// Up to the first NUL.
fn text(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// A number: octal digits between spaces and NULs, or GNU's big-endian one behind a set bit.
fn number(field: &[u8]) -> Result<u64, ArchiveError> {
    match field.split_first() {
        Some((0x80, rest)) => binary(rest),
        Some((0xff, _)) => Err(ArchiveError::Header("it has a negative number")),
        Some(_) | None => octal(field),
    }
}

/// A time before 1970 is 1970: no file of an image means it.
fn time(field: &[u8]) -> Result<u64, ArchiveError> {
    if field.first() == Some(&0xff) {
        return Ok(0);
    }
    number(field)
}

fn binary(bytes: &[u8]) -> Result<u64, ArchiveError> {
    let (high, low) = bytes.split_at(bytes.len().saturating_sub(8));
    let wide = high.iter().any(|byte| *byte != 0);
    let number = low.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
    if wide || number > i64::MAX.unsigned_abs() {
        return Err(ArchiveError::Header("it has a number that is too large"));
    }
    Ok(number)
}

fn octal(field: &[u8]) -> Result<u64, ArchiveError> {
    let is_space = |byte: &u8| *byte == b' ' || *byte == 0;
    let start = field.iter().position(|byte| *byte != b' ');
    let digits = field
        .get(start.unwrap_or(field.len())..)
        .unwrap_or_default();
    let end = digits.iter().position(is_space).unwrap_or(digits.len());
    let (digits, rest) = digits.split_at(end);
    if !digits.iter().all(|byte| (b'0'..=b'7').contains(byte)) || !rest.iter().all(is_space) {
        return Err(ArchiveError::Header("it has a number that is none"));
    }
    // Twelve digits at most: no overflow.
    Ok(digits
        .iter()
        .fold(0, |all, digit| all << 3 | u64::from(digit - b'0')))
}
