// SPDX-License-Identifier: Apache-2.0
//! Frames that no well-made client sends: each ends its stream or its connection, and no far end
//! sees anything of it.

pub(super) mod raw;

use super::stage::*;
use raw::*;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use torno_policy::Reason;

const PROTOCOL_ERROR: u32 = 1;
const ENHANCE_YOUR_CALM: u32 = 11;

/// How the gate ended what it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Reset(u32),
    GoAway(u32),
    Answered,
    Closed,
    Nothing,
}

impl Raw {
    /// Reads until a stream or the connection ends.
    async fn end(&mut self) -> End {
        loop {
            let mut header = [0; 9];
            let read = tokio::time::timeout(Duration::from_secs(3), self.0.read_exact(&mut header));
            match read.await {
                Err(_) => return End::Nothing,
                Ok(Err(_)) => return End::Closed,
                Ok(Ok(_)) => {}
            }
            let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            self.0.read_exact(&mut payload).await.unwrap();
            let code = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
            match header[3] {
                RST_STREAM => return End::Reset(code(0)),
                GOAWAY => return End::GoAway(code(4)),
                HEADERS => return End::Answered,
                _ => {}
            }
        }
    }
}

fn headers(block: &[u8]) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, 1, block)
}

/// Sends frames on a connection of its own; how it ended, and what was refused in the record.
async fn try_frames(frames: &[u8]) -> (End, Vec<Reason>) {
    let stage = stage(Notary::yes(), fixed(OK)).await;
    let mut raw = Raw::to(&stage).await;
    raw.send(frames).await;
    let end = raw.end().await;
    drop(raw);
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert_eq!(stage.origin.count(), 0, "it got through");
    assert!(
        stage.notary.asked.lock().unwrap().is_empty(),
        "it was asked about"
    );
    (end, stage.reasons())
}

#[tokio::test]
async fn the_usual_fields_are_a_request() {
    let stage = stage(Notary::yes(), fixed(OK)).await;
    let mut raw = Raw::to(&stage).await;
    raw.send(&headers(&get_with(&[]))).await;
    assert_eq!(raw.end().await, End::Answered);
    assert_eq!(stage.origin.count(), 1);
}

#[tokio::test]
async fn malformed_fields_end_their_stream_and_reach_nobody() {
    // ATTACK: 064
    let double = |name: &str, value: &str| [block(&GET), field(name, value)].concat();
    let late = [field("accept", "a"), block(&GET)].concat();
    let split = [block(&GET[..3]), field("accept", "a"), field(":path", "/")].concat();
    let reset: &[(&str, Vec<u8>)] = &[
        (
            "a path twice",
            [block(&GET), field(":path", "/secret")].concat(),
        ),
        ("an authority twice", double(":authority", "allow.test")),
        ("a method twice", double(":method", "GET")),
        ("a scheme twice", double(":scheme", "https")),
        ("pseudo behind regular", late),
        ("pseudo amid regular", split),
        ("a status", double(":status", "200")),
        ("no method", get_with(&[(":method", "-")])),
        ("no scheme", get_with(&[(":scheme", "-")])),
        ("no path", get_with(&[(":path", "-")])),
        ("an empty path", get_with(&[(":path", "")])),
        ("a path with a space", get_with(&[(":path", "/a b")])),
        (
            "a path with a line",
            get_with(&[(":path", "/ HTTP/1.1\r\nhost: x")]),
        ),
        ("connection", get_with(&[("connection", "close")])),
        ("keep-alive", get_with(&[("keep-alive", "1")])),
        (
            "proxy-connection",
            get_with(&[("proxy-connection", "close")]),
        ),
        (
            "transfer-encoding",
            get_with(&[("transfer-encoding", "chunked")]),
        ),
        ("upgrade", get_with(&[("upgrade", "websocket")])),
        ("te", get_with(&[("te", "trailers, deflate")])),
        (":protocol", get_with(&[(":protocol", "websocket")])),
        (
            "a length behind the end",
            get_with(&[("content-length", "5")]),
        ),
        (
            "two lengths",
            get_with(&[("content-length", "0"), ("content-length", "5")]),
        ),
        (
            "a length with a sign",
            get_with(&[("content-length", "+0")]),
        ),
        (
            "an authority with a space",
            get_with(&[(":authority", "allow.test x")]),
        ),
    ];
    for (name, fields) in reset {
        let (end, _) = try_frames(&headers(fields)).await;
        assert_eq!(end, End::Reset(PROTOCOL_ERROR), "{name}");
    }
    let ended: &[(&str, Vec<u8>)] = &[
        ("an unknown pseudo-header", double(":unknown", "a")),
        ("upper case", get_with(&[("Accept", "a")])),
        ("a name with a space", get_with(&[("a b", "a")])),
        ("a name with a colon", get_with(&[("a:b", "a")])),
        ("a name with a line", get_with(&[("a\r\nb", "a")])),
        ("an empty name", get_with(&[("", "a")])),
        (
            "a value with a line",
            get_with(&[("a", "b\r\nhost: other.test")]),
        ),
        ("a value with a feed", get_with(&[("a", "b\nc")])),
        ("a value with a nul", get_with(&[("a", "b\0c")])),
    ];
    for (name, fields) in ended {
        let (end, _) = try_frames(&headers(fields)).await;
        let is_ended = matches!(end, End::Reset(PROTOCOL_ERROR) | End::GoAway(_));
        assert!(is_ended, "{name}: {end:?}");
    }
}

