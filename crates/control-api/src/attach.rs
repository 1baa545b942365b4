// SPDX-License-Identifier: Apache-2.0
//! The stream of one command: CLI ⇄ gate, on a stream socket of its own. Frames are
//! `u8 kind │ u32 LE length │ bytes`. The gate's side carries a workload's output.

/// LIMIT: one frame's bytes; a reader never allocates more.
pub const FRAME_BYTES_MAX: usize = 64 * 1024;

/// A frame from the person's side.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientFrame {
    /// Bytes for standard input.
    Stdin(Vec<u8>),
    /// No more input.
    StdinEnd,
    /// The terminal's new size: rows, columns.
    Resize(u16, u16),
    /// A signal for the command: its number.
    Signal(u8),
}

/// A frame from the command's side.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandFrame {
    /// Bytes of standard output, or of the terminal.
    Stdout(Vec<u8>),
    /// Bytes of standard error.
    Stderr(Vec<u8>),
    /// The command ended: exit status, or 128 + signal. The last frame.
    Ended(i32),
    /// It could not be started or was lost: code and message. The last frame.
    Failed(String, String),
}

/// Why bytes are not a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// Over [`FRAME_BYTES_MAX`].
    #[error("a frame is larger than the stream allows")]
    TooLarge,
    /// Unknown kind, or a body of the wrong form.
    #[error("not a frame of this stream")]
    Form,
}

/// A frame's kind, its body, and how many bytes of the buffer both took.
pub type Split<'a> = (u8, &'a [u8], usize);

/// Splits one frame off the front of `buffer`: kind, body, bytes used. `None` means more is needed.
///
/// # Errors
/// [`AttachError::TooLarge`].
pub fn split(buffer: &[u8]) -> Result<Option<Split<'_>>, AttachError> {
    let Some((&kind, rest)) = buffer.split_first() else {
        return Ok(None);
    };
    let Some((length, rest)) = rest.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| AttachError::TooLarge)?;
    if length > FRAME_BYTES_MAX {
        return Err(AttachError::TooLarge);
    }
    Ok(rest.get(..length).map(|body| (kind, body, 5 + length)))
}

fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let body = body.get(..FRAME_BYTES_MAX).unwrap_or(body);
    let length = u32::try_from(body.len()).unwrap_or_default();
    let mut bytes = Vec::with_capacity(5 + body.len());
    bytes.push(kind);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(body);
    bytes
}

impl ClientFrame {
    /// Writes the frame; input longer than [`FRAME_BYTES_MAX`] is the caller's to split.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Stdin(bytes) => frame(0, bytes),
            Self::StdinEnd => frame(1, &[]),
            Self::Resize(rows, columns) => {
                let [a, b] = rows.to_le_bytes();
                let [c, d] = columns.to_le_bytes();
                frame(2, &[a, b, c, d])
            }
            Self::Signal(number) => frame(3, &[*number]),
        }
    }

    /// Reads what [`split`] found.
    ///
    /// # Errors
    /// [`AttachError::Form`].
    pub fn decode(kind: u8, body: &[u8]) -> Result<Self, AttachError> {
        match (kind, body) {
            (0, bytes) => Ok(Self::Stdin(bytes.to_vec())),
            (1, []) => Ok(Self::StdinEnd),
            (2, &[a, b, c, d]) => Ok(Self::Resize(
                u16::from_le_bytes([a, b]),
                u16::from_le_bytes([c, d]),
            )),
            (3, &[number]) => Ok(Self::Signal(number)),
            _ => Err(AttachError::Form),
        }
    }
}

impl CommandFrame {
    /// Writes the frame; output longer than [`FRAME_BYTES_MAX`] is the caller's to split.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Stdout(bytes) => frame(16, bytes),
            Self::Stderr(bytes) => frame(17, bytes),
            Self::Ended(status) => frame(18, &status.to_le_bytes()),
            Self::Failed(code, message) => frame(19, format!("{code}\n{message}").as_bytes()),
        }
    }

    /// Reads what [`split`] found.
    ///
    /// # Errors
    /// [`AttachError::Form`].
    pub fn decode(kind: u8, body: &[u8]) -> Result<Self, AttachError> {
        match (kind, body) {
            (16, bytes) => Ok(Self::Stdout(bytes.to_vec())),
            (17, bytes) => Ok(Self::Stderr(bytes.to_vec())),
            (18, &[a, b, c, d]) => Ok(Self::Ended(i32::from_le_bytes([a, b, c, d]))),
            (19, bytes) => {
                let text = std::str::from_utf8(bytes).map_err(|_| AttachError::Form)?;
                let (code, message) = text.split_once('\n').ok_or(AttachError::Form)?;
                Ok(Self::Failed(code.to_owned(), message.to_owned()))
            }
            _ => Err(AttachError::Form),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_round_trip_and_a_long_length_is_refused_before_it_is_read() {
        for sent in [
            CommandFrame::Stdout(b"out".to_vec()),
            CommandFrame::Stderr(Vec::new()),
            CommandFrame::Ended(-7),
            CommandFrame::Failed("not_found".into(), "no `x`\nin PATH".into()),
        ] {
            let bytes = sent.encode();
            let (kind, body, used) = split(&bytes).unwrap().unwrap();
            assert_eq!(
                (CommandFrame::decode(kind, body), used),
                (Ok(sent), bytes.len())
            );
            assert_eq!(split(&bytes[..bytes.len() - 1]).unwrap(), None);
        }
        for sent in [
            ClientFrame::Stdin(b"in".to_vec()),
            ClientFrame::StdinEnd,
            ClientFrame::Resize(24, 80),
            ClientFrame::Signal(2),
        ] {
            let bytes = sent.encode();
            let (kind, body, _) = split(&bytes).unwrap().unwrap();
            assert_eq!(ClientFrame::decode(kind, body), Ok(sent));
        }
        assert_eq!(split(&[0, 255, 255, 255, 255]), Err(AttachError::TooLarge));
    }
}
