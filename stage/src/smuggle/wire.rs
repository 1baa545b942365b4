// SPDX-License-Identifier: Apache-2.0
//! What left the gate, read by a reader that takes one form and no other. Two readers of one byte
//! stream can only differ where its form leaves room: so whatever is not the plainest form is a
//! finding, whether a server of today would read it otherwise or not.

use sha2::{Digest, Sha256};

/// One request, as the application at a far end saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The method.
    pub method: String,
    /// The target, undecoded.
    pub target: String,
    /// The host, with its port if it was written.
    pub host: String,
    /// SHA-256 of the body, hex, when the application was given one.
    pub body: Option<String>,
}

/// One request, as it went over the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// The method.
    pub method: String,
    /// The target.
    pub target: String,
    /// The host.
    pub host: String,
    /// The body, without its framing, as far as it came.
    pub body: Vec<u8>,
    /// All of it came.
    pub is_whole: bool,
}

/// Reads everything that was sent on one connection.
///
/// # Errors
/// What is not in the one form, in words.
pub fn read(mut bytes: &[u8]) -> Result<Vec<Sent>, String> {
    let mut requests = Vec::new();
    while !bytes.is_empty() {
        let Some(end) = memchr::memmem::find(bytes, b"\r\n\r\n") else {
            // Cut in the middle of a head: nobody reads a request from it.
            return Ok(requests);
        };
        let (head, rest) = bytes.split_at_checked(end + 4).unwrap_or_default();
        let (mut sent, framing) = head_of(head)?;
        let left = match framing {
            Framing::Length(length) => {
                let (body, left) = rest.split_at_checked(length).unwrap_or((rest, &[]));
                sent.body = body.to_vec();
                sent.is_whole = body.len() == length;
                left
            }
            Framing::Chunked => {
                let left = chunks(rest, &mut sent.body)?;
                sent.is_whole = left.is_some();
                left.unwrap_or_default()
            }
        };
        requests.push(sent);
        bytes = left;
    }
    Ok(requests)
}

/// SHA-256 in hex.
#[must_use]
pub fn digest(bytes: impl AsRef<[u8]>) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(bytes))
}

enum Framing {
    Length(usize),
    Chunked,
}

fn head_of(head: &[u8]) -> Result<(Sent, Framing), String> {
    let odd = |what: &str| format!("{what}: {:?}", String::from_utf8_lossy(head));
    let plain = |byte: &u8| *byte >= b' ' && *byte != 0x7f || *byte == b'\t';
    let text = head.strip_suffix(b"\r\n\r\n").unwrap_or(head);
    let lines: Vec<&[u8]> = memchr::memmem::find_iter(text, b"\r\n")
        .map(|at| at + 2)
        .chain([text.len() + 2])
        .scan(0, |from, to| {
            let line = text.get(*from..to - 2);
            *from = to;
            line
        })
        .collect();
    if !lines.iter().all(|line| line.iter().all(plain)) {
        return Err(odd("a control byte"));
    }
    let (first, fields) = lines.split_first().ok_or_else(|| odd("no line"))?;
    let first = std::str::from_utf8(first).map_err(|_| odd("a line that is not ASCII"))?;
    let words: Vec<&str> = first.split(' ').collect();
    let [method, target, "HTTP/1.1"] = words.as_slice() else {
        return Err(odd("not a request line"));
    };
    let is_origin_form = target.starts_with('/') && target.bytes().all(|b| b.is_ascii_graphic());
    if !is_origin_form || !method.bytes().all(|b| b.is_ascii_uppercase()) {
        return Err(odd("not an origin-form request"));
    }
    let mut of: Vec<(String, &[u8])> = Vec::new();
    for field in fields {
        let colon = memchr::memchr(b':', field).ok_or_else(|| odd("no colon"))?;
        let (name, value) = field.split_at_checked(colon).unwrap_or_default();
        let value = value
            .strip_prefix(b": ")
            .or_else(|| value.strip_prefix(b":"));
        let name = std::str::from_utf8(name).unwrap_or_default();
        if name.is_empty()
            || !name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-.!#$%&'*+^|~`".contains(&b))
        {
            return Err(odd("not a name"));
        }
        of.push((name.to_ascii_lowercase(), value.unwrap_or_default()));
    }
    let all = |name: &str| -> Vec<&[u8]> {
        of.iter()
            .filter(|(n, _)| n == name)
            .map(|(_, value)| *value)
            .collect()
    };
    let [host] = all("host")[..] else {
        return Err(odd("not one host"));
    };
    let framing = match (&all("content-length")[..], &all("transfer-encoding")[..]) {
        ([], []) => Framing::Length(0),
        ([length], []) if length.iter().all(u8::is_ascii_digit) => {
            let length = std::str::from_utf8(length).unwrap_or_default();
            Framing::Length(length.parse().map_err(|_| odd("not a length"))?)
        }
        ([], [b"chunked"]) => Framing::Chunked,
        _ => return Err(odd("not one framing")),
    };
    let sent = Sent {
        method: (*method).to_owned(),
        target: (*target).to_owned(),
        host: String::from_utf8_lossy(host).into_owned(),
        body: Vec::new(),
        is_whole: false,
    };
    Ok((sent, framing))
}

