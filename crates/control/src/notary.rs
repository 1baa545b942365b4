// SPDX-License-Identifier: Apache-2.0
//! The notary's role: its sockets around `torno-notary`. Everything that all gates sent since the
//! last turn is one batch. While the record is flushed for one, the next is judged and written.

mod cuts;
mod opening;
mod sockets;

use crate::confine;
use crate::dialer::boot_ms;
use crate::orders::{FromSupervisor, Order, Start};
use crate::role_channel::{self, exactly, receive};
use crate::roles::Role;
use anyhow::{Context, bail};
use cuts::{Cuts, Reply};
use sockets::{FromGate, Gates, OperatorCall, Sent};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;
use torno_audit::Flushed;
use torno_control_api::channel::{Channel, Listener};
use torno_notary::{Effect, GateId, Notary, Now, ToGate};
use torno_notary_protocol::desk::DeskMessage;
use torno_notary_protocol::dial::DialAlarm;
use torno_notary_protocol::gate::{GateMessage, NotaryMessage};
use torno_policy::decision::Reason;
use torno_policy::names::SessionId;

/// LIMIT: messages of gates in one batch; the rest is the next.
const BATCH_MAX: usize = 256;
/// LIMIT: releases that this thread flushes the record for itself; see [`flush`].
const FLUSHED_HERE_MAX: usize = 2;
/// Half of the promise that a written record is on disk within 100 ms.
const TICK: Duration = Duration::from_millis(50);
/// After a failed tick: nothing is written any more, and the log needs no twenty lines a second.
const FAILED_TICK: Duration = Duration::from_secs(5);

/// Runs the role until the supervisor's, the desk's or the dialer's channel closes.
pub(crate) async fn run(supervisor: Channel) -> anyhow::Result<()> {
    let (start, descriptors) = receive(&supervisor).await?.context("no start")?;
    let FromSupervisor::Start(start) = start else {
        bail!("no start")
    };
    let [operators, desk, dialer, _alive] = exactly(descriptors)?;
    let mut notary = open_confined(&start)?;
    let owner_uid = start.owner_uid;
    let (desk, dialer) = (Rc::new(Channel::new(desk)?), Rc::new(Channel::new(dialer)?));
    let (mut gates, mut from_gates) = Gates::new();
    let mut calls = sockets::serve_operators(Listener::new(operators)?, owner_uid);
    let mut from_desk = sockets::read_all::<DeskMessage>(Rc::clone(&desk));
    let mut alarms = sockets::read_all::<DialAlarm>(dialer);
    let mut flushing: Option<Flushing> = None;
    let mut judged = Vec::new();
    let mut tick = tokio::time::interval(TICK);
    let mut batch = Vec::with_capacity(BATCH_MAX);
    let mut cuts = Cuts::default();
    loop {
        for (session, number) in gates.lost() {
            let order = Order::EndLostGate { session, number };
            supervisor.send(&order.encode(), &[]).await?;
        }
        for reply in cuts.settle(&gates) {
            role_channel::send(&desk, &reply, &[]).await?;
        }
        tokio::select! {
            biased;
            message = receive::<FromSupervisor>(&supervisor) => match message? {
                Some((message, given)) => heed(&mut notary, &mut gates, message, given)?,
                None => return close(notary),
            },
            message = from_desk.recv() => {
                let Some(message) = message else { return close(notary) };
                answer_desk(&mut notary, &mut gates, &mut cuts, message);
            }
            alarm = alarms.recv() => {
                let Some(alarm) = alarm else { return close(notary) };
                notary.dial_alarm(alarm, now());
            }
            Some(call) = calls.recv() => answer_operator(&mut notary, &mut gates, &mut cuts, call),
            // A record that can't be written refuses everything from then on; kills still count:
            // the role stays, so that one full disk does not end everybody's sessions.
            _ = tick.tick() => {
                let_go_overdue(&mut notary, &mut gates, &cuts);
                if let Err(error) = notary.tick(now()) {
                    tracing::error!("the record: {error:#}");
                    tick.reset_after(FAILED_TICK);
                }
            }
            flushed = returned(&mut flushing) => {
                let frames = notary.flushed(flushed?);
                send_all(&mut notary, &mut gates, frames);
            }
            _count = from_gates.recv_many(&mut batch, BATCH_MAX), if !notary.is_full() => {
                judged.extend(answer_gates(&mut notary, &mut gates, batch.drain(..)));
            }
        }
        if flushing.is_none() {
            flushing = flush(&mut notary, &mut gates, &mut judged);
        }
    }
}

