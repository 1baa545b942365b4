// SPDX-License-Identifier: Apache-2.0
//! Templates of machines: what one is once it has booted and is nobody's, from which the next ones
//! are restored. Made beside the work after a session had to boot one, for its tenant alone.
//!
//! ```text
//!  a session boots ──▶ wanted ──▶ made ──▶ kept ──▶ restored from, any number of times
//!                                            │
//!                                            └─ idle, too many, another host, a kill of all: gone
//! ```

use super::journal::Entry;
use super::ranges::Range;
use super::shape::Shape;
use super::spare_sandbox::Unwanted;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::time::Instant;
use torno_policy::grant::Isolation;
use torno_policy::names::TenantName;
use torno_sandbox::{Plan, Template};

/// LIMIT: between the start that found none and the making of it.
const AFTER_START: Duration = Duration::from_millis(100);
/// LIMIT: how often one that is being made is looked for.
const MAKING_LOOK: Duration = Duration::from_millis(20);
/// LIMIT: how often those that are kept are looked at.
const KEPT_LOOK: Duration = Duration::from_secs(30);
/// LIMIT: how long one is kept from which nothing is restored.
const IDLE_MAX: Duration = Duration::from_secs(3600);
/// LIMIT: with nothing to do; whoever changes that sets another time.
const NOTHING_TO_DO: Duration = Duration::from_secs(3600);
/// LIMIT: memory that all of them hold; one of Debian's kernel with the agent has some 100 MiB.
const MEMORY_BYTES_MAX: u64 = 768 << 20;

/// The place of all of them.
pub(super) struct Templates {
    /// How many are kept; with 0 none is ever made.
    most: usize,
    /// Last used first.
    kept: Vec<Kept>,
    wanted: Option<Shape>,
    coming: Option<Coming>,
    /// The work on one that nobody wants any more.
    undoing: Vec<JoinHandle<()>>,
    due: Instant,
}

struct Kept {
    /// Nobody's machine begins as what was made for another one's sessions.
    tenant: TenantName,
    isolation: Isolation,
    template: Arc<Template>,
    used: Instant,
}

/// One that is being made.
struct Coming {
    shape: Shape,
    made: mpsc::Receiver<Template>,
    unwanted: Unwanted,
    work: JoinHandle<()>,
}

/// All that is needed to make one.
pub(super) struct Job {
    pub(super) plan: Plan,
    pub(super) range: Range,
    pub(super) entry: Entry,
}

