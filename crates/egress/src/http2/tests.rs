// SPDX-License-Identifier: Apache-2.0
//! Each edge on its own, over memory: what a far end is sent, and the times of a connection.

use super::request::outgoing;
use super::stream::{Exchange, Told};
use super::{client, server};
use crate::accept::Limits;
use crate::fuzz::fuzz_http2_request;
use crate::inject::OutgoingHead;
use bytes::Bytes;
use http::Request;
use proptest::prelude::*;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

const HEAD: &[u8] = b"POST /a?b=c HTTP/1.1\r\nhost: allow.test:8443\r\nx-t: 1\r\n\
    transfer-encoding: chunked\r\nauthorization: Bearer secret\r\n\r\n";

#[test]
fn a_head_that_goes_out_becomes_one_stream_of_the_same_request() {
    let (request, framing) = outgoing(OutgoingHead::of(HEAD)).unwrap();
    assert_eq!(request.method(), "POST");
    assert_eq!(request.uri(), "https://allow.test:8443/a?b=c");
    assert_eq!(framing, crate::head::Framing::Chunked);
    let names: Vec<_> = request.headers().keys().map(|n| n.as_str()).collect();
    assert_eq!(names, ["x-t", "authorization", "te"]);
    let mut values = request.headers().iter().filter(|(name, _)| *name != "te");
    assert!(values.all(|(_, value)| value.is_sensitive()));
}

#[tokio::test]
async fn no_credential_enters_the_table_of_a_far_end() {
    let (ours, mut far) = duplex(65_536);
    let (heads, _pipe) = client::open(Box::new(ours)).await.unwrap();
    assert!(heads.send(OutgoingHead::of(HEAD)).await);
    let mut preface = [0; 24];
    far.read_exact(&mut preface).await.unwrap();
    // An empty SETTINGS frame is a server's preface.
    far.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
    let block = loop {
        let mut header = [0; 9];
        far.read_exact(&mut header).await.unwrap();
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        far.read_exact(&mut payload).await.unwrap();
        if header[3] == 1 {
            break payload;
        }
    };
    // A literal that is never indexed, with the name `authorization` of the static table (23).
    let never = memchr::memmem::find(&block, &[0x1f, 23 - 15]);
    assert!(never.is_some(), "{block:x?}");
    assert!(!block.contains(&(0x40 | 23)), "indexed: {block:x?}");
}

#[tokio::test]
async fn a_far_end_that_sends_interim_answers_without_end_is_left() {
    for (count, is_answered) in [(16, true), (17, false)] {
        let (ours, far) = duplex(65_536);
        tokio::spawn(async move {
            let mut connection = h2::server::handshake(far).await.unwrap();
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                for _ in 0..count {
                    let mut early = http::Response::new(());
                    *early.status_mut() = http::StatusCode::EARLY_HINTS;
                    respond.send_informational(early).unwrap();
                }
                respond
                    .send_response(http::Response::new(()), true)
                    .unwrap();
            }
        });
        let (heads, mut pipe) = client::open(Box::new(ours)).await.unwrap();
        assert!(heads.send(OutgoingHead::of(HEAD)).await);
        pipe.write_all(b"0\r\n\r\n").await.unwrap();
        let mut heard = [0; 12];
        let heard = pipe.read_exact(&mut heard).await.is_ok();
        assert_eq!(heard, is_answered, "{count}");
    }
}

async fn client_of(io: DuplexStream) -> h2::client::SendRequest<Bytes> {
    let (requests, connection) = h2::client::handshake(io).await.unwrap();
    tokio::spawn(connection);
    requests
}

fn get() -> Request<()> {
    Request::get("https://allow.test/").body(()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_old_connection_takes_no_new_stream_and_keeps_those_that_are_open() {
    let (ours, theirs) = duplex(65_536);
    let ended = tokio::spawn(async move {
        let answer = |(_, mut respond): server::Opened| async move {
            tokio::time::sleep(super::LIFE * 2).await;
            let _ = respond.send_response(http::Response::new(()), true);
        };
        server::serve(Box::new(ours), &Limits::default(), answer).await
    });
    let mut requests = client_of(theirs).await.ready().await.unwrap();
    let (answer, _) = requests.send_request(get(), true).unwrap();
    tokio::time::sleep(super::LIFE - Duration::from_secs(1)).await;
    assert!(requests.clone().ready().await.is_ok());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(requests.ready().await.is_err(), "a new stream was taken");
    assert_eq!(answer.await.unwrap().status(), 200);
    assert_eq!(ended.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_says_nothing_or_reads_nothing_is_not_waited_for() {
    let (ours, _silent) = duplex(65_536);
    let ignored = |_: server::Opened| std::future::pending();
    let fault = server::serve(Box::new(ours), &Limits::default(), ignored).await;
    assert_eq!(
        fault.unwrap_err().reason,
        torno_policy::Reason::UnknownProtocol
    );

    let (ours, theirs) = duplex(65_536);
    let (told, mut tell) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let limits = Limits::default();
        let answer = |opened| {
            let (_, exchange, mut io) = Exchange::new(opened, &Limits::default());
            let told = told.clone();
            async move {
                let answering = async {
                    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 9000000\r\n\r\n";
                    let _ = io.write_all(head).await;
                    let _ = io.write_all(&vec![b'x'; 9_000_000]).await;
                };
                tokio::select! {
                    () = answering => {}
                    end = exchange.run(None) => {
                        let _ = told.send(matches!(end, Told::Broken));
                    }
                }
            }
        };
        server::serve(Box::new(ours), &limits, answer).await
    });
    let mut requests = client_of(theirs).await.ready().await.unwrap();
    let (answer, _) = requests.send_request(get(), true).unwrap();
    let answer = answer.await.unwrap();
    let since = tokio::time::Instant::now();
    assert_eq!(tell.recv().await, Some(true));
    assert!(since.elapsed() >= Limits::default().body_wait);
    drop(answer);
}

proptest! {
    #[test]
    fn fields_of_any_kind_become_at_most_one_request(
        path in "[ -~]{0,12}",
        authority in prop_oneof![Just("allow.test".to_owned()), "[ -~]{0,12}"],
        fields in prop::collection::vec(("[a-z:-]{1,8}", "[ -~\t\r\n]{0,12}"), 0..6),
    ) {
        let mut text = format!(":path /{path}\n:authority {authority}\n");
        for (name, value) in fields {
            text.push_str(&format!("{name} {value}\n"));
        }
        fuzz_http2_request(text.as_bytes());
    }
}
