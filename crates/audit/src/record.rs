// SPDX-License-Identifier: Apache-2.0
//! What is written down: one closed list of events. A wire type, pinned by `tests/golden/`.
//!
//! No field takes free bytes: names are canonical types of `policy`, everything else is
//! [`Text`](crate::Text), which escapes and bounds. A query, a header value or a body has no field.

mod binding;
mod source;

pub use binding::BindingSet;
pub use source::Source;

use crate::digest::Digest;
use crate::request::{
    CredentialReleased, CredentialWatched, RequestDecided, RequestEnded, RequestRefused,
    TripwireSeen,
};
use crate::text::{List, LongText, ShortText};
use serde::{Deserialize, Serialize};
use torno_policy::decision::{Layer, Reason};
use torno_policy::grant::Isolation;
use torno_policy::names::{
    BindingId, CheckpointName, CredentialName, Generation, ImageDigest, PresetName, RecordSeq,
    SessionId, TenantName, ToolName,
};

/// One record, before it has a place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Unix milliseconds, from the writer's clock.
    pub at_ms: u64,
    /// Whose act it was.
    pub session: Option<SessionId>,
    /// What happened.
    pub event: Event,
}

/// Everything that can be written down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// A writer opened the record; the first line of every run.
    RecordOpened {
        /// Name and version of the writer.
        software: ShortText,
        /// The key that signs checkpoints, as a C2SP note key line.
        key: ShortText,
    },
    /// A torn, unacknowledged tail was dropped when the record was opened.
    RecordRecovered {
        /// Bytes that were dropped.
        dropped_bytes: u64,
        /// Their digest.
        dropped_sha256: Digest,
        /// The segment they stood in.
        segment: RecordSeq,
    },
    /// Old segments were removed; the tree head at their end is kept.
    SegmentPruned {
        /// First record that went.
        first: RecordSeq,
        /// First record that stayed: the size of the kept head.
        end: RecordSeq,
        /// Root of the tree at that size.
        root: Digest,
    },
    /// A session began.
    SessionBegun {
        /// Its generation.
        generation: Generation,
        /// Whose it is.
        tenant: TenantName,
        /// The accepted policy document.
        document_digest: Digest,
        /// The level that is used.
        isolation: Isolation,
        /// Limits of the boundary and walls that are absent, in words of the product.
        guarantees: List<ShortText, GUARANTEES_MAX>,
    },
    /// Install is over, one-way.
    SessionLocked,
    /// A session ended by itself.
    SessionEnded {
        /// Why.
        cause: EndCause,
        /// The workload's exit status, when there was one.
        exit_status: Option<i32>,
    },
    /// Standing became killed: from here on nothing of the session is allowed.
    SessionKilled,
    /// The sandbox of a killed session is gone.
    KillCompleted {
        /// Processes that were alive when the kill began.
        processes: u32,
        /// What could not be undone, in words of the product.
        leftovers: List<ShortText, LEFTOVERS_MAX>,
        /// Live connections that were cut.
        cut: u32,
    },
    /// A request was judged.
    RequestDecided(Box<RequestDecided>),
    /// A credential leaves the vault for one request.
    CredentialReleased(Box<CredentialReleased>),
    /// A credential leaves the vault so that answers can be searched for it; it goes nowhere.
    CredentialWatched(Box<CredentialWatched>),
    /// How an allowed request ended.
    RequestEnded(Box<RequestEnded>),
    /// Requests were refused before they could be judged.
    RequestRefused(Box<RequestRefused>),
    /// The far end's answer held a released credential; it was replaced.
    CredentialReflected {
        /// The decision of that request.
        decision: RecordSeq,
        /// Which one.
        credential: CredentialName,
        /// Places.
        count: u32,
    },
    /// The far end's answer held values made with a credential; the sandbox got placeholders. A
    /// later request that was decided with the credential and has no release of it used one.
    CredentialMinted {
        /// The decision of that request.
        decision: RecordSeq,
        /// The credential that they were made with.
        credential: CredentialName,
        /// How many.
        count: u32,
    },
    /// The far end set cookies that the gate keeps; the sandbox got markers.
    CookiesKept {
        /// The decision of that request.
        decision: RecordSeq,
        /// The credential that earned them: where it may go, they may.
        credential: CredentialName,
        /// Their names, never a value.
        names: List<ShortText, COOKIES_MAX>,
    },
    /// The dialer was asked for what no honest gate asks.
    DialAlarm {
        /// What was wrong.
        reason: Reason,
    },
    /// A tool call was judged.
    ToolDecided {
        /// Which tool.
        tool: ToolName,
        /// The canonical arguments.
        arguments_digest: Digest,
        /// The answer.
        verdict: Verdict,
        /// The layer that decided.
        layer: Layer,
        /// The rule that decided.
        rule: ShortText,
        /// Why not, when it was refused.
        reason: Option<Reason>,
    },
    /// A command was started.
    CommandStarted {
        /// Its number within the session.
        exec: u64,
        /// Its arguments.
        argv: List<LongText, ARGUMENTS_MAX>,
        /// Who saw it.
        source: Source,
    },
    /// A command ended.
    CommandEnded {
        /// Its number within the session.
        exec: u64,
        /// Exit status, or 128 + signal.
        status: i32,
        /// Who saw it.
        source: Source,
    },
    /// Something credential-shaped was kept out of the sandbox.
    Hidden {
        /// Where it was.
        place: LongText,
        /// What it looked like (a rule's name).
        shape: ShortText,
    },
    /// A vault was made.
    VaultInitialised,
    /// The vault's keys came into memory.
    VaultUnsealed,
    /// The vault's keys left memory.
    VaultSealed,
    /// Somebody tried to unseal and failed.
    UnsealFailed,
    /// A credential was stored.
    CredentialPut {
        /// Which one.
        name: CredentialName,
        /// Its first version.
        version: u32,
    },
    /// A credential got a new value.
    CredentialRotated {
        /// Which one.
        name: CredentialName,
        /// Its new version.
        version: u32,
    },
    /// A credential may no longer be used.
    CredentialRevoked {
        /// Which one.
        name: CredentialName,
    },
    /// A credential and its bindings are gone.
    CredentialRemoved {
        /// Which one.
        name: CredentialName,
    },
    /// A credential was tied to an endpoint.
    BindingSet(Box<BindingSet>),
    /// A binding is gone.
    BindingRemoved {
        /// Which one.
        binding: BindingId,
    },
    /// A tenant's key was replaced.
    KekRotated {
        /// Its new version.
        version: u32,
    },
    /// A person accepted a policy document.
    DocumentAccepted {
        /// Its digest.
        digest: Digest,
    },
    /// The operator confirmed a preset.
    PresetSet {
        /// Its name.
        name: PresetName,
        /// Of its rules in their one spelling.
        digest: Digest,
    },
    /// The operator removed a preset.
    PresetRemoved {
        /// Its name.
        name: PresetName,
    },
    /// A session spent its record budget: its acts are refused from here on.
    BudgetFrozen {
        /// Records it had written.
        records: u64,
    },
    /// A tripwire was on its way out: the session is frozen from here on.
    TripwireSeen(Box<TripwireSeen>),
    /// The session got a sandbox that was made ahead; one made for it bears its own name.
    SandboxClaimed {
        /// The sandbox's name.
        sandbox: ShortText,
    },
    /// The session's workspace, as it was at this moment, is about to be kept under a name.
    SessionCheckpointed {
        /// The name.
        checkpoint: CheckpointName,
        /// Bytes of its files.
        bytes: u64,
    },
    /// What is kept under a name goes.
    CheckpointRemoved {
        /// The name.
        checkpoint: CheckpointName,
    },
    /// The session's workspace begins as what was kept of another one's.
    SessionForked {
        /// Under this name.
        checkpoint: CheckpointName,
        /// The other session.
        of: SessionId,
    },
    /// A person holds the session still: from here on nothing of it is allowed.
    SessionPaused,
    /// It goes on.
    SessionResumed,
    /// The session is made of an image of this machine; without this of the host's own `/usr`.
    ImageChosen {
        /// As the document spells it.
        image: ShortText,
        /// What that stands for.
        digest: ImageDigest,
    },
}

