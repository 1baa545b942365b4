// SPDX-License-Identifier: Apache-2.0
//! What is asked and answered before the first frame.

use super::*;

#[tokio::test]
async fn a_websocket_is_judged_opened_by_us_and_ends_with_one_report() {
    // ATTACK: 062, 097
    let mut socket = socket_with(Limits::default(), "Authorization: mine\r\n", "X-A: 1\r\n").await;
    assert!(socket.stage.notary.asked.lock().unwrap()[0].websocket);
    let asked = socket.asked.to_ascii_lowercase();
    assert!(asked.starts_with("get /socket http/1.1\r\nhost: plain.test\r\n"));
    assert_eq!(asked.matches("authorization").count(), 1, "{asked}");
    assert!(
        socket
            .asked
            .contains(&format!("authorization: Bearer {SECRET}\r\n"))
    );
    for line in [
        "\r\nupgrade: websocket\r\n",
        "\r\nconnection: Upgrade\r\n",
        "\r\nsec-websocket-version: 13\r\n",
        "\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
    ] {
        assert_eq!(socket.asked.matches(line).count(), 1, "{}", socket.asked);
    }
    assert!(!asked.contains("extensions"), "{asked}");
    assert!(
        socket
            .told
            .contains(&format!("\r\nsec-websocket-accept: {ACCEPT}\r\n"))
    );
    assert!(socket.told.contains("\r\nX-A: 1\r\n"));

    let (client, far) = (&mut socket.client, &mut socket.far);
    client.write_all(&masked(TEXT, "hello")).await.unwrap();
    let (first, is_masked, payload) = heard(far).await.unwrap();
    assert_eq!(
        (first, is_masked, payload.as_slice()),
        (TEXT, true, &b"hello"[..])
    );
    far.write_all(&frame(BINARY, [0xff; 300])).await.unwrap();
    let (first, is_masked, payload) = heard(client).await.unwrap();
    assert_eq!((first, is_masked, payload.len()), (BINARY, false, 300));
    client.write_all(&masked(PING, "p")).await.unwrap();
    assert_eq!(heard(far).await.unwrap().0, PING);
    client
        .write_all(&masked(CLOSE, b"\x0b\xb8bye"))
        .await
        .unwrap();
    assert_eq!(heard(far).await.unwrap().2, b"\x0b\xb8bye");
    // It is not over before both have said so.
    far.write_all(&frame(TEXT, "last")).await.unwrap();
    far.write_all(&frame(CLOSE, b"\x0b\xb8")).await.unwrap();
    assert_eq!(message(client).await.1, b"last");
    assert_eq!(close_code(client).await, 3000);
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    let outcome = socket.outcome().await;
    assert_eq!(outcome.end, End::Completed { status: 101 });
    assert_eq!(
        (outcome.sent_bytes, outcome.received_bytes),
        (5 + 1 + 5, 300 + 4 + 2)
    );
    assert_eq!(socket.stage.notary.outcomes.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_far_end_that_does_not_shake_hands_gets_no_frame_and_the_client_a_refusal() {
    // ATTACK: 060
    let line = format!("Sec-WebSocket-Accept: {ACCEPT}");
    let good = switched("");
    for answer in [
        good.replace(&line, "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOO="),
        good.replace(&line, "X: 1"),
        good.replace(&line, &format!("{line}\r\n{line}")),
        good.replace("HTTP/1.1 101", "HTTP/1.0 101"),
        good.replace("Upgrade: websocket", "Upgrade: h2c"),
        good.replace("Upgrade: websocket", "X: 1"),
        good.replace("Connection: Upgrade", "Connection: keep-alive"),
        switched("Sec-WebSocket-Extensions: permessage-deflate\r\n"),
        switched("Sec-WebSocket-Protocol: unasked\r\n"),
        switched(&format!("Sec-WebSocket-Protocol: {SECRET}\r\n")),
        switched("Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol: a\r\n"),
        switched("Content-Length: 5\r\n"),
        switched("Transfer-Encoding: chunked\r\n"),
    ] {
        let stage = stage(Notary::bearer(), fixed(OK)).await;
        let offer = handshake("Sec-WebSocket-Protocol: a, b\r\n");
        let request = [offer.into_bytes(), masked(TEXT, "early")].concat();
        let (mut client, mut far, _) = asking(&stage, request).await;
        far.write_all(answer.as_bytes()).await.unwrap();
        let said = hear(&mut client).await;
        assert!(said.starts_with("HTTP/1.1 502 "), "{answer}: {said}");
        assert!(said.contains("upstream_response"), "{answer}: {said}");
        assert!(!said.contains(SECRET), "{said}");
        assert_eq!(hear(&mut far).await, "", "{answer}");
    }
}

#[tokio::test]
async fn an_ordinary_answer_to_a_handshake_is_one_and_the_next_request_is_judged() {
    // ATTACK: 060
    let stage = stage(Notary::bearer(), fixed(OK)).await;
    let next = "GET /second HTTP/1.1\r\nHost: plain.test\r\n\r\n";
    let request = format!("{}{next}", handshake(""));
    let (mut client, mut far, _) = asking(&stage, &request).await;
    assert_eq!(
        hear(&mut far).await,
        "",
        "nothing goes out before the answer"
    );
    far.write_all(OK.as_bytes()).await.unwrap();
    let second = head(&mut far).await;
    assert!(second.starts_with("GET /second HTTP/1.1\r\n"), "{second}");
    assert!(!second.contains("upgrade"), "{second}");
    far.write_all(OK.as_bytes()).await.unwrap();
    assert_eq!(
        hear(&mut client).await.matches("HTTP/1.1 200 OK").count(),
        2
    );
    let asked = stage.notary.asked.lock().unwrap();
    assert_eq!((asked.len(), asked[1].websocket), (2, false));
}

#[tokio::test]
async fn a_websocket_that_is_not_granted_or_not_well_formed_goes_nowhere() {
    // ATTACK: 059, 062
    let refusing = Notary::new(|facts| match facts.websocket {
        true => Err(no(Reason::WebsocketNotGranted)),
        false => Ok(Yes::default()),
    });
    let stage = stage(refusing, fixed(OK)).await;
    let mut client = stage.captured(asked("plain.test", 80)).await;
    let said = talk(&mut client, handshake("").as_bytes()).await;
    assert!(said.starts_with("HTTP/1.1 403 ") && said.contains("websocket_not_granted"));
    let get = b"GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n";
    assert!(
        talk(&mut client, get).await.ends_with("ok"),
        "the connection goes on"
    );
    let asked_once = stage.notary.asked.lock().unwrap().len();
    for (from, to) in [
        ("GET /socket", "POST /socket"),
        ("Upgrade: websocket", "Upgrade: websocket, h2c"),
        ("Version: 13", "Version: 12"),
        ("Connection: Upgrade", "Connection: keep-alive"),
        (
            "Connection: Upgrade",
            "Content-Length: 1\r\nConnection: Upgrade",
        ),
    ] {
        let mut client = stage.captured(asked("plain.test", 80)).await;
        let request = handshake("").replace(from, to);
        let said = talk(&mut client, request.as_bytes()).await;
        assert!(said.starts_with("HTTP/1.1 400 "), "{to}: {said}");
    }
    assert_eq!(stage.notary.asked.lock().unwrap().len(), asked_once);
}

#[tokio::test]
async fn what_comes_early_is_frames_once_the_far_end_agreed() {
    // ATTACK: 060
    let stage = stage(Notary::yes(), fixed(OK)).await;
    let request = [handshake("").into_bytes(), masked(TEXT, "early")].concat();
    let (_client, mut far, _) = asking(&stage, request).await;
    assert_eq!(hear(&mut far).await, "");
    let answer = [switched("").into_bytes(), frame(TEXT, "at once")].concat();
    far.write_all(&answer).await.unwrap();
    assert_eq!(message(&mut far).await, (TEXT, b"early".to_vec()));
}

#[tokio::test]
async fn the_answer_names_a_subprotocol_that_was_offered_and_is_scrubbed() {
    let offer = "Sec-WebSocket-Protocol: chat, other\r\n";
    let answer = format!(
        "Sec-WebSocket-Protocol: other\r\nX-Echo: {SECRET}\r\nSet-Cookie: a={SECRET}\r\n\
         Sec-WebSocket-Version: 13\r\n"
    );
    let socket = socket_with(Limits::default(), offer, &answer).await;
    assert!(
        socket
            .asked
            .contains("\r\nsec-websocket-protocol: chat, other\r\n")
    );
    assert!(
        socket
            .told
            .contains("\r\nsec-websocket-protocol: other\r\n")
    );
    let told = socket.told.to_ascii_lowercase();
    assert!(
        !told.contains("cookie") && !told.contains("version"),
        "{told}"
    );
    assert!(!socket.told.contains(SECRET), "{}", socket.told);
    assert!(
        socket
            .told
            .contains(&format!("X-Echo: {}\r\n", placeholder().as_str()))
    );
}
