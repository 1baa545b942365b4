// SPDX-License-Identifier: Apache-2.0
//! Frames → conversations with the gate: TCP put together again, datagrams as they are. Loopback
//! shows each frame twice, going out and coming in; that changes nothing here.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Both directions of one connection, or of all datagrams.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    pub(super) to_gate: Vec<u8>,
    pub(super) from_gate: Vec<u8>,
}

const TCP: u8 = 6;
const UDP: u8 = 17;
const SYN: u8 = 2;
const ACK: u8 = 16;

type End = (IpAddr, u16);

struct Segment<'f> {
    from: End,
    to: End,
    protocol: u8,
    sequence: u32,
    acknowledged: u32,
    flags: u8,
    data: &'f [u8],
}

/// One direction: where it began, where the one that it answers began, its bytes by their place.
#[derive(Debug, Default)]
struct Half<'f> {
    begins: u32,
    answers: Option<u32>,
    parts: BTreeMap<u32, &'f [u8]>,
}

impl Half<'_> {
    /// The bytes up to the first gap.
    fn joined(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (place, part) in &self.parts {
            let Some(known) = bytes.len().checked_sub(*place as usize) else {
                break;
            };
            bytes.extend_from_slice(part.get(known..).unwrap_or_default());
        }
        bytes
    }
}

/// Every conversation that was begun towards a port of the gate, and all datagrams.
pub(super) fn conversations(frames: &[Vec<u8>], ports: &[u16]) -> Vec<Conversation> {
    let mut halves: BTreeMap<(End, End), Vec<Half<'_>>> = BTreeMap::new();
    let mut datagrams = Conversation::default();
    for segment in frames.iter().filter_map(|frame| parse(frame)) {
        if segment.protocol == UDP {
            let kept = if ports.contains(&segment.to.1) {
                &mut datagrams.to_gate
            } else {
                &mut datagrams.from_gate
            };
            kept.extend_from_slice(segment.data);
            kept.push(b'\n');
            continue;
        }
        let all = halves.entry((segment.from, segment.to)).or_default();
        let begins = segment.sequence.wrapping_add(1);
        if segment.flags & SYN != 0 && all.last().is_none_or(|last| last.begins != begins) {
            all.push(Half {
                begins,
                answers: (segment.flags & ACK != 0).then_some(segment.acknowledged),
                ..Half::default()
            });
        }
        if let (Some(half), false) = (all.last_mut(), segment.data.is_empty()) {
            let place = segment.sequence.wrapping_sub(half.begins);
            let kept = half.parts.entry(place).or_default();
            if kept.len() < segment.data.len() {
                *kept = segment.data;
            }
        }
    }
    let mut all = vec![datagrams];
    for ((client, _), there) in halves.iter().filter(|((_, to), _)| ports.contains(&to.1)) {
        for half in there {
            // Answers to a captured dial come from the address that was dialled, not from the
            // gate's, and to the port it was dialled from, which the kernel changes on the way to
            // the gate where two dials have it: only a handshake tells what belongs together.
            let back = halves.iter().filter(|((_, to), _)| to.0 == client.0);
            let mut back = back.flat_map(|(_, back)| back);
            let back = back.find(|back| back.answers == Some(half.begins));
            all.push(Conversation {
                to_gate: half.joined(),
                from_gate: back.map(Half::joined).unwrap_or_default(),
            });
        }
    }
    all
}

