// SPDX-License-Identifier: Apache-2.0
//! The sessions' directories: `<session>/workspace`, and `<session>/install` while there is an
//! install phase. What lies in them was written by workloads: it is walked by handle, and no link
//! is followed.

mod leftovers;
mod returned;

use super::over::Over;
use super::removal::{Removals, remove_tree};
use super::sandboxes::Failed;
use anyhow::{Context, ensure};
use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, RenameFlags, Uid};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;
use torno_policy::names::SessionId;
use torno_policy::standing::Phase;

/// LIMIT: workspace copies of ended sessions that are kept for `diff` and `apply`; the oldest goes.
const KEPT_MAX: usize = 20;
/// LIMIT: directories inside each other that are merged; real trees have a few dozen.
const DEPTH_MAX: usize = 200;

/// LIMIT: a killed porter is gone within milliseconds; after this, somebody else writes there.
const DYING_WAIT: Duration = Duration::from_secs(2);
/// LIMIT: a porter whose session ended while it copied goes on to the end of its job.
const COPYING_WAIT: Duration = Duration::from_secs(300);
/// LIMIT: how long a removal is waited for before it goes on beside us.
const REMOVAL_WAIT: Duration = Duration::from_millis(100);

/// The sessions that have a directory.
pub(super) fn sessions(directory: &Path) -> anyhow::Result<BTreeSet<String>> {
    let mut sessions = BTreeSet::new();
    for entry in std::fs::read_dir(directory).context("the sandboxes' directory")? {
        sessions.extend(entry?.file_name().to_str().map(str::to_owned));
    }
    Ok(sessions)
}

/// The directory of all of them.
pub(super) struct Places {
    directory: PathBuf,
    /// The launcher is the host's root and serves callers of any uid. Otherwise its user
    /// namespace's root is the daemon's own user, who is the only caller.
    root: bool,
    /// Sessions that are over: nothing of theirs is made again.
    over: Over,
    /// Sessions that ended and whose copy was kept, in the order of their ends.
    kept: Vec<SessionId>,
    /// What is on its way out.
    removals: Removals,
}

impl Places {
    /// Takes the directory and removes what an earlier life left: its sandboxes are dead, its
    /// copies stale.
    pub(super) fn new(directory: PathBuf, root: bool) -> anyhow::Result<Self> {
        for entry in std::fs::read_dir(&directory).context("the sandboxes' directory")? {
            remove_left(&entry?.path(), DYING_WAIT).context("a sandbox of an earlier life")?;
        }
        Ok(Self {
            directory,
            root,
            over: Over::default(),
            kept: Vec::new(),
            removals: Removals::default(),
        })
    }

