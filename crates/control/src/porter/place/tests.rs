// SPDX-License-Identifier: Apache-2.0

use super::*;
use std::path::Path;

fn open(path: &Path) -> OwnedFd {
    rustix::fs::open(path, DIRECTORY, Mode::empty()).unwrap()
}

fn file(text: &str) -> BaselineEntry {
    BaselineEntry {
        digest: tree::text_digest(text),
        executable: false,
        link: false,
    }
}

fn put_text(at: &Path, name: &str, text: &str, expected: Option<&BaselineEntry>) -> bool {
    let directory = open(at);
    let content = Content::File {
        from: &mut text.as_bytes(),
        mode: Mode::from_raw_mode(0o644),
        durable: false,
    };
    let put = put((directory.as_fd(), name), content, expected).unwrap();
    put.is_some_and(|put| put == file(text))
}

fn names(at: &Path) -> Vec<String> {
    let names = std::fs::read_dir(at).unwrap().flatten();
    let mut names: Vec<_> = names
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn what_is_put_replaces_what_was_expected_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let read = || std::fs::read_to_string(at.join("a")).unwrap();
    assert!(put_text(at, "a", "one", None));
    assert!(put_text(at, "a", "two", Some(&file("one"))));
    // Somebody has been there: at each way of looking wrong theirs stays.
    assert!(!put_text(at, "a", "three", Some(&file("one"))));
    assert!(!put_text(at, "a", "three", None));
    assert_eq!(read(), "two");
    assert!(!put_text(at, "b", "three", Some(&file("one"))));
    std::os::unix::fs::symlink("a", at.join("l")).unwrap();
    assert!(
        !put_text(at, "l", "three", Some(&file("two"))),
        "a link to it"
    );
    assert_eq!(names(at), ["a", "l"], "nothing beside");
}

#[test]
fn what_changed_between_two_looks_is_put_back() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    std::fs::write(at.join("a"), "mine").unwrap();
    std::fs::write(at.join("fresh"), "theirs").unwrap();
    let directory = open(at);
    // As if the first look had found what was expected.
    let place = (directory.as_fd(), "a");
    assert!(!exchange(place, "fresh", &file("before")).unwrap());
    assert_eq!(std::fs::read_to_string(at.join("a")).unwrap(), "mine");
    assert!(exchange(place, "fresh", &file("mine")).unwrap());
    assert_eq!(std::fs::read_to_string(at.join("a")).unwrap(), "theirs");
    assert!(!exchange((directory.as_fd(), "gone"), "fresh", &file("mine")).unwrap());
}

#[test]
fn what_is_taken_away_is_what_was_expected() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    std::fs::write(at.join("a"), "one").unwrap();
    let directory = open(at);
    let place = (directory.as_fd(), "a");
    assert!(!take_away(place, &file("two")).unwrap());
    assert_eq!(names(at), ["a"]);
    assert!(take_away(place, &file("one")).unwrap());
    assert!(!take_away(place, &file("one")).unwrap());
    assert!(names(at).is_empty());
}

#[test]
fn what_is_made_belongs_to_whom_its_directory_belongs_to() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP: the owner of what is made: needs root");
        return;
    }
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(dir.path(), Some(1234), Some(1235)).unwrap();
    let root = open(dir.path());
    let (inner, name) = parent(&root, "x/y/a").unwrap();
    let content = Content::File {
        from: &mut "one".as_bytes(),
        mode: Mode::from_raw_mode(0o644),
        durable: true,
    };
    put((inner.as_fd(), name), content, None).unwrap().unwrap();
    for path in ["x", "x/y", "x/y/a"] {
        let about = std::fs::metadata(dir.path().join(path)).unwrap();
        assert_eq!((about.uid(), about.gid()), (1234, 1235), "{path}");
    }
}
