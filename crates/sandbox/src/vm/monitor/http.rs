// SPDX-License-Identifier: Apache-2.0
//! HTTP/1.1 as far as a monitor's interface speaks it: one request and its answer on a connection
//! of their own, every size and time bounded. What an answer may look like is narrow: anything
//! else is no answer.

use serde_json::Value;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;
use thiserror::Error;

/// How a call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    /// Asks.
    Get,
    /// Tells.
    Put,
}

impl Method {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
        }
    }
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum HttpError {
    /// The connection.
    #[error("the connection failed")]
    Connection(#[source] io::Error),
    /// The deadline.
    #[error("no answer in time")]
    Late,
    /// Not an answer of this protocol.
    #[error("the answer is not HTTP as its interface speaks it: {0}")]
    Form(&'static str),
}

/// LIMIT: status line and headers; monitors send five short ones.
const HEAD_BYTES_MAX: usize = 4 << 10;
/// LIMIT: an error in words, or what a ping says.
const BODY_BYTES_MAX: usize = 16 << 10;

/// Asks, and reads the answer to its end.
pub(super) fn ask(
    mut stream: UnixStream,
    (method, path): (Method, &str),
    body: Option<&Value>,
    deadline: Instant,
) -> Result<Answer, HttpError> {
    let request = request(method, path, body);
    stream
        .set_write_timeout(Some(left(deadline)?))
        .map_err(HttpError::Connection)?;
    stream.write_all(&request).map_err(failed)?;
    let mut bytes = Vec::new();
    let mut buffer = [0; 2048];
    loop {
        if let Some(answer) = parse(&bytes)? {
            return Ok(answer);
        }
        stream
            .set_read_timeout(Some(left(deadline)?))
            .map_err(HttpError::Connection)?;
        match stream.read(&mut buffer).map_err(failed)? {
            0 => return Err(HttpError::Form("it ends early")),
            count => bytes.extend_from_slice(buffer.get(..count).unwrap_or_default()),
        }
    }
}

fn left(deadline: Instant) -> Result<std::time::Duration, HttpError> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        Err(HttpError::Late)
    } else {
        Ok(left)
    }
}

fn failed(error: io::Error) -> HttpError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => HttpError::Late,
        _ => HttpError::Connection(error),
    }
}

/// The request's bytes.
fn request(method: Method, path: &str, body: Option<&Value>) -> Vec<u8> {
    let method = method.name();
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n");
    match body.map(Value::to_string) {
        Some(body) => format!(
            "{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ),
        None => format!("{head}\r\n"),
    }
    .into_bytes()
}

/// A whole answer, or none yet.
fn parse(bytes: &[u8]) -> Result<Option<Answer>, HttpError> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let Some(end) = end.filter(|end| *end <= HEAD_BYTES_MAX) else {
        return if bytes.len() > HEAD_BYTES_MAX {
            Err(HttpError::Form("its head has no end"))
        } else {
            Ok(None)
        };
    };
    let head = std::str::from_utf8(bytes.get(..end).unwrap_or_default())
        .map_err(|_| HttpError::Form("its head is no text"))?;
    let mut lines = head.split("\r\n");
    let status = status(lines.next().unwrap_or_default())?;
    let length = body_length(lines)?;
    let body = bytes.get(end + 4..).unwrap_or_default();
    match body.len().cmp(&length) {
        std::cmp::Ordering::Less => Ok(None),
        std::cmp::Ordering::Equal => Ok(Some(Answer {
            status,
            body: body.to_vec(),
        })),
        std::cmp::Ordering::Greater => Err(HttpError::Form("it says more than it announces")),
    }
}

/// `HTTP/1.1 204` and a reason, or none.
fn status(line: &str) -> Result<u16, HttpError> {
    let form = HttpError::Form("its first line is no status");
    let Some(rest) = line.strip_prefix("HTTP/1.1 ") else {
        return Err(form);
    };
    let (digits, reason) = rest.split_once(' ').unwrap_or((rest, ""));
    let is_status = digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit());
    match digits.parse() {
        Ok(status @ 200..=599) if is_status && !reason.contains(char::is_control) => Ok(status),
        _ => Err(form),
    }
}

