// SPDX-License-Identifier: Apache-2.0
//! The name server of a story's internet: answers by script, UDP and TCP, honestly or not, and
//! keeps every question. It is written by hand so that it can say what no library would.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};

const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;
const INTERNET: u16 = 1;
const HEADER_BYTES: usize = 12;
/// What an answer over UDP may have without further agreement (RFC 1035 §4.2.1).
const UDP_BYTES_MAX: usize = 512;
const NAME_ERROR: u8 = 3;

/// How a name is answered.
#[derive(Debug, Clone, Default)]
pub struct Entry {
    /// Address sets, one for each time the name is asked; the last one stays.
    pub answers: Vec<Vec<IpAddr>>,
    /// Names between this one and its addresses.
    pub chain: Vec<String>,
    /// How the answer is given.
    pub manner: Manner,
}

/// How an answer is given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Manner {
    /// As it should be.
    #[default]
    Honest,
    /// Not at all.
    Silent,
    /// With this error code and nothing else.
    Failed(u8),
    /// Cut off over UDP, whole over TCP.
    Truncated,
    /// After two forgeries with these addresses: another id, and another question.
    AfterForgeries(Vec<IpAddr>),
    /// With these addresses of a name that nobody asked for beside it.
    BesideForeign(Vec<IpAddr>),
    /// IPv4 honestly, IPv6 not at all.
    HalfSilent,
}

impl Entry {
    /// A name with these addresses, always.
    #[must_use]
    pub fn always(addresses: &[&str]) -> Self {
        Self::default().then(addresses)
    }

    /// These addresses the next time, and from then on.
    #[must_use]
    pub fn then(mut self, addresses: &[&str]) -> Self {
        self.answers.push(parsed(addresses));
        self
    }

    /// By way of other names.
    #[must_use]
    pub fn by(mut self, chain: &[&str]) -> Self {
        self.chain = chain.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// In this manner.
    #[must_use]
    pub fn in_manner(mut self, manner: Manner) -> Self {
        self.manner = manner;
        self
    }
}

/// Addresses from text; what is none is left out, which a story notices at once.
#[must_use]
pub fn parsed(addresses: &[&str]) -> Vec<IpAddr> {
    addresses.iter().filter_map(|a| a.parse().ok()).collect()
}

/// A question that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The name, lower case, without the dot at its end.
    pub name: String,
    /// Whether IPv6 addresses were asked for.
    pub v6: bool,
    /// Whether it came over TCP.
    pub tcp: bool,
}

/// The server's script and book.
#[derive(Debug, Clone, Default)]
pub struct Names {
    zone: Arc<BTreeMap<String, Entry>>,
    asked: Arc<Mutex<Vec<Question>>>,
}

impl Names {
    /// A server that knows these names, and no others.
    #[must_use]
    pub fn new(zone: BTreeMap<String, Entry>) -> Self {
        Self {
            zone: Arc::new(zone),
            asked: Arc::default(),
        }
    }

    /// Every question so far.
    #[must_use]
    pub fn asked(&self) -> Vec<Question> {
        self.book().clone()
    }

    fn book(&self) -> std::sync::MutexGuard<'_, Vec<Question>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves until the runtime ends.
    ///
    /// # Errors
    /// When the sockets can't be used.
    pub(super) fn serve(&self, udp: std::net::UdpSocket, tcp: std::net::TcpListener) -> Result<()> {
        udp.set_nonblocking(true).context("a socket")?;
        tcp.set_nonblocking(true).context("a socket")?;
        let udp = UdpSocket::from_std(udp).context("a socket")?;
        let tcp = TcpListener::from_std(tcp).context("a socket")?;
        let names = self.clone();
        tokio::spawn(async move {
            let mut buffer = [0; UDP_BYTES_MAX];
            while let Ok((length, from)) = udp.recv_from(&mut buffer).await {
                let query = buffer.get(..length).unwrap_or_default();
                for said in names.answer(query, false) {
                    let _lost = udp.send_to(&said, from).await;
                }
            }
        });
        let names = self.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = tcp.accept().await {
                let names = names.clone();
                tokio::spawn(async move {
                    while let Ok(length) = stream.read_u16().await {
                        let mut query = vec![0; usize::from(length)];
                        stream.read_exact(&mut query).await?;
                        for said in names.answer(&query, true) {
                            stream.write_u16(u16::try_from(said.len())?).await?;
                            stream.write_all(&said).await?;
                        }
                    }
                    anyhow::Ok(())
                });
            }
        });
        Ok(())
    }

    /// What is said to one query: nothing, one message, or more than was asked for.
    fn answer(&self, query: &[u8], tcp: bool) -> Vec<Vec<u8>> {
        let Some((question, name, kind)) = read(query) else {
            return Vec::new();
        };
        let asked = Question {
            name: name.clone(),
            v6: kind == AAAA,
            tcp,
        };
        let before = {
            let mut book = self.book();
            let same = |q: &&Question| q.name == name && q.v6 == asked.v6;
            let before = book.iter().filter(same).count();
            book.push(asked);
            before
        };
        let message = Message { query, question };
        let Some(entry) = self.zone.get(&name) else {
            return vec![message.failed(NAME_ERROR)];
        };
        let set = entry
            .answers
            .get(before)
            .or_else(|| entry.answers.last())
            .map_or(&[][..], Vec::as_slice);
        let honest = message.addresses(&entry.chain, set, kind);
        match &entry.manner {
            Manner::Honest if tcp || honest.len() <= UDP_BYTES_MAX => vec![honest],
            Manner::Honest => vec![message.truncated()],
            Manner::Truncated if tcp => vec![honest],
            Manner::Truncated => vec![message.truncated()],
            Manner::HalfSilent if kind == A => vec![honest],
            Manner::HalfSilent | Manner::Silent => Vec::new(),
            Manner::Failed(code) => vec![message.failed(*code)],
            Manner::AfterForgeries(forged) => {
                let mut other_id = message.addresses(&[], forged, kind);
                if let Some(first) = other_id.first_mut() {
                    *first ^= 0x55;
                }
                let mut other_question = message.addresses(&[], forged, kind);
                // The first letter of the name.
                if let Some(letter) = other_question.get_mut(HEADER_BYTES + 1) {
                    *letter ^= 1;
                }
                vec![other_id, other_question, honest]
            }
            Manner::BesideForeign(foreign) => {
                vec![message.beside(honest, foreign, kind)]
            }
        }
    }
}

