// SPDX-License-Identifier: Apache-2.0
//! The workspace's way in: a copy that a porter makes, the directory itself, or nothing.

use super::super::{Desk, porters};
use super::attempt::Attempt;
use super::{internal, out_of_turn};
use crate::front_door;
use crate::orders::{LauncherReply, LauncherRequest, PorterJob, PorterReply};
use anyhow::Context;
use rustix::fs::{Mode, OFlags};
use std::os::fd::{AsFd, OwnedFd};
use torno_control_api::request::Failure;
use torno_notary_protocol::desk::Fingerprint;
use torno_policy::grant::WorkspaceMode;
use torno_policy::names::SessionId;
use torno_policy::standing::Phase;

/// What a workspace is filled with.
pub(super) enum Filled {
    Nothing,
    /// The person's own directory.
    Bound(OwnedFd),
    /// The private copy.
    Copy(OwnedFd),
}

impl Filled {
    /// What the launcher is given, and what is carried in if the sandbox is a machine.
    pub(super) fn split(self) -> (Option<OwnedFd>, Option<OwnedFd>) {
        match self {
            Self::Nothing => (None, None),
            Self::Bound(directory) => (Some(directory), None),
            Self::Copy(copy) => (None, Some(copy)),
        }
    }
}

/// What was hidden: place and shape.
pub(super) type Hidden = Vec<(String, String)>;

impl Attempt<'_> {
    /// Fills the workspace. Returns what was hidden, and what the workspace is.
    pub(super) async fn workspace(
        &self,
        source: Option<OwnedFd>,
        fingerprints: &[Fingerprint],
    ) -> Result<(Hidden, Filled), Failure> {
        let mode = self.begun.grant.sandbox.workspace;
        if mode == WorkspaceMode::None {
            return Ok((Vec::new(), Filled::Nothing));
        }
        let target = self.prepare(Phase::Locked).await?;
        let source = source.ok_or_else(workspace_missing)?;
        if mode == WorkspaceMode::Bind {
            let job = PorterJob::Search {
                fingerprints: fingerprints.to_vec(),
            };
            let reply = porters::run(
                self.desk,
                self.session,
                self.caller,
                &job,
                &[source.as_fd()],
            )
            .await;
            return Ok((hidden(reply)?, Filled::Bound(source)));
        }
        let hidden = self.copy_in(&source, &target, None, fingerprints).await?;
        if self.begun.phase == Phase::Install {
            self.bring_install_results(&target).await?;
        }
        Ok((hidden, Filled::Copy(target)))
    }

    /// Has a porter copy a tree, or only some files of it, and note what lay there.
    pub(super) async fn copy_in(
        &self,
        source: &OwnedFd,
        target: &OwnedFd,
        only: Option<Vec<String>>,
        fingerprints: &[Fingerprint],
    ) -> Result<Hidden, Failure> {
        let baseline = self
            .desk
            .baseline(self.session, true)
            .map_err(|e| internal(&e))?;
        let job = PorterJob::CopyIn {
            fingerprints: fingerprints.to_vec(),
            bytes_max: self.begun.grant.sandbox.limits.disk_bytes,
            only,
        };
        let give = [source.as_fd(), target.as_fd(), baseline.as_fd()];
        hidden(porters::run(self.desk, self.session, self.caller, &job, &give).await)
    }

    /// The launcher's directory for a phase's workspace.
    pub(super) async fn prepare(&self, phase: Phase) -> Result<OwnedFd, Failure> {
        let (session, owner) = (self.session.clone(), self.caller.uid);
        let prepare = LauncherRequest::Prepare {
            session,
            phase,
            owner,
        };
        match self.launcher(&prepare, &[]).await? {
            (LauncherReply::Prepared, given) => given
                .into_iter()
                .next()
                .ok_or_else(|| out_of_turn("launcher")),
            _ => Err(out_of_turn("launcher")),
        }
    }
}

/// What a porter hid, or why the start fails.
fn hidden(reply: anyhow::Result<PorterReply>) -> Result<Hidden, Failure> {
    match reply.map_err(|e| internal(&e))? {
        PorterReply::Copied {
            mut hidden,
            left_out,
            bytes: _,
        } => {
            let left = |place| (place, "special file, left out".to_owned());
            hidden.extend(left_out.into_iter().map(left));
            Ok(hidden)
        }
        PorterReply::VaultValue { place, credential } => {
            Err(front_door::vault_value(&place, &credential))
        }
        PorterReply::Failed { message } => Err(Failure {
            code: "workspace_unusable".to_owned(),
            message,
            hint: "mend the workspace, or say `--workspace none`".to_owned(),
        }),
        PorterReply::Done { .. } => Err(out_of_turn("porter")),
    }
}

pub(super) fn workspace_missing() -> Failure {
    Failure {
        code: "workspace_missing".to_owned(),
        message: "the policy wants a workspace and none was given".to_owned(),
        hint: "run in the directory, or say `--workspace none`".to_owned(),
    }
}

impl Desk {
    /// Removes the baseline of a session whose copy goes; most sessions have none.
    pub(in super::super) fn forget_baseline(&self, session: &SessionId) {
        let _ = std::fs::remove_file(self.directory.join(format!("{session}.baseline")));
    }

    /// The file of a workspace copy's baseline: for writing it anew, or for reading.
    pub(in super::super) fn baseline(
        &self,
        session: &SessionId,
        fresh: bool,
    ) -> anyhow::Result<OwnedFd> {
        let path = self.directory.join(format!("{session}.baseline"));
        let write = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
        let access = if fresh { write } else { OFlags::RDONLY };
        let flags = access | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        rustix::fs::open(&path, flags, Mode::from_raw_mode(0o600))
            .with_context(|| format!("can't open `{}`", path.display()))
    }
}
