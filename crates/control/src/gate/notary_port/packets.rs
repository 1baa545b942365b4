// SPDX-License-Identifier: Apache-2.0
//! What leaves for the notary, packed: each kind of a burst in one packet where it fits, in several
//! where it does not.

use super::Outgoing;
use torno_notary_protocol::gate::{GateMessage, Ticket};
use torno_notary_protocol::transit::{self, FrameError};
use zeroize::Zeroizing;

/// One burst, each kind in one packet. What is asked goes before what ended, so that no unlock
/// comes behind the end of its own request; among requests there is no order to keep.
pub(super) fn packets(burst: impl Iterator<Item = Outgoing>) -> Vec<GateMessage> {
    let (mut asked, mut unlocks) = (Vec::new(), Vec::new());
    let (mut ended, mut refused) = (Vec::new(), Vec::new());
    let mut cuts = Vec::new();
    for message in burst {
        match message {
            Outgoing::Question(question) => asked.push(*question),
            Outgoing::Unlock(ticket, receipt) => {
                unlocks.push(GateMessage::Unlock { ticket, receipt });
            }
            Outgoing::Mint(ticket, record, count) => unlocks.push(GateMessage::Mint {
                ticket,
                record,
                count,
            }),
            Outgoing::Cut => cuts.push(GateMessage::Cut),
            Outgoing::Outcome(outcome) => ended.push(*outcome),
            Outgoing::Refused(one) => refused.push(*one),
        }
    }
    // Somebody waits for them.
    let mut packets = cuts;
    if !asked.is_empty() {
        packets.push(GateMessage::Ask(asked));
    }
    packets.extend(unlocks);
    if !ended.is_empty() {
        packets.push(GateMessage::Report(ended));
    }
    if !refused.is_empty() {
        packets.push(GateMessage::Refused(refused));
    }
    packets
}

/// A message as frames of the socket's size.
#[derive(Default)]
pub(super) struct Packed {
    pub(super) frames: Vec<Zeroizing<Vec<u8>>>,
    /// Questions that fit none.
    pub(super) too_large: Vec<Ticket>,
}

/// Packs a message, in halves where it is too large. Nothing is what can be neither sent nor
/// refused: the gate ends then, as without its record.
pub(super) fn packed(message: GateMessage) -> Option<Packed> {
    let mut packed = Packed::default();
    let mut left = vec![message];
    while let Some(message) = left.pop() {
        match transit::encode_compact(&message, &[]) {
            Ok(frame) => packed.frames.push(frame),
            Err(FrameError::TooLarge) => match halves(message) {
                Ok([first, second]) => left.extend([second, first]),
                Err(ticket) => packed.too_large.push(ticket?),
            },
            Err(_) => return None,
        }
    }
    Some(packed)
}

/// Both halves of a list; of one that can't be halved, who asked.
fn halves(message: GateMessage) -> Result<[GateMessage; 2], Option<Ticket>> {
    match message {
        GateMessage::Ask(list) if list.len() > 1 => Ok(halved(list).map(GateMessage::Ask)),
        GateMessage::Report(list) if list.len() > 1 => Ok(halved(list).map(GateMessage::Report)),
        GateMessage::Refused(list) if list.len() > 1 => Ok(halved(list).map(GateMessage::Refused)),
        GateMessage::Ask(list) => Err(list.first().map(|question| question.ticket)),
        _ => Err(None),
    }
}

fn halved<T>(mut list: Vec<T>) -> [Vec<T>; 2] {
    let second = list.split_off(list.len() / 2);
    [list, second]
}

#[cfg(test)]
mod tests {
    use super::*;
    use torno_notary_protocol::gate::Question;
    use torno_notary_protocol::gate::{End, Outcome};
    use torno_policy::facts::{Entry, RequestFacts};
    use torno_policy::names::{Endpoint, Host, Method, Port, RecordSeq, RequestPath, Scheme};

    fn unlock(ticket: u64) -> Outgoing {
        let receipt = serde_json::from_value("AAAA".into()).unwrap();
        Outgoing::Unlock(Ticket(ticket), receipt)
    }

    fn ended(record: u64) -> Outgoing {
        Outgoing::Outcome(Box::new(Outcome {
            record: RecordSeq(record),
            end: End::Aborted { status: None },
            sent_bytes: 0,
            received_bytes: 0,
            reflected: 0,
            carried: 0,
            cookies: Vec::new(),
            address: None,
            resolved_by_proxy: false,
        }))
    }

    #[test]
    fn a_burst_is_one_packet_a_kind_and_no_unlock_comes_behind_an_end() {
        let burst = [ended(1), unlock(7), ended(2), unlock(8), ended(3)];
        let packets = packets(burst.into_iter());
        let [
            GateMessage::Unlock { ticket: first, .. },
            GateMessage::Unlock { ticket: second, .. },
            GateMessage::Report(ends),
        ] = packets.as_slice()
        else {
            panic!("{packets:?}")
        };
        assert_eq!((*first, *second), (Ticket(7), Ticket(8)));
        let records: Vec<_> = ends.iter().map(|end| end.record.0).collect();
        assert_eq!(records, [1, 2, 3]);
    }

    fn asks(ticket: u64, padding: usize) -> Outgoing {
        let path = format!("/{}", "p".repeat(padding));
        let facts = RequestFacts {
            entry: Entry::Captured,
            endpoint: Endpoint {
                scheme: Scheme::Https,
                host: Host::Name("allow.test".into()),
                port: Port::HTTPS,
            },
            method: Method::parse("GET").unwrap(),
            path: RequestPath::parse(&path).unwrap(),
            websocket: false,
            presented: Vec::new(),
            own_credentials: vec!["x".repeat(padding)],
            git: None,
            content: None,
            body: None,
        };
        Outgoing::Question(Box::new(Question {
            ticket: Ticket(ticket),
            facts,
            pooled: false,
            serves: None,
            watch: 0,
        }))
    }

    #[test]
    fn a_burst_that_fits_no_packet_is_several_and_one_question_too_large_is_refused_alone() {
        let long = 8 * 1024 - 1;
        let burst = (0..32).map(|ticket| asks(ticket, long));
        let mut all = packets(burst);
        let Some(GateMessage::Ask(list)) = all.first_mut() else {
            panic!("{all:?}")
        };
        if let Some(question) = list.get_mut(5) {
            question.facts.own_credentials = vec!["x".repeat(200_000)];
        }
        let packed = packed(all.remove(0)).unwrap();
        assert_eq!(packed.too_large, [Ticket(5)]);
        let mut tickets = Vec::new();
        for frame in &packed.frames {
            assert!(frame.len() <= torno_notary_protocol::MESSAGE_BYTES_MAX);
            match transit::decode_compact::<GateMessage>(frame) {
                Ok((GateMessage::Ask(list), _)) => tickets.extend(list.iter().map(|q| q.ticket.0)),
                other => panic!("{:?}", other.map(|(message, _)| message)),
            }
        }
        let asked: Vec<u64> = (0..32).filter(|ticket| *ticket != 5).collect();
        assert_eq!(tickets, asked);
        let ends = (0..3000).map(ended);
        let packed = super::packed(packets(ends).remove(0)).unwrap();
        assert!(packed.too_large.is_empty() && !packed.frames.is_empty());
    }
}
