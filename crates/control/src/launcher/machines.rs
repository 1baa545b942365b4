// SPDX-License-Identifier: Apache-2.0
//! The parts of a machine and its image. Parts are found when any level is asked for, the image is
//! made when a machine is named: it has the size of `/usr`, and takes up to a minute beside the
//! launcher's loop. It is made once in a launcher's life, or until that succeeds.

use super::levels::Again;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, TryRecvError};
use std::time::{Duration, Instant};
use torno_sandbox::{HostFacts, Paths};

/// Where images are kept for a machine whose parts are installed.
const IMAGES: &str = "/var/cache/torno/images";

/// What is known of them.
pub(super) struct Machines {
    paths: Paths,
    state: State,
}

enum State {
    Unasked,
    Found,
    Coming(mpsc::Receiver<Result<PathBuf, String>>, Instant),
    Done,
    Failed(String, Again),
}

impl Machines {
    pub(super) fn new(paths: Paths) -> Self {
        Self {
            paths,
            state: State::Unasked,
        }
    }

    /// Looks for the parts, once.
    pub(super) fn find(&mut self, facts: &mut HostFacts) {
        if matches!(self.state, State::Unasked) {
            facts.find_machine(&self.paths);
            self.state = State::Found;
        }
    }

    /// Puts parts and image into the facts; false while the image is still being made.
    pub(super) fn prepare(&mut self, facts: &mut HostFacts) -> bool {
        self.find(facts);
        match &self.state {
            State::Found => self.state = begin(facts),
            State::Failed(_, again) if again.is_due() => self.state = begin(facts),
            _ => {}
        }
        let State::Coming(coming, begun) = &self.state else {
            return true;
        };
        let failed = |why| State::Failed(why, Again::after(begun.elapsed()));
        self.state = match coming.try_recv() {
            Err(TryRecvError::Empty) => return false,
            Err(TryRecvError::Disconnected) => failed("the making died".to_owned()),
            Ok(Err(error)) => failed(error),
            Ok(Ok(image)) => {
                if let Some(machine) = &mut facts.machine {
                    machine.image = Some(image);
                }
                State::Done
            }
        };
        true
    }

    /// Why there is no image.
    pub(super) fn failure(&self) -> Option<&str> {
        match &self.state {
            State::Failed(why, _) => Some(why),
            State::Unasked | State::Found | State::Coming(..) | State::Done => None,
        }
    }
}

/// Without parts there is nothing to make; the probe says what is missing.
fn begin(facts: &HostFacts) -> State {
    let Some(parts) = facts.machine.clone() else {
        return State::Done;
    };
    let beside = parts.root.join("images");
    let is_installed = parts.root == Path::new("/");
    let cache = if is_installed {
        PathBuf::from(IMAGES)
    } else {
        beside
    };
    let (done, coming) = mpsc::channel();
    let work = move || {
        let began = || tracing::warn!("the image of /usr is being made in {}", cache.display());
        let made = torno_sandbox::host_image(&parts, &cache, began);
        // A launcher that has ended needs none.
        let _ = done.send(made.map_err(|error| format!("{:#}", anyhow::Error::from(error))));
    };
    match std::thread::Builder::new().name("image".into()).spawn(work) {
        Ok(_) => State::Coming(coming, Instant::now()),
        Err(error) => State::Failed(error.to_string(), Again::after(Duration::ZERO)),
    }
}
