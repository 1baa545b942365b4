// SPDX-License-Identifier: Apache-2.0
//! Opens a captured TLS 1.3 connection with the secrets that its client exported (NSS key log
//! format), by the suites of the TLS library itself. What is not TLS passes as it is.

use rustls::ContentType;
use rustls::ProtocolVersion;
use rustls::crypto::cipher::{AeadKey, InboundOpaqueMessage, Iv, MessageDecrypter};
use rustls::crypto::tls13::OkmBlock;
use rustls::{SupportedCipherSuite, Tls13CipherSuite};
use std::collections::BTreeMap;

const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;
const RECORD_HEADER_BYTES: usize = 5;
/// Finished alone is one record; more is data.
const RECORDS_WITH_DATA: usize = 2;

/// Exported secrets, by label and client random.
#[derive(Debug, Default)]
pub(super) struct Keys(BTreeMap<(String, String), Vec<u8>>);

impl Keys {
    /// Reads key logs.
    pub(super) fn read<'b>(logs: impl Iterator<Item = &'b Vec<u8>>) -> Self {
        let mut keys = BTreeMap::new();
        for log in logs {
            for line in String::from_utf8_lossy(log).lines() {
                let mut words = line.split(' ');
                let (Some(label), Some(random), Some(secret)) =
                    (words.next(), words.next(), words.next())
                else {
                    continue;
                };
                if let Ok(secret) = data_encoding::HEXLOWER_PERMISSIVE.decode(secret.as_bytes()) {
                    keys.insert((label.to_owned(), random.to_ascii_lowercase()), secret);
                }
            }
        }
        Self(keys)
    }

    fn get(&self, label: &str, random: &str) -> Option<&[u8]> {
        let key = (label.to_owned(), random.to_owned());
        self.0.get(&key).map(Vec::as_slice)
    }
}

/// Plaintext of a conversation, and why there is none of its encrypted part, when data was in it.
#[derive(Debug, Default)]
pub(super) struct Opened {
    pub(super) to_gate: Vec<u8>,
    pub(super) from_gate: Vec<u8>,
    pub(super) why_not: Option<String>,
}

struct Record<'s> {
    kind: u8,
    payload: &'s [u8],
}

/// Opens both directions.
pub(super) fn open(to_gate: &[u8], from_gate: &[u8], keys: &Keys) -> Opened {
    let (connect, hello) = after_connect(to_gate);
    let (answer, shake) = if connect.is_empty() {
        (&[][..], from_gate)
    } else {
        after_head(from_gate)
    };
    if hello.first() != Some(&HANDSHAKE) {
        return Opened {
            to_gate: to_gate.to_vec(),
            from_gate: from_gate.to_vec(),
            why_not: None,
        };
    }
    let mut opened = Opened {
        to_gate: connect.to_vec(),
        from_gate: answer.to_vec(),
        why_not: None,
    };
    let (sent, got) = (records(hello), records(shake));
    let data = sent.iter().filter(|r| r.kind == APPLICATION_DATA).count();
    match decrypt(&sent, &got, keys) {
        Ok((to, from)) => {
            opened.to_gate.extend(to);
            opened.from_gate.extend(from);
        }
        Err(why) if data >= RECORDS_WITH_DATA => opened.why_not = Some(why),
        // No byte of a request went over it.
        Err(_) => {}
    }
    opened
}

