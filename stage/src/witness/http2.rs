// SPDX-License-Identifier: Apache-2.0
//! Conversations of HTTP/2, written out as text: HPACK hides fields from any search. Each direction
//! is read by a peer that talks to nobody, so that a third party's frame reader does the work.

use bytes::Bytes;
use h2::RecvStream;
use hyper::HeaderMap;
use std::fmt::Write as _;
use std::time::Duration;
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Nothing is held back for want of room: whoever sent it had room.
const WINDOW: u32 = (1 << 31) - 1;
/// Streams that one conversation may have and be read.
const STREAMS: u32 = 1_000;
/// What stands still for this long is read to its end: it all lies in memory.
const QUIET: Duration = Duration::from_millis(50);

/// Both directions as text behind their bytes; nothing for another protocol.
pub(super) fn written_out(to_gate: &[u8], from_gate: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let start = memchr::memmem::find(to_gate, PREFACE)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .ok()?;
    let requests = to_gate.get(start..).unwrap_or_default().to_vec();
    // In a tunnel its own answer stands first.
    let connected = memchr::memmem::find(from_gate, b"\r\n\r\n");
    let is_tunnel = from_gate.starts_with(b"HTTP/1.");
    let start = connected.filter(|_| is_tunnel).map_or(0, |at| at + 4);
    let answers = from_gate.get(start..).unwrap_or_default().to_vec();
    let to = runtime.block_on(read(requests, serve));
    let from = runtime.block_on(read(answers, ask));
    Some(([to_gate, &to].concat(), [from_gate, &from].concat()))
}

/// Gives a peer the bytes and takes what it makes of them.
async fn read<F: Future<Output = ()> + 'static>(
    bytes: Vec<u8>,
    peer: fn(DuplexStream, UnboundedSender<Vec<u8>>) -> F,
) -> Vec<u8> {
    let (ours, theirs) = duplex(bytes.len() + (1 << 20));
    let (text, mut parts) = unbounded_channel();
    let local = tokio::task::LocalSet::new();
    let reading = async {
        tokio::task::spawn_local(peer(theirs, text));
        let (mut silent, mut ours) = tokio::io::split(ours);
        tokio::task::spawn_local(async move {
            // What the peer says goes nowhere.
            let _gone = tokio::io::copy(&mut silent, &mut tokio::io::sink()).await;
        });
        // A peer that serves waits for the preface, and tells its windows then; one that asks has
        // to open its streams. Both before the rest comes.
        let (first, rest) = bytes.split_at(PREFACE.len().min(bytes.len()));
        let _broken = ours.write_all(first).await;
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        let _broken = ours.write_all(rest).await;
        let mut all = Vec::new();
        while let Ok(Some(part)) = tokio::time::timeout(QUIET, parts.recv()).await {
            all.extend_from_slice(&part);
        }
        all
    };
    local.run_until(reading).await
}

async fn serve(io: DuplexStream, text: UnboundedSender<Vec<u8>>) {
    let mut builder = h2::server::Builder::new();
    builder.initial_window_size(WINDOW);
    builder.initial_connection_window_size(WINDOW);
    builder.max_concurrent_streams(STREAMS);
    let Ok(mut connection) = builder.handshake::<_, Bytes>(io).await else {
        return;
    };
    let mut open = Vec::new();
    while let Some(Ok((request, respond))) = connection.accept().await {
        let (parts, body) = request.into_parts();
        let target = parts
            .uri
            .path_and_query()
            .map_or("", |target| target.as_str());
        let host = parts
            .uri
            .authority()
            .map_or("", |authority| authority.as_str());
        let line = format!("{} {target} HTTP/1.1\r\nhost: {host}\r\n", parts.method);
        open.push(respond);
        tokio::task::spawn_local(write_out(line, parts.headers, body, text.clone()));
    }
}

