// SPDX-License-Identifier: Apache-2.0
//! The streams of a client's HTTP/2: each is served as one request on a connection of its own,
//! with its own place among the session's connections and its own cut.

use super::Pipeline;
use super::client::Client;
use super::guard::unwound;
use crate::http2::request::{framing_of, render};
use crate::http2::server::{self, Opened};
use crate::http2::stream::{Exchange, Told};
use crate::identify::Arrival;
use crate::inject::undecidable;
use crate::normalize::is_grpc_kind;
use crate::refuse::{Fault, Form};
use crate::revoke::Live;
use crate::wire::{Duplex, ReadBuffer};
use h2::Reason as Code;
use http::header::CONTENT_TYPE;
use std::pin::pin;
use std::sync::Arc;
use torno_policy::names::RequestPath;

/// Serves a connection on which HTTP/2 was chosen, until it ends.
pub(super) async fn serve(pipeline: &Arc<Pipeline>, io: Box<dyn Duplex>, arrival: &Arrival) {
    let serve_stream = |opened| {
        let (pipeline, arrival) = (Arc::clone(pipeline), arrival.clone());
        async move {
            let serving = pin!(serve_one(&pipeline, opened, &arrival));
            if unwound(serving).await.is_none() {
                let target = arrival.asked.to_string();
                pipeline.refusals.record(&undecidable(), &target);
            }
        }
    };
    if let Err(fault) = server::serve(io, &pipeline.limits, serve_stream).await {
        let target = arrival.asked.to_string();
        pipeline.refusals.record(&fault, &target);
    }
}

/// Serves one stream. What is left of it when it ends is reset. One that the session has no place
/// for is reset at once, before anything is held for it.
async fn serve_one(pipeline: &Pipeline, opened: Opened, arrival: &Arrival) {
    let admitted = match pipeline.usage.admit() {
        Ok(admitted) => admitted,
        Err(fault) => {
            let (request, mut respond) = opened;
            let target = shown(arrival, request.uri().path());
            pipeline.refusals.record(&fault, &target);
            respond.send_reset(Code::REFUSED_STREAM);
            return;
        }
    };
    let registered = pipeline.revocations.register();
    let live = Arc::clone(&registered.live);
    let (parts, exchange, io) = Exchange::new(opened, &pipeline.limits);
    let target = shown(arrival, parts.uri.path());
    let rendered = render(&parts, exchange.is_whole());
    let is_grpc = parts.headers.get_all(CONTENT_TYPE).iter();
    let is_grpc = is_grpc.map(http::HeaderValue::as_bytes).any(is_grpc_kind);
    let mut client = client(io, &live, is_grpc);
    let (head, fault) = match rendered {
        Ok(head) => {
            let framing = framing_of(&head);
            (Some((head, framing)), None)
        }
        Err(fault) => (None, Some(fault)),
    };
    let serving = async {
        answer_one(pipeline, &mut client, arrival, (fault, &target)).await;
        // The pipe ends with it.
        drop((client, admitted));
    };
    let telling = exchange.run(head);
    tokio::pin!(serving, telling);
    let mut is_served = false;
    let told = loop {
        tokio::select! {
            biased;
            () = live.until_cut() => return,
            told = &mut telling => break told,
            () = &mut serving, if !is_served => is_served = true,
        }
    };
    match told {
        Told::Whole if !is_served => {
            tokio::select! {
                biased;
                () = live.until_cut() => {}
                () = &mut serving => {}
            }
        }
        Told::Whole | Told::Broken => {}
        Told::Fault(fault) => {
            pipeline.refusals.record(&fault, &target);
        }
    }
}

fn shown(arrival: &Arrival, path: &str) -> String {
    format!("{} {}", arrival.asked, RequestPath::shown(path))
}

/// The request's way through the pipeline, or the refusal that it has already.
async fn answer_one(
    pipeline: &Pipeline,
    client: &mut Client,
    arrival: &Arrival,
    (fault, target): (Option<Fault>, &str),
) {
    match fault {
        None => {
            pipeline.serve_next(client, arrival).await;
        }
        Some(fault) => {
            pipeline.refuse_fault(client, &fault, (target, false)).await;
        }
    }
}

/// A connection that one stream looks like.
fn client(io: Box<dyn Duplex>, live: &Arc<Live>, is_grpc: bool) -> Client {
    Client {
        io,
        buffer: ReadBuffer::new(),
        live: Arc::clone(live),
        started: Arc::default(),
        form: if is_grpc { Form::Grpc } else { Form::Http },
    }
}
