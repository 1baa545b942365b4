// SPDX-License-Identifier: Apache-2.0
//! The notary's state, how it opens, and what it does as time goes by.

use crate::answer::Awaiting;
use crate::gates::{GateId, GateRow};
use crate::history::{self, History, HistoryError};
use crate::sessions::Session;
use crate::store::{SqliteStore, StoreError};
use crate::watch::FIRST_WATCH;
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use thiserror::Error;
use torno_audit::{
    AppendError, Durability, Entry, Event, Opening, Recorder, SigningKey, record::EndCause,
};
use torno_notary_protocol::receipt::ReceiptKey;
use torno_policy::document::Presets;
use torno_policy::names::{CredentialName, Generation, SessionId, TenantName};
use torno_policy::organisation::Organisation;
use torno_vault::{Entropy, Vault};

/// What the role's main hands over.
#[expect(missing_debug_implementations, reason = "it holds keys")]
pub struct Config {
    /// The store's file, in a directory of mode 0700.
    pub store: PathBuf,
    /// The record's directory, of mode 0700.
    pub record: PathBuf,
    /// Signs the record's checkpoints.
    pub signing_key: SigningKey,
    /// Shared with the dialer for one life of the daemon.
    pub receipt_key: ReceiptKey,
    /// Whose vault operators work on.
    pub tenant: TenantName,
    /// The organisation's policy.
    pub organisation: Organisation,
    /// Name and version, for the record.
    pub software: String,
    /// Randomness.
    pub entropy: Box<dyn Entropy + Send>,
}

/// Two clocks, read once for a batch by the role's main.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Unix milliseconds: for the record and for expiry of bindings.
    pub unix_ms: u64,
    /// Milliseconds of the boot-time clock: for receipts.
    pub boot_ms: u64,
}

impl Now {
    pub(crate) const fn unix_seconds(self) -> u64 {
        self.unix_ms / 1000
    }

    pub(crate) const fn entry(self, session: Option<SessionId>, event: Event) -> Entry {
        Entry {
            at_ms: self.unix_ms,
            session,
            event,
        }
    }
}

/// What the role's main must do besides replying.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Tell the session's gates to cut what the credential, or anything, no longer covers.
    Revoke {
        /// Whose gates.
        session: SessionId,
        /// Nothing means everything of the session.
        credential: Option<CredentialName>,
    },
}

/// A reply, when one is due, and effects.
#[derive(Debug)]
pub struct Reaction<R> {
    /// The reply.
    pub reply: Option<R>,
    /// The effects, to be done before the reply is sent.
    pub effects: Vec<Effect>,
}

impl<R> Reaction<R> {
    pub(crate) const fn reply(reply: R) -> Self {
        Self {
            reply: Some(reply),
            effects: Vec::new(),
        }
    }
}

