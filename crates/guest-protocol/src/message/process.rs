// SPDX-License-Identifier: Apache-2.0
//! What is said about a process: its size on a screen, the signals it can get, how it ended or why
//! it never ran.

use serde::{Deserialize, Serialize};

// LIMIT: far above real command lines, and keeps the decoded form within a few MiB.
/// The most arguments, and the most environment entries, of one process.
pub const ARGUMENTS_MAX: usize = 8_192;

/// A terminal's size in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TerminalSize {
    /// Lines.
    pub rows: u16,
    /// Characters a line.
    pub columns: u16,
}

/// The signals that the host may send; nothing else can be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// SIGHUP to the process group.
    Hangup,
    /// SIGINT to the process group.
    Interrupt,
    /// SIGQUIT to the process group.
    Quit,
    /// SIGTERM to the process group.
    Terminate,
    /// SIGUSR1 to the process group.
    User1,
    /// SIGUSR2 to the process group.
    User2,
    /// SIGTSTP to the process group.
    TerminalStop,
    /// SIGCONT to the process group.
    Continue,
    /// SIGKILL to every descendant, whatever session or group it moved to.
    Kill,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ProcessStatus {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
}

/// Why a process could not be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessFailure {
    /// No such program.
    NotFound,
    /// There, but not a program or not permitted.
    NotExecutable,
    /// The working directory is missing or not permitted.
    BadDirectory,
    /// Empty or too many arguments, a NUL byte, an odd environment name.
    BadArguments,
    /// Too many execs at once.
    Busy,
    /// Processes, memory or descriptors are used up.
    NoResources,
    /// A wall that was required could not be raised; nothing was run.
    WallMissing,
    /// The process that keeps the exec was killed from inside; the exec's processes were killed.
    KeeperLost,
    /// Anything else; the message says what.
    Failed,
}
