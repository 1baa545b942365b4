// SPDX-License-Identifier: Apache-2.0
//! Rounds over real directories.

use super::*;
use crate::porter::copy::tests::fingerprint;
use rustix::fs::{MemfdFlags, OFlags, SeekFrom, memfd_create, seek};
use std::fs;
use std::path::{Path, PathBuf};
use torno_policy::grant::FileRules;

struct Sides {
    _keep: tempfile::TempDir,
    original: PathBuf,
    copy: PathBuf,
    agreed: OwnedFd,
    known: OwnedFd,
    rules: SyncRules,
}

fn memory() -> OwnedFd {
    memfd_create("test", MemfdFlags::CLOEXEC).unwrap()
}

fn open(path: &Path) -> OwnedFd {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
}

impl Sides {
    /// Both have `a` and `d/b`.
    fn new() -> Self {
        let keep = tempfile::tempdir().unwrap();
        let side = |name: &str| {
            let at = keep.path().join(name);
            fs::create_dir_all(at.join("d")).unwrap();
            fs::write(at.join("a"), "one").unwrap();
            fs::write(at.join("d/b"), "one").unwrap();
            at
        };
        let (original, copy) = (side("original"), side("copy"));
        let agreed = memory();
        changes::write_baseline(&open(&copy), agreed.try_clone().unwrap()).unwrap();
        Self {
            _keep: keep,
            original,
            copy,
            agreed,
            known: memory(),
            rules: SyncRules {
                fingerprints: Vec::new(),
                bytes_max: 1 << 20,
                files: FileRules::default(),
                thorough: false,
            },
        }
    }

    /// Inward, outward, held, and what was kept out.
    fn round(&mut self) -> (u32, u32, u32, Vec<(String, String)>) {
        let (agreed_next, known_next) = (memory(), memory());
        for file in [&self.agreed, &self.known] {
            seek(file, SeekFrom::Start(0)).unwrap();
        }
        let clone = |file: &OwnedFd| file.try_clone().unwrap();
        let one = Round {
            original: open(&self.original),
            copy: open(&self.copy),
            agreed: clone(&self.agreed),
            agreed_next: clone(&agreed_next),
            known: clone(&self.known),
            known_next: clone(&known_next),
        };
        let reply = round(one, &self.rules).unwrap();
        (self.agreed, self.known) = (agreed_next, known_next);
        let PorterReply::Synced {
            inward,
            outward,
            held,
            hidden,
        } = reply
        else {
            panic!("{reply:?}")
        };
        (inward, outward, held, hidden)
    }

    fn counts(&mut self) -> (u32, u32, u32) {
        let (inward, outward, held, _) = self.round();
        (inward, outward, held)
    }

