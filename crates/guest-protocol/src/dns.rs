// SPDX-License-Identifier: Apache-2.0
//! The DNS stub: one question in, one answer out, nothing asked of anybody else.
//! Every name that could be a host gets an address of its own from 198.18.0.0/15, so that the name
//! of a later dial is known from its address. A name is only what was asked for: whether it is a
//! canonical host, and may be dialled, the gate finds out later.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};

// LIMIT: a quarter of the addresses there are; with names of full length the pool stays below 16
// MiB.
/// The most names of one session; further ones get SERVFAIL.
pub const NAMES_MAX: u32 = 32_768;

// LIMIT: the payload size that resolvers agree to be safe; no honest question comes near.
/// The longest query that is looked at; longer ones get no answer.
pub const QUERY_BYTES_MAX: usize = 1_232;

// LIMIT: an address is valid as long as the session, so this only bounds what a cache holds on to.
/// The time to live of an answer, in seconds.
pub const ANSWER_TTL_SECONDS: u32 = 60;

/// The names of one session and the address each got. An address is never used for a second name.
#[derive(Debug, Default)]
pub struct NamePool {
    numbers: BTreeMap<Arc<str>, u32>,
    names: Vec<Arc<str>>,
}

impl NamePool {
    /// An empty pool, for a new session.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            numbers: BTreeMap::new(),
            names: Vec::new(),
        }
    }

    /// The name that was given this address, in lower case, without a final dot.
    #[must_use]
    pub fn name_of(&self, address: Ipv4Addr) -> Option<&str> {
        let index = index_of(address)?;
        self.names
            .get(usize::try_from(index).ok()?)
            .map(AsRef::as_ref)
    }

    /// The address of `name`, a new one if it has none; `None` when the pool is full.
    fn address_of(&mut self, name: &str) -> Option<Ipv4Addr> {
        if let Some(&index) = self.numbers.get(name) {
            return Some(address_at(index));
        }
        let index = u32::try_from(self.names.len())
            .ok()
            .filter(|&index| index < NAMES_MAX)?;
        let name: Arc<str> = name.into();
        self.names.push(Arc::clone(&name));
        self.numbers.insert(name, index);
        Some(address_at(index))
    }
}

/// Answers one query datagram (or one message of a TCP stream, without its length). `None` means
/// silence: what came is too short, too long or itself an answer, and an answer could make a loop.
pub fn answer(query: &[u8], names: &mut NamePool) -> Option<Vec<u8>> {
    let [id_high, id_low, flags, ..] = *query else {
        return None;
    };
    if query.len() < HEADER_BYTES || query.len() > QUERY_BYTES_MAX || flags & FLAG_RESPONSE != 0 {
        return None;
    }
    let id = u16::from_be_bytes([id_high, id_low]);
    let op_code = OpCode::from_u8((flags >> 3) & 0x0f);
    if op_code != OpCode::Query {
        return Message::error_msg(id, op_code, ResponseCode::NotImp)
            .to_vec()
            .ok();
    }
    match Message::from_vec(query) {
        Ok(message) => answer_message(&message, names).to_vec().ok(),
        Err(_) => Message::error_msg(id, op_code, ResponseCode::FormErr)
            .to_vec()
            .ok(),
    }
}

/// Feeds arbitrary bytes to the stub, alone and behind a good header, and checks what comes out.
///
/// # Panics
/// When an answer doesn't fit its question or the pool gives an address away twice.
pub fn fuzz_dns(input: &[u8]) {
    let mut names = NamePool::new();
    let mut behind_header = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    behind_header.extend_from_slice(input);
    for query in [input, &behind_header] {
        let Some(reply) = answer(query, &mut names) else {
            continue;
        };
        assert_eq!(reply.get(..2), query.get(..2), "another query's id");
        assert!(reply.len() <= 512, "an answer that may not fit a datagram");
        let reply = Message::from_vec(&reply);
        assert!(
            reply.is_ok_and(|reply| reply.metadata.message_type == MessageType::Response),
            "not an answer"
        );
    }
    for (number, name) in names.names.iter().enumerate() {
        let address = u32::try_from(number).map(address_at);
        assert!(address.is_ok_and(|address| names.name_of(address) == Some(name)));
    }
}

