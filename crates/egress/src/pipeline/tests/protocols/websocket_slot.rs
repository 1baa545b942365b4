// SPDX-License-Identifier: Apache-2.0
//! A credential that goes into a message of a WebSocket, end to end.

use super::judge::judging;
use super::stage::*;
use super::websocket::{
    BINARY, CLOSE, PING, Socket, TEXT, close_code, heard, masked, message, open,
};
use tokio::io::AsyncWriteExt;
use torno_notary_protocol::gate::End;
use torno_policy::Reason;
use torno_policy::binding::{Mode, Pointer, Slot};

async fn socket(mode: Mode, binary: bool) -> Socket {
    let pointer = Pointer::parse("/d/token").unwrap();
    let slot = Slot::WebsocketJson { pointer, binary };
    let stage = stage(judging(slot, mode, "/**"), fixed(OK)).await;
    open(stage, "", "").await
}

fn identify(token: &str) -> String {
    format!("{{\"op\":2,\"d\":{{\"token\":\"{token}\",\"intents\":513}}}}")
}

#[tokio::test]
async fn the_message_that_logs_in_is_filled_and_everything_else_passes() {
    // ATTACK: 063
    let mut socket = socket(Mode::Placeholder, false).await;
    assert!(
        !socket.asked.contains(SECRET) && !socket.asked.contains("xtensions"),
        "{}",
        socket.asked
    );
    let (client, far) = (&mut socket.client, &mut socket.far);
    let hello = "{\"op\":1,\"d\":null}";
    client.write_all(&masked(TEXT, hello)).await.unwrap();
    assert_eq!(message(far).await.1, hello.as_bytes());
    // In fragments, cut inside of the placeholder, with a ping between.
    let mine = identify(placeholder().as_str());
    let (front, back) = mine.split_at(40);
    client.write_all(&masked(TEXT & 0x7f, front)).await.unwrap();
    client.write_all(&masked(PING, "p")).await.unwrap();
    client.write_all(&masked(0x80, back)).await.unwrap();
    assert_eq!(heard(far).await.unwrap().0, PING);
    let (first, is_masked, payload) = heard(far).await.unwrap();
    assert_eq!((first, is_masked), (TEXT, true));
    assert_eq!(String::from_utf8(payload).unwrap(), identify(SECRET));
    let long = format!(
        "{{\"op\":3,\"d\":{{\"status\":\"{}\"}}}}",
        "x".repeat(300_000)
    );
    let mut frame = vec![TEXT, 0x80 | 127];
    frame.extend(u64::try_from(long.len()).unwrap().to_be_bytes());
    frame.extend([0; 4]);
    frame.extend(long.as_bytes());
    client.write_all(&frame).await.unwrap();
    assert_eq!(message(far).await.1, long.as_bytes());
    client.write_all(&masked(CLOSE, b"\x03\xe8")).await.unwrap();
    assert_eq!(close_code(far).await, 1000);
    socket.far.write_all(&[CLOSE, 2, 3, 0xe8]).await.unwrap();
    let outcome = socket.outcome().await;
    assert_eq!(outcome.end, End::Completed { status: 101 });
    assert_eq!(outcome.carried, 0);
}

#[tokio::test]
async fn what_comes_back_of_it_is_scrubbed() {
    // ATTACK: 105
    let mut socket = socket(Mode::Placeholder, false).await;
    let mine = identify(placeholder().as_str());
    socket.client.write_all(&masked(TEXT, &mine)).await.unwrap();
    assert_eq!(
        message(&mut socket.far).await.1,
        identify(SECRET).as_bytes()
    );
    let echo = identify(SECRET);
    let mut frame = vec![TEXT, u8::try_from(echo.len()).unwrap()];
    frame.extend(echo.as_bytes());
    socket.far.write_all(&frame).await.unwrap();
    assert_eq!(message(&mut socket.client).await.1, mine.as_bytes());
}

#[tokio::test]
async fn what_does_not_fit_ends_the_websocket_with_1008_and_is_not_sent() {
    // ATTACK: 063, 086
    let ph = placeholder();
    let ph = ph.as_str();
    let mine = identify(ph);
    let again = format!("{{\"op\":1,\"d\":null,\"again\":\"{ph}\"}}");
    for (first, said, reason) in [
        (TEXT, identify("mine"), Reason::OwnCredential),
        (
            TEXT,
            mine.replace("\"op\"", "\"D\":1,\"op\""),
            Reason::PlaceholderRepeated,
        ),
        (
            TEXT,
            mine.replace("513", &format!("\"{ph}\"")),
            Reason::CredentialEndpointMismatch,
        ),
        (TEXT, again, Reason::CredentialEndpointMismatch),
        (TEXT, format!("{mine}x"), Reason::MalformedRequest),
        (TEXT, "hello".to_owned(), Reason::MalformedRequest),
        (BINARY, mine.clone(), Reason::MalformedRequest),
    ] {
        let mut socket = socket(Mode::Placeholder, false).await;
        socket
            .client
            .write_all(&masked(first, &said))
            .await
            .unwrap();
        assert_eq!(close_code(&mut socket.client).await, 1008, "{said}");
        let told = heard(&mut socket.far).await;
        assert!(told.is_err() || told.unwrap().0 == CLOSE, "{said}");
        assert_eq!(socket.refused().await, reason, "{said}");
    }
}

#[tokio::test]
async fn a_second_message_with_the_placeholder_ends_it() {
    let mut socket = socket(Mode::Placeholder, false).await;
    let mine = identify(placeholder().as_str());
    socket.client.write_all(&masked(TEXT, &mine)).await.unwrap();
    assert_eq!(
        message(&mut socket.far).await.1,
        identify(SECRET).as_bytes()
    );
    socket.client.write_all(&masked(TEXT, &mine)).await.unwrap();
    assert_eq!(close_code(&mut socket.client).await, 1008);
    assert_eq!(socket.refused().await, Reason::PlaceholderRepeated);
}

#[tokio::test]
async fn a_message_has_its_bound_and_binary_passes_where_the_binding_says_so() {
    // ATTACK: 202
    let mut socket = socket(Mode::Placeholder, true).await;
    socket
        .client
        .write_all(&masked(BINARY, [0xff; 50]))
        .await
        .unwrap();
    assert_eq!(message(&mut socket.far).await, (BINARY, vec![0xff; 50]));
    let mut frame = vec![TEXT, 0x80 | 127];
    frame.extend((1_u64 << 21).to_be_bytes());
    frame.extend([0; 4]);
    frame.extend(vec![b' '; (1 << 20) + (1 << 17)]);
    // It need not be read to its end.
    let _broken = socket.client.write_all(&frame).await;
    assert_eq!(socket.refused().await, Reason::TooLarge);
}

#[tokio::test]
async fn a_mode_that_replaces_does_so_once() {
    let mut socket = socket(Mode::Inject, false).await;
    socket
        .client
        .write_all(&masked(TEXT, identify("mine")))
        .await
        .unwrap();
    assert_eq!(
        message(&mut socket.far).await.1,
        identify(SECRET).as_bytes()
    );
    socket
        .client
        .write_all(&masked(TEXT, identify("mine")))
        .await
        .unwrap();
    assert_eq!(close_code(&mut socket.client).await, 1008);
}
