// SPDX-License-Identifier: Apache-2.0
//! Messages both ways at once. What the client says is counted, and a placeholder in it stays one,
//! unless a binding puts its credential into a message (`gather.rs`);
//! what the far end says is searched like any answer. How it ends is told to both sides by a close
//! code:
//!
//! ```text
//! client closes ─▶ far end closes ─▶ over     either side breaks the rules ─▶ 1002, 1007
//! far end closes ─▶ client closes ─▶ over     budget spent, secret in a binary message ─▶ 1008
//! silence of both ─▶ 1001                     revocation (from outside) ─▶ 1008, and a reset
//! ```

use super::frame::{Opcode, Sender, Violation, head_bytes};
use super::gather::Gather;
use super::lane::{Lane, Quiet};
use super::message::{Event, Kind, Messages};
use crate::accept::Draw;
use crate::connect::Upstream;
use crate::forward::upload::{CarrySearch, Tally};
use crate::forward::{ClientSide, Stop, Surroundings};
use crate::inject::MessageSlot;
use crate::refuse::Fault;
use crate::report::Received;
use crate::revoke::Live;
use crate::scrub::{BodyScrub, Released, scrub_whole};
use crate::wire::{Source, StreamError};
use std::future::Future;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// LIMIT: how long the second close frame is waited for, once there was a first.
const CLOSE_WAIT: Duration = Duration::from_secs(10);

