// SPDX-License-Identifier: Apache-2.0
//! The gate's end towards the notary: questions leave in batches, answers find their asker.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{mpsc, oneshot};
use torno_control_api::channel::Channel;
use torno_egress::{Answered, Ask, AtHand, Granted, Unlocked};
use torno_notary_protocol::gate::{
    Answer, Answered as AnsweredTicket, End, NotaryMessage, Outcome, Question, Released, Ticket,
    WireRefusal,
};
use torno_notary_protocol::receipt::Receipt;
use torno_notary_protocol::transit::{self, CredentialInTransit};
use torno_policy::decision::{Layer, Reason, Refusal};
use torno_policy::facts::RequestFacts;
use torno_policy::names::{CredentialName, RecordSeq, RuleName};

/// LIMIT: questions in one packet; a larger burst makes several.
const BATCH_MAX: usize = 32;
/// LIMIT: messages that wait for the notary; beyond it askers wait.
const QUEUE_MAX: usize = 1024;

mod packets;

type Reply<T> = oneshot::Sender<Result<T, Refusal>>;

/// Who waits for what.
#[derive(Default)]
struct Waiting {
    answers: BTreeMap<Ticket, Reply<Answered>>,
    unlocks: BTreeMap<Ticket, Reply<Unlocked>>,
    minted: BTreeMap<Ticket, Reply<Vec<String>>>,
    gone: bool,
}

/// What leaves, in order.
enum Outgoing {
    Question(Box<Question>),
    Unlock(Ticket, Receipt),
    Mint(Ticket, RecordSeq, u32),
    Cut,
    Outcome(Box<Outcome>),
    Refused(Box<WireRefusal>),
}

/// The port.
pub(super) struct NotaryPort {
    outgoing: mpsc::Sender<Outgoing>,
    waiting: Arc<Mutex<Waiting>>,
    next: AtomicU64,
    refusals: mpsc::UnboundedSender<(String, Refusal)>,
}

/// What the notary says unasked: what was revoked.
pub(super) type Revocations = mpsc::UnboundedReceiver<Option<CredentialName>>;

impl NotaryPort {
    /// Takes the channel. Every refusal is also told to `refusals`, for the desk's summary. When
    /// the notary is gone the revocations end.
    pub(super) fn new(
        channel: Channel,
        refusals: mpsc::UnboundedSender<(String, Refusal)>,
    ) -> (Arc<Self>, Revocations) {
        let channel = Arc::new(channel);
        let (outgoing, queue) = mpsc::channel(QUEUE_MAX);
        let (revoke, revocations) = mpsc::unbounded_channel();
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let asking = Arc::clone(&waiting);
        tokio::spawn(write(Arc::clone(&channel), queue, asking));
        tokio::spawn(read(channel, Arc::clone(&waiting), revoke));
        let port = Self {
            outgoing,
            waiting,
            next: AtomicU64::new(1),
            refusals,
        };
        (Arc::new(port), revocations)
    }

    /// What was revoked is cut.
    pub(super) fn tell_cut(&self) {
        self.send_later(Outgoing::Cut);
    }

    fn ticket(&self) -> Ticket {
        Ticket(self.next.fetch_add(1, Ordering::Relaxed))
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }

    async fn send(&self, message: Outgoing) -> Result<(), Refusal> {
        self.outgoing.send(message).await.map_err(|_| gone())
    }

    /// Sends what is not answered; when the queue is full the sender's turn comes later.
    fn send_later(&self, message: Outgoing) {
        if let Err(mpsc::error::TrySendError::Full(message)) = self.outgoing.try_send(message) {
            let outgoing = self.outgoing.clone();
            // A queue that closed meanwhile means that this gate is about to end.
            tokio::spawn(async move { outgoing.send(message).await.ok() });
        }
    }

    fn note_refused(&self, target: String, refusal: &Refusal) {
        // The receiver lives as long as the gate.
        let _ = self.refusals.send((target, refusal.clone()));
    }
}

/// The table is consistent after every statement, so a poisoned lock is still good.
fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl Ask for NotaryPort {
    fn ask<'a>(
        &'a self,
        facts: &'a RequestFacts,
        at_hand: AtHand,
    ) -> Pending<'a, Result<Answered, Refusal>> {
        Box::pin(async move {
            let ticket = self.ticket();
            let (reply, answer) = oneshot::channel();
            {
                let mut waiting = self.waiting();
                if waiting.gone {
                    return Err(gone());
                }
                waiting.answers.insert(ticket, reply);
            }
            let question = Question {
                ticket,
                facts: facts.clone(),
                pooled: at_hand.pooled,
                serves: at_hand.serves,
                watch: at_hand.watch,
            };
            self.send(Outgoing::Question(Box::new(question))).await?;
            let answer = answer.await.map_err(|_| gone())?;
            if let Err(refusal) = &answer {
                self.note_refused(format!("{} {}", facts.method, facts.endpoint), refusal);
            }
            answer
        })
    }

    fn unlock<'a>(&'a self, receipt: &'a Receipt) -> Pending<'a, Result<Unlocked, Refusal>> {
        Box::pin(async move {
            let ticket = self.ticket();
            let (reply, unlocked) = oneshot::channel();
            {
                let mut waiting = self.waiting();
                if waiting.gone {
                    return Err(gone());
                }
                waiting.unlocks.insert(ticket, reply);
            }
            self.send(Outgoing::Unlock(ticket, receipt.clone())).await?;
            unlocked.await.map_err(|_| gone())?
        })
    }

    fn mint(&self, record: RecordSeq, count: u32) -> Pending<'_, Result<Vec<String>, Refusal>> {
        Box::pin(async move {
            let ticket = self.ticket();
            let (reply, minted) = oneshot::channel();
            {
                let mut waiting = self.waiting();
                if waiting.gone {
                    return Err(gone());
                }
                waiting.minted.insert(ticket, reply);
            }
            self.send(Outgoing::Mint(ticket, record, count)).await?;
            minted.await.map_err(|_| gone())?
        })
    }

    fn report(&self, outcome: Outcome) {
        // Found in a body, after the answer that said yes: people are told of it all the same.
        if let End::Refused(refusal) = &outcome.end
            && refusal.reason == Reason::Tripwire
        {
            self.note_refused(format!("the body of record {}", outcome.record), refusal);
        }
        self.send_later(Outgoing::Outcome(Box::new(outcome)));
    }

    fn refused(&self, refusal: WireRefusal) {
        self.note_refused(refusal.target.clone(), &refusal.refusal);
        self.send_later(Outgoing::Refused(Box::new(refusal)));
    }
}

