// SPDX-License-Identifier: Apache-2.0
//! Names of prepared statements and of portals that end a transaction, or may. The server says only
//! at the end of a run what became of it, so a name is taken out when it surely stands for
//! something else.

use std::collections::{HashMap, HashSet};

/// LIMIT: statements that end a transaction and were prepared; drivers keep a few.
const NAMES_MAX: usize = 64;
/// LIMIT: PostgreSQL cuts a longer name, and two names that are cut could be one.
const NAME_BYTES_MAX: usize = 63;

/// What may be, and what the run under way says.
#[derive(Debug, Default)]
pub(super) struct Names {
    may_end: HashSet<Vec<u8>>,
    /// Of those alone.
    run: HashMap<Vec<u8>, bool>,
}

/// Whether the server takes this name as it is.
pub(super) fn fits(name: &[u8]) -> bool {
    name.len() <= NAME_BYTES_MAX
}

impl Names {
    /// Whether what goes by this name ends a transaction. Within a run that is exact: where one of
    /// its messages fails, the rest of it is not looked at.
    pub(super) fn ends(&self, name: &[u8]) -> bool {
        let said = self.run.get(name).copied();
        said.unwrap_or_else(|| self.may_end.contains(name))
    }

    /// Whether one more finds room.
    pub(super) fn has_room(&self, name: &[u8]) -> bool {
        self.may_end.contains(name) || self.may_end.len() < NAMES_MAX
    }

    /// A name is given. One that is taken stays what it is, the empty one excepted: the server
    /// refuses to give it twice.
    pub(super) fn give(&mut self, name: &[u8], ends: bool) {
        if ends {
            self.may_end.insert(name.to_vec());
            self.run.insert(name.to_vec(), true);
        } else if name.is_empty() {
            self.free(name);
        }
    }

    /// A name is given up.
    pub(super) fn free(&mut self, name: &[u8]) {
        if self.ends(name) {
            self.run.insert(name.to_vec(), false);
        }
    }

    /// The run is over. After a failure each of its messages was heeded or not.
    pub(super) fn run_over(&mut self, failed: bool) {
        for (name, ends) in self.run.drain() {
            if !ends && !failed {
                self.may_end.remove(&name);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.may_end.clear();
        self.run.clear();
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.may_end.iter().map(Vec::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_out_when_it_surely_stands_for_something_else() {
        let mut names = Names::default();
        names.give(b"c", true);
        names.give(b"", true);
        names.run_over(false);
        // Taken: the server refuses it.
        names.give(b"c", false);
        assert!(names.ends(b"c"));
        names.free(b"c");
        names.give(b"", false);
        assert!(!names.ends(b"c") && !names.ends(b""));
        names.run_over(true);
        assert!(names.ends(b"c") && names.ends(b""), "the run failed");
        names.free(b"c");
        names.give(b"", false);
        names.run_over(false);
        assert!(!names.ends(b"c") && !names.ends(b""));
        names.give(b"d", true);
        names.free(b"d");
        assert!(!names.ends(b"d"));
        names.run_over(true);
        assert!(names.ends(b"d"), "it was given, if the run failed then");
    }
}
