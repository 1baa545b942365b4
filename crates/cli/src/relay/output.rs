// SPDX-License-Identifier: Apache-2.0
//! Writes the command's output in a thread of its own, so that a reader who is slow holds up the
//! command and not our signals. What goes to a terminal passes the filter; everything else is
//! written byte for byte.

use super::Manner;
use crate::screen::Screen;
use crate::terminal::is_terminal;
use std::io::{self, Write};
use tokio::sync::{mpsc, oneshot};

/// LIMIT: chunks (of at most one frame) that wait for a slow reader.
const CHUNKS_MAX: usize = 16;

enum Chunk {
    Out(Vec<u8>),
    Err(Vec<u8>),
}

/// The writer and its filters.
pub(super) struct Output {
    to: Option<mpsc::Sender<Chunk>>,
    done: oneshot::Receiver<()>,
    out: Option<Screen>,
    err: Option<Screen>,
}

impl Output {
    pub(super) fn start(manner: Manner) -> io::Result<Self> {
        let (to, chunks) = mpsc::channel(CHUNKS_MAX);
        let (finished, done) = oneshot::channel();
        std::thread::Builder::new()
            .name("output".into())
            .spawn(move || {
                write(chunks);
                // Nobody may wait for it any more.
                let _ = finished.send(());
            })?;
        let screen = |terminal: bool| (terminal && !manner.raw).then(Screen::default);
        Ok(Self {
            to: Some(to),
            done,
            out: screen(is_terminal(rustix::stdio::stdout())),
            err: screen(is_terminal(rustix::stdio::stderr())),
        })
    }

    /// Standard output; false once nobody reads it.
    pub(super) async fn out(&mut self, bytes: Vec<u8>) -> bool {
        let bytes = filtered(self.out.as_mut(), bytes);
        self.send(Chunk::Out(bytes)).await
    }

    /// Standard error; false once nobody reads.
    pub(super) async fn err(&mut self, bytes: Vec<u8>) -> bool {
        let bytes = filtered(self.err.as_mut(), bytes);
        self.send(Chunk::Err(bytes)).await
    }

    /// Puts the terminal's modes back and waits until everything is written.
    pub(super) async fn finish(&mut self) {
        let restored = self.out.as_mut().map(Screen::restore).unwrap_or_default();
        self.send(Chunk::Out(restored)).await;
        self.to = None;
        // The thread ends by itself once its queue is closed and empty.
        let _ = (&mut self.done).await;
    }

    async fn send(&self, chunk: Chunk) -> bool {
        match &self.to {
            Some(to) => to.send(chunk).await.is_ok(),
            None => false,
        }
    }
}

fn filtered(screen: Option<&mut Screen>, bytes: Vec<u8>) -> Vec<u8> {
    match screen {
        Some(screen) => screen.filter(&bytes),
        None => bytes,
    }
}

fn write(mut chunks: mpsc::Receiver<Chunk>) {
    while let Some(chunk) = chunks.blocking_recv() {
        let written = match chunk {
            Chunk::Out(bytes) => {
                let mut out = io::stdout().lock();
                out.write_all(&bytes).and_then(|()| out.flush())
            }
            Chunk::Err(bytes) => io::stderr().lock().write_all(&bytes),
        };
        if written.is_err() {
            return;
        }
    }
}
