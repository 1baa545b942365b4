// SPDX-License-Identifier: Apache-2.0
//! The three entries: adapters that find out what was asked for, end TLS where there is some, and
//! then hand their connection to the one loop that serves requests.

use super::Pipeline;
use super::client::{Client, Next};
use super::guard::unwound;
use super::streams;
use crate::identify::{Arrival, Asked, AskedDestination, Opening, opening};
use crate::inject::undecidable;
use crate::normalize::connect_target;
use crate::postgres;
use crate::refuse::{Fault, Form};
use crate::terminate::{Spoken, terminate};
use crate::wire::{Cuttable, Peer, ReadBuffer};
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use torno_policy::Reason;
use torno_policy::facts::Entry;
use torno_policy::names::{Authority, Host, Scheme};

/// Where a connection came in.
pub(super) enum Way {
    /// The network of the sandbox caught it.
    Captured(AskedDestination),
    /// The loopback proxy took it.
    Proxy,
}

/// Serves one connection until it ends or is cut.
pub(super) async fn serve(pipeline: &Arc<Pipeline>, peer: Box<dyn Peer>, way: Way) {
    let registered = pipeline.revocations.register();
    let live = Arc::clone(&registered.live);
    let target = match &way {
        Way::Captured(asked) => Asked::from(asked.clone()).to_string(),
        Way::Proxy => Asked::Proxy.to_string(),
    };
    let admitted = match pipeline.usage.admit() {
        Ok(admitted) => admitted,
        Err(fault) => {
            pipeline.refusals.record(&fault, &target);
            return;
        }
    };
    let client = Client {
        io: Box::new(Cuttable::new(peer, Arc::clone(&live.client_cut))),
        buffer: ReadBuffer::new(),
        live: Arc::clone(&live),
        started: Arc::default(),
        form: Form::default(),
    };
    let serving = pin!(async {
        match way {
            Way::Captured(asked) => open(pipeline, client, Entry::Captured, asked.into()).await,
            Way::Proxy => serve_proxy(pipeline, client).await,
        }
    });
    tokio::select! {
        biased;
        () = live.until_cut() => {}
        served = unwound(serving) => {
            if served.is_none() {
                pipeline.refusals.record(&undecidable(), &target);
            }
        }
    }
    drop(admitted);
    pipeline.refusals.tell_due();
}

/// A connection of the loopback proxy: one CONNECT and a tunnel, or requests in absolute-form.
async fn serve_proxy(pipeline: &Arc<Pipeline>, mut client: Client) {
    let arrival = Arrival {
        entry: Entry::AbsoluteForm,
        scheme: Scheme::Http,
        asked: Asked::Proxy,
        disagreement: None,
    };
    if let Err(fault) = expect_opening(pipeline, &mut client, Opening::Http).await {
        refuse(pipeline, &mut client, &fault, &arrival.asked).await;
        return;
    }
    let head = match client.read_head(&pipeline.limits).await {
        Ok(Some(head)) => head,
        Ok(None) => return,
        Err(fault) => return refuse(pipeline, &mut client, &fault, &arrival.asked).await,
    };
    match connect_target(&head) {
        Ok(Some(named)) => tunnel(pipeline, client, named).await,
        Ok(None) => {
            if pipeline.serve_request(&mut client, &arrival, head).await == Next::Request {
                pipeline.serve_requests(&mut client, &arrival).await;
            }
        }
        Err(fault) => refuse(pipeline, &mut client, &fault, &arrival.asked).await,
    }
}

