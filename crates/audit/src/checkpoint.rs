// SPDX-License-Identifier: Apache-2.0
//! Signed tree heads, in the form of C2SP tlog-checkpoint over signed-note with Ed25519: the part
//! of the record that a witness or a verifier keeps. `History` is the file of all of them: a torn
//! last note is dropped when the record is opened, since what it signed is signed again.

use crate::digest::Digest;
use crate::directory::byte_count;
use crate::tree::TreeHead;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer as _, Verifier as _, VerifyingKey};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::io::{self, BufRead, Read as _};
use thiserror::Error;

/// Why a key line is not one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a record's public key is one line `name+hash+key`; copy that line whole")]
pub struct KeyError;

/// Why a checkpoint does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// Not the five lines of a checkpoint in their one spelling.
    #[error("not a checkpoint in its one spelling")]
    Form,
    /// Of another record, or signed by another key.
    #[error("the checkpoint belongs to another record or key")]
    Origin,
    /// The signature does not fit the text.
    #[error("the checkpoint's signature does not fit")]
    Signature,
}

/// The key that signs checkpoints. No Debug, no Clone; wiped when dropped.
#[expect(missing_debug_implementations, reason = "a secret has no Debug")]
pub struct SigningKey {
    key: ed25519_dalek::SigningKey,
    public: PublicKey,
}

impl SigningKey {
    /// The key of a 32-byte seed.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let key = ed25519_dalek::SigningKey::from_bytes(seed);
        let public = PublicKey {
            key: key.verifying_key(),
        };
        Self { key, public }
    }

    /// What a verifier needs.
    #[must_use]
    pub const fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs a head.
    #[must_use]
    pub fn sign(&self, head: TreeHead) -> Checkpoint {
        let text = body(&self.public.name(), head);
        let signature = self.key.sign(text.as_bytes());
        let note = signed(&text, &self.public, &signature);
        Checkpoint { head, note }
    }
}

/// The key that a verifier needs, printed as a C2SP key line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    key: VerifyingKey,
}

impl PublicKey {
    /// Reads `name+hash+base64`; name and hash must fit the key.
    ///
    /// # Errors
    /// [`KeyError`] for anything else.
    pub fn parse(line: &str) -> Result<Self, KeyError> {
        let encoded = line.splitn(3, '+').nth(2).ok_or(KeyError)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| KeyError)?;
        let key: [u8; 32] = bytes
            .strip_prefix(&[ED25519])
            .and_then(|key| key.try_into().ok())
            .ok_or(KeyError)?;
        let key = VerifyingKey::from_bytes(&key).map_err(|_| KeyError)?;
        let public = Self { key };
        if public.to_string() == line {
            Ok(public)
        } else {
            Err(KeyError)
        }
    }

    /// The record's name (C2SP: origin and key name): it follows from the key.
    #[must_use]
    pub fn name(&self) -> String {
        let digest = Digest::of(self.key.as_bytes()).to_string();
        let short: String = digest.chars().take(NAME_DIGITS).collect();
        format!("torno-record-{short}")
    }

    fn hash(&self) -> [u8; 4] {
        key_hash(&self.name(), &self.key)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hash = data_encoding::HEXLOWER.encode(&self.hash());
        let mut typed = vec![ED25519];
        typed.extend_from_slice(self.key.as_bytes());
        write!(f, "{}+{hash}+{}", self.name(), STANDARD.encode(typed))
    }
}

/// A signed head whose signature fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    head: TreeHead,
    note: String,
}

impl Checkpoint {
    /// Reads a note and verifies it.
    ///
    /// # Errors
    /// See [`CheckpointError`].
    pub fn parse(note: &str, key: &PublicKey) -> Result<Self, CheckpointError> {
        let mut lines = note.split('\n');
        let mut line = || lines.next().ok_or(CheckpointError::Form);
        let (origin, size, root) = (line()?, line()?, line()?);
        let (blank, signature, end) = (line()?, line()?, line()?);
        if !blank.is_empty() || !end.is_empty() || lines.next().is_some() {
            return Err(CheckpointError::Form);
        }
        let head = TreeHead {
            size: size.parse().map_err(|_| CheckpointError::Form)?,
            root: decode_root(root)?,
        };
        if origin != key.name() {
            return Err(CheckpointError::Origin);
        }
        let text = body(origin, head);
        let signature = decode_signature(signature, key)?;
        // One spelling: what was read must be what would be written.
        if signed(&text, key, &signature) != note {
            return Err(CheckpointError::Form);
        }
        key.key
            .verify(text.as_bytes(), &signature)
            .map_err(|_| CheckpointError::Signature)?;
        Ok(Self {
            head,
            note: note.to_owned(),
        })
    }

    /// What is signed.
    #[must_use]
    pub const fn head(&self) -> TreeHead {
        self.head
    }

    /// The note's text.
    #[must_use]
    pub fn note(&self) -> &str {
        &self.note
    }
}

/// Signature type of C2SP signed-note: Ed25519.
const ED25519: u8 = 1;
/// 64 bits of the key's digest keep two records of one operator apart.
const NAME_DIGITS: usize = 16;

