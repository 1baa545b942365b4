// SPDX-License-Identifier: Apache-2.0
//! Which sessions are over: nothing of theirs is made again.

use std::collections::{BTreeSet, VecDeque};
use torno_policy::names::SessionId;

/// LIMIT: names of ended sessions that are remembered as fenced: enough that no order on its way is
/// forgotten; ids are never used again.
const OVER_MAX: usize = 10_000;

/// The sessions that are over, and in which order they ended: ids are random, so the smallest is
/// not the oldest.
#[derive(Default)]
pub(super) struct Over {
    all: BTreeSet<SessionId>,
    by_end: VecDeque<SessionId>,
}

impl Over {
    /// Whether this one is over.
    pub(super) fn contains(&self, session: &SessionId) -> bool {
        self.all.contains(session)
    }

    /// Remembers one more, and forgets who ended first beyond [`OVER_MAX`].
    pub(super) fn insert(&mut self, session: &SessionId) {
        if self.all.insert(session.clone()) {
            self.by_end.push_back(session.clone());
        }
        while self.by_end.len() > OVER_MAX {
            if let Some(first) = self.by_end.pop_front() {
                self.all.remove(&first);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_limit_the_session_that_ended_first_is_forgotten_whatever_its_name() {
        let session = |number: usize| SessionId::parse(&format!("s{number:05}")).unwrap();
        let mut over = Over::default();
        // Later ends have smaller names.
        for number in (0..=OVER_MAX).rev() {
            over.insert(&session(number));
            over.insert(&session(number));
        }
        assert!(!over.contains(&session(OVER_MAX)));
        assert!((0..OVER_MAX).all(|number| over.contains(&session(number))));
        assert_eq!(over.all.len(), over.by_end.len());
    }
}
