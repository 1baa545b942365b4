// SPDX-License-Identifier: Apache-2.0
//! One connection, carried both ways under the windows' credit until both ends are done, one of
//! them broke, or the host wants nothing more of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadHalf,
    WriteHalf, split,
};
use tokio::net::TcpStream;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use torno_guest_protocol::{ConnectionId, DATA_BYTES_MAX, Entry, GuestMessage, Stream};

use super::Courier;
use crate::link::LinkClosed;
use crate::stream::{Arrival, Inlet, Outlet};

/// A connection's streams, as the link's reader sees them.
#[derive(Debug, Default)]
pub(super) struct Carried {
    pub(super) inlet: Inlet,
    pub(super) outlet: Outlet,
    is_cut: AtomicBool,
    cut: Notify,
}

impl Carried {
    /// Sends nothing more; what came before is still written. Of a connection that was cut no more
    /// than its end takes at once: what a far end's last word is comes before a cut.
    pub(super) fn close(&self, reset: bool) {
        if reset {
            self.is_cut.store(true, Ordering::Release);
            self.inlet.cut();
            self.cut.notify_one();
        }
        self.outlet.cancel();
    }

    /// Waits until it was cut and its end had time for what came before.
    async fn cut_is_over(&self) {
        self.cut.notified().await;
        tokio::time::sleep(CUT_WAIT).await;
    }
}

// LIMIT: whose end reads what came has taken it by then; whose end doesn't loses it.
const CUT_WAIT: Duration = Duration::from_millis(200);

/// The workload's end.
pub(super) trait Local: AsyncRead + AsyncWrite + Send + Unpin + 'static {
    /// Makes its close a reset, where that exists.
    fn reset_on_close(&self) {}
}

impl Local for TcpStream {
    fn reset_on_close(&self) {
        // Without it the connection still ends at once, only with a FIN.
        let _ended = self.set_zero_linger();
    }
}

impl Local for DuplexStream {}

/// One way is broken, and with it the connection.
struct Broken;

impl Courier {
    /// Carries one connection to its end; `place` is free again then.
    pub(super) async fn carry<L: Local>(
        self: Arc<Self>,
        local: L,
        entry: Entry,
        place: OwnedSemaphorePermit,
    ) {
        let carried = Arc::new(Carried::default());
        let Some((connection, told)) = self.open(&carried, entry).await else {
            return;
        };
        if told.is_ok() {
            let (mut reader, mut writer) = split(local);
            let both = async {
                tokio::try_join!(
                    self.outward(connection, &carried, &mut reader),
                    self.inward(connection, &carried, &mut writer),
                )
            };
            let is_broken = tokio::select! {
                both = both => both.is_err(),
                () = carried.cut_is_over() => true,
            };
            let local = reader.unsplit(writer);
            if is_broken || carried.is_cut.load(Ordering::Acquire) {
                local.reset_on_close();
            }
        }
        self.lock().open.remove(&connection);
        // When the link is closed the agent is about to end.
        let _closed = self
            .host
            .control(&GuestMessage::ConnectionClosed { connection })
            .await;
        drop(place);
    }

    /// The host hears of the numbers in their order.
    async fn open(
        &self,
        carried: &Arc<Carried>,
        entry: Entry,
    ) -> Option<(ConnectionId, Result<(), LinkClosed>)> {
        let _opening = self.opening.lock().await;
        let connection = self.enter(carried)?;
        let opened = GuestMessage::ConnectionOpened { connection, entry };
        Some((connection, self.host.control(&opened).await))
    }

    fn enter(&self, carried: &Arc<Carried>) -> Option<ConnectionId> {
        let mut table = self.lock();
        let connection = ConnectionId(table.next);
        table.next = table.next.checked_add(1)?;
        table.open.insert(connection, Arc::clone(carried));
        Some(connection)
    }

    async fn outward<L: Local>(
        &self,
        connection: ConnectionId,
        carried: &Carried,
        local: &mut ReadHalf<L>,
    ) -> Result<(), Broken> {
        let mut buffer = vec![0; DATA_BYTES_MAX];
        while let Some(count) = self.read(carried, local, &mut buffer).await? {
            let bytes = buffer.get(..count).unwrap_or_default();
            if bytes.is_empty() {
                let ended = self
                    .host
                    .end_of_file(connection.into(), Stream::Outward)
                    .await;
                return ended.map_err(|_| Broken);
            }
            carried.outlet.take(count);
            let sent = self
                .host
                .data(connection.into(), Stream::Outward, bytes)
                .await;
            sent.map_err(|_| Broken)?;
        }
        Ok(())
    }

    /// Reads as much as there is credit for; `None` when nobody wants it any more.
    async fn read<L: Local>(
        &self,
        carried: &Carried,
        local: &mut ReadHalf<L>,
        buffer: &mut [u8],
    ) -> Result<Option<usize>, Broken> {
        let Some(room) = carried.outlet.room().await else {
            return Ok(None);
        };
        let part = buffer.get_mut(..room).unwrap_or_default();
        tokio::select! {
            count = local.read(part) => count.map(Some).map_err(|_| Broken),
            () = carried.outlet.cancelled() => Ok(None),
        }
    }

    async fn inward<L: Local>(
        &self,
        connection: ConnectionId,
        carried: &Carried,
        local: &mut WriteHalf<L>,
    ) -> Result<(), Broken> {
        loop {
            match carried.inlet.next().await {
                Arrival::Bytes(bytes) => {
                    local.write_all(&bytes).await.map_err(|_| Broken)?;
                    if let Some(credit) = carried.inlet.consume(bytes.len()) {
                        let sent = self
                            .host
                            .credit(connection.into(), Stream::Inward, credit)
                            .await;
                        sent.map_err(|_| Broken)?;
                    }
                }
                Arrival::End => return local.shutdown().await.map_err(|_| Broken),
                Arrival::Cancelled => return Ok(()),
            }
        }
    }
}
