// SPDX-License-Identifier: Apache-2.0
//! Peers that stop reading: neither holds the other's side for longer than a piece may take.

use super::stage::*;
use crate::Limits;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use torno_notary_protocol::gate::End;
use torno_policy::Reason;

const WAIT: Duration = Duration::from_millis(400);
/// More than the buffers of a loopback connection take.
const LARGE: usize = 32 << 20;
/// LIMIT: what follows a wait is there in much less, on a loaded machine too.
const PATIENCE: Duration = Duration::from_secs(30);

fn limits() -> Limits {
    Limits {
        body_wait: WAIT,
        ..Limits::default()
    }
}

/// The one outcome of the session.
async fn outcome(stage: &Stage) -> End {
    let told = async {
        loop {
            if let Some(outcome) = stage.notary.outcomes.lock().unwrap().first() {
                return outcome.end.clone();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, told).await.unwrap()
}

#[tokio::test]
async fn a_far_end_that_reads_nothing_holds_no_upload() {
    // ATTACK: 163
    let stage = stage_with(Notary::yes(), fixed(OK), limits()).await;
    let deaf = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = deaf.local_addr().unwrap();
    let hosts = &stage.dialer.hosts;
    hosts
        .lock()
        .unwrap()
        .insert("plain.test".to_owned(), address);
    let holding = tokio::spawn(async move {
        let (stream, _) = deaf.accept().await.unwrap();
        tokio::time::sleep(PATIENCE).await;
        drop(stream);
    });
    let mut client = stage.captured(asked("plain.test", 80)).await;
    let head = format!("POST / HTTP/1.1\r\nHost: plain.test\r\nContent-Length: {LARGE}\r\n\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    let (mut read, mut write) = tokio::io::split(client);
    // The gate stops taking it once the far end does.
    let sending = tokio::spawn(async move { write.write_all(&vec![b'x'; LARGE]).await });
    let mut heard = vec![0; 4096];
    let reading = tokio::time::timeout(PATIENCE, read.read(&mut heard));
    let count = reading.await.unwrap().unwrap();
    let heard = String::from_utf8_lossy(&heard[..count]);
    assert!(heard.contains("\"code\":\"upstream_timeout\""), "{heard}");
    let End::Refused(refusal) = outcome(&stage).await else {
        panic!("{heard}")
    };
    assert_eq!(refusal.reason, Reason::UpstreamTimeout);
    sending.abort();
    holding.abort();
}

#[tokio::test]
async fn a_client_that_reads_nothing_holds_no_far_end() {
    // ATTACK: 163
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n{}",
        "x".repeat(LARGE)
    );
    let stage = stage_with(Notary::yes(), fixed(answer), limits()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let connecting = socket.connect(listener.local_addr().unwrap());
    let (client, accepted) = tokio::join!(connecting, listener.accept());
    let (mut client, (server, _)) = (client.unwrap(), accepted.unwrap());
    let pipeline = stage.pipeline.clone();
    let serving = tokio::spawn(async move {
        pipeline
            .serve_captured(server, asked("plain.test", 80))
            .await;
    });
    let request = "GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n";
    client.write_all(request.as_bytes()).await.unwrap();
    let ended = outcome(&stage).await;
    assert!(matches!(ended, End::Aborted { .. }), "{ended:?}");
    // Its place is given back.
    tokio::time::timeout(PATIENCE, serving)
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_connection_that_took_long_to_make_is_used_under_a_new_yes() {
    let stage = stage(Notary::bearer(), fixed(OK)).await;
    let far = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, origin) = (far.local_addr().unwrap(), stage.origin.address);
    let hosts = &stage.dialer.hosts;
    hosts
        .lock()
        .unwrap()
        .insert("allow.test".to_owned(), address);
    let line = tokio::spawn(async move {
        let (mut near, _) = far.accept().await.unwrap();
        // Longer than half of a receipt's time.
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        let mut end = tokio::net::TcpStream::connect(origin).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut near, &mut end).await;
    });
    let mut client = stage.secure().await;
    client.write_all(get("/x").as_bytes()).await.unwrap();
    let mut heard = vec![0; 4096];
    let reading = tokio::time::timeout(PATIENCE, client.read(&mut heard));
    let count = reading.await.unwrap().unwrap();
    let heard = String::from_utf8_lossy(&heard[..count]);
    assert!(heard.starts_with("HTTP/1.1 200"), "{heard}");
    assert!(stage.origin.request(0).contains(SECRET));
    // The credential came with the second answer; the first one's receipt was never shown.
    assert_eq!(stage.notary.asked.lock().unwrap().len(), 2);
    assert_eq!(*stage.notary.unlocks.lock().unwrap(), 0);
    assert_eq!(stage.dialer.dialled.lock().unwrap().len(), 1);
    let outcomes = stage.notary.outcomes.lock().unwrap();
    let ends: Vec<_> = outcomes.iter().map(|outcome| &outcome.end).collect();
    assert!(
        matches!(
            ends.as_slice(),
            [End::Aborted { .. }, End::Completed { .. }]
        ),
        "{ends:?}"
    );
    line.abort();
}

/// A far end behind a line that is slow to carry each connection but the first, which ends as soon
/// as it is told to carry what a client sends again.
async fn slow_but_at_first(stage: &Stage) -> Arc<AtomicBool> {
    let far = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, origin) = (far.local_addr().unwrap(), stage.origin.address);
    let hosts = &stage.dialer.hosts;
    hosts
        .lock()
        .unwrap()
        .insert("allow.test".to_owned(), address);
    let ends = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&ends);
    tokio::spawn(async move {
        let (near, _) = far.accept().await.unwrap();
        let end = TcpStream::connect(origin).await.unwrap();
        tokio::spawn(async move {
            let ((mut from, mut back), (mut heard, mut to)) = (near.into_split(), end.into_split());
            let backwards =
                tokio::spawn(async move { tokio::io::copy(&mut heard, &mut back).await });
            let mut bytes = vec![0; 16_384];
            while let Ok(count @ 1..) = from.read(&mut bytes).await {
                if told.load(Ordering::Relaxed) {
                    break;
                }
                to.write_all(&bytes[..count]).await.unwrap();
            }
            backwards.abort();
        });
        while let Ok((mut near, _)) = far.accept().await {
            tokio::time::sleep(Duration::from_millis(1_200)).await;
            let mut end = TcpStream::connect(origin).await.unwrap();
            tokio::spawn(async move {
                let _ = tokio::io::copy_bidirectional(&mut near, &mut end).await;
            });
        }
    });
    ends
}

