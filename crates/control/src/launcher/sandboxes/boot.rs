// SPDX-License-Identifier: Apache-2.0
//! A sandbox made for its session: booted, or a machine restored, by the session's own plan.

use super::super::shape::{Identity, Own, Shape};
use super::{Booted, Failed, Sandboxes, link_pair, machine};
use std::os::fd::OwnedFd;
use torno_policy::names::SessionId;
use torno_sandbox::{Plan, SandboxId, StartInputs, Started};

impl Sandboxes {
    /// Boots one for this session.
    pub(super) fn boot(
        &mut self,
        session: &SessionId,
        (shape, own): (&Shape, &Own),
        workspace: Option<OwnedFd>,
    ) -> Result<Booted, Failed> {
        let range = self.ranges.take()?;
        let image = self.images.hold(shape.image())?;
        let id =
            SandboxId::parse(session.as_str()).map_err(|e| Failed::internal(&e.to_string()))?;
        let identity = Identity {
            id: &id,
            uid_base: range.uid_base,
            made_ahead: false,
            image: image.as_ref(),
        };
        let spec = shape.spec(own, &identity, self.guest()?)?;
        let plan = self.plan(&spec)?;
        let (mut started, link) = match self.restore(shape, &plan)? {
            Some(restored) => restored,
            None => self.start_plan(&plan, workspace)?,
        };
        machine::renew(&mut started, &link)?;
        Ok(Booted {
            started,
            link,
            range,
            environment: torno_sandbox::environment(&spec),
            entry: None,
            image,
        })
    }

    fn start_plan(
        &mut self,
        plan: &Plan,
        workspace: Option<OwnedFd>,
    ) -> Result<(Started, OwnedFd), Failed> {
        let (link, theirs) = link_pair()?;
        let inputs = StartInputs {
            link: theirs,
            workspace,
            network: self.network.take(),
        };
        let started = torno_sandbox::start(plan, inputs)
            .map_err(|e| Failed::new("sandbox_failed", &e, "run `torno doctor`"))?;
        Ok((started, link))
    }
}