fn open_confined(start: &Start) -> anyhow::Result<Notary> {
    torno_vault::harden_process().context("hardening")?;
    let own = confine::directory(&start.directory)?;
    let config = opening::config(start)?;
    // Before the store's thread exists, so that it is confined as well.
    confine::role(
        Role::Notary,
        &[confine::Reach {
            place: own.as_fd(),
            write: true,
        }],
    )?;
    Ok(Notary::open(config, now())?)
}

/// A flush that is under way, and the places of the messages whose answers wait for it.
struct Flushing {
    running: JoinHandle<Flushed>,
    _places: Vec<OwnedSemaphorePermit>,
}

/// The end of the flush that is under way; without one it never comes.
async fn returned(flushing: &mut Option<Flushing>) -> anyhow::Result<Flushed> {
    let Some(Flushing { running, .. }) = flushing else {
        return std::future::pending().await;
    };
    let flushed = running.await;
    *flushing = None;
    flushed.context("the flush of the record ended in the middle")
}

/// Flushes the record for the releases that wait: here for few, since handing it to another thread
/// and back takes longer than they would wait for each other; beside this thread for more.
fn flush(
    notary: &mut Notary,
    gates: &mut Gates,
    judged: &mut Vec<OwnedSemaphorePermit>,
) -> Option<Flushing> {
    let places = std::mem::take(judged);
    let few = notary.awaiting() <= FLUSHED_HERE_MAX;
    let flush = notary.flush()?;
    if few {
        let frames = notary.flushed(flush.run());
        send_all(notary, gates, frames);
        return None;
    }
    Some(Flushing {
        running: tokio::task::spawn_blocking(|| flush.run()),
        _places: places,
    })
}

/// One batch of gates' messages. Gives their places.
fn answer_gates(
    notary: &mut Notary,
    gates: &mut Gates,
    batch: impl Iterator<Item = FromGate>,
) -> Vec<OwnedSemaphorePermit> {
    let (mut messages, mut places) = (Vec::new(), Vec::new());
    let mut left = BTreeMap::new();
    for from in batch {
        match from {
            FromGate::Message(gate, GateMessage::Cut, _) => {
                if !gates.heard_cut(gate) {
                    left.insert(gate, Some(Reason::MalformedRequest));
                }
            }
            FromGate::Message(gate, message, place) if gates.holds(gate) => {
                messages.push((gate, message));
                places.push(place);
            }
            FromGate::Message(..) => {}
            FromGate::Fault(gate, reason) => {
                left.insert(gate, Some(reason));
            }
            FromGate::Left(gate) => {
                left.entry(gate).or_insert(None);
            }
        }
    }
    let frames = notary.from_gates(messages, now());
    send_all(notary, gates, frames);
    let_go(notary, gates, left);
    places
}

/// A gate that does not read its answers is let go, and that is recorded.
fn send_all(notary: &mut Notary, gates: &mut Gates, frames: Vec<ToGate>) {
    let mut left = BTreeMap::new();
    for frame in frames {
        let fault = match gates.send(frame.gate, &frame.message, &frame.credentials) {
            Sent::Queued => continue,
            Sent::Full => Some(Reason::LimitReached),
            Sent::Gone => None,
        };
        left.entry(frame.gate).or_insert(fault);
    }
    let_go(notary, gates, left);
}

fn let_go(notary: &mut Notary, gates: &mut Gates, left: BTreeMap<GateId, Option<Reason>>) {
    for (gate, fault) in left {
        // A gate whose socket was closed for a fault is still heard to leave.
        if let (true, Some(reason)) = (gates.holds(gate), fault) {
            notary.gate_alarm(gate, reason, now());
        }
        gates.leave(gate);
        notary.gate_left(gate);
    }
}

