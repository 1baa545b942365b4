// SPDX-License-Identifier: Apache-2.0
//! Hands a program's three streams from the agent to its keeper, beside the first bytes of the
//! plan. Only this socket pair, made by the agent, ever carries descriptors; the link never does.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Standard input, output and error of the program.
pub(crate) type Streams = [OwnedFd; 3];

/// Sends the streams with the first of `bytes`; gives how many bytes went along.
pub(crate) fn send(socket: impl AsFd, bytes: &[u8], streams: &Streams) -> io::Result<usize> {
    let borrowed: [BorrowedFd<'_>; 3] = streams.each_ref().map(OwnedFd::as_fd);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&borrowed)) {
        return Err(io::Error::other(
            "no room for three descriptors in a message",
        ));
    }
    Ok(sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut control,
        SendFlags::NOSIGNAL,
    )?)
}

/// Receives the streams and the first bytes; nothing when the agent ended before it had any.
pub(crate) fn receive(socket: impl AsFd) -> io::Result<Option<(Vec<u8>, Streams)>> {
    let mut bytes = vec![0; FIRST_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    if received.bytes == 0 {
        return Ok(None);
    }
    bytes.truncate(received.bytes);
    let mut streams = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            streams.extend(descriptors);
        }
    }
    let streams = streams
        .try_into()
        .map_err(|_| io::Error::other("the agent handed over other than three descriptors"))?;
    Ok(Some((bytes, streams)))
}

// LIMIT: whatever a first read gives; the rest of the plan is read like any other frame.
const FIRST_BYTES_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn three_streams_arrive_and_work() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        let writer = OwnedFd::from(writer);
        let streams = [
            writer.try_clone().unwrap(),
            writer.try_clone().unwrap(),
            writer,
        ];
        assert_eq!(send(&ours, b"plan", &streams).unwrap(), 4);
        drop(streams);
        let (bytes, streams) = receive(&theirs).unwrap().unwrap();
        assert_eq!(bytes, b"plan");
        for stream in streams {
            std::fs::File::from(stream).write_all(b"x").unwrap();
        }
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "xxx");
    }

    #[test]
    fn bytes_without_streams_are_refused() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(b"plan").unwrap();
        assert!(receive(&theirs).is_err());
    }
}
