// SPDX-License-Identifier: Apache-2.0
//! Frames on the link's one byte stream: a length, a kind, a body.
//!
//! ```text
//!   length u32 be │ kind u8 │ body (length bytes)
//!   1 control       JSON of one message
//!   2 data          channel u32 be │ stream u8 │ 1 to 32 KiB of bytes
//!   3 end of file   channel u32 be │ stream u8
//!   4 credit        channel u32 be │ stream u8 │ bytes u32 be
//! ```
//! The length is checked against its kind before a byte of the body is kept; an error is final.

use std::marker::PhantomData;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::message::{ChannelId, GuestMessage, HostMessage, Stream};

// LIMIT: room for a long command line with its environment; more belongs into a file.
/// The longest control message, encoded.
pub const CONTROL_BYTES_MAX: usize = 256 * 1024;

// LIMIT: half a pipe's default buffer; long enough that the header costs nothing, short enough that
// no stream holds the link for long.
/// The most bytes in one data frame.
pub const DATA_BYTES_MAX: usize = 32 * 1024;

/// What the guest's side reads.
pub type HostDecoder = Decoder<HostMessage>;

/// What the host's side reads.
pub type GuestDecoder = Decoder<GuestMessage>;

/// One frame with control messages of type `M`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<M> {
    /// A message.
    Control(M),
    /// Bytes of a stream.
    Data {
        /// Whose stream.
        channel: ChannelId,
        /// Which stream.
        stream: Stream,
        /// 1 to [`DATA_BYTES_MAX`] bytes.
        bytes: Bytes,
    },
    /// No more bytes on this stream.
    EndOfFile {
        /// Whose stream.
        channel: ChannelId,
        /// Which stream.
        stream: Stream,
    },
    /// The sender of this frame has room for that many bytes more.
    Credit {
        /// Whose stream.
        channel: ChannelId,
        /// Which stream, flowing against this frame.
        stream: Stream,
        /// At least 1.
        bytes: u32,
    },
}

/// Why bytes are not a frame, or a message can't be one. Final for a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FrameError {
    /// A length beyond its kind's limit.
    #[error("frame of kind {kind} announces {bytes} bytes; drop the link")]
    TooLong {
        /// The kind byte.
        kind: u8,
        /// The announced length.
        bytes: usize,
    },
    /// A length that its kind can't have.
    #[error("frame of kind {kind} is too short or not of its fixed length; drop the link")]
    BadLength {
        /// The kind byte.
        kind: u8,
    },
    /// A kind byte that doesn't exist.
    #[error("unknown frame kind {kind}; drop the link")]
    UnknownKind {
        /// The kind byte.
        kind: u8,
    },
    /// A stream byte that doesn't exist.
    #[error("unknown stream {stream}; drop the link")]
    UnknownStream {
        /// The stream byte.
        stream: u8,
    },
    /// A credit of nothing.
    #[error("empty credit; drop the link")]
    EmptyCredit,
    /// A control body that is no message of this direction.
    #[error("control frame is not a known message (at byte {position}); drop the link")]
    BadMessage {
        /// Where reading failed.
        position: usize,
    },
    /// A message that would not fit a frame.
    #[error("message is longer than a control frame may be; send less at once")]
    MessageTooLong,
}

/// Takes bytes in any pieces, gives frames. Holds at most one incomplete frame and the last piece,
/// if [`Decoder::next_frame`] is called until it gives `None` after each [`Decoder::push`].
#[derive(Debug)]
pub struct Decoder<M> {
    buffer: BytesMut,
    failed: Option<FrameError>,
    message: PhantomData<fn() -> M>,
}

