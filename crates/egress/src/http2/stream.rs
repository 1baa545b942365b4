// SPDX-License-Identifier: Apache-2.0
//! One stream of a client: its request is written as HTTP/1.1 into a pipe to the pipeline, and the
//! answer that comes out of the pipe is told on the stream.

use super::carry::{self, Broken};
use super::server::Opened;
use super::{PIPE_BYTES, answer};
use crate::accept::Limits;
use crate::forward::answer::{self as heads, AnswerTo, read_head, understand};
use crate::head::Framing;
use crate::refuse::Fault;
use crate::wire::{Duplex, ReadBuffer, Source, Writer};
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason as Code, RecvStream};
use http::{Method, Response, StatusCode};
use std::future::poll_fn;
use std::time::Duration;
use tokio::io::{AsyncWriteExt, DuplexStream};

/// A stream, between its client and the pipeline.
pub(crate) struct Exchange {
    body: RecvStream,
    respond: SendResponse<Bytes>,
    pipe: DuplexStream,
    is_head: bool,
    body_wait: Duration,
}

/// How a stream ended.
pub(crate) enum Told {
    /// Its answer was told to the end.
    Whole,
    /// It was broken off: what still works on it is dropped.
    Broken,
    /// The client sent what is no request.
    Fault(Fault),
}

impl Exchange {
    /// Joins a stream to a pipe; the other end of the pipe is for the pipeline.
    pub(crate) fn new(
        (request, respond): Opened,
        limits: &Limits,
    ) -> (http::request::Parts, Self, Box<dyn Duplex>) {
        let (pipe, other) = tokio::io::duplex(PIPE_BYTES);
        let (parts, body) = request.into_parts();
        let exchange = Self {
            is_head: parts.method == Method::HEAD,
            body,
            respond,
            pipe,
            body_wait: limits.body_wait,
        };
        (parts, exchange, Box::new(other))
    }

    /// Whether no body follows the fields.
    pub(crate) fn is_whole(&self) -> bool {
        self.body.is_end_stream()
    }

    /// Sends the request with this head, when there is one, and tells the answer. When the answer
    /// is complete the rest of the request is nobody's.
    pub(crate) async fn run(self, head: Option<(Vec<u8>, Framing)>) -> Told {
        let Self {
            mut body,
            mut respond,
            pipe,
            is_head,
            body_wait,
        } = self;
        let (mut from, mut to) = tokio::io::split(pipe);
        let mut buffer = ReadBuffer::new();
        let mut source = Source {
            io: &mut from,
            buffer: &mut buffer,
            // The pipeline has its own times, and ends with an answer or without one.
            wait: Duration::MAX,
        };
        let told = {
            let uploading = upload(head, &mut body, &mut to);
            let answering = tell(&mut source, (&mut respond, is_head), body_wait);
            tokio::pin!(uploading, answering);
            let mut is_sent = false;
            loop {
                tokio::select! {
                    biased;
                    told = &mut answering => break told,
                    sent = &mut uploading, if !is_sent => {
                        is_sent = true;
                        match sent {
                            // The pipeline stopped reading: it says why.
                            Ok(()) | Err(Broken::Pipe) => {}
                            broken => break broken,
                        }
                    }
                }
            }
        };
        match told {
            Ok(()) => {
                // The pipeline is done; its end of the pipe may go.
                drop((from, to));
                carry::drain(&mut body).await;
                Told::Whole
            }
            Err(Broken::Form(fault)) => {
                respond.send_reset(Code::PROTOCOL_ERROR);
                Told::Fault(fault)
            }
            Err(Broken::Pipe) => {
                respond.send_reset(Code::INTERNAL_ERROR);
                Told::Broken
            }
            Err(Broken::Slow | Broken::Reset) => {
                respond.send_reset(Code::CANCEL);
                Told::Broken
            }
        }
    }
}

async fn upload(
    head: Option<(Vec<u8>, Framing)>,
    body: &mut RecvStream,
    to: &mut Writer<'_>,
) -> Result<(), Broken> {
    let Some((head, framing)) = head else {
        return Ok(());
    };
    to.write_all(&head).await?;
    to.flush().await?;
    carry::from_stream(body, framing, to).await
}

/// Reads what the pipeline answers and tells it on the stream.
async fn tell(
    source: &mut Source<'_>,
    (respond, is_head): (&mut SendResponse<Bytes>, bool),
    body_wait: Duration,
) -> Result<(), Broken> {
    let mut answer = loop {
        let head = tokio::select! {
            biased;
            _ = poll_fn(|cx| respond.poll_reset(cx)) => return Err(Broken::Reset),
            head = read_head(source) => head?,
        };
        let status = heads::status(head.first())?;
        if status >= 200 {
            let to = if is_head {
                AnswerTo::Head
            } else {
                AnswerTo::Other
            };
            break understand(head, status, to)?;
        }
        let mut interim = Response::new(());
        *interim.status_mut() = StatusCode::from_u16(status).map_err(|_| Broken::Pipe)?;
        respond.send_informational(interim)?;
    };
    let response = answer::to_stream(answer.status, &answer.head).ok_or(Broken::Pipe)?;
    let is_whole = answer.body.is_over();
    let mut stream = respond.send_response(response, is_whole)?;
    if is_whole {
        return Ok(());
    }
    carry::to_stream(&mut answer.body, source, (&mut stream, body_wait)).await
}
