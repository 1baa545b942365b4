// SPDX-License-Identifier: Apache-2.0
//! A virtio-serial port as two halves of a byte stream. The device has no shutdown: the stream ends
//! when the host lets go of its end.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What comes from the host.
#[derive(Debug)]
pub(super) struct PortReader(Arc<AsyncFd<OwnedFd>>);

/// What goes to the host.
#[derive(Debug)]
pub(super) struct PortWriter(Arc<AsyncFd<OwnedFd>>);

/// Both halves of a port that was opened without blocking.
pub(super) fn halves(port: OwnedFd) -> io::Result<(PortReader, PortWriter)> {
    #[expect(
        deprecated,
        reason = "INVARIANT: an OwnedFd keeps its number while it is owned; the new name is unsafe"
    )]
    let port = Arc::new(AsyncFd::new(port)?);
    Ok((PortReader(Arc::clone(&port)), PortWriter(port)))
}

impl AsyncRead for PortReader {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.0.poll_read_ready(context))?;
            let space = buffer.initialize_unfilled();
            let read = guard.try_io(|port| Ok(rustix::io::read(port.get_ref(), &mut *space)?));
            match read {
                Ok(count) => {
                    buffer.advance(count?);
                    return Poll::Ready(Ok(()));
                }
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for PortWriter {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.0.poll_write_ready(context))?;
            let written = guard.try_io(|port| Ok(rustix::io::write(port.get_ref(), bytes)?));
            if let Ok(written) = written {
                return Poll::Ready(written);
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