/// Answers a CONNECT. Whether its host may be reached is decided for each request inside, where
/// the refusal can be read.
async fn tunnel(pipeline: &Arc<Pipeline>, mut client: Client, named: Authority) {
    let port = named.port.number();
    let asked = match &named.host {
        Host::Name(_) => Asked::Name(named.clone()),
        Host::V4(address) => Asked::Address(SocketAddr::new(IpAddr::V4(*address), port)),
        Host::V6(address) => Asked::Address(SocketAddr::new(IpAddr::V6(*address), port)),
    };
    // ATTACK: 071 – without a leaf there is no tunnel, and never a blind one.
    if pipeline.authority.leaf(&named.host).is_err() {
        let fault = Fault::new(
            Reason::RoleUnavailable,
            "no certificate can be made for this host: start a new session",
        );
        return refuse(pipeline, &mut client, &fault, &asked).await;
    }
    let said = client
        .io
        .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n");
    if said.await.is_err() || client.io.flush().await.is_err() {
        return;
    }
    open(pipeline, client, Entry::Connect, asked).await;
}

/// Finds out whether TLS follows, ends it, and serves the requests.
async fn open(pipeline: &Arc<Pipeline>, client: Client, entry: Entry, asked: Asked) {
    let mut client = client;
    let mut arrival = Arrival {
        entry,
        scheme: Scheme::Http,
        asked,
        disagreement: None,
    };
    let opened = match first_bytes(pipeline, &mut client).await {
        Ok(Some(opened)) => opened,
        Ok(None) => return,
        Err(fault) => return refuse(pipeline, &mut client, &fault, &arrival.asked).await,
    };
    if opened == Opening::Postgres {
        let Client {
            io, buffer, live, ..
        } = client;
        let around = pipeline.around_postgres(&live);
        return postgres::serve(&around, (io, buffer), (entry, &arrival.asked)).await;
    }
    if opened == Opening::Tls {
        arrival.scheme = Scheme::Https;
        let Client {
            io,
            mut buffer,
            live,
            started,
            form,
        } = client;
        let asked = (&arrival.asked, Spoken::Http);
        let ending = terminate(io, &mut buffer, asked, &pipeline.authority);
        let slow = Err(Fault::new(
            Reason::UnknownProtocol,
            "the TLS handshake took too long",
        ));
        let ended = tokio::time::timeout(pipeline.limits.head_wait, ending).await;
        match ended.unwrap_or(slow) {
            Ok(terminated) => {
                arrival.disagreement = terminated.disagreement;
                if terminated.is_http2 {
                    return streams::serve(pipeline, terminated.io, &arrival).await;
                }
                client = Client {
                    io: terminated.io,
                    buffer,
                    live,
                    started,
                    form,
                };
            }
            Err(fault) => {
                // Inside a failed handshake nothing can be answered.
                let target = arrival.asked.to_string();
                pipeline.refusals.record(&fault, &target);
                return;
            }
        }
    }
    pipeline.serve_requests(&mut client, &arrival).await;
}

/// Waits for the first bytes and says what they are; `None` when the client went away.
async fn first_bytes(
    pipeline: &Arc<Pipeline>,
    client: &mut Client,
) -> Result<Option<Opening>, Fault> {
    let reading = async {
        loop {
            if let Some(opened) = opening(client.buffer.unread())? {
                return Ok(Some(opened));
            }
            match client.buffer.fill(&mut client.io).await {
                Ok(0) | Err(_) => return Ok(None),
                Ok(_) => {}
            }
        }
    };
    let silent = Err(Fault::new(
        Reason::UnknownProtocol,
        "say something: a protocol in which the server speaks first is not let out",
    ));
    let read = tokio::time::timeout(pipeline.limits.head_wait, reading).await;
    read.unwrap_or(silent)
}

async fn expect_opening(
    pipeline: &Arc<Pipeline>,
    client: &mut Client,
    expected: Opening,
) -> Result<(), Fault> {
    match first_bytes(pipeline, client).await? {
        Some(opened) if opened != expected => Err(Fault::new(
            Reason::UnknownProtocol,
            "speak plain HTTP to the proxy and reach TLS hosts by CONNECT",
        )),
        Some(_) | None => Ok(()),
    }
}

async fn refuse(pipeline: &Arc<Pipeline>, client: &mut Client, fault: &Fault, asked: &Asked) {
    let refusal = pipeline.refusals.record(fault, &asked.to_string());
    client.answer(&refusal, (false, true)).await;
}
