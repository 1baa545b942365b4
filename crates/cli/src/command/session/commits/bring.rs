// SPDX-License-Identifier: Apache-2.0
//! From the quarantine to the person: compare, have git check, fetch.
//!
//! ```text
//! porter ─▶ raw.git ── fetch, fsck ─▶ checked.git ── fetch, fsck ─▶ refs/torno/SESSION/…
//!           objects    each ref that                     └ bundle ─▶ FILE
//!           as bytes   differs, or none
//! ```
//!
//! A fetch gives every object its name anew, from its content, and ends well only if all that the
//! ref needs is there (git-fetch(1), `transfer.fsckObjects`).

use super::git::{Git, Said, Streams};
use super::quarantine::{Came, Quarantine};
use super::wall::{Reach, behind};
use crate::stop::{Outcome, Stop};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use torno_control_api::commits::{ObjectId, RefName};
use torno_policy::names::SessionId;

/// LIMIT: refs that differ, in one go; where one is refused each is tried by itself.
const DIFFERING_MAX: usize = 500;

/// What one run works with.
pub(super) struct Work<'a> {
    pub(super) git: &'a Git,
    pub(super) quarantine: &'a Quarantine,
    pub(super) session: &'a SessionId,
    pub(super) target: &'a Path,
    pub(super) bundle: Option<&'a Path>,
}

/// The person's repository.
pub(super) struct Repository {
    common: PathBuf,
    objects: PathBuf,
    refs: BTreeMap<String, ObjectId>,
}

/// What came.
#[derive(Debug, Default, Serialize)]
pub(super) struct Brought {
    /// Refs, by their names here.
    pub(super) refs: Vec<One>,
    /// What stays, and why: hostile text.
    pub(super) left: Vec<(String, String)>,
    /// How many of it are refs that differ.
    #[serde(skip)]
    pub(super) refused: usize,
}

/// A ref.
#[derive(Debug, Clone, Serialize)]
pub(super) struct One {
    /// Its name in the session.
    pub(super) name: RefName,
    /// Its name here.
    pub(super) to: String,
    /// What it is at.
    pub(super) id: ObjectId,
    /// What became of its name here.
    pub(super) verb: Verb,
}

/// What became of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verb {
    /// It was not there.
    New,
    /// It was at another object.
    Moved,
    /// It was there already.
    There,
}

