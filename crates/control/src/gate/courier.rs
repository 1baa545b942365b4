// SPDX-License-Identifier: Apache-2.0
//! Connections that a machine's agent carries over the link: each is served as if it had been
//! dialled to one of the gate's sockets. What the guest says of one is a hint; a frame out of
//! order, over its credit or for nobody ends the link.
//!
//! ```text
//!   opened ──▶ served ──▶ done here: CloseConnection ──▶ ConnectionClosed ──▶ over
//!                 └────── ConnectionClosed: the program is gone ─────────────▲
//! ```

use anyhow::{Context as _, ensure};
use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::io::{ReadHalf, WriteHalf};
use tokio::sync::{Notify, mpsc, oneshot};
use torno_egress::Peer;
use torno_guest_protocol::{
    CONNECTIONS_MAX, ConnectionId, DATA_BYTES_MAX, Entry, HostMessage, ReceiveWindow, SendWindow,
    Stream, encode_control, encode_credit, encode_data, encode_end_of_file,
};

/// LIMIT: bytes of one connection between its task and the pipeline, each way: a full frame.
const BETWEEN_BYTES: usize = DATA_BYTES_MAX;

/// Who serves a connection.
pub(super) type Serve = Box<dyn Fn(Couriered, Entry) + Send + Sync>;

/// Every connection of one machine.
pub(super) struct Courier {
    serve: Serve,
    outgoing: mpsc::Sender<Bytes>,
    table: Mutex<Table>,
    is_closed: AtomicBool,
}

#[derive(Default)]
struct Table {
    open: BTreeMap<ConnectionId, Row>,
    last: Option<ConnectionId>,
}

/// One connection, from when the guest opens it until it says that it is over.
struct Row {
    /// None after the program's end of file. Holds no more than a window.
    arrived: Option<mpsc::UnboundedSender<Bytes>>,
    outward: ReceiveWindow,
    inward: SendWindow,
    grown: Arc<Notify>,
}

impl Courier {
    pub(super) fn new(serve: Serve, outgoing: mpsc::Sender<Bytes>) -> Self {
        Self {
            serve,
            outgoing,
            table: Mutex::default(),
            is_closed: AtomicBool::new(false),
        }
    }

    /// Serves no further connection: each is closed as soon as it is opened.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    /// A program has dialled.
    pub(super) fn open(self: &Arc<Self>, id: ConnectionId, entry: Entry) -> anyhow::Result<()> {
        let (arrived, queue) = mpsc::unbounded_channel();
        let grown = Arc::new(Notify::new());
        let row = Row {
            arrived: Some(arrived),
            outward: ReceiveWindow::new(),
            inward: SendWindow::new(),
            grown: Arc::clone(&grown),
        };
        let mut table = self.table();
        ensure!(
            table.last.is_none_or(|last| last < id),
            "the guest used a connection's number again"
        );
        ensure!(
            table.open.len() < CONNECTIONS_MAX,
            "the guest opened too many connections"
        );
        table.last = Some(id);
        table.open.insert(id, row);
        drop(table);
        let (stream, far) = carried();
        let carry = Carry {
            courier: Arc::clone(self),
            id,
            grown,
        };
        tokio::spawn(carry.run(far, queue));
        if !self.is_closed.load(Ordering::Acquire) {
            (self.serve)(stream, entry);
        }
        Ok(())
    }

    /// What a program sent.
    pub(super) fn accept(&self, id: ConnectionId, bytes: Bytes) -> anyhow::Result<()> {
        self.with(id, |row| {
            row.outward.accept(bytes.len())?;
            if let Some(arrived) = &row.arrived {
                // Nobody wants it any more: the guest has been told, or will be.
                let _ = arrived.send(bytes);
            }
            Ok(())
        })
    }

    /// A program sends no more.
    pub(super) fn end(&self, id: ConnectionId) -> anyhow::Result<()> {
        self.with(id, |row| {
            row.arrived = None;
            Ok(row.outward.end()?)
        })
    }

    /// The guest has room for more.
    pub(super) fn grant(&self, id: ConnectionId, bytes: u32) -> anyhow::Result<()> {
        self.with(id, |row| {
            row.inward.grant(bytes)?;
            row.grown.notify_one();
            Ok(())
        })
    }

    /// It is over inside: the guest's last word.
    pub(super) fn closed(&self, id: ConnectionId) -> anyhow::Result<()> {
        let row = self.table().open.remove(&id);
        row.context("the guest closed a connection that is not open")?
            .grown
            .notify_one();
        Ok(())
    }

    /// Room for bytes that were passed on: the credit that is due, if any.
    fn consumed(&self, id: ConnectionId, bytes: usize) -> Option<u32> {
        self.table().open.get_mut(&id)?.outward.consume(bytes)
    }

