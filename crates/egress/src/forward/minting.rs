// SPDX-License-Identifier: Apache-2.0
//! Values that the far end made with a credential: an answer to a request that changes something
//! and carried one is read whole where it is short and a text, and what it mints stays here. The
//! sandbox gets placeholders, which stand for the values in this session alone.

use super::answer::Answer;
use super::body::{Body, Step};
use super::{Stop, answer};
use crate::ports::Ask;
use crate::refuse::Fault;
use crate::scrub::{Refreshing, Released};
use crate::wire::{Source, StreamError};
use std::ops::Range;
use torno_policy::names::{Endpoint, RecordSeq};
use zeroize::Zeroizing;

mod declared;
mod shape;
mod text;

/// Who names minted values, and what the answer is to.
#[derive(Clone, Copy)]
pub(crate) struct Minting<'a> {
    pub(crate) ask: &'a dyn Ask,
    pub(crate) record: RecordSeq,
    pub(crate) endpoint: &'a Endpoint,
    /// Set where the binding says that tokens are made.
    pub(crate) declared: Option<Refreshing<'a>>,
}

/// LIMIT: an answer with tokens has a few KiB. A longer one streams, unless its start mints
/// something; what is behind is not looked at.
const READ_BYTES_MAX: usize = 64 * 1024;
/// LIMIT: values in one answer; one more refuses it.
const VALUES_MAX: usize = 16;

/// What was read of a body, and whether that is all of it.
pub(super) struct ReadAhead {
    pub(super) bytes: Zeroizing<Vec<u8>>,
    pub(super) is_whole: bool,
}

/// Whether an answer is looked at.
pub(super) fn may_mint(answer: &Answer, minting: &Minting<'_>) -> Result<bool, Fault> {
    if minting.declared.is_some() {
        return declared::is_read(answer);
    }
    Ok(is_short_text(answer))
}

fn is_short_text(answer: &Answer) -> bool {
    (200..300).contains(&answer.status)
        && answer.head.values("content-type").any(text::is_read)
        && !answer.body.is_over()
}

/// Reads a body until its end or the bound.
pub(super) async fn read_ahead(
    answer: &mut Answer,
    source: &mut Source<'_>,
) -> Result<ReadAhead, Stop> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(READ_BYTES_MAX));
    loop {
        let unread = source.buffer.unread();
        match answer.body.step(unread).map_err(answer::of_answer)? {
            Step::Skip(count) => source.buffer.consume(count),
            Step::Data(count) => {
                let piece = unread.get(..count).unwrap_or_default();
                let is_whole = bytes.len() + count <= READ_BYTES_MAX;
                bytes.extend_from_slice(piece);
                source.buffer.consume(count);
                if !is_whole {
                    return Ok(ReadAhead { bytes, is_whole });
                }
            }
            Step::More => match source.more_of_body().await {
                Ok(()) => {}
                Err(StreamError::Gone) if matches!(answer.body, Body::UntilClose) => {
                    answer.body = Body::Length(0);
                }
                Err(_) => return Err(Stop::Gone),
            },
            // Trailers of so short a text say nothing that is needed.
            Step::Trailers(count, _) => {
                source.buffer.consume(count);
                answer.body = Body::Length(0);
                let is_whole = true;
                return Ok(ReadAhead { bytes, is_whole });
            }
            Step::End => {
                answer.body = Body::Length(0);
                let is_whole = true;
                return Ok(ReadAhead { bytes, is_whole });
            }
        }
    }
}

impl Minting<'_> {
    /// Where tokens are made, an answer that goes on behind what was read may hold any.
    pub(super) fn check_length(&self, ahead: &ReadAhead) -> Result<(), Fault> {
        if self.declared.is_some() && !ahead.is_whole {
            return Err(declared::too_long());
        }
        Ok(())
    }

    /// What a text mints. What is a secret of the session already is no news: it is found and
    /// replaced as ever.
    fn news(&self, answer: &Answer, released: &Released, body: &[u8]) -> Result<Vec<Value>, Fault> {
        let mut found = match self.declared {
            Some(_) => declared::read(answer, body)?,
            None => found(answer, body),
        };
        found.retain(|value| !released.knows(&value.value));
        Ok(found)
    }

    /// Takes out what a text mints and puts placeholders in its place.
    pub(super) async fn keep(
        &self,
        answer: &Answer,
        released: &Released,
        body: Zeroizing<Vec<u8>>,
    ) -> Result<Zeroizing<Vec<u8>>, Stop> {
        let found = self.news(answer, released, &body)?;
        if found.is_empty() {
            return Ok(body);
        }
        if !found.iter().all(|one| text::can_be_kept(&one.value)) {
            return Err(not_kept());
        }
        if found.len() > VALUES_MAX {
            let hint = "the far end's answer holds more credentials than can be kept";
            return Err(Fault::answer(hint).into());
        }
        let values = distinct(&found);
        let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
        let placeholders = self.ask.mint(self.record, count).await?;
        if placeholders.len() != values.len() {
            return Err(Fault::answer("the answer's credentials could not be kept").into());
        }
        for (value, placeholder) in values.iter().zip(&placeholders) {
            let refreshes = |one: &Value| one.is_refresh && one.value == value.value;
            let declared = self.declared.filter(|_| found.iter().any(refreshes));
            released.keep_minted(placeholder, (self.endpoint, declared), &value.value)?;
        }
        let stands_for = |value: &Zeroizing<Vec<u8>>| {
            let mut known = values.iter();
            let known = known.position(|known| known.value == *value);
            let placeholder = known.and_then(|at| placeholders.get(at));
            placeholder.map_or("[redacted]", String::as_str)
        };
        let mut out = Zeroizing::new(Vec::with_capacity(body.len() + READ_BYTES_MAX));
        let mut done = 0;
        for one in &found {
            out.extend_from_slice(body.get(done..one.place.start).unwrap_or_default());
            out.extend_from_slice(stands_for(&one.value).as_bytes());
            done = one.place.end;
        }
        out.extend_from_slice(body.get(done..).unwrap_or_default());
        Ok(out)
    }
}

