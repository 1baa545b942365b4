// SPDX-License-Identifier: Apache-2.0
//! The sandboxes made ahead, from the making to the claim: by the same specification and plan as
//! any other, only that nothing of a session is in them.

use super::super::shape::{Identity, Own, Shape};
use super::super::spare_sandbox::{Job, Waiting};
use super::{Booted, Failed, Sandboxes, link_pair};
use std::os::fd::AsFd;
use tokio::time::Instant;
use torno_policy::names::SessionId;
use torno_policy::standing::Phase;
use torno_sandbox::{ClaimError, StartInputs};

impl Sandboxes {
    /// Looks after those that were made ahead, and begins another one where one is missing.
    pub(in super::super) fn tend_spares(&mut self) {
        let Some(shape) = self.spares.tend(Instant::now()) else {
            return;
        };
        match self.plan_ahead(&shape) {
            Ok(Some(job)) => self.spares.begin(shape, job),
            Ok(None) => self.spares.forget(&shape),
            Err(failed) => {
                tracing::warn!("no sandbox could be made ahead: {}", failed.message);
                self.spares.forget(&shape);
            }
        }
    }

    /// What it takes to make one of this shape, if that is possible before its session is there.
    fn plan_ahead(&mut self, shape: &Shape) -> Result<Option<Job>, Failed> {
        let range = self.ranges.take()?;
        let entry = self.journal.enter();
        let mut entry = entry.map_err(|e| Failed::internal(&format!("{e:#}")))?;
        entry.keep(self.images.hold(shape.image())?);
        let identity = Identity {
            id: entry.id(),
            uid_base: range.uid_base,
            made_ahead: true,
            image: entry.image(),
        };
        let spec = shape.spec(&shape.nobody(), &identity, self.guest()?)?;
        let plan = self.plan(&spec)?;
        if !plan.can_be_made_ahead() {
            return Ok(None);
        }
        let template = self.template_for(shape, &plan);
        if plan.can_be_kept() && template.is_none() && self.templates.are_made() {
            // It is asked for again once there is one.
            return Ok(None);
        }
        let shares = shape.has_workspace() && !shape.is_machine();
        let workspace = shares.then(|| entry.make_workspace()).transpose()?;
        let (link, theirs) = link_pair()?;
        Ok(Some(Job {
            plan,
            inputs: StartInputs {
                link: theirs,
                workspace,
                // Made in the same thread; the one that waits is for a session.
                network: None,
            },
            link,
            range,
            entry,
            template,
        }))
    }

    /// Makes one that was made ahead this session's. Where anything is wrong with it, it goes, and
    /// the session gets another one.
    pub(super) fn claim(
        &self,
        session: &SessionId,
        phase: Phase,
        (shape, own): (&Shape, &Own),
        waiting: Waiting,
    ) -> Result<Option<Booted>, Failed> {
        // Taken apart only where nothing can fail before it is claimed: till then what it has goes
        // in its order, the sandbox first and its name last.
        let identity = Identity {
            id: waiting.entry.id(),
            uid_base: waiting.range.uid_base,
            made_ahead: true,
            image: waiting.entry.image(),
        };
        let spec = shape.spec(own, &identity, self.guest()?)?;
        let plan = self.plan(&spec)?;
        let mut workspace = None;
        if shape.has_workspace() && !shape.is_machine() {
            if !self
                .places
                .adopt(session, phase, &waiting.entry.workspace())?
            {
                return Ok(None);
            }
            workspace = Some(self.places.open(session, phase)?);
        }
        let Waiting {
            spare,
            link,
            range,
            entry,
        } = waiting;
        let claimed = entry
            .claimed_by(session)
            .map_err(ClaimError::Write)
            .and_then(|()| spare.claim(&plan, workspace.as_ref().map(AsFd::as_fd)))
            .map_err(|error| Failed::new("", &error, ""))
            .and_then(|mut started| {
                super::machine::renew(&mut started, &link)?;
                Ok(started)
            });
        match claimed {
            Ok(started) => Ok(Some(Booted {
                started,
                link,
                range,
                environment: torno_sandbox::environment(&spec),
                entry: Some(entry),
                image: None,
            })),
            Err(Failed { message, .. }) => {
                tracing::warn!("a sandbox made ahead goes: {message}");
                Ok(None)
            }
        }
    }
}