    fn write(at: &Path, path: &str, text: &str) {
        let path = at.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn read(at: &Path, path: &str) -> Option<String> {
    fs::read_to_string(at.join(path)).ok()
}

#[test]
fn what_one_side_changed_the_other_has_after_a_round() {
    let mut sides = Sides::new();
    assert_eq!(sides.counts(), (0, 0, 0));
    Sides::write(&sides.original, "a", "by the person");
    Sides::write(&sides.original, "new/deep/file", "x");
    std::os::unix::fs::symlink("a", sides.original.join("link")).unwrap();
    Sides::write(&sides.copy, "d/b", "by the agent");
    Sides::write(&sides.copy, "made/inside", "y");
    assert_eq!(sides.counts(), (3, 2, 0));
    for at in [&sides.original, &sides.copy] {
        assert_eq!(read(at, "a").as_deref(), Some("by the person"));
        assert_eq!(read(at, "new/deep/file").as_deref(), Some("x"));
        assert_eq!(read(at, "link").as_deref(), Some("by the person"));
        assert_eq!(read(at, "d/b").as_deref(), Some("by the agent"));
        assert_eq!(read(at, "made/inside").as_deref(), Some("y"));
    }
    assert_eq!(sides.counts(), (0, 0, 0), "and then there is peace");
    // What a killed porter left is nobody's change.
    Sides::write(&sides.original, "d/.torno-0123456789abcdef", "x");
    assert_eq!(sides.counts(), (0, 0, 0));
    // What the person removes goes, with the directories that went too.
    fs::remove_dir_all(sides.original.join("new")).unwrap();
    assert_eq!(sides.counts(), (1, 0, 0));
    assert!(!sides.copy.join("new").exists());
}

#[test]
fn what_both_changed_stays_as_each_has_it_until_they_agree() {
    let mut sides = Sides::new();
    Sides::write(&sides.original, "a", "by the person");
    Sides::write(&sides.copy, "a", "by the agent");
    for _ in 0..2 {
        assert_eq!(sides.counts(), (0, 0, 1));
        assert_eq!(read(&sides.original, "a").as_deref(), Some("by the person"));
        assert_eq!(read(&sides.copy, "a").as_deref(), Some("by the agent"));
    }
    Sides::write(&sides.original, "a", "by the agent");
    assert_eq!(sides.counts(), (0, 0, 0));
    Sides::write(&sides.copy, "a", "later");
    assert_eq!(sides.counts(), (0, 1, 0));
}

#[test]
fn what_apply_asks_for_does_not_go_out_by_itself() {
    // ATTACK: 178
    let mut sides = Sides::new();
    fs::remove_file(sides.copy.join("a")).unwrap();
    for path in [
        ".envrc",
        ".git/hooks/post-checkout",
        ".git/config",
        "sub/.git",
        ".github/workflows/x.yml",
        "torno.toml",
        "x\nwrote y",
    ] {
        Sides::write(&sides.copy, path, "!");
    }
    std::os::unix::fs::symlink("/etc/passwd", sides.copy.join("link")).unwrap();
    std::os::unix::fs::symlink("/etc", sides.copy.join("etc")).unwrap();
    assert_eq!(sides.counts(), (0, 0, 10));
    let mut left = fs::read_dir(&sides.original).unwrap().count();
    assert_eq!(left, 2);
    // A directory that became a link on the person's side leads nowhere.
    let outside = tempfile::tempdir().unwrap();
    fs::remove_dir_all(sides.original.join("d")).unwrap();
    std::os::unix::fs::symlink(outside.path(), sides.original.join("d")).unwrap();
    Sides::write(&sides.copy, "d/b", "out of the tree");
    Sides::write(&sides.copy, "d/c", "out of the tree");
    sides.counts();
    left = fs::read_dir(outside.path()).unwrap().count();
    assert_eq!(left, 0);
}

#[test]
fn what_the_front_door_keeps_out_does_not_go_in_later_either() {
    let mut sides = Sides::new();
    let value = "torno-value-0123456789abcdef";
    sides.rules.fingerprints = vec![fingerprint(value.as_bytes())];
    Sides::write(&sides.original, "notes", &format!("it is {value}"));
    Sides::write(&sides.original, "a", &format!("{value}!"));
    Sides::write(&sides.original, ".aws/credentials", "[default]\n");
    let key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    Sides::write(&sides.original, "key.pem", key);
    let (inward, outward, held, hidden) = sides.round();
    assert_eq!((inward, outward, held), (0, 0, 4), "{hidden:?}");
    assert_eq!(hidden.len(), 4, "{hidden:?}");
    assert!(!format!("{hidden:?}").contains(value));
    assert_eq!(read(&sides.copy, "a").as_deref(), Some("one"));
    for path in ["notes", ".aws/credentials", "key.pem"] {
        assert!(!sides.copy.join(path).exists(), "{path}");
    }
    // It is not read again until it changes; then it may enter.
    let (_, _, held, hidden) = sides.round();
    assert_eq!((held, hidden.len()), (4, 0));
    Sides::write(&sides.original, "notes", "none");
    assert_eq!(sides.counts(), (1, 0, 3));
    // What git's configuration says of a user stays outside, and is no difference.
    let config = "[remote \"o\"]\n\turl = https://me:pw@git.example.org/x\n";
    Sides::write(&sides.original, ".git/config", config);
    assert_eq!(sides.counts(), (1, 0, 3));
    assert!(!read(&sides.copy, ".git/config").unwrap().contains("pw@"));
    assert_eq!(sides.counts(), (0, 0, 3));
}

#[test]
fn rules_and_limits_hold_in_every_round() {
    let mut sides = Sides::new();
    sides.rules.files.hide = vec!["secret/**".into()];
    Sides::write(&sides.original, "secret/k", "s");
    Sides::write(&sides.copy, "secret/l", "s");
    Sides::write(&sides.original, "large", &"x".repeat(2 << 20));
    assert_eq!(sides.counts(), (0, 0, 3));
    assert!(!sides.copy.join("large").exists() && !sides.copy.join("secret/k").exists());
    assert!(!sides.original.join("secret/l").exists());
    // Of what the session makes, a sparse file by its length and each name of a file count.
    File::create(sides.copy.join("sparse"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    Sides::write(&sides.copy, "one", &"x".repeat(600 << 10));
    for name in ["two", "three", "four"] {
        fs::hard_link(sides.copy.join("one"), sides.copy.join(name)).unwrap();
    }
    fs::remove_file(sides.original.join("large")).unwrap();
    let (_, outward, held) = sides.counts();
    assert_eq!((outward, held), (3, 4), "2 MiB and no more");
}

#[test]
fn what_comes_out_is_open_to_whom_what_it_replaces_was() {
    use std::os::unix::fs::PermissionsExt;
    let mut sides = Sides::new();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let set = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    set(&sides.original.join("a"), 0o600);
    set(&sides.original.join("d"), 0o700);
    Sides::write(&sides.copy, "a", "two");
    Sides::write(&sides.copy, "d/new", "two");
    assert_eq!(sides.counts(), (0, 2, 0));
    assert_eq!(mode(&sides.original.join("a")), 0o600);
    assert_eq!(mode(&sides.original.join("d/new")), 0o600);
    // What may be executed waits for a person, be it old or new.
    set(&sides.copy.join("a"), 0o700);
    Sides::write(&sides.copy, "run", "#!/bin/sh");
    set(&sides.copy.join("run"), 0o755);
    assert_eq!(sides.counts(), (0, 0, 2));
}

#[test]
fn a_file_that_looks_the_same_is_read_when_the_look_is_thorough() {
    use std::io::Seek;
    let mut sides = Sides::new();
    // Its looks count only once its times are told apart from the next ones.
    std::thread::sleep(std::time::Duration::from_millis(4100));
    assert_eq!(sides.counts(), (0, 0, 0));
    let mut known = File::from(sides.known.try_clone().unwrap());
    known.rewind().unwrap();
    let mut text = String::new();
    known.read_to_string(&mut text).unwrap();
    // As if `a` had changed without a change of its looks.
    let agreed = tree::text_digest("one");
    assert_eq!(text.matches(&agreed).count(), 4, "{text}");
    Sides::write(&sides.copy, "d/b", "two");
    let spoilt = text.replace(&agreed, &tree::text_digest("other"));
    let memory = memory();
    std::io::Write::write_all(
        &mut File::from(memory.try_clone().unwrap()),
        spoilt.as_bytes(),
    )
    .unwrap();
    sides.known = memory;
    // By its looks `a` is another on both sides; read, it is what it was.
    sides.rules.thorough = true;
    assert_eq!(sides.counts(), (0, 1, 0));
    assert_eq!(read(&sides.original, "d/b").as_deref(), Some("two"));
}
