// SPDX-License-Identifier: Apache-2.0
//! Tests with the real git: repositories as agents leave them, sent as a porter sends them.

use super::*;
use std::io::{Seek as _, Write as _};
use torno_control_api::commits::{Frame, ObjectId, RefName, write_frame};

/// A directory with the person's repository and the session's copy of it.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = Self { directory };
        std::fs::create_dir(place.path("ours")).unwrap();
        place.git("ours", &["init", "--quiet", "--initial-branch=main"]);
        place.commit("ours", "a");
        place.git("ours", &["tag", "-m", "first", "v1"]);
        place.git(".", &["clone", "--quiet", "ours", "theirs"]);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// What git says, run as a person does.
    fn git(&self, at: &str, words: &[&str]) -> String {
        let (is_good, said) = self.try_git(at, words, b"");
        assert!(is_good, "{words:?}: {said}");
        said
    }

    fn try_git(&self, at: &str, words: &[&str], input: &[u8]) -> (bool, String) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(input).unwrap();
        file.rewind().unwrap();
        let names = ["-c", "user.name=a", "-c", "user.email=a@torno.test"];
        let output = std::process::Command::new("git")
            .current_dir(self.path(at))
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.directory.path())
            .args(names)
            .args(words)
            .stdin(file)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let error = String::from_utf8_lossy(&output.stderr);
        (
            output.status.success(),
            format!("{}{error}", said.trim_end()),
        )
    }

    fn commit(&self, at: &str, text: &str) -> String {
        std::fs::write(self.path(at).join("file"), text).unwrap();
        self.git(at, &["add", "."]);
        self.git(at, &["commit", "--quiet", "-m", text]);
        self.git(at, &["rev-parse", "HEAD"])
    }

    /// A tree of one entry, whatever its name, and a branch at a commit of it.
    fn branch_with(&self, branch: &str, mode: &str, name: &str, content: &[u8]) {
        let hash = |words: &[&str], input: &[u8]| {
            let words = [
                &["hash-object", "-w", "--literally", "--stdin", "-t"],
                words,
            ]
            .concat();
            let (is_good, said) = self.try_git("theirs", &words, input);
            assert!(is_good, "{said}");
            said
        };
        let blob = hash(&["blob"], content);
        let blob = data_encoding::HEXLOWER.decode(blob.as_bytes()).unwrap();
        let entry = [format!("{mode} {name}\0").as_bytes(), &blob].concat();
        let tree = hash(&["tree"], &entry);
        let commit = self.git("theirs", &["commit-tree", "-m", branch, &tree]);
        self.git(
            "theirs",
            &["update-ref", &format!("refs/heads/{branch}"), &commit],
        );
    }

    /// What a porter sends of the session's copy.
    fn stream(&self) -> File {
        let mut to = tempfile::tempfile().unwrap();
        let refs = self.git(
            "theirs",
            &["for-each-ref", "--format=%(objectname) %(refname)"],
        );
        for line in refs.lines() {
            let (id, name) = line.split_once(' ').unwrap();
            if let Ok(name) = RefName::parse(name) {
                let id = ObjectId::parse(id).unwrap();
                write_frame(&mut to, &Frame::Ref { name, id }).unwrap();
            }
        }
        let objects = self.path("theirs/.git/objects");
        for directory in std::fs::read_dir(objects).unwrap().flatten() {
            let first = directory.file_name().into_string().unwrap();
            for file in std::fs::read_dir(directory.path()).unwrap().flatten() {
                let bytes = std::fs::read(file.path()).unwrap();
                let length = u64::try_from(bytes.len()).unwrap();
                let name = file.file_name().into_string().unwrap();
                let frame = match ObjectId::parse(&format!("{first}{name}")) {
                    Some(id) => Frame::Object { id, bytes: length },
                    None if name.ends_with(".pack") => Frame::Pack { bytes: length },
                    None => continue,
                };
                write_frame(&mut to, &frame).unwrap();
                to.write_all(&bytes).unwrap();
            }
        }
        write_frame(&mut to, &Frame::End).unwrap();
        to.rewind().unwrap();
        to
    }

    fn bring(&self, bundle: Option<&Path>) -> Outcome<Brought> {
        self.bring_from(self.stream(), bundle)
    }

    fn bring_from(&self, stream: File, bundle: Option<&Path>) -> Outcome<Brought> {
        let session = SessionId::parse("s1").unwrap();
        let quarantine = Quarantine::make(&self.path("commits"), &session)?;
        let git = Git::find(None, quarantine.path())?;
        let work = bring::Work {
            git: &git,
            quarantine: &quarantine,
            session: &session,
            target: &self.path("ours"),
            bundle,
        };
        let repository = work.repository()?;
        work.bring(stream, repository.as_ref())
    }

    /// Everything of the person's repository but objects and what came, as bytes.
    fn own(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        let mut ahead = vec![self.path("ours")];
        while let Some(directory) = ahead.pop() {
            for entry in std::fs::read_dir(directory).unwrap().flatten() {
                let path = entry.path();
                if path.ends_with(".git/objects") || path.ends_with(".git/refs/torno") {
                    continue;
                }
                if entry.file_type().unwrap().is_dir() {
                    ahead.push(path);
                } else {
                    let bytes = std::fs::read(&path).unwrap();
                    found.push((path, bytes));
                }
            }
        }
        found.sort();
        found
    }
}