/// Why the notary does not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The store.
    #[error("the notary's store can't be used")]
    Store(#[from] StoreError),
    /// The record.
    #[error("the record can't be opened")]
    Record(#[from] torno_audit::OpenError),
    /// Comparing the two.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The first records of this life.
    #[error("the record can't be written")]
    Append(#[from] AppendError),
}

/// The notary.
#[expect(missing_debug_implementations, reason = "it holds keys")]
pub struct Notary {
    pub(crate) store: SqliteStore,
    pub(crate) recorder: Recorder,
    pub(crate) vault: Vault,
    /// Rises with each new value in the vault; a gate says which it has taken up.
    pub(crate) watch: u64,
    /// The watch of each credential's newest value; those of an earlier life have the first.
    pub(crate) valued: HashMap<CredentialName, u64>,
    /// The store is older than the record: the vault stays sealed.
    pub(crate) rolled_back: bool,
    pub(crate) receipt_key: ReceiptKey,
    pub(crate) sessions: HashMap<SessionId, Session>,
    pub(crate) gates: HashMap<GateId, GateRow>,
    pub(crate) organisation: Organisation,
    /// What the operator confirmed.
    pub(crate) presets: Presets,
    pub(crate) tenant: TenantName,
    /// Of every session that begins in this life.
    pub(crate) generation: Generation,
    pub(crate) entropy: Box<dyn Entropy + Send>,
    pub(crate) record_directory: PathBuf,
    /// Releases that wait for a flush, oldest first.
    pub(crate) awaiting: VecDeque<Awaiting>,
    /// A flush for them is under way.
    pub(crate) flushing: bool,
    /// Sessions that were frozen and whose gates were not told yet.
    pub(crate) to_cut: Vec<SessionId>,
    checkpoint_due_ms: u64,
    seen_due_ms: u64,
}

/// LIMIT: one signature a second while records come in; a witness is never further behind.
const CHECKPOINT_EVERY_MS: u64 = 1_000;
/// LIMIT: a start reads the record from `seen` on: a minute's worth, well under a second.
const SEEN_EVERY_MS: u64 = 60_000;

impl Notary {
    /// Opens store and record, compares them, raises the generation, and ends what a former life
    /// left running: nothing outlives the daemon (I10).
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(config: Config, now: Now) -> Result<Self, OpenError> {
        let mut store = SqliteStore::open(&config.store)?;
        let opening = Opening {
            at_ms: now.unix_ms,
            software: config.software.as_str().into(),
        };
        let mut recorder = Recorder::open(&config.record, config.signing_key, opening)?;
        let presets = store.presets()?;
        let (seen, pending) = store.history()?;
        let history = history::compare(&config.record, seen, pending)?;
        if let History::Owed(event) = &history {
            let entry = now.entry(None, (**event).clone());
            let _recorded = recorder.append(vec![(entry, ())], Durability::Synced)?;
        }
        let rolled_back = history == History::RolledBack;
        let generation = Generation(store.raise_generation()?);
        let mut notary = Self {
            vault: Vault::new(store.vault_rows()?),
            store,
            recorder,
            watch: FIRST_WATCH,
            valued: HashMap::new(),
            rolled_back,
            receipt_key: config.receipt_key,
            sessions: HashMap::new(),
            gates: HashMap::new(),
            organisation: config.organisation,
            presets,
            tenant: config.tenant,
            generation,
            entropy: config.entropy,
            record_directory: config.record,
            awaiting: VecDeque::new(),
            flushing: false,
            to_cut: Vec::new(),
            checkpoint_due_ms: 0,
            seen_due_ms: 0,
        };
        notary.end_former_life(now)?;
        notary.remember_seen()?;
        Ok(notary)
    }

    /// To be called at least every 50 ms: flushes what was only written, signs heads, drops what
    /// is too old.
    ///
    /// # Errors
    /// When the record or the store fails: from then on nothing is allowed; the role ends.
    pub fn tick(&mut self, now: Now) -> Result<(), OpenError> {
        for session in self.sessions.values_mut() {
            session.receipts.expire(now.boot_ms);
        }
        // Every tick, whatever the clock says: ticks come twice within the promised 100 ms.
        if self.recorder.sync_due().is_some() {
            self.recorder.sync()?;
        }
        if now.boot_ms >= self.checkpoint_due_ms {
            self.recorder.checkpoint()?;
            self.checkpoint_due_ms = now.boot_ms.saturating_add(CHECKPOINT_EVERY_MS);
        }
        if now.boot_ms >= self.seen_due_ms {
            self.remember_seen()?;
            self.seen_due_ms = now.boot_ms.saturating_add(SEEN_EVERY_MS);
        }
        Ok(())
    }

    /// The daemon stops: every session that runs ends, and the record is signed.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn close(mut self, now: Now) -> Result<(), OpenError> {
        self.vault.seal();
        self.end_former_life(now)?;
        self.remember_seen()?;
        self.recorder.close()?;
        Ok(self.store.close()?)
    }

    /// The store has every vault change that is recorded so far. Never said by a store that was
    /// found to be older.
    pub(crate) fn remember_seen(&mut self) -> Result<(), OpenError> {
        if !self.rolled_back {
            self.recorder.sync()?;
            self.store.settle(self.recorder.next_seq().0)?;
        }
        Ok(())
    }

    /// Ends every session that is running in the store, durably and recorded.
    fn end_former_life(&mut self, now: Now) -> Result<(), OpenError> {
        let ended = self.store.end_running()?;
        if ended.is_empty() {
            return Ok(());
        }
        let event = || Event::SessionEnded {
            cause: EndCause::RoleDied,
            exit_status: None,
        };
        let batch = ended
            .into_iter()
            .map(|id| (now.entry(Some(id), event()), ()));
        let _recorded = self.recorder.append_final(batch.collect())?;
        self.sessions.clear();
        Ok(())
    }
}
