// SPDX-License-Identifier: Apache-2.0
//! Phase 9: sends the request and streams its answer back, both ways at once and neither held
//! whole. Framing of both sides is ours: what arrives is read, checked and written anew.

pub(crate) mod answer;
pub(crate) mod body;
mod charset;
mod download;
mod messages;
mod minting;
mod upload;
pub(crate) mod websocket;

pub(crate) use minting::minted_places;
pub(crate) use upload::Upload;

use crate::accept::{Draw, Limits};
use crate::connect::Upstream;
use crate::cookies::Place;
use crate::inject::{Injected, OutgoingHead, unix_seconds};
use crate::normalize::{Request, Tripwires};
use crate::ports::{Ask, Clock};
use crate::refuse::Fault;
use crate::report::Reporter;
use crate::revoke::Live;
use crate::scrub::{Refreshing, Released};
use crate::wire::{self, Duplex, ReadBuffer, Source, StreamError, Writer};
use answer::{Answer, AnswerTo};
use body::Body;
use download::Download;
use minting::Minting;
use rustls::crypto::SecureRandom;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;
use torno_notary_protocol::gate::Keeping;
use torno_policy::names::RecordSeq;
use torno_policy::{Reason, Refusal};
use upload::{CarrySearch, Tally};

/// Why an exchange stops before its end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It is refused; the client can be told as long as no byte of an answer went to it.
    Refuse(Refusal),
    /// The far end went away, or its answer can't be finished.
    Gone,
    /// The client went away.
    ClientGone,
    /// A connection that had been waiting turned out to be closed, before any answer.
    Stale,
    /// A new connection took so long that what it was made for has to be asked about again.
    Aged,
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Refuse(fault.refusal())
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refuse(refusal)
    }
}

/// A completed exchange.
pub(crate) struct Forwarded {
    pub(crate) status: u16,
    /// Another request may follow on the client's connection.
    pub(crate) keep_client: bool,
    /// Another request may use the far end's connection.
    pub(crate) keep_upstream: bool,
}

/// The client's side of an exchange.
pub(crate) struct ClientSide<'a> {
    pub(crate) io: &'a mut Box<dyn Duplex>,
    pub(crate) buffer: &'a mut ReadBuffer,
}

/// What every exchange of a session shares.
pub(crate) struct Surroundings<'a> {
    pub(crate) limits: &'a Limits,
    /// What it draws on.
    pub(crate) draw: &'a Draw,
    pub(crate) released: &'a Released,
    /// The client's connection, as a revocation sees it.
    pub(crate) live: &'a Live,
    /// For the masks of WebSocket frames.
    pub(crate) random: &'static dyn SecureRandom,
    pub(crate) tripwires: &'a Tripwires,
    /// Bodies of this exchange may quote tripwires.
    pub(crate) transcripts: bool,
    /// For how long cookies last.
    pub(crate) clock: &'a dyn Clock,
    /// How many bodies and messages may be held whole.
    pub(crate) ahead: &'a Arc<Semaphore>,
}

