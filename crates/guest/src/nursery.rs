// SPDX-License-Identifier: Apache-2.0
//! The one thread behind landlock from which everything is started: keepers (and so all programs)
//! and the threads that serve file requests. What is born here inherits its walls, and all of it
//! shares one landlock domain.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use rustix::process::{Pid, WaitOptions, wait};
use tokio::sync::oneshot;
use torno_guest_protocol::Wall;

use crate::settings::Settings;
use crate::walls::{self, RaiseError};

type Job = Box<dyn FnOnce(&Keepers) + Send>;

/// The pids of living keepers. Locked while one is started and while the dead are reaped, so that a
/// child which isn't in it is surely an orphan.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keepers(Arc<Mutex<HashSet<Pid>>>);

impl Keepers {
    /// Locks the set.
    pub(crate) fn lock(&self) -> MutexGuard<'_, HashSet<Pid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reaps everything that ended: keepers, and orphans of lost ones. True when a keeper was lost:
    /// it didn't end by itself, so its family may live, and is the agent's by now (a process gives
    /// its children away before it can be reaped).
    // ATTACK: 156
    #[must_use]
    pub(crate) fn reap(&self) -> bool {
        let mut keepers = self.lock();
        let mut is_one_lost = false;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            is_one_lost |= keepers.remove(&pid) && status.exit_status() != Some(0);
        }
        is_one_lost
    }
}

/// A handle on the thread.
#[derive(Clone, Debug)]
pub(crate) struct Nursery {
    jobs: mpsc::SyncSender<Job>,
}

impl Nursery {
    /// Starts the thread and raises its walls; gives which of them hold.
    pub(crate) fn start(
        settings: Arc<Settings>,
        keepers: Keepers,
    ) -> io::Result<Result<(Self, Vec<Wall>), RaiseError>> {
        let (jobs, queue) = mpsc::sync_channel::<Job>(JOBS_MAX);
        let (raised, outcome) = mpsc::sync_channel(1);
        std::thread::Builder::new()
            .name("nursery".into())
            .spawn(move || {
                let walls = walls::confine(&settings).and_then(|confined| {
                    // Programs drop their identity later, each in its own keeper; a trial tells
                    // whether they can.
                    let identity = trial_of_identity(&settings)?;
                    Ok(confined.into_iter().chain(identity).collect())
                });
                let may_serve = walls.is_ok();
                let is_heard = raised.send(walls).is_ok();
                if may_serve && is_heard {
                    while let Ok(job) = queue.recv() {
                        job(&keepers);
                    }
                }
            })?;
        let walls = outcome
            .recv()
            .map_err(|_| io::Error::other("the nursery died"))?;
        Ok(walls.map(|walls| (Self { jobs }, walls)))
    }

    /// Starts a keeper whose standard input is `control`.
    pub(crate) async fn start_keeper(
        &self,
        settings: Arc<Settings>,
        control: OwnedFd,
    ) -> io::Result<()> {
        let (done, outcome) = oneshot::channel();
        self.submit(Box::new(move |keepers| {
            let mut living = keepers.lock();
            let started = Command::new("/proc/self/exe")
                .args(settings.keeper_words())
                .env_clear()
                .stdin(control)
                .stdout(Stdio::null())
                .stderr(Stdio::inherit())
                .spawn();
            let started = started.map(|child| {
                // Reaped by the agent's loop, never through this handle.
                living.extend(i32::try_from(child.id()).ok().and_then(Pid::from_raw));
            });
            let _nobody_waits_at_shutdown = done.send(started);
        }))?;
        outcome
            .await
            .map_err(|_| io::Error::other("the nursery died"))?
    }

    /// Runs `work` on a thread of its own behind the walls.
    pub(crate) fn start_thread(&self, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.submit(Box::new(move |_| {
            // Without a thread the work is dropped; its owner notices by the closed channel.
            let _dropped = std::thread::Builder::new().name("file".into()).spawn(work);
        }))
    }

    fn submit(&self, job: Job) -> io::Result<()> {
        self.jobs
            .try_send(job)
            .map_err(|_| io::Error::other("too many starts at once"))
    }
}

fn trial_of_identity(settings: &Settings) -> Result<[Wall; 2], RaiseError> {
    std::thread::scope(|scope| {
        let trial = std::thread::Builder::new()
            .spawn_scoped(scope, || walls::drop_identity(settings))
            .map_err(RaiseError::Capabilities)?;
        trial.join().unwrap_or_else(|_| {
            Err(RaiseError::Capabilities(io::Error::other(
                "the trial thread died",
            )))
        })
    })
}

// LIMIT: above the execs and requests that may be at work at once, so it is full only if this
// thread hangs.
const JOBS_MAX: usize = 512;
