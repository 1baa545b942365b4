// SPDX-License-Identifier: Apache-2.0
//! What the far end says: known messages only, each searched for the session's credentials and
//! written anew with the length that it then has.

use super::frame::{Frame, put, text};
use crate::refuse::Fault;
use crate::scrub::{Scrubber, scrub_whole};
use bytes::Buf;
use std::sync::Arc;

/// Messages that are passed on once a session runs.
const PASSED: &[u8] = b"123ntTDCIsNEACcdHGSVZ";

/// Whether the client may be told this message.
pub(super) fn is_known(frame: &Frame) -> bool {
    PASSED.contains(&frame.kind)
}

/// Writes a message for the client. Gives the number of finds.
pub(super) fn put_scrubbed(
    frame: &Frame,
    scrubber: Option<&Arc<Scrubber>>,
    out: &mut Vec<u8>,
) -> Result<u32, Fault> {
    if frame.kind == b'D' {
        return put_row(&frame.body, scrubber, out);
    }
    // No window of a secret has a zero in it, so numbers and ends of texts stay as they are.
    let mut body = Vec::with_capacity(frame.body.len());
    let hits = scrub_whole(scrubber, &frame.body, &mut body);
    put(frame.kind, &body, out);
    Ok(hits)
}

/// A row: each value has a length of its own.
fn put_row(
    mut row: &[u8],
    scrubber: Option<&Arc<Scrubber>>,
    out: &mut Vec<u8>,
) -> Result<u32, Fault> {
    let (count, values) = row.split_first_chunk::<2>().ok_or_else(malformed)?;
    let mut body = Vec::with_capacity(row.len());
    body.extend_from_slice(count);
    row = values;
    let mut hits = 0;
    for _ in 0..u16::from_be_bytes(*count) {
        let (length, rest) = row.split_first_chunk::<4>().ok_or_else(malformed)?;
        row = rest;
        // NULL is -1 and has no value.
        if *length == [0xff; 4] {
            body.extend_from_slice(length);
            continue;
        }
        let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| malformed())?;
        let (value, rest) = row.split_at_checked(length).ok_or_else(malformed)?;
        row = rest;
        let place = body.len();
        body.extend_from_slice(&[0; 4]);
        hits += scrub_whole(scrubber, value, &mut body);
        let written = u32::try_from(body.len() - place - 4).map_err(|_| malformed())?;
        if let Some(place) = body.get_mut(place..place + 4) {
            place.copy_from_slice(&written.to_be_bytes());
        }
    }
    if !row.is_empty() {
        return Err(malformed());
    }
    put(b'D', &body, out);
    Ok(hits)
}

/// Settings that the gate reads statements by. Every server reports them, and their change.
const HELD: [(&[u8], &[u8]); 3] = [
    (b"client_encoding", b"UTF8"),
    (b"standard_conforming_strings", b"on"),
    // Since PostgreSQL 14; looked at where the connection may only read.
    (b"default_transaction_read_only", b"on"),
];

/// Refuses a setting that is no longer what the gate said at the start.
pub(super) fn check_setting(frame: &Frame, reads_only: bool) -> Result<(), Fault> {
    let mut body = frame.body.as_ref();
    let name = text(&mut body).map_err(|_| malformed())?;
    let value = text(&mut body).map_err(|_| malformed())?;
    let held = HELD.iter().find(|(held, _)| *held == name);
    match held {
        Some((b"default_transaction_read_only", _)) if !reads_only => Ok(()),
        Some((_, expected)) if value != *expected => Err(Fault::answer(
            "a setting that statements are judged by was changed: open a new connection",
        )),
        Some(_) | None => Ok(()),
    }
}

/// The state of the transaction in ReadyForQuery.
pub(super) fn status(frame: &Frame) -> Result<u8, Fault> {
    let mut body = frame.body.as_ref();
    match body {
        [b'I' | b'T' | b'E'] => Ok(body.get_u8()),
        _ => Err(malformed()),
    }
}

pub(super) fn malformed() -> Fault {
    Fault::answer("the far end's answer is no message of PostgreSQL's protocol")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scrub::{Released, Secret};
    use bytes::Bytes;

    const SECRET: &str = "correct-horse-battery";

    fn scrubber() -> Arc<Scrubber> {
        Arc::new(Scrubber::new(&[Secret::new(
            SECRET.as_bytes(),
            "TRNOplaceholder",
        )]))
    }

    fn row(values: &[Option<&[u8]>]) -> Vec<u8> {
        let mut body = u16::try_from(values.len()).unwrap().to_be_bytes().to_vec();
        for value in values {
            match value {
                None => body.extend_from_slice(&[0xff; 4]),
                Some(value) => {
                    body.extend_from_slice(&u32::try_from(value.len()).unwrap().to_be_bytes());
                    body.extend_from_slice(value);
                }
            }
        }
        body
    }

    fn scrubbed(kind: u8, body: &[u8]) -> Result<(Vec<u8>, u32), Fault> {
        let frame = Frame {
            kind,
            body: Bytes::copy_from_slice(body),
        };
        let mut out = Vec::new();
        let hits = put_scrubbed(&frame, Some(&scrubber()), &mut out)?;
        Ok((out, hits))
    }

    #[test]
    fn a_row_keeps_its_form_and_loses_the_secret() {
        let hex = data_encoding::HEXLOWER.encode(SECRET.as_bytes());
        let text = format!("it is {SECRET}!");
        let given = row(&[None, Some(b""), Some(text.as_bytes()), Some(hex.as_bytes())]);
        let (out, hits) = scrubbed(b'D', &given).unwrap();
        assert_eq!(hits, 2);
        let expected = row(&[None, Some(b""), Some(b"it is TRNOplaceholder!"), Some(b"")]);
        let plain = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(!plain(&out).contains(&hex));
        // The last value is a replacement of its own length.
        assert_eq!(&out[5..expected.len() + 1], &expected[..expected.len() - 4]);
        for wrong in [
            &given[..given.len() - 1],
            &[&given[..], b"x"].concat(),
            b"\0",
            b"\0\x01",
        ] {
            assert!(scrubbed(b'D', wrong).is_err());
        }
    }

    #[test]
    fn an_error_a_notice_and_a_copied_line_are_searched() {
        for kind in *b"ENAdTCS" {
            let (out, hits) = scrubbed(kind, format!("SERROR\0M{SECRET}\0\0").as_bytes()).unwrap();
            assert_eq!(hits, 1);
            let mut read = bytes::BytesMut::from(&out[..]);
            let frame = super::super::frame::take(&mut read, 1 << 20)
                .unwrap()
                .unwrap();
            assert_eq!(&frame.body[..], b"SERROR\0MTRNOplaceholder\0\0");
        }
        assert!(Released::default().is_empty());
    }

    #[test]
    fn a_setting_that_statements_are_judged_by_stays() {
        let said = |name: &str, value: &str, reads_only| {
            let body = format!("{name}\0{value}\0");
            let frame = Frame {
                kind: b'S',
                body: Bytes::from(body.into_bytes()),
            };
            check_setting(&frame, reads_only).is_ok()
        };
        assert!(said("TimeZone", "UTC", true));
        assert!(said("client_encoding", "UTF8", true));
        assert!(!said("client_encoding", "SJIS", false));
        assert!(!said("standard_conforming_strings", "off", false));
        assert!(!said("default_transaction_read_only", "off", true));
        assert!(said("default_transaction_read_only", "off", false));
    }
}
