// SPDX-License-Identifier: Apache-2.0
//! The sealed network made ahead: at most one. It is the same for every sandbox and nobody is in
//! it; the next sandbox gets it, that one alone, since it is moved out of here.

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;
use tokio::time::Instant;
use torno_sandbox::SealedNetwork;

/// LIMIT: between a start and the making of the next one, so that the two don't share the cores.
const AFTER_START: Duration = Duration::from_millis(15);
/// LIMIT: with nothing to do; any time will do, since whoever changes that sets another.
const IDLE: Duration = Duration::from_secs(3600);

/// The place of the network made ahead.
pub(super) struct SpareNetwork {
    /// Without `nft` none is made; each start says what is missing.
    nft: Option<PathBuf>,
    coming: Option<mpsc::Receiver<SealedNetwork>>,
    due: Instant,
}

impl SpareNetwork {
    pub(super) fn new(nft: Option<PathBuf>) -> Self {
        Self {
            nft,
            coming: None,
            due: Instant::now(),
        }
    }

    /// When [`Self::begin`] is to be called.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Makes one beside us, unless there is one.
    pub(super) fn begin(&mut self) {
        self.due = Instant::now() + IDLE;
        let (Some(nft), None) = (self.nft.clone(), &self.coming) else {
            return;
        };
        let (done, coming) = mpsc::channel();
        let work = move || match SealedNetwork::make(&nft) {
            // A launcher that has ended needs none, and the network goes with its descriptors.
            Ok(network) => drop(done.send(network)),
            // The next start makes its own and has the error to show.
            Err(error) => tracing::warn!("no network could be made ahead: {error}"),
        };
        let thread = std::thread::Builder::new().name("next-network".into());
        self.coming = thread.spawn(work).is_ok().then_some(coming);
    }

    /// Gives it away, waiting for one that is being made. Without one the start makes its own.
    pub(super) fn take(&mut self) -> Option<SealedNetwork> {
        self.due = Instant::now() + AFTER_START;
        self.coming.take()?.recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_nft_none_is_made_and_the_start_makes_its_own() {
        let mut spare = SpareNetwork::new(None);
        spare.begin();
        assert!(spare.take().is_none());
    }

    #[test]
    fn one_that_could_not_be_made_is_none_and_the_next_is_tried_again() {
        let mut spare = SpareNetwork::new(Some(PathBuf::from("/nonexistent/nft")));
        for _ in 0..2 {
            spare.begin();
            assert!(spare.coming.is_some());
            assert!(spare.take().is_none());
        }
    }

    #[test]
    fn each_is_given_once() {
        let nft = torno_sandbox::Paths::default().find("nft");
        let mut spare = SpareNetwork::new(nft);
        spare.begin();
        let Some(_first) = spare.take() else {
            println!("SKIP: a network made ahead is given once: none can be made here");
            return;
        };
        assert!(spare.take().is_none());
    }
}
