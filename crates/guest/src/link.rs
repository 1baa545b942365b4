// SPDX-License-Identifier: Apache-2.0
//! The link: the one descriptor that leads out of the sandbox, taken from standard input, or in a
//! virtual machine the port to its host, and kept from every other process. Frames leave in the
//! order they were queued.

mod port;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;

use anyhow::{Context as _, bail};
use bytes::BytesMut;
use rustix::fs::{Mode, OFlags};
use rustix::net::AddressFamily;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use torno_guest_protocol::{
    ChannelId, FrameError, GuestMessage, Stream, encode_control, encode_credit, encode_data,
    encode_end_of_file,
};

/// Takes what standard input is, and leaves /dev/null there, so that no child inherits it.
pub(crate) fn take_standard_input() -> io::Result<OwnedFd> {
    let taken = io::stdin().as_fd().try_clone_to_owned()?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(null)?;
    Ok(taken)
}

/// What the host says.
pub(crate) type Reader = Box<dyn AsyncRead + Send + Unpin>;
/// What it is told.
pub(crate) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// Makes the link of a machine's port, of the agent's standard input elsewhere.
pub(crate) fn open(port: Option<OwnedFd>) -> anyhow::Result<(Reader, Writer)> {
    match port {
        Some(port) => {
            let (reader, writer) = port::halves(port)?;
            Ok((Box::new(reader), Box::new(writer)))
        }
        None => {
            let (reader, writer) = open_standard_input()?.into_split();
            Ok((Box::new(reader), Box::new(writer)))
        }
    }
}

/// A connected unix stream socket and nothing else.
fn open_standard_input() -> anyhow::Result<UnixStream> {
    let taken = take_standard_input().context("cannot take the link from standard input")?;
    let is_unix = rustix::net::getsockname(&taken)
        .is_ok_and(|address| address.address_family() == AddressFamily::UNIX);
    let is_stream = rustix::net::sockopt::socket_type(&taken)
        .is_ok_and(|kind| kind == rustix::net::SocketType::STREAM);
    if !is_unix || !is_stream || rustix::net::getpeername(&taken).is_err() {
        bail!("standard input is no connected unix stream socket; the launcher must give the link");
    }
    let socket = StdUnixStream::from(taken);
    socket.set_nonblocking(true)?;
    Ok(UnixStream::from_std(socket)?)
}

/// Queues frames for the host; a clone for every producer.
#[derive(Clone, Debug)]
pub(crate) struct Sender(mpsc::Sender<BytesMut>);

/// The host is gone, and the agent about to end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkClosed;

#[cfg(test)]
impl Sender {
    /// One whose frames are read by a test.
    pub(crate) fn to_a_test() -> (Self, mpsc::Receiver<BytesMut>) {
        let (sender, frames) = mpsc::channel(FRAMES_MAX);
        (Self(sender), frames)
    }
}

impl Sender {
    /// Queues a message.
    pub(crate) async fn control(&self, message: &GuestMessage) -> Result<(), LinkClosed> {
        let mut frame = BytesMut::new();
        match encode_control(message, &mut frame) {
            Ok(()) => self.send(frame).await,
            // INVARIANT: all variable parts are bounded below a control frame's limit; if not,
            // ending the session beats leaving the host waiting.
            Err(FrameError::MessageTooLong | _) => Err(LinkClosed),
        }
    }

    /// Queues bytes of a stream; the caller has credit.
    pub(crate) async fn data(
        &self,
        channel: ChannelId,
        stream: Stream,
        bytes: &[u8],
    ) -> Result<(), LinkClosed> {
        let mut frame = BytesMut::new();
        encode_data(channel, stream, bytes, &mut frame);
        self.send(frame).await
    }

    /// Queues the end of a stream.
    pub(crate) async fn end_of_file(
        &self,
        channel: ChannelId,
        stream: Stream,
    ) -> Result<(), LinkClosed> {
        let mut frame = BytesMut::new();
        encode_end_of_file(channel, stream, &mut frame);
        self.send(frame).await
    }

    /// Queues credit for the host.
    pub(crate) async fn credit(
        &self,
        channel: ChannelId,
        stream: Stream,
        bytes: u32,
    ) -> Result<(), LinkClosed> {
        let mut frame = BytesMut::new();
        encode_credit(channel, stream, bytes, &mut frame);
        self.send(frame).await
    }

    async fn send(&self, frame: BytesMut) -> Result<(), LinkClosed> {
        self.0.send(frame).await.map_err(|_| LinkClosed)
    }
}

/// Starts the task that writes; it ends when the host is gone or the last sender dropped.
pub(crate) fn start_writer(mut link: Writer) -> (Sender, tokio::task::JoinHandle<()>) {
    let (sender, mut frames) = mpsc::channel::<BytesMut>(FRAMES_MAX);
    let task = tokio::spawn(async move {
        while let Some(frame) = frames.recv().await {
            if link.write_all(&frame).await.is_err() {
                return;
            }
        }
    });
    (Sender(sender), task)
}

// LIMIT: keeps the socket full (32 KiB a frame at most) without holding more than half a megabyte.
const FRAMES_MAX: usize = 16;