/// The question's bytes, its name and its type.
fn read(query: &[u8]) -> Option<(&[u8], String, u16)> {
    let mut at = HEADER_BYTES;
    let mut labels = Vec::new();
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        let label = query.get(at..at + length)?;
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
        at += length;
    }
    let kind = u16::from_be_bytes([*query.get(at)?, *query.get(at + 1)?]);
    Some((query.get(HEADER_BYTES..at + 4)?, labels.join("."), kind))
}

/// Answers to one query.
struct Message<'q> {
    query: &'q [u8],
    question: &'q [u8],
}

impl Message<'_> {
    fn head(&self, flags: u8, code: u8, answers: usize) -> Vec<u8> {
        let mut head = self.query.get(..2).unwrap_or_default().to_vec();
        // Answer, recursion desired and available.
        head.extend([0x81 | flags, 0x80 | code, 0, 1]);
        head.extend(u16::try_from(answers).unwrap_or(u16::MAX).to_be_bytes());
        head.extend([0, 0, 0, 0]);
        head.extend(self.question);
        head
    }

    fn failed(&self, code: u8) -> Vec<u8> {
        self.head(0, code, 0)
    }

    fn truncated(&self) -> Vec<u8> {
        self.head(0x02, 0, 0)
    }

    /// The chain, then those of the addresses that were asked for.
    fn addresses(&self, chain: &[String], set: &[IpAddr], kind: u16) -> Vec<u8> {
        let fitting: Vec<Vec<u8>> = set.iter().filter_map(|a| data(*a, kind)).collect();
        let mut message = self.head(0, 0, chain.len() + fitting.len());
        // A pointer to the question's name.
        let mut owner = vec![0xc0, 0x0c];
        for name in chain {
            let target = encoded(name);
            message.extend(record(&owner, CNAME, &target));
            owner = target;
        }
        for data in fitting {
            message.extend(record(&owner, kind, &data));
        }
        message
    }

    fn beside(&self, mut honest: Vec<u8>, foreign: &[IpAddr], kind: u16) -> Vec<u8> {
        let owner = encoded("somebody.else.test");
        let mut more = 0_u16;
        for data in foreign.iter().filter_map(|a| data(*a, kind)) {
            honest.extend(record(&owner, kind, &data));
            more += 1;
        }
        if let Some([high, low]) = honest.get_mut(6..8) {
            let all = u16::from_be_bytes([*high, *low]) + more;
            [*high, *low] = all.to_be_bytes();
        }
        honest
    }
}

/// The data of an address record, when the address is of the kind that was asked for.
fn data(address: IpAddr, kind: u16) -> Option<Vec<u8>> {
    match (address, kind) {
        (IpAddr::V4(v4), A) => Some(v4.octets().to_vec()),
        (IpAddr::V6(v6), AAAA) => Some(v6.octets().to_vec()),
        _ => None,
    }
}

fn encoded(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap_or_default());
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

/// A record that nobody may keep: its time to live is nothing.
fn record(owner: &[u8], kind: u16, data: &[u8]) -> Vec<u8> {
    let mut record = owner.to_vec();
    record.extend(kind.to_be_bytes());
    record.extend(INTERNET.to_be_bytes());
    record.extend([0; 4]);
    record.extend(u16::try_from(data.len()).unwrap_or_default().to_be_bytes());
    record.extend(data);
    record
}
