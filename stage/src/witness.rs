// SPDX-License-Identifier: Apache-2.0
//! The plaintext between sandboxes and their gates, both ways, seen from outside of both: frames of
//! each sandbox's own network, put together, and opened with the keys that clients inside export
//! (`SSLKEYLOGFILE`). Nothing in the product helps; it needs root, as reading any network does.

mod capture;
mod http2;
mod stream;
mod tls;

use crate::daemon::Daemon;
use anyhow::{Result, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The name of the file in a workspace copy to which clients inside write their keys.
pub const KEYS: &str = ".stage-keys";
/// Ends of the path from a sandbox to its gate: captured dials, the proxy, DNS.
const GATE_PORTS: [u16; 3] = [3129, 3128, 53];
/// How often new sandboxes and new keys are looked for. A runtime takes far longer to start.
const LOOK_EVERY: Duration = Duration::from_millis(4);
/// The most urgent that setpriority(2) knows.
const WATCH_NICE: i32 = -20;
/// After the last command: what was sent on loopback has then been read here too.
const SETTLE: Duration = Duration::from_millis(60);

/// What was seen of all sandboxes of one daemon.
#[derive(Debug)]
pub struct Seen {
    /// What went to the gate: requests, heads of CONNECT, DNS questions.
    pub to_gate: Vec<u8>,
    /// What came from it: each client's answers.
    pub from_gate: Vec<u8>,
    /// Streams of TLS that no exported key opens, with why.
    pub unopened: Vec<String>,
    /// Frames that were read.
    pub frames: usize,
}

/// Watches one daemon's sandboxes until it is dropped.
#[derive(Debug)]
pub struct Witness {
    shared: Arc<Shared>,
    watcher: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    log: PathBuf,
    sandboxes: PathBuf,
    over: AtomicBool,
    frames: Mutex<Vec<capture::Captured>>,
    keys: Mutex<BTreeMap<PathBuf, Vec<u8>>>,
    faults: Mutex<Vec<String>>,
}

impl Witness {
    /// Begins to watch. Call it before the first sandbox.
    #[must_use]
    pub fn start(daemon: &Daemon) -> Self {
        let shared = Arc::new(Shared {
            log: daemon.log(),
            sandboxes: daemon.sandboxes(),
            over: AtomicBool::new(false),
            frames: Mutex::default(),
            keys: Mutex::default(),
            faults: Mutex::default(),
        });
        let own = Arc::clone(&shared);
        Self {
            shared,
            watcher: Some(std::thread::spawn(move || watch(&own))),
        }
    }

    /// Ends the watch: everything that was seen.
    ///
    /// # Errors
    /// When a sandbox's network could not be read.
    pub fn end(mut self) -> Result<Seen> {
        std::thread::sleep(SETTLE);
        self.stop();
        let faults = lock(&self.shared.faults);
        ensure!(faults.is_empty(), "not everything was seen: {faults:?}");
        let captured = lock(&self.shared.frames);
        let keys = tls::Keys::read(lock(&self.shared.keys).values());
        Ok(put_together(&captured, &keys))
    }

    fn stop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        if let Some(watcher) = self.watcher.take() {
            let _panicked = watcher.join();
        }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.stop();
    }
}

fn watch(shared: &Arc<Shared>) {
    // This thread alone. A launcher has a namespace open for some ms only: who comes late on a busy
    // machine has missed a sandbox. Without the right to it, as before.
    let _as_before = rustix::process::setpriority_process(None, WATCH_NICE);
    let mut namespaces = capture::Namespaces::default();
    while !shared.over.load(Ordering::SeqCst) {
        for namespace in namespaces.fresh(&shared.log) {
            let own = Arc::clone(shared);
            let captured = capture::Captured::default();
            lock(&shared.frames).push(captured.clone());
            let begun = capture::read(namespace, captured, move || own.over.load(Ordering::SeqCst));
            if let Err(error) = begun {
                lock(&shared.faults).push(format!("{error:#}"));
            }
        }
        // A workspace copy may be gone a moment later.
        harvest(shared);
        std::thread::sleep(LOOK_EVERY);
    }
    harvest(shared);
}

/// Takes exported keys out of the workspace copies, as they grow.
fn harvest(shared: &Shared) {
    for entry in std::fs::read_dir(&shared.sandboxes)
        .into_iter()
        .flatten()
        .flatten()
    {
        for phase in ["workspace", "install"] {
            let path = entry.path().join(phase).join(KEYS);
            let known = lock(&shared.keys).get(&path).map(Vec::len);
            let length = std::fs::symlink_metadata(&path).ok().map(|m| m.len());
            if length.is_some() && length != known.map(|known| known as u64) {
                let bytes = std::fs::read(&path).unwrap_or_default();
                lock(&shared.keys).insert(path, bytes);
            }
        }
    }
}

fn put_together(captured: &[capture::Captured], keys: &tls::Keys) -> Seen {
    let mut seen = Seen {
        to_gate: Vec::new(),
        from_gate: Vec::new(),
        unopened: Vec::new(),
        frames: 0,
    };
    for captured in captured {
        let frames = captured.frames();
        seen.frames += frames.len();
        for conversation in stream::conversations(&frames, &GATE_PORTS) {
            let opened = tls::open(&conversation.to_gate, &conversation.from_gate, keys);
            let written_out = http2::written_out(&opened.to_gate, &opened.from_gate);
            let (to_gate, from_gate) = written_out.unwrap_or((opened.to_gate, opened.from_gate));
            for (kept, part) in [
                (&mut seen.to_gate, to_gate),
                (&mut seen.from_gate, from_gate),
            ] {
                kept.extend_from_slice(&part);
                kept.push(b'\n');
            }
            seen.unopened.extend(opened.why_not);
        }
    }
    seen
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this process may read the network of a sandbox.
#[must_use]
pub fn may_watch() -> bool {
    rustix::process::geteuid().is_root() && Path::new("/proc/self/ns/net").exists()
}