impl<M: DeserializeOwned> Decoder<M> {
    /// Nothing read yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            buffer: BytesMut::new(),
            failed: None,
            message: PhantomData,
        }
    }

    /// Adds bytes from the link. After an error they are dropped.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// The next whole frame, or `None` until more bytes are pushed.
    ///
    /// # Errors
    /// When the bytes can't be a frame; the same error again for ever after.
    pub fn next_frame(&mut self) -> Result<Option<Frame<M>>, FrameError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let result = self.read_frame();
        if let Err(error) = result {
            self.failed = Some(error);
            self.buffer = BytesMut::new();
        }
        result
    }

    /// An incomplete frame is waiting: a link that closes now was cut.
    #[must_use]
    pub fn is_mid_frame(&self) -> bool {
        !self.buffer.is_empty()
    }

    fn read_frame(&mut self) -> Result<Option<Frame<M>>, FrameError> {
        let mut header: &[u8] = &self.buffer;
        let (Ok(length), Ok(kind)) = (header.try_get_u32(), header.try_get_u8()) else {
            return Ok(None);
        };
        let length = check_length(kind, length)?;
        if header.len() < length {
            // The whole frame at once, so that a long one isn't copied once per piece.
            self.buffer
                .reserve(HEADER_BYTES + length - self.buffer.len());
            return Ok(None);
        }
        self.buffer.advance(HEADER_BYTES);
        read_body(kind, self.buffer.split_to(length).freeze()).map(Some)
    }
}

impl<M: DeserializeOwned> Default for Decoder<M> {
    fn default() -> Self {
        Self::new()
    }
}

/// Appends a control frame to `out`.
///
/// # Errors
/// When the message is longer than [`CONTROL_BYTES_MAX`]; `out` is then unchanged.
pub fn encode_control<M: Serialize>(message: &M, out: &mut BytesMut) -> Result<(), FrameError> {
    let body = serde_json::to_vec(message).map_err(|_| FrameError::MessageTooLong)?;
    if body.len() > CONTROL_BYTES_MAX {
        return Err(FrameError::MessageTooLong);
    }
    put_header(KIND_CONTROL, body.len(), out);
    out.put_slice(&body);
    Ok(())
}

/// Appends `bytes` of a stream to `out`: as many data frames as it takes, none for no bytes.
/// The caller has credit for them.
pub fn encode_data(channel: ChannelId, stream: Stream, bytes: &[u8], out: &mut BytesMut) {
    for piece in bytes.chunks(DATA_BYTES_MAX) {
        put_header(KIND_DATA, ADDRESS_BYTES + piece.len(), out);
        put_address(channel, stream, out);
        out.put_slice(piece);
    }
}

/// Appends the end of a stream to `out`.
pub fn encode_end_of_file(channel: ChannelId, stream: Stream, out: &mut BytesMut) {
    put_header(KIND_END_OF_FILE, ADDRESS_BYTES, out);
    put_address(channel, stream, out);
}

/// Appends a credit of `bytes` (at least 1) to `out`.
pub fn encode_credit(channel: ChannelId, stream: Stream, bytes: u32, out: &mut BytesMut) {
    put_header(KIND_CREDIT, CREDIT_BODY_BYTES, out);
    put_address(channel, stream, out);
    out.put_u32(bytes);
}

/// Feeds arbitrary bytes to both decoders, in one piece and in small ones, and checks that the
/// frames are the same; whatever decodes must survive encoding.
///
/// # Panics
/// When a property of the codec doesn't hold.
pub fn fuzz_frame(input: &[u8]) {
    fuzz_direction::<HostMessage>(input);
    fuzz_direction::<GuestMessage>(input);
}

fn fuzz_direction<M>(input: &[u8])
where
    M: DeserializeOwned + Serialize + PartialEq + Clone + std::fmt::Debug,
{
    let whole = decode_all::<M>([input]);
    let step = usize::from(input.first().copied().unwrap_or(0) % 7) + 1;
    let pieces = decode_all::<M>(input.chunks(step));
    assert_eq!(whole, pieces, "frames depend on how the bytes were cut");
    let mut encoded = BytesMut::new();
    for frame in &whole.0 {
        match frame {
            Frame::Control(message) => {
                // Re-encoding may be longer than what was read (escapes), so it may be refused.
                if encode_control(message, &mut encoded).is_err() {
                    return;
                }
            }
            Frame::Data {
                channel,
                stream,
                bytes,
            } => {
                encode_data(*channel, *stream, bytes, &mut encoded);
            }
            Frame::EndOfFile { channel, stream } => {
                encode_end_of_file(*channel, *stream, &mut encoded);
            }
            Frame::Credit {
                channel,
                stream,
                bytes,
            } => {
                encode_credit(*channel, *stream, *bytes, &mut encoded);
            }
        }
    }
    assert_eq!(
        decode_all::<M>([&*encoded]),
        (whole.0, None),
        "decode(encode(x)) is not x"
    );
}