/// What the supervisor says of gates.
fn heed(
    notary: &mut Notary,
    gates: &mut Gates,
    message: FromSupervisor,
    given: Vec<OwnedFd>,
) -> anyhow::Result<()> {
    match message {
        FromSupervisor::GateJoined {
            session,
            generation,
            number,
        } => {
            let [gate] = exactly(given)?;
            let id = gates.join(Channel::new(gate)?, session.clone(), number);
            notary.gate_joined(id, session, generation);
        }
        FromSupervisor::GateLeft { session, number } => {
            gates.ended(Some(&session), Some(number));
        }
        FromSupervisor::Kill { session } => {
            // Their processes were ended before this was said.
            gates.ended(session.as_ref(), None);
            kill(notary, gates, session);
        }
        FromSupervisor::Start(_) | FromSupervisor::Serve => bail!("not for the notary"),
    }
    Ok(())
}

/// A pause is said when the gates have cut what they carried. An end and a kill are not waited
/// for: the desk ends the gate's process.
fn answer_desk(notary: &mut Notary, gates: &mut Gates, cuts: &mut Cuts, message: DeskMessage) {
    let is_pause = matches!(message, DeskMessage::Pause { .. });
    let reaction = notary.desk(message, now());
    let told = carry_out(notary, gates, reaction.effects);
    if let Some(reply) = reaction.reply {
        let told = if is_pause { told } else { BTreeSet::new() };
        cuts.reply_after(told, gates, Reply::Desk(reply));
    }
}

/// Gates that somebody has waited for too long.
fn let_go_overdue(notary: &mut Notary, gates: &mut Gates, cuts: &Cuts) {
    let late = cuts.overdue(gates, Instant::now()).into_iter();
    let late = late.map(|gate| (gate, Some(Reason::LimitReached)));
    let_go(notary, gates, late.collect());
}

/// Effects come before the reply, and the gates' word that they are done.
fn answer_operator(notary: &mut Notary, gates: &mut Gates, cuts: &mut Cuts, call: OperatorCall) {
    let reaction = notary.operator(call.request, &call.attachments, now());
    let told = carry_out(notary, gates, reaction.effects);
    if let Some(reply) = reaction.reply {
        cuts.reply_after(told, gates, Reply::Operator(reply, call.reply));
    }
}

/// Gives the gates that have to cut something: those that were told, and those that left and may
/// live.
fn carry_out(notary: &mut Notary, gates: &mut Gates, effects: Vec<Effect>) -> BTreeSet<GateId> {
    let mut frames = Vec::new();
    let mut told = BTreeSet::new();
    for Effect::Revoke {
        session,
        credential,
    } in effects
    {
        told.extend(gates.leaving(&session));
        frames.extend(notary.gates_of(&session).into_iter().map(|gate| ToGate {
            gate,
            message: NotaryMessage::Revoke {
                credential: credential.clone(),
            },
            credentials: Vec::new(),
        }));
    }
    told.extend(frames.iter().map(|frame| frame.gate));
    send_all(notary, gates, frames);
    told
}

/// The kill-only socket was used: standing first, the rest is the supervisor's and the desk's.
fn kill(notary: &mut Notary, gates: &mut Gates, session: Option<SessionId>) {
    let ticket = torno_notary_protocol::gate::Ticket(0);
    let reaction = notary.desk(DeskMessage::Kill { ticket, session }, now());
    carry_out(notary, gates, reaction.effects);
}

fn close(notary: Notary) -> anyhow::Result<()> {
    notary
        .close(now())
        .context("the notary's stores could not be closed in order")
}

/// Both clocks, read once for a batch.
fn now() -> Now {
    let wall = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let ms = wall
        .tv_sec
        .saturating_mul(1_000)
        .saturating_add(wall.tv_nsec / 1_000_000);
    Now {
        unix_ms: u64::try_from(ms).unwrap_or_default(),
        boot_ms: boot_ms(),
    }
}
