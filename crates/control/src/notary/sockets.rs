// SPDX-License-Identifier: Apache-2.0
//! The notary's sockets: gates, desk, dialer, operators. Each is read by a task of its own that
//! only parses and queues; one loop decides. A gate that does not read its answers is let go.

use crate::orders::GateNumber;
use crate::role_channel::{self, Heard};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use torno_control_api::channel::{Channel, Listener, Peer};
use torno_notary::GateId;
use torno_notary_protocol::gate::{GateMessage, NotaryMessage};
use torno_notary_protocol::operator::{OperatorReply, OperatorRequest};
use torno_notary_protocol::transit::{self, CredentialInTransit};
use torno_policy::decision::Reason;
use torno_policy::names::SessionId;
use zeroize::Zeroizing;

/// LIMIT: messages of all gates that wait; beyond it gates wait in their sockets.
const FROM_GATES_MAX: usize = 1024;
/// LIMIT: frames of one gate among them. A gate that floods waits in its own socket, and a frame of
/// another gate is at most so many of its frames away.
const FROM_ONE_GATE_MAX: usize = 32;
/// LIMIT: frames that wait for one gate to read them.
const TO_GATE_MAX: usize = 256;
/// LIMIT: calls of operators that wait.
const CALLS_MAX: usize = 16;
/// LIMIT: messages of desk or dialer that wait.
const MESSAGES_MAX: usize = 64;

/// What a gate's socket brought.
pub(super) enum FromGate {
    /// A message, and the gate's place in the queue until the message was answered.
    Message(GateId, GateMessage, OwnedSemaphorePermit),
    /// What no honest gate sends; the socket is closed after it.
    Fault(GateId, Reason),
    Left(GateId),
}

/// What became of a frame for a gate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    Queued,
    /// It does not read.
    Full,
    Gone,
}

/// Where frames for one gate wait.
struct Writer {
    session: SessionId,
    number: GateNumber,
    queue: mpsc::Sender<Zeroizing<Vec<u8>>>,
    channel: Arc<Channel>,
    /// How often it was told to cut something, and how often it said that it has.
    revoked: u64,
    cut: u64,
}

/// The gates' sockets.
pub(super) struct Gates {
    writers: BTreeMap<GateId, Writer>,
    /// Those that left, until their process has ended.
    left: BTreeMap<GateId, (SessionId, GateNumber)>,
    /// Those of them whose end nobody was asked for yet.
    lost: Vec<(SessionId, GateNumber)>,
    next: u64,
    events: mpsc::Sender<FromGate>,
}

impl Gates {
    pub(super) fn new() -> (Self, mpsc::Receiver<FromGate>) {
        let (events, receiver) = mpsc::channel(FROM_GATES_MAX);
        (
            Self {
                writers: BTreeMap::new(),
                left: BTreeMap::new(),
                lost: Vec::new(),
                next: 1,
                events,
            },
            receiver,
        )
    }

    /// Takes a gate's socket. Its number is never used again.
    pub(super) fn join(
        &mut self,
        channel: Channel,
        session: SessionId,
        number: GateNumber,
    ) -> GateId {
        let gate = GateId(self.next);
        self.next += 1;
        let channel = Arc::new(channel);
        let (queue, frames) = mpsc::channel(TO_GATE_MAX);
        tokio::spawn(write(Arc::clone(&channel), frames));
        let writer = Writer {
            session,
            number,
            queue,
            channel: Arc::clone(&channel),
            revoked: 0,
            cut: 0,
        };
        self.writers.insert(gate, writer);
        tokio::spawn(read(gate, channel, self.events.clone()));
        gate
    }

