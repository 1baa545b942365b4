// SPDX-License-Identifier: Apache-2.0
//! Sealed credentials and the bindings that say where each may go.
//!
//! **Purpose.** Keep credentials at rest so that rows can't be read, swapped or rolled back, and
//! hand one out only against the evidence that a decision was recorded.
//!
//! **Trust.** Called by the notary alone. It touches no file, socket or clock: rows come in as
//! [`Rows`] and go out as [`Change`]s, time and randomness are arguments.
//!
//! **Invariants.** [`Vault::unlock`] takes a `Recorded<Permit>`; every change of the rows takes a
//! `Recorded<Staged>`. No other call returns plaintext. A [`Secret`] lies in locked pages that no
//! core dump holds, is wiped when dropped, and has no Debug, Display, Clone or Serialize.
//!
//! **Not here.** The store (`torno-notary`), the decision (`torno-policy`), the record
//! (`torno-audit`).
//!
//! **Start reading at** [`Vault::unlock`] in `unlock.rs`, then `keys.rs` and `integrity.rs`.

mod entropy;
mod fingerprint;
mod harden;
mod integrity;
mod keys;
mod opened;
mod overlap;
mod rows;
mod seal;
mod secret;
#[expect(unsafe_code, reason = "locked pages need mmap, mlock and madvise")]
mod sys;
mod unlock;
mod vault;

pub use entropy::{Entropy, EntropyError, SystemEntropy};
pub use fingerprint::{Fingerprint, ROLLING_WINDOW, Rolling};
pub use harden::{HardenError, harden_process};
pub use keys::{PassphraseCost, UnsealError, UnsealKind, UnsealRow};
pub use rows::{Change, CredentialRow, KekRow, MetaRow, Rows, Sealed, changes};
pub use secret::{Secret, SecretError};
pub use unlock::UnlockError;
pub use vault::{ChangeError, NewCredential, Staged, Unsealed, Vault};
