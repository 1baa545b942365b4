// SPDX-License-Identifier: Apache-2.0
//! What a client offers in the hello of its TLS, what of it is chosen, and what is spoken then.

use super::stage::*;
use torno_policy::Reason;

/// What is offered, and what is chosen.
type Offer<'o> = (&'o [&'o [u8]], Option<&'o [u8]>);

#[tokio::test]
async fn what_a_client_offers_is_spoken_by_our_preference_and_nothing_else_is() {
    let stage = stage(Notary::yes(), fixed(OK)).await;
    let offer = async |names: &[&[u8]]| {
        let stream = stage.captured(asked("allow.test", 443)).await;
        stage.tls_speaking(stream, "allow.test", names).await
    };
    let offers: [Offer<'_>; 4] = [
        (&[b"http/1.1", b"h2"], Some(b"h2")),
        (&[b"http/1.0", b"http/1.1"], Some(b"http/1.1")),
        (&[b"http/1.0"], Some(b"http/1.0")),
        (&[], None),
    ];
    for (names, chosen) in offers {
        let tls = offer(names).await.unwrap();
        assert_eq!(tls.get_ref().1.alpn_protocol(), chosen, "{names:?}");
    }
    // RFC 7301 §3.2: no protocol in common is no handshake.
    for name in [&b"http/0.9"[..], b"h2c", b"spdy/3.1", b"h3"] {
        assert!(offer(&[name]).await.is_err(), "{name:?}");
    }
    assert!(stage.notary.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_client_that_offers_http_1_0_alone_is_served_and_judged_like_any() {
    let stage = stage(Notary::yes(), fixed(OK)).await;
    let old = async |request: &[u8]| {
        let stream = stage.captured(asked("allow.test", 443)).await;
        let tls = stage.tls_speaking(stream, "allow.test", &[b"http/1.0"]);
        talk(&mut tls.await.unwrap(), request).await
    };
    let answer = old(b"GET / HTTP/1.0\r\nHost: allow.test\r\n\r\n").await;
    assert!(answer.ends_with("ok"), "{answer}");
    assert_eq!(stage.origin.count(), 1);
    // ATTACK: 055 – what was chosen in the handshake changes nothing about framing.
    for odd in [
        &b"POST / HTTP/1.0\r\nHost: allow.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /\r\n\r\n",
    ] {
        let answer = old(odd).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    assert_eq!(stage.origin.count(), 1);
    assert!(stage.reasons().contains(&Reason::MalformedRequest));
}
