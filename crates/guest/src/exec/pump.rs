// SPDX-License-Identifier: Apache-2.0
//! Bytes between the host and a program's streams, each way by its own task, under the windows'
//! credit; and how long output is waited for once the program has ended.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;
use tokio::sync::watch;
use torno_guest_protocol::{DATA_BYTES_MAX, ExecId, Stream};

use crate::link::Sender;
use crate::stream::{Arrival, Inlet, Outlet};
use crate::terminal::Terminal;

/// Where a program reads from.
pub(super) enum Sink {
    Pipe(Option<pipe::Sender>),
    Terminal(Arc<Terminal>),
}

/// Host to program. A program that doesn't read any more loses the rest, and the host never waits.
pub(super) async fn pump_input(exec: ExecId, inlet: Arc<Inlet>, host: Sender, mut sink: Sink) {
    loop {
        match inlet.next().await {
            Arrival::Bytes(bytes) => {
                let written = match &mut sink {
                    Sink::Pipe(Some(pipe)) => pipe.write_all(&bytes).await,
                    Sink::Pipe(None) => Ok(()),
                    Sink::Terminal(terminal) => terminal.write_all(&bytes).await,
                };
                if written.is_err()
                    && let Sink::Pipe(pipe) = &mut sink
                {
                    *pipe = None;
                }
                if let Some(credit) = inlet.consume(bytes.len())
                    && host
                        .credit(exec.into(), Stream::Stdin, credit)
                        .await
                        .is_err()
                {
                    return;
                }
            }
            Arrival::End => {
                if let Sink::Terminal(terminal) = &sink {
                    // A terminal that is closed has ended in any case.
                    let _closed = terminal.write_end().await;
                }
                return;
            }
            Arrival::Cancelled => return,
        }
    }
}

/// Where a program writes to.
pub(super) enum Source {
    Pipe(pipe::Receiver),
    Terminal(Arc<Terminal>),
}

impl Source {
    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Pipe(pipe) => pipe.read(buffer).await,
            Self::Terminal(terminal) => terminal.read(buffer).await,
        }
    }
}

/// Program to host, one stream.
pub(super) struct Output {
    pub(super) exec: ExecId,
    pub(super) stream: Stream,
    pub(super) outlet: Arc<Outlet>,
    pub(super) host: Sender,
    pub(super) ended: watch::Receiver<bool>,
}

impl Output {
    pub(super) async fn run(mut self, mut source: Source) {
        let mut buffer = vec![0; DATA_BYTES_MAX];
        let mut left_after_end = AFTER_END_BYTES_MAX;
        while let Some(room) = self.outlet.room().await {
            let part = buffer
                .get_mut(..room.min(left_after_end))
                .unwrap_or_default();
            let count = tokio::select! {
                biased;
                count = source.read(part) => count.unwrap_or(0),
                () = idle_after_end(&mut self.ended) => 0,
            };
            let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else {
                break;
            };
            self.outlet.take(count);
            if *self.ended.borrow() {
                left_after_end -= count;
            }
            if self
                .host
                .data(self.exec.into(), self.stream, bytes)
                .await
                .is_err()
            {
                return;
            }
        }
        // When the link is closed the agent is about to end.
        let _closed = self.host.end_of_file(self.exec.into(), self.stream).await;
    }
}

/// Nothing came for a while after the program's end: whoever still holds the stream is left behind.
async fn idle_after_end(ended: &mut watch::Receiver<bool>) {
    if ended.wait_for(|&is_ended| is_ended).await.is_ok() {
        tokio::time::sleep(AFTER_END_WAIT).await;
    }
}

// LIMIT: the most a pipe can hold for an unprivileged program; what is written after the end by
// processes left behind isn't the program's output.
const AFTER_END_BYTES_MAX: usize = 1024 * 1024;
// LIMIT: what the program wrote is in the pipe when its end is known; this only covers a descendant
// that is just dying.
const AFTER_END_WAIT: Duration = Duration::from_millis(50);
