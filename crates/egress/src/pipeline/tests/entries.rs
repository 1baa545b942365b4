// SPDX-License-Identifier: Apache-2.0
//! Captured, CONNECT and absolute-form: one verdict, and agreement of every name.

use super::stage::*;
use tokio::io::AsyncWriteExt;
use torno_policy::Reason;
use torno_policy::facts::Entry;

fn post(target: &str, host: &str) -> String {
    format!("POST {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n")
}

#[tokio::test]
async fn a_denied_method_is_denied_the_same_way_on_every_entry() {
    // ATTACK: 015
    let notary = Notary::new(|facts| match facts.method.as_str() {
        "GET" => Ok(Yes::default()),
        _ => Err(no(Reason::MethodNotGranted)),
    });
    let stage = stage(notary, fixed(OK)).await;
    let mut captured = stage.captured(asked("plain.test", 80)).await;
    let one = talk(&mut captured, post("/x", "plain.test").as_bytes()).await;
    let mut proxy = stage.proxy().await;
    let two = talk(
        &mut proxy,
        post("http://plain.test/x", "plain.test").as_bytes(),
    )
    .await;
    let mut tunnel = stage.proxy().await;
    let connect = b"CONNECT plain.test:80 HTTP/1.1\r\nHost: plain.test:80\r\n\r\n";
    assert!(
        talk(&mut tunnel, connect)
            .await
            .starts_with("HTTP/1.1 200 ")
    );
    let three = talk(&mut tunnel, post("/x", "plain.test").as_bytes()).await;
    assert!(
        one.contains("method_not_granted") && one.starts_with("HTTP/1.1 403 "),
        "{one}"
    );
    assert_eq!(one, two);
    assert_eq!(two, three);
    let mut facts = stage.notary.asked.lock().unwrap().clone();
    let entries: Vec<Entry> = facts.iter().map(|f| f.entry).collect();
    assert_eq!(
        entries,
        [Entry::Captured, Entry::AbsoluteForm, Entry::Connect]
    );
    for f in &mut facts {
        f.entry = Entry::Captured;
    }
    assert!(facts.windows(2).all(|w| w[0] == w[1]));
    assert!(stage.dialer.dialled.lock().unwrap().is_empty());
}

#[tokio::test]
async fn every_entry_reaches_an_allowed_host() {
    let stage = stage(Notary::bearer(), fixed(OK)).await;
    assert!(stage.send(get("/a")).await.ends_with("ok"));
    let mut proxy = stage.proxy().await;
    let request = b"GET http://plain.test/b?c HTTP/1.1\r\nHost: plain.test\r\n\r\n";
    assert!(talk(&mut proxy, request).await.ends_with("ok"));
    let mut tunnel = stage.proxy().await;
    // Python's http.client asks with HTTP/1.0 and without Host.
    assert!(
        talk(&mut tunnel, b"CONNECT allow.test:443 HTTP/1.0\r\n\r\n")
            .await
            .contains(" 200 ")
    );
    let mut client = stage.tls(tunnel, "allow.test").await;
    assert!(
        talk(&mut client, get("/c").as_bytes())
            .await
            .ends_with("ok")
    );
}

#[tokio::test]
async fn sni_host_and_destination_must_be_one_name() {
    // ATTACK: 037, 040, 042
    let stage = stage(Notary::never(), fixed(OK)).await;
    for host in ["evil.test", "other.test", "allow.test:8443"] {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let heard = stage.send(request).await;
        assert!(heard.starts_with("HTTP/1.1 421 "), "{host}: {heard}");
        assert!(heard.contains("connection: close"));
    }
    // The hello names another host than the dial: the client sees a leaf for the dialled one.
    let stream = stage.captured(asked("allow.test", 443)).await;
    assert!(stage.try_tls(stream, "other.test").await.is_err());
    assert_eq!(stage.origin.count(), 0);
}

