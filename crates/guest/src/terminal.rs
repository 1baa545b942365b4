// SPDX-License-Identifier: Apache-2.0
//! The agent's side of a pseudo-terminal: made, sized, read and written without blocking.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, ptsname, unlockpt};
use rustix::termios::{SpecialCodeIndex, Winsize, tcgetattr, tcsetwinsize};
use tokio::io::unix::AsyncFd;
use torno_guest_protocol::TerminalSize;

/// A terminal's master side.
#[derive(Debug)]
pub(crate) struct Terminal {
    master: AsyncFd<OwnedFd>,
}

impl Terminal {
    /// Makes a terminal; gives the slave for the program too.
    pub(crate) fn open(size: TerminalSize) -> io::Result<(Self, OwnedFd)> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let peer = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let slave = match ioctl_tiocgptpeer(&master, peer) {
            Ok(slave) => slave,
            // gVisor lacks the request; by name it is the same, in a /dev/pts that is our own.
            Err(_) => {
                let name = ptsname(&master, Vec::new())?;
                let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
                rustix::fs::open(name, flags, rustix::fs::Mode::empty())?
            }
        };
        fcntl_setfl(&master, fcntl_getfl(&master)? | OFlags::NONBLOCK)?;
        #[expect(
            deprecated,
            reason = "INVARIANT: an OwnedFd keeps its number while it is owned; the new name is unsafe"
        )]
        let terminal = Self {
            master: AsyncFd::new(master)?,
        };
        terminal.resize(size)?;
        Ok((terminal, slave))
    }

    /// Changes the size; the foreground processes get SIGWINCH.
    pub(crate) fn resize(&self, size: TerminalSize) -> io::Result<()> {
        let size = Winsize {
            ws_row: size.rows,
            ws_col: size.columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        Ok(tcsetwinsize(&self.master, size)?)
    }

    /// Reads what the programs wrote; 0 once no process holds the terminal.
    pub(crate) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.master.readable().await?;
            match ready.try_io(|master| Ok(rustix::io::read(master, &mut *buffer)?)) {
                Ok(Err(error)) if error.raw_os_error() == Some(EIO) => return Ok(0),
                Ok(result) => return result,
                Err(_would_block) => {}
            }
        }
    }

    /// Types all of `bytes`.
    pub(crate) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let mut ready = self.master.writable().await?;
            match ready.try_io(|master| Ok(rustix::io::write(master, bytes)?)) {
                Ok(count) => bytes = bytes.get(count?..).unwrap_or_default(),
                Err(_would_block) => {}
            }
        }
        Ok(())
    }

    /// Types the terminal's end-of-file character.
    pub(crate) async fn write_end(&self) -> io::Result<()> {
        let code = tcgetattr(&self.master)?.special_codes[SpecialCodeIndex::VEOF];
        self.write_all(&[code]).await
    }
}

const EIO: i32 = rustix::io::Errno::IO.raw_os_error();
