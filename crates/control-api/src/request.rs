// SPDX-License-Identifier: Apache-2.0
//! Requests and replies, one reply for each request, in order, on one connection.

pub use crate::leftovers::{Leftover, LeftoverKind};
use serde::{Deserialize, Serialize};
use torno_policy::decision::{Layer, Refusal};
use torno_policy::facts::Act;
use torno_policy::grant::{Isolation, WorkspaceMode};
use torno_policy::names::{CheckpointName, SessionId};

/// What may be asked. The first message on a connection is `Authenticate`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ApiRequest {
    /// Who asks. A wrong token closes the connection after the reply.
    Authenticate {
        /// The operator's token, or a brain's.
        token: String,
    },
    /// Begin a session. The message carries the workspace's directory, when there is one, and then,
    /// if the caller wants it, a stream for the output of an install phase ([`crate::attach`]).
    /// The session ends when this connection closes, unless `detached`.
    Start(Box<StartSession>),
    /// Run a command. The reply carries one descriptor: the stream of [`crate::attach`].
    Exec(Box<Exec>),
    /// Attach to a running command: like `Exec`'s stream, from now on.
    Attach {
        /// Which session.
        session: SessionId,
        /// Which command.
        exec: u64,
    },
    /// Every session, or one.
    Sessions {
        /// Only this one.
        session: Option<SessionId>,
    },
    /// End a session in good order.
    Stop {
        /// Which.
        session: SessionId,
    },
    /// Kill: cut, destroy, fence. `None` is every session.
    Kill {
        /// Which.
        session: Option<SessionId>,
    },
    /// Hold a session still: its processes stop, what it has under way is cut, and it may nothing
    /// until `Resume`. Its wall time goes on.
    Pause {
        /// Which.
        session: SessionId,
    },
    /// Keep the session's copy of its workspace, as it is now, under a name.
    Checkpoint {
        /// Which.
        session: SessionId,
        /// The name; nothing means one that the desk makes.
        name: Option<CheckpointName>,
    },
    /// What is kept.
    Checkpoints,
    /// Let go of what is kept under a name.
    RemoveCheckpoint {
        /// The name.
        name: CheckpointName,
    },
    /// Let a paused session go on.
    Resume {
        /// Which.
        session: SessionId,
    },
    /// What the session changed in its copy of the workspace. The message carries one descriptor,
    /// the workspace's directory; the reply one, a pipe from which the diff is read.
    Diff {
        /// Which.
        session: SessionId,
    },
    /// Bring changes back. The message carries one descriptor: the target directory. The reply
    /// carries one: a pipe with a report of what was written and what was left.
    Apply {
        /// Which.
        session: SessionId,
        /// Only these paths; nothing means every changed file that does not execute on a host.
        paths: Option<Vec<String>>,
        /// Paths that execute on a host and that the person confirmed one by one.
        confirmed: Vec<String>,
    },
    /// What the session committed in its copy. The reply carries one descriptor: a pipe with a
    /// stream of [`crate::commits`].
    Commits {
        /// Which.
        session: SessionId,
    },
    /// Which layer and rule would decide this act in that session?
    Explain {
        /// A running session.
        session: SessionId,
        /// The act.
        act: Box<Act>,
    },
    /// What works on this machine, level by level.
    Doctor,
    /// What lies about and belongs to nobody.
    Leftovers {
        /// Remove it.
        remove: bool,
    },
    /// A token for the brain of one session.
    IssueBrainToken {
        /// Which session.
        session: SessionId,
    },
}

/// A session to begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartSession {
    /// The policy document's text; its digest must have been accepted.
    pub document: String,
    /// `--isolation`.
    pub isolation: Option<Isolation>,
    /// `--workspace`.
    pub workspace: Option<WorkspaceMode>,
    /// `--wall`.
    pub wall_seconds: Option<u64>,
    /// Environment from the command line, beside the document's.
    pub env: Vec<(String, String)>,
    /// The first descriptor is the workspace's directory.
    pub has_workspace: bool,
    /// Keeps running when the connection closes.
    pub detached: bool,
    /// Directories of `also`, with `~` expanded, in the document's order.
    pub also: Vec<String>,
    /// Their descriptors come next: machines share no directory, and are sent what lies in these.
    /// Elsewhere they say that the caller reaches what is mounted.
    pub has_also: bool,
    /// `--emulation`.
    pub emulation: bool,
    /// `--from`: the workspace begins as what is kept under this name.
    pub from: Option<CheckpointName>,
}

/// A command to run in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exec {
    /// Which session.
    pub session: SessionId,
    /// The argument vector; never a shell string.
    pub argv: Vec<String>,
    /// Environment for this command alone.
    pub env: Vec<(String, String)>,
    /// Working directory inside; nothing means the workspace.
    pub cwd: Option<String>,
    /// A terminal of this size.
    pub terminal: Option<TerminalSize>,
}

