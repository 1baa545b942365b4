// SPDX-License-Identifier: Apache-2.0
//! A far end that is spoken to in HTTP/2: one request at a time, as on a connection of HTTP/1.1.
//! The pipeline reads and writes a pipe as if it were that connection. Only the head, which may
//! hold a credential, is never in the pipe: it is handed over whole, in its own buffer.

use super::meter::{Metered, Side};
use super::{
    CONNECTION_WINDOW, FIELD_BYTES_MAX, PIPE_BYTES, RESET_STREAMS_MAX, SEND_BYTES_MAX,
    STREAM_WINDOW, TABLE_BYTES, answer, carry, request,
};
use crate::forward::answer::INTERIM_MAX;
use crate::forward::body::Body;
use crate::inject::OutgoingHead;
use crate::wire::{Duplex, ReadBuffer, Source, Writer};
use bytes::Bytes;
use carry::Broken;
use h2::RecvStream;
use h2::client::{Builder, ResponseFuture, SendRequest};
use http::Response;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// Takes the heads of one connection. The connection ends with it.
pub(crate) struct Heads {
    sender: mpsc::Sender<OutgoingHead>,
    connection: AbortHandle,
}

impl Heads {
    /// Sends a head; false when the connection is gone.
    pub(crate) async fn send(&self, head: OutgoingHead) -> bool {
        self.sender.send(head).await.is_ok()
    }
}

impl Drop for Heads {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// Greets a far end that chose HTTP/2. Nothing of a request is sent yet.
pub(crate) async fn open(io: Box<dyn Duplex>) -> Result<(Heads, DuplexStream), h2::Error> {
    let (metered, alarm) = Metered::new(io, Side::FarEnd);
    let greeting = Builder::new()
        .enable_push(false)
        .max_concurrent_streams(0)
        .max_header_list_size(FIELD_BYTES_MAX)
        .header_table_size(TABLE_BYTES)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(SEND_BYTES_MAX)
        .max_concurrent_reset_streams(RESET_STREAMS_MAX)
        .handshake(metered);
    let (requests, connection) = greeting.await?;
    let (pipe, other) = tokio::io::duplex(PIPE_BYTES);
    let (sender, heads) = mpsc::channel(1);
    let task = tokio::spawn(async move {
        tokio::select! {
            _ = alarm.ringing() => {}
            // Whatever ended it, the pipe ends too, and the pipeline sees that.
            _ = connection => {}
            _ = exchanges(requests, pipe, heads) => {}
        }
    });
    let connection = task.abort_handle();
    Ok((Heads { sender, connection }, other))
}

/// One exchange after the other, until one is broken.
async fn exchanges(
    mut requests: SendRequest<Bytes>,
    pipe: DuplexStream,
    mut heads: mpsc::Receiver<OutgoingHead>,
) -> Result<(), Broken> {
    let (mut from, mut to) = tokio::io::split(pipe);
    let mut buffer = ReadBuffer::new();
    let mut source = Source {
        io: &mut from,
        buffer: &mut buffer,
        // The pipeline has its own times, and drops the connection when one is over.
        wait: Duration::MAX,
    };
    while let Some(head) = heads.recv().await {
        let (request, framing) = request::outgoing(head).ok_or(Broken::Pipe)?;
        let mut body = Body::from(framing);
        requests = requests.ready().await?;
        let (response, mut stream) = requests.send_request(request, body.is_over())?;
        if body.is_over() {
            bring(response, &mut to).await?;
            continue;
        }
        let uploading = carry::to_stream(&mut body, &mut source, (&mut stream, Duration::MAX));
        let bringing = bring(response, &mut to);
        tokio::pin!(uploading, bringing);
        tokio::select! {
            biased;
            uploaded = &mut uploading => {
                bringing.await?;
                uploaded?;
            }
            // It wants no more of the body, and what is left of it must meet no other call: the
            // connection ends behind the answer, and no pool keeps it.
            brought = &mut bringing => {
                brought?;
                return Err(Broken::Reset);
            }
        }
    }
    Ok(())
}

/// Writes a far end's answer into the pipe.
async fn bring(response: ResponseFuture, to: &mut Writer<'_>) -> Result<(), Broken> {
    let (parts, mut body) = final_answer(response).await?.into_parts();
    let is_whole = body.is_end_stream();
    let head = answer::from_stream(&parts, is_whole);
    to.write_all(&head).await?;
    to.flush().await?;
    if is_whole {
        return Ok(());
    }
    carry::from_stream(&mut body, crate::head::Framing::Chunked, to).await
}

/// The answer behind its interim ones, of which there may be as many as in HTTP/1.1.
async fn final_answer(mut response: ResponseFuture) -> Result<Response<RecvStream>, Broken> {
    let mut interim = 0;
    poll_fn(|cx| {
        while let Poll::Ready(Some(told)) = response.poll_informational(cx) {
            told?;
            interim += 1;
            if interim > INTERIM_MAX {
                return Poll::Ready(Err(Broken::Pipe));
            }
        }
        Pin::new(&mut response).poll(cx).map_err(Broken::from)
    })
    .await
}