#[tokio::test]
async fn fields_that_say_two_things_are_refused_in_words() {
    // ATTACK: 064, 066
    for (name, fields, reason) in [
        (
            "no authority",
            get_with(&[(":authority", "-")]),
            Reason::MalformedRequest,
        ),
        (
            "a host alone",
            get_with(&[(":authority", "-"), ("host", "allow.test")]),
            Reason::MalformedRequest,
        ),
        (
            "another host",
            get_with(&[("host", "other.test")]),
            Reason::NamesDisagree,
        ),
        (
            "another spelling",
            get_with(&[("host", "ALLOW.test")]),
            Reason::NamesDisagree,
        ),
        (
            "two hosts",
            get_with(&[("host", "allow.test"), ("host", "allow.test")]),
            Reason::NamesDisagree,
        ),
        (
            "another authority",
            get_with(&[(":authority", "other.test")]),
            Reason::NamesDisagree,
        ),
        (
            "a user",
            get_with(&[(":authority", "u@allow.test")]),
            Reason::BadHost,
        ),
        (
            "another scheme",
            get_with(&[(":scheme", "http")]),
            Reason::MalformedRequest,
        ),
        (
            "a foreign scheme",
            get_with(&[(":scheme", "ftp")]),
            Reason::MalformedRequest,
        ),
        (
            "a star",
            get_with(&[(":method", "OPTIONS"), (":path", "*")]),
            Reason::BadPath,
        ),
        ("dots", get_with(&[(":path", "/a/../b")]), Reason::BadPath),
        (
            "a method in lower case",
            get_with(&[(":method", "get")]),
            Reason::BadMethod,
        ),
        (
            "TRACE",
            get_with(&[(":method", "TRACE")]),
            Reason::BadMethod,
        ),
        (
            "space before",
            get_with(&[("a", " b")]),
            Reason::MalformedRequest,
        ),
        (
            "space behind",
            get_with(&[("a", "b\t")]),
            Reason::MalformedRequest,
        ),
        (
            "h2c",
            get_with(&[("http2-settings", "AAMAAABk")]),
            Reason::MalformedRequest,
        ),
        (
            "one length twice",
            get_with(&[("content-length", "0"), ("content-length", "0")]),
            Reason::MalformedRequest,
        ),
        (
            "an override",
            get_with(&[(":path", "/?_method=DELETE")]),
            Reason::BadMethod,
        ),
    ] {
        let (end, reasons) = try_frames(&headers(&fields)).await;
        assert_eq!(end, End::Answered, "{name}");
        assert_eq!(reasons, [reason], "{name}");
    }
    let connect = block(&[(":method", "CONNECT"), (":authority", "allow.test:443")]);
    let (end, reasons) = try_frames(&headers(&connect)).await;
    assert_eq!((end, reasons), (End::Answered, vec![Reason::BadMethod]));
}