    /// Sends one frame.
    pub(super) fn send(
        &mut self,
        gate: GateId,
        message: &NotaryMessage,
        credentials: &[CredentialInTransit],
    ) -> Sent {
        let Ok(frame) = transit::encode_compact(message, credentials) else {
            return Sent::Gone;
        };
        let Some(writer) = self.writers.get_mut(&gate) else {
            return Sent::Gone;
        };
        match writer.queue.try_send(frame) {
            Ok(()) => {
                writer.revoked += u64::from(matches!(message, NotaryMessage::Revoke { .. }));
                Sent::Queued
            }
            Err(mpsc::error::TrySendError::Full(_)) => Sent::Full,
            Err(mpsc::error::TrySendError::Closed(_)) => Sent::Gone,
        }
    }

    /// The gate says that it has cut what it was told to; false when it was told nothing more.
    #[must_use]
    pub(super) fn heard_cut(&mut self, gate: GateId) -> bool {
        let Some(writer) = self.writers.get_mut(&gate) else {
            return true;
        };
        writer.cut += 1;
        writer.cut <= writer.revoked
    }

    /// How often the gate was told to cut something; nothing when it has done all of it, or ended.
    pub(super) fn cutting(&self, gate: GateId) -> Option<u64> {
        match self.writers.get(&gate) {
            Some(writer) => (writer.cut < writer.revoked).then_some(writer.revoked),
            None => self.left.contains_key(&gate).then_some(u64::MAX),
        }
    }

    /// Whether the gate has cut what it was told to at that count, or has ended.
    pub(super) fn has_cut(&self, gate: GateId, count: u64) -> bool {
        match self.writers.get(&gate) {
            Some(writer) => writer.cut >= count,
            None => !self.left.contains_key(&gate),
        }
    }

    /// The session's gates that left and may live: they can't be told anything.
    pub(super) fn leaving(&self, session: &SessionId) -> Vec<GateId> {
        let of_session = self.left.iter().filter(|(_, (of, _))| of == session);
        of_session.map(|(gate, _)| *gate).collect()
    }

    /// Those that left since this was asked: their processes are to be ended.
    pub(super) fn lost(&mut self) -> Vec<(SessionId, GateNumber)> {
        std::mem::take(&mut self.lost)
    }

    /// Processes of gates have ended: of a session or of all, one of them or each.
    pub(super) fn ended(&mut self, session: Option<&SessionId>, number: Option<GateNumber>) {
        self.left.retain(|_, (of, its)| {
            session.is_some_and(|session| session != of)
                || number.is_some_and(|number| number != *its)
        });
    }

    /// Whether the gate has not left. What one sent before it left is nobody's word.
    pub(super) fn holds(&self, gate: GateId) -> bool {
        self.writers.contains_key(&gate)
    }

    /// Closes a gate's socket. At once, whatever waits: a gate that reads nothing would keep its
    /// writer waiting, and its own questions coming.
    pub(super) fn leave(&mut self, gate: GateId) {
        if let Some(writer) = self.writers.remove(&gate) {
            writer.channel.close();
            let name = (writer.session, writer.number);
            self.left.insert(gate, name.clone());
            self.lost.push(name);
        }
    }
}

async fn write(channel: Arc<Channel>, mut queue: mpsc::Receiver<Zeroizing<Vec<u8>>>) {
    while let Some(frame) = queue.recv().await {
        if channel.send(&frame, &[]).await.is_err() {
            return;
        }
    }
}

/// A gate attaches nothing.
fn message(bytes: &[u8]) -> Option<GateMessage> {
    let (message, attached) = transit::decode_compact(bytes).ok()?;
    attached.is_empty().then_some(message)
}

async fn read(gate: GateId, channel: Arc<Channel>, events: mpsc::Sender<FromGate>) {
    let places = Arc::new(Semaphore::new(FROM_ONE_GATE_MAX));
    let end = loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        match role_channel::hear_as(&channel, message).await {
            Heard::Message(message) => {
                let message = FromGate::Message(gate, message, place);
                if events.send(message).await.is_err() {
                    return;
                }
            }
            Heard::Fault(reason) => break FromGate::Fault(gate, reason),
            Heard::Left => break FromGate::Left(gate),
        }
    };
    // The notary's loop ended: nothing is left to tell.
    let _ = events.send(end).await;
}

