// SPDX-License-Identifier: Apache-2.0
//! QEMU's monitor, as far as a machine is stopped and restored by it (QMP: lines of JSON). It is
//! spoken while no user code can have run, and closed before any does: what QEMU says after that
//! would be the guest's words. Each line is bounded, and is one of four kinds or the end.

use rustix::net::{
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg, sockopt::set_socket_timeout,
};
use serde_json::Value;
use std::io::{self, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use thiserror::Error;

/// LIMIT: the longest line of the few answers is the greeting with 150 bytes.
const LINE_BYTES_MAX: usize = 16 << 10;
/// LIMIT: lines of one monitor's life; a restore has six.
const LINES_MAX: usize = 4096;
/// LIMIT: the whole life; a machine is stopped and restored in milliseconds.
const LIFE: Duration = Duration::from_secs(10);
/// LIMIT: between two looks at whether a machine is stopped.
const LOOK: Duration = Duration::from_millis(2);
/// LIMIT: a complaint in an error.
const COMPLAINT_CHARACTERS_MAX: usize = 200;

/// The descriptor that QEMU has its end at.
pub(super) const DESCRIPTOR: usize = 3;

/// Why the monitor did not do what it was told.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum QmpError {
    /// It can't be reached.
    #[error("QEMU's monitor is gone or slow")]
    Gone(#[source] io::Error),
    /// It says what no monitor says.
    #[error("QEMU's monitor says what is not understood")]
    Strange,
    /// It refused.
    #[error("QEMU refused: `{0}`")]
    Refused(String),
}

/// A line of QEMU's.
#[derive(Debug, PartialEq)]
enum Line {
    Greeting,
    Returned(Value),
    Refused(String),
    Happened(String),
}

/// Our end.
#[derive(Debug)]
pub(super) struct Qmp {
    socket: UnixStream,
    unread: Vec<u8>,
    lines: usize,
    end: Instant,
}

impl Qmp {
    /// Both ends; QEMU is given the second.
    pub(super) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (socket, theirs) = UnixStream::pair()?;
        let monitor = Self {
            socket,
            unread: Vec::new(),
            lines: 0,
            end: Instant::now() + LIFE,
        };
        Ok((monitor, theirs.into()))
    }

    /// Its life begins when it is greeted.
    fn greet(&mut self) -> Result<(), QmpError> {
        self.end = Instant::now() + LIFE;
        if self.line()? != Line::Greeting {
            return Err(QmpError::Strange);
        }
        self.order(r#"{"execute":"qmp_capabilities"}"#, None)?;
        // Memory is not part of the state: it lies in a file of its own.
        self.order(
            r#"{"execute":"migrate-set-capabilities","arguments":{"capabilities":
            [{"capability":"x-ignore-shared","state":true}]}}"#,
            None,
        )?;
        Ok(())
    }

    /// Stops the machine for good and has its state written.
    pub(super) fn keep(mut self, state: BorrowedFd<'_>) -> Result<(), QmpError> {
        self.greet()?;
        self.order(
            r#"{"execute":"getfd","arguments":{"fdname":"state"}}"#,
            Some(state),
        )?;
        self.order(
            r#"{"execute":"migrate","arguments":{"uri":"fd:state"}}"#,
            None,
        )?;
        loop {
            let status = self.order(r#"{"execute":"query-migrate"}"#, None)?;
            match status.get("status").and_then(Value::as_str) {
                Some("completed") => return Ok(()),
                Some("setup" | "active" | "device" | "pre-switchover") => {
                    std::thread::sleep(LOOK);
                }
                Some(_) | None => return Err(QmpError::Strange),
            }
        }
    }

    /// Has the machine restored from a descriptor that QEMU holds, and waits until it runs.
    pub(super) fn restore(mut self, state: usize) -> Result<(), QmpError> {
        self.greet()?;
        let order =
            format!(r#"{{"execute":"migrate-incoming","arguments":{{"uri":"fd:{state}"}}}}"#);
        self.send(&order, None)?;
        // It ran when it was kept, so it runs by itself; QEMU ends where the state is of no use.
        loop {
            match self.line()? {
                Line::Happened(event) if event == "RESUME" => return Ok(()),
                Line::Happened(_) | Line::Returned(_) => {}
                Line::Refused(why) => return Err(QmpError::Refused(why)),
                Line::Greeting => return Err(QmpError::Strange),
            }
        }
    }

    /// An order, and what it returned.
    fn order(&mut self, text: &str, with: Option<BorrowedFd<'_>>) -> Result<Value, QmpError> {
        self.send(text, with)?;
        loop {
            match self.line()? {
                Line::Returned(value) => return Ok(value),
                Line::Refused(why) => return Err(QmpError::Refused(why)),
                Line::Happened(_) => {}
                Line::Greeting => return Err(QmpError::Strange),
            }
        }
    }

    fn send(&self, text: &str, with: Option<BorrowedFd<'_>>) -> Result<(), QmpError> {
        let bytes = text.as_bytes();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let given: Vec<BorrowedFd<'_>> = with.into_iter().collect();
        if !given.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&given)) {
            return Err(QmpError::Gone(io::ErrorKind::InvalidInput.into()));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let sent = sendmsg(
            self.socket.as_fd(),
            &[IoSlice::new(bytes)],
            &mut control,
            flags,
        );
        match sent {
            Ok(sent) if sent == bytes.len() => Ok(()),
            Ok(_) => Err(QmpError::Gone(io::ErrorKind::WriteZero.into())),
            Err(error) => Err(QmpError::Gone(error.into())),
        }
    }

    fn line(&mut self) -> Result<Line, QmpError> {
        self.lines += 1;
        if self.lines > LINES_MAX {
            return Err(QmpError::Strange);
        }
        let gone = |kind: io::ErrorKind| QmpError::Gone(kind.into());
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return parse(&line).ok_or(QmpError::Strange);
            }
            if self.unread.len() > LINE_BYTES_MAX {
                return Err(QmpError::Strange);
            }
            let left = self.end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(gone(io::ErrorKind::TimedOut));
            }
            let receive = rustix::net::sockopt::Timeout::Recv;
            set_socket_timeout(&self.socket, receive, Some(left))
                .map_err(|error| QmpError::Gone(error.into()))?;
            let mut piece = [0; 4096];
            match self.socket.read(&mut piece) {
                Ok(0) => return Err(gone(io::ErrorKind::UnexpectedEof)),
                Ok(read) => self.unread.extend(piece.get(..read).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(QmpError::Gone(error)),
            }
        }
    }
}

/// One of the four kinds, told apart by its one key.
fn parse(line: &[u8]) -> Option<Line> {
    let Value::Object(mut line) = serde_json::from_slice(line).ok()? else {
        return None;
    };
    let known = ["QMP", "return", "error", "event"];
    let mut kinds = known.iter().filter(|key| line.contains_key(**key));
    let (kind, None) = (kinds.next()?, kinds.next()) else {
        return None;
    };
    let value = line.remove(*kind)?;
    match *kind {
        "QMP" => Some(Line::Greeting),
        "return" => Some(Line::Returned(value)),
        "event" => Some(Line::Happened(value.as_str()?.to_owned())),
        _ => Some(Line::Refused(complaint(value.get("desc")?.as_str()?))),
    }
}

fn complaint(text: &str) -> String {
    let plain = text.chars().filter(|c| !c.is_control() && *c != '`');
    plain.take(COMPLAINT_CHARACTERS_MAX).collect()
}

#[cfg(test)]
mod tests;
