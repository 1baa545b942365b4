// SPDX-License-Identifier: Apache-2.0
//! A workspace over a link whose other end is a test.

use super::*;
use crate::gate::link;
use std::os::fd::OwnedFd;
use torno_guest_protocol::{
    GuestMessage, HostDecoder, PROTOCOL_VERSION, encode_control, encode_end_of_file,
};

/// The guest's end.
struct Guest {
    socket: UnixStream,
    decoder: HostDecoder,
}

impl Guest {
    async fn next(&mut self) -> Frame<HostMessage> {
        let mut buffer = [0; 4_096];
        loop {
            if let Some(frame) = self.decoder.next_frame().unwrap() {
                return frame;
            }
            let count = self.socket.read(&mut buffer).await.unwrap();
            self.decoder.push(&buffer[..count]);
        }
    }

    async fn say(&mut self, message: &GuestMessage) {
        let mut frame = BytesMut::new();
        encode_control(message, &mut frame).unwrap();
        self.socket.write_all(&frame).await.unwrap();
    }

    async fn send(&mut self, id: RequestId, bytes: &[u8]) {
        let mut frame = BytesMut::new();
        encode_data(id.into(), Stream::File, bytes, &mut frame);
        self.socket.write_all(&frame).await.unwrap();
    }
}

/// A link, its reader's end, and the guest.
async fn linked() -> (
    Arc<Link>,
    tokio::task::JoinHandle<anyhow::Result<()>>,
    Guest,
) {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    let mut guest = Guest {
        socket: UnixStream::from_std(theirs).unwrap(),
        decoder: HostDecoder::new(),
    };
    let opening = tokio::spawn(link::open(OwnedFd::from(ours), None));
    guest.next().await;
    let hello = GuestMessage::Hello {
        version: PROTOCOL_VERSION,
        guest: "test".to_owned(),
        walls: Vec::new(),
    };
    guest.say(&hello).await;
    let (link, reader) = opening.await.unwrap().unwrap();
    (link, tokio::spawn(reader), guest)
}

const ONE: RequestId = RequestId(1);

fn pack_order() -> HostMessage {
    HostMessage::PackWorkspace {
        request: ONE,
        bytes_max: 1_000_000,
        last: true,
    }
}

fn pair() -> (UnixStream, OwnedFd) {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    (UnixStream::from_std(ours).unwrap(), theirs.into())
}

#[tokio::test]
async fn a_workspace_goes_in_under_the_guests_credit_and_ends_with_its_word() {
    let (link, _reader, mut guest) = linked().await;
    let (mut porter, stream) = pair();
    let order = HostMessage::FillWorkspace {
        request: ONE,
        write: None,
        hide: Vec::new(),
    };
    let filling = tokio::spawn(async move { fill(link, &order, ONE, stream).await });
    // More than a window.
    let sent: Vec<u8> = (0..600_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let expected = sent.clone();
    let writing = tokio::spawn(async move { porter.write_all(&sent).await.unwrap() });
    assert!(matches!(
        guest.next().await,
        Frame::Control(HostMessage::FillWorkspace { .. })
    ));
    let (mut got, mut window) = (Vec::new(), ReceiveWindow::new());
    loop {
        match guest.next().await {
            Frame::Data { bytes, .. } => {
                window.accept(bytes.len()).unwrap();
                got.extend_from_slice(&bytes);
                if let Some(credit) = window.consume(bytes.len()) {
                    let mut frame = BytesMut::new();
                    encode_credit(ONE.into(), Stream::File, credit, &mut frame);
                    guest.socket.write_all(&frame).await.unwrap();
                }
            }
            Frame::EndOfFile { .. } => break,
            other => panic!("{other:?}"),
        }
    }
    writing.await.unwrap();
    assert_eq!(got, expected);
    let request = ONE;
    guest.say(&GuestMessage::WorkspaceFilled { request }).await;
    assert_eq!(filling.await.unwrap(), Ok(()));
}

#[tokio::test]
async fn a_workspace_comes_out_and_the_guests_failure_is_a_word() {
    let (link, _reader, mut guest) = linked().await;
    let (mut porter, stream) = pair();
    let packing = {
        let link = Arc::clone(&link);
        tokio::spawn(async move { pack(link, &pack_order(), (ONE, 1_000_000), stream).await })
    };
    guest.next().await;
    guest.send(ONE, b"half of it").await;
    let failed = GuestMessage::RequestFailed {
        request: ONE,
        code: FileFailure::TooLarge,
        message: "\u{1b}[2J".to_owned(),
    };
    guest.say(&failed).await;
    assert_eq!(packing.await.unwrap(), Err(FileFailure::TooLarge));
    let mut got = Vec::new();
    porter.read_to_end(&mut got).await.unwrap();
    assert_eq!(got, b"half of it");
    // The next one is not in its way.
    let (_porter, stream) = pair();
    let two = RequestId(2);
    let packing = tokio::spawn(async move { pack(link, &pack_order(), (two, 10), stream).await });
    guest.next().await;
    let request = two;
    guest.say(&GuestMessage::WorkspacePacked { request }).await;
    assert_eq!(packing.await.unwrap(), Ok(()));
}

// ATTACK: 172
#[tokio::test]
async fn what_was_not_asked_for_or_is_too_much_ends_the_link() {
    // Nothing was asked for.
    let (_link, reader, mut guest) = linked().await;
    guest.send(ONE, b"x").await;
    assert!(reader.await.unwrap().is_err());
    let (_link, reader, mut guest) = linked().await;
    let request = ONE;
    guest.say(&GuestMessage::WorkspacePacked { request }).await;
    assert!(reader.await.unwrap().is_err());
    // More than was allowed, in small pieces.
    let (link, reader, mut guest) = linked().await;
    let (_porter, stream) = pair();
    tokio::spawn(async move { pack(link, &pack_order(), (ONE, 10), stream).await });
    guest.next().await;
    guest.send(ONE, b"0123456789").await;
    guest.send(ONE, b"x").await;
    let error = reader.await.unwrap().unwrap_err();
    assert!(
        format!("{error:#}").contains("more of its workspace"),
        "{error:#}"
    );
    // Another one's, and after its end.
    let (link, reader, mut guest) = linked().await;
    let (_porter, stream) = pair();
    tokio::spawn(async move { pack(link, &pack_order(), (ONE, 10), stream).await });
    guest.next().await;
    let mut frame = BytesMut::new();
    encode_end_of_file(ONE.into(), Stream::File, &mut frame);
    encode_data(ONE.into(), Stream::File, b"x", &mut frame);
    guest.socket.write_all(&frame).await.unwrap();
    assert!(reader.await.unwrap().is_err());
}