#[tokio::test]
async fn a_hello_without_a_name_is_answered_readably() {
    let stage = stage(Notary::never(), fixed(OK)).await;
    let stream = stage.captured(asked("allow.test", 443)).await;
    let mut client = stage.tls(stream, "!allow.test").await;
    let heard = talk(&mut client, get("/").as_bytes()).await;
    assert!(
        heard.starts_with("HTTP/1.1 421 ") && heard.contains("SNI"),
        "{heard}"
    );
    assert_eq!(stage.reasons(), [Reason::NamesDisagree]);
}

#[tokio::test]
async fn a_bare_address_is_refused_readably_on_every_entry() {
    let stage = stage(Notary::never(), fixed(OK)).await;
    let mut destination = asked("allow.test", 443);
    destination.name = None;
    let stream = stage.captured(destination).await;
    let mut client = stage.tls(stream, "allow.test").await;
    assert!(
        talk(&mut client, get("/").as_bytes())
            .await
            .contains("raw_address")
    );
    let mut tunnel = stage.proxy().await;
    let connect = b"CONNECT 192.0.2.1:80 HTTP/1.1\r\nHost: 192.0.2.1:80\r\n\r\n";
    assert!(talk(&mut tunnel, connect).await.contains(" 200 "));
    let heard = talk(&mut tunnel, b"GET / HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n").await;
    assert!(heard.contains("raw_address"), "{heard}");
    let mut proxy = stage.proxy().await;
    let absolute = b"GET http://192.0.2.1/ HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n";
    assert!(talk(&mut proxy, absolute).await.contains("raw_address"));
}

#[tokio::test]
async fn a_bad_connect_gets_no_tunnel() {
    // ATTACK: 001, 003, 009, 010, 014, 088
    let stage = stage(Notary::never(), fixed(OK)).await;
    let ph = placeholder();
    let cases = [
        (
            "CONNECT evil.test\0.allow.test:443",
            "",
            "malformed_request",
        ),
        ("CONNECT allow.test@evil.test:443", "", "bad_host"),
        ("CONNECT [allow.test]:443", "", "bad_host"),
        ("CONNECT [::1", "", "bad_host"),
        ("CONNECT %65vil.test:443", "", "bad_host"),
        ("CONNECT allow.test", "", "bad_port"),
        ("CONNECT allow.test:0", "", "bad_port"),
        ("CONNECT allow.test:65536", "", "bad_port"),
        ("CONNECT allow.test:443x", "", "bad_port"),
        ("CONNECT allow.test:+443", "", "bad_port"),
        (
            "CONNECT allow.test:443",
            "Content-Length: 3\r\n",
            "malformed_request",
        ),
        (
            "CONNECT allow.test:443",
            &format!(
                "Proxy-Authorization: Basic {}\r\n",
                data_encoding::BASE64.encode(format!("x:{}", ph.as_str()).as_bytes())
            ),
            "credential_endpoint_mismatch",
        ),
        (
            "CONNECT allow.test:443",
            &format!("X-Any: {}\r\n", ph.as_str()),
            "credential_endpoint_mismatch",
        ),
    ];
    for (line, fields, code) in cases {
        let mut proxy = stage.proxy().await;
        let request = format!("{line} HTTP/1.1\r\nHost: allow.test:443\r\n{fields}\r\n");
        let heard = talk(&mut proxy, request.as_bytes()).await;
        assert!(heard.contains(code), "{line} {fields}: {heard}");
    }
    let mut proxy = stage.proxy().await;
    let twice = b"CONNECT allow.test:443 HTTP/1.1\r\nHost: other.test:443\r\n\r\n";
    assert!(talk(&mut proxy, twice).await.contains("names_disagree"));
}

