// SPDX-License-Identifier: Apache-2.0
//! Desk (and supervisor) ↔ notary: sessions begin, narrow and end here. The desk sends the policy
//! document's text; the notary itself parses it and checks that its digest was accepted.

use crate::gate::Ticket;
use serde::{Deserialize, Serialize};
use torno_policy::decision::{Layer, Refusal};
use torno_policy::facts::Act;
use torno_policy::grant::{Grant, Isolation, WorkspaceMode};
use torno_policy::names::{
    CheckpointName, Generation, ImageDigest, RecordSeq, RuleName, SessionId, TenantName, ToolName,
};
use torno_policy::standing::{Phase, Standing};
use torno_policy::tripwire::Tripwire;

/// What the desk may send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum DeskMessage {
    /// Begin a session. Recorded durably before the reply.
    Begin(Box<Begin>),
    /// One-way step from install to locked.
    Lock {
        /// Pairs the reply.
        ticket: Ticket,
        /// Which session.
        session: SessionId,
    },
    /// The session is over. Placeholders and leases die.
    End {
        /// Pairs the reply.
        ticket: Ticket,
        /// Which session.
        session: SessionId,
        /// The workload's exit status, when there was one.
        exit_status: Option<i32>,
        /// Why, in one word of a closed set.
        cause: EndCause,
    },
    /// Standing becomes killed, durably, before the reply. `None` is every running session.
    Kill {
        /// Pairs the reply.
        ticket: Ticket,
        /// Which session.
        session: Option<SessionId>,
    },
    /// A person holds the session still: nothing of it is allowed from here on, and what its gates
    /// have under way is cut.
    Pause {
        /// Pairs the reply.
        ticket: Ticket,
        /// Which session.
        session: SessionId,
    },
    /// It goes on, once that is recorded. One that a tripwire froze stays frozen.
    Resume {
        /// Pairs the reply.
        ticket: Ticket,
        /// Which session.
        session: SessionId,
    },
    /// A checkpoint is about to be kept, or to go. Recorded before the reply.
    Checkpoint {
        /// Pairs the reply.
        ticket: Ticket,
        /// Which of both.
        change: CheckpointChange,
    },
    /// After the sandbox is gone: the receipt of a kill, for the record.
    Killed {
        /// Pairs the reply.
        ticket: Ticket,
        /// Which session.
        session: SessionId,
        /// Processes that were alive when the kill began.
        processes: u32,
        /// What could not be undone, in words of the product.
        leftovers: Vec<String>,
    },
    /// May this tool call happen? Recorded like a request.
    Judge {
        /// Pairs the reply.
        ticket: Ticket,
        /// Which session.
        session: SessionId,
        /// The call; only [`Act::Tool`] is taken here.
        act: Box<Act>,
    },
    /// A fact for the record about a command or file, and who saw it.
    Note {
        /// Which session.
        session: SessionId,
        /// The fact.
        note: SessionNote,
    },
    /// Which layer and rule would decide? Calls the same function, records nothing.
    Explain {
        /// Pairs the reply.
        ticket: Ticket,
        /// A running session, whose rows are used.
        session: SessionId,
        /// The act.
        act: Box<Act>,
    },
    /// Every session's standing.
    Sessions {
        /// Pairs the reply.
        ticket: Ticket,
    },
    /// Fingerprints of the vault's values, for the search of what enters a sandbox (I13).
    Fingerprints {
        /// Pairs the reply.
        ticket: Ticket,
    },
}

/// What becomes of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CheckpointChange {
    /// A session's workspace is kept under a name.
    Keep {
        /// Which session.
        session: SessionId,
        /// The name.
        checkpoint: CheckpointName,
        /// Bytes of its files.
        bytes: u64,
    },
    /// What is kept under a name goes.
    Remove {
        /// The name.
        checkpoint: CheckpointName,
    },
}

/// A session's begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Begin {
    /// Pairs the reply.
    pub ticket: Ticket,
    /// The new session.
    pub session: SessionId,
    /// Whose it is.
    pub tenant: TenantName,
    /// The policy document's text, whose digest must have been accepted.
    pub document: String,
    /// What the person chose on the command line beside it.
    pub choice: Choice,
    /// The isolation level that will be used, after the probe.
    pub effective_isolation: Isolation,
    /// That level is emulated here.
    pub emulated: bool,
    /// Limits of the boundary and walls that are absent, for the record.
    pub guarantees: Vec<String>,
    /// The image that the document's name stands for; nothing for the host's own `/usr`.
    pub image: Option<ImageDigest>,
}

