// SPDX-License-Identifier: Apache-2.0
//! WebSockets by the sections of the table that their implementers test each other with: sizes,
//! pings, reserved bits, opcodes, fragments, UTF-8 and closing. Each case is tried from both sides
//! of the relay; words and frames are our own.

mod closing;
mod frames;
mod texts;

use super::websocket::{
    BINARY, CLOSE, PING, Socket, TEXT, close_code, frame, heard, masked, socket,
};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PONG: u8 = 0x8a;
/// First and further fragments, and the last.
const TEXT_PART: u8 = 0x01;
const BINARY_PART: u8 = 0x02;
const PART: u8 = 0x00;
const LAST: u8 = 0x80;

/// What is right.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Right {
    /// The other side gets the same messages, pings, pongs and close.
    Passes,
    /// Whoever sent it gets this code, and the other side no byte of what is wrong.
    Fails(u16),
}

struct Case {
    section: &'static str,
    what: String,
    /// First byte and payload of each frame.
    frames: Vec<(u8, Vec<u8>)>,
    /// Bytes of one write; nothing for all in one.
    cut: Option<usize>,
    right: Right,
}

fn case(section: &'static str, what: &str, frames: &[(u8, &[u8])], right: Right) -> Case {
    let frames = frames
        .iter()
        .map(|(first, payload)| (*first, payload.to_vec()));
    Case {
        section,
        what: what.to_owned(),
        frames: frames.collect(),
        cut: None,
        right,
    }
}

impl Case {
    fn cut(mut self, bytes: usize) -> Self {
        self.cut = Some(bytes);
        self
    }
}

/// The whole messages in frames, fragments together, and the control frames, each in their order.
fn assembled(frames: &[(u8, Vec<u8>)]) -> Vec<(u8, Vec<u8>)> {
    let (mut messages, mut controls) = (Vec::<(u8, Vec<u8>)>::new(), Vec::new());
    let mut is_whole = true;
    for (first, payload) in frames {
        match first & 0x0f {
            8.. => {
                controls.push((*first, payload.clone()));
                if *first == CLOSE {
                    break;
                }
                continue;
            }
            0 => messages.last_mut().unwrap().1.extend(payload),
            kind => messages.push((0x80 | kind, payload.clone())),
        }
        is_whole = first & 0x80 != 0;
    }
    // What is held for the search of a message that never ends never passes.
    if !is_whole {
        messages.pop();
    }
    messages.append(&mut controls);
    messages
}

/// Which side says what a case says.
#[derive(Debug, Clone, Copy)]
enum Side {
    Client,
    FarEnd,
}

/// Said behind the frames of a case that does not close.
const AFTER: (u8, &[u8]) = (PING, b"after the case");

/// Reads frames until a close, the one behind a case, or the end.
async fn heard_out(stream: &mut TcpStream) -> Vec<(u8, Vec<u8>)> {
    let mut frames = Vec::new();
    while let Ok((first, _, payload)) = heard(stream).await {
        if (first, payload.as_slice()) == AFTER {
            break;
        }
        frames.push((first, payload));
        if first == CLOSE {
            break;
        }
    }
    frames
}

async fn judge(case: &Case, side: Side) -> Result<(), String> {
    let mut open: Socket = socket().await;
    let (sender, receiver) = match side {
        Side::Client => (&mut open.client, &mut open.far),
        Side::FarEnd => (&mut open.far, &mut open.client),
    };
    let bytes: Vec<u8> = case
        .frames
        .iter()
        .map(|(first, payload)| (*first, payload.as_slice()))
        .chain([AFTER])
        .flat_map(|(first, payload)| match side {
            Side::Client => masked(first, payload),
            Side::FarEnd => frame(first, payload),
        })
        .collect();
    let sending = async {
        for part in bytes.chunks(case.cut.unwrap_or(usize::MAX)) {
            // Who is told to stop may be cut off in the middle.
            if sender.write_all(part).await.is_err() {
                break;
            }
            if case.cut.is_some() {
                tokio::task::yield_now().await;
            }
        }
    };
    let (got, ()) = tokio::join!(heard_out(receiver), sending);
    let said = format!("{} {} by {side:?}", case.section, case.what);
    match &case.right {
        Right::Passes => {
            let (wanted, got) = (assembled(&case.frames), assembled(&got));
            (wanted == got)
                .then_some(())
                .ok_or_else(|| format!("{said}: heard {got:?}"))
        }
        Right::Fails(code) => {
            let told = close_code(sender).await;
            let other = got
                .last()
                .map(|(first, payload)| (*first, payload.get(..2)));
            let code_there = match side {
                Side::Client => 1001_u16,
                Side::FarEnd => 1011,
            };
            let is_told =
                told == *code && other == Some((CLOSE, Some(&code_there.to_be_bytes()[..])));
            is_told
                .then_some(())
                .ok_or_else(|| format!("{said}: told {told}, the other {got:?}"))
        }
    }
}

async fn try_all(cases: Vec<Case>) {
    let mut wrong = Vec::new();
    for case in &cases {
        for side in [Side::Client, Side::FarEnd] {
            wrong.extend(judge(case, side).await.err());
        }
    }
    let count = 2 * cases.len();
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

// ATTACK: 063
#[tokio::test]
async fn frames_of_a_websocket_pass_or_fail_by_the_table() {
    try_all(frames::cases()).await;
}

#[tokio::test]
async fn texts_of_a_websocket_pass_or_fail_by_the_table() {
    try_all(texts::cases()).await;
}

#[tokio::test]
async fn a_websocket_closes_by_the_table() {
    try_all(closing::cases()).await;
    closing::nothing_passes_behind_a_close().await;
}

#[test]
fn the_table_is_as_long_as_it_says() {
    let all = [frames::cases(), texts::cases(), closing::cases()];
    let count: usize = all.iter().map(Vec::len).sum();
    // docs/campaigns/protocols.md names the number.
    assert_eq!(count, 242);
}
