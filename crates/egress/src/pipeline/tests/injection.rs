// SPDX-License-Identifier: Apache-2.0
//! Injection and scrubbing, end to end.

#![expect(clippy::string_slice, reason = "texts of tests are ASCII")]

use super::stage::*;
use data_encoding::BASE64;
use torno_notary_protocol::gate::End;
use torno_policy::binding::Slot;

#[tokio::test]
async fn a_captured_request_carries_the_secret_and_its_echo_is_scrubbed() {
    // ATTACK: 105
    let echo = format!(
        "HTTP/1.1 200 {SECRET}\r\nX-Echo: Bearer {SECRET}\r\nContent-Length: {}\r\n\r\n{SECRET}",
        SECRET.len()
    );
    let stage = stage(Notary::bearer(), fixed(echo)).await;
    let heard = stage.send(get("/public/x")).await;
    let sent = stage.origin.request(0);
    assert!(
        sent.contains(&format!("authorization: Bearer {SECRET}\r\n")),
        "{sent}"
    );
    assert!(
        sent.starts_with("GET /public/x HTTP/1.1\r\nhost: allow.test\r\n"),
        "{sent}"
    );
    assert!(!heard.contains(SECRET), "{heard}");
    let shown = placeholder();
    let shown = shown.as_str();
    assert!(
        heard.starts_with(&format!("HTTP/1.1 200 {shown}\r\n")),
        "{heard}"
    );
    assert!(
        heard.contains(&format!("X-Echo: Bearer {shown}\r\n")),
        "{heard}"
    );
    assert!(heard.ends_with(&format!("\r\n\r\n{shown}")), "{heard}");
    let outcomes = stage.notary.outcomes.lock().unwrap();
    assert_eq!(outcomes.len(), 1);
    assert_eq!(outcomes[0].end, End::Completed { status: 200 });
    assert_eq!(outcomes[0].reflected, 3);
    assert_eq!(*stage.notary.unlocks.lock().unwrap(), 1);
}

#[tokio::test]
async fn exactly_one_authorization_goes_out_and_it_is_ours() {
    // ATTACK: 097
    let stage = stage(Notary::bearer(), fixed(OK)).await;
    let request = "GET / HTTP/1.1\r\nHost: allow.test\r\nauthorization: mine\r\nAUTHORIZATION: mine2\r\n\
                   Authorization_: mine3\r\nConnection: x-drop, authorization\r\nX-Drop: 1\r\n\r\n";
    stage.send(request).await;
    let sent = stage.origin.request(0).to_ascii_lowercase();
    assert_eq!(sent.matches("authorization").count(), 1, "{sent}");
    assert!(!sent.contains("mine") && !sent.contains("x-drop"), "{sent}");
}

#[tokio::test]
async fn basic_is_rendered_and_its_rendered_echo_is_scrubbed() {
    // ATTACK: 106
    let pair = BASE64.encode(format!("git:{SECRET}").as_bytes());
    let body = format!("x {pair} y");
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let slot = Slot::Basic {
        user: "git".to_owned(),
    };
    let notary = Notary::new(move |_| {
        Ok(Yes {
            slot: Some(slot.clone()),
            own_credentials: false,
        })
    });
    let stage = stage(notary, fixed(answer)).await;
    let heard = stage.send(get("/")).await;
    assert!(
        stage
            .origin
            .request(0)
            .contains(&format!("authorization: Basic {pair}\r\n"))
    );
    let middle = &pair[8..pair.len() - 4];
    assert!(!heard.contains(middle), "{heard}");
    assert!(
        heard.contains("x Z2l0O") && heard.ends_with(" y"),
        "{heard}"
    );
}