/// What a person may choose beside the document; it narrows, or names a level.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// `--isolation`.
    pub isolation: Option<Isolation>,
    /// `--workspace`.
    pub workspace: Option<WorkspaceMode>,
    /// `--wall`: lower than the document's.
    pub wall_seconds: Option<u64>,
    /// `--emulation`.
    pub emulation: bool,
}

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// The command ended.
    Exited,
    /// `torno session stop`.
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

/// A fact about a session for the record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SessionNote {
    /// A command was started by the brain: seen by the host.
    CommandStarted {
        /// Number of the exec within the session.
        exec: u64,
        /// The argument vector, each at most 4 KiB.
        argv: Vec<String>,
    },
    /// It ended, as the guest reports.
    CommandEnded {
        /// Number of the exec.
        exec: u64,
        /// Exit status, or 128 + signal.
        status: i32,
    },
    /// Something was hidden from the workspace or environment.
    Hidden {
        /// Where it was.
        place: String,
        /// What it looked like (a rule's name).
        shape: String,
    },
    /// Its workspace begins as what was kept of another session's.
    Forked {
        /// Under this name.
        checkpoint: CheckpointName,
        /// The other session.
        of: SessionId,
    },
    /// It got a sandbox that was made ahead.
    SandboxClaimed {
        /// The sandbox's name.
        sandbox: String,
    },
}

/// What the notary replies to the desk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum DeskReply {
    /// The session exists.
    Begun(Box<Begun>),
    /// Done and on disk.
    Done {
        /// From the request.
        ticket: Ticket,
        /// The record, when one was written.
        record: Option<RecordSeq>,
    },
    /// Standing is killed on disk for these.
    KillRecorded {
        /// From the request.
        ticket: Ticket,
        /// Which sessions it changed.
        sessions: Vec<SessionId>,
        /// Credentialed writes (not GET, HEAD, OPTIONS) that had succeeded, per session.
        credentialed_writes: Vec<(SessionId, u64)>,
        /// Leases and placeholders that died.
        placeholders: u32,
    },
    /// The tool call may happen.
    Permitted {
        /// From the request.
        ticket: Ticket,
        /// Its record.
        record: RecordSeq,
    },
    /// It may not, or the request could not be served.
    Refused {
        /// From the request.
        ticket: Ticket,
        /// Why.
        refusal: Refusal,
    },
    /// An explanation, layer by layer.
    Explained {
        /// From the request.
        ticket: Ticket,
        /// `allow`, `ask` or `deny`.
        verdict: String,
        /// Each layer's verdict and rule.
        layers: Vec<(Layer, String, RuleName)>,
        /// The refusal a denied act would get.
        refusal: Option<Refusal>,
    },
    /// Every session's standing.
    Standings {
        /// From the request.
        ticket: Ticket,
        /// The rows.
        sessions: Vec<Standing>,
    },
    /// Fingerprints.
    FingerprintSet {
        /// From the request.
        ticket: Ticket,
        /// The set.
        fingerprints: Vec<Fingerprint>,
    },
}

/// A session as it was registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Begun {
    /// From the request.
    pub ticket: Ticket,
    /// Its generation.
    pub generation: Generation,
    /// Its phase at the start.
    pub phase: Phase,
    /// The canonical grant, narrowed by the choice.
    pub grant: Grant,
    /// Environment variables that hold placeholders: name and placeholder.
    pub placeholders: Vec<(String, String)>,
    /// Tools that are allowed without asking, for the banner.
    pub tools: Vec<ToolName>,
    /// What stands inside to be stolen, for sandbox and gate.
    pub tripwires: Vec<Tripwire>,
}

/// Finds one vault value in a stream without knowing it: a rolling hash picks candidates, a salted
/// SHA-256 confirms. The first [`FINGERPRINT_WINDOW`] bytes of the value feed the rolling hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fingerprint {
    /// The credential's name, for the message.
    pub credential: String,
    /// Bytes of the value.
    pub length: u32,
    /// Polynomial hash of the first window, modulo 2^61-1, with the set's base.
    pub rolling: u64,
    /// The base, odd, random for each set.
    pub base: u64,
    /// Salt of the digest.
    pub salt: [u8; 16],
    /// SHA-256 of salt and value.
    pub digest: [u8; 32],
}

/// LIMIT: values shorter than this are not searched for; the vault refuses to scrub them too.
pub const FINGERPRINT_WINDOW: usize = 12;
