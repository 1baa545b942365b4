// SPDX-License-Identifier: Apache-2.0
//! The closed message sets between the roles, besides those of `torno-notary-protocol`.
//!
//! The supervisor writes [`FromSupervisor`] and reads only [`Order`], a packet of fixed size:
//! it parses nothing.

mod checkpoint;
mod gate;
mod packet;
mod porter;
mod workspace;

pub(crate) use checkpoint::{CheckpointOrder, Keeping};
pub(crate) use gate::{ExecOrder, GateConfiguration, GateEvent, GateRequest, HELLO_WAIT};
pub(crate) use packet::{GateNumber, Order};
pub(crate) use porter::{Baseline, BaselineEntry, PorterJob, PorterReply, PorterTask, SyncRules};
pub(crate) use workspace::{ReturnOrder, Returned, WorkspaceOrder, WorkspaceWay};

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;
use torno_control_api::request::{Checkpoint, Leftover};
use torno_policy::grant::{FileRules, Image, Isolation, Limits, WorkspaceMode};
use torno_policy::names::{Generation, ImageDigest, SessionId, TenantName};
use torno_policy::standing::Phase;

use crate::upstreams::Upstreams;

/// What the supervisor tells a role. Descriptors travel with the message, in the order of
/// [`crate::roles`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromSupervisor {
    /// The first message to each role.
    Start(Box<Start>),
    /// To a gate, once: from now on it serves a session. With it come its ends towards notary,
    /// dialer, launcher and desk; until then it has none.
    Serve,
    /// A gate was started. To notary, dialer, launcher and desk, each with its end of a channel to
    /// that gate.
    GateJoined {
        /// The gate's session.
        session: SessionId,
        /// And its generation.
        generation: Generation,
        /// Which of the gates that this session has had it is.
        number: GateNumber,
    },
    /// A gate's process ended. To the notary, the desk and the dialer.
    GateLeft {
        /// The gate's session.
        session: SessionId,
        number: GateNumber,
    },
    /// The kill-only socket was used, or the daemon ends. To notary, dialer, launcher and desk.
    Kill {
        /// Nothing means every session.
        session: Option<SessionId>,
    },
}

/// What a role needs to begin.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    /// The state directory (notary: its own; launcher: the sandboxes').
    pub(crate) directory: PathBuf,
    /// The organisation's policy text, when there is one (notary).
    pub(crate) organisation: Option<String>,
    /// Operator-pinned upstreams and company proxy (dialer, gate).
    pub(crate) upstreams: Upstreams,
    /// The daemon runs as root (launcher).
    pub(crate) root: bool,
    /// The operator's token, SHA-256 (desk).
    pub(crate) operator_digest: Option<[u8; 32]>,
    /// Where the guest agent lies (launcher).
    pub(crate) guest: PathBuf,
    /// 32 random bytes that notary and dialer share.
    pub(crate) receipt_key: Option<[u8; 32]>,
    /// Sandboxes that wait for each shape that sessions had last (launcher).
    pub(crate) pool: usize,
    /// Machines are tried on KVM (launcher).
    pub(crate) kvm: bool,
    /// Templates of machines that are kept (launcher).
    pub(crate) templates: usize,
    /// The uid whose people may use the notary's socket, besides root.
    pub(crate) owner_uid: u32,
    /// Where unpacked images lie (launcher).
    pub(crate) images: PathBuf,
    /// Where checkpoints lie, and how much of them is kept (launcher).
    pub(crate) checkpoints: Keeping,
}

/// Desk → launcher. Replies come in order.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum LauncherRequest {
    /// Make the sandbox's directory. The reply carries its workspace directory, owned by `owner`.
    Prepare {
        /// Which.
        session: SessionId,
        /// The workspace of this phase.
        phase: Phase,
        /// The caller's uid, so that the porter may fill it.
        owner: u32,
    },
    /// Start the sandbox; listeners and link go to the session's gate.
    Start(Box<SandboxOrder>),
    /// Kill it and say how many processes were alive before and after.
    Kill {
        /// Which.
        session: SessionId,
    },
    /// Hold every process of it still, or let them go on.
    Hold {
        /// Which.
        session: SessionId,
        /// Still, once this is answered.
        held: bool,
    },
    /// Ends the sandboxes that were made ahead, of whatever shape: everything is to go.
    GiveUpSpares,
    /// After `Kill`: the install phase's sandbox goes, its files stay for `MergeInstall`.
    LeaveInstall {
        /// Which.
        session: SessionId,
    },
    /// Move what the install phase made, and the workspace has not, into the workspace.
    MergeInstall {
        /// Which.
        session: SessionId,
        /// Whose it is until the sandbox starts.
        owner: u32,
    },
    /// After `Kill`: remove everything of it but a workspace that may still be brought back.
    Remove {
        /// Which.
        session: SessionId,
        /// Keep the workspace copy for `diff` and `apply`.
        keep_workspace: bool,
    },
    /// The workspace copy of a session: the reply carries its directory and, where its files have
    /// owners in a user namespace alone, that.
    OpenWorkspace {
        /// Which.
        session: SessionId,
    },
    /// What came out of a machine.
    Return(ReturnOrder),
    /// What is kept of sessions' workspaces.
    Checkpoint(CheckpointOrder),
    /// What lies about and belongs to nobody.
    Leftovers {
        /// The sessions that are not over.
        living: BTreeSet<SessionId>,
        /// Remove it.
        remove: bool,
    },
    /// Boot probes: of the level that is named, or of every level.
    Probe {
        /// Which; the answer has it alone.
        only: Option<Isolation>,
    },
    /// Is there such an image, and what does its name stand for? A machine's disk is made of it
    /// where there is none yet.
    FindImage {
        /// As the document has it; never the host's own.
        image: Image,
        /// What a sandbox is wanted of it for.
        isolation: Isolation,
    },
}