/// Rows and columns of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TerminalSize {
    /// Rows.
    pub rows: u16,
    /// Columns.
    pub columns: u16,
}

/// What is replied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ApiReply {
    /// The token is good.
    Authenticated,
    /// The session runs.
    Started(Box<Started>),
    /// The command runs; its stream comes with this message.
    ExecStarted {
        /// Its number in the session.
        exec: u64,
    },
    /// Sessions.
    Sessions(Vec<SessionRow>),
    /// The session is over.
    Stopped(Summary),
    /// The kill's receipt.
    Killed(KillReceipt),
    /// It is kept.
    Checkpointed(Box<Checkpointed>),
    /// What is kept, the oldest first.
    Checkpoints(Vec<Checkpoint>),
    /// It was done.
    Done,
    /// A pipe comes with this message.
    Stream,
    /// An explanation.
    Explained {
        /// `allow`, `ask` or `deny`.
        verdict: String,
        /// Each layer's verdict and rule.
        layers: Vec<(Layer, String, String)>,
        /// The refusal that a denied act would get.
        refusal: Option<Refusal>,
    },
    /// What works here.
    Doctor(Vec<LevelReport>),
    /// What lies about, or lay there until now.
    Leftovers(Vec<Leftover>),
    /// A token; shown once.
    Token {
        /// The token.
        token: String,
    },
    /// It was not done and nothing was left half-done.
    Failed(Failure),
}

/// A failure that a person can act on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// A stable code: a policy reason's, or one of the desk's own.
    pub code: String,
    /// What failed.
    pub message: String,
    /// What to do next.
    pub hint: String,
}

/// A session as it began: what the start banner shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Started {
    /// Its id.
    pub session: SessionId,
    /// The level in use.
    pub isolation: Isolation,
    /// What was granted, one line each.
    pub granted: Vec<String>,
    /// What was hidden from the workspace and environment: place and shape.
    pub hidden: Vec<(String, String)>,
    /// Walls that this level does not have.
    pub absent: Vec<String>,
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionRow {
    /// Its id.
    pub session: SessionId,
    /// `starting`, `installing`, `running`, `paused`, `frozen`, `ended`, `killed`.
    pub state: String,
    /// It is held still, in whatever state: a frozen one may be paused too.
    pub paused: bool,
    /// Why it ended, when it did: `exited`, `stopped`, `time_limit`,
    /// `disk_limit`, `disk_full`, `start_failed`, `role_died`.
    pub cause: Option<String>,
    /// The level.
    pub isolation: Isolation,
    /// Unix seconds of its begin.
    pub began_at: u64,
    /// Commands that run now.
    pub commands: Vec<CommandRow>,
    /// Requests refused so far.
    pub refused: u64,
}

/// A session's workspace as it was at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// Its name.
    pub name: CheckpointName,
    /// The session that had it.
    pub session: SessionId,
    /// The uid whose files they are, and who may begin a session from it.
    pub owner: u32,
    /// Unix seconds.
    pub made_at: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Nothing ran while it was copied: it is one moment's.
    pub is_still: bool,
}

/// A checkpoint that was just made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpointed {
    /// What is kept.
    pub checkpoint: Checkpoint,
    /// What was left out because of its shape: place and shape.
    pub hidden: Vec<(String, String)>,
}

/// A running command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandRow {
    /// Its number.
    pub exec: u64,
    /// Its argument vector.
    pub argv: Vec<String>,
}

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// Refused requests, grouped: target, how many, refusal.
    pub refused: Vec<(String, u32, Refusal)>,
    /// Files changed in the workspace copy, when there is one.
    pub changed: u32,
    /// Why what it changed is lost with its machine, if it is.
    pub left_inside: Option<String>,
}

/// What a kill cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KillReceipt {
    /// Each session.
    pub sessions: Vec<KilledSession>,
}

/// One killed session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KilledSession {
    /// Which.
    pub session: SessionId,
    /// Processes alive when it began.
    pub processes: u32,
    /// Processes alive after: 0, or the session is not reported as killed.
    pub survivors: u32,
    /// Placeholders that died.
    pub placeholders: u32,
    /// Credentialed writes that had succeeded before.
    pub credentialed_writes: u64,
    /// What could not be undone.
    pub leftovers: Vec<String>,
    /// Milliseconds from request to proof.
    pub took_ms: u64,
}

/// A level's state on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LevelReport {
    /// The level.
    pub isolation: Isolation,
    /// It passed the boot probe.
    pub works: bool,
    /// Guarantees, or what is missing.
    pub lines: Vec<String>,
    /// The one command that fixes what is missing.
    pub fix: Option<String>,
}