#[tokio::test]
async fn a_body_that_is_not_its_length_completes_no_request() {
    let post = |length: &str| {
        let fields = [(":method", "POST"), ("content-length", length)];
        frame(HEADERS, END_HEADERS, 1, &get_with(&fields))
    };
    let inner = b"abcdeGET /inner HTTP/1.1\r\nhost: allow.test\r\n\r\n";
    for (name, frames) in [
        (
            "longer",
            [post("5"), frame(DATA, END_STREAM, 1, inner)].concat(),
        ),
        (
            "shorter",
            [post("9"), frame(DATA, END_STREAM, 1, b"abcde")].concat(),
        ),
        ("shorter, with trailers", {
            let end = frame(HEADERS, END_STREAM | END_HEADERS, 1, &field("a", "b"));
            [post("9"), frame(DATA, 0, 1, b"abcde"), end].concat()
        }),
    ] {
        let stage = stage(Notary::yes(), fixed(OK)).await;
        let mut raw = Raw::to(&stage).await;
        raw.send(&frames).await;
        assert_eq!(raw.end().await, End::Reset(PROTOCOL_ERROR), "{name}");
        assert_eq!(stage.origin.count(), 0, "{name}");
    }
}

#[tokio::test]
async fn frames_out_of_order_end_the_connection() {
    let get = get_with(&[]);
    for (name, frames) in [
        ("data on no stream", frame(DATA, 0, 1, b"a")),
        ("fields of an even stream", frame(HEADERS, 5, 2, &get)),
        ("fields of stream 0", frame(HEADERS, 5, 0, &get)),
        (
            "a lower stream",
            [frame(RST_STREAM, 0, 1, &[0; 4])].concat(),
        ),
        (
            "a push",
            frame(PUSH_PROMISE, END_HEADERS, 1, &[&[0; 4], &get[..]].concat()),
        ),
        (
            "continuation of nothing",
            frame(CONTINUATION, END_HEADERS, 1, &get),
        ),
        (
            "ping amid fields",
            [frame(HEADERS, 0, 1, &get), frame(PING, 0, 0, &[0; 8])].concat(),
        ),
        (
            "another's continuation",
            [frame(HEADERS, 0, 1, &get), frame(CONTINUATION, 4, 3, &get)].concat(),
        ),
        ("settings of a stream", frame(SETTINGS, 0, 1, &[])),
        ("settings cut", frame(SETTINGS, 0, 0, &[0; 5])),
        ("a window of nothing", frame(WINDOW_UPDATE, 0, 0, &[0; 4])),
        ("a short ping", frame(PING, 0, 0, &[0; 7])),
        ("a frame too large", frame(DATA, 0, 1, &vec![0; 20_000])),
        (
            "padding over the end",
            frame(HEADERS, 0x08 | 5, 1, &[&[255], &get[..]].concat()),
        ),
        (
            "no HPACK",
            frame(HEADERS, 5, 1, &[0xff, 0xff, 0xff, 0xff, 0xff]),
        ),
    ] {
        let (end, _) = try_frames(&frames).await;
        assert!(matches!(end, End::GoAway(1..)), "{name}: {end:?}");
    }
}

