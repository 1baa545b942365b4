// SPDX-License-Identifier: Apache-2.0
//! A guest in order, and one that is not.

use super::*;
use torno_guest_protocol::{Frame, HostDecoder, WINDOW_BYTES};

/// A courier whose connections come out at `served`, and what it sends to the guest.
struct Rig {
    courier: Arc<Courier>,
    served: mpsc::UnboundedReceiver<(Couriered, Entry)>,
    outgoing: mpsc::Receiver<Bytes>,
    decoder: HostDecoder,
}

impl Rig {
    fn new() -> Self {
        let (outgoing, queue) = mpsc::channel(64);
        let (arrived, served) = mpsc::unbounded_channel();
        let serve: Serve = Box::new(move |stream, entry| drop(arrived.send((stream, entry))));
        Self {
            courier: Arc::new(Courier::new(serve, outgoing)),
            served,
            outgoing: queue,
            decoder: HostDecoder::new(),
        }
    }

    /// Opens a connection to the proxy.
    async fn opened(&mut self, number: u32) -> Couriered {
        self.courier
            .open(ConnectionId(number), Entry::Proxy {})
            .unwrap();
        self.served.recv().await.unwrap().0
    }

    /// The next frame for the guest.
    async fn said(&mut self) -> Frame<HostMessage> {
        loop {
            if let Some(frame) = self.decoder.next_frame().unwrap() {
                return frame;
            }
            let bytes = self.outgoing.recv().await.unwrap();
            self.decoder.push(&bytes);
        }
    }
}

fn closes(connection: u32, reset: bool) -> Frame<HostMessage> {
    Frame::Control(HostMessage::CloseConnection {
        connection: ConnectionId(connection),
        reset,
    })
}

#[tokio::test]
async fn bytes_go_both_ways_and_each_end_is_told() {
    let mut rig = Rig::new();
    let id = ConnectionId(7);
    let mut stream = rig.opened(7).await;
    rig.courier
        .accept(id, Bytes::from_static(b"question"))
        .unwrap();
    rig.courier.end(id).unwrap();
    let mut asked = String::new();
    stream.read_to_string(&mut asked).await.unwrap();
    assert_eq!(asked, "question");
    stream.write_all(b"answer").await.unwrap();
    stream.shutdown().await.unwrap();
    let (channel, stream_kind) = (id.into(), Stream::Inward);
    let bytes = Bytes::from_static(b"answer");
    assert_eq!(
        rig.said().await,
        Frame::Data {
            channel,
            stream: stream_kind,
            bytes
        }
    );
    assert_eq!(
        rig.said().await,
        Frame::EndOfFile {
            channel,
            stream: stream_kind
        }
    );
    assert_eq!(rig.said().await, closes(7, false));
    rig.courier.closed(id).unwrap();
    assert!(rig.courier.closed(id).is_err(), "over twice");
}

#[tokio::test]
async fn a_guest_that_breaks_the_rules_of_connections_is_refused() {
    let mut rig = Rig::new();
    let _stream = rig.opened(5).await;
    for used in [5, 4, 0] {
        assert!(
            rig.courier
                .open(ConnectionId(used), Entry::Proxy {})
                .is_err(),
            "{used} again"
        );
    }
    let window = usize::try_from(WINDOW_BYTES).unwrap();
    rig.courier
        .accept(ConnectionId(5), Bytes::from(vec![0; window]))
        .unwrap();
    let beyond = rig
        .courier
        .accept(ConnectionId(5), Bytes::from(vec![0; window]));
    assert!(beyond.is_err(), "two windows at once");
    assert!(
        rig.courier.grant(ConnectionId(5), 1).is_err(),
        "credit for nothing"
    );
    rig.courier.end(ConnectionId(5)).unwrap();
    assert!(rig.courier.end(ConnectionId(5)).is_err(), "two ends");
    for nobody in [4, 6] {
        let id = ConnectionId(nobody);
        assert!(rig.courier.accept(id, Bytes::from_static(b"x")).is_err());
        assert!(rig.courier.end(id).is_err() && rig.courier.grant(id, 1).is_err());
        assert!(rig.courier.closed(id).is_err());
    }
}

#[tokio::test]
async fn connections_are_bounded_until_the_guest_says_that_they_are_over() {
    let mut rig = Rig::new();
    let most = u32::try_from(CONNECTIONS_MAX).unwrap();
    for number in 0..most {
        // Given up at once: the guest has not said so, and the place stays taken.
        drop(rig.opened(number).await);
    }
    assert!(
        rig.courier
            .open(ConnectionId(most), Entry::Proxy {})
            .is_err()
    );
    rig.courier.closed(ConnectionId(0)).unwrap();
    rig.courier
        .open(ConnectionId(most), Entry::Proxy {})
        .unwrap();
}

#[tokio::test]
async fn a_stream_that_is_cut_is_a_reset_inside_and_one_that_is_given_up_is_none() {
    let mut rig = Rig::new();
    let cut = rig.opened(0).await;
    cut.reset_on_close();
    drop(cut);
    let end = |connection: u32| Frame::EndOfFile {
        channel: ConnectionId(connection).into(),
        stream: Stream::Inward,
    };
    assert_eq!(rig.said().await, end(0));
    assert_eq!(rig.said().await, closes(0, true));
    drop(rig.opened(1).await);
    assert_eq!(rig.said().await, end(1));
    assert_eq!(rig.said().await, closes(1, false));
}

#[tokio::test]
async fn a_program_that_is_gone_ends_its_stream() {
    let mut rig = Rig::new();
    let mut stream = rig.opened(0).await;
    rig.courier.closed(ConnectionId(0)).unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert!(rest.is_empty());
}

#[tokio::test]
async fn an_answer_waits_for_the_guests_credit() {
    let mut rig = Rig::new();
    let mut stream = rig.opened(0).await;
    let window = usize::try_from(WINDOW_BYTES).unwrap();
    let writing = tokio::spawn(async move {
        stream.write_all(&vec![1; window + 1]).await.unwrap();
        stream.shutdown().await.unwrap();
        stream
    });
    let mut came = 0;
    while came < window {
        let Frame::Data { bytes, .. } = rig.said().await else {
            panic!("no data")
        };
        came += bytes.len();
    }
    assert_eq!(came, window);
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    assert!(rig.outgoing.try_recv().is_err(), "sent without credit");
    rig.courier.grant(ConnectionId(0), 1).unwrap();
    assert!(matches!(rig.said().await, Frame::Data { bytes, .. } if bytes.len() == 1));
    drop(writing.await.unwrap());
}

#[tokio::test]
async fn after_the_end_of_a_session_what_is_dialled_is_closed_and_served_by_nobody() {
    let mut rig = Rig::new();
    rig.courier.close();
    let proxy = Entry::Proxy {};
    rig.courier.open(ConnectionId(0), proxy).unwrap();
    let end = Frame::EndOfFile {
        channel: ConnectionId(0).into(),
        stream: Stream::Inward,
    };
    assert_eq!(rig.said().await, end);
    assert_eq!(rig.said().await, closes(0, false));
    assert!(rig.served.try_recv().is_err());
}
