// SPDX-License-Identifier: Apache-2.0
//! Section 7: how it closes.

use super::*;

/// A close frame's payload.
fn said(code: u16, reason: &[u8]) -> Vec<u8> {
    [&code.to_be_bytes()[..], reason].concat()
}

pub(super) fn cases() -> Vec<Case> {
    let close = |section, what: &str, payload: &[u8], right| {
        case(section, what, &[(CLOSE, payload)], right)
    };
    let broken = Right::Fails(1002);
    let pass = Right::Passes;
    let mut cases = vec![
        case(
            "7.1",
            "a text and a close",
            &[(TEXT, b"a"), (CLOSE, &said(1000, b""))],
            pass.clone(),
        ),
        case(
            "7.1",
            "two closes",
            &[(CLOSE, &said(1000, b"")), (CLOSE, &said(1001, b""))],
            pass.clone(),
        ),
        case(
            "7.1",
            "a ping behind a close",
            &[(CLOSE, &said(1000, b"")), (PING, b"p")],
            pass.clone(),
        ),
        case(
            "7.1",
            "a text behind a close",
            &[(CLOSE, &said(1000, b"")), (TEXT, b"late")],
            pass.clone(),
        ),
        case(
            "7.1",
            "a close amid a message",
            &[(TEXT_PART, b"a"), (CLOSE, &said(1000, b"")), (LAST, b"b")],
            pass.clone(),
        ),
        close("7.3", "an empty close", b"", pass.clone()),
        close("7.3", "one byte", b"\x03", broken.clone()),
        close("7.3", "a code", &said(1000, b""), pass.clone()),
        close(
            "7.3",
            "a code and a reason",
            &said(1000, b"done"),
            pass.clone(),
        ),
        close(
            "7.3",
            "the longest reason",
            &said(1000, &[b'x'; 123]),
            pass.clone(),
        ),
        close(
            "7.3",
            "a reason that is too long",
            &said(1000, &[b'x'; 124]),
            broken.clone(),
        ),
        close(
            "7.5",
            "a reason that is not UTF-8",
            &said(1000, b"\xce\xba\xed\xa0\x80"),
            Right::Fails(1007),
        ),
        case(
            "7.3",
            "a close in two fragments",
            &[(0x08, &said(1000, b"")), (LAST, b"")],
            broken.clone(),
        ),
        close(
            "7.3",
            "byte by byte",
            &said(1001, b"going away"),
            pass.clone(),
        )
        .cut(1),
    ];
    for code in [
        1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999,
    ] {
        cases.push(close(
            "7.7",
            &format!("{code}"),
            &said(code, b""),
            pass.clone(),
        ));
    }
    for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999] {
        cases.push(close(
            "7.9",
            &format!("{code}"),
            &said(code, b""),
            broken.clone(),
        ));
    }
    for code in [5000, 65_535] {
        cases.push(close(
            "7.13",
            &format!("{code}"),
            &said(code, b""),
            broken.clone(),
        ));
    }
    cases
}

/// What comes behind a close is neither passed on nor answered, whoever sends it.
pub(super) async fn nothing_passes_behind_a_close() {
    let mut open = socket().await;
    let frames = [masked(CLOSE, said(1000, b"")), masked(TEXT, "late")].concat();
    open.client.write_all(&frames).await.unwrap();
    assert_eq!(heard(&mut open.far).await.unwrap().0, CLOSE);
    open.far
        .write_all(&frame(CLOSE, said(1000, b"")))
        .await
        .unwrap();
    assert_eq!(close_code(&mut open.client).await, 1000);
    let mut rest = Vec::new();
    let reading = open.far.read_to_end(&mut rest);
    // How it ends is the far end's affair; that no frame comes is ours.
    let _ended = tokio::time::timeout(Duration::from_secs(5), reading).await;
    assert!(rest.is_empty(), "{rest:?}");
}
