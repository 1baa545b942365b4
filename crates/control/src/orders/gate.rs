// SPDX-License-Identifier: Apache-2.0
//! What desk and gate say to each other.

use super::WorkspaceOrder;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use torno_control_api::request::TerminalSize;
use torno_policy::grant::Limits;
use torno_policy::tripwire::Tripwire;

/// LIMIT: how long an agent has for its first word after its sandbox started. Machines that are
/// emulated boot in two seconds alone and in half a minute beside fifteen others.
pub(crate) const HELLO_WAIT: Duration = Duration::from_secs(60);

/// Desk → gate.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum GateRequest {
    /// The session's limits and names, before the sandbox starts. Answered by `Ready`.
    Configure(Box<GateConfiguration>),
    /// Run a command; the message carries its stream.
    StartExec(Box<ExecOrder>),
    /// Move a machine's workspace; the message carries the porter's end of it.
    MoveWorkspace(WorkspaceOrder),
    /// The session ends: nothing leaves any more. Before anything of its end is waited for.
    CloseWayOut,
    /// Join a running command; the message carries the stream.
    JoinExec {
        /// Which.
        exec: u64,
    },
}

/// What a gate needs to know of its session.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GateConfiguration {
    pub(crate) limits: Limits,
    pub(crate) tripwires: Vec<Tripwire>,
}

/// A command to run inside.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ExecOrder {
    pub(crate) exec: u64,
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) cwd: String,
    pub(crate) terminal: Option<TerminalSize>,
    /// What its standard input is searched for.
    pub(crate) fingerprints: Vec<torno_notary_protocol::desk::Fingerprint>,
}

/// Gate → desk. Nothing here is a workload's bytes: numbers and closed words.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum GateEvent {
    /// The session CA exists; the public certificate.
    Ready {
        /// PEM.
        ca_pem: String,
    },
    /// The gate can't serve: no CA, no roots.
    Unusable {
        /// Why.
        message: String,
    },
    /// The guest agent answered.
    GuestReady,
    /// A command ended.
    ExecEnded {
        /// Which.
        exec: u64,
        /// Exit status, or 128 + signal.
        status: i32,
    },
    /// A workspace was moved, or why not.
    WorkspaceMoved {
        /// Which.
        transfer: u64,
        /// By the guest's word.
        failure: Option<torno_guest_protocol::FileFailure>,
    },
    /// A request was refused; for the summary at the session's end.
    Refused {
        /// `METHOD scheme://host:port` or the escaped target, at most 256 characters.
        target: String,
        /// Why.
        refusal: torno_policy::Refusal,
    },
}