impl Templates {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            kept: Vec::new(),
            wanted: None,
            coming: None,
            undoing: Vec::new(),
            due: Instant::now() + NOTHING_TO_DO,
        }
    }

    /// How many there are at one level.
    pub(super) fn count(&self, isolation: Isolation) -> usize {
        let of = |kept: &&Kept| kept.isolation == isolation;
        self.kept.iter().filter(of).count()
    }

    /// Whether any is ever made.
    pub(super) fn are_made(&self) -> bool {
        self.most > 0
    }

    /// When [`Self::tend`] is to be called.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// The tenant's template that a machine's plan fits.
    pub(super) fn fitting(
        &mut self,
        tenant: &TenantName,
        plan: &Plan,
        now: Instant,
    ) -> Option<Arc<Template>> {
        self.kept.retain(|kept| kept.template.check().is_ok());
        let fits = |kept: &Kept| kept.tenant == *tenant && kept.template.fits(plan);
        let place = self.kept.iter().position(fits)?;
        let mut found = self.kept.remove(place);
        found.used = now;
        let template = Arc::clone(&found.template);
        self.kept.insert(0, found);
        Some(template)
    }

    /// A machine of this shape had to boot.
    pub(super) fn wanted(&mut self, shape: Shape, now: Instant) {
        if self.are_made() && self.coming.is_none() {
            self.wanted = Some(shape);
            self.due = self.due.min(now + AFTER_START);
        }
    }

    /// One is of no use: nothing could be restored from it.
    pub(super) fn forget(&mut self, template: &Arc<Template>) {
        self.kept
            .retain(|kept| !Arc::ptr_eq(&kept.template, template));
    }

    /// Takes in what was made; answers of which shape one is there now.
    pub(super) fn collect(&mut self, now: Instant) -> Option<Shape> {
        let coming = self.coming.take()?;
        match coming.made.try_recv() {
            Ok(template) => {
                let kept = Kept {
                    tenant: coming.shape.tenant().clone(),
                    isolation: coming.shape.isolation(),
                    template: Arc::new(template),
                    used: now,
                };
                self.kept.insert(0, kept);
                Some(coming.shape)
            }
            Err(mpsc::TryRecvError::Empty) => {
                self.coming = Some(coming);
                None
            }
            // It could not be made: not again before a session has to boot.
            Err(mpsc::TryRecvError::Disconnected) => None,
        }
    }

    /// Looks after them; answers of which shape one is to be made.
    pub(super) fn tend(&mut self, now: Instant) -> Option<Shape> {
        self.kept
            .retain(|kept| now - kept.used < IDLE_MAX && kept.template.check().is_ok());
        self.kept.truncate(self.most);
        while self.memory_bytes() > MEMORY_BYTES_MAX {
            self.kept.pop();
        }
        let next = if self.coming.is_none() {
            self.wanted.take()
        } else {
            None
        };
        let pause = if self.coming.is_some() || next.is_some() {
            MAKING_LOOK
        } else if self.kept.is_empty() {
            NOTHING_TO_DO
        } else {
            KEPT_LOOK
        };
        self.due = now + pause;
        next
    }

    /// Makes one beside us.
    pub(super) fn begin(&mut self, shape: Shape, job: Job) {
        let (done, made) = mpsc::channel();
        let unwanted = Unwanted::default();
        let mut watch = unwanted.clone();
        let work = move || {
            let Job { plan, range, entry } = job;
            let template = Template::make(plan, &mut watch);
            // Nothing of its machine is left: its ids and its name are free.
            drop((range, entry));
            match template {
                Ok(template) => drop(done.send(template)),
                Err(_) if watch.is_so() => {}
                // Each start boots then.
                Err(error) => tracing::warn!(
                    "no template of a machine could be made: {:#}",
                    anyhow::Error::from(error)
                ),
            }
        };
        let thread = std::thread::Builder::new().name("next-template".into());
        self.coming = thread.spawn(work).ok().map(|work| Coming {
            shape,
            made,
            unwanted,
            work,
        });
    }

    /// Ends all of them, and makes none before a session has to boot.
    pub(super) fn give_up(&mut self) {
        self.kept.clear();
        self.wanted = None;
        if let Some(coming) = self.coming.take() {
            coming.unwanted.say();
            self.undoing.retain(|work| !work.is_finished());
            self.undoing.push(coming.work);
        }
    }

    fn memory_bytes(&self) -> u64 {
        let bytes = |kept: &Kept| kept.template.memory_bytes();
        self.kept.iter().map(bytes).sum()
    }
}

impl Drop for Templates {
    fn drop(&mut self) {
        self.give_up();
        super::spare_sandbox::wait_for(&self.undoing);
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::{split, tests::order};
    use super::*;

    #[test]
    fn with_none_to_keep_none_is_ever_made() {
        let now = Instant::now();
        let mut templates = Templates::new(0);
        templates.wanted(split(order()).0, now);
        assert!(templates.tend(now).is_none());
        assert!(templates.due() > now + KEPT_LOOK);
    }

    #[test]
    fn one_is_made_after_the_start_that_had_to_boot_and_once() {
        let now = Instant::now();
        let mut templates = Templates::new(1);
        templates.wanted(split(order()).0, now);
        assert_eq!(templates.due(), now + AFTER_START);
        assert!(templates.tend(now).is_some());
        assert!(templates.tend(now).is_none());
        templates.wanted(split(order()).0, now);
        templates.give_up();
        assert!(templates.tend(now).is_none());
    }

    #[test]
    fn the_end_waits_until_one_that_is_being_made_is_undone() {
        let mut templates = Templates::new(1);
        let (done, made) = mpsc::channel();
        let unwanted = Unwanted::default();
        let stop = unwanted.clone();
        let undone = Unwanted::default();
        let is_undone = undone.clone();
        let work = std::thread::spawn(move || {
            while !stop.is_so() {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(200));
            undone.say();
            drop(done);
        });
        templates.coming = Some(Coming {
            shape: split(order()).0,
            made,
            unwanted,
            work,
        });
        drop(templates);
        assert!(is_undone.is_so());
    }
}