/// Sends head and body, and brings the answer back.
pub(crate) async fn forward(
    around: &Surroundings<'_>,
    client: ClientSide<'_>,
    upstream: &mut Upstream,
    (request, injected, mut upload): (&Request, Injected, Upload),
    reporter: &mut Reporter,
) -> Result<Forwarded, Stop> {
    // To a pipe the head goes on its own, so a body behind it would gain nothing.
    if upstream.heads.is_none() {
        upload.take_small(client.buffer);
    }
    let mut tally = Tally {
        draw: around.draw,
        sent: &mut reporter.sent,
        search: CarrySearch::default(),
        tripwires: around.tripwires.of_body(around.transcripts),
    };
    let Injected {
        head,
        message,
        keeping,
    } = injected;
    let wait = around.limits.body_wait;
    send_head(upstream, head, &mut upload, &mut tally, wait).await?;
    let download = Download {
        released: around.released,
        is_bound: around.released.was_sent_to(&request.facts.endpoint),
        is_http10: request.is_http10,
        keep_alive: request.keep_alive,
        received: &mut reporter.received,
        draw: around.draw,
        wait: around.limits.body_wait,
        keeping: keeping.as_ref().map(|keeping| Place {
            keeping,
            endpoint: &request.facts.endpoint,
            path: request.facts.path.path(),
            now: unix_seconds(around.clock.now()),
        }),
        minting: minting(
            (upstream, request),
            (reporter.ask.as_ref(), reporter.record),
            keeping.as_ref(),
        ),
    };
    if upload.is_over() {
        let answer = read_answer(around, (upstream, request)).await?;
        match &request.websocket {
            Some(offer) if answer.status == websocket::SWITCHED => {
                let sides = ((tally, message), download);
                websocket::open(around, client, upstream, (offer, &answer), sides).await
            }
            // ATTACK: 060 – what the client sent meanwhile is its next request, or nothing.
            Some(_) | None => send_answer(around, client, upstream, (answer, download)).await,
        }
    } else {
        let body = (&mut upload, tally);
        at_once(around, client, (upstream, request), body, download).await
    }
}

/// An answer is looked at for what it mints where a credential's authority went out and something
/// may be made, and always where the binding says that tokens are.
fn minting<'a>(
    (upstream, request): (&Upstream, &'a Request),
    (ask, record): (&'a dyn Ask, RecordSeq),
    keeping: Option<&'a Keeping>,
) -> Option<Minting<'a>> {
    let endpoint = &request.facts.endpoint;
    let keeping = keeping.filter(|keeping| keeping.tokens);
    let declared = keeping.map(|keeping| Refreshing {
        binding: &keeping.binding,
        endpoint,
        path: request.facts.path.path(),
    });
    let may_make = upstream.credential.is_some() && !request.is_safe();
    (may_make || declared.is_some()).then_some(Minting {
        ask,
        record,
        endpoint,
        declared,
    })
}

/// Writes the head, with a small body behind it in one write. The head is gone afterwards.
async fn send_head(
    upstream: &mut Upstream,
    head: OutgoingHead,
    upload: &mut Upload,
    tally: &mut Tally<'_>,
    wait: Duration,
) -> Result<(), Stop> {
    tally.draw.send(head.bytes().len())?;
    if let Some(heads) = &upstream.heads {
        let sent = heads.send(head).await;
        return sent
            .then_some(())
            .ok_or_else(|| unanswered(upstream.is_reused));
    }
    let is_small = matches!(upload.body, Body::Length(0)) && !upload.ahead.is_empty();
    let written = if is_small {
        let small = std::mem::take(&mut upload.ahead);
        tally.count(&small)?;
        let size = head.bytes().len() + small.len();
        let mut both = zeroize::Zeroizing::new(Vec::with_capacity(size));
        both.extend_from_slice(head.bytes());
        both.extend_from_slice(&small);
        let written = wire::write_out(&mut upstream.io, &both, wait).await;
        upload.room = None;
        written
    } else {
        wire::write_out(&mut upstream.io, head.bytes(), wait).await
    };
    drop(head);
    written.map_err(|error| upload::not_taken(error, unanswered(upstream.is_reused)))
}

/// Nothing is left to send: reads the answer's head.
async fn read_answer(
    around: &Surroundings<'_>,
    (upstream, request): (&mut Upstream, &Request),
) -> Result<Answer, Stop> {
    let mut source = Source {
        io: &mut upstream.io,
        buffer: &mut upstream.buffer,
        wait: around.limits.answer_wait,
    };
    let answer = answer::read(&mut source, AnswerTo::from(request)).await;
    answer.map_err(|error| no_answer(error, upstream.is_reused))
}

