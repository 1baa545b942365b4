// SPDX-License-Identifier: Apache-2.0
//! Connections to sockets on loopback, and a host that is played here.

use super::*;
use bytes::Bytes;
use std::net::TcpListener as StdTcpListener;
use tokio::sync::mpsc;
use torno_guest_protocol::{GuestDecoder, GuestMessage};

/// A courier, where its sockets are, and what it says to the host.
struct Rig {
    courier: Arc<Courier>,
    proxy: SocketAddr,
    name_server: SocketAddr,
    said: mpsc::Receiver<bytes::BytesMut>,
    decoder: GuestDecoder,
}

impl Rig {
    fn new() -> Self {
        let listen = || StdTcpListener::bind("127.0.0.1:0").unwrap();
        let listeners = Listeners {
            captured: [listen(), listen()],
            proxy: listen(),
            name_tcp: listen(),
            name_udp: StdUdpSocket::bind("127.0.0.1:0").unwrap(),
        };
        let proxy = listeners.proxy.local_addr().unwrap();
        let name_server = listeners.name_udp.local_addr().unwrap();
        let (host, said) = Sender::to_a_test();
        Self {
            courier: Courier::start(listeners, host).unwrap(),
            proxy,
            name_server,
            said,
            decoder: GuestDecoder::new(),
        }
    }

    async fn next(&mut self) -> Frame<GuestMessage> {
        loop {
            if let Some(frame) = self.decoder.next_frame().unwrap() {
                return frame;
            }
            let bytes = self.said.recv().await.unwrap();
            self.decoder.push(&bytes);
        }
    }

    fn inward(&self, connection: ConnectionId, bytes: &'static [u8]) {
        let (channel, stream) = (connection.into(), Stream::Inward);
        let bytes = Bytes::from_static(bytes);
        self.courier
            .take(&Frame::Data {
                channel,
                stream,
                bytes,
            })
            .unwrap();
        self.courier
            .take(&Frame::EndOfFile { channel, stream })
            .unwrap();
    }
}

const FIRST: ConnectionId = ConnectionId(0);

fn opened(entry: Entry) -> Frame<GuestMessage> {
    Frame::Control(GuestMessage::ConnectionOpened {
        connection: FIRST,
        entry,
    })
}

fn closed() -> Frame<GuestMessage> {
    Frame::Control(GuestMessage::ConnectionClosed { connection: FIRST })
}

fn outward(bytes: &'static [u8]) -> Frame<GuestMessage> {
    Frame::Data {
        channel: FIRST.into(),
        stream: Stream::Outward,
        bytes: Bytes::from_static(bytes),
    }
}

#[tokio::test]
async fn a_connection_is_carried_both_ways_to_its_end() {
    let mut rig = Rig::new();
    let mut program = TcpStream::connect(rig.proxy).await.unwrap();
    assert_eq!(rig.next().await, opened(Entry::Proxy {}));
    program.write_all(b"question").await.unwrap();
    assert_eq!(rig.next().await, outward(b"question"));
    program.shutdown().await.unwrap();
    let end = Frame::EndOfFile {
        channel: FIRST.into(),
        stream: Stream::Outward,
    };
    assert_eq!(rig.next().await, end);
    rig.inward(FIRST, b"answer");
    let mut answer = String::new();
    program.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "answer");
    assert_eq!(rig.next().await, closed());
}

#[tokio::test]
async fn a_connection_that_the_host_cuts_is_reset() {
    let mut rig = Rig::new();
    let mut program = TcpStream::connect(rig.proxy).await.unwrap();
    assert_eq!(rig.next().await, opened(Entry::Proxy {}));
    rig.courier.close(FIRST, true).unwrap();
    assert_eq!(rig.next().await, closed());
    let cut = program.read(&mut [0; 1]).await.unwrap_err();
    assert_eq!(cut.kind(), std::io::ErrorKind::ConnectionReset);
    // What comes late for it is dropped; for one that never was, the host is at fault.
    rig.inward(FIRST, b"late");
    assert!(rig.courier.close(ConnectionId(1), false).is_err());
}