impl Work<'_> {
    /// The repository at the target, which a bundle can do without.
    pub(super) fn repository(&self) -> Outcome<Option<Repository>> {
        if std::fs::symlink_metadata(self.target.join(".git")).is_err() {
            if self.bundle.is_some() {
                return Ok(None);
            }
            return Err(
                Stop::new(format!("{} is no git repository", self.target.display()))
                    .next("say `--into DIR`, or `--bundle FILE` for a bundle"),
            );
        }
        let place = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
        let more = ["--git-path", "objects", "--show-object-format"];
        let said = self.ask(self.target, &[&place[..], &more].concat())?;
        let mut lines = said.output.lines();
        let (common, objects, format) = (lines.next(), lines.next(), lines.next());
        let (Some(common), Some(objects), Some("sha1"), None) =
            (common, objects, format, lines.next())
        else {
            return Err(
                Stop::new("your repository is of a kind that commits can't come into")
                    .next("`--bundle FILE` writes them into a bundle"),
            );
        };
        Ok(Some(Repository {
            common: PathBuf::from(common),
            objects: PathBuf::from(objects),
            refs: self.refs_of(self.target)?,
        }))
    }

    /// Branches and tags of a repository of ours or the person's, and what came earlier.
    fn refs_of(&self, place: &Path) -> Outcome<BTreeMap<String, ObjectId>> {
        let earlier = format!("refs/torno/{}", self.session);
        let format = "--format=%(objectname) %(refname)";
        let words = ["for-each-ref", format, "refs/heads", "refs/tags", &earlier];
        let said = self.ask(place, &words)?;
        let lines = said.output.lines();
        let pair = |line: &str| {
            let (id, name) = line.split_once(' ')?;
            Some((name.to_owned(), ObjectId::parse(id)?))
        };
        Ok(lines.filter_map(pair).collect())
    }

    /// Runs git on what is ours or the person's; a complaint ends the command.
    fn ask(&self, place: &Path, words: &[&str]) -> Outcome<Said> {
        let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
        let said = self.git.run(place, &words, Streams::default())?;
        if said.is_good {
            return Ok(said);
        }
        let complaint = crate::printable::line(&said.complaint);
        Err(Stop::new(format!("git says: {complaint}"))
            .next("run this as the repository's owner, or say `--into DIR`"))
    }

    /// Everything, in order.
    pub(super) fn bring(&self, stream: File, repository: Option<&Repository>) -> Outcome<Brought> {
        // A repository that itself borrows would open places that nobody listed; and a bundle holds
        // what the session had, not what the person has under an id that the session named.
        let is_alone = |one: &&Repository| !one.objects.join("info/alternates").exists();
        let borrows = repository.filter(is_alone);
        let borrows = borrows.filter(|_| self.bundle.is_none());
        let mut read = vec![self.git.directory()];
        read.extend(borrows.map(|one| one.common.clone()));
        let reach = Reach {
            read,
            write: &[self.quarantine.path()],
        };
        let mut brought = behind(&reach, || {
            let came = self.quarantine.receive(stream, self.git)?;
            self.check(came, repository, borrows)
        })?;
        if brought.refs.is_empty() {
            return Ok(brought);
        }
        match (self.bundle, repository) {
            (Some(bundle), _) => self.write_bundle(bundle, &brought)?,
            (None, Some(repository)) => {
                let reach = Reach {
                    read: vec![PathBuf::from("/")],
                    write: &[self.quarantine.path(), &repository.common],
                };
                let wanted = std::mem::take(&mut brought.refs);
                let specs = wanted.iter().map(|one| format!("+{0}:{0}", one.to));
                let specs = wanted.iter().zip(specs).collect::<Vec<_>>();
                let from = self.quarantine.checked();
                behind(&reach, || {
                    self.fetch(&from, self.target, &specs, &mut brought)
                })?;
            }
            (None, None) => {}
        }
        Ok(brought)
    }

    /// Which refs differ, and which of those git accepts.
    fn check(
        &self,
        came: Came,
        repository: Option<&Repository>,
        borrows: Option<&Repository>,
    ) -> Outcome<Brought> {
        let mut brought = Brought {
            left: came.left,
            ..Brought::default()
        };
        let known = |name: &str| repository.and_then(|one| one.refs.get(name));
        let differing = came.refs.into_iter();
        let differing: Vec<One> = differing
            .filter(|(name, id)| known(name.as_str()) != Some(id))
            .map(|(name, id)| {
                let to = name.of_session(self.session);
                let verb = match known(&to) {
                    Some(before) if *before == id => Verb::There,
                    Some(_) => Verb::Moved,
                    None => Verb::New,
                };
                One { name, to, id, verb }
            })
            .collect();
        if differing.len() > DIFFERING_MAX {
            return Err(Stop::new(format!(
                "{} branches and tags differ, more than {DIFFERING_MAX}",
                differing.len()
            ))
            .next("remove those inside that are not wanted"));
        }
        let wanted = apart(&differing, &mut brought);
        if wanted.is_empty() {
            return Ok(brought);
        }
        let lines = wanted.iter();
        let lines: String = lines
            .map(|one| format!("{} {}\n", one.id, one.name))
            .collect();
        let refs = std::fs::write(self.quarantine.raw().join("packed-refs"), lines);
        refs.map_err(|error| Stop::new("the quarantine can't be written").because(&error))?;
        let checked = self.quarantine.checked();
        let objects = borrows.map(|one| one.objects.as_path());
        self.quarantine.repository(&checked, objects)?;
        let specs = wanted.iter().map(|one| format!("+{}:{}", one.name, one.to));
        let specs = wanted.iter().zip(specs).collect::<Vec<_>>();
        self.fetch(&self.quarantine.raw(), &checked, &specs, &mut brought)?;
        Ok(brought)
    }

    /// Fetches all at once, or else each by itself, so that one that git refuses keeps no other.
    fn fetch(
        &self,
        from: &Path,
        into: &Path,
        specs: &[(&One, String)],
        brought: &mut Brought,
    ) -> Outcome {
        let all: String = specs.iter().map(|(_, spec)| format!("{spec}\n")).collect();
        let said = self.fetch_once(from, into, &all)?;
        let mut each = Vec::new();
        for (one, spec) in specs {
            each.push(if said.is_good || specs.len() == 1 {
                (*one, said.is_good, said.complaint.clone())
            } else {
                let said = self.fetch_once(from, into, &format!("{spec}\n"))?;
                (*one, said.is_good, said.complaint)
            });
        }
        let there = self.refs_of(into)?;
        for (one, is_good, complaint) in each {
            if is_good && there.get(&one.to) == Some(&one.id) {
                brought.refs.push(one.clone());
            } else {
                brought.refused += 1;
                let why = if is_good {
                    "git left it out"
                } else {
                    &complaint
                };
                brought
                    .left
                    .push((one.name.as_str().to_owned(), why.to_owned()));
            }
        }
        Ok(())
    }

    fn fetch_once(&self, from: &Path, into: &Path, specs: &str) -> Outcome<Said> {
        let words = [
            "fetch",
            "--quiet",
            "--atomic",
            "--no-tags",
            "--no-prune",
            "--no-recurse-submodules",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
            "--stdin",
        ];
        let mut words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
        words.push(from.as_os_str());
        let streams = Streams {
            input: Some(self.quarantine.input(specs.as_bytes())?),
            output: None,
        };
        self.git.run(into, &words, streams)
    }

    /// A bundle of what was checked, whole: it needs nothing at the other end.
    fn write_bundle(&self, bundle: &Path, brought: &Brought) -> Outcome {
        let failed = |error: std::io::Error| {
            Stop::new(format!("{} can't be written", bundle.display()))
                .because(&error)
                .next("name a file that is not there yet")
        };
        let output = Some(File::create_new(bundle).map_err(failed)?);
        let mut words = vec!["bundle", "create", "--quiet", "--version=2", "-"];
        words.extend(brought.refs.iter().map(|one| one.to.as_str()));
        let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
        let streams = Streams {
            input: None,
            output,
        };
        let said = self.git.run(&self.quarantine.checked(), &words, streams)?;
        if said.is_good {
            return Ok(());
        }
        std::fs::remove_file(bundle).map_err(failed)?;
        let complaint = crate::printable::line(&said.complaint);
        Err(Stop::new(format!("git makes no bundle: {complaint}")))
    }
}

/// Those that can lie beside each other in any file system; of the others none.
fn apart(differing: &[One], brought: &mut Brought) -> Vec<One> {
    let clashes = |one: &One| {
        let mut others = differing.iter().filter(|other| other.name != one.name);
        others.any(|other| one.name.clashes(&other.name))
    };
    let (clashing, wanted): (Vec<One>, Vec<One>) = differing.iter().cloned().partition(clashes);
    for one in clashing {
        brought.refused += 1;
        let why = "another one has its name but for case, or lies below it";
        brought
            .left
            .push((one.name.as_str().to_owned(), why.to_owned()));
    }
    wanted
}
