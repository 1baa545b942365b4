// SPDX-License-Identifier: Apache-2.0
//! Answers that two readers could read in two ways: a client that asked twice on one connection
//! gets one answer for each request, or fewer, and never one that the far end hid in another.

use super::stage::*;
use std::sync::Arc;

/// What hides in the bytes: were it read as an answer, its field would stand in a head.
const HIDDEN: &str = "HTTP/1.1 200 OK\r\nX-Hidden: 1\r\nContent-Length: 2\r\n\r\nno";

/// Heads of an answer whose body is [`HIDDEN`]. `@` is its length.
const HEADS: &[&str] = &[
    "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: @\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: @\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: @\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: +0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 0x0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 00\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent_Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0;c\r\nX-T: 1\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: @\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: @\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\n\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-T : 1\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: @\r\n\r\n",
    "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n",
    "HTTP/1.1 204 No Content\r\nContent-Length: @\r\n\r\n",
    "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 304 Not Modified\r\nContent-Length: @\r\n\r\n",
    "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n",
    "HTTP/1.1 205 Reset Content\r\n\r\n",
    "HTTP/1.1 100 Continue\r\nContent-Length: @\r\n\r\n",
    "HTTP/1.1 102 Processing\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n",
    "HTTP/1.1 199 Odd\r\n\r\n",
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
    "HTTP/1.1 101 Switching Protocols\r\n\r\n",
    "HTTP/1.1 000 Zero\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 99 Short\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 1000 Long\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 20x Odd\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 +200 OK\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1\t200 OK\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n",
    "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    "http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    " HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 O\rK\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX-A: b\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX-A: b\0\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX A: b\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\n: b\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX-A\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    "HTTP/1.1 200 OK\rContent-Length: 0\r\r",
    "HTTP/1.1 200 OK\r\nConnection: content-length\r\nContent-Length: 0\r\n\r\n",
];

/// The bodies of what a strict client reads, or what it can't.
fn answers(mut heard: &str) -> Result<Vec<(String, String)>, String> {
    let mut answers = Vec::new();
    while !heard.is_empty() {
        let (head, rest) = heard.split_once("\r\n\r\n").ok_or(heard)?;
        if !head.starts_with("HTTP/1.1 ") {
            return Err(format!("no answer begins here: {heard:?}"));
        }
        let field = |name: &str| {
            let mut lines = head.split("\r\n").filter_map(|line| line.split_once(": "));
            lines
                .find(|(n, _)| n.eq_ignore_ascii_case(name))
                .map(|(_, value)| value)
        };
        let status = head.get(9..12).unwrap_or_default();
        let (body, left) = if status.starts_with('1') || ["204", "304"].contains(&status) {
            ("", rest)
        } else if let Some(length) = field("content-length") {
            let length: usize = length.parse().map_err(|_| head)?;
            rest.split_at_checked(length).unwrap_or((rest, ""))
        } else if field("transfer-encoding").is_some() {
            let end = rest.find("0\r\n").map_or(rest.len(), |at| {
                rest.get(at..)
                    .unwrap_or_default()
                    .find("\r\n\r\n")
                    .map_or(rest.len(), |end| at + end + 4)
            });
            rest.split_at(end)
        } else {
            return Err(format!("an answer without a length: {head}"));
        };
        answers.push((head.to_owned(), body.to_owned()));
        heard = left;
    }
    Ok(answers)
}

// ATTACK: 057, 060
#[tokio::test]
async fn no_answer_that_hides_in_another_is_taken_for_one() {
    let mut wrong = Vec::new();
    for head in HEADS {
        let hostile = format!("{}{HIDDEN}", head.replace('@', &HIDDEN.len().to_string()));
        let script: Script =
            Arc::new(
                move |request: &[u8]| match request.starts_with(b"GET /second") {
                    true => b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond".to_vec(),
                    false => hostile.clone().into_bytes(),
                },
            );
        let stage = stage(Notary::yes(), script).await;
        let heard = stage.send([get("/first"), get("/second")].concat()).await;
        match answers(&heard) {
            Err(fault) => wrong.push(format!("{head:?}: {fault}")),
            Ok(answers) => {
                let finals = answers
                    .iter()
                    .filter(|(head, _)| !head.starts_with("HTTP/1.1 1"));
                let hidden = |(head, _): &(String, String)| head.contains("X-Hidden");
                // Where an interim answer came first, what followed it is the answer.
                let interim = ["100", "102", "103", "199"]
                    .iter()
                    .any(|s| head.get(9..).is_some_and(|from| from.starts_with(s)));
                if finals.count() > 2 || (!interim && answers.iter().any(hidden)) {
                    wrong.push(format!("{head:?}: {heard:?}"));
                }
                let second = answers.iter().filter(|(_, body)| body.contains("second"));
                let is_last = answers
                    .last()
                    .is_some_and(|(_, body)| body.contains("second"));
                if second.count() > 0 && !is_last {
                    wrong.push(format!("{head:?}: in another order: {heard:?}"));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        HEADS.len(),
        wrong.join("\n")
    );
}