/// What a text mints that is no declared endpoint's.
fn found(answer: &Answer, body: &[u8]) -> Vec<Value> {
    if answer.head.values("content-type").any(text::is_json) {
        text::in_json(body)
    } else {
        text::in_text(body)
    }
}

/// Each value once.
fn distinct(found: &[Value]) -> Vec<&Value> {
    let mut values: Vec<&Value> = Vec::new();
    for one in found {
        if !values.iter().any(|known| known.value == one.value) {
            values.push(one);
        }
    }
    values
}

/// Refuses an answer that is too long to be kept out of the sandbox in part, and whose start mints
/// something.
pub(super) fn pass_start(answer: &Answer, released: &Released, start: &[u8]) -> Result<(), Stop> {
    let (plain, _) = unpacked(answer, start, false)?;
    let found = found(answer, &plain);
    if found.iter().all(|value| released.knows(&value.value)) {
        Ok(())
    } else {
        Err(not_kept())
    }
}

/// A whole answer as a text.
pub(super) fn whole(answer: &Answer, packed: &[u8]) -> Result<Zeroizing<Vec<u8>>, Stop> {
    let (plain, is_all) = unpacked(answer, packed, true)?;
    if is_all {
        Ok(plain)
    } else {
        let hint = "the far end's answer unpacks to over 1 MiB, so what it makes can't be kept: \
                    ask for less at once";
        Err(Fault::answer(hint).into())
    }
}

/// LIMIT: what is unpacked of an answer that is looked at for what it mints.
const UNPACKED_BYTES_MAX: usize = 1024 * 1024;

/// The text of what was read, within the bound, and whether that is all.
fn unpacked(
    answer: &Answer,
    read: &[u8],
    is_whole: bool,
) -> Result<(Zeroizing<Vec<u8>>, bool), Stop> {
    let Some(mut unpack) = answer.coding.unpack() else {
        return Ok((Zeroizing::new(read.to_vec()), true));
    };
    // At once, so that no smaller one is left behind unwiped.
    let mut plain = Zeroizing::new(Vec::with_capacity(UNPACKED_BYTES_MAX));
    let mut is_all = true;
    let mut take = |bytes: &[u8]| {
        let room = UNPACKED_BYTES_MAX.saturating_sub(plain.len());
        is_all &= bytes.len() <= room;
        plain.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    };
    unpack.push(read, &mut take)?;
    if is_whole {
        unpack.finish(&mut take)?;
    }
    Ok((plain, is_all))
}

fn not_kept() -> Stop {
    let hint = "the far end's answer holds a private key, or a credential that is too long or in \
                too long an answer to be kept: ask for it outside of the sandbox";
    Fault::answer(hint).into()
}

/// Where the values of a text stand, read as JSON and as any other.
pub(crate) fn minted_places(text: &[u8]) -> [Vec<Range<usize>>; 2] {
    let places = |found: Vec<Value>| found.into_iter().map(|value| value.place).collect();
    [text::in_json(text), text::in_text(text)].map(places)
}

/// A value that a text mints.
struct Value {
    /// Where it stands in the text.
    place: Range<usize>,
    /// What it is, unescaped.
    value: Zeroizing<Vec<u8>>,
    /// A refresh token (RFC 6749 §6).
    is_refresh: bool,
}

impl Value {
    /// One that refreshes nothing.
    fn plain(place: Range<usize>, value: Zeroizing<Vec<u8>>) -> Self {
        Self {
            place,
            value,
            is_refresh: false,
        }
    }
}
