// SPDX-License-Identifier: Apache-2.0
//! A peer behind a stream: one request, its answer in the monitors' own form.

use super::{Peer, Request};
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

/// Answers requests until the other side has no more.
pub(crate) fn serve(peer: &mut dyn Peer, stream: UnixStream) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    while let Some(request) = read(&mut reader)? {
        let reply = peer.answer(&request);
        let mut head = format!(
            "HTTP/1.1 {} \r\nServer: Peer API\r\nConnection: keep-alive\r\n",
            reply.status
        );
        let body = reply.body.map(|body| body.to_string()).unwrap_or_default();
        if !body.is_empty() {
            let length = body.len();
            head += &format!("Content-Type: application/json\r\nContent-Length: {length}\r\n");
        }
        writer.write_all(format!("{head}\r\n{body}").as_bytes())?;
    }
    Ok(())
}

fn read(reader: &mut impl BufRead) -> io::Result<Option<Request>> {
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let first = line(reader)?;
    if first.is_empty() {
        return Ok(None);
    }
    let mut words = first.split(' ');
    let (Some(method), Some(path), Some("HTTP/1.1"), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(bad("no request line"));
    };
    let (method, path) = (method.to_owned(), path.to_owned());
    let mut length = 0;
    loop {
        let header = line(reader)?;
        if header.is_empty() {
            break;
        }
        let (name, value) = header.split_once(": ").ok_or_else(|| bad("no header"))?;
        match name {
            "Content-Length" => length = value.parse().map_err(|_| bad("no length"))?,
            "Content-Type" if value != "application/json" => return Err(bad("no such type")),
            "Content-Type" | "Host" | "Accept" => {}
            _ => return Err(bad("a header that no client of ours sends")),
        }
    }
    let mut bytes = vec![0; length];
    reader.read_exact(&mut bytes)?;
    let body: Option<Value> = match bytes.is_empty() {
        true => None,
        false => Some(serde_json::from_slice(&bytes).map_err(|_| bad("no JSON"))?),
    };
    Ok(Some(Request { method, path, body }))
}

fn line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    match line.strip_suffix("\r\n") {
        Some(line) => Ok(line.to_owned()),
        None if line.is_empty() => Ok(line),
        None => Err(io::Error::new(io::ErrorKind::InvalidData, "a bare line")),
    }
}
