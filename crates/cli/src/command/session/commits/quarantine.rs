// SPDX-License-Identifier: Apache-2.0
//! The quarantine: a private directory with repositories that we made, whose configuration is ours.
//! What a session wrote comes into the first as objects and nothing else, and by ids and names that
//! were parsed again here.

use super::git::{Git, Streams};
use crate::printable;
use crate::stop::{Outcome, Stop};
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::io::{BufReader, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use torno_control_api::commits::{BYTES_MAX, Budget, Frame, ObjectId, RefName, read_frame};
use torno_policy::names::SessionId;

/// The directory, locked as long as it is used, and gone afterwards.
#[derive(Debug)]
pub(super) struct Quarantine {
    path: PathBuf,
    _lock: File,
}

/// What a session's repository says that it has. Objects wait in [`Quarantine::raw`].
#[derive(Debug, Default)]
pub(super) struct Came {
    /// Branches and tags.
    pub(super) refs: BTreeMap<RefName, ObjectId>,
    /// What does not come, and why: hostile text.
    pub(super) left: Vec<(String, String)>,
}

impl Quarantine {
    /// Makes it, and removes those that broken-off runs left.
    pub(super) fn make(all: &Path, session: &SessionId) -> Outcome<Self> {
        let failed = |error: std::io::Error| {
            Stop::new(format!("no quarantine can be made in {}", all.display())).because(&error)
        };
        let mut private = DirBuilder::new();
        private
            .mode(0o700)
            .recursive(true)
            .create(all)
            .map_err(failed)?;
        for old in std::fs::read_dir(all).map_err(failed)?.flatten() {
            let lock = File::open(old.path()).map_err(failed)?;
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
                std::fs::remove_dir_all(old.path()).map_err(failed)?;
            }
        }
        let path = all.join(session.as_str());
        let made = DirBuilder::new().mode(0o700).create(&path);
        if made
            .as_ref()
            .is_err_and(|e| e.kind() == std::io::ErrorKind::AlreadyExists)
        {
            return Err(
                Stop::new("the commits of this session are being brought already")
                    .next("wait for the other `torno session commits`"),
            );
        }
        made.map_err(failed)?;
        let lock = File::open(&path).map_err(failed)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| failed(error.into()))?;
        Ok(Self { path, _lock: lock })
    }

    /// Where it lies.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A repository of ours with what came, as it came.
    pub(super) fn raw(&self) -> PathBuf {
        self.path.join("raw.git")
    }

    /// A repository of ours with what git accepted of that.
    pub(super) fn checked(&self) -> PathBuf {
        self.path.join("checked.git")
    }

    /// A file for a program's input.
    pub(super) fn input(&self, bytes: &[u8]) -> Outcome<File> {
        let path = self.path.join("input");
        let written = std::fs::write(&path, bytes).and_then(|()| File::open(&path));
        written.map_err(|error| Stop::new("the quarantine can't be written").because(&error))
    }

    /// Makes an empty repository (gitrepository-layout(5)), without a template or git's help.
    pub(super) fn repository(&self, path: &Path, borrows: Option<&Path>) -> Outcome {
        let make = || -> std::io::Result<()> {
            let make = |below: &str| DirBuilder::new().recursive(true).create(path.join(below));
            make("objects/info")?;
            make("objects/pack")?;
            make("refs")?;
            std::fs::write(path.join("HEAD"), "ref: refs/heads/none\n")?;
            std::fs::write(path.join("config"), CONFIG)?;
            if let Some(objects) = borrows {
                use std::os::unix::ffi::OsStrExt;
                let line = [objects.as_os_str().as_bytes(), b"\n"].concat();
                std::fs::write(path.join("objects/info/alternates"), line)?;
            }
            Ok(())
        };
        make().map_err(|error| Stop::new("the quarantine can't be written").because(&error))
    }

    /// Takes in what the porter sends.
    pub(super) fn receive(&self, stream: impl Read, git: &Git) -> Outcome<Came> {
        self.repository(&self.raw(), None)?;
        let mut from = BufReader::new(stream);
        let (mut came, mut budget) = (Came::default(), Budget::default());
        let broken = || {
            Stop::new("the session's commits break off")
                .next("try again; where the session runs, when it has written to the end")
        };
        loop {
            let frame = read_frame(&mut from).map_err(|error| broken().because(&error))?;
            budget
                .take(&frame)
                .map_err(|error| broken().because(&error))?;
            match frame {
                Frame::Ref { name, id } => {
                    if came.refs.insert(name, id).is_some() {
                        return Err(broken());
                    }
                }
                Frame::Left { what, why } => came.left.push((what, why)),
                Frame::Object { id, bytes } => {
                    let (first, rest) = id.place();
                    let place = self.raw().join("objects").join(first);
                    let made = DirBuilder::new().recursive(true).create(&place);
                    made.map_err(|error| broken().because(&error))?;
                    take(&mut from, bytes, &place.join(rest)).map_err(|e| broken().because(&e))?;
                }
                Frame::Pack { bytes } => {
                    let path = self.path.join("incoming");
                    take(&mut from, bytes, &path).map_err(|error| broken().because(&error))?;
                    self.index(git, &path, &mut came)?;
                }
                Frame::Failed { why } => {
                    let why = printable::line(&why);
                    return Err(Stop::new(format!("no commits come back: {why}"))
                        .next("`torno session diff` and `apply` bring files"));
                }
                Frame::End => return Ok(came),
            }
        }
    }

    /// Has git read a pack from its beginning to its checksum and name what is in it. An index of
    /// the session's is never looked at.
    fn index(&self, git: &Git, path: &Path, came: &mut Came) -> Outcome {
        let failed =
            |error: std::io::Error| Stop::new("the quarantine can't be written").because(&error);
        let most = format!("--max-input-size={BYTES_MAX}");
        let words = ["index-pack", "--stdin", &most].map(OsStr::new);
        let streams = Streams {
            input: Some(File::open(path).map_err(failed)?),
            output: None,
        };
        let said = git.run(&self.raw(), &words, streams)?;
        if !said.is_good {
            let why = format!("{}; what lacks its objects stays", said.complaint);
            came.left.push(("a pack".to_owned(), why));
        }
        std::fs::remove_file(path).map_err(failed)
    }
}

