// SPDX-License-Identifier: Apache-2.0
//! The sandboxes made ahead: for each shape that sessions had last, so many that wait. Each is
//! moved out of here to the one session that claims it; another is made beside the work.

use super::journal::Entry;
use super::ranges::Range;
use super::shape::Shape;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::time::Instant;
use torno_policy::grant::Isolation;
use torno_sandbox::{ClaimError, Plan, Spare, StartInputs, StartStep, Template, Watch};

/// LIMIT: shapes that are remembered; the one that was used longest ago is forgotten.
const SHAPES_MAX: usize = 4;
/// LIMIT: sandboxes that wait in all.
const WAITING_MAX: usize = 8;
/// LIMIT: memory that all of them hold while they wait; beyond it none is made, and the one whose
/// shape was used longest ago goes. One of gVisor holds about 30 MiB.
const MEMORY_BYTES_MAX: u64 = 512 << 20;
/// LIMIT: how long a shape is remembered that no session has.
const IDLE_MAX: Duration = Duration::from_secs(600);
/// LIMIT: between a start and the making of the next one, so that a short session doesn't share the
/// cores with it.
const AFTER_START: Duration = Duration::from_millis(100);
/// LIMIT: after a session's end, when the cores are free.
const AFTER_END: Duration = Duration::from_millis(5);
/// LIMIT: how often one that is being made is looked for.
const MAKING_LOOK: Duration = Duration::from_millis(10);
/// LIMIT: how long a start waits for one that is being made, and with it all else that the launcher
/// is asked; a loaded machine starts one of gVisor's in two seconds.
const COMING_WAIT: Duration = Duration::from_secs(3);
/// LIMIT: how often those that wait are looked at; and between the death of one and the making of
/// the next, so that one which can't live is not made in a loop.
const WAITING_LOOK: Duration = Duration::from_secs(1);
/// LIMIT: with nothing to do; whoever changes that sets another time.
const NOTHING_TO_DO: Duration = Duration::from_secs(3600);
/// LIMIT: how long the end of the role waits for one that is being made to be undone; its keeper
/// does it otherwise.
const UNDO_WAIT: Duration = Duration::from_secs(3);

/// One that waits. What it has goes in this order.
pub(super) struct Waiting {
    pub(super) spare: Spare,
    /// Our end of its agent's link.
    pub(super) link: OwnedFd,
    pub(super) range: Range,
    pub(super) entry: Entry,
}

/// All that is needed to make one.
pub(super) struct Job {
    pub(super) plan: Plan,
    pub(super) inputs: StartInputs,
    pub(super) link: OwnedFd,
    pub(super) range: Range,
    pub(super) entry: Entry,
    /// Of a machine: what it is restored from.
    pub(super) template: Option<Arc<Template>>,
}

/// The place of all of them.
pub(super) struct SpareSandboxes {
    /// For each shape; with 0 none is ever made.
    target: usize,
    /// Last used first.
    shapes: Vec<(Shape, Instant)>,
    waiting: Vec<(Shape, Waiting)>,
    coming: Option<Coming>,
    /// The work on those that nobody wants any more.
    undoing: Vec<JoinHandle<()>>,
    due: Instant,
}

/// One that is being made.
struct Coming {
    shape: Shape,
    made: mpsc::Receiver<Waiting>,
    unwanted: Unwanted,
    work: JoinHandle<()>,
}

impl SpareSandboxes {
    pub(super) fn new(target: usize) -> Self {
        Self {
            target,
            shapes: Vec::new(),
            waiting: Vec::new(),
            coming: None,
            undoing: Vec::new(),
            due: Instant::now() + NOTHING_TO_DO,
        }
    }

    /// When [`Self::tend`] is to be called.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// How many wait at one level.
    pub(super) fn count(&self, isolation: Isolation) -> usize {
        let of = |(shape, _): &&(Shape, Waiting)| shape.isolation() == isolation;
        self.waiting.iter().filter(of).count()
    }

    /// Gives one of that shape away, waiting for it if it is being made. One that died, or was made
    /// from a host that has changed, is nobody's.
    pub(super) fn take(&mut self, shape: &Shape) -> Option<Waiting> {
        self.collect();
        while let Some(place) = self.waiting.iter().position(|(of, _)| of == shape) {
            let (_, waiting) = self.waiting.remove(place);
            if is_good(&waiting) {
                return Some(waiting);
            }
        }
        if self.coming.as_ref().is_some_and(|c| c.shape == *shape) {
            let coming = self.coming.take()?;
            match coming.made.recv_timeout(COMING_WAIT) {
                Ok(made) => return is_good(&made).then_some(made),
                // It is for the next one; this session boots its own.
                Err(mpsc::RecvTimeoutError::Timeout) => self.coming = Some(coming),
                Err(mpsc::RecvTimeoutError::Disconnected) => {}
            }
        }
        None
    }

