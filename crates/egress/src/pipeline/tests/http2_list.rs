// SPDX-License-Identifier: Apache-2.0
//! HTTP/2 by section of RFC 9113 and RFC 7541: what a client says, and the one class of answer that
//! is right. The sections are those that public conformance suites go through; words and frames are
//! our own. A gate is stricter than the RFC where that leaves a choice; where it is laxer, the case
//! says so by [`Right::Waived`], and docs/campaigns/protocols.md says why.

mod connection;
mod fields;
mod messages;
mod states;

use super::http2_frames::raw::{
    CONTINUATION, DATA, GOAWAY, HEADERS, PING, RST_STREAM, Raw, SETTINGS,
};
use super::http2_frames::raw::{END_HEADERS, END_STREAM, frame, get_with};
use super::stage::*;
use std::time::Duration;
use tokio::io::AsyncReadExt;

const ACK: u8 = 1;

const PROTOCOL: u32 = 1;
const FLOW: u32 = 3;
const CLOSED: u32 = 5;
const SIZE: u32 = 6;
const REFUSED: u32 = 7;
const COMPRESSION: u32 = 9;

/// The answer that is right.
#[derive(Debug, Clone, Copy)]
enum Right {
    /// GOAWAY with this code.
    Connection(u32),
    /// RST_STREAM with this code; ending the whole connection with it is stricter, and right too
    /// (RFC 9113 §5.4.2 leaves it open).
    Stream(u32),
    /// GOAWAY or RST_STREAM with any of these: the RFC leaves the choice.
    OneOf(&'static [u32]),
    /// The request was answered.
    Answered,
    /// A frame of this type, these flags, on the connection.
    Says(u8, u8),
    /// An answer that refuses it in words: nobody was asked about it.
    Refused,
    /// The RFC names this code, and the connection ends with the unspecific PROTOCOL_ERROR.
    Unspecific(u32),
    /// The RFC asks for that error, and the request is answered: what is wrong was dropped before
    /// anybody judged or sent it.
    Waived,
}

/// One case: section, what is done, frames behind preface and settings, and the right answer.
struct Case {
    section: &'static str,
    what: &'static str,
    frames: Vec<u8>,
    right: Right,
}

fn case(section: &'static str, what: &'static str, frames: Vec<u8>, right: Right) -> Case {
    Case {
        section,
        what,
        frames,
        right,
    }
}

/// A whole usual request.
fn get(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &get_with(&[]))
}

/// The head of a request whose body follows.
fn post(stream: u32) -> Vec<u8> {
    frame(
        HEADERS,
        END_HEADERS,
        stream,
        &get_with(&[(":method", "POST")]),
    )
}

fn setting(id: u16, value: u32) -> Vec<u8> {
    [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()
}

/// What came back, read until it is decided or nothing comes any more.
async fn judge(raw: &mut Raw, right: Right) -> Result<(), String> {
    let mut heard = Vec::new();
    loop {
        let mut header = [0; 9];
        let read = tokio::time::timeout(Duration::from_secs(2), raw.0.read_exact(&mut header));
        match read.await {
            Err(_) => {
                heard.push("silence".to_owned());
                break;
            }
            Ok(Err(_)) => {
                heard.push("the end".to_owned());
                break;
            }
            Ok(Ok(_)) => {}
        }
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        if raw.0.read_exact(&mut payload).await.is_err() {
            break;
        }
        let code = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
        let (kind, flags) = (header[3], header[4]);
        let is_on_connection = header[5..9] == [0; 4];
        heard.push(match kind {
            GOAWAY => format!("GOAWAY {}", code(4)),
            RST_STREAM => format!("RST_STREAM {}", code(0)),
            _ => format!("{kind}/{flags}"),
        });
        let is_right = match (right, kind) {
            (Right::Connection(wanted), GOAWAY) => code(4) == wanted,
            (Right::Stream(wanted), GOAWAY) => code(4) == wanted,
            (Right::Stream(wanted), RST_STREAM) => code(0) == wanted,
            (Right::OneOf(wanted), GOAWAY) => wanted.contains(&code(4)),
            (Right::OneOf(wanted), RST_STREAM) => wanted.contains(&code(0)),
            (Right::Unspecific(wanted), GOAWAY) => wanted != PROTOCOL && code(4) == PROTOCOL,
            (Right::Answered | Right::Refused | Right::Waived, HEADERS) => true,
            (Right::Says(k, f), _) => kind == k && flags == f && is_on_connection,
            _ => false,
        };
        if is_right {
            return Ok(());
        }
        if kind == GOAWAY {
            break;
        }
    }
    Err(format!("wanted {right:?}, heard {}", heard.join(", ")))
}

/// Tries every case on a connection of its own; one session for all.
async fn try_all(cases: Vec<Case>) {
    let stage = stage(Notary::yes(), fixed(OK)).await;
    let mut wrong = Vec::new();
    let count = cases.len();
    for Case {
        section,
        what,
        frames,
        right,
    } in cases
    {
        let asked = || stage.notary.asked.lock().unwrap().len();
        let before = asked();
        let mut raw = Raw::to(&stage).await;
        raw.send(&frames).await;
        if let Err(fault) = judge(&mut raw, right).await {
            wrong.push(format!("{section} {what}: {fault}"));
        }
        if matches!(right, Right::Refused) && asked() != before {
            wrong.push(format!("{section} {what}: it was asked about"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    // Whatever got through is the usual request, as it was judged.
    let asked = stage.notary.asked.lock().unwrap();
    assert!(asked.iter().all(|facts| facts.path.path() == "/"));
    assert!(stage.origin.count() <= asked.len());
}

#[tokio::test]
async fn http2_frames_are_read_as_their_rfc_says() {
    try_all(states::cases()).await;
    try_all(connection::cases()).await;
}

// ATTACK: 064
#[tokio::test]
async fn http2_messages_are_read_as_their_rfc_says() {
    try_all(messages::cases()).await;
}

#[tokio::test]
async fn compressed_fields_are_read_as_their_rfc_says() {
    try_all(fields::cases()).await;
}

#[test]
fn the_list_is_as_long_as_it_says() {
    let all = [
        states::cases(),
        connection::cases(),
        messages::cases(),
        fields::cases(),
    ];
    let count: usize = all.iter().map(Vec::len).sum();
    let of = |is: fn(&Right) -> bool| all.iter().flatten().filter(|c| is(&c.right)).count();
    let unspecific = of(|right| matches!(right, Right::Unspecific(_)));
    let waived = of(|right| matches!(right, Right::Waived));
    // docs/campaigns/protocols.md names these numbers.
    assert_eq!((count, unspecific, waived), (208, 3, 3));
}