impl Event {
    /// Ends and kills: they pass where the disk or a session's budget is spent.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        matches!(
            self,
            Self::SessionEnded { .. }
                | Self::SessionKilled
                | Self::KillCompleted { .. }
                | Self::BudgetFrozen { .. }
                | Self::TripwireSeen(_)
                | Self::VaultSealed
        )
    }

    /// What stands before a run's first checkpoint.
    #[must_use]
    pub(crate) const fn is_opening(&self) -> bool {
        matches!(
            self,
            Self::RecordOpened { .. } | Self::RecordRecovered { .. }
        )
    }
}

/// The answer of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It may happen.
    Allow,
    /// A person must say so first.
    Ask,
    /// It may not happen.
    Deny,
}

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// The command ended.
    Exited,
    /// A person or brain stopped it.
    Stopped,
    /// A limit of time.
    TimeLimit,
    /// It held more of the disk than `limits.disk`.
    DiskLimit,
    /// The disk ran low, and it held most.
    DiskFull,
    /// The start failed half-way and was undone.
    StartFailed,
    /// A role of the session died.
    RoleDied,
}

/// LIMIT: a level has about ten walls; 32 leaves room.
pub const GUARANTEES_MAX: usize = 32;
/// LIMIT: a kill's receipt names what is left, one line each; more than 32 is a count.
pub const LEFTOVERS_MAX: usize = 32;
/// LIMIT: 32 arguments of 1 KiB keep one line under [`crate::LINE_BYTES_MAX`].
pub const ARGUMENTS_MAX: usize = 32;
/// LIMIT: there are fewer methods in use than this.
pub const METHODS_MAX: usize = 32;
/// LIMIT: a binding with more paths than this is read from the vault; the record counts them.
pub const PATHS_MAX: usize = 32;
/// LIMIT: an answer sets a few cookies; more are a count.
pub const COOKIES_MAX: usize = 16;
/// LIMIT: as for paths; a template denies up to about 90.
pub const DENIED_MAX: usize = 32;

#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;
