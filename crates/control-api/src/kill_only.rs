// SPDX-License-Identifier: Apache-2.0
//! The one packet that the supervisor's kill-only socket takes: 26 bytes of a session's name,
//! filled
//! up with zeros; all zeros is every session. It is answered by one byte when every gate that was
//! named is gone.

use torno_policy::names::SessionId;

/// Bytes of the packet.
pub const KILL_BYTES: usize = 26;

/// The packet for one session, or for all. Nothing for a name that no session has.
#[must_use]
pub fn encode(session: Option<&SessionId>) -> Option<[u8; KILL_BYTES]> {
    let name = session.map_or(&[][..], |session| session.as_str().as_bytes());
    let mut packet = [0; KILL_BYTES];
    packet.get_mut(..name.len())?.copy_from_slice(name);
    Some(packet)
}

/// Reads a packet; the inner option is the session, or all.
#[must_use]
pub fn decode(packet: &[u8]) -> Option<Option<SessionId>> {
    let packet: &[u8; KILL_BYTES] = packet.try_into().ok()?;
    let name = std::str::from_utf8(packet).ok()?.trim_end_matches('\0');
    if name.is_empty() {
        Some(None)
    } else {
        SessionId::parse(name).ok().map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_read_back_and_nothing_else_is_one() {
        let session = SessionId::parse("abcdefghijklmnopqrstuvwxyz").unwrap();
        for who in [Some(session), None] {
            let packet = encode(who.as_ref()).unwrap();
            assert_eq!(decode(&packet), Some(who));
            assert_eq!(decode(&packet[1..]), None);
        }
        assert_eq!(
            encode(Some(&SessionId::parse(&"a".repeat(27)).unwrap())),
            None
        );
        assert_eq!(decode(&[0xff; KILL_BYTES]), None);
    }
}
