// SPDX-License-Identifier: Apache-2.0
//! What sessions use of the disk that their workspace copies share with the record. No quota is
//! assumed of the file system; a thread looks instead.
//!
//! A session that holds more than its `limits.disk` is ended. Where the file system itself runs
//! low, copies of ended sessions go first; if that is not enough the session that holds most is
//! ended, whatever its limit, so that one session can't stop the record for all. Files that were
//! removed and are still open count.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use torno_policy::names::SessionId;

/// How often the file system's free space is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long the removal of copies is waited for before a session is named for the space it holds,
/// and before another one is.
const REMOVAL_WAIT: Duration = Duration::from_secs(4);
/// LIMIT: how often each session's files are counted while there is space.
const COUNT_EVERY: Duration = Duration::from_secs(3);
/// Below this the file system runs low, or below a twentieth of it where that is less.
const FREE_MIN: u64 = 1 << 30;
/// LIMIT: a session that holds less is not what fills the disk.
const SMALL: u64 = 64 << 20;
/// What a name and its inode take.
const ENTRY: u64 = 512;
/// LIMIT: directories inside each other; each holds a descriptor. A session with a deeper tree
/// counts as over its limit: what lies below can't be counted.
const DEPTH_MAX: usize = 200;

/// A session that must end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Over {
    pub(super) session: SessionId,
    /// The file system runs low: its copy can't stay.
    pub(super) low: bool,
}

/// What the thread says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Spent {
    /// The file system runs low: what need not be kept should go.
    Space,
    /// A session must end.
    Session(Over),
}

/// One watched session.
#[derive(Debug, Clone)]
struct Watched {
    limit: u64,
    /// Its processes' control group, to find removed files that are still open.
    processes: Vec<PathBuf>,
}

/// The sessions that are watched.
#[derive(Clone, Default)]
pub(super) struct DiskWatch(Arc<Mutex<BTreeMap<SessionId, Watched>>>);

impl DiskWatch {
    /// Starts the thread. It ends when nobody hears it any more.
    pub(super) fn start(directory: PathBuf) -> io::Result<(Self, mpsc::UnboundedReceiver<Spent>)> {
        let watch = Self::default();
        let (tell, over) = mpsc::unbounded_channel();
        let looking = watch.clone();
        std::thread::Builder::new()
            .name("disk".to_owned())
            .spawn(move || looking.look(&directory, &tell))?;
        Ok((watch, over))
    }

    pub(super) fn add(&self, session: SessionId, limit: u64, processes: Vec<PathBuf>) {
        self.sessions()
            .insert(session, Watched { limit, processes });
    }

    pub(super) fn remove(&self, session: &SessionId) {
        self.sessions().remove(session);
    }

    /// The map is consistent after every statement, so a poisoned lock is still good.
    fn sessions(&self) -> MutexGuard<'_, BTreeMap<SessionId, Watched>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, directory: &Path, tell: &mpsc::UnboundedSender<Spent>) {
        let mut counted = Instant::now();
        let mut low = Low::default();
        while !tell.is_closed() {
            std::thread::sleep(LOOK_EVERY);
            let step = low.step(runs_low(directory), Instant::now());
            if step == Step::MakeRoom {
                // The receiver ends with the launcher.
                let _ = tell.send(Spent::Space);
            }
            if step != Step::NameOne && counted.elapsed() < COUNT_EVERY {
                continue;
            }
            let sessions = self.sessions().clone();
            let used = sessions.iter().map(|(id, watched)| {
                let used = usage(&directory.join(id.as_str()), &watched.processes);
                (id.clone(), used, watched.limit)
            });
            for over in judge(used.collect(), step == Step::NameOne) {
                self.remove(&over.session);
                let _ = tell.send(Spent::Session(over));
            }
            counted = Instant::now();
        }
    }
}

/// What is done about a file system that runs low, one thing at a time: what was told to go needs
/// a while to be gone, and meanwhile nobody else is to blame.
#[derive(Debug, Default)]
struct Low {
    since: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Nothing,
    MakeRoom,
    NameOne,
}

impl Low {
    fn step(&mut self, low: bool, now: Instant) -> Step {
        match self.since {
            _ if !low => {
                self.since = None;
                Step::Nothing
            }
            None => {
                self.since = Some(now);
                Step::MakeRoom
            }
            Some(since) if now.duration_since(since) < REMOVAL_WAIT => Step::Nothing,
            Some(_) => {
                self.since = Some(now);
                Step::NameOne
            }
        }
    }
}

