// SPDX-License-Identifier: Apache-2.0
//! Framing: round trips under any cut, hostile lengths, garbage.

use proptest::prelude::*;

use super::*;
use crate::message::{
    DirectoryEntry, ExecId, FileFailure, FileKind, FileMetadata, ProcessFailure, ProcessStatus,
    RequestId, Signal, TerminalSize, Wall, WallKind, WriteMode,
};

fn host_messages() -> impl Strategy<Value = HostMessage> {
    let exec = any::<u32>().prop_map(ExecId);
    let request = any::<u32>().prop_map(RequestId);
    let size =
        (any::<u16>(), any::<u16>()).prop_map(|(rows, columns)| TerminalSize { rows, columns });
    prop_oneof![
        any::<u32>().prop_map(|version| HostMessage::Hello { version }),
        (
            exec.clone(),
            prop::collection::vec(any::<String>(), 0..5),
            prop::collection::vec((any::<String>(), any::<String>()), 0..5),
            any::<String>(),
            prop::option::of(size.clone()),
        )
            .prop_map(|(exec, argv, env, cwd, tty)| HostMessage::StartProcess {
                exec,
                argv,
                env,
                cwd,
                tty
            }),
        (exec.clone(), size).prop_map(|(exec, size)| HostMessage::Resize { exec, size }),
        exec.prop_map(|exec| HostMessage::SendSignal {
            exec,
            signal: Signal::Kill
        }),
        (request.clone(), any::<String>(), any::<u64>()).prop_map(|(request, path, bytes_max)| {
            HostMessage::ReadFile {
                request,
                path,
                bytes_max,
            }
        }),
        (request.clone(), any::<String>(), any::<u32>()).prop_map(|(request, path, mode)| {
            HostMessage::WriteFile {
                request,
                path,
                mode,
                write: WriteMode::Append,
            }
        }),
        (
            request.clone(),
            any::<String>(),
            prop::option::of(any::<String>())
        )
            .prop_map(|(request, path, after)| HostMessage::ListDirectory {
                request,
                path,
                after
            }),
        (
            request.clone(),
            any::<String>(),
            any::<String>(),
            any::<bool>()
        )
            .prop_map(|(request, from, to, replace)| HostMessage::MovePath {
                request,
                from,
                to,
                replace
            }),
        (request.clone(), any::<String>(), any::<bool>()).prop_map(|(request, path, recursive)| {
            HostMessage::RemovePath {
                request,
                path,
                recursive,
            }
        }),
        request.prop_map(|request| HostMessage::CancelRequest { request }),
        Just(HostMessage::Shutdown {}),
    ]
}

fn guest_messages() -> impl Strategy<Value = GuestMessage> {
    let exec = any::<u32>().prop_map(ExecId);
    let request = any::<u32>().prop_map(RequestId);
    let metadata =
        (any::<u64>(), any::<u32>(), any::<i64>()).prop_map(|(bytes, mode, modified)| {
            FileMetadata {
                kind: FileKind::Special,
                bytes,
                mode,
                modified,
            }
        });
    let entry = (any::<String>(), any::<bool>(), metadata.clone()).prop_map(
        |(name, is_lossy, metadata)| DirectoryEntry {
            name,
            is_lossy,
            metadata,
        },
    );
    prop_oneof![
        (any::<u32>(), any::<String>()).prop_map(|(version, guest)| GuestMessage::Hello {
            version,
            guest: guest.clone(),
            walls: vec![Wall {
                kind: WallKind::Landlock,
                holds: true,
                detail: guest
            }],
        }),
        (exec.clone(), any::<i32>())
            .prop_map(|(exec, pid)| GuestMessage::ProcessStarted { exec, pid }),
        (exec.clone(), any::<i32>()).prop_map(|(exec, code)| GuestMessage::ProcessEnded {
            exec,
            status: ProcessStatus::Exited(code)
        }),
        (exec, any::<String>()).prop_map(|(exec, message)| GuestMessage::ProcessFailed {
            exec,
            code: ProcessFailure::NotFound,
            message
        }),
        (
            request.clone(),
            prop::collection::vec(entry, 0..5),
            any::<bool>()
        )
            .prop_map(|(request, entries, more)| GuestMessage::DirectoryListed {
                request,
                entries,
                more
            }),
        (request.clone(), metadata, prop::option::of(any::<String>())).prop_map(
            |(request, metadata, target)| GuestMessage::PathDescribed {
                request,
                metadata,
                target
            }
        ),
        (request, any::<String>()).prop_map(|(request, message)| GuestMessage::RequestFailed {
            request,
            code: FileFailure::Outside,
            message
        }),
    ]
}

fn frames<M: std::fmt::Debug + Clone>(
    messages: impl Strategy<Value = M>,
) -> impl Strategy<Value = Frame<M>> {
    let channel = any::<u32>().prop_map(ChannelId);
    let stream = prop_oneof![
        Just(Stream::Stdin),
        Just(Stream::Stdout),
        Just(Stream::Stderr),
        Just(Stream::File),
        Just(Stream::Outward),
        Just(Stream::Inward)
    ];
    prop_oneof![
        messages.prop_map(Frame::Control),
        (
            channel.clone(),
            stream.clone(),
            prop::collection::vec(any::<u8>(), 1..300)
        )
            .prop_map(|(channel, stream, bytes)| Frame::Data {
                channel,
                stream,
                bytes: bytes.into()
            }),
        (channel.clone(), stream.clone())
            .prop_map(|(channel, stream)| Frame::EndOfFile { channel, stream }),
        (channel, stream, 1u32..).prop_map(|(channel, stream, bytes)| Frame::Credit {
            channel,
            stream,
            bytes
        }),
    ]
}