async fn ask(io: DuplexStream, text: UnboundedSender<Vec<u8>>) {
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(WINDOW);
    builder.initial_connection_window_size(WINDOW);
    builder.initial_max_send_streams(usize::try_from(STREAMS).unwrap_or(usize::MAX));
    let Ok((requests, connection)) = builder.handshake::<_, Bytes>(io).await else {
        return;
    };
    for _ in 0..STREAMS {
        let mut request = hyper::Request::new(());
        *request.uri_mut() = hyper::Uri::from_static("https://nobody.test/");
        let Ok((answer, _)) = requests.clone().send_request(request, true) else {
            break;
        };
        let text = text.clone();
        tokio::task::spawn_local(async move {
            if let Ok(answer) = answer.await {
                let (parts, body) = answer.into_parts();
                let line = format!("HTTP/1.1 {}\r\n", parts.status);
                write_out(line, parts.headers, body, text).await;
            }
        });
    }
    let _over = connection.await;
}

async fn write_out(
    line: String,
    fields: HeaderMap,
    mut body: RecvStream,
    text: UnboundedSender<Vec<u8>>,
) {
    let _heard = text.send([b"\n", line.as_bytes(), &lines(&fields)].concat());
    while let Some(Ok(piece)) = body.data().await {
        let _free = body.flow_control().release_capacity(piece.len());
        let _heard = text.send(piece.to_vec());
    }
    if let Ok(Some(trailers)) = body.trailers().await {
        let _heard = text.send(lines(&trailers));
    }
}

fn lines(fields: &HeaderMap) -> Vec<u8> {
    let mut lines = String::new();
    for (name, value) in fields {
        let value = String::from_utf8_lossy(value.as_bytes());
        // Writing to a String never fails.
        let _ = write!(lines, "{name}: {value}\r\n");
    }
    lines.push_str("\r\n");
    lines.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length(bytes: &[u8]) -> u8 {
        u8::try_from(bytes.len()).unwrap()
    }

    /// GET https://a.test/x with `token: c4nary` and its answer with `echo: c4nary`, as frames.
    #[test]
    fn fields_that_a_search_would_miss_are_written_out() {
        let field = |name: &str, value: &str| {
            let (n, v) = (length(name.as_bytes()), length(value.as_bytes()));
            [&[0x10, n], name.as_bytes(), &[v], value.as_bytes()].concat()
        };
        let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
            let head = [0, 0, length(payload), kind, flags, 0, 0, 0, stream];
            [&head[..], payload].concat()
        };
        // `c4nary` in the code of HPACK: c 00100, 4 011010, n 101010, a 00011, r 101100, y 1111010.
        let bits = "00100".to_owned() + "011010" + "101010" + "00011" + "101100" + "1111010";
        let padded = u64::from_str_radix(&format!("{bits:1<40}"), 2).unwrap();
        let coded = padded.to_be_bytes();
        let coded = &coded[3..];
        let hidden = |name: &str| {
            let name = [&[0x10, length(name.as_bytes())], name.as_bytes()].concat();
            [&name[..], &[0x80 | 5], coded].concat()
        };
        let ask = [
            field(":method", "GET"),
            field(":scheme", "https"),
            field(":authority", "a.test"),
            field(":path", "/x"),
            hidden("token"),
        ];
        let settings = frame(4, 0, 0, &[]);
        let to = [PREFACE, &settings, &frame(1, 5, 1, &ask.concat())].concat();
        let answer = [field(":status", "200"), hidden("echo")].concat();
        let body = frame(0, 1, 1, b"hello");
        let from = [settings, frame(1, 4, 1, &answer), body].concat();
        assert!(memchr::memmem::find(&to, b"c4nary").is_none());
        let (to, from) = written_out(&to, &from).unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let wanted = "GET /x HTTP/1.1\r\nhost: a.test\r\ntoken: c4nary\r\n";
        assert!(text(&to).contains(wanted), "{}", text(&to));
        let wanted = "HTTP/1.1 200 OK\r\necho: c4nary\r\n\r\nhello";
        assert!(text(&from).contains(wanted), "{}", text(&from));
        assert!(written_out(b"GET / HTTP/1.1\r\n\r\n", b"").is_none());
    }
}