/// What the launcher needs for a start: no secret, no session data but shape.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SandboxOrder {
    pub(crate) session: SessionId,
    pub(crate) phase: Phase,
    /// Whose session it is.
    pub(crate) tenant: TenantName,
    pub(crate) isolation: Isolation,
    /// Host directory and where it appears inside.
    pub(crate) also: Vec<(PathBuf, PathBuf)>,
    /// Where there is one, it was prepared.
    pub(crate) workspace: WorkspaceMode,
    pub(crate) files: FileRules,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) limits: Limits,
    pub(crate) ca_pem: String,
    pub(crate) git_hosts: Vec<String>,
    /// Files below the home directory, with what they say.
    pub(crate) home: Vec<(PathBuf, String)>,
    /// What it is made of; nothing means the host's `/usr`.
    pub(crate) image: Option<ImageDigest>,
}

/// Launcher → desk.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum LauncherReply {
    /// Prepared; the workspace directory comes with this message.
    Prepared,
    /// Started.
    Started {
        /// The environment of its first process: what every command starts from.
        environment: Vec<(String, String)>,
        /// Its name, if it was made ahead; otherwise it bears the session's.
        claimed: Option<String>,
    },
    /// Killed.
    Killed {
        /// Processes alive when it began.
        before: u32,
        /// Processes alive after.
        after: u32,
    },
    /// A checkpoint may be made: its empty directory comes with this message.
    CheckpointBegun {
        /// Bytes that it may hold.
        room: u64,
    },
    /// What is kept. With one that was asked for comes its directory, or its baseline.
    Checkpoints(Vec<Checkpoint>),
    /// What lies about.
    Leftovers {
        /// Each thing, and of the checkpoints among them what is known.
        found: Vec<Leftover>,
        forgotten: Vec<Checkpoint>,
        /// Sessions that ended and whose copy is kept.
        kept: BTreeSet<SessionId>,
    },
    /// They stand still, or go on.
    Held,
    /// Removed.
    Removed,
    /// Removed, and these sessions that ended still have their copies.
    Kept(BTreeSet<SessionId>),
    /// The workspace directory comes with this message.
    Workspace,
    /// What works.
    Probed(Vec<ProbeResult>),
    /// There is such an image.
    Image {
        /// And this is its digest.
        digest: ImageDigest,
        /// A sandbox can be made of it now; otherwise it will be, and the question is asked again.
        is_there: bool,
    },
    /// It failed and was undone.
    Failed {
        /// A stable code.
        code: String,
        /// What failed.
        message: String,
        /// What to do next.
        hint: String,
    },
    /// Not a reply: the session holds more of the disk than it may, and must end.
    DiskSpent {
        /// Which.
        session: SessionId,
        /// The file system itself runs low.
        low: bool,
    },
    /// Not a reply: the sandbox's first process ended by itself.
    SandboxEnded {
        /// Which.
        session: SessionId,
        /// The phase that it was for: that of an install phase is often told when the session runs.
        phase: Phase,
    },
}

/// Launcher → gate: the sandbox runs. With it come the descriptors of the session's way out.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum SandboxReady {
    /// In this order: capture listener (IPv4), capture listener (IPv6), DNS (UDP), DNS (TCP), proxy
    /// listener, link.
    Sockets,
    /// The link alone: a machine's agent carries its connections over it.
    Link,
}

/// One level's probe.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ProbeResult {
    pub(crate) isolation: Isolation,
    pub(crate) works: bool,
    /// No boundary is claimed: it must be named, and emulation said to do.
    pub(crate) emulated: bool,
    /// What it takes is being made; ask again.
    pub(crate) coming: bool,
    /// Guarantees that hold, or what is missing.
    pub(crate) lines: Vec<String>,
    /// Walls that are absent at this level.
    pub(crate) absent: Vec<String>,
    pub(crate) fix: Option<String>,
}
