// SPDX-License-Identifier: Apache-2.0
//! Ranges of host ids, one for each sandbox: in turn, and never one that a sandbox still has.

use super::sandboxes::Failed;
use crate::roles::uids;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use torno_sandbox::{Rights, UID_RANGE};

/// All of them.
pub(super) struct Ranges {
    rights: Option<Rights>,
    taken: Arc<Mutex<BTreeSet<u32>>>,
    next: u32,
}

/// One that is taken for as long as this lives.
pub(super) struct Range {
    number: u32,
    taken: Arc<Mutex<BTreeSet<u32>>>,
    /// Its first id, in the launcher's ids.
    pub(super) uid_base: u32,
}

impl Ranges {
    pub(super) fn new(rights: Option<Rights>) -> Self {
        Self {
            rights,
            taken: Arc::default(),
            next: 0,
        }
    }

    /// Where a range begins, in the launcher's ids.
    fn uid_base(&self, range: u32) -> u32 {
        match self.rights {
            Some(Rights::Namespace(ids)) => ids.base(range),
            Some(Rights::Root) | None => uids::SANDBOXES + range * UID_RANGE,
        }
    }

    /// How many there are, besides the one for probes.
    fn count(&self) -> u32 {
        match self.rights {
            Some(Rights::Namespace(ids)) => ids.ranges(),
            Some(Rights::Root) | None => uids::SANDBOX_RANGES,
        }
    }

    /// The first id of the range that probes have.
    pub(super) fn of_probes(&self) -> u32 {
        self.uid_base(self.count())
    }

    /// Takes the next one that is free.
    pub(super) fn take(&mut self) -> Result<Range, Failed> {
        let count = self.count();
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..count {
            let number = self.next;
            self.next = (number + 1) % count;
            if taken.insert(number) {
                return Ok(Range {
                    number,
                    taken: Arc::clone(&self.taken),
                    uid_base: self.uid_base(number),
                });
            }
        }
        Err(Failed::internal(
            "every range of user ids is taken by a live sandbox",
        ))
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_nobody_elses_until_its_holder_is_gone() {
        let mut ranges = Ranges::new(Some(Rights::Root));
        let kept = ranges.take().unwrap();
        let mut bases = BTreeSet::from([kept.uid_base]);
        // Each of the others comes twice, the kept one never again.
        for _ in 0..2 * (uids::SANDBOX_RANGES - 1) {
            let range = ranges.take().unwrap();
            assert_ne!(range.uid_base, kept.uid_base);
            assert_ne!(range.uid_base, ranges.of_probes());
            bases.insert(range.uid_base);
        }
        assert_eq!(bases.len(), uids::SANDBOX_RANGES as usize);
        let all: Vec<_> = (1..uids::SANDBOX_RANGES)
            .map(|_| ranges.take().unwrap())
            .collect();
        assert!(ranges.take().is_err());
        drop(all);
        assert!(ranges.take().is_ok());
    }
}