    /// A session has this shape now: the next one may have it too.
    pub(super) fn used(&mut self, shape: Shape, now: Instant) {
        if self.target == 0 {
            return;
        }
        self.shapes.retain(|(known, _)| *known != shape);
        self.shapes.insert(0, (shape, now));
        self.shapes.truncate(SHAPES_MAX);
        self.due = self.due.min(now + AFTER_START);
    }

    /// A session ended: there is time.
    pub(super) fn session_ended(&mut self, now: Instant) {
        if !self.shapes.is_empty() {
            self.due = self.due.min(now + AFTER_END);
        }
    }

    /// Looks after them; answers of which shape one is to be made.
    pub(super) fn tend(&mut self, now: Instant) -> Option<Shape> {
        self.collect();
        self.shapes.retain(|(_, used)| now - *used < IDLE_MAX);
        let before = self.waiting.len();
        self.waiting.retain(|(_, waiting)| is_good(waiting));
        let died = self.waiting.len() < before;
        let known = |of: &Shape| self.shapes.iter().any(|(shape, _)| shape == of);
        self.waiting.retain(|(of, _)| known(of));
        let is_full = self.keep_within_memory();
        let next = if self.coming.is_none() && !died && !is_full {
            self.missing()
        } else {
            None
        };
        let pause = if self.coming.is_some() || next.is_some() {
            MAKING_LOOK
        } else if self.shapes.is_empty() {
            NOTHING_TO_DO
        } else {
            WAITING_LOOK
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
            let Job {
                plan,
                inputs,
                link,
                range,
                entry,
                template,
            } = job;
            let made = match template {
                // It has time until somebody claims it.
                Some(template) => Spare::restore(&template, plan, inputs, &mut watch)
                    .inspect(|_| drop(torno_sandbox::rehearse(link.as_fd()))),
                None => Spare::make(plan, inputs, &mut watch),
            };
            match made {
                // With nobody there to take it, it ends here.
                Ok(spare) => drop(done.send(Waiting {
                    spare,
                    link,
                    range,
                    entry,
                })),
                Err(_) if watch.is_so() => {}
                // The next start makes its own and has the error to show.
                Err(error) => tracing::warn!("no sandbox could be made ahead: {error}"),
            }
        };
        let thread = std::thread::Builder::new().name("next-sandbox".into());
        self.coming = thread.spawn(work).ok().map(|work| Coming {
            shape,
            made,
            unwanted,
            work,
        });
    }

    /// None is made of this shape until a session has it again.
    pub(super) fn forget(&mut self, shape: &Shape) {
        self.shapes.retain(|(known, _)| known != shape);
    }

    /// Ends all of them, and makes none before the next session.
    pub(super) fn give_up(&mut self) {
        self.shapes.clear();
        self.waiting.clear();
        if let Some(coming) = self.coming.take() {
            coming.unwanted.say();
            // Made after all, it has nowhere to go, and ends where it was made.
            self.undoing.retain(|work| !work.is_finished());
            self.undoing.push(coming.work);
        }
    }

    /// Takes in the one that was being made, if it is there.
    fn collect(&mut self) {
        let Some(coming) = self.coming.take() else {
            return;
        };
        match coming.made.try_recv() {
            Ok(made) => self.waiting.push((coming.shape, made)),
            Err(mpsc::TryRecvError::Empty) => self.coming = Some(coming),
            // It could not be made: not again before a session has that shape.
            Err(mpsc::TryRecvError::Disconnected) => self.forget(&coming.shape),
        }
    }

    /// The shape last used of which too few wait.
    fn missing(&self) -> Option<Shape> {
        if self.waiting.len() >= WAITING_MAX {
            return None;
        }
        let has = |shape: &Shape| self.waiting.iter().filter(|(of, _)| of == shape).count();
        let mut shapes = self.shapes.iter().map(|(shape, _)| shape);
        shapes.find(|shape| has(shape) < self.target).cloned()
    }

    /// Ends those that hold too much together; true when there is no room for another.
    fn keep_within_memory(&mut self) -> bool {
        let mut is_full = false;
        while self.memory_bytes() > MEMORY_BYTES_MAX {
            is_full = true;
            let age = |of: &Shape| self.shapes.iter().position(|(shape, _)| shape == of);
            let places = self.waiting.iter().enumerate();
            let Some((last, _)) = places.max_by_key(|(_, (of, _))| age(of)) else {
                break;
            };
            self.waiting.remove(last);
        }
        is_full
    }