/// Sends what waits, in as few packets as there are kinds of it. A question that no packet holds is
/// refused, and no one else's.
async fn write(
    channel: Arc<Channel>,
    mut queue: mpsc::Receiver<Outgoing>,
    waiting: Arc<Mutex<Waiting>>,
) {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while queue.recv_many(&mut batch, BATCH_MAX).await > 0 {
        for message in packets::packets(batch.drain(..)) {
            let Some(packed) = packets::packed(message) else {
                return channel.close();
            };
            for ticket in packed.too_large {
                if let Some(reply) = lock(&waiting).answers.remove(&ticket) {
                    let _ = reply.send(Err(too_large()));
                }
            }
            for frame in packed.frames {
                if channel.send(&frame, &[]).await.is_err() {
                    // The reader sees the same end and wakes everybody who waits.
                    return;
                }
            }
        }
    }
}

/// Hands answers to who waits for them, until the notary is gone.
async fn read(
    channel: Arc<Channel>,
    waiting: Arc<Mutex<Waiting>>,
    revoke: mpsc::UnboundedSender<Option<CredentialName>>,
) {
    while let Ok(Some(packet)) = channel.receive().await {
        let bytes = zeroize::Zeroizing::new(packet.bytes);
        let Ok((message, attached)) = transit::decode_compact::<NotaryMessage>(&bytes) else {
            break;
        };
        match message {
            NotaryMessage::Answers(answers) => hand_out(&waiting, answers, attached),
            NotaryMessage::Unlocked { ticket, released } => {
                let reply = lock(&waiting).unlocks.remove(&ticket);
                if let (Some(reply), Some(unlocked)) = (reply, take(released, attached)) {
                    // Who no longer waits has no use for it; it is dropped and zeroized.
                    let _ = reply.send(Ok(unlocked));
                }
            }
            NotaryMessage::UnlockRefused { ticket, refusal } => {
                if let Some(reply) = lock(&waiting).unlocks.remove(&ticket) {
                    let _ = reply.send(Err(refusal));
                }
            }
            NotaryMessage::Minted {
                ticket,
                placeholders,
            } => {
                if let Some(reply) = lock(&waiting).minted.remove(&ticket) {
                    let _ = reply.send(Ok(placeholders));
                }
            }
            NotaryMessage::MintRefused { ticket, refusal } => {
                if let Some(reply) = lock(&waiting).minted.remove(&ticket) {
                    let _ = reply.send(Err(refusal));
                }
            }
            NotaryMessage::Revoke { credential } => {
                let _ = revoke.send(credential);
            }
        }
    }
    let mut waiting = lock(&waiting);
    waiting.gone = true;
    // Dropped senders wake everybody with "gone".
    waiting.answers.clear();
    waiting.unlocks.clear();
    waiting.minted.clear();
}

/// The attachments as the message names them; nothing when they don't add up.
fn take(released: Released, mut attached: Vec<CredentialInTransit>) -> Option<Unlocked> {
    let injected = if released.injects {
        Some(attached.pop()?)
    } else {
        None
    };
    (attached.len() == released.watched.len()).then(|| Unlocked {
        watched: released.watched.into_iter().zip(attached).collect(),
        injected,
        watch: released.watch,
    })
}

fn hand_out(
    waiting: &Mutex<Waiting>,
    answers: Vec<AnsweredTicket>,
    attached: Vec<CredentialInTransit>,
) {
    let mut attached: Vec<_> = attached.into_iter().map(Some).collect();
    for AnsweredTicket {
        ticket,
        answer,
        credential,
    } in answers
    {
        let credential = credential
            .and_then(|at| attached.get_mut(at))
            .and_then(Option::take);
        let Some(reply) = lock(waiting).answers.remove(&ticket) else {
            continue;
        };
        let answer = match answer {
            Answer::Allowed(allowed) => Ok(Answered::Granted(Granted {
                allowed,
                credential,
            })),
            Answer::Read(unread) => Ok(Answered::Read(unread)),
            Answer::Refused(refusal) => Err(refusal),
        };
        // Who no longer waits has gone away with its client.
        let _ = reply.send(answer);
    }
}

fn too_large() -> Refusal {
    Refusal {
        reason: Reason::TooLarge,
        layer: Layer::Wire,
        rule: RuleName::new("egress.ask"),
        hint: "send fewer and shorter fields, references or names in one request".to_owned(),
    }
}

fn gone() -> Refusal {
    Refusal {
        reason: Reason::RoleUnavailable,
        layer: Layer::Record,
        rule: RuleName::new("notary"),
        hint: "the daemon is ending; start the session anew".to_owned(),
    }
}