/// The key hash of C2SP signed-note: SHA-256(name ‖ newline ‖ type ‖ key), its first four bytes.
fn key_hash(name: &str, key: &VerifyingKey) -> [u8; 4] {
    let mut hasher = Sha256::new();
    hasher.update(name);
    hasher.update([b'\n', ED25519]);
    hasher.update(key.as_bytes());
    let digest: [u8; 32] = hasher.finalize().into();
    let [a, b, c, d, ..] = digest;
    [a, b, c, d]
}

fn body(origin: &str, head: TreeHead) -> String {
    let root = STANDARD.encode(head.root.as_bytes());
    format!("{origin}\n{}\n{root}\n", head.size)
}

fn signed(text: &str, key: &PublicKey, signature: &Signature) -> String {
    let mut bytes = key.hash().to_vec();
    bytes.extend_from_slice(&signature.to_bytes());
    format!("{text}\n— {} {}\n", key.name(), STANDARD.encode(bytes))
}

fn decode_root(text: &str) -> Result<Digest, CheckpointError> {
    let bytes = STANDARD.decode(text).map_err(|_| CheckpointError::Form)?;
    let bytes = bytes.try_into().map_err(|_| CheckpointError::Form)?;
    Ok(Digest::new(bytes))
}

fn decode_signature(line: &str, key: &PublicKey) -> Result<Signature, CheckpointError> {
    let (name, encoded) = line
        .strip_prefix("— ")
        .and_then(|rest| rest.split_once(' '))
        .ok_or(CheckpointError::Form)?;
    let bytes = STANDARD
        .decode(encoded)
        .map_err(|_| CheckpointError::Form)?;
    let signature = bytes.strip_prefix(&key.hash());
    let signature = signature.filter(|_| name == key.name());
    let signature = signature.ok_or(CheckpointError::Origin)?;
    Signature::from_slice(signature).map_err(|_| CheckpointError::Form)
}

/// Why the history can't be read on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// The file can't be read.
    #[error("the file of checkpoints can't be read")]
    Read(#[source] io::Error),
    /// A note does not count.
    #[error("the checkpoint at byte {byte} does not count")]
    Note {
        /// Where it starts.
        byte: u64,
        /// Why.
        #[source]
        source: CheckpointError,
    },
}

/// One step through the history.
#[derive(Debug)]
pub(crate) enum Step {
    /// A note that counts.
    Note(Checkpoint),
    /// A note over fewer records than are looked at; not verified.
    Older,
    /// A piece of a note at the end of the file, and where it starts.
    Torn(u64),
}

/// Reads notes in order.
#[derive(Debug)]
pub(crate) struct History<'a, R> {
    from: R,
    key: &'a PublicKey,
    byte: u64,
    oldest: u64,
}

impl<'a, R: BufRead> History<'a, R> {
    /// Verifies the notes of at least `oldest` records: a start need not check the signature of
    /// every second of the past.
    pub(crate) const fn new(from: R, key: &'a PublicKey, oldest: u64) -> Self {
        Self {
            from,
            key,
            byte: 0,
            oldest,
        }
    }

    /// The next note; `None` at the end of the file.
    pub(crate) fn step(&mut self) -> Result<Option<Step>, HistoryError> {
        let mut note = Vec::new();
        let mut lines = 0;
        while lines < LINES_OF_A_NOTE {
            let before = note.len();
            (&mut self.from)
                .take(LINE_BYTES_MAX)
                .read_until(b'\n', &mut note)
                .map_err(HistoryError::Read)?;
            if note.len() == before && note.is_empty() {
                return Ok(None);
            }
            if note.last() != Some(&b'\n') || note.len() == before {
                return self.piece(&note);
            }
            lines += 1;
        }
        let text = str::from_utf8(&note).map_err(|_| self.fault(CheckpointError::Form))?;
        let size = text.split('\n').nth(1).and_then(|size| size.parse().ok());
        if size.is_some_and(|size: u64| size < self.oldest) {
            self.byte += byte_count(&note);
            return Ok(Some(Step::Older));
        }
        let checkpoint = Checkpoint::parse(text, self.key).map_err(|error| self.fault(error))?;
        self.byte += byte_count(&note);
        Ok(Some(Step::Note(checkpoint)))
    }

    /// What stands at the end without being a whole note. A line that is too long is no torn note.
    fn piece(&self, note: &[u8]) -> Result<Option<Step>, HistoryError> {
        if byte_count(note) < LINE_BYTES_MAX {
            Ok(Some(Step::Torn(self.byte)))
        } else {
            Err(self.fault(CheckpointError::Form))
        }
    }

    const fn fault(&self, source: CheckpointError) -> HistoryError {
        HistoryError::Note {
            byte: self.byte,
            source,
        }
    }
}

const LINES_OF_A_NOTE: usize = 5;
/// LIMIT: the longest line of a note is its signature, under 200 bytes; a whole note is under 400.
const LINE_BYTES_MAX: u64 = 1024;

#[cfg(test)]
mod tests;