    fn memory_bytes(&self) -> u64 {
        let of = |(_, waiting): &(Shape, Waiting)| waiting.spare.memory_bytes();
        self.waiting.iter().map(of).sum()
    }
}

impl Drop for SpareSandboxes {
    fn drop(&mut self) {
        self.give_up();
        wait_for(&self.undoing);
    }
}

/// Waits until what nobody wants any more is undone.
pub(super) fn wait_for(undoing: &[JoinHandle<()>]) {
    let end = Instant::now() + UNDO_WAIT;
    while undoing.iter().any(|work| !work.is_finished()) && Instant::now() < end {
        std::thread::sleep(MAKING_LOOK);
    }
}

/// Whether a session may have it.
fn is_good(waiting: &Waiting) -> bool {
    match waiting.spare.check() {
        Ok(()) => true,
        Err(ClaimError::Host) => {
            tracing::info!("the host has changed: a sandbox made ahead goes");
            false
        }
        Err(error) => {
            tracing::warn!("{error}; another one is made");
            false
        }
    }
}

/// Stops a start at its next step once nobody wants it any more.
#[derive(Debug, Clone, Default)]
pub(super) struct Unwanted(Arc<AtomicBool>);

impl Unwanted {
    /// From now on nobody wants it.
    pub(super) fn say(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether nobody does.
    pub(super) fn is_so(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Watch for Unwanted {
    fn before(&mut self, _: StartStep) -> io::Result<()> {
        if self.is_so() {
            return Err(io::Error::other("nobody wants it any more"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::{split, tests::order};
    use super::*;

    /// A shape of its own for each number.
    fn shape(number: u64) -> Shape {
        let mut order = order();
        order.limits.pids = 64 + number;
        split(order).0
    }

    #[test]
    fn with_a_target_of_zero_nothing_is_ever_made() {
        let now = Instant::now();
        let mut spares = SpareSandboxes::new(0);
        spares.used(shape(1), now);
        spares.session_ended(now);
        assert!(spares.tend(now).is_none());
        assert!(spares.due() > now + WAITING_LOOK);
    }

    #[test]
    fn the_shape_used_last_comes_first_and_only_so_many_are_remembered() {
        let now = Instant::now();
        let mut spares = SpareSandboxes::new(1);
        for number in 0..=SHAPES_MAX as u64 {
            spares.used(shape(number), now);
        }
        spares.used(shape(2), now);
        let mut made = Vec::new();
        while let Some(next) = spares.tend(now) {
            spares.forget(&next);
            made.push(next);
        }
        assert_eq!(made, [shape(2), shape(4), shape(3), shape(1)]);
    }

    #[test]
    fn a_shape_that_nobody_has_had_for_long_is_forgotten() {
        let now = Instant::now();
        let mut spares = SpareSandboxes::new(1);
        spares.used(shape(1), now);
        spares.used(shape(2), now + IDLE_MAX / 2);
        let later = now + IDLE_MAX;
        assert_eq!(spares.tend(later), Some(shape(2)));
        assert_eq!(spares.tend(now + IDLE_MAX * 2), None);
        assert!(spares.due() > now + IDLE_MAX * 3);
    }

    #[test]
    fn after_a_kill_of_all_none_is_made_before_the_next_session() {
        let now = Instant::now();
        let mut spares = SpareSandboxes::new(1);
        spares.used(shape(1), now);
        spares.give_up();
        spares.session_ended(now);
        assert_eq!(spares.tend(now), None);
        spares.used(shape(1), now);
        assert_eq!(spares.tend(now), Some(shape(1)));
    }

    /// The end of the daemon is a kill of all, and then the end of the launcher.
    #[test]
    fn the_end_waits_until_one_that_is_being_made_is_undone() {
        let mut spares = SpareSandboxes::new(1);
        let (done, made) = mpsc::channel();
        let unwanted = Unwanted::default();
        let is_undone = Arc::new(AtomicBool::new(false));
        let (stop, undone) = (unwanted.clone(), Arc::clone(&is_undone));
        let work = std::thread::spawn(move || {
            while !stop.is_so() {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(200));
            undone.store(true, Ordering::Relaxed);
            drop(done);
        });
        spares.coming = Some(Coming {
            shape: shape(1),
            made,
            unwanted,
            work,
        });
        spares.give_up();
        drop(spares);
        assert!(is_undone.load(Ordering::Relaxed));
    }

    #[test]
    fn starts_back_to_back_do_not_put_the_making_off() {
        let now = Instant::now();
        let mut spares = SpareSandboxes::new(1);
        spares.used(shape(1), now);
        let due = spares.due();
        spares.used(shape(1), now + AFTER_START / 2);
        assert_eq!(spares.due(), due);
        spares.session_ended(now);
        assert!(spares.due() < due);
    }
}
