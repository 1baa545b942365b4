// SPDX-License-Identifier: Apache-2.0
//! Finds the network namespaces of a daemon's sandboxes while they are being made, and reads every
//! frame in them. The launcher holds a namespace by descriptor until the runtime runs in it.

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, eth, recv, sockopt};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// LIMIT: frames that wait to be read; loopback hands over up to 64 KiB at once.
const BUFFER_BYTES: usize = 64 << 20;
/// LIMIT: the largest frame of loopback.
const FRAME_BYTES_MAX: usize = 128 << 10;
/// How far below the launcher a sandbox's first process can be: a runtime is between.
const CHILDREN_DEPTH: usize = 2;
/// LIMIT: bytes kept of one sandbox; no story sends more on purpose.
const KEPT_BYTES_MAX: usize = 256 << 20;

/// The frames of one sandbox, from the network header on.
#[derive(Debug, Clone, Default)]
pub(super) struct Captured(Arc<Mutex<Vec<Vec<u8>>>>);

impl Captured {
    pub(super) fn frames(&self) -> Vec<Vec<u8>> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn add(&self, frame: &[u8]) {
        let mut frames = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        frames.push(frame.to_vec());
    }
}

/// The namespaces that were seen so far, and the launcher that made them.
#[derive(Debug, Default)]
pub(super) struct Namespaces {
    launcher: Option<PathBuf>,
    known: BTreeSet<u64>,
}

impl Namespaces {
    /// Namespaces that the launcher holds and that were not there before.
    pub(super) fn fresh(&mut self, log: &Path) -> Vec<OwnedFd> {
        let alive = |path: &PathBuf| is_launcher(path, log);
        if !self.launcher.as_ref().is_some_and(alive) {
            self.launcher = std::fs::read_dir("/proc")
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.path())
                .find(alive);
        }
        let Some(launcher) = &self.launcher else {
            return Vec::new();
        };
        // The one that the launcher itself is in is no sandbox's. When it ends another may get its
        // number, as of those that are read none may: they live until the end.
        let own = std::fs::metadata(launcher.join("ns/net")).map(|own| own.ino());
        let held = std::fs::read_dir(launcher.join("fd"));
        let mut links: Vec<_> = held
            .into_iter()
            .flatten()
            .flatten()
            .map(|l| l.path())
            .collect();
        // Whoever comes too late for the descriptor finds the processes in it.
        below(launcher, CHILDREN_DEPTH, &mut links);
        let mut fresh = Vec::new();
        for link in links {
            let target = std::fs::read_link(&link).unwrap_or_default();
            if !target.to_string_lossy().starts_with("net:[") {
                continue;
            }
            // Between the two looks the descriptor may have gone, or become another.
            let Ok(file) = File::open(&link) else {
                continue;
            };
            let Ok(number) = file.metadata().map(|found| found.ino()) else {
                continue;
            };
            if own.as_ref().ok() != Some(&number) && self.known.insert(number) {
                fresh.push(OwnedFd::from(file));
            }
        }
        fresh
    }
}

/// The network namespaces of a process's children, and of theirs.
fn below(process: &Path, depth: usize, links: &mut Vec<PathBuf>) {
    let tasks = std::fs::read_dir(process.join("task"));
    for task in tasks.into_iter().flatten().flatten() {
        let children = std::fs::read_to_string(task.path().join("children"));
        for child in children.unwrap_or_default().split_whitespace() {
            let child = Path::new("/proc").join(child);
            links.push(child.join("ns/net"));
            if depth > 1 {
                below(&child, depth - 1, links);
            }
        }
    }
}

/// The launcher of the daemon that writes this log.
fn is_launcher(process: &Path, log: &Path) -> bool {
    let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
    line.starts_with(b"tornod-launcher\0")
        && std::fs::read_link(process.join("fd/2")).is_ok_and(|to| to == log)
}

/// Reads a namespace's frames in a thread of its own until told that it is over.
pub(super) fn read(
    namespace: OwnedFd,
    captured: Captured,
    over: impl Fn() -> bool + Send + 'static,
) -> Result<()> {
    let (begun, has_begun) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let socket = socket_in(&namespace);
        // The namespace must not outlive its sandbox because of us; the socket holds it as well,
        // until the end.
        drop(namespace);
        match socket {
            Ok(socket) => {
                let _waits = begun.send(Ok(()));
                frames(&socket, &captured, over);
            }
            Err(error) => {
                let _waits = begun.send(Err(error));
            }
        }
    });
    has_begun.recv().context("the reader died")?
}

fn socket_in(namespace: &OwnedFd) -> Result<OwnedFd> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
        .context("cannot enter the sandbox's network")?;
    let flags = SocketFlags::CLOEXEC;
    let protocol = Some(eth::ALL);
    let socket =
        rustix::net::socket_with(AddressFamily::PACKET, SocketType::DGRAM, flags, protocol)
            .context("no socket for frames")?;
    sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES).context("no buffer")?;
    Ok(socket)
}

fn frames(socket: &OwnedFd, captured: &Captured, over: impl Fn() -> bool) {
    let mut frame = vec![0_u8; FRAME_BYTES_MAX];
    let mut kept = 0;
    let tick = Timespec {
        tv_sec: 0,
        tv_nsec: 50_000_000,
    };
    while kept < KEPT_BYTES_MAX {
        let mut wanted = [PollFd::new(socket, PollFlags::IN)];
        match poll(&mut wanted, Some(&tick)) {
            Ok(1..) => match recv(socket, frame.as_mut_slice(), RecvFlags::empty()) {
                Ok((length, _)) => {
                    kept += length;
                    captured.add(frame.get(..length).unwrap_or_default());
                }
                // Loopback goes down with its namespace.
                Err(rustix::io::Errno::NETDOWN | rustix::io::Errno::INTR) => {}
                Err(_) => return,
            },
            Ok(0) if over() => return,
            Ok(_) | Err(_) => {}
        }
    }
}