/// Reads a role of ours to its end. A message of another shape ends the reading, and with it us.
pub(super) fn read_all<M: serde::de::DeserializeOwned + 'static>(
    channel: Rc<Channel>,
) -> mpsc::Receiver<M> {
    let (sender, receiver) = mpsc::channel(MESSAGES_MAX);
    tokio::task::spawn_local(async move {
        while let Ok(Some((message, _))) = crate::role_channel::receive::<M>(&channel).await {
            if sender.send(message).await.is_err() {
                return;
            }
        }
    });
    receiver
}

/// One call of an operator.
pub(super) struct OperatorCall {
    pub(super) request: OperatorRequest,
    pub(super) attachments: Vec<CredentialInTransit>,
    pub(super) reply: oneshot::Sender<OperatorReply>,
}

/// Accepts operators: the daemon's own user, or root. Everybody else is closed at once.
pub(super) fn serve_operators(listener: Listener, owner_uid: u32) -> mpsc::Receiver<OperatorCall> {
    let (calls, receiver) = mpsc::channel(CALLS_MAX);
    tokio::task::spawn_local(async move {
        loop {
            match listener.accept().await {
                Ok((channel, Peer { uid, .. })) if uid == owner_uid || uid == 0 => {
                    tokio::task::spawn_local(serve_operator(channel, calls.clone()));
                }
                Ok((_, peer)) => tracing::warn!("uid {} is no operator", peer.uid),
                Err(error) => {
                    tracing::error!("accept: {error}");
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
            }
        }
    });
    receiver
}

async fn serve_operator(channel: Channel, calls: mpsc::Sender<OperatorCall>) {
    while let Ok(Some(packet)) = channel.receive().await {
        let bytes = Zeroizing::new(packet.bytes);
        let (reply, answer) = oneshot::channel();
        let answer = match transit::decode::<OperatorRequest>(&bytes) {
            Ok((request, attachments)) => {
                let call = OperatorCall {
                    request,
                    attachments,
                    reply,
                };
                if calls.send(call).await.is_err() {
                    return;
                }
                let Ok(answer) = answer.await else { return };
                answer
            }
            Err(error) => OperatorReply::Failed {
                code: "malformed_request".to_owned(),
                message: format!("{error}; run the torno and tornod of one release"),
            },
        };
        let Ok(frame) = transit::encode(&answer, &[]) else {
            return;
        };
        if channel.send(&frame, &[]).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use torno_control_api::channel::pair;

    /// Counted in turns of the greedy gate, not in time.
    #[tokio::test]
    async fn a_gate_that_floods_is_no_more_than_its_places_ahead_of_another() {
        // ATTACK: 163
        let story = async {
            let (mut gates, mut events) = Gates::new();
            let [(greedy, flood), (modest, asker)] = ['b', 'c'].map(|last| {
                let (ours, theirs) = pair().unwrap();
                let session = SessionId::parse(&format!("{}{last}", "a".repeat(25))).unwrap();
                let gate = gates.join(Channel::new(ours).unwrap(), session, GateNumber(1));
                (gate, Channel::new(theirs).unwrap())
            });
            let frame = transit::encode_compact(&GateMessage::Report(Vec::new()), &[]).unwrap();
            let greed = frame.clone();
            tokio::task::spawn_local(async move { while flood.send(&greed, &[]).await.is_ok() {} });
            for _ in 0..100 {
                // Meanwhile the flood fills whatever it can.
                for _ in 0..200 {
                    tokio::task::yield_now().await;
                }
                asker.send(&frame, &[]).await.unwrap();
                let mut ahead = 0;
                while let Some(FromGate::Message(gate, _, place)) = events.recv().await {
                    if gate == modest {
                        break;
                    }
                    assert_eq!(gate, greedy);
                    ahead += 1;
                    drop(place);
                }
                assert!(ahead <= 2 * FROM_ONE_GATE_MAX, "{ahead} of them came first");
            }
        };
        tokio::task::LocalSet::new().run_until(story).await;
    }
}