/// Adds a chunked body, and gives what follows it; nothing while it is not whole.
fn chunks<'b>(mut bytes: &'b [u8], body: &mut Vec<u8>) -> Result<Option<&'b [u8]>, String> {
    loop {
        let Some(end) = memchr::memmem::find(bytes, b"\r\n") else {
            return Ok(None);
        };
        let (size, rest) = bytes.split_at_checked(end).unwrap_or_default();
        let size = std::str::from_utf8(size).unwrap_or("?");
        // No extension, no sign, no prefix, one spelling.
        let odd = || format!("a chunk of size {size:?}");
        if size.is_empty()
            || !size
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        {
            return Err(odd());
        }
        let length = usize::from_str_radix(size, 16).map_err(|_| odd())?;
        let rest = rest.get(2..).unwrap_or_default();
        if length == 0 {
            let end = if rest.starts_with(b"\r\n") {
                Some(2)
            } else {
                memchr::memmem::find(rest, b"\r\n\r\n").map(|at| at + 4)
            };
            return Ok(end.map(|end| rest.get(end..).unwrap_or_default()));
        }
        let Some((data, rest)) = rest.split_at_checked(length) else {
            body.extend_from_slice(rest);
            return Ok(None);
        };
        body.extend_from_slice(data);
        match rest.strip_prefix(b"\r\n") {
            Some(next) => bytes = next,
            None if rest.len() < 2 => return Ok(None),
            None => return Err("a chunk that is longer than its size".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_form_is_read_and_any_other_is_a_finding() {
        let two = "GET /ok/a HTTP/1.1\r\nHost: h\r\n\r\n\
                   POST /ok/b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n\
                   3\r\nabc\r\n0\r\nX-T: a\r\n\r\n\
                   POST /ok/c HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\ncut";
        let seen = read(two.as_bytes()).unwrap();
        assert_eq!(seen.len(), 3);
        assert_eq!(
            (seen[1].body.as_slice(), seen[1].is_whole),
            (&b"abc"[..], true)
        );
        assert_eq!(
            (seen[2].body.as_slice(), seen[2].is_whole),
            (&b"cut"[..], false)
        );
        for odd in [
            "GET /a HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n",
            "GET /a HTTP/1.1\r\n\r\n",
            "GET /a HTTP/1.1\r\nHost: h\r\nX: a\nb\r\n\r\n",
            "GET /a HTTP/1.1\r\nHost: h\r\nX : a\r\n\r\n",
            "GET /a HTTP/1.1\r\nHost: h\r\n X: a\r\n\r\n",
            "GET /a HTTP/1.1\r\nHost: h\r\nContent_Length: 5\r\n\r\n",
            "GET /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n",
            "GET http://h/a HTTP/1.1\r\nHost: h\r\n\r\n",
            "\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n",
            "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n\
             3;a=b\r\nabc\r\n0\r\n\r\n",
            "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n\
             3\r\nabcd\r\n0\r\n\r\n",
        ] {
            assert!(read(odd.as_bytes()).is_err(), "{odd:?}");
        }
    }
}
