// SPDX-License-Identifier: Apache-2.0
//! One packet, one message, perhaps descriptors: a `SOCK_SEQPACKET` unix socket (unix(7)).
//! Used between roles, and by the CLI towards desk and notary. Never towards a sandbox.

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::cell::RefCell;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use tokio::io::Interest;
use tokio::net::{UnixListener, UnixStream};

/// LIMIT: one packet; the default socket buffer (208 KiB) takes it whole.
pub const PACKET_BYTES_MAX: usize = 128 * 1024;
/// LIMIT: descriptors in one packet; a gate's start needs the most.
pub const DESCRIPTORS_MAX: usize = 16;

/// A connected packet socket. Tokio's stream type only keeps and watches the descriptor here; it
/// does not mind the socket's type.
#[derive(Debug)]
pub struct Channel {
    socket: UnixStream,
}

/// A packet as it came.
#[derive(Debug)]
pub struct Packet {
    /// Its bytes; the vector holds nothing else.
    pub bytes: Vec<u8>,
    /// Its descriptors, close-on-exec.
    pub descriptors: Vec<OwnedFd>,
}

/// Two connected ends, close-on-exec, for handing to two roles.
///
/// # Errors
/// When the kernel refuses a socket pair.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

/// A listening packet socket at `path`, mode 0600, close-on-exec.
///
/// # Errors
/// When the path can't be bound.
pub fn listen(path: &Path) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::fs::chmod(path, rustix::fs::Mode::from_raw_mode(0o600))?;
    rustix::net::listen(&socket, 64)?;
    Ok(socket)
}

/// Who connected, as the kernel says (`SO_PEERCRED`, unix(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
}

/// Accepts connections on a listening packet socket.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
}

impl Listener {
    /// Takes a listening socket.
    ///
    /// # Errors
    /// When it can't be watched.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        let socket = std::os::unix::net::UnixListener::from(socket);
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket: UnixListener::from_std(socket)?,
        })
    }

    /// The next connection and whose it is.
    ///
    /// # Errors
    /// When accepting fails.
    pub async fn accept(&self) -> io::Result<(Channel, Peer)> {
        let (socket, _) = self.socket.accept().await?;
        let credentials = socket.peer_cred()?;
        let peer = Peer {
            uid: credentials.uid(),
            gid: credentials.gid(),
        };
        Ok((Channel { socket }, peer))
    }
}

impl Channel {
    /// Takes a connected packet socket.
    ///
    /// # Errors
    /// When it can't be watched.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        let socket = std::os::unix::net::UnixStream::from(socket);
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket: UnixStream::from_std(socket)?,
        })
    }

    /// Connects to a listening packet socket of root or of our own user: anybody else's is not
    /// told a secret. ATTACK: 149
    ///
    /// # Errors
    /// When nobody listens there, or somebody else does.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let channel = Self::connect_to_anybody(path)?;
        let listener = channel.socket.peer_cred()?.uid();
        if [0, rustix::process::geteuid().as_raw()].contains(&listener) {
            return Ok(channel);
        }
        let kind = io::ErrorKind::PermissionDenied;
        Err(io::Error::new(
            kind,
            format!("uid {listener} listens there, which is neither root nor you"),
        ))
    }

    /// The same, whoever listens: for what harms nobody, as a kill.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn connect_to_anybody(path: &Path) -> io::Result<Self> {
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
        Self::new(socket)
    }

    /// Sends one packet.
    ///
    /// # Errors
    /// When it is too large, or the peer is gone.
    pub async fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        if bytes.len() > PACKET_BYTES_MAX || descriptors.len() > DESCRIPTORS_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "packet over its limit",
            ));
        }
        let send = || send_packet(self.socket.as_fd(), bytes, descriptors);
        self.socket.async_io(Interest::WRITABLE, send).await
    }

    /// Ends the connection both ways, for whoever else holds it too.
    pub fn close(&self) {
        // A connection that the peer ended already is closed.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    /// Whether the peer closed, whatever it sent before.
    ///
    /// # Errors
    /// When the socket can't be asked.
    pub fn is_closed(&self) -> io::Result<bool> {
        is_closed(self.socket.as_fd())
    }

    /// Receives one packet; `None` when the peer closed.
    ///
    /// # Errors
    /// `InvalidData` when the packet was larger than the limit (it is refused whole) or empty;
    /// otherwise the peer is gone.
    pub async fn receive(&self) -> io::Result<Option<Packet>> {
        self.socket
            .async_io(Interest::READABLE, || receive_packet(self.socket.as_fd()))
            .await
    }
}

