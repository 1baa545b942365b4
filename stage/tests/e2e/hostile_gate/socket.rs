// SPDX-License-Identifier: Apache-2.0
//! One of a gate's packet sockets, in this test's hands. Written without the product's own channel,
//! whose limits a gate that was taken over need not keep.

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::cell::RefCell;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// LIMIT: an answer takes milliseconds; a machine under load gets this long.
const ANSWER_WAIT: Duration = Duration::from_secs(20);
/// LIMIT: more than the product's own packets have.
const BYTES_MAX: usize = 256 * 1024;

/// What came.
#[derive(Debug)]
pub(crate) enum Heard {
    Packet(Vec<u8>, Vec<OwnedFd>),
    /// The role closed the socket.
    Closed,
}

/// A socket, and every byte that came over it.
#[derive(Debug)]
pub(crate) struct Socket {
    descriptor: OwnedFd,
    heard: RefCell<Vec<u8>>,
}

impl Socket {
    pub(crate) fn new(descriptor: OwnedFd) -> Self {
        Self {
            descriptor,
            heard: RefCell::new(b"heard:\n".to_vec()),
        }
    }

    /// Says a packet as it is; false when the role closed the socket, or does not take it now.
    pub(crate) fn try_say(&self, packet: &[u8], give: &[BorrowedFd<'_>]) -> bool {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !give.is_empty() {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(give)));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let packet = [IoSlice::new(packet)];
        rustix::net::sendmsg(&self.descriptor, &packet, &mut ancillary, flags).is_ok()
    }

    /// Says a packet, waiting for room; false when the role closed the socket.
    pub(crate) fn say(&self, packet: &[u8], give: &[BorrowedFd<'_>]) -> bool {
        let end = Instant::now() + ANSWER_WAIT;
        while !self.try_say(packet, give) {
            let state = self.poll(PollFlags::OUT, Duration::from_millis(20));
            if state.intersects(PollFlags::HUP | PollFlags::ERR) {
                return false;
            }
            assert!(Instant::now() < end, "nobody reads this socket");
        }
        true
    }

    /// The next packet within the answer's time.
    #[track_caller]
    pub(crate) fn hear(&self) -> Heard {
        self.hear_within(ANSWER_WAIT).expect("no answer in 20 s")
    }

    /// The next packet, or nothing within that time.
    pub(crate) fn hear_within(&self, limit: Duration) -> Option<Heard> {
        if self.poll(PollFlags::IN, limit).is_empty() {
            return None;
        }
        let mut bytes = vec![0_u8; BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let got = rustix::net::recvmsg(
            &self.descriptor,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut ancillary,
            flags,
        );
        let Ok(got) = got else {
            return Some(Heard::Closed);
        };
        let mut descriptors = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                descriptors.extend(received);
            }
        }
        if got.bytes == 0 && descriptors.is_empty() {
            return Some(Heard::Closed);
        }
        bytes.truncate(got.bytes);
        self.heard.borrow_mut().extend_from_slice(&bytes);
        Some(Heard::Packet(bytes, descriptors))
    }

    /// Whether the role closes it, whatever it says before.
    pub(crate) fn is_closed(&self) -> bool {
        let end = Instant::now() + ANSWER_WAIT;
        while Instant::now() < end {
            if let Heard::Closed = self.hear() {
                return true;
            }
        }
        false
    }

    /// Whether the role closed it, whatever waits to be read.
    pub(crate) fn is_hung_up(&self) -> bool {
        self.poll(PollFlags::OUT, Duration::ZERO)
            .intersects(PollFlags::HUP | PollFlags::ERR)
    }

    /// Every byte that came so far.
    pub(crate) fn heard(&self) -> Vec<u8> {
        self.heard.borrow().clone()
    }

    fn poll(&self, what: PollFlags, limit: Duration) -> PollFlags {
        let limit = Timespec::try_from(limit).unwrap();
        let mut watched = [PollFd::from_borrowed_fd(self.descriptor.as_fd(), what)];
        rustix::event::poll(&mut watched, Some(&limit)).unwrap();
        watched[0].revents()
    }
}
