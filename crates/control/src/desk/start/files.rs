// SPDX-License-Identifier: Apache-2.0
//! The workspace's way in: a copy that a porter makes, or nothing. Of a bound one the person's
//! directory stays at hand.

use super::super::leftovers::{BASELINE, NEXT_BASELINE};
use super::super::sync::Bound;
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

/// What was hidden: place and shape.
pub(super) type Hidden = Vec<(String, String)>;

impl Attempt<'_> {
    /// Fills the workspace. Returns what was hidden, and the private copy where there is one.
    pub(super) async fn workspace(
        &self,
        source: Option<OwnedFd>,
        fingerprints: &[Fingerprint],
    ) -> Result<(Hidden, Option<OwnedFd>), Failure> {
        let shape = &self.begun.grant.sandbox;
        if shape.workspace == WorkspaceMode::None {
            return Ok((Vec::new(), None));
        }
        let target = self.prepare(Phase::Locked).await?;
        let source = source.ok_or_else(workspace_missing)?;
        let hidden = self.copy_in(&source, &target, None, fingerprints).await?;
        if self.begun.phase == Phase::Install {
            self.bring_install_results(&target).await?;
        }
        if shape.workspace == WorkspaceMode::Bind {
            let bound = Bound::new(source, shape);
            self.desk
                .sessions
                .with(self.session, |row| row.bound = Some(bound));
        }
        Ok((hidden, Some(target)))
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
            hide: self.begun.grant.sandbox.files.hide.clone(),
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
        PorterReply::Done { .. } | PorterReply::Synced { .. } => Err(out_of_turn("porter")),
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
        for name in [baseline_name(session), next_name(session)] {
            let _ = std::fs::remove_file(self.directory.join(name));
        }
    }

    /// The file of a workspace copy's baseline: for writing it anew, or for reading.
    pub(in super::super) fn baseline(
        &self,
        session: &SessionId,
        fresh: bool,
    ) -> anyhow::Result<OwnedFd> {
        self.open_baseline(&baseline_name(session), fresh)
    }

    /// One that is written anew beside the last.
    pub(in super::super) fn next_baseline(&self, session: &SessionId) -> anyhow::Result<OwnedFd> {
        self.open_baseline(&next_name(session), true)
    }

    /// It is whole: it takes the place of the last.
    pub(in super::super) fn take_next_baseline(&self, session: &SessionId) -> anyhow::Result<()> {
        let at = |name: String| self.directory.join(name);
        let taken = std::fs::rename(at(next_name(session)), at(baseline_name(session)));
        taken.context("the baseline")
    }

    fn open_baseline(&self, name: &str, fresh: bool) -> anyhow::Result<OwnedFd> {
        let path = self.directory.join(name);
        let write = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
        let access = if fresh { write } else { OFlags::RDONLY };
        let flags = access | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        rustix::fs::open(&path, flags, Mode::from_raw_mode(0o600))
            .with_context(|| format!("can't open `{}`", path.display()))
    }
}

fn baseline_name(session: &SessionId) -> String {
    format!("{session}{BASELINE}")
}

fn next_name(session: &SessionId) -> String {
    format!("{session}{NEXT_BASELINE}")
}