fn encode<M: Serialize>(frames: &[Frame<M>]) -> BytesMut {
    let mut out = BytesMut::new();
    for frame in frames {
        match frame {
            Frame::Control(message) => encode_control(message, &mut out).unwrap(),
            Frame::Data {
                channel,
                stream,
                bytes,
            } => {
                encode_data(*channel, *stream, bytes, &mut out);
            }
            Frame::EndOfFile { channel, stream } => encode_end_of_file(*channel, *stream, &mut out),
            Frame::Credit {
                channel,
                stream,
                bytes,
            } => {
                encode_credit(*channel, *stream, *bytes, &mut out);
            }
        }
    }
    out
}

proptest! {
    #[test]
    fn host_frames_survive_any_cut(sent in prop::collection::vec(frames(host_messages()), 0..12), step in 1usize..60) {
        let encoded = encode(&sent);
        prop_assert_eq!(decode_all(encoded.chunks(step)), (sent, None));
    }

    #[test]
    fn guest_frames_survive_any_cut(sent in prop::collection::vec(frames(guest_messages()), 0..12), step in 1usize..60) {
        let encoded = encode(&sent);
        prop_assert_eq!(decode_all(encoded.chunks(step)), (sent, None));
    }

    #[test]
    fn garbage_never_panics(input in prop::collection::vec(any::<u8>(), 0..400)) {
        fuzz_frame(&input);
    }

    #[test]
    fn a_damaged_stream_never_panics(sent in prop::collection::vec(frames(guest_messages()), 1..5), at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let mut encoded = encode(&sent);
        let at = at.index(encoded.len());
        encoded[at] = to;
        fuzz_frame(&encoded);
    }
}

#[test]
fn a_hostile_length_is_refused_before_its_body_comes() {
    for (kind, length) in [
        (1, 0x4_0001),
        (2, 32 * 1024 + 6),
        (3, 6),
        (4, 10),
        (1, u32::MAX),
    ] {
        let mut decoder = HostDecoder::new();
        let mut header = length.to_be_bytes().to_vec();
        header.push(kind);
        decoder.push(&header);
        let error = FrameError::TooLong {
            kind,
            bytes: length as usize,
        };
        assert_eq!(decoder.next_frame(), Err(error));
        assert!(
            decoder.buffer.capacity() < 1024,
            "kept {} bytes",
            decoder.buffer.capacity()
        );
    }
}

#[test]
fn short_bodies_empty_data_and_empty_credit_are_refused() {
    let bytes_of = |kind: u8, body: &[u8]| {
        let mut out = BytesMut::new();
        put_header(kind, body.len(), &mut out);
        out.put_slice(body);
        decode_all::<HostMessage>([&*out]).1
    };
    assert_eq!(bytes_of(1, b""), Some(FrameError::BadLength { kind: 1 }));
    assert_eq!(
        bytes_of(2, &[0, 0, 0, 1, 0]),
        Some(FrameError::BadLength { kind: 2 })
    );
    assert_eq!(
        bytes_of(3, &[0, 0, 0, 1]),
        Some(FrameError::BadLength { kind: 3 })
    );
    assert_eq!(
        bytes_of(3, &[0, 0, 0, 1, 9]),
        Some(FrameError::UnknownStream { stream: 9 })
    );
    assert_eq!(
        bytes_of(4, &[0, 0, 0, 1, 0, 0, 0, 0, 0]),
        Some(FrameError::EmptyCredit)
    );
    assert_eq!(
        bytes_of(9, b"xx"),
        Some(FrameError::UnknownKind { kind: 9 })
    );
}

#[test]
fn an_error_is_final() {
    let mut decoder = HostDecoder::new();
    decoder.push(&[0, 0, 0, 2, 77, 0, 0]);
    let error = decoder.next_frame().unwrap_err();
    let mut good = BytesMut::new();
    encode_control(&HostMessage::Shutdown {}, &mut good).unwrap();
    decoder.push(&good);
    assert_eq!(decoder.next_frame(), Err(error));
    assert!(!decoder.is_mid_frame(), "bytes after an error are kept");
}

#[test]
fn unknown_messages_and_unknown_fields_are_refused() {
    for body in [
        &br#"{"type":"open_door"}"#[..],
        br#"{"type":"shutdown","now":true}"#,
        br#"{"type":"hello"}"#,
        br#"{"type":"hello","version":1,"version":2}"#,
        br#"{"type":"process_started","exec":1,"pid":2}"#,
        b"[]",
        b"{}",
        b"\xff\xff",
    ] {
        let mut out = BytesMut::new();
        put_header(KIND_CONTROL, body.len(), &mut out);
        out.put_slice(body);
        let (frames, error) = decode_all::<HostMessage>([&*out]);
        assert!(frames.is_empty(), "{}", String::from_utf8_lossy(body));
        assert!(matches!(error, Some(FrameError::BadMessage { .. })));
    }
}

#[test]
fn a_message_beyond_the_limit_is_not_sent() {
    let message = HostMessage::StatPath {
        request: RequestId(1),
        path: "x".repeat(CONTROL_BYTES_MAX),
    };
    let mut out = BytesMut::new();
    assert_eq!(
        encode_control(&message, &mut out),
        Err(FrameError::MessageTooLong)
    );
    assert!(out.is_empty());
}

#[test]
fn long_data_is_cut_into_frames_of_the_limit() {
    let bytes = vec![7u8; DATA_BYTES_MAX * 2 + 1];
    let mut out = BytesMut::new();
    encode_data(ChannelId(3), Stream::Stdout, &bytes, &mut out);
    let (frames, error) = decode_all::<GuestMessage>(out.chunks(4096));
    assert_eq!(error, None);
    assert_eq!(frames.len(), 3);
}