async fn answer_to(client: &mut TlsClient, path: &str) -> String {
    client.write_all(get(path).as_bytes()).await.unwrap();
    let mut heard = vec![0; 4096];
    let reading = tokio::time::timeout(PATIENCE, client.read(&mut heard));
    let count = reading.await.unwrap().unwrap();
    String::from_utf8_lossy(&heard[..count]).into_owned()
}

#[tokio::test]
async fn a_slow_connection_in_the_place_of_a_stale_one_is_used_under_a_new_yes() {
    let stage = stage(Notary::bearer(), fixed(OK)).await;
    let ends = slow_but_at_first(&stage).await;
    let mut client = stage.secure().await;
    let heard = answer_to(&mut client, "/x").await;
    assert!(heard.starts_with("HTTP/1.1 200"), "{heard}");
    ends.store(true, Ordering::Relaxed);
    let heard = answer_to(&mut client, "/x").await;
    assert!(heard.starts_with("HTTP/1.1 200"), "{heard}");
    // Of the second: the one that turned out stale, the one that took long, the one that was sent.
    assert_eq!(stage.notary.asked.lock().unwrap().len(), 4);
    assert_eq!(stage.dialer.dialled.lock().unwrap().len(), 2);
    assert_eq!(*stage.notary.unlocks.lock().unwrap(), 1);
}

#[tokio::test]
async fn a_slow_connection_beside_one_for_another_credential_is_used_under_a_new_yes() {
    let notary = Notary::new(|facts| {
        Ok(Yes {
            slot: (facts.path.path() == "/bound").then(bearer),
            ..Yes::default()
        })
    });
    let stage = stage(notary, fixed(OK)).await;
    slow_but_at_first(&stage).await;
    let mut client = stage.secure().await;
    for path in ["/free", "/bound"] {
        let heard = answer_to(&mut client, path).await;
        assert!(heard.starts_with("HTTP/1.1 200"), "{heard}");
    }
    assert_eq!(stage.dialer.dialled.lock().unwrap().len(), 2);
    // The receipt that the slow one was made for is not shown any more.
    assert_eq!(*stage.notary.unlocks.lock().unwrap(), 0);
    assert_eq!(stage.notary.asked.lock().unwrap().len(), 3);
}