/// Who must end: whoever is over its limit; on a disk that runs low, the one that holds most.
fn judge(used: Vec<(SessionId, u64, u64)>, low: bool) -> Vec<Over> {
    let most = used
        .iter()
        .filter(|(_, used, _)| low && *used >= SMALL)
        .max_by_key(|(_, used, _)| *used)
        .map(|(session, ..)| session.clone());
    let over = used.into_iter().filter_map(|(session, used, limit)| {
        let is_most = most.as_ref() == Some(&session);
        (is_most || used > limit).then_some(Over {
            session,
            low: is_most,
        })
    });
    over.collect()
}

/// Whether so many bytes fit, and the disk does not run low then.
pub(super) fn has_room(directory: &Path, bytes: u64) -> bool {
    // What can't be asked shows when it is written.
    rustix::fs::statvfs(directory).is_ok_and(|space| {
        let of = |blocks: u64| blocks.saturating_mul(space.f_frsize);
        of(space.f_bavail) >= bytes.saturating_add(FREE_MIN.min(of(space.f_blocks) / 20))
    })
}

pub(super) fn runs_low(directory: &Path) -> bool {
    // What can't be asked is not low; the record itself fails closed.
    let Ok(space) = rustix::fs::statvfs(directory) else {
        return false;
    };
    let bytes = |blocks: u64| blocks.saturating_mul(space.f_frsize);
    // Some file systems make inodes as they need them, and count none.
    let few_inodes = space.f_files > 0 && space.f_favail < space.f_files / 20;
    few_inodes || bytes(space.f_bavail) < FREE_MIN.min(bytes(space.f_blocks) / 20)
}

/// Bytes on disk of a live tree that a workload may change meanwhile, and of removed files that
/// the processes of these groups hold open.
fn usage(directory: &Path, groups: &[PathBuf]) -> u64 {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(top) = rustix::fs::open(directory, flags, Mode::empty()) else {
        return 0;
    };
    let device = rustix::fs::fstat(&top).map_or(0, |stat| stat.st_dev);
    tree(top).saturating_add(removed(groups, device))
}

/// Entries that vanish while they are looked at count nothing.
fn tree(top: OwnedFd) -> u64 {
    let mut total = 0_u64;
    let Ok(listing) = Dir::new(top) else { return 0 };
    let mut stack = vec![listing];
    loop {
        let depth = stack.len();
        let Some(listing) = stack.last_mut() else {
            return total;
        };
        let Some(Ok(entry)) = listing.next() else {
            stack.pop();
            continue;
        };
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let Ok(at) = listing.fd() else { continue };
        let Ok(stat) = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        total = total.saturating_add(bytes(&stat));
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            continue;
        }
        if depth == DEPTH_MAX {
            return u64::MAX;
        }
        if let Ok(inner) = open_directory(at, name) {
            stack.push(inner);
        }
    }
}

fn open_directory(at: BorrowedFd<'_>, name: &std::ffi::CStr) -> io::Result<Dir> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(at, name, flags, Mode::empty())?;
    Ok(Dir::new(directory)?)
}

/// A file with several names counts once in all, where all of them are here. An empty one is not
/// free: millions of them fill a file system too.
fn bytes(stat: &Stat) -> u64 {
    let links = stat.st_nlink.max(1);
    let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
    blocks.saturating_mul(512) / links + ENTRY
}

/// Removed files of this device that a process holds open, each once.
fn removed(groups: &[PathBuf], device: u64) -> u64 {
    let mut seen = BTreeSet::new();
    let mut total = 0_u64;
    for group in groups {
        let Ok(members) = std::fs::read_to_string(group.join("cgroup.procs")) else {
            continue;
        };
        for process in members.lines() {
            let Ok(descriptors) = std::fs::read_dir(format!("/proc/{process}/fd")) else {
                continue;
            };
            for descriptor in descriptors.flatten() {
                let Ok(stat) = rustix::fs::stat(descriptor.path()) else {
                    continue;
                };
                let is_removed = stat.st_dev == device && stat.st_nlink == 0;
                if is_removed && seen.insert(stat.st_ino) {
                    total = total.saturating_add(bytes(&stat));
                }
            }
        }
    }
    total
}

#[cfg(test)]
mod tests;