/// Carries messages until both sides closed, or one can't go on.
pub(super) async fn relay(
    around: &Surroundings<'_>,
    client: ClientSide<'_>,
    upstream: &mut Upstream,
    (tally, message): (Tally<'_>, Option<MessageSlot>),
    received: &mut Received,
) -> Result<(), Stop> {
    let _relaying = around.live.relaying();
    let wait = around.limits.body_wait;
    let quiet = Quiet::new(wait);
    let (mut client_read, mut client_write) = tokio::io::split(client.io);
    let (mut far_read, mut far_write) = tokio::io::split(&mut upstream.io);
    let mut to_client = Lane::new(&mut client_write, None, &quiet);
    let mut to_far = Lane::new(&mut far_write, Some(around.random), &quiet);
    let ended = {
        let from_client = Source {
            io: &mut client_read,
            buffer: client.buffer,
            wait,
        };
        let from_far = Source {
            io: &mut far_read,
            buffer: &mut upstream.buffer,
            wait,
        };
        let gather = message.map(|slot| Gather::new(slot, around.ahead));
        let outbound = outbound((from_client, &quiet), &mut to_far, (tally, gather));
        let inbound = inbound(
            (from_far, &quiet),
            &mut to_client,
            (around.released, received, around.draw),
        );
        both(around.live, outbound, inbound).await
    };
    match ended {
        Ok(()) => {
            to_far.shut().await;
            Ok(())
        }
        Err(ending) => {
            if let Some(code) = ending.to_client {
                to_client.say_goodbye(code, ending.why).await;
            }
            // Before the code goes what waits for the far end, which a revocation forbids.
            if let Some(code) = ending.to_far
                && !around.live.is_cut()
            {
                tokio::select! {
                    biased;
                    () = around.live.until_goodbye() => {}
                    () = to_far.say_goodbye(code, "") => {}
                }
            }
            Err(ending.stop)
        }
    }
}

/// How a WebSocket ends before both sides closed it.
pub(super) struct Ending {
    to_client: Option<u16>,
    to_far: Option<u16>,
    /// Told to the client with the code.
    why: &'static str,
    stop: Stop,
}

/// RFC 6455 §7.4.1.
const GOING_AWAY: u16 = 1001;
const PROTOCOL_ERROR: u16 = 1002;
const NOT_A_TEXT: u16 = 1007;
const POLICY_VIOLATION: u16 = 1008;
const INTERNAL_ERROR: u16 = 1011;

impl Ending {
    fn by_client(violation: Violation) -> Self {
        Self {
            to_client: Some(code(violation)),
            to_far: Some(GOING_AWAY),
            why: "this is no frame of RFC 6455",
            stop: Stop::from(Fault::malformed(
                "send WebSocket frames as RFC 6455 says: masked, no reserved bits, texts in UTF-8",
            )),
        }
    }

    fn by_far_end(violation: Violation) -> Self {
        Self {
            to_client: Some(INTERNAL_ERROR),
            to_far: Some(code(violation)),
            why: "the far end broke the WebSocket protocol",
            stop: Stop::from(Fault::answer("the far end broke the WebSocket protocol")),
        }
    }

    /// ATTACK: 105 – in a binary message or a control frame nothing can stand in a secret's place.
    fn secret() -> Self {
        Self {
            to_client: Some(POLICY_VIOLATION),
            to_far: Some(POLICY_VIOLATION),
            why: "the far end sent a secret where it can't be replaced",
            stop: Stop::from(Fault::answer(
                "the far end sent a secret in a binary WebSocket message or a control frame",
            )),
        }
    }

    fn refused(stop: Stop) -> Self {
        Self {
            to_client: Some(POLICY_VIOLATION),
            to_far: Some(GOING_AWAY),
            why: "the session may send nothing more",
            stop,
        }
    }

    /// What a slot in the messages does not let pass.
    pub(super) fn not_said(fault: Fault) -> Self {
        Self {
            to_client: Some(POLICY_VIOLATION),
            to_far: Some(GOING_AWAY),
            why: fault.hint,
            stop: fault.into(),
        }
    }

    /// ATTACK: 101 – the far end gets no further byte, and both sides a reset.
    fn revoked() -> Self {
        Self {
            to_client: Some(POLICY_VIOLATION),
            to_far: None,
            why: "the credential or the session was revoked",
            stop: Stop::ClientGone,
        }
    }

    fn broken(error: StreamError, gone: Stop) -> Self {
        match error {
            StreamError::Gone => Self {
                to_client: None,
                to_far: None,
                why: "",
                stop: gone,
            },
            StreamError::Late => Self {
                to_client: Some(GOING_AWAY),
                to_far: Some(GOING_AWAY),
                why: "nothing came for too long",
                stop: Stop::Gone,
            },
            StreamError::Fault(fault) => Self::refused(fault.into()),
        }
    }

    fn is_gone(&self) -> bool {
        matches!(self.stop, Stop::Gone | Stop::ClientGone)
    }
}

impl From<Fault> for Ending {
    fn from(fault: Fault) -> Self {
        Self::refused(fault.into())
    }
}

fn code(violation: Violation) -> u16 {
    match violation {
        Violation::Protocol => PROTOCOL_ERROR,
        Violation::Text => NOT_A_TEXT,
    }
}

/// Runs both directions. A revocation comes first; after one close frame the other is waited for.
async fn both(
    live: &Live,
    outbound: impl Future<Output = Result<(), Ending>>,
    inbound: impl Future<Output = Result<(), Ending>>,
) -> Result<(), Ending> {
    let closing = sleep(CLOSE_WAIT);
    tokio::pin!(outbound, inbound, closing);
    let (mut is_sent, mut is_received) = (false, false);
    loop {
        let is_closing = is_sent || is_received;
        let ended = tokio::select! {
            biased;
            () = live.until_goodbye() => return Err(Ending::revoked()),
            () = &mut closing, if is_closing => return Ok(()),
            ended = &mut outbound, if !is_sent => {
                is_sent = true;
                ended
            }
            ended = &mut inbound, if !is_received => {
                is_received = true;
                ended
            }
        };
        match ended {
            // Who has closed may go without a word.
            Err(ending) if !(is_closing && ending.is_gone()) => return Err(ending),
            Ok(()) if !is_closing => closing.as_mut().reset(Instant::now() + CLOSE_WAIT),
            Ok(()) | Err(_) => return Ok(()),
        }
    }
}

/// From the client to the far end. ATTACK: 063 – a placeholder in a frame is never replaced, but in
/// the one place of a message that a binding names.
async fn outbound(
    (mut from, quiet): (Source<'_>, &Quiet),
    to: &mut Lane<'_>,
    (mut tally, mut gather): (Tally<'_>, Option<Gather>),
) -> Result<(), Ending> {
    let broken = |error| Ending::broken(error, Stop::Gone);
    let mut messages = Messages::new(Sender::Client);
    let mut data = Vec::new();
    loop {
        let read = messages.next(from.buffer.unread(), &mut data);
        let (count, event) = read.map_err(Ending::by_client)?;
        from.buffer.consume(count);
        let Some(event) = event else {
            to.flush().await.map_err(broken)?;
            let more = quiet.more(&mut from).await;
            more.map_err(|error| Ending::broken(error, Stop::ClientGone))?;
            continue;
        };
        let how = match event {
            Event::Piece { kind, is_last } => {
                if let Some(gather) = &mut gather
                    && gather.takes(kind)?
                {
                    if let Some(message) = gather.take(is_last, &data).await? {
                        tally.count(&message).map_err(Ending::refused)?;
                        tally.search = CarrySearch::default();
                        tally.draw.send(head_bytes(&message, true))?;
                        to.send_text(&message).await.map_err(broken)?;
                    }
                    continue;
                }
                tally.count(&data).map_err(Ending::refused)?;
                if is_last {
                    tally.search = CarrySearch::default();
                }
                to.framer.next((kind, is_last), &data)
            }
            Event::Beat(_) | Event::Close => {
                // Beside the message that it may stand in.
                let of_message = std::mem::take(&mut tally.search);
                tally.count(&data).map_err(Ending::refused)?;
                tally.search = of_message;
                Some((control(event), true))
            }
        };
        if let Some(how) = how {
            tally.draw.send(head_bytes(&data, true))?;
            to.push(how, &data)?;
        }
        if to.is_full() || event == Event::Close {
            to.flush().await.map_err(broken)?;
        }
        if event == Event::Close {
            return Ok(());
        }
    }
}

/// From the far end to the client.
async fn inbound(
    (mut from, quiet): (Source<'_>, &Quiet),
    to: &mut Lane<'_>,
    (released, received, draw): (&Released, &mut Received, &Draw),
) -> Result<(), Ending> {
    let broken = |error| Ending::broken(error, Stop::ClientGone);
    let mut messages = Messages::new(Sender::Server);
    let mut search = Search {
        released,
        message: None,
        clean: Vec::new(),
    };
    let mut data = Vec::new();
    loop {
        let read = messages.next(from.buffer.unread(), &mut data);
        let (count, event) = read.map_err(Ending::by_far_end)?;
        from.buffer.consume(count);
        let Some(event) = event else {
            to.flush().await.map_err(broken)?;
            let more = quiet.more(&mut from).await;
            more.map_err(|error| Ending::broken(error, Stop::Gone))?;
            continue;
        };
        let came = draw.receive(head_bytes(&data, false) + data.len());
        came.map_err(Ending::not_said)?;
        let (hits, may_pass) = search.take(event, &data);
        received.reflected = received.reflected.saturating_add(hits);
        if !may_pass {
            return Err(Ending::secret());
        }
        let clean = search.clean.as_slice();
        received.bytes += u64::try_from(clean.len()).unwrap_or(0);
        let how = match event {
            Event::Piece { kind, is_last } => to.framer.next((kind, is_last), clean),
            Event::Beat(_) | Event::Close => Some((control(event), true)),
        };
        if let Some(how) = how {
            to.push(how, clean)?;
        }
        if to.is_full() || event == Event::Close {
            to.flush().await.map_err(broken)?;
        }
        if event == Event::Close {
            return Ok(());
        }
    }
}

fn control(event: Event) -> Opcode {
    match event {
        Event::Beat(opcode) => opcode,
        Event::Close | Event::Piece { .. } => Opcode::Close,
    }
}

/// The search over what the far end says, message by message.
struct Search<'a> {
    released: &'a Released,
    message: Option<BodyScrub<'a>>,
    /// What may go on of the last event.
    clean: Vec<u8>,
}

impl Search<'_> {
    /// Gives the number of finds, and whether what is left may pass.
    fn take(&mut self, event: Event, data: &[u8]) -> (u32, bool) {
        self.clean.clear();
        let (kind, is_last) = match event {
            Event::Piece { kind, is_last } => (kind, is_last),
            Event::Beat(_) | Event::Close => {
                let hits = scrub_whole(self.released.scrubber().as_ref(), data, &mut self.clean);
                if event == Event::Close && hits > 0 {
                    // The code alone; a close frame's reason is for people.
                    self.clean.clear();
                    self.clean
                        .extend_from_slice(data.get(..2).unwrap_or_default());
                }
                return (hits, hits == 0 || event == Event::Close);
            }
        };
        let released = self.released;
        let message = self.message.get_or_insert_with(|| BodyScrub::new(released));
        let before = message.hits();
        message.push(data, &mut self.clean);
        if is_last {
            message.finish(&mut self.clean);
        }
        let hits = message.hits().saturating_sub(before);
        if is_last {
            self.message = None;
        }
        (hits, hits == 0 || kind == Kind::Text)
    }
}
