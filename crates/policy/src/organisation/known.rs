// SPDX-License-Identifier: Apache-2.0
//! Answers that were given before: a policy does not change once it is read, and programs ask for
//! the same few things again and again.

use super::Judgement;
use super::question::Asked;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// LIMIT: answers that are kept, under 300 KiB with their questions; beyond it all are forgotten.
const KNOWN_MAX: usize = 256;
/// LIMIT: a question with a longer path, or that says more than one thing, is asked anew each time:
/// a guest fills no memory with it.
const PATH_BYTES_MAX: usize = 256;

/// The answers of one policy.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<HashMap<Asked, Judgement>>);

impl Known {
    pub(super) fn answer(
        &self,
        asked: Asked,
        judge: impl FnOnce(&Asked) -> Judgement,
    ) -> Judgement {
        if let Some(known) = self.lock().get(&asked) {
            return known.clone();
        }
        let judgement = judge(&asked);
        // What could not be evaluated is tried again.
        let is_short = asked.path.len() <= PATH_BYTES_MAX && asked.count_said() <= 1;
        if is_short && !judgement.undecidable {
            let mut all = self.lock();
            if all.len() >= KNOWN_MAX {
                all.clear();
            }
            all.insert(asked, judgement.clone());
        }
        judgement
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Asked, Judgement>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }
}