fn decrypt(
    sent: &[Record<'_>],
    got: &[Record<'_>],
    keys: &Keys,
) -> Result<(Vec<u8>, Vec<u8>), String> {
    let handshake = |records: &[Record<'_>]| {
        let found = records.iter().rfind(|r| r.kind == HANDSHAKE);
        found.map(|record| record.payload.to_vec())
    };
    let hello = handshake(sent).ok_or("no client hello")?;
    let random = hello.get(6..38).ok_or("a short client hello")?;
    let random = data_encoding::HEXLOWER.encode(random);
    let suite = suite(&handshake(got).ok_or("no server hello")?)?;
    let secret = |label: &str| {
        let found = keys.get(label, &random);
        found.ok_or_else(|| format!("no {label} was exported"))
    };
    let to = direction(
        sent,
        suite,
        secret("CLIENT_HANDSHAKE_TRAFFIC_SECRET")?,
        secret("CLIENT_TRAFFIC_SECRET_0")?,
    )?;
    let from = direction(
        got,
        suite,
        secret("SERVER_HANDSHAKE_TRAFFIC_SECRET")?,
        secret("SERVER_TRAFFIC_SECRET_0")?,
    )?;
    Ok((to, from))
}

/// The suite that a server hello chose.
fn suite(hello: &[u8]) -> Result<&'static Tls13CipherSuite, String> {
    let session = usize::from(*hello.get(38).ok_or("a short server hello")?);
    let chosen = hello.get(39 + session..41 + session);
    let chosen: [u8; 2] = chosen.and_then(|c| c.try_into().ok()).unwrap_or_default();
    let chosen = u16::from_be_bytes(chosen);
    rustls::crypto::aws_lc_rs::ALL_CIPHER_SUITES
        .iter()
        .find(|suite| u16::from(suite.suite()) == chosen)
        .and_then(SupportedCipherSuite::tls13)
        .ok_or_else(|| format!("suite {chosen:04x} is none of TLS 1.3"))
}

/// Opens the records of one direction: handshake keys first, and the session's from the record on
/// that they don't open.
fn direction(
    records: &[Record<'_>],
    suite: &Tls13CipherSuite,
    handshake: &[u8],
    session: &[u8],
) -> Result<Vec<u8>, String> {
    let mut plain = Vec::new();
    let mut later = Some(session);
    let mut key = decrypter(suite, handshake);
    let mut number = 0;
    for record in records.iter().filter(|r| r.kind == APPLICATION_DATA) {
        let mut opened = open_one(&mut *key, record.payload, number);
        if opened.is_none()
            && let Some(session) = later.take()
        {
            (key, number) = (decrypter(suite, session), 0);
            opened = open_one(&mut *key, record.payload, number);
        }
        let (kind, content) = opened.ok_or("a record does not open")?;
        if kind == ContentType::ApplicationData {
            plain.extend(content);
        }
        number += 1;
    }
    Ok(plain)
}

fn open_one(
    key: &mut dyn MessageDecrypter,
    payload: &[u8],
    number: u64,
) -> Option<(ContentType, Vec<u8>)> {
    let mut copy = payload.to_vec();
    let kind = ContentType::ApplicationData;
    let message = InboundOpaqueMessage::new(kind, ProtocolVersion::TLSv1_2, &mut copy);
    let plain = key.decrypt(message, number).ok()?;
    Some((plain.typ, plain.payload.to_vec()))
}

/// RFC 8446 §7.3.
fn decrypter(suite: &Tls13CipherSuite, secret: &[u8]) -> Box<dyn MessageDecrypter> {
    let expander = suite.hkdf_provider.expander_for_okm(&OkmBlock::new(secret));
    let (mut key, mut iv) = ([0_u8; 32], [0_u8; 12]);
    for (label, out) in [("tls13 key", &mut key[..]), ("tls13 iv", &mut iv[..])] {
        let length = u16::try_from(out.len()).unwrap_or_default().to_be_bytes();
        let size = [u8::try_from(label.len()).unwrap_or_default()];
        // INVARIANT: neither is longer than 255 digests.
        let _fits = expander.expand_slice(&[&length, &size, label.as_bytes(), &[0]], out);
    }
    suite.aead_alg.decrypter(AeadKey::from(key), Iv::new(iv))
}

/// Whole records; a last one that was cut off is left out.
fn records(mut stream: &[u8]) -> Vec<Record<'_>> {
    let mut records = Vec::new();
    while let Some((header, rest)) = stream.split_at_checked(RECORD_HEADER_BYTES) {
        let [kind, _, _, high, low] = header else {
            break;
        };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let Some((payload, rest)) = rest.split_at_checked(length) else {
            break;
        };
        records.push(Record {
            kind: *kind,
            payload,
        });
        stream = rest;
    }
    records
}

/// The head of a CONNECT, and what comes after it.
fn after_connect(stream: &[u8]) -> (&[u8], &[u8]) {
    if stream.starts_with(b"CONNECT ") {
        after_head(stream)
    } else {
        (&[], stream)
    }
}

fn after_head(stream: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr::memmem::find(stream, b"\r\n\r\n").map_or(stream.len(), |at| at + 4);
    stream.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::authority::Authority;
    use rustls::{ClientConfig, ClientConnection, KeyLog, RootCertStore, ServerConnection};
    use std::io::{Read, Write};
    use std::sync::{Arc, Mutex};

    #[derive(Debug, Default)]
    struct Log(Mutex<Vec<u8>>);

    impl KeyLog for Log {
        fn log(&self, label: &str, random: &[u8], secret: &[u8]) {
            let hex = |bytes| data_encoding::HEXLOWER.encode(bytes);
            let line = format!("{label} {} {}\n", hex(random), hex(secret));
            self.0.lock().unwrap().extend(line.into_bytes());
        }
    }

    /// A conversation as it stands on the wire, and the keys that its client exported.
    fn conversation(said: &[u8], answered: &[u8]) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
        let authority = Authority::new("a test").unwrap();
        let mut roots = RootCertStore::empty();
        let pem = authority.pem();
        let der = pem.lines().filter(|line| !line.starts_with('-'));
        let der: String = der.collect();
        let der = data_encoding::BASE64.decode(der.as_bytes()).unwrap();
        roots.add(der.into()).unwrap();
        let log = Arc::new(Log::default());
        let mut config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.key_log = Arc::<Log>::clone(&log);
        let name = "a.torno.test".try_into().unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut server =
            ServerConnection::new(authority.server(&["a.torno.test"]).unwrap()).unwrap();
        client.writer().write_all(said).unwrap();
        let (mut to, mut from) = (Vec::new(), Vec::new());
        for _ in 0..10 {
            let (mut there, mut back) = (Vec::new(), Vec::new());
            while client.wants_write() {
                client.write_tls(&mut there).unwrap();
            }
            server.read_tls(&mut there.as_slice()).unwrap();
            server.process_new_packets().unwrap();
            let mut got = vec![0; 1024];
            if matches!(server.reader().read(&mut got), Ok(1..)) {
                server.writer().write_all(answered).unwrap();
            }
            while server.wants_write() {
                server.write_tls(&mut back).unwrap();
            }
            client.read_tls(&mut back.as_slice()).unwrap();
            client.process_new_packets().unwrap();
            to.extend(there);
            from.extend(back);
        }
        let keys = log.0.lock().unwrap().clone();
        (to, from, keys)
    }

    #[test]
    fn both_directions_open_with_exported_keys_and_neither_without() {
        let (to, from, log) = conversation(b"GET / HTTP/1.1\r\n\r\n", b"an answer");
        let keys = Keys::read(std::iter::once(&log));
        let opened = open(&to, &from, &keys);
        assert_eq!(opened.why_not, None);
        assert_eq!(opened.to_gate, b"GET / HTTP/1.1\r\n\r\n");
        assert_eq!(opened.from_gate, b"an answer");
        let closed = open(&to, &from, &Keys::default());
        assert!(closed.why_not.is_some());
        assert!(closed.to_gate.is_empty() && closed.from_gate.is_empty());
        let connect = [b"CONNECT a:443 HTTP/1.1\r\n\r\n", to.as_slice()].concat();
        let answer = [b"HTTP/1.1 200 OK\r\n\r\n", from.as_slice()].concat();
        let opened = open(&connect, &answer, &keys);
        assert!(opened.to_gate.ends_with(b"\r\n\r\nGET / HTTP/1.1\r\n\r\n"));
        assert!(opened.from_gate.ends_with(b"\r\n\r\nan answer"));
    }

    #[test]
    fn what_is_no_tls_is_as_it_is() {
        let opened = open(b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 403", &Keys::default());
        assert_eq!(opened.to_gate, b"GET / HTTP/1.1\r\n\r\n");
        assert_eq!(opened.from_gate, b"HTTP/1.1 403");
    }
}