    /// Where all of them lie.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    fn path(&self, session: &SessionId, phase: Phase) -> PathBuf {
        self.directory.join(session.as_str()).join(name_of(phase))
    }

    /// A caller's uid as the launcher sees it.
    fn seen(&self, owner: u32) -> u32 {
        if self.root { owner } else { 0 }
    }

    /// Makes a phase's workspace and opens it, owned by the caller.
    pub(super) fn prepare(
        &self,
        session: &SessionId,
        phase: Phase,
        owner: u32,
    ) -> Result<OwnedFd, Failed> {
        self.check_fence(session)?;
        let make = || -> anyhow::Result<OwnedFd> {
            let all = open_directory(&self.directory)?;
            let own = make_directory(all.as_fd(), session.as_str())?;
            let opened = make_directory(own.as_fd(), name_of(phase))?;
            rustix::fs::fchmod(&opened, Mode::from_raw_mode(0o700))?;
            rustix::fs::fchown(&opened, Some(Uid::from_raw(self.seen(owner))), None)?;
            Ok(opened)
        };
        make().map_err(|e| Failed::internal(&format!("{e:#}")))
    }

    /// The workspace of a session, running or ended.
    pub(super) fn open(&self, session: &SessionId, phase: Phase) -> Result<OwnedFd, Failed> {
        let open = || -> anyhow::Result<OwnedFd> {
            let own = open_directory(&self.directory.join(session.as_str()))?;
            Ok(open_at(own.as_fd(), name_of(phase))?)
        };
        open().map_err(|_| Failed {
            code: "workspace_gone".to_owned(),
            message: format!("the workspace copy of `{session}` is gone"),
            hint: format!(
                "copies of the last {KEPT_MAX} sessions are kept until tornod ends; a kill removes \
                 its session's at once: take the diff first"
            ),
        })
    }

    /// Without root the owner's porter can't read what belongs to the sandbox's ids, so an ended
    /// session's files become the owner's. Those of a running one stay the sandbox's: false then,
    /// and whoever works on them does it within our user namespace.
    pub(super) fn give_back(&self, session: &SessionId, runs: bool) -> Result<bool, Failed> {
        if self.root {
            return Ok(true);
        }
        if runs {
            return Ok(false);
        }
        let workspace = self.open(session, Phase::Locked)?;
        give_to(workspace.as_fd(), 0)
            .and_then(|()| {
                Ok(rustix::fs::fchown(
                    &workspace,
                    Some(Uid::ROOT),
                    Some(Gid::ROOT),
                )?)
            })
            .map_err(|e| Failed::internal(&format!("the workspace's owner: {e:#}")))?;
        Ok(true)
    }

    /// Moves what the install phase made, and the workspace has not, into the workspace; the rest
    /// goes. Files and directories cross, links as links; sockets, FIFOs and devices don't.
    pub(super) fn merge_install(&self, session: &SessionId, owner: u32) -> Result<(), Failed> {
        let merge = || -> anyhow::Result<()> {
            let from = open_directory(&self.path(session, Phase::Install))?;
            let to = open_directory(&self.path(session, Phase::Locked))?;
            merge_below(from.as_fd(), to.as_fd(), 0)?;
            give_to(to.as_fd(), self.seen(owner))?;
            Ok(remove_tree(&self.path(session, Phase::Install))?)
        };
        merge().map_err(|e| Failed::internal(&format!("the install phase's files: {e:#}")))
    }

    /// Moves what was copied for a session into the empty directory that a sandbox was made over,
    /// and puts that directory in the place of the session's own. False when it can't be done and
    /// all is as it was.
    pub(super) fn adopt(
        &self,
        session: &SessionId,
        phase: Phase,
        made: &Path,
    ) -> Result<bool, Failed> {
        let own = self.path(session, phase);
        let adopt = || -> anyhow::Result<bool> {
            let (from, to) = (open_directory(&own)?, open_directory(made)?);
            let moved = merge_below(from.as_fd(), to.as_fd(), 0)
                // What did not cross is still there, and then this one doesn't either.
                .and_then(|()| Ok(rustix::fs::rename(made, &own)?));
            let Err(error) = moved else {
                return Ok(true);
            };
            tracing::warn!("a workspace could not be moved: {error:#}");
            merge_below(to.as_fd(), from.as_fd(), 0)?;
            Ok(false)
        };
        adopt().map_err(|e| Failed::internal(&format!("the workspace: {e:#}")))
    }

    /// Refuses what comes for a session after its end: an order that was overtaken by a kill.
    pub(super) fn check_fence(&self, session: &SessionId) -> Result<(), Failed> {
        if self.over.contains(session) {
            return Err(Failed::internal("the session is over"));
        }
        Ok(())
    }

    /// Removes a session's directory and fences its name. However many files it holds, nobody waits
    /// for them: the directory is moved aside and emptied beside us.
    pub(super) fn remove(&mut self, session: &SessionId) -> Result<(), Failed> {
        self.over.insert(session);
        let path = self.directory.join(session.as_str());
        self.remove_aside(&path, &format!(".removed-{session}"))
    }

    /// Moves a tree aside at once, and empties it while others are served.
    fn remove_aside(&self, path: &Path, name: &str) -> Result<(), Failed> {
        let aside = self.directory.join(name);
        match std::fs::rename(path, &aside) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            moved => moved.map_err(|e| Failed::internal(&format!("`{}`: {e}", path.display())))?,
        }
        let is_done = self
            .removals
            .begin(aside, |aside| remove_left(aside, COPYING_WAIT));
        // Most are small and gone by now; a large one is emptied while others are served.
        let _ = is_done.recv_timeout(REMOVAL_WAIT);
        Ok(())
    }

    /// A session ended, and its copy stays for `diff` and `apply`.
    pub(super) fn keep(&mut self, session: &SessionId) {
        let directory = &self.directory;
        self.kept.retain(|id| directory.join(id.as_str()).exists());
        self.kept.retain(|id| id != session);
        self.kept.push(session.clone());
    }

    /// What is on its way out.
    pub(super) fn removals(&self) -> Removals {
        self.removals.clone()
    }

    /// The directories of sessions whose copy was kept, first those that ended first.
    pub(super) fn kept<T>(&self, live: &BTreeMap<SessionId, T>) -> Vec<PathBuf> {
        let ended = self.kept.iter().filter(|id| !live.contains_key(*id));
        let kept = ended.map(|id| self.directory.join(id.as_str()));
        kept.filter(|path| path.exists()).collect()
    }

    /// Removes the oldest copies beyond [`KEPT_MAX`]. Who is starting has none that was kept.
    pub(super) fn drop_old<T>(&self, live: &BTreeMap<SessionId, T>) -> Result<(), Failed> {
        let kept = self.kept(live);
        let old = kept.iter().take(kept.len().saturating_sub(KEPT_MAX));
        for path in old {
            let removed = self.removals.now(path, &aside(path));
            removed.map_err(|e| Failed::internal(&format!("old workspace copies: {e:#}")))?;
        }
        Ok(())
    }
}