/// What the headers say of the body; without a word there is none.
fn body_length<'a>(lines: impl Iterator<Item = &'a str>) -> Result<usize, HttpError> {
    let mut length = None;
    for line in lines {
        let (name, value) = line
            .split_once(':')
            .ok_or(HttpError::Form("a header has no name"))?;
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if name.is_empty() || !name.bytes().all(is_token) || value.contains(char::is_control) {
            return Err(HttpError::Form("a header is none"));
        }
        if name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(HttpError::Form("its body comes in pieces"));
        }
        if name.eq_ignore_ascii_case("content-length") {
            let digits = value.trim_matches(' ');
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let said = digits.parse().ok().filter(|said| *said <= BODY_BYTES_MAX);
            if !is_number || said.is_none() || length.is_some() {
                return Err(HttpError::Form("its length is none"));
            }
            length = said;
        }
    }
    Ok(length.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Result<Option<Answer>, HttpError> {
        parse(text.as_bytes())
    }

    /// As Firecracker and Cloud Hypervisor write them.
    const DONE: &str = "HTTP/1.1 204 \r\nServer: Firecracker API\r\nConnection: keep-alive\r\n\r\n";
    const REFUSED: &str = "HTTP/1.1 400 \r\nServer: Firecracker API\r\nConnection: keep-alive\r\n\
        Content-Type: application/json\r\nContent-Length: 21\r\n\r\n{\"fault_message\":\"x\"}";

    #[test]
    fn an_answer_is_read_whole_wherever_it_is_cut() {
        for (text, status, body) in [
            (DONE, 204, ""),
            (REFUSED, 400, "{\"fault_message\":\"x\"}"),
            ("HTTP/1.1 200\r\ncontent-length: 2\r\n\r\nok", 200, "ok"),
        ] {
            for cut in 0..text.len() {
                let early = answer(text.get(..cut).unwrap());
                assert!(matches!(early, Ok(None)), "{text:?} at {cut}");
            }
            let whole = answer(text).unwrap().unwrap();
            assert_eq!(
                (whole.status, whole.body.as_slice()),
                (status, body.as_bytes())
            );
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_no_answer() {
        for bad in [
            "HTTP/1.0 204 \r\n\r\n",
            "HTTP/1.1 20 \r\n\r\n",
            "HTTP/1.1 +20 \r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\n",
            "HTTP/1.1 2040 \r\n\r\n",
            "HTTP/1.1 204 \r\nno colon\r\n\r\n",
            "HTTP/1.1 204 \r\n folded: x\r\n\r\n",
            "HTTP/1.1 204 \r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
            "HTTP/1.1 204 \r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 204 \r\nContent-Length: 0x1\r\n\r\nx",
            "HTTP/1.1 204 \r\nContent-Length: 99999999999\r\n\r\n",
            "HTTP/1.1 204 \r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.1 204 \r\n\r\nmore",
            "HTTP/1.1 204 \r\nx: \u{7f}\r\n\r\n",
        ] {
            assert!(matches!(answer(bad), Err(HttpError::Form(_))), "{bad:?}");
        }
        let endless = vec![b'a'; HEAD_BYTES_MAX + 1];
        assert!(parse(&endless).is_err());
    }

    #[test]
    fn no_changed_byte_makes_an_answer_longer_than_its_bounds_or_ends_in_a_panic() {
        for at in 0..REFUSED.len() {
            for byte in 0..=u8::MAX {
                let mut bytes = REFUSED.as_bytes().to_vec();
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
                if let Ok(Some(answer)) = parse(&bytes) {
                    assert!(answer.body.len() <= BODY_BYTES_MAX);
                    assert!((200..600).contains(&answer.status));
                }
            }
        }
    }

    #[test]
    fn a_peer_that_says_nothing_is_given_up_in_time() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let deadline = Instant::now() + std::time::Duration::from_millis(50);
        let asked = ask(ours, (Method::Get, "/"), None, deadline);
        assert!(matches!(asked, Err(HttpError::Late)), "{asked:?}");
    }
}