/// So many bytes, into a new file.
fn take(from: &mut impl Read, bytes: u64, path: &Path) -> std::io::Result<()> {
    let mut file = File::create_new(path)?;
    let taken = std::io::copy(&mut from.take(bytes), &mut file)?;
    if taken == bytes {
        Ok(())
    } else {
        Err(std::io::ErrorKind::UnexpectedEof.into())
    }
}

/// A repository that serves fetches from files and does nothing by itself. Its own file says so, as
/// git clears what a command line said when it serves (git(1), `GIT_CONFIG_PARAMETERS`).
const CONFIG: &str = "[core]\n\
    \trepositoryFormatVersion = 0\n\
    \tbare = true\n\
    \thooksPath = /dev/null\n\
    \tlogAllRefUpdates = false\n\
    \tpackedGitWindowSize = 32m\n\
    \tpackedGitLimit = 512m\n\
    \tdeltaBaseCacheLimit = 64m\n\
    \tbigFileThreshold = 16m\n\
    [gc]\n\tauto = 0\n\
    [maintenance]\n\tauto = false\n\
    [pack]\n\tthreads = 2\n\twindow = 0\n\
    [transfer]\n\tfsckObjects = true\n\
    [fetch]\n\tunpackLimit = 1\n";

impl Drop for Quarantine {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            let place = self.path.display();
            crate::context::note(&format!("torno: {place} stays for the next run: {error}\n"));
        }
    }
}
