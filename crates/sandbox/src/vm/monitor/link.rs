// SPDX-License-Identifier: Apache-2.0
//! The link of a machine that dials it. The guest dials a port of its host by vsock; the monitor
//! connects to the socket of that port's name in its own directory; there the launcher listens,
//! for one connection of that monitor's and no other.

use super::jail::LINK_NAME;
use crate::cgroup::Cgroup;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::Permissions;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thiserror::Error;

/// The port that the agent dials. Nobody listens at any other, nor at this one after its first
/// connection, so that what else a guest dials is refused by its monitor.
pub(crate) const LINK_PORT: u32 = 52;

/// Why there is no link.
#[derive(Debug, Error)]
pub enum LinkError {
    /// The socket.
    #[error("the socket for the machine's link failed")]
    Socket(#[source] io::Error),
    /// Nobody dialled.
    #[error("the machine did not start within {} s", .0.as_secs())]
    Late(Duration),
    /// The monitor is gone.
    #[error("the monitor ended before the machine had started")]
    Ended,
    /// Somebody else dialled.
    #[error("process {0} is not the machine's monitor, and dialled its link")]
    Stranger(i32),
    /// A second connection waits beside the first.
    #[error("the machine dialled its link more than once")]
    Twice,
}

/// Where the link is awaited. Dropped, nobody can dial any more.
#[derive(Debug)]
pub(super) struct LinkSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl LinkSocket {
    /// Listens in the monitor's own directory.
    pub(super) fn listen(directory: BorrowedFd<'_>) -> Result<Self, LinkError> {
        let path = below(directory, &format!("{LINK_NAME}_{LINK_PORT}"));
        let listener = UnixListener::bind(&path).map_err(LinkError::Socket)?;
        // The directory is the monitor's alone; nobody else comes this far.
        std::fs::set_permissions(&path, Permissions::from_mode(0o666))
            .and_then(|()| listener.set_nonblocking(true))
            .map_err(LinkError::Socket)?;
        Ok(Self { listener, path })
    }

    /// The one connection.
    pub(super) fn accept(
        self,
        monitor: BorrowedFd<'_>,
        group: &Cgroup,
        wait: Duration,
    ) -> Result<OwnedFd, LinkError> {
        let deadline = Instant::now() + wait;
        loop {
            match self.listener.accept() {
                Ok((link, _)) => return self.check(link, group),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(LinkError::Socket(error)),
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(LinkError::Late(wait));
            }
            let mut watched = [
                PollFd::new(&self.listener, PollFlags::IN),
                PollFd::from_borrowed_fd(monitor, PollFlags::IN),
            ];
            let left = Timespec::try_from(left).map_err(|_| LinkError::Late(wait))?;
            poll(&mut watched, Some(&left)).map_err(|error| LinkError::Socket(error.into()))?;
            let [dialled, ended] = &watched;
            if dialled.revents().is_empty() && !ended.revents().is_empty() {
                return Err(LinkError::Ended);
            }
        }
    }

    /// From the monitor itself, and the only one: a second could be another guest's idea.
    fn check(self, link: UnixStream, group: &Cgroup) -> Result<OwnedFd, LinkError> {
        let peer = rustix::net::sockopt::socket_peercred(&link)
            .map_err(|error| LinkError::Socket(error.into()))?;
        let pid = peer.pid.as_raw_nonzero().get();
        if !group.members().contains(&pid) {
            return Err(LinkError::Stranger(pid));
        }
        match self.listener.accept() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(_) => return Err(LinkError::Twice),
            Err(error) => return Err(LinkError::Socket(error)),
        }
        Ok(link.into())
    }
}

impl Drop for LinkSocket {
    fn drop(&mut self) {
        // The directory goes with the sandbox in any case.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A name in a directory that no path of ours leads to.
pub(super) fn below(directory: BorrowedFd<'_>, name: &str) -> PathBuf {
    Path::new("/proc/self/fd")
        .join(directory.as_raw_fd().to_string())
        .join(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{PidfdFlags, getpid, pidfd_open};
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn a_link_from_elsewhere_or_none_at_all_is_no_link_and_the_socket_is_gone() {
        let place = tempfile::tempdir().unwrap();
        let directory = File::open(place.path()).unwrap();
        let socket = place.path().join("link.sock_52");
        let monitor = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
        let nobody = Cgroup::of_directories(Vec::new());
        let accept = |dials: bool| {
            let link = LinkSocket::listen(directory.as_fd()).unwrap();
            let _dialled = dials.then(|| UnixStream::connect(&socket).unwrap());
            link.accept(monitor.as_fd(), &nobody, Duration::from_millis(20))
        };
        let own = getpid().as_raw_nonzero().get();
        assert!(matches!(accept(true), Err(LinkError::Stranger(pid)) if pid == own));
        assert!(!socket.exists());
        assert!(matches!(accept(false), Err(LinkError::Late(_))));
        assert!(!socket.exists());
    }
}
