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
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
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

/// A sandbox may put anything there: no link is followed and nobody is waited for.
const OPEN: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

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
    watchers: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    log: PathBuf,
    sandboxes: PathBuf,
    over: AtomicBool,
    frames: Mutex<Vec<capture::Captured>>,
    keys: Mutex<BTreeMap<PathBuf, Exported>>,
    faults: Mutex<Vec<String>>,
}

/// What clients of one workspace copy exported. The file is held: a kill takes its name away, and
/// with it what a client wrote a moment before.
#[derive(Debug)]
struct Exported {
    file: File,
    bytes: Vec<u8>,
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
        let (networks, files) = (Arc::clone(&shared), Arc::clone(&shared));
        Self {
            shared,
            watchers: vec![
                std::thread::spawn(move || watch(&networks)),
                std::thread::spawn(move || harvest(&files)),
            ],
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
        let keys = lock(&self.shared.keys);
        let keys = tls::Keys::read(keys.values().map(|exported| &exported.bytes));
        Ok(put_together(&captured, &keys))
    }

    fn stop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        for watcher in self.watchers.drain(..) {
            let _panicked = watcher.join();
        }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.stop();
    }
}

/// This thread alone. A launcher has a namespace open for some ms only, and a copy is gone a moment
/// after a kill: who comes late on a busy machine has missed it. Without the right to it, as ever.
fn hurry() {
    let _as_before = rustix::process::setpriority_process(None, WATCH_NICE);
}

fn watch(shared: &Arc<Shared>) {
    hurry();
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
        std::thread::sleep(LOOK_EVERY);
    }
}

fn harvest(shared: &Shared) {
    hurry();
    while !shared.over.load(Ordering::SeqCst) {
        take_exported(shared);
        std::thread::sleep(LOOK_EVERY);
    }
    take_exported(shared);
}

/// Takes exported keys out of the workspace copies, as they grow.
fn take_exported(shared: &Shared) {
    let mut keys = lock(&shared.keys);
    for entry in std::fs::read_dir(&shared.sandboxes)
        .into_iter()
        .flatten()
        .flatten()
    {
        for phase in ["workspace", "install"] {
            let path = entry.path().join(phase).join(KEYS);
            if !keys.contains_key(&path)
                && let Ok(file) = rustix::fs::open(&path, OPEN, Mode::empty())
            {
                let (file, bytes) = (File::from(file), Vec::new());
                keys.insert(path, Exported { file, bytes });
            }
        }
    }
    for Exported { file, bytes } in keys.values_mut() {
        let _what_there_is = file.read_to_end(bytes);
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