    fn with(
        &self,
        id: ConnectionId,
        act: impl FnOnce(&mut Row) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut table = self.table();
        act(table
            .open
            .get_mut(&id)
            .context("the guest used a connection that is not open")?)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // The table is consistent after every statement, so a poisoned lock is still good.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn send(&self, frame: BytesMut) -> Result<(), Over> {
        self.outgoing.send(frame.freeze()).await.map_err(|_| Over)
    }
}

/// The connection is over inside, or the link is.
struct Over;

/// Carries one connection between its row and the pipeline.
struct Carry {
    courier: Arc<Courier>,
    id: ConnectionId,
    grown: Arc<Notify>,
}

impl Carry {
    async fn run(self, far: Far, arrived: mpsc::UnboundedReceiver<Bytes>) {
        let (mut reader, writer) = tokio::io::split(far.stream);
        let carry = Arc::new(self);
        let mut outward = tokio::spawn(Arc::clone(&carry).outward(writer, arrived));
        if carry.inward(&mut reader).await.is_ok() {
            tokio::select! {
                _ = &mut outward => {}
                // Closed by the drop of the pipeline's end.
                _ = far.dropped => {}
            }
        }
        outward.abort();
        let reset = far.is_cut.load(Ordering::Acquire);
        let close = HostMessage::CloseConnection {
            connection: carry.id,
            reset,
        };
        let mut frame = BytesMut::new();
        if carry.courier.table().open.contains_key(&carry.id)
            && encode_control(&close, &mut frame).is_ok()
        {
            // A link that is closed has ended the sandbox.
            let _ = carry.courier.send(frame).await;
        }
    }

    /// Program to pipeline.
    async fn outward(
        self: Arc<Self>,
        mut pipeline: WriteHalf<DuplexStream>,
        mut arrived: mpsc::UnboundedReceiver<Bytes>,
    ) {
        while let Some(bytes) = arrived.recv().await {
            if pipeline.write_all(&bytes).await.is_err() {
                return;
            }
            let credit = self.courier.consumed(self.id, bytes.len());
            if let Some(credit) = credit {
                let mut frame = BytesMut::new();
                encode_credit(self.id.into(), Stream::Outward, credit, &mut frame);
                if self.courier.send(frame).await.is_err() {
                    return;
                }
            }
        }
        // The other end is gone if it fails.
        let _ = pipeline.shutdown().await;
    }

    /// Pipeline to program, until its end of file.
    async fn inward(&self, pipeline: &mut ReadHalf<DuplexStream>) -> Result<(), Over> {
        let mut buffer = vec![0; DATA_BYTES_MAX];
        loop {
            let count = pipeline.read(&mut buffer).await.map_err(|_| Over)?;
            let mut bytes = buffer.get(..count).unwrap_or_default();
            let mut frame = BytesMut::new();
            if bytes.is_empty() {
                encode_end_of_file(self.id.into(), Stream::Inward, &mut frame);
                return self.courier.send(frame).await;
            }
            while !bytes.is_empty() {
                let taken = self.take_credit(bytes.len()).await?;
                let (now, later) = bytes.split_at_checked(taken).unwrap_or((bytes, &[]));
                let mut frame = BytesMut::new();
                encode_data(self.id.into(), Stream::Inward, now, &mut frame);
                self.courier.send(frame).await?;
                bytes = later;
            }
        }
    }

    async fn take_credit(&self, wanted: usize) -> Result<usize, Over> {
        loop {
            let taken = {
                let mut table = self.courier.table();
                table
                    .open
                    .get_mut(&self.id)
                    .ok_or(Over)?
                    .inward
                    .take(wanted)
            };
            if taken > 0 {
                return Ok(taken);
            }
            self.grown.notified().await;
        }
    }
}

/// The pipeline's end of a connection.
pub(super) struct Couriered {
    stream: DuplexStream,
    is_cut: Arc<AtomicBool>,
    _dropped: oneshot::Sender<()>,
}

/// The link's end.
struct Far {
    stream: DuplexStream,
    is_cut: Arc<AtomicBool>,
    dropped: oneshot::Receiver<()>,
}

fn carried() -> (Couriered, Far) {
    let (near, far) = tokio::io::duplex(BETWEEN_BYTES);
    let (alive, dropped) = oneshot::channel();
    let is_cut = Arc::new(AtomicBool::new(false));
    let couriered = Couriered {
        stream: near,
        is_cut: Arc::clone(&is_cut),
        _dropped: alive,
    };
    let far = Far {
        stream: far,
        is_cut,
        dropped,
    };
    (couriered, far)
}

impl Peer for Couriered {
    fn reset_on_close(&self) {
        self.is_cut.store(true, Ordering::Release);
    }
}

impl AsyncRead for Couriered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Couriered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
