// SPDX-License-Identifier: Apache-2.0
//! The closed sets of messages: what the host asks ([`HostMessage`], imperative) and what the guest
//! says has happened ([`GuestMessage`], past tense).
//! Bytes of processes and files don't travel in messages but in data frames of a channel, see
//! [`crate::frame`]. The host chooses every identifier, from one rising sequence, but those of
//! connections, which the guest chooses from another; neither uses one twice.

mod connection;
mod file;
mod process;

use crate::machine::MachineRenewal;
use serde::{Deserialize, Serialize};

pub use connection::{CONNECTIONS_MAX, ConnectionId, Entry};
pub use file::{
    DirectoryEntry, FileFailure, FileKind, FileMetadata, LISTING_BYTES_MAX, LISTING_ENTRIES_MAX,
    PATH_BYTES_MAX, WriteMode,
};
pub use process::{ARGUMENTS_MAX, ProcessFailure, ProcessStatus, Signal, TerminalSize};

/// The version both ends name in their `Hello`; ends of different versions don't talk.
pub const PROTOCOL_VERSION: u32 = 5;

/// A numbered pair of byte streams on the link: an exec's or a request's own number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(pub u32);

/// One process that the host asked for, and all its descendants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExecId(pub u32);

/// One file request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(pub u32);

impl From<ExecId> for ChannelId {
    fn from(exec: ExecId) -> Self {
        Self(exec.0)
    }
}

impl From<RequestId> for ChannelId {
    fn from(request: RequestId) -> Self {
        Self(request.0)
    }
}

/// Which stream of a channel a data frame belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// Host to guest: what the process reads.
    Stdin,
    /// Guest to host: what the process writes; with a terminal, everything it writes.
    Stdout,
    /// Guest to host: what the process complains; silent with a terminal.
    Stderr,
    /// A file's content, guest to host for a read, host to guest for a write.
    File,
    /// Guest to host: what a program sends on a connection. Connections have numbers of their own.
    Outward,
    /// Host to guest: what comes back.
    Inward,
}

/// What the host asks of the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum HostMessage {
    /// First on the link; answered by [`GuestMessage::Hello`].
    Hello {
        /// [`PROTOCOL_VERSION`] of the host.
        version: u32,
    },
    /// Runs a program. `Stdin` data and its end of file may follow at once.
    /// Answered by `ProcessStarted` and later `ProcessEnded`, or by `ProcessFailed` alone.
    StartProcess {
        /// The new exec.
        exec: ExecId,
        /// Program and arguments; the program is searched in the `PATH` of `env`.
        argv: Vec<String>,
        /// The whole environment; nothing is added.
        env: Vec<(String, String)>,
        /// The directory to start in; absolute.
        cwd: String,
        /// A terminal of this size instead of three pipes.
        tty: Option<TerminalSize>,
    },
    /// Changes the terminal's size; no answer.
    Resize {
        /// An exec with a terminal.
        exec: ExecId,
        /// The new size.
        size: TerminalSize,
    },
    /// Sends a signal; no answer. `Kill` works after `ProcessEnded` too, on what was left behind.
    SendSignal {
        /// The exec.
        exec: ExecId,
        /// The signal.
        signal: Signal,
    },
    /// Reads a regular file: `FileOpened`, `File` data, end of file, `FileRead`.
    ReadFile {
        /// The new request.
        request: RequestId,
        /// Absolute below the workspace or `/tmp`, or relative to the workspace.
        path: String,
        /// A longer file, or one that grows beyond this while it is read, is `too_large`.
        bytes_max: u64,
    },
    /// Writes a regular file from the `File` data that follows up to its end of file; answered by
    /// `FileWritten`. A cancelled write leaves what was written so far.
    WriteFile {
        /// The new request.
        request: RequestId,
        /// As in `ReadFile`.
        path: String,
        /// Permission bits of a new file (0o777 at most).
        mode: u32,
        /// What happens with what is there.
        write: WriteMode,
    },
    /// Lists one page of a directory, by name; answered by `DirectoryListed`.
    ListDirectory {
        /// The new request.
        request: RequestId,
        /// As in `ReadFile`.
        path: String,
        /// Only names after this one: the last name of the page before.
        after: Option<String>,
    },
    /// Describes a path, its last component not followed; answered by `PathDescribed`.
    StatPath {
        /// The new request.
        request: RequestId,
        /// As in `ReadFile`.
        path: String,
    },
    /// Makes a directory; answered by `DirectoryMade`.
    MakeDirectory {
        /// The new request.
        request: RequestId,
        /// As in `ReadFile`.
        path: String,
        /// Permission bits (0o777 at most).
        mode: u32,
        /// Makes missing parents, and is content if it exists.
        parents: bool,
    },
    /// Renames, within the workspace or within `/tmp`; answered by `PathMoved`.
    MovePath {
        /// The new request.
        request: RequestId,
        /// As in `ReadFile`.
        from: String,
        /// As in `ReadFile`.
        to: String,
        /// Replaces what is at `to`.
        replace: bool,
    },
    /// Removes a file, a link or a directory; answered by `PathRemoved`.
    RemovePath {
        /// The new request.
        request: RequestId,
        /// As in `ReadFile`.
        path: String,
        /// Removes a directory with all that is in it, without crossing links or mounts.
        recursive: bool,
    },
    /// Drops a request; answered by nothing more, or by its last answer if that was on the way.
    CancelRequest {
        /// The request.
        request: RequestId,
    },
    /// Kills every process and ends the agent; the link closes.
    Shutdown {},
    /// Nothing more is wanted of a connection; answered by `ConnectionClosed`.
    CloseConnection {
        /// The connection.
        connection: ConnectionId,
        /// It was cut: the program is to see a reset.
        reset: bool,
    },
    /// Fills the empty workspace of a machine with the archive in the `File` data that follows up
    /// to its end of file, then narrows it; answered by `WorkspaceFilled`.
    FillWorkspace {
        /// The new request.
        request: RequestId,
        /// Places that may be written, as the grant spells them; without a list, all.
        write: Option<Vec<String>>,
        /// Places that are hidden: what lies there did not come along.
        hide: Vec<String>,
    },
    /// Lays a further directory into a machine, from the archive in the `File` data that follows up
    /// to its end of file, and closes it for writing; answered by `DirectoryShown`.
    ShowDirectory {
        /// The new request.
        request: RequestId,
        /// Where; absolute.
        path: String,
        /// Bytes that it may take, as the archive counts.
        bytes_max: u64,
    },
    /// Sends the workspace as an archive: `File` data, end of file, `WorkspacePacked`.
    PackWorkspace {
        /// The new request.
        request: RequestId,
        /// A larger one is `too_large`.
        bytes_max: u64,
        /// Nothing runs any more when it is read: every process is killed first.
        last: bool,
    },
    /// Before `RenewMachine`, to a machine that serves nobody yet: goes once through what every
    /// command needs, with a program of the agent's own. Answered by another `MachineReady`.
    RehearseMachine {},
    /// Before `Hello`, to a machine alone, which serves nobody before it has come. No answer.
    RenewMachine {
        /// What makes it this session's.
        renewal: MachineRenewal,
    },
}

