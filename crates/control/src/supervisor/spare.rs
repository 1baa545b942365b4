// SPDX-License-Identifier: Apache-2.0
//! The gate made ahead: at most one, started and confined like any, with a channel to the
//! supervisor and nothing else. It serves the next session, that one alone, and is replaced.

use super::Supervisor;
use super::gates::Gate;
use std::time::Duration;
use tokio::time::Instant;

/// LIMIT: how old it gets. It has read the system's certificates when it was made, so a root that
/// the operator takes away counts for new sessions after this time at the latest.
const AGE_MAX: Duration = Duration::from_secs(600);
/// LIMIT: between a start and the making of the next one, so that the two don't share the cores;
/// a shorter session than this does not exist.
const AFTER_START: Duration = Duration::from_millis(10);
/// LIMIT: between its death and the next one, so that one which can't live is not made in a loop. A
/// session that starts meanwhile gets a new gate of its own.
const AFTER_DEATH: Duration = Duration::from_secs(1);

/// The place of the gate made ahead.
pub(super) struct Spare {
    gate: Option<Gate>,
    /// When there is something to do about it.
    due: Instant,
}

impl Default for Spare {
    fn default() -> Self {
        Self {
            gate: None,
            due: Instant::now(),
        }
    }
}

impl Spare {
    /// When [`Supervisor::renew_spare`] is to be called.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Gives it away, if it lives. It never comes back.
    pub(super) fn take(&mut self) -> Option<Gate> {
        self.due = Instant::now() + AFTER_START;
        let mut gate = self.gate.take()?;
        (!gate.has_ended()).then_some(gate)
    }

    /// Notices its death.
    pub(super) fn reap(&mut self) {
        if self.gate.as_mut().is_some_and(Gate::has_ended) {
            tracing::warn!("the gate made ahead ended; another one is made");
            self.gate = None;
            self.due = Instant::now() + AFTER_DEATH;
        }
    }

    /// Ends it with the daemon.
    pub(super) fn end(&mut self) {
        if let Some(mut gate) = self.gate.take() {
            gate.end();
        }
    }
}

impl Supervisor {
    /// Makes the gate for the next session, in place of one that is too old.
    pub(super) async fn renew_spare(&mut self) {
        self.spare.end();
        let (gate, next) = match self.make_gate().await {
            Ok(gate) => (Some(gate), AGE_MAX),
            Err(error) => {
                tracing::warn!("no gate could be made ahead: {error:#}");
                (None, AFTER_DEATH)
            }
        };
        self.spare = Spare {
            gate,
            due: Instant::now() + next,
        };
    }
}