#[tokio::test]
async fn without_a_leaf_there_is_no_tunnel_and_no_byte_leaves() {
    // ATTACK: 071
    let mut stage = stage(Notary::never(), fixed(OK)).await;
    let mute = rustls::crypto::CryptoProvider {
        cipher_suites: Vec::new(),
        ..rustls::crypto::aws_lc_rs::default_provider()
    };
    let pipeline = std::sync::Arc::get_mut(&mut stage.pipeline).unwrap();
    pipeline.authority =
        crate::terminate::SessionAuthority::new(&Now, std::sync::Arc::new(mute)).unwrap();
    let mut proxy = stage.proxy().await;
    let connect = b"CONNECT allow.test:443 HTTP/1.1\r\nHost: allow.test:443\r\n\r\n";
    let heard = talk(&mut proxy, connect).await;
    assert!(heard.starts_with("HTTP/1.1 503 "), "{heard}");
    assert!(heard.contains("role_unavailable"), "{heard}");
    // A dial that was caught is not answered at all: its client speaks TLS, and so can't we.
    let caught = stage.captured(asked("allow.test", 443)).await;
    assert!(stage.try_tls(caught, "allow.test").await.is_err());
    // Repeats of one refusal for one target are counted, not written each.
    assert_eq!(stage.reasons(), [Reason::RoleUnavailable]);
    assert!(stage.dialer.dialled.lock().unwrap().is_empty());
    assert_eq!(*stage.origin.connections.lock().unwrap(), 0);
}

#[tokio::test]
async fn what_is_neither_tls_nor_http_goes_nowhere() {
    // ATTACK: 059, 070, 124
    let stage = stage(Notary::never(), fixed(OK)).await;
    for bytes in [
        &b"SSH-2.0-OpenSSH_9.2\r\n"[..],
        b"\x00\x01\x02\x03",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1 443\r\nGET / HTTP/1.1\r\nHost: allow.test\r\n\r\n",
        b"\r\n\r\n\0\r\nQUIT\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut client = stage.captured(asked("plain.test", 80)).await;
        let heard = talk(&mut client, bytes).await;
        assert!(heard.starts_with("HTTP/1.1 400 "), "{heard}");
    }
    // TLS inside TLS, and the HTTP/2 preface inside it.
    for bytes in [
        &b"\x16\x03\x01\x02\x00\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut client = stage.secure().await;
        assert!(talk(&mut client, bytes).await.starts_with("HTTP/1.1 400 "));
    }
    assert!(stage.dialer.dialled.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_proxy_takes_no_origin_form_no_https_url_and_no_second_connect() {
    // ATTACK: 038
    let stage = stage(Notary::never(), fixed(OK)).await;
    for (request, code) in [
        (
            "GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n",
            "malformed_request",
        ),
        (
            "GET https://allow.test/ HTTP/1.1\r\nHost: allow.test\r\n\r\n",
            "malformed_request",
        ),
        (
            "GET http://allow.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
            "names_disagree",
        ),
        (
            "GET http://allow.test:x@evil.test/ HTTP/1.1\r\nHost: allow.test\r\n\r\n",
            "bad_",
        ),
        (
            "GET http://allow.test\\@evil.test/ HTTP/1.1\r\nHost: allow.test\r\n\r\n",
            "bad_path",
        ),
        (
            "GET http://allow%2etest/ HTTP/1.1\r\nHost: allow.test\r\n\r\n",
            "bad_host",
        ),
        (
            "GET http://plain.test/#x HTTP/1.1\r\nHost: plain.test\r\n\r\n",
            "bad_path",
        ),
    ] {
        let mut proxy = stage.proxy().await;
        let heard = talk(&mut proxy, request.as_bytes()).await;
        assert!(heard.contains(code), "{request}: {heard}");
    }
    let mut tls_to_proxy = stage.proxy().await;
    tls_to_proxy
        .write_all(b"\x16\x03\x01\x00\x05")
        .await
        .unwrap();
    assert!(hear(&mut tls_to_proxy).await.contains("unknown_protocol"));
}

#[tokio::test]
async fn a_client_that_verifies_nothing_gets_no_further_with_another_name() {
    // ATTACK: 040
    let stage = stage(Notary::never(), fixed(OK)).await;
    let stream = stage.captured(asked("allow.test", 443)).await;
    let mut client = blind_tls(stream, "other.test").await;
    let heard = talk(&mut client, get("/").as_bytes()).await;
    assert!(heard.starts_with("HTTP/1.1 421 "), "{heard}");
    assert_eq!(stage.reasons(), [Reason::NamesDisagree]);
}