async fn send_answer(
    around: &Surroundings<'_>,
    client: ClientSide<'_>,
    upstream: &mut Upstream,
    (mut answer, download): (Answer, Download<'_>),
) -> Result<Forwarded, Stop> {
    let mut source = Source {
        io: &mut upstream.io,
        buffer: &mut upstream.buffer,
        wait: around.limits.body_wait,
    };
    let keep_client = download.send(&mut answer, &mut source, client.io).await?;
    Ok(Forwarded {
        status: answer.status,
        keep_client,
        keep_upstream: answer.keep_alive && source.buffer.unread().is_empty(),
    })
}

/// The body goes out while the answer may come already. When the answer is complete first, both
/// connections end with it: the rest of the body is nobody's.
async fn at_once(
    around: &Surroundings<'_>,
    client: ClientSide<'_>,
    (upstream, request): (&mut Upstream, &Request),
    (upload, mut tally): (&mut Upload, Tally<'_>),
    download: Download<'_>,
) -> Result<Forwarded, Stop> {
    let (mut client_read, mut client_write) = tokio::io::split(client.io);
    let (mut upstream_read, mut upstream_write) = tokio::io::split(&mut upstream.io);
    if request.expects_continue && client.buffer.unread().is_empty() {
        go_on(&mut client_write).await?;
    }
    let mut from_client = Source {
        io: &mut client_read,
        buffer: client.buffer,
        wait: around.limits.body_wait,
    };
    let mut from_upstream = Source {
        io: &mut upstream_read,
        buffer: &mut upstream.buffer,
        wait: around.limits.answer_wait,
    };
    let is_sent = AtomicBool::new(false);
    let sending = upload::send(upload, &mut from_client, &mut upstream_write, &mut tally);
    let answering = async {
        let mut answer = loop {
            match answer::read(&mut from_upstream, AnswerTo::from(request)).await {
                // The answer's time starts when the request is whole; the body has its own limit.
                Err(StreamError::Late) if !is_sent.load(Ordering::Relaxed) => {}
                read => break read.map_err(|error| no_answer(error, false))?,
            }
        };
        from_upstream.wait = around.limits.body_wait;
        let send = download.send(&mut answer, &mut from_upstream, &mut client_write);
        let keep = send.await?;
        let is_quiet = from_upstream.buffer.unread().is_empty();
        Ok::<_, Stop>((answer, keep, is_quiet))
    };
    tokio::pin!(sending, answering);
    let mut is_whole = false;
    let (answer, keep_client, is_quiet) = loop {
        tokio::select! {
            biased;
            sent = &mut sending, if !is_sent.load(Ordering::Relaxed) => {
                is_sent.store(true, Ordering::Relaxed);
                match sent {
                    Ok(()) => is_whole = true,
                    // The far end stopped reading: it may have said why.
                    Err(Stop::Gone) => {}
                    Err(stop) => return Err(stop),
                }
            }
            answered = &mut answering => break answered?,
        }
    };
    Ok(Forwarded {
        status: answer.status,
        keep_client: keep_client && is_whole,
        keep_upstream: is_whole && answer.keep_alive && is_quiet,
    })
}

/// Tells a waiting client to send its body.
pub(crate) async fn go_on(to: &mut Writer<'_>) -> Result<(), Stop> {
    let told = to.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await;
    told.map_err(|_| Stop::ClientGone)?;
    to.flush().await.map_err(|_| Stop::ClientGone)
}

fn unanswered(is_reused: bool) -> Stop {
    if is_reused {
        Stop::Stale
    } else {
        Stop::from(lost())
    }
}

/// The far end went away before it answered.
pub(crate) fn lost() -> Fault {
    Fault::new(
        Reason::ConnectFailed,
        "the far end closed the connection before it answered: try again",
    )
}

fn no_answer(error: StreamError, is_reused: bool) -> Stop {
    match error {
        StreamError::Gone => unanswered(is_reused),
        other => other
            .into_fault(Reason::ConnectFailed, Reason::UpstreamTimeout)
            .into(),
    }
}