fn parse(frame: &[u8]) -> Option<Segment<'_>> {
    let (protocol, from, to, rest) = match frame.first()? >> 4 {
        4 => {
            let length = usize::from(u16_at(frame, 2)?);
            // With segmentation left to the interface the length may not be filled in.
            let end = if length == 0 { frame.len() } else { length };
            let header = usize::from(frame.first()? & 15) * 4;
            let address = |at: usize| -> Option<IpAddr> {
                let octets: [u8; 4] = frame.get(at..at + 4)?.try_into().ok()?;
                Some(IpAddr::V4(Ipv4Addr::from(octets)))
            };
            let rest = frame.get(header..end.min(frame.len()))?;
            (*frame.get(9)?, address(12)?, address(16)?, rest)
        }
        6 => {
            let address = |at: usize| -> Option<IpAddr> {
                let octets: [u8; 16] = frame.get(at..at + 16)?.try_into().ok()?;
                Some(IpAddr::V6(Ipv6Addr::from(octets)))
            };
            (*frame.get(6)?, address(8)?, address(24)?, frame.get(40..)?)
        }
        _ => return None,
    };
    let (source, target) = (u16_at(rest, 0)?, u16_at(rest, 2)?);
    let (sequence, acknowledged, flags, data) = match protocol {
        TCP => {
            let header = usize::from(rest.get(12)? >> 4) * 4;
            let sequence = u32::from_be_bytes(rest.get(4..8)?.try_into().ok()?);
            let acknowledged = u32::from_be_bytes(rest.get(8..12)?.try_into().ok()?);
            (sequence, acknowledged, *rest.get(13)?, rest.get(header..)?)
        }
        UDP => (0, 0, 0, rest.get(8..)?),
        _ => return None,
    };
    Some(Segment {
        from: (from, source),
        to: (to, target),
        protocol,
        sequence,
        acknowledged,
        flags,
        data,
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: ([u8; 4], u16) = ([198, 18, 0, 1], 40_000);
    const MOVED: ([u8; 4], u16) = ([198, 18, 0, 1], 50_000);
    const GATE: ([u8; 4], u16) = ([127, 0, 0, 1], 3129);
    const DIALLED: ([u8; 4], u16) = ([198, 18, 0, 9], 443);
    const ELSEWHERE: ([u8; 4], u16) = ([198, 18, 0, 8], 443);

    fn frame(
        from: ([u8; 4], u16),
        to: ([u8; 4], u16),
        (sequence, acknowledged, flags): (u32, u32, u8),
        data: &[u8],
    ) -> Vec<u8> {
        let length = u16::try_from(40 + data.len()).unwrap();
        let mut frame = vec![0x45, 0];
        frame.extend(length.to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, TCP, 0, 0]);
        frame.extend(from.0);
        frame.extend(to.0);
        frame.extend(from.1.to_be_bytes());
        frame.extend(to.1.to_be_bytes());
        frame.extend(sequence.to_be_bytes());
        frame.extend(acknowledged.to_be_bytes());
        frame.extend([0x50, flags, 0, 0, 0, 0, 0, 0]);
        frame.extend(data);
        frame
    }

    #[test]
    fn segments_are_joined_whatever_their_order_and_number() {
        let frames = [
            frame(CLIENT, GATE, (u32::MAX, 0, SYN), b""),
            frame(CLIENT, GATE, (3, 10, ACK), b"lo "),
            frame(CLIENT, GATE, (0, 10, ACK), b"hel"),
            frame(CLIENT, GATE, (0, 10, ACK), b"hel"),
            frame(CLIENT, GATE, (5, 10, ACK), b" gate"),
            frame(DIALLED, CLIENT, (9, 0, SYN | ACK), b""),
            frame(DIALLED, CLIENT, (10, 10, ACK), b"hello client"),
            // Another connection by the same port, dialled elsewhere, and one that has a hole.
            frame(CLIENT, GATE, (70, 0, SYN), b""),
            frame(ELSEWHERE, CLIENT, (5, 71, SYN | ACK), b""),
            frame(CLIENT, GATE, (71, 6, ACK), b"again"),
            frame(ELSEWHERE, CLIENT, (6, 76, ACK), b"and again"),
            frame(CLIENT, GATE, (79, 15, ACK), b"beyond the hole"),
            // A third at the same time: its port is another at the gate.
            frame(MOVED, GATE, (500, 0, SYN), b""),
            frame(ELSEWHERE, CLIENT, (600, 501, SYN | ACK), b""),
            frame(MOVED, GATE, (501, 601, ACK), b"third"),
            frame(ELSEWHERE, CLIENT, (601, 506, ACK), b"to the third"),
        ];
        let all = conversations(&frames, &[3129]);
        let [_, first, second, third] = all.as_slice() else {
            panic!("{all:?}");
        };
        assert_eq!(first.to_gate, b"hello gate");
        assert_eq!(first.from_gate, b"hello client");
        assert_eq!(second.to_gate, b"again");
        assert_eq!(second.from_gate, b"and again");
        assert_eq!(third.to_gate, b"third");
        assert_eq!(third.from_gate, b"to the third");
    }

    #[test]
    fn no_frame_makes_it_panic() {
        let whole = frame(CLIENT, GATE, (1, 0, ACK), b"data");
        for length in 0..whole.len() {
            let _any = conversations(&[whole[..length].to_vec()], &[3129]);
        }
        assert!(parse(&[0x60; 41]).is_none());
    }
}
