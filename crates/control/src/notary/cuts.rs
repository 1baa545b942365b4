// SPDX-License-Identifier: Apache-2.0
//! Whoever changes something that cuts live streams hears that it is done when every gate has cut
//! them: who is told that a value is revoked, or a session paused, can rely on it. A gate that
//! doesn't say so in time is let go; so is one that leaves. Of those the process's end is awaited:
//! nobody takes a gate's silence for its word.

use super::sockets::Gates;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use torno_notary::GateId;
use torno_notary_protocol::desk::DeskReply;
use torno_notary_protocol::operator::OperatorReply;

/// LIMIT: for a gate to cut what was revoked. It does nothing else first; this is for a machine
/// that is short of processors.
const CUT_WITHIN: Duration = Duration::from_secs(10);

/// A reply, and whose it is.
pub(super) enum Reply {
    Operator(OperatorReply, oneshot::Sender<OperatorReply>),
    Desk(DeskReply),
}

/// One that waits.
struct Waiting {
    /// The gates, with the count of what each was told.
    gates: Vec<(GateId, u64)>,
    until: Instant,
    reply: Reply,
}

/// The replies that wait.
#[derive(Default)]
pub(super) struct Cuts(Vec<Waiting>);

impl Cuts {
    /// Replies when these gates have cut what they were told up to now.
    pub(super) fn reply_after(
        &mut self,
        told: impl IntoIterator<Item = GateId>,
        gates: &Gates,
        reply: Reply,
    ) {
        let still = |gate| Some((gate, gates.cutting(gate)?));
        self.0.push(Waiting {
            gates: told.into_iter().filter_map(still).collect(),
            until: Instant::now() + CUT_WITHIN,
            reply,
        });
    }

    /// Sends the replies to operators that nothing holds any more, and gives those to the desk.
    pub(super) fn settle(&mut self, gates: &Gates) -> Vec<DeskReply> {
        let is_done = |one: &mut Waiting| {
            let mut told = one.gates.iter();
            told.all(|(gate, count)| gates.has_cut(*gate, *count))
        };
        let mut to_desk = Vec::new();
        for done in self.0.extract_if(.., is_done) {
            match done.reply {
                Reply::Operator(reply, operator) => {
                    // An operator who went away needs no reply.
                    let _ = operator.send(reply);
                }
                Reply::Desk(reply) => to_desk.push(reply),
            }
        }
        to_desk
    }

    /// The gates that somebody has waited for too long.
    pub(super) fn overdue(&self, gates: &Gates, now: Instant) -> Vec<GateId> {
        let late = self.0.iter().filter(|one| one.until <= now);
        late.flat_map(|one| &one.gates)
            .filter(|(gate, count)| !gates.has_cut(*gate, *count))
            .map(|(gate, _)| *gate)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orders::GateNumber;
    use torno_control_api::channel::{Channel, pair};
    use torno_notary_protocol::gate::NotaryMessage;
    use torno_notary_protocol::transit;
    use torno_policy::names::SessionId;

    const NUMBER: GateNumber = GateNumber(3);

    fn session(last: char) -> SessionId {
        SessionId::parse(&format!("{}{last}", "a".repeat(25))).unwrap()
    }

    /// A gate that was told to cut everything, and its own end.
    async fn told(gates: &mut Gates, last: char) -> (GateId, Channel) {
        let (ours, theirs) = pair().unwrap();
        let ours = Channel::new(ours).unwrap();
        let (gate, theirs) = (
            gates.join(ours, session(last), NUMBER),
            Channel::new(theirs).unwrap(),
        );
        gates.send(gate, &NotaryMessage::Revoke { credential: None }, &[]);
        let packet = theirs.receive().await.unwrap().unwrap();
        let (message, _) = transit::decode_compact::<NotaryMessage>(&packet.bytes).unwrap();
        assert!(matches!(message, NotaryMessage::Revoke { .. }));
        (gate, theirs)
    }

    fn operator() -> (Reply, oneshot::Receiver<OperatorReply>) {
        let (reply, heard) = oneshot::channel();
        (Reply::Operator(OperatorReply::Done, reply), heard)
    }

    #[tokio::test]
    async fn a_reply_waits_for_every_gate_that_was_told_and_for_no_other() {
        // ATTACK: 101
        let (mut gates, _events) = Gates::new();
        let mut cuts = Cuts::default();
        let (first, _first) = told(&mut gates, 'b').await;
        let (second, _second) = told(&mut gates, 'c').await;
        let (reply, mut heard) = operator();
        cuts.reply_after([first, second], &gates, reply);
        let (other, mut at_once) = operator();
        cuts.reply_after([], &gates, other);
        assert!(cuts.settle(&gates).is_empty());
        assert!(at_once.try_recv().is_ok());
        assert!(gates.heard_cut(first));
        cuts.settle(&gates);
        assert!(heard.try_recv().is_err(), "one gate has not cut");
        assert!(gates.heard_cut(second));
        cuts.settle(&gates);
        assert!(heard.try_recv().is_ok());
        assert!(!gates.heard_cut(first), "it was told once");
    }

    #[tokio::test]
    async fn a_gate_that_leaves_or_says_nothing_is_awaited_to_the_end_of_its_process() {
        // ATTACK: 101, 155
        let (mut gates, _events) = Gates::new();
        let mut cuts = Cuts::default();
        let (gate, _gate) = told(&mut gates, 'b').await;
        let (reply, mut heard) = operator();
        cuts.reply_after([gate], &gates, reply);
        let now = Instant::now();
        assert!(cuts.overdue(&gates, now).is_empty());
        assert_eq!(cuts.overdue(&gates, now + CUT_WITHIN), [gate]);
        gates.leave(gate);
        assert_eq!(gates.lost(), [(session('b'), NUMBER)]);
        assert!(gates.lost().is_empty(), "it is told once");
        cuts.settle(&gates);
        assert!(heard.try_recv().is_err(), "its process may live");
        // What is changed now waits for it as well, though nobody could tell it.
        let leaving = gates.leaving(&session('b'));
        assert_eq!(leaving, [gate]);
        let (later, mut heard_later) = operator();
        cuts.reply_after(leaving, &gates, later);
        gates.ended(Some(&session('b')), Some(GateNumber(2)));
        gates.ended(Some(&session('c')), None);
        cuts.settle(&gates);
        assert!(heard.try_recv().is_err() && heard_later.try_recv().is_err());
        gates.ended(Some(&session('b')), Some(NUMBER));
        cuts.settle(&gates);
        assert!(heard.try_recv().is_ok() && heard_later.try_recv().is_ok());
    }
}
