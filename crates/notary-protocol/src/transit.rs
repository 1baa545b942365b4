// SPDX-License-Identifier: Apache-2.0
//! Frames with attachments: a message, then raw credentials. The one form in which a credential
//! leaves the notary.
//!
//! ```text
//! u32 LE: message bytes │ u32 LE: number of attachments │ message │ (u32 LE: bytes │ bytes)*
//! ```
//!
//! Operators' messages are JSON. Gate and notary speak postcard, a few bytes for each field, since
//! they ask and answer for each request ([`encode_compact`], decision 0033).

use crate::MESSAGE_BYTES_MAX;
use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

/// A credential on its way from the notary to the gate that will put it in, once.
/// Deliberately without Debug, Display, Clone and Serialize.
#[expect(missing_debug_implementations, reason = "a secret has no Debug")]
pub struct CredentialInTransit(Zeroizing<Vec<u8>>);

impl CredentialInTransit {
    /// Wraps bytes that the vault exposed.
    #[must_use]
    pub fn new(bytes: Zeroizing<Vec<u8>>) -> Self {
        Self(bytes)
    }

    /// How many bytes, for who packs frames and needs none of them.
    #[must_use]
    pub fn byte_count(&self) -> usize {
        self.0.len()
    }

    /// The bytes. One caller in the gate (`inject`), one in the notary (what an operator sent in).
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

/// Why a frame can't be written or read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Over [`MESSAGE_BYTES_MAX`].
    #[error("the message is larger than a role's socket takes")]
    TooLarge,
    /// Lengths that don't add up, or bytes left over.
    #[error("the frame's lengths do not add up")]
    Form,
    /// Of another shape.
    #[error("the message is not one of the closed set")]
    Message,
}

/// Writes a frame. The result is zeroized when dropped.
///
/// # Errors
/// [`FrameError::TooLarge`] or [`FrameError::Message`].
pub fn encode<M: Serialize>(
    message: &M,
    attachments: &[CredentialInTransit],
) -> Result<Zeroizing<Vec<u8>>, FrameError> {
    let message = serde_json::to_vec(message).map_err(|_| FrameError::Message)?;
    frame(&message, attachments)
}

/// Writes a frame between gate and notary. The result is zeroized when dropped.
///
/// # Errors
/// As [`encode`].
pub fn encode_compact<M: Serialize>(
    message: &M,
    attachments: &[CredentialInTransit],
) -> Result<Zeroizing<Vec<u8>>, FrameError> {
    let message = postcard::to_allocvec(message).map_err(|_| FrameError::Message)?;
    frame(&message, attachments)
}

fn frame(
    message: &[u8],
    attachments: &[CredentialInTransit],
) -> Result<Zeroizing<Vec<u8>>, FrameError> {
    let attached: usize = attachments.iter().map(|a| 4 + a.0.len()).sum();
    let total = 8 + message.len() + attached;
    if total > MESSAGE_BYTES_MAX {
        return Err(FrameError::TooLarge);
    }
    // INVARIANT: capacity is exact, so no reallocation leaves a copy of a credential behind.
    let mut frame = Zeroizing::new(Vec::with_capacity(total));
    let length = |n: usize| u32::try_from(n).map_err(|_| FrameError::TooLarge);
    frame.extend_from_slice(&length(message.len())?.to_le_bytes());
    frame.extend_from_slice(&length(attachments.len())?.to_le_bytes());
    frame.extend_from_slice(message);
    for attachment in attachments {
        frame.extend_from_slice(&length(attachment.0.len())?.to_le_bytes());
        frame.extend_from_slice(&attachment.0);
    }
    Ok(frame)
}

/// Reads a frame whole.
///
/// # Errors
/// See [`FrameError`].
pub fn decode<M: DeserializeOwned>(
    frame: &[u8],
) -> Result<(M, Vec<CredentialInTransit>), FrameError> {
    let (message, attachments) = parts(frame)?;
    let message = serde_json::from_slice(message).map_err(|_| FrameError::Message)?;
    Ok((message, attachments))
}

/// Reads a frame between gate and notary whole.
///
/// # Errors
/// See [`FrameError`].
pub fn decode_compact<M: DeserializeOwned>(
    frame: &[u8],
) -> Result<(M, Vec<CredentialInTransit>), FrameError> {
    let (message, attachments) = parts(frame)?;
    match postcard::take_from_bytes(message) {
        Ok((message, [])) => Ok((message, attachments)),
        Ok((_, _)) | Err(_) => Err(FrameError::Message),
    }
}

fn parts(frame: &[u8]) -> Result<(&[u8], Vec<CredentialInTransit>), FrameError> {
    if frame.len() > MESSAGE_BYTES_MAX {
        return Err(FrameError::TooLarge);
    }
    let (length, rest) = take_length(frame)?;
    let (count, rest) = take_length(rest)?;
    let (message, mut rest) = rest.split_at_checked(length).ok_or(FrameError::Form)?;
    let mut attachments = Vec::new();
    for _ in 0..count {
        let (length, after) = take_length(rest)?;
        let (bytes, after) = after.split_at_checked(length).ok_or(FrameError::Form)?;
        attachments.push(CredentialInTransit::new(Zeroizing::new(bytes.to_vec())));
        rest = after;
    }
    if rest.is_empty() {
        Ok((message, attachments))
    } else {
        Err(FrameError::Form)
    }
}

fn take_length(bytes: &[u8]) -> Result<(usize, &[u8]), FrameError> {
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or(FrameError::Form)?;
    let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| FrameError::Form)?;
    Ok((length, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_round_trips_and_every_cut_of_it_is_refused() {
        let secret = || CredentialInTransit::new(Zeroizing::new(b"canary".to_vec()));
        let message = ("hello".to_owned(), 3);
        let secrets = [secret(), secret()];
        type Read = fn(&[u8]) -> Result<((String, u32), Vec<CredentialInTransit>), FrameError>;
        let forms: [(_, Read); 2] = [
            (encode(&message, &secrets), decode),
            (encode_compact(&message, &secrets), decode_compact),
        ];
        for (frame, read) in forms {
            let frame = frame.unwrap();
            let (again, attached) = read(&frame).unwrap();
            assert_eq!(again, message);
            assert_eq!(attached.len(), 2);
            assert_eq!(attached[1].expose(), b"canary");
            for end in 0..frame.len() {
                assert!(read(&frame[..end]).is_err(), "cut at {end}");
            }
        }
    }

    #[test]
    fn bytes_behind_a_compact_message_are_refused() {
        let mut message = postcard::to_allocvec(&7_u32).unwrap();
        let whole = frame(&message, &[]).unwrap();
        assert_eq!(decode_compact::<u32>(&whole).map(|(n, _)| n), Ok(7));
        message.push(0);
        let longer = frame(&message, &[]).unwrap();
        let read = decode_compact::<u32>(&longer);
        assert_eq!(read.map(|(n, _)| n), Err(FrameError::Message));
    }
}
