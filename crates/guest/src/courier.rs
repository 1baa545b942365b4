// SPDX-License-Identifier: Apache-2.0
//! The workload's connections, where the network stack is the machine's own: each that lands on one
//! of the agent's sockets is carried over the link to the gate, which serves it as if it had been
//! dialled there. Nothing is decided here.

mod carry;

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket as StdUdpSocket};
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::bail;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use torno_guest_protocol::dns::QUERY_BYTES_MAX;
use torno_guest_protocol::{CONNECTIONS_MAX, ConnectionId, Entry, Frame, HostMessage, Stream};

use crate::link::Sender;
use crate::machine::Listeners;
use carry::Carried;

/// Every connection that is carried.
#[derive(Debug)]
pub(crate) struct Courier {
    host: Sender,
    room: Arc<Semaphore>,
    table: Mutex<Table>,
    /// Held from a connection's number to the word of it: on a link that is full one that is told
    /// later could be queued earlier.
    opening: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Table {
    open: HashMap<ConnectionId, Arc<Carried>>,
    next: u32,
}

impl Courier {
    /// Serves the sockets from now on.
    pub(crate) fn start(listeners: Listeners, host: Sender) -> anyhow::Result<Arc<Self>> {
        let courier = Arc::new(Self {
            host,
            room: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            table: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
        });
        let [v4, v6] = listeners.captured;
        let served = [
            (v4, Way::Captured),
            (v6, Way::Captured),
            (listeners.proxy, Way::Proxy),
            (listeners.name_tcp, Way::NameServer),
        ];
        for (listener, way) in served {
            listener.set_nonblocking(true)?;
            let listener = TcpListener::from_std(listener)?;
            tokio::spawn(Arc::clone(&courier).listen(listener, way));
        }
        let questions = questions(listeners.name_udp)?;
        tokio::spawn(Arc::clone(&courier).answer(questions));
        Ok(courier)
    }

    async fn listen(self: Arc<Self>, listener: TcpListener, way: Way) {
        loop {
            // Beyond the limit a dial waits in the kernel's queue.
            let Ok(place) = Arc::clone(&self.room).acquire_owned().await else {
                return;
            };
            match listener.accept().await {
                Ok((stream, _)) => {
                    // Small answers must not wait; a socket without it works too.
                    let _slower = stream.set_nodelay(true);
                    if let Some(entry) = way.entry(&stream) {
                        tokio::spawn(Arc::clone(&self).carry(stream, entry, place));
                    }
                }
                // Descriptors are used up: others will be closed.
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    /// Questions that came in datagrams, each carried like one over TCP.
    async fn answer(self: Arc<Self>, socket: Arc<UdpSocket>) {
        let mut question = [0; QUERY_BYTES_MAX + 1];
        loop {
            let Ok((count, from)) = socket.recv_from(&mut question).await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let asked = question.get(..count).unwrap_or_default().to_vec();
            // A datagram may be lost; the client asks again.
            if asked.len() <= QUERY_BYTES_MAX
                && let Ok(place) = Arc::clone(&self.room).try_acquire_owned()
            {
                tokio::spawn(Arc::clone(&self).ask(Arc::clone(&socket), asked, from, place));
            }
        }
    }

    async fn ask(
        self: Arc<Self>,
        socket: Arc<UdpSocket>,
        question: Vec<u8>,
        from: SocketAddr,
        place: OwnedSemaphorePermit,
    ) {
        let (mut near, far) = tokio::io::duplex(QUESTION_BYTES);
        tokio::spawn(self.carry(far, Entry::NameServer {}, place));
        let answered = async {
            near.write_u16(u16::try_from(question.len()).unwrap_or_default())
                .await?;
            near.write_all(&question).await?;
            let mut answer = vec![0; usize::from(near.read_u16().await?)];
            near.read_exact(&mut answer).await?;
            socket.send_to(&answer, from).await
        };
        // A question that is no question has no answer.
        let _unanswered = tokio::time::timeout(QUESTION_WAIT, answered).await;
    }

    /// One frame of a connection's streams.
    pub(crate) fn take(&self, frame: &Frame<HostMessage>) -> anyhow::Result<()> {
        match frame {
            Frame::Data {
                channel,
                stream: Stream::Inward,
                bytes,
            } => {
                if let Some(carried) = self.find(ConnectionId(channel.0))? {
                    carried.inlet.accept(bytes)?;
                }
            }
            Frame::EndOfFile {
                channel,
                stream: Stream::Inward,
            } => {
                if let Some(carried) = self.find(ConnectionId(channel.0))? {
                    carried.inlet.end()?;
                }
            }
            Frame::Credit {
                channel,
                stream: Stream::Outward,
                bytes,
            } => {
                if let Some(carried) = self.find(ConnectionId(channel.0))? {
                    carried.outlet.grant(*bytes)?;
                }
            }
            _ => bail!("the host used a connection's stream the wrong way"),
        }
        Ok(())
    }

    /// The host wants nothing more of it.
    pub(crate) fn close(&self, connection: ConnectionId, reset: bool) -> anyhow::Result<()> {
        if let Some(carried) = self.find(connection)? {
            carried.close(reset);
        }
        Ok(())
    }

    /// One that is carried; what comes late for one that is over is dropped.
    fn find(&self, connection: ConnectionId) -> anyhow::Result<Option<Arc<Carried>>> {
        let table = self.lock();
        if connection.0 >= table.next {
            bail!("the host used connection {} before it began", connection.0);
        }
        Ok(table.open.get(&connection).cloned())
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // The table is consistent after every statement, so a poisoned lock is still good.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a frame is about a connection.
pub(crate) fn is_carried(frame: &Frame<HostMessage>) -> bool {
    match frame {
        Frame::Control(_) => false,
        Frame::Data { stream, .. }
        | Frame::EndOfFile { stream, .. }
        | Frame::Credit { stream, .. } => matches!(stream, Stream::Outward | Stream::Inward),
    }
}

/// Which socket it landed on.
#[derive(Clone, Copy, Debug)]
enum Way {
    Captured,
    Proxy,
    NameServer,
}

impl Way {
    fn entry(self, stream: &TcpStream) -> Option<Entry> {
        match self {
            Self::Captured => {
                let destination = original_destination(stream)?;
                Some(Entry::Captured { destination })
            }
            Self::Proxy => Some(Entry::Proxy {}),
            Self::NameServer => Some(Entry::NameServer {}),
        }
    }
}

/// Where the program dialled to, as the kernel's redirect remembers it (SO_ORIGINAL_DST).
fn original_destination(stream: &TcpStream) -> Option<SocketAddr> {
    use rustix::net::sockopt::{ip_original_dst, ipv6_original_dst};
    match stream.local_addr().ok()? {
        SocketAddr::V4(_) => ip_original_dst(stream.as_fd()).ok().map(SocketAddr::V4),
        SocketAddr::V6(_) => ipv6_original_dst(stream.as_fd()).ok().map(SocketAddr::V6),
    }
}

fn questions(socket: StdUdpSocket) -> std::io::Result<Arc<UdpSocket>> {
    socket.set_nonblocking(true)?;
    Ok(Arc::new(UdpSocket::from_std(socket)?))
}

/// After a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
// LIMIT: one question or answer behind its length; longer ones go piece by piece.
const QUESTION_BYTES: usize = 2 * 1024;
// LIMIT: the stub answers at once; a resolver asks again after some seconds.
const QUESTION_WAIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
