// SPDX-License-Identifier: Apache-2.0
//! What frames carry: secrets, placeholders, tripwires.

use super::*;

#[tokio::test]
async fn a_secret_in_a_text_is_replaced_however_it_is_cut() {
    // ATTACK: 105
    let shown = placeholder();
    for at in [0, 1, 11, 12, SECRET.len() - 1, SECRET.len()] {
        let mut socket = socket().await;
        let (start, end) = SECRET.split_at(at);
        let parts = [
            frame(0x01, format!("see {start}")),
            frame(PING, "between"),
            frame(0x00, ""),
            frame(0x80, format!("{end}!")),
            frame(TEXT, format!("{SECRET} again")),
        ];
        for part in parts {
            socket.far.write_all(&part).await.unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let (mut text, mut pings) = (Vec::new(), 0);
        loop {
            let (first, _, payload) = heard(&mut socket.client).await.unwrap();
            match first {
                PING => pings += 1,
                _ => text.extend(payload),
            }
            if first & 0x80 != 0 && first != PING {
                break;
            }
        }
        assert_eq!(pings, 1);
        let shown = shown.as_str();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            format!("see {shown}!"),
            "cut at {at}"
        );
        let again = message(&mut socket.client).await.1;
        assert_eq!(again, format!("{shown} again").as_bytes());
        drop(socket.far);
        drop(socket.client);
        let outcomes = async {
            while socket.stage.notary.outcomes.lock().unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), outcomes)
            .await
            .unwrap();
        let outcome = socket.stage.notary.outcomes.lock().unwrap()[0].clone();
        assert_eq!(outcome.reflected, 2);
        assert_eq!(outcome.end, End::Aborted { status: Some(101) });
    }
}

#[tokio::test]
async fn a_secret_where_nothing_can_stand_in_its_place_ends_the_websocket_with_1008() {
    // ATTACK: 105
    let (half, rest) = SECRET.split_at(15);
    for frames in [
        frame(BINARY, format!("\0\0{SECRET}\0")),
        [
            frame(0x02, format!("x{half}")),
            frame(0x80, format!("{rest}y")),
        ]
        .concat(),
        frame(PING, SECRET),
        frame(0x8a, SECRET),
    ] {
        let mut socket = socket().await;
        socket.far.write_all(&frames).await.unwrap();
        let mut said = Vec::new();
        let code = loop {
            let (first, _, payload) = heard(&mut socket.client).await.unwrap();
            if first == CLOSE {
                break u16::from_be_bytes([payload[0], payload[1]]);
            }
            said.extend(payload);
        };
        assert_eq!(code, 1008);
        let passed = memchr::memmem::find(SECRET.as_bytes(), said.get(1..).unwrap_or_default());
        assert!(said.len() <= 1 || passed.is_none(), "{said:?}");
        assert_eq!(close_code(&mut socket.far).await, 1008);
        assert_eq!(socket.refused().await, Reason::UpstreamResponse);
        assert_eq!(socket.outcome().await.reflected, 1);
    }
    // A close frame's code passes, its reason does not.
    let mut socket = socket().await;
    let close = [&b"\x0b\xb8"[..], SECRET.as_bytes()].concat();
    socket.far.write_all(&frame(CLOSE, close)).await.unwrap();
    assert_eq!(heard(&mut socket.client).await.unwrap().2, b"\x0b\xb8");
}

#[tokio::test]
async fn a_placeholder_in_a_frame_stays_one_and_is_counted() {
    // ATTACK: 063, 091
    let mut socket = socket().await;
    let placeholder = placeholder();
    let (start, end) = placeholder.as_str().split_at(20);
    let parts = [
        masked(0x01, start),
        masked(PING, "between"),
        masked(0x80, end),
        masked(BINARY, placeholder.as_str()),
        masked(PING, placeholder.as_str()),
    ];
    for part in &parts {
        socket.client.write_all(part).await.unwrap();
    }
    let mut text = Vec::new();
    for _ in 0..parts.len() {
        let (first, is_masked, payload) = heard(&mut socket.far).await.unwrap();
        assert!(is_masked);
        if first != PING {
            text.extend(payload);
        }
    }
    assert_eq!(
        String::from_utf8(text).unwrap(),
        placeholder.as_str().repeat(2)
    );
    drop(socket.client);
    while socket.stage.notary.outcomes.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(socket.stage.notary.outcomes.lock().unwrap()[0].carried, 3);
}

#[tokio::test]
async fn a_tripwire_in_pieces_over_messages_ends_a_websocket_with_1008() {
    let mut socket = socket().await;
    let value = tripwire().value.into_bytes();
    // No message holds enough of it to be told.
    for part in [&value[..19], &value[19..30], &value[30..]] {
        let message = masked(TEXT, part);
        // Ended in the middle or not: how is what counts.
        let _written = socket.client.write_all(&message).await;
    }
    assert_eq!(close_code(&mut socket.client).await, 1008);
    assert_eq!(socket.refused().await, Reason::Tripwire);
    assert_eq!(message(&mut socket.far).await.1, value[..19]);
    assert_eq!(close_code(&mut socket.far).await, 1001);
}