/// Where an old copy goes before it is emptied: who reads it meanwhile finds it whole or gone.
pub(super) fn aside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".removed-{name}-old"))
}

/// The directory of a phase's workspace, in the session's.
fn name_of(phase: Phase) -> &'static str {
    match phase {
        Phase::Install => "install",
        Phase::Locked => "workspace",
    }
}

/// Makes a directory that may be there already, and opens it, not through a link. ATTACK: 149
pub(super) fn make_directory(at: BorrowedFd<'_>, name: &str) -> anyhow::Result<OwnedFd> {
    match rustix::fs::mkdirat(at, name, Mode::from_raw_mode(0o700)) {
        Err(error) if error != rustix::io::Errno::EXIST => {
            return Err(error).context("the session's directory");
        }
        Ok(()) | Err(_) => {}
    }
    open_at(at, name).with_context(|| format!("`{name}` is no directory of ours"))
}

/// Removes a tree into which a porter may still be writing, for so long. What is gone when it is
/// looked at is gone.
fn remove_left(path: &Path, wait: Duration) -> std::io::Result<()> {
    use std::io::ErrorKind::{DirectoryNotEmpty, NotFound};
    let end = std::time::Instant::now() + wait;
    loop {
        match remove_tree(path) {
            Err(error)
                if matches!(error.kind(), DirectoryNotEmpty | NotFound)
                    && std::time::Instant::now() < end =>
            {
                std::thread::sleep(Duration::from_millis(20));
            }
            removed => return removed,
        }
    }
}

/// Opens a directory, not through a link.
pub(super) fn open_directory(path: &Path) -> anyhow::Result<OwnedFd> {
    open_at(rustix::fs::CWD, path).with_context(|| format!("`{}`", path.display()))
}

pub(super) fn open_at<P: rustix::path::Arg>(
    at: BorrowedFd<'_>,
    path: P,
) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, path, flags, Mode::empty())
}

