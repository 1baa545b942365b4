// SPDX-License-Identifier: Apache-2.0
//! A monitor that runs → a machine that runs: the calls in their order, with the socket for the
//! link made before the last one, and the link that the machine dials. All of it is over before
//! the guest has said anything but that.

use super::call::{Call, CallError};
use super::jail::API_NAME;
use super::link::{LinkError, LinkSocket};
use crate::cgroup::Cgroup;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use thiserror::Error;

/// What a monitor is told once it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Orders {
    pub(super) name: &'static str,
    pub(super) calls: Vec<Call>,
}

/// Why a monitor made no machine.
#[derive(Debug, Error)]
pub enum MonitorError {
    /// Its interface is not there.
    #[error("{0} opened no interface in {API_SECONDS} s")]
    NoInterface(&'static str),
    /// It ended.
    #[error("{0} ended before it was told anything: its program does not run here")]
    Ended(&'static str),
    /// What it has in that place.
    #[error("{0} has something else in its interface's place")]
    Interface(&'static str, #[source] io::Error),
    /// A call.
    #[error("{0} was told what to make")]
    Call(&'static str, #[source] CallError),
    /// The link.
    #[error("{0} made no machine that works")]
    Link(&'static str, #[source] LinkError),
}

/// LIMIT: monitors open theirs within 10 ms; a busy host takes longer.
const API_SECONDS: u64 = 5;
/// LIMIT: for all calls together. Firecracker answers the last one once processors run.
const CALLS_WAIT: Duration = Duration::from_secs(10);
/// LIMIT: from the start to the agent's dial. Where processors virtualise, a stock kernel takes
/// less than a second, and a few of them under another hypervisor on a busy host.
pub(crate) const START_WAIT: Duration = Duration::from_secs(10);
/// Between two looks for the interface.
const STEP: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 2_000_000,
};

/// Tells the monitor, and takes the machine's link. `directory` is the monitor's own.
pub(crate) fn make(
    orders: &Orders,
    directory: BorrowedFd<'_>,
    monitor: BorrowedFd<'_>,
    group: &Cgroup,
) -> Result<OwnedFd, MonitorError> {
    let name = orders.name;
    await_interface(name, directory, monitor)?;
    let link = LinkSocket::listen(directory).map_err(|error| MonitorError::Link(name, error))?;
    let deadline = Instant::now() + CALLS_WAIT;
    for call in &orders.calls {
        let stream = connect(directory);
        let stream = stream.map_err(|error| MonitorError::Interface(name, error))?;
        call.tell(stream, deadline)
            .map_err(|error| MonitorError::Call(name, error))?;
    }
    link.accept(monitor, group, START_WAIT)
        .map_err(|error| MonitorError::Link(name, error))
}

fn await_interface(
    name: &'static str,
    directory: BorrowedFd<'_>,
    monitor: BorrowedFd<'_>,
) -> Result<(), MonitorError> {
    let deadline = Instant::now() + Duration::from_secs(API_SECONDS);
    loop {
        match connect(directory) {
            Ok(_) => return Ok(()),
            // Not made yet, or not listened at yet.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
                ) => {}
            Err(error) => return Err(MonitorError::Interface(name, error)),
        }
        let mut ended = [PollFd::from_borrowed_fd(monitor, PollFlags::IN)];
        if matches!(poll(&mut ended, Some(&STEP)), Ok(1..)) {
            return Err(MonitorError::Ended(name));
        }
        if Instant::now() > deadline {
            return Err(MonitorError::NoInterface(name));
        }
    }
}

/// Connects to the socket itself: a link in its place would lead to a socket of the host.
fn connect(directory: BorrowedFd<'_>) -> io::Result<UnixStream> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let socket = openat2(directory, API_NAME, flags, Mode::empty(), resolve)?;
    if FileType::from_raw_mode(fstat(&socket)?.st_mode) != FileType::Socket {
        return Err(io::Error::other("no socket"));
    }
    UnixStream::connect(format!("/proc/self/fd/{}", socket.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_link_or_a_file_in_the_interfaces_place_leads_nowhere() {
        let place = tempfile::tempdir().unwrap();
        let directory = File::open(place.path()).unwrap();
        let path = place.path().join(API_NAME);
        let _host = UnixListener::bind(place.path().join("host.sock")).unwrap();
        symlink("host.sock", &path).unwrap();
        assert!(connect(directory.as_fd()).is_err());
        fs::remove_file(&path).unwrap();
        fs::write(&path, "").unwrap();
        assert!(connect(directory.as_fd()).is_err());
        fs::remove_file(&path).unwrap();
        let missing = connect(directory.as_fd()).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        fs::rename(place.path().join("host.sock"), &path).unwrap();
        connect(directory.as_fd()).unwrap();
    }
}