fn names(brought: &Brought) -> Vec<(&str, Verb)> {
    brought
        .refs
        .iter()
        .map(|one| (&*one.to, one.verb))
        .collect()
}

#[test]
fn commits_come_under_refs_of_the_session_and_change_nothing_else() {
    let place = Place::new();
    // The person's own hooks are not the session's to start either.
    let hook = place.path("ours/.git/hooks/reference-transaction");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(
        &hook,
        format!("#!/bin/sh\ntouch {}\n", place.path("ran").display()),
    )
    .unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&hook, mode).unwrap();
    place.git("theirs", &["checkout", "--quiet", "-b", "agent/fix"]);
    let first = place.commit("theirs", "b");
    place.git("theirs", &["tag", "-m", "second", "v2"]);
    let before = place.own();
    let brought = place.bring(None).unwrap();
    let (branch, tag) = ("refs/torno/s1/heads/agent/fix", "refs/torno/s1/tags/v2");
    assert_eq!(names(&brought), [(branch, Verb::New), (tag, Verb::New)]);
    assert_eq!(brought.left, []);
    assert_eq!(place.git("ours", &["rev-parse", branch]), first);
    assert_eq!(place.git("ours", &["show", &format!("{tag}:file")]), "b");
    assert_eq!(place.own(), before);
    assert!(!place.path("ran").exists(), "a hook ran");
    assert!(!place.path("commits/s1").exists(), "the quarantine stays");
    // Again, after more, and from packs.
    assert_eq!(names(&place.bring(None).unwrap())[0], (branch, Verb::There));
    let second = place.commit("theirs", "c");
    place.git("theirs", &["gc", "--quiet"]);
    assert_eq!(names(&place.bring(None).unwrap())[0], (branch, Verb::Moved));
    assert_eq!(place.git("ours", &["rev-parse", branch]), second);
    place.git("ours", &["fsck", "--strict"]);
    assert_eq!(place.own(), before);
}

// ATTACK: 178
#[test]
fn what_git_does_not_accept_stays_and_keeps_no_good_commit_from_coming() {
    let place = Place::new();
    place.git("theirs", &["checkout", "--quiet", "-b", "good"]);
    place.commit("theirs", "b");
    place.branch_with("dotgit", "100644", ".git", b"");
    place.branch_with("upper", "100644", ".GIT", b"");
    place.branch_with("tilde", "100644", "git~1", b"");
    place.branch_with("parent", "100644", "..", b"");
    place.branch_with("slash", "100644", "a/b", b"");
    // CVE-2018-11235 and CVE-2018-17456.
    place.branch_with("link", "120000", ".gitmodules", b"/etc/passwd");
    let url = b"[submodule \"x\"]\n\tpath = x\n\turl = -u./payload\n";
    place.branch_with("option", "100644", ".gitmodules", url);
    let name = b"[submodule \"../../x\"]\n\tpath = x\n\turl = https://x.torno.test\n";
    place.branch_with("name", "100644", ".gitmodules", name);
    place.branch_with("lacks", "100644", "file", b"lacking");
    place.branch_with("false", "100644", "file", b"honest");
    let object = |content: &str| {
        let (_, id) = place.try_git("theirs", &["hash-object", "--stdin"], content.as_bytes());
        let (first, rest) = id.split_at(2);
        place.path("theirs/.git/objects").join(first).join(rest)
    };
    let other = std::fs::read(object("b")).unwrap();
    std::fs::remove_file(object("lacking")).unwrap();
    std::fs::remove_file(object("honest")).unwrap();
    std::fs::write(object("honest"), other).unwrap();
    let before = place.own();
    let brought = place.bring(None).unwrap();
    assert_eq!(names(&brought), [("refs/torno/s1/heads/good", Verb::New)]);
    let left: Vec<&str> = brought.left.iter().map(|(name, _)| &**name).collect();
    let bad = [
        "dotgit", "false", "lacks", "link", "name", "option", "parent", "slash", "tilde", "upper",
    ];
    assert_eq!(
        left,
        bad.map(|name| format!("refs/heads/{name}")),
        "{brought:?}"
    );
    assert_eq!(brought.refused, bad.len());
    for branch in bad {
        let id = place.git("theirs", &["rev-parse", branch]);
        let (there, _) = place.try_git("ours", &["cat-file", "-e", &id], b"");
        assert!(!there, "a commit of {branch} is in the person's repository");
    }
    assert_eq!(place.own(), before);
}

