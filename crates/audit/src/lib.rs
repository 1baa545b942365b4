// SPDX-License-Identifier: Apache-2.0
//! The append-only, tamper-evident record.
//!
//! **Purpose.** Write down what may happen before it happens, so that it can be proved later.
//!
//! **Trust.** Written by the notary alone, into one directory handed to it; read by whoever has the
//! files. Bytes of requests reach it only as canonical names or escaped, bounded text. Time arrives
//! as an argument.
//!
//! **Invariants.** [`Recorded`] is made here and nowhere else, after the write. An error ends the
//! recorder: what can't be recorded does not happen (I8). Every record is a leaf of an RFC 6962
//! tree whose heads are signed; nothing is ever rewritten. No field can hold a credential's value.
//!
//! **Not here.** Deciding (`torno-policy`), batching and timers (`torno-notary`), shipping.
//!
//! **Start reading at** [`record`], then [`recorder`] and [`evidence`].

pub mod budget;
pub mod checkpoint;
pub mod digest;
mod directory;
pub mod evidence;
pub mod line;
pub mod proof;
mod prune;
pub mod reader;
pub mod record;
pub mod recorder;
mod recovery;
pub mod request;
pub mod text;
pub mod tree;
pub mod verify;

pub use budget::{Allowance, Budget, SpendError};
pub use checkpoint::{Checkpoint, HistoryError, PublicKey, SigningKey};
pub use digest::Digest;
pub use evidence::Recorded;
pub use line::LINE_BYTES_MAX;
pub use prune::{PruneError, Pruned};
pub use reader::{Records, fuzz_reader};
pub use record::{Entry, Event};
pub use recorder::{AppendError, Durability, Opening, Recorder, Settings};
pub use recorder::{Flush, Flushed, Written};
pub use recovery::OpenError;
pub use request::{
    ContentNote, CredentialReleased, CredentialWatched, RequestDecided, RequestEnded,
    RequestRefused, TripwireSeen,
};
pub use text::{List, LongText, ShortText, Text};
pub use tree::TreeHead;
pub use verify::{Report, VerifyError, verify};