/// Sends one packet on a socket that may block.
///
/// # Errors
/// When the peer is gone.
pub fn send_packet(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    if descriptors.is_empty() {
        // Not sendmsg(2): a role that hands out no descriptor does without that call.
        rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?;
        return Ok(());
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    rustix::net::sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// Receives one packet on a socket that may block; `None` when the peer closed.
///
/// # Errors
/// `InvalidData` when the packet was larger than the limit or empty; otherwise the peer is gone.
pub fn receive_packet(socket: BorrowedFd<'_>) -> io::Result<Option<Packet>> {
    ROOM.with_borrow_mut(|room| receive_into(socket, room))
}

thread_local! {
    /// Room for the largest packet and a byte, made once for each thread and all zeroes between
    /// packets: what comes is copied out in its own size, so that a credential in it leaves nothing
    /// behind and who wipes a packet wipes no more than that.
    static ROOM: RefCell<Vec<u8>> = RefCell::new(vec![0; PACKET_BYTES_MAX + 1]);
}

fn receive_into(socket: BorrowedFd<'_>, room: &mut [u8]) -> io::Result<Option<Packet>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let got = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(room)], &mut ancillary, flags)?;
    let came = room.get_mut(..got.bytes).unwrap_or_default();
    let bytes = came.to_vec();
    // Not a dead store that could be left out: the next packet's system call sees this memory.
    came.fill(0);
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    if got.bytes > PACKET_BYTES_MAX {
        return Err(invalid("packet over its limit"));
    }
    if got.bytes == 0 && descriptors.is_empty() {
        // recvmsg(2) says the same of a closed peer and of a packet without bytes.
        return if is_closed(socket)? {
            Ok(None)
        } else {
            Err(invalid("packet without bytes"))
        };
    }
    Ok(Some(Packet { bytes, descriptors }))
}

fn is_closed(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let mut watched = [PollFd::from_borrowed_fd(socket, PollFlags::RDHUP)];
    rustix::event::poll(&mut watched, Some(&Timespec::default()))?;
    let [watched] = watched;
    Ok(watched
        .revents()
        .intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR))
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn packets_keep_their_borders_and_descriptors() {
        let (a, b) = pair().unwrap();
        let (a, b) = (Channel::new(a).unwrap(), Channel::new(b).unwrap());
        let file = std::fs::File::open("/dev/null").unwrap();
        a.send(b"one", &[file.as_fd()]).await.unwrap();
        a.send(b"two", &[]).await.unwrap();
        let first = b.receive().await.unwrap().unwrap();
        assert_eq!(
            (first.bytes.as_slice(), first.descriptors.len()),
            (&b"one"[..], 1)
        );
        let second = b.receive().await.unwrap().unwrap();
        assert_eq!(
            (second.bytes.as_slice(), second.descriptors.len()),
            (&b"two"[..], 0)
        );
        a.send(b"three", &[]).await.unwrap();
        assert!(!b.is_closed().unwrap());
        drop(a);
        assert!(b.is_closed().unwrap());
        assert_eq!(b.receive().await.unwrap().unwrap().bytes, b"three");
        assert!(b.receive().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_packet_comes_in_its_own_size_and_leaves_nothing_where_it_was_received() {
        let (a, b) = pair().unwrap();
        send_packet(a.as_fd(), &[7; 5000], &[]).unwrap();
        send_packet(a.as_fd(), b"second", &[]).unwrap();
        let first = receive_packet(b.as_fd()).unwrap().unwrap();
        assert_eq!((first.bytes.len(), first.bytes.capacity()), (5000, 5000));
        ROOM.with_borrow(|room| assert!(room.iter().all(|byte| *byte == 0)));
        let second = receive_packet(b.as_fd()).unwrap().unwrap();
        assert_eq!(second.bytes, b"second");
    }

    #[tokio::test]
    async fn a_packet_over_the_limit_is_refused_whole_and_leaves_nothing() {
        let (a, b) = pair().unwrap();
        send_packet(a.as_fd(), &[7; PACKET_BYTES_MAX + 1], &[]).unwrap();
        assert!(receive_packet(b.as_fd()).is_err());
        ROOM.with_borrow(|room| assert!(room.iter().all(|byte| *byte == 0)));
    }

    #[tokio::test]
    async fn a_packet_over_the_limit_is_not_sent() {
        let (a, _b) = pair().unwrap();
        let a = Channel::new(a).unwrap();
        assert!(a.send(&vec![0; PACKET_BYTES_MAX + 1], &[]).await.is_err());
        a.send(&vec![0; PACKET_BYTES_MAX], &[]).await.unwrap();
    }

    #[tokio::test]
    async fn a_packet_without_bytes_is_no_end() {
        let (a, b) = pair().unwrap();
        let (a, b) = (Channel::new(a).unwrap(), Channel::new(b).unwrap());
        a.send(b"", &[]).await.unwrap();
        let refused = b.receive().await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        a.send(b"still here", &[]).await.unwrap();
        assert!(b.receive().await.unwrap().is_some());
        a.close();
        assert!(b.receive().await.unwrap().is_none());
    }
}