// ATTACK: 172
#[test]
fn what_is_no_pack_or_no_object_keeps_only_what_needs_it() {
    let place = Place::new();
    place.git("theirs", &["checkout", "--quiet", "-b", "good"]);
    place.commit("theirs", "b");
    let objects = place.path("theirs/.git/objects");
    std::fs::create_dir_all(objects.join("ee")).unwrap();
    std::fs::write(objects.join("ee").join("e".repeat(38)), "no zlib").unwrap();
    let many = &b"PACK\0\0\0\x02\x7f\xff\xff\xff"[..];
    for (name, text) in [("a", &b"PACK"[..]), ("b", many)] {
        let pack = format!("pack/pack-{}.pack", name.repeat(40));
        std::fs::write(objects.join(pack), text).unwrap();
    }
    let brought = place.bring(None).unwrap();
    assert_eq!(names(&brought), [("refs/torno/s1/heads/good", Verb::New)]);
    let left: Vec<&str> = brought.left.iter().map(|(name, _)| &**name).collect();
    assert_eq!(left, ["a pack", "a pack"]);
    // A stream that ends early brings nothing.
    let stream = place.stream();
    stream
        .set_len(stream.metadata().unwrap().len() - 3)
        .unwrap();
    let stop = place.bring_from(stream, None).unwrap_err();
    assert!(stop.message.contains("break off"), "{stop:?}");
}

#[test]
fn a_bundle_holds_what_came_and_needs_nothing() {
    let place = Place::new();
    place.git("theirs", &["checkout", "--quiet", "-b", "good"]);
    place.commit("theirs", "b");
    let before = place.own();
    let bundle = place.path("out.bundle");
    let brought = place.bring(Some(&bundle)).unwrap();
    assert_eq!(names(&brought), [("refs/torno/s1/heads/good", Verb::New)]);
    assert_eq!(place.own(), before);
    assert!(
        std::fs::read(&bundle)
            .unwrap()
            .starts_with(b"# v2 git bundle\n")
    );
    std::fs::create_dir(place.path("empty")).unwrap();
    place.git("empty", &["init", "--quiet"]);
    let words = [
        "fetch",
        "--quiet",
        "../out.bundle",
        "refs/torno/*:refs/torno/*",
    ];
    place.git("empty", &words);
    assert_eq!(
        place.git("empty", &["show", "refs/torno/s1/heads/good:file"]),
        "b"
    );
    // What is there is not written over.
    assert!(place.bring(Some(&bundle)).is_err());
}

#[test]
fn nothing_goes_into_a_repository_that_lies_above() {
    let place = Place::new();
    std::fs::create_dir(place.path("ours/below")).unwrap();
    let session = SessionId::parse("s1").unwrap();
    let quarantine = Quarantine::make(&place.path("commits"), &session).unwrap();
    let git = Git::find(None, quarantine.path()).unwrap();
    let at = |target: &Path| {
        let work = bring::Work {
            git: &git,
            quarantine: &quarantine,
            session: &session,
            target,
            bundle: None,
        };
        work.repository().is_ok()
    };
    assert!(at(&place.path("ours")));
    assert!(!at(&place.path("ours/below")));
    // One that is broken is not passed over for the one above.
    std::fs::create_dir(place.path("ours/below/.git")).unwrap();
    assert!(!at(&place.path("ours/below")));
}

#[test]
fn names_that_clash_stay_and_others_come() {
    let place = Place::new();
    let id = place.git("theirs", &["rev-parse", "HEAD"]);
    let packed = ["A", "a", "b", "c", "c/d"].map(|name| format!("{id} refs/heads/{name}\n"));
    std::fs::write(place.path("theirs/.git/packed-refs"), packed.concat()).unwrap();
    let brought = place.bring(None).unwrap();
    assert_eq!(names(&brought), [("refs/torno/s1/heads/b", Verb::New)]);
    assert_eq!(brought.refused, 4);
}

// ATTACK: 184
#[test]
fn what_is_told_is_inert_and_what_is_typed_next_is_quoted() {
    let session = SessionId::parse("s1").unwrap();
    let name = RefName::parse("refs/heads/$(touch\u{202e}x)").unwrap();
    let brought = Brought {
        refs: vec![bring::One {
            to: name.of_session(&session),
            name,
            id: ObjectId::parse(&"a".repeat(40)).unwrap(),
            verb: Verb::New,
        }],
        left: vec![("x\x1b[2J".to_owned(), "y\r".to_owned())],
        refused: 1,
    };
    let report = Report {
        session: &session,
        bundle: None,
        brought: &brought,
    };
    let text = lines(&report);
    assert!(
        text.chars()
            .all(|c| c.is_ascii_graphic() || " \n".contains(c)),
        "{text:?}"
    );
    assert!(
        text.contains("git merge 'refs/torno/s1/heads/$(touch\\u{202e}x)'"),
        "{text}"
    );
}
