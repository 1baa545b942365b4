// SPDX-License-Identifier: Apache-2.0
//! What machines have that other sandboxes have not: a template to be restored from, and a first
//! word on their link that makes them a session's.

use super::super::shape::{Identity, Shape};
use super::super::templates::Job;
use super::{Failed, Sandboxes, link_pair};
use rustix::time::{ClockId, clock_gettime};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use torno_sandbox::{Fresh, Plan, StartInputs, Started, Template, Unwatched};

impl Sandboxes {
    /// Looks after the templates, and begins another one where a machine had to boot.
    pub(in super::super) fn tend_templates(&mut self) {
        let now = Instant::now();
        if let Some(shape) = self.templates.collect(now) {
            // The next one of that shape can be restored ahead.
            self.spares.used(shape, now);
        }
        let Some(shape) = self.templates.tend(now) else {
            return;
        };
        match self.plan_template(&shape) {
            Ok(job) => self.templates.begin(shape, job),
            Err(failed) => tracing::warn!("no template could be made: {}", failed.message),
        }
    }

    fn plan_template(&mut self, shape: &Shape) -> Result<Job, Failed> {
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
        Ok(Job { plan, range, entry })
    }

    /// The template that a machine of this shape and plan is restored from; a machine that has none
    /// boots, and the next one may have one.
    pub(super) fn template_for(&mut self, shape: &Shape, plan: &Plan) -> Option<Arc<Template>> {
        if !plan.can_be_kept() {
            return None;
        }
        let now = Instant::now();
        let found = self.templates.fitting(shape.tenant(), plan, now);
        if found.is_none() {
            self.templates.wanted(shape.clone(), now);
        }
        found
    }

    /// Restores a machine, if there is a template that is good for it. Where nothing can be
    /// restored the machine boots.
    pub(super) fn restore(
        &mut self,
        shape: &Shape,
        plan: &Plan,
    ) -> Result<Option<(Started, OwnedFd)>, Failed> {
        let Some(template) = self.template_for(shape, plan) else {
            return Ok(None);
        };
        let (link, theirs) = link_pair()?;
        let inputs = StartInputs {
            link: theirs,
            workspace: None,
            network: None,
        };
        match template.restore(plan.clone(), inputs, &mut Unwatched) {
            Ok(started) => Ok(Some((started, link))),
            Err(error) => {
                let Failed { message, .. } = Failed::new("", &error, "");
                tracing::warn!("a template goes: {message}");
                self.templates.forget(&template);
                Ok(None)
            }
        }
    }
}

/// Makes a machine its session's: writes what it is given to its link, and reads nothing there. It
/// serves nobody before.
pub(super) fn renew(started: &mut Started, link: &OwnedFd) -> Result<(), Failed> {
    let Some(renewal) = started.renewal.take() else {
        return Ok(());
    };
    // A machine that dialled its link is spoken to there.
    let link = started.link.as_ref().unwrap_or(link);
    let sent = renewal.send(link.as_fd(), &fresh()?);
    sent.map_err(|e| Failed::new("sandbox_failed", &e, "run `torno doctor`"))
}

/// What no other machine was given.
fn fresh() -> Result<Fresh, Failed> {
    let mut fresh = Fresh {
        entropy: [0; _],
        machine_id: [0; _],
        wall_clock: now(),
    };
    for bytes in [&mut fresh.entropy[..], &mut fresh.machine_id[..]] {
        getrandom::fill(bytes).map_err(|e| Failed::internal(&format!("no random bytes: {e}")))?;
    }
    Ok(fresh)
}

fn now() -> Duration {
    let now = clock_gettime(ClockId::Realtime);
    Duration::new(
        u64::try_from(now.tv_sec).unwrap_or(0),
        u32::try_from(now.tv_nsec).unwrap_or(0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_machines_are_given_the_same() {
        let (one, other) = (fresh().unwrap(), fresh().unwrap());
        assert_ne!(one.entropy, other.entropy);
        assert_ne!(one.machine_id, other.machine_id);
        assert!(one.entropy != [0; _] && one.wall_clock > Duration::from_secs(1 << 30));
    }
}
