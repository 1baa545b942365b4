// SPDX-License-Identifier: Apache-2.0
//! A client's connection of HTTP/2: takes its streams, hands each to a task of its own, and ends
//! when it is idle, old, wrong or too much.

use super::meter::{Metered, Side};
use super::{
    CONNECTION_WINDOW, FAREWELL, FAULTY_STREAMS_MAX, FIELD_BYTES_MAX, LIFE, RESET_STREAMS_MAX,
    SEND_BYTES_MAX, STREAM_WINDOW, STREAMS_MAX, TABLE_BYTES, UNSEEN_RESETS_MAX,
};
use crate::accept::Limits;
use crate::refuse::Fault;
use crate::wire::Duplex;
use bytes::Bytes;
use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason as Code, RecvStream};
use http::Request;
use std::future::Future;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use torno_policy::Reason;

/// One request as it came, and the place for its answer.
pub(crate) type Opened = (Request<RecvStream>, SendResponse<Bytes>);

type Served = Connection<Metered<Box<dyn Duplex>>, Bytes>;

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(FIELD_BYTES_MAX)
        .header_table_size(TABLE_BYTES)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(SEND_BYTES_MAX)
        .max_concurrent_reset_streams(RESET_STREAMS_MAX)
        .max_pending_accept_reset_streams(UNSEEN_RESETS_MAX)
        .max_local_error_reset_streams(Some(FAULTY_STREAMS_MAX));
    builder
}

/// Serves a connection until it ends. Whatever of it is still going on then is dropped. `Err` is
/// what the client did wrong.
pub(crate) async fn serve<F, S>(
    io: Box<dyn Duplex>,
    limits: &Limits,
    serve_stream: F,
) -> Result<(), Fault>
where
    F: Fn(Opened) -> S,
    S: Future<Output = ()> + Send + 'static,
{
    let (metered, alarm) = Metered::new(io, Side::Client);
    let greeting = builder().handshake(metered);
    let greeted = tokio::time::timeout(limits.head_wait, greeting).await;
    let slow = Fault::new(Reason::UnknownProtocol, "the HTTP/2 preface took too long");
    let mut connection: Served = match greeted.map_err(|_| slow)? {
        Ok(connection) => connection,
        Err(error) => return fault(&error).map_or(Ok(()), Err),
    };
    let mut streams = JoinSet::new();
    let old = Instant::now() + LIFE;
    let mut idle_until = Instant::now() + limits.idle_wait;
    let mut is_leaving = false;
    loop {
        tokio::select! {
            biased;
            code = alarm.ringing() => return Err(sent_away(connection, code).await),
            accepted = connection.accept() => match accepted {
                None => return Ok(()),
                Some(Err(error)) => return fault(&error).map_or(Ok(()), Err),
                Some(Ok(opened)) => {
                    streams.spawn(serve_stream(opened));
                    // A flood of streams comes first here: what is over must not pile up.
                    while streams.try_join_next().is_some() {}
                }
            },
            // A task that panicked dropped its stream, which is a reset.
            Some(_) = streams.join_next(), if !streams.is_empty() => {
                let wait = if is_leaving { FAREWELL } else { limits.idle_wait };
                idle_until = Instant::now() + wait;
            }
            () = sleep_until(old), if !is_leaving => {
                connection.graceful_shutdown();
                is_leaving = true;
                idle_until = Instant::now() + FAREWELL;
            }
            () = sleep_until(idle_until), if streams.is_empty() => {
                if is_leaving {
                    return Ok(());
                }
                connection.graceful_shutdown();
                is_leaving = true;
                idle_until = Instant::now() + FAREWELL;
            }
        }
    }
}

/// Tells a client that floods or breaks the protocol to go away, when it reads that.
async fn sent_away(mut connection: Served, code: Code) -> Fault {
    connection.abrupt_shutdown(code);
    let told = std::future::poll_fn(|cx| connection.poll_closed(cx));
    // Told or not, it ends here.
    let _ = tokio::time::timeout(FAREWELL, told).await;
    if code == Code::ENHANCE_YOUR_CALM {
        calm()
    } else {
        broken()
    }
}

fn broken() -> Fault {
    Fault::malformed("speak HTTP/2 as RFC 9113 has it: the connection was ended")
}

fn calm() -> Fault {
    Fault::new(
        Reason::LimitReached,
        "send fewer resets, pings, settings and fields: the connection was ended",
    )
}

/// What of a connection's end is the client's fault; nothing when it just went away.
fn fault(error: &h2::Error) -> Option<Fault> {
    match error.reason() {
        Some(Code::ENHANCE_YOUR_CALM) if error.is_library() => Some(calm()),
        Some(_) if error.is_library() => Some(broken()),
        _ => None,
    }
}