/// A wall that the agent itself raises before a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WallKind {
    /// A program can't gain privileges by exec.
    NoNewPrivileges,
    /// Writes only in the workspace, `/tmp`, home and a few devices.
    Landlock,
    /// No signal and no abstract unix socket to a process outside the exec's own domain.
    LandlockScope,
    /// Programs run as the workload's own uid and gid.
    OwnUser,
    /// Programs have no capability.
    NoCapabilities,
    /// No core dumps, bounded descriptors.
    ResourceLimits,
}

/// Whether one wall holds here, found out by raising it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wall {
    /// Which.
    pub kind: WallKind,
    /// It holds.
    pub holds: bool,
    /// Why not, or how far; for people.
    pub detail: String,
}

/// What the guest says has happened. All of it is the guest's word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum GuestMessage {
    /// First on the link.
    Hello {
        /// [`PROTOCOL_VERSION`] of the guest.
        version: u32,
        /// The agent's build.
        guest: String,
        /// The second wall, as found at the start.
        walls: Vec<Wall>,
    },
    /// The program runs.
    ProcessStarted {
        /// The exec.
        exec: ExecId,
        /// Its pid inside.
        pid: i32,
    },
    /// The program ended and all it had written was sent. Nothing more comes on its channel.
    ProcessEnded {
        /// The exec.
        exec: ExecId,
        /// How it ended.
        status: ProcessStatus,
    },
    /// The program could not be run, or was lost; nothing more comes on its channel.
    ProcessFailed {
        /// The exec.
        exec: ExecId,
        /// Why.
        code: ProcessFailure,
        /// For people: what failed and what to do.
        message: String,
    },
    /// The file is open; its content follows.
    FileOpened {
        /// The request.
        request: RequestId,
        /// As it is now; the length may change.
        metadata: FileMetadata,
    },
    /// All content was sent.
    FileRead {
        /// The request.
        request: RequestId,
        /// How many bytes.
        bytes: u64,
    },
    /// All content was written.
    FileWritten {
        /// The request.
        request: RequestId,
        /// How many bytes.
        bytes: u64,
    },
    /// One page of names.
    DirectoryListed {
        /// The request.
        request: RequestId,
        /// At most [`LISTING_ENTRIES_MAX`], by name.
        entries: Vec<DirectoryEntry>,
        /// There are names after the last.
        more: bool,
    },
    /// The path's description.
    PathDescribed {
        /// The request.
        request: RequestId,
        /// What it is.
        metadata: FileMetadata,
        /// Where a symbolic link points, as text; not resolved, may be lossy.
        target: Option<String>,
    },
    /// The directory is there.
    DirectoryMade {
        /// The request.
        request: RequestId,
    },
    /// The path was renamed.
    PathMoved {
        /// The request.
        request: RequestId,
    },
    /// The path is gone.
    PathRemoved {
        /// The request.
        request: RequestId,
    },
    /// The request failed; nothing more comes on its channel.
    RequestFailed {
        /// The request.
        request: RequestId,
        /// Why.
        code: FileFailure,
        /// For people: what failed and what to do.
        message: String,
    },
    /// Instead of `Hello`: a machine could not be made a sandbox, and ends.
    MachineUnusable {
        /// For people: what failed.
        message: String,
    },
    /// A program has dialled.
    ConnectionOpened {
        /// A number that was not used before.
        connection: ConnectionId,
        /// Where it landed.
        entry: Entry,
    },
    /// The connection is over at this end; nothing more comes on its channel.
    ConnectionClosed {
        /// The connection.
        connection: ConnectionId,
    },
    /// The workspace holds what was sent, and its places are narrowed.
    WorkspaceFilled {
        /// The request.
        request: RequestId,
    },
    /// The directory holds what was sent, and nobody can write to it any more.
    DirectoryShown {
        /// The request.
        request: RequestId,
    },
    /// All of the workspace was sent.
    WorkspacePacked {
        /// The request.
        request: RequestId,
    },
    /// Before `Hello`, from a machine that has booted: it is nobody's, and waits to be renewed.
    MachineReady {},
}