#[tokio::test]
async fn what_came_before_a_cut_is_read_and_an_end_that_reads_nothing_does_not_hold_it_up() {
    let mut rig = Rig::new();
    let mut program = TcpStream::connect(rig.proxy).await.unwrap();
    assert_eq!(rig.next().await, opened(Entry::Proxy {}));
    // Both are there before the connection's own task has run.
    rig.inward(FIRST, b"last word");
    rig.courier.close(FIRST, true).unwrap();
    assert_eq!(rig.next().await, closed());
    let mut word = [0; 9];
    program.read_exact(&mut word).await.unwrap();
    assert_eq!(&word, b"last word");
    let cut = program.read(&mut [0; 1]).await.unwrap_err();
    assert_eq!(cut.kind(), std::io::ErrorKind::ConnectionReset);

    // Nobody reads at this one's end.
    let (_silent, local) = tokio::io::duplex(4);
    let place = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
    let courier = Arc::clone(&rig.courier);
    let carried = tokio::spawn(courier.carry(local, Entry::Proxy {}, place));
    let second = ConnectionId(FIRST.0 + 1);
    let is_second = |frame: &Frame<GuestMessage>| {
        matches!(frame, Frame::Control(GuestMessage::ConnectionOpened { connection, .. })
            if *connection == second)
    };
    assert!(is_second(&rig.next().await));
    rig.inward(second, b"more than it takes");
    rig.courier.close(second, true).unwrap();
    carried.await.unwrap();
}

#[tokio::test]
async fn the_host_hears_of_connections_in_the_order_of_their_numbers_on_a_full_link() {
    const COUNT: u32 = 40;
    let mut rig = Rig::new();
    let places = Arc::new(Semaphore::new(usize::MAX >> 4));
    let mut programs = Vec::new();
    let mut dial = |courier: &Arc<Courier>| {
        let (program, local) = tokio::io::duplex(4);
        programs.push(program);
        let place = Arc::clone(&places).try_acquire_owned().unwrap();
        tokio::spawn(Arc::clone(courier).carry(local, Entry::Proxy {}, place));
    };
    let mut opened = Vec::new();
    for _ in 0..COUNT {
        dial(&rig.courier);
        // The link fills up, and one waits for room.
        if opened.is_empty() && rig.said.len() < rig.said.max_capacity() {
            tokio::task::yield_now().await;
            continue;
        }
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        // Room for two comes while one waits and another one is about to be told.
        dial(&rig.courier);
        for _ in 0..2 {
            let bytes = rig.said.try_recv().unwrap();
            rig.decoder.push(&bytes);
            opened.push(rig.decoder.next_frame().unwrap().unwrap());
        }
    }
    while opened.len() < programs.len() {
        opened.push(rig.next().await);
    }
    let numbers: Vec<u32> = opened
        .iter()
        .map(|frame| match frame {
            Frame::Control(GuestMessage::ConnectionOpened { connection, .. }) => connection.0,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
}

#[tokio::test]
async fn a_question_in_a_datagram_goes_like_one_over_tcp() {
    let mut rig = Rig::new();
    let program = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    program.send_to(b"name?", rig.name_server).await.unwrap();
    assert_eq!(rig.next().await, opened(Entry::NameServer {}));
    let mut asked = Vec::new();
    while asked.len() < 7 {
        let Frame::Data { bytes, .. } = rig.next().await else {
            panic!("no question")
        };
        asked.extend_from_slice(&bytes);
    }
    assert_eq!(asked, b"\0\x05name?");
    rig.inward(FIRST, b"\0\x04here");
    let mut answer = [0; 16];
    let (count, _) = program.recv_from(&mut answer).await.unwrap();
    assert_eq!(answer.get(..count), Some(&b"here"[..]));
}
