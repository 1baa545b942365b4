// SPDX-License-Identifier: Apache-2.0
//! A link that is dialled: a port of the machine's host, by vsock(7).

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use socket2::{Domain, SockAddr, Socket, Type};

/// Dials the host, which listens before the machine runs; the device's driver may take a moment.
pub(super) fn host(port: u32, wait: Duration) -> anyhow::Result<OwnedFd> {
    let end = Instant::now() + wait;
    let host = SockAddr::vsock(HOST, port);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let socket = Socket::new(Domain::VSOCK, Type::STREAM, None).context("no vsock")?;
        match socket.connect_timeout(&host, left.max(STEP)) {
            Ok(()) => {
                socket.set_nonblocking(true)?;
                return Ok(socket.into());
            }
            // No driver has found the device yet.
            Err(error) if error.raw_os_error() == Some(NO_DEVICE) && Instant::now() < end => {
                std::thread::sleep(STEP);
            }
            Err(error) => return Err(error).context("the host does not answer"),
        }
    }
}

/// `VMADDR_CID_HOST`.
const HOST: u32 = 2;
/// `ENODEV`: there is no transport.
const NO_DEVICE: i32 = rustix::io::Errno::NODEV.raw_os_error();
const STEP: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_does_not_listen_is_an_error_in_time() {
        let began = Instant::now();
        // Whatever this kernel has of vsock: nobody listens here.
        let refused = host(0x5452_4e4f, Duration::from_millis(200));
        assert!(refused.is_err());
        assert!(began.elapsed() < Duration::from_secs(5));
    }
}