fn merge_below(from: BorrowedFd<'_>, to: BorrowedFd<'_>, depth: usize) -> anyhow::Result<()> {
    ensure!(depth <= DEPTH_MAX, "more than {DEPTH_MAX} directories deep");
    for entry in Dir::read_from(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let stat = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let crosses = matches!(
            kind,
            FileType::Directory | FileType::RegularFile | FileType::Symlink
        );
        if !crosses {
            continue;
        }
        match rustix::fs::renameat_with(from, name, to, name, RenameFlags::NOREPLACE) {
            // Both have it: the workspace's file stays, directories are merged.
            Err(rustix::io::Errno::EXIST) if kind == FileType::Directory => {
                if let (Ok(inner), Ok(target)) = (open_at(from, name), open_at(to, name)) {
                    merge_below(inner.as_fd(), target.as_fd(), depth + 1)?;
                }
            }
            Err(rustix::io::Errno::EXIST) => {}
            moved => moved?,
        }
    }
    Ok(())
}

/// Gives a tree to one user, links themselves included, and takes what special files it holds. One
/// descriptor for each level is open.
fn give_to(directory: BorrowedFd<'_>, owner: u32) -> anyhow::Result<()> {
    give_below(directory, owner, 0)
}

fn give_below(directory: BorrowedFd<'_>, owner: u32, depth: usize) -> anyhow::Result<()> {
    ensure!(depth <= DEPTH_MAX, "more than {DEPTH_MAX} directories deep");
    let (uid, gid) = (Some(Uid::from_raw(owner)), Some(Gid::from_raw(owner)));
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let below = open_at(directory, name)?;
                give_below(below.as_fd(), owner, depth + 1)?;
            }
            FileType::RegularFile | FileType::Symlink => {}
            _ => {
                rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
                continue;
            }
        }
        rustix::fs::chownat(directory, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn copies_go_in_the_order_of_their_sessions_ends_and_a_start_loses_none() {
        let dir = tempfile::tempdir().unwrap();
        let mut places = Places::new(dir.path().to_owned(), true).unwrap();
        let id = |number: usize| SessionId::parse(&format!("s{number}")).unwrap();
        let ended = KEPT_MAX + 1;
        // The first to begin is the last to end; one more is still starting, and is the oldest.
        for number in (0..=ended).rev() {
            places.prepare(&id(number), Phase::Locked, own()).unwrap();
        }
        (0..ended).for_each(|number| places.keep(&id(number)));
        places.drop_old(&BTreeMap::<SessionId, ()>::new()).unwrap();
        let gone = (0..=ended).filter(|number| places.open(&id(*number), Phase::Locked).is_err());
        assert_eq!(gone.collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn new_files_cross_the_workspaces_own_stay_and_links_lead_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::new(dir.path().to_owned(), true).unwrap();
        let session = SessionId::parse("s1").unwrap();
        for phase in [Phase::Install, Phase::Locked] {
            places.prepare(&session, phase, own()).unwrap();
        }
        let at = |phase, path: &str| places.path(&session, phase).join(path);
        let outside = dir.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::create_dir_all(at(Phase::Install, "app/node_modules")).unwrap();
        std::fs::write(at(Phase::Install, "app/node_modules/x.js"), "x").unwrap();
        std::fs::write(at(Phase::Install, "app/main.js"), "from install").unwrap();
        std::os::unix::fs::symlink(&outside, at(Phase::Install, "src")).unwrap();
        std::fs::create_dir_all(at(Phase::Locked, "app")).unwrap();
        std::fs::create_dir_all(at(Phase::Locked, "src")).unwrap();
        std::fs::write(at(Phase::Locked, "app/main.js"), "own").unwrap();
        places.merge_install(&session, own()).unwrap();
        let read = |path| std::fs::read_to_string(at(Phase::Locked, path)).unwrap();
        assert_eq!(read("app/node_modules/x.js"), "x");
        assert_eq!(read("app/main.js"), "own");
        assert!(
            std::fs::symlink_metadata(at(Phase::Locked, "src"))
                .unwrap()
                .is_dir()
        );
        assert!(!at(Phase::Install, "").exists());
        assert!(std::fs::read_dir(outside).unwrap().next().is_none());
    }

    // ATTACK: 149
    #[test]
    fn a_link_in_the_place_of_a_sessions_directory_is_refused_and_its_target_stays() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let places = Places::new(dir.path().to_owned(), true).unwrap();
        let session = |id| SessionId::parse(id).unwrap();
        let link = |name: &str| std::os::unix::fs::symlink(outside.path(), dir.path().join(name));
        link("s1").unwrap();
        std::fs::create_dir(dir.path().join("s2")).unwrap();
        link("s2/workspace").unwrap();
        std::fs::write(dir.path().join("s3"), "").unwrap();
        for id in ["s1", "s2", "s3"] {
            let prepared = places.prepare(&session(id), Phase::Locked, own());
            assert!(prepared.is_err(), "{id}");
            assert!(places.open(&session(id), Phase::Locked).is_err(), "{id}");
        }
        assert!(std::fs::read_dir(outside.path()).unwrap().next().is_none());
        places
            .prepare(&session("s4"), Phase::Locked, own())
            .unwrap();
        places.open(&session("s4"), Phase::Locked).unwrap();
    }

    #[test]
    fn a_copy_moves_into_the_directory_of_a_sandbox_or_stays_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::new(dir.path().to_owned(), true).unwrap();
        let session = SessionId::parse("s1").unwrap();
        places.prepare(&session, Phase::Locked, own()).unwrap();
        let own = places.path(&session, Phase::Locked);
        std::fs::create_dir(own.join("src")).unwrap();
        std::fs::write(own.join("src/main.rs"), "code").unwrap();
        std::os::unix::fs::symlink("/etc", own.join("link")).unwrap();
        let made = dir.path().join("made");
        // What can't cross stays, and then all of it does.
        let socket = std::os::unix::net::UnixListener::bind(own.join("socket")).unwrap();
        std::fs::create_dir(&made).unwrap();
        assert!(!places.adopt(&session, Phase::Locked, &made).unwrap());
        assert_eq!(std::fs::read_dir(&own).unwrap().count(), 3);
        assert_eq!(std::fs::read_dir(&made).unwrap().count(), 0);
        drop(socket);
        std::fs::remove_file(own.join("socket")).unwrap();
        let inode = std::os::unix::fs::MetadataExt::ino(&made.metadata().unwrap());
        assert!(places.adopt(&session, Phase::Locked, &made).unwrap());
        assert!(!made.exists());
        let now = own.metadata().unwrap();
        assert_eq!(std::os::unix::fs::MetadataExt::ino(&now), inode);
        let read = std::fs::read_to_string(own.join("src/main.rs"));
        assert_eq!(read.unwrap(), "code");
        let link = std::fs::read_link(own.join("link")).unwrap();
        assert_eq!(link, Path::new("/etc"));
        // Without a directory to move to, nothing moves either.
        assert!(places.adopt(&session, Phase::Locked, &made).is_err());
        assert!(own.join("src/main.rs").exists());
    }

    #[test]
    fn a_tree_that_is_still_written_to_is_removed_once_its_writer_ends() {
        let dir = tempfile::tempdir().unwrap();
        let mut places = Places::new(dir.path().to_owned(), true).unwrap();
        let session = SessionId::parse("s1").unwrap();
        let copy = places.prepare(&session, Phase::Locked, own()).unwrap();
        let writer = std::thread::spawn(move || {
            let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
            for number in 0..20_000 {
                let name = format!("file-{number}");
                // The directory itself may be gone by now.
                let _ = rustix::fs::openat(&copy, name.as_str(), flags, Mode::from_raw_mode(0o600));
            }
        });
        places.remove(&session).unwrap();
        writer.join().unwrap();
        let end = std::time::Instant::now() + Duration::from_secs(60);
        while std::fs::read_dir(dir.path()).unwrap().next().is_some() {
            assert!(std::time::Instant::now() < end, "it stays");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn what_an_earlier_life_left_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("old/workspace/a")).unwrap();
        Places::new(dir.path().to_owned(), true).unwrap();
        assert!(!dir.path().join("old").exists());
    }
}
