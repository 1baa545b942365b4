// SPDX-License-Identifier: Apache-2.0
//! The porters' processes, by the session whose files they work on: a kill ends them with it, and
//! so does the end of the daemon.

use crate::spawn::Spawned;
use std::time::{Duration, Instant};
use torno_policy::names::SessionId;

/// LIMIT: how long a kill waits for killed porters; one dies in less than a millisecond, unless it
/// is in a call to a file system that does not answer.
const DEATH_WAIT: Duration = Duration::from_millis(200);

/// Every porter that has not been collected.
#[derive(Default)]
pub(super) struct Porters(Vec<(SessionId, Spawned)>);

impl Porters {
    /// Takes one that has its job, with our end of its channel: while that is open, we are there.
    pub(super) fn add(&mut self, session: SessionId, porter: Spawned) {
        self.0.push((session, porter));
    }

    /// SIGKILL for a session's, or for all, and a short wait for their end. One that a file system
    /// holds back does nothing once it comes back; a kill does not wait for it.
    pub(super) fn end(&mut self, session: Option<&SessionId>) {
        let is_meant = |owner: &SessionId| session.is_none_or(|session| session == owner);
        for (_, porter) in self.0.iter_mut().filter(|(owner, _)| is_meant(owner)) {
            // One that has ended by itself can't be killed, and is collected below.
            let _ = porter.child.kill();
        }
        let end = Instant::now() + DEATH_WAIT;
        while self.0.iter().any(|(owner, _)| is_meant(owner)) && Instant::now() < end {
            self.reap();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Collects those that ended.
    pub(super) fn reap(&mut self) {
        self.0
            .retain_mut(|(_, porter)| !matches!(porter.child.try_wait(), Ok(Some(_))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn session(last: char) -> SessionId {
        SessionId::parse(&format!("{}{last}", "a".repeat(25))).unwrap()
    }

    fn sleeper() -> Spawned {
        Spawned {
            child: Command::new("sleep").arg("60").spawn().unwrap(),
            channel: torno_control_api::channel::pair().unwrap().0,
        }
    }

    #[test]
    fn a_session_loses_its_own_porters_and_nobody_elses() {
        let (one, two) = (session('b'), session('c'));
        let mut porters = Porters::default();
        for owner in [&one, &two, &one] {
            porters.add(owner.clone(), sleeper());
        }
        porters.end(Some(&one));
        porters.reap();
        let left: Vec<_> = porters.0.iter().map(|(owner, _)| owner.clone()).collect();
        assert_eq!(left, [two]);
        porters.end(None);
        assert!(porters.0.is_empty());
    }
}