fn decode_all<'a, M: DeserializeOwned>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<Frame<M>>, Option<FrameError>) {
    let mut decoder = Decoder::new();
    let mut frames = Vec::new();
    for piece in pieces {
        decoder.push(piece);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}

fn check_length(kind: u8, length: u32) -> Result<usize, FrameError> {
    let bytes = usize::try_from(length).unwrap_or(usize::MAX);
    let (least, most) = match kind {
        KIND_CONTROL => (2, CONTROL_BYTES_MAX),
        KIND_DATA => (ADDRESS_BYTES + 1, ADDRESS_BYTES + DATA_BYTES_MAX),
        KIND_END_OF_FILE => (ADDRESS_BYTES, ADDRESS_BYTES),
        KIND_CREDIT => (CREDIT_BODY_BYTES, CREDIT_BODY_BYTES),
        _ => return Err(FrameError::UnknownKind { kind }),
    };
    if bytes > most {
        return Err(FrameError::TooLong { kind, bytes });
    }
    if bytes < least {
        return Err(FrameError::BadLength { kind });
    }
    Ok(bytes)
}

fn read_body<M: DeserializeOwned>(kind: u8, mut body: Bytes) -> Result<Frame<M>, FrameError> {
    if kind == KIND_CONTROL {
        let message = serde_json::from_slice(&body).map_err(|error| FrameError::BadMessage {
            position: error.column(),
        })?;
        return Ok(Frame::Control(message));
    }
    let bad_length = |_| FrameError::BadLength { kind };
    let channel = ChannelId(body.try_get_u32().map_err(bad_length)?);
    let stream = stream_of(body.try_get_u8().map_err(bad_length)?)?;
    match kind {
        KIND_DATA => Ok(Frame::Data {
            channel,
            stream,
            bytes: body,
        }),
        KIND_END_OF_FILE => Ok(Frame::EndOfFile { channel, stream }),
        KIND_CREDIT => match body.try_get_u32().map_err(bad_length)? {
            0 => Err(FrameError::EmptyCredit),
            bytes => Ok(Frame::Credit {
                channel,
                stream,
                bytes,
            }),
        },
        _ => Err(FrameError::UnknownKind { kind }),
    }
}

fn put_header(kind: u8, length: usize, out: &mut BytesMut) {
    out.reserve(HEADER_BYTES + length);
    // INVARIANT: every caller's length is at most CONTROL_BYTES_MAX.
    out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    out.put_u8(kind);
}

fn put_address(channel: ChannelId, stream: Stream, out: &mut BytesMut) {
    out.put_u32(channel.0);
    out.put_u8(match stream {
        Stream::Stdin => 0,
        Stream::Stdout => 1,
        Stream::Stderr => 2,
        Stream::File => 3,
        Stream::Outward => 4,
        Stream::Inward => 5,
    });
}

const fn stream_of(byte: u8) -> Result<Stream, FrameError> {
    match byte {
        0 => Ok(Stream::Stdin),
        1 => Ok(Stream::Stdout),
        2 => Ok(Stream::Stderr),
        3 => Ok(Stream::File),
        4 => Ok(Stream::Outward),
        5 => Ok(Stream::Inward),
        stream => Err(FrameError::UnknownStream { stream }),
    }
}

const KIND_CONTROL: u8 = 1;
const KIND_DATA: u8 = 2;
const KIND_END_OF_FILE: u8 = 3;
const KIND_CREDIT: u8 = 4;

/// Length and kind.
const HEADER_BYTES: usize = 5;
/// Channel and stream.
const ADDRESS_BYTES: usize = 5;
/// Address and count.
const CREDIT_BODY_BYTES: usize = ADDRESS_BYTES + 4;

#[cfg(test)]
mod tests;
