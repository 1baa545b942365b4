// SPDX-License-Identifier: Apache-2.0
//! Answers as far ends write them, honest and not.

use super::*;

fn answer(bytes: &[u8]) -> Result<(u16, Vec<u8>), HttpError> {
    let mut stream = BufReader::new(bytes);
    let (status, headers) = read_head(&mut stream)?;
    let mut body = Vec::new();
    let mut framed = Body::of(&headers, stream)?;
    framed.read_to_end(&mut body).map_err(HttpError::Read)?;
    Ok((status, body))
}

#[test]
fn an_answer_is_read_by_its_one_framing() {
    for (text, body) in [
        ("Content-Length: 3\r\n\r\nabcd", "abc"),
        (
            "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n",
            "abc",
        ),
        ("\r\nabc", "abc"),
    ] {
        let text = format!("HTTP/1.1 200 OK\r\n{text}");
        assert_eq!(
            answer(text.as_bytes()).unwrap(),
            (200, body.into()),
            "{text}"
        );
    }
}

#[test]
fn an_answer_that_is_cut_or_framed_in_two_ways_is_refused() {
    for text in [
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nab\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
        "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
        "HTTP/1.0 200 OK\r\n\r\n",
        "HTTP/1.1 20x OK\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA\0: b\r\n\r\n",
        "",
    ] {
        assert!(answer(text.as_bytes()).is_err(), "{text}");
    }
    let long = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "b".repeat(70_000));
    assert!(answer(long.as_bytes()).is_err());
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(101));
    assert!(answer(many.as_bytes()).is_err());
}

#[test]
fn a_far_end_points_to_https_or_to_itself() {
    let at = Place::parse("r.test:5000").unwrap();
    let target = |text| Target::parse(text, &at);
    let there = target("https://cdn.test/a?b=c").unwrap();
    assert_eq!(
        (there.place.to_string(), there.path),
        ("cdn.test".into(), "/a?b=c".into())
    );
    assert_eq!(target("/v2/x").unwrap().place, at);
    for bad in [
        "http://cdn.test/a",
        "//cdn.test/a",
        "https://u@cdn.test/",
        "https://[::1]/",
        "a/b",
        "https://cdn.test/a b",
        "https://cdn.test/\r\nx",
        "https://cdn.test/#a",
        "file:///etc",
        "https:///a",
        "",
    ] {
        assert_eq!(target(bad), None, "{bad}");
    }
}