fn answer_message(query: &Message, names: &mut NamePool) -> Message {
    let mut reply = Message::response(query.metadata.id, OpCode::Query);
    reply.metadata.recursion_desired = query.metadata.recursion_desired;
    reply.metadata.recursion_available = true;
    if let Some(edns) = &query.edns {
        let mut own = Edns::new();
        own.set_max_payload(512);
        if edns.version() > 0 {
            own.set_rcode_high(ResponseCode::BADVERS.high());
            reply.metadata.response_code = ResponseCode::BADVERS;
        }
        reply.set_edns(own);
        if edns.version() > 0 {
            return reply;
        }
    }
    let [question] = query.queries.as_slice() else {
        reply.metadata.response_code = ResponseCode::FormErr;
        return reply;
    };
    if !query.answers.is_empty() || !query.authorities.is_empty() {
        reply.metadata.response_code = ResponseCode::FormErr;
        return reply;
    }
    reply.add_query(question.clone());
    match find_answer(question, names) {
        Ok(Some(address)) => {
            let data = RData::A(A(address));
            let name = question.name().clone();
            reply.add_answer(Record::from_rdata(name, ANSWER_TTL_SECONDS, data));
        }
        Ok(None) => {}
        Err(code) => reply.metadata.response_code = code,
    }
    reply
}

/// The address to answer, or none for a type that a host here doesn't have.
fn find_answer(question: &Query, names: &mut NamePool) -> Result<Option<Ipv4Addr>, ResponseCode> {
    if question.query_class() != DNSClass::IN {
        return Err(ResponseCode::Refused);
    }
    match question.query_type() {
        RecordType::AXFR | RecordType::IXFR => return Err(ResponseCode::Refused),
        RecordType::A => {}
        // A pool address has no name to look up: the name is the session's own business.
        _ => return Ok(None),
    }
    let name = host_name(question.name()).ok_or(ResponseCode::NXDomain)?;
    if name == "localhost" || name.ends_with(".localhost") {
        return Ok(Some(Ipv4Addr::LOCALHOST));
    }
    names
        .address_of(&name)
        .map(Some)
        .ok_or(ResponseCode::ServFail)
}

/// The name in lower case without a final dot, if its labels are letters, digits, `-` and `_`, and
/// its last label isn't a number (which would read as an address).
fn host_name(name: &Name) -> Option<String> {
    let mut text = String::new();
    let mut last_is_number = true;
    for label in name {
        if label.is_empty() || label.len() > LABEL_BYTES_MAX {
            return None;
        }
        if !text.is_empty() {
            text.push('.');
        }
        for &byte in label {
            if !(byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_') {
                return None;
            }
            text.push(char::from(byte.to_ascii_lowercase()));
        }
        last_is_number = is_number(label);
    }
    (!last_is_number && text.len() <= NAME_BYTES_MAX).then_some(text)
}

/// Digits, or `0x` and hexadecimal digits: what `inet_aton` would take for a number.
fn is_number(label: &[u8]) -> bool {
    let hexadecimal = label
        .strip_prefix(b"0x")
        .or_else(|| label.strip_prefix(b"0X"));
    label.iter().all(u8::is_ascii_digit)
        || hexadecimal.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

/// 254 addresses of each /24 are used: some stacks treat .0 and .255 as broadcast whatever the
/// mask.
fn address_at(index: u32) -> Ipv4Addr {
    let place = index + FIRST_PLACE;
    Ipv4Addr::from_bits(POOL_START.to_bits() + (place / 254) * 256 + place % 254 + 1)
}

fn index_of(address: Ipv4Addr) -> Option<u32> {
    let offset = address.to_bits().checked_sub(POOL_START.to_bits())?;
    let last = (offset % 256).checked_sub(1).filter(|&last| last < 254)?;
    ((offset / 256) * 254 + last).checked_sub(FIRST_PLACE)
}

const POOL_START: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
/// 198.18.0.1 stays free for the sandbox's own interface where its stack needs one.
const FIRST_PLACE: u32 = 1;

const HEADER_BYTES: usize = 12;
const FLAG_RESPONSE: u8 = 0x80;
/// RFC 1035 §2.3.4.
const LABEL_BYTES_MAX: usize = 63;
/// RFC 1035 §2.3.4, as text without the final dot.
const NAME_BYTES_MAX: usize = 253;

#[cfg(test)]
mod tests;