#[tokio::test]
async fn each_flood_ends_its_connection_and_is_recorded_once() {
    let get = get_with(&[]);
    let mut rapid = Vec::new();
    for number in 0..1_000_u32 {
        rapid.extend(frame(
            HEADERS,
            END_STREAM | END_HEADERS,
            2 * number + 1,
            &get,
        ));
        rapid.extend(frame(RST_STREAM, 0, 2 * number + 1, &8_u32.to_be_bytes()));
    }
    // One entry of the table, named again and again: few bytes, many fields.
    let mut bomb = block(&GET);
    bomb.push(0x40);
    bomb.extend_from_slice(&field("a", &"b".repeat(120))[1..]);
    bomb.extend([0xbe; 16_000]);
    let post = frame(HEADERS, END_HEADERS, 1, &get_with(&[(":method", "POST")]));
    for (name, frames) in [
        ("rapid reset", rapid),
        ("settings", frame(SETTINGS, 0, 0, &[]).repeat(5_000)),
        ("pings", frame(PING, 0, 0, &[0; 8]).repeat(5_000)),
        (
            "priorities",
            frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 9]).repeat(5_000),
        ),
        ("unknown frames", frame(0x42, 0, 0, &[]).repeat(5_000)),
        (
            "windows",
            frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()).repeat(5_000),
        ),
        (
            "empty data",
            [post.clone(), frame(DATA, 0, 1, &[]).repeat(5_000)].concat(),
        ),
        (
            "padding alone",
            [post, frame(DATA, 8, 1, &[0]).repeat(5_000)].concat(),
        ),
        (
            "continuations",
            [
                frame(HEADERS, 0, 1, &get),
                frame(CONTINUATION, 0, 1, &[]).repeat(5_000),
            ]
            .concat(),
        ),
        ("a bomb of fields", headers(&bomb)),
    ] {
        let stage = stage(Notary::yes(), fixed(OK)).await;
        let mut raw = Raw::to(&stage).await;
        raw.send(&frames).await;
        let mut end = raw.end().await;
        while matches!(end, End::Answered | End::Reset(_)) {
            end = raw.end().await;
        }
        assert_eq!(end, End::GoAway(ENHANCE_YOUR_CALM), "{name}");
        for _ in 0..100 {
            if !stage.reasons().is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        assert_eq!(stage.reasons(), [Reason::LimitReached], "{name}");
        // Another connection of the session is served.
        let heard = stage.send(get_line()).await;
        assert!(heard.ends_with("ok"), "{name}: {heard}");
    }
}

fn get_line() -> String {
    super::stage::get("/after")
}

#[tokio::test]
async fn more_streams_than_may_be_open_are_refused_unasked() {
    let script = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    let stage = stage(Notary::yes(), fixed(script)).await;
    let mut raw = Raw::to(&stage).await;
    let mut frames = Vec::new();
    for number in 0..101_u32 {
        frames.extend(frame(HEADERS, 5, 2 * number + 1, &get_with(&[])));
    }
    raw.send(&frames).await;
    let mut end = raw.end().await;
    while end == End::Answered {
        end = raw.end().await;
    }
    const REFUSED_STREAM: u32 = 7;
    assert_eq!(end, End::Reset(REFUSED_STREAM));
    let asked = || stage.notary.asked.lock().unwrap().len();
    for _ in 0..300 {
        if asked() >= 100 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(asked(), 100);
}

#[tokio::test]
async fn what_is_no_http2_inside_its_tls_goes_nowhere() {
    // ATTACK: 059, 070
    let stage = stage(Notary::never(), fixed(OK)).await;
    for bytes in [
        get_line().into_bytes(),
        b"PRI * HTTP/1.1\r\n\r\nSM\r\n\r\n".to_vec(),
    ] {
        let stream = stage.captured(asked("allow.test", 443)).await;
        let tls = stage.tls_speaking(stream, "allow.test", &[b"h2"]).await;
        let mut raw = Raw(tls.unwrap());
        raw.send(&bytes).await;
        assert!(matches!(
            raw.end().await,
            End::GoAway(PROTOCOL_ERROR) | End::Closed
        ));
    }
    // And HTTP/2 where HTTP/1.1 was chosen.
    let heard = stage.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    assert!(heard.starts_with("HTTP/1.1 400 "), "{heard}");
    assert_eq!(stage.origin.count(), 0);
}
