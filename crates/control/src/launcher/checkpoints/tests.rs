// SPDX-License-Identifier: Apache-2.0
//! A checkpoint is whole or not there; what is kept is bounded; a removal takes nothing else.

use super::*;
use std::path::Path;
use std::time::{Duration, Instant};
use torno_policy::names::SessionId;

fn keeping(directory: &Path) -> Keeping {
    Keeping {
        directory: directory.to_owned(),
        most: 2,
        bytes: 1000,
        age: 60,
    }
}

fn new(directory: &Path) -> Checkpoints {
    Checkpoints::new(keeping(directory), true).unwrap()
}

fn name(text: &str) -> CheckpointName {
    CheckpointName::parse(text).unwrap()
}

fn about(text: &str, bytes: u64) -> Checkpoint {
    Checkpoint {
        name: name(text),
        session: SessionId::parse("s1").unwrap(),
        owner: own(),
        made_at: 100 + bytes,
        bytes,
        is_still: true,
    }
}

fn own() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn baseline(directory: &Path) -> OwnedFd {
    let path = directory.join("../baseline");
    std::fs::write(&path, "{}").unwrap();
    File::open(path).unwrap().into()
}

/// A directory of checkpoints, in one that goes with the test.
fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("checkpoints");
    std::fs::create_dir(&place).unwrap();
    (dir, place)
}

fn make(checkpoints: &mut Checkpoints, place: &Path, text: &str, bytes: u64) {
    let (tree, _) = checkpoints.begin(name(text), own()).unwrap();
    create(tree.as_fd(), "file")
        .unwrap()
        .write_all(b"x")
        .unwrap();
    checkpoints
        .keep(&about(text, bytes), baseline(place))
        .unwrap();
}

#[test]
fn one_is_found_once_it_is_whole_and_not_before() {
    let (_dir, place) = place();
    let mut checkpoints = new(&place);
    checkpoints.begin(name("a"), own()).unwrap();
    assert_eq!(checkpoints.list().unwrap(), []);
    assert!(checkpoints.open(&name("a")).is_err());
    // Only one is made at a time, and nobody keeps what was not begun.
    let busy = checkpoints.begin(name("b"), own()).unwrap_err();
    assert_eq!(busy.code, "checkpoint_busy");
    assert!(checkpoints.keep(&about("b", 1), baseline(&place)).is_err());
    checkpoints.keep(&about("a", 1), baseline(&place)).unwrap();
    assert_eq!(checkpoints.list().unwrap(), [about("a", 1)]);
    let (found, tree) = checkpoints.open(&name("a")).unwrap();
    assert_eq!(found, about("a", 1));
    assert!(rustix::fs::fstat(&tree).is_ok());
    let mut text = String::new();
    let (_, kept) = checkpoints.baseline(&name("a")).unwrap();
    File::from(kept).read_to_string(&mut text).unwrap();
    assert_eq!(text, "{}");
}

#[test]
fn what_a_crash_interrupted_is_gone_after_the_next_start_and_the_rest_is_there() {
    let (_dir, place) = place();
    let mut checkpoints = new(&place);
    make(&mut checkpoints, &place, "whole", 1);
    let (tree, _) = checkpoints.begin(name("half"), own()).unwrap();
    create(tree.as_fd(), "file").unwrap();
    std::fs::create_dir(place.join(".removed-x-1")).unwrap();
    std::fs::write(place.join("not ours"), "").unwrap();
    drop(checkpoints);
    let checkpoints = new(&place);
    assert_eq!(checkpoints.list().unwrap(), [about("whole", 1)]);
    let mut left: Vec<_> = std::fs::read_dir(&place).unwrap().flatten().collect();
    left.sort_by_key(std::fs::DirEntry::file_name);
    let left: Vec<_> = left.iter().map(std::fs::DirEntry::file_name).collect();
    assert_eq!(left, ["not ours", "whole"]);
}

#[test]
fn number_and_bytes_are_bounded_and_a_name_is_taken_once() {
    let (_dir, place) = place();
    let mut checkpoints = new(&place);
    make(&mut checkpoints, &place, "a", 400);
    let taken = checkpoints.begin(name("a"), own()).unwrap_err();
    assert_eq!(taken.code, "checkpoint_exists");
    let (_, room) = checkpoints.begin(name("b"), own()).unwrap();
    assert_eq!(room, 600);
    checkpoints
        .keep(&about("b", 600), baseline(&place))
        .unwrap();
    let full = checkpoints.begin(name("c"), own()).unwrap_err();
    assert_eq!(full.code, "checkpoints_full");
    checkpoints.remove(&name("a")).unwrap();
    let (_, room) = checkpoints.begin(name("c"), own()).unwrap();
    assert_eq!(room, 400);
}

#[test]
fn those_older_than_they_are_kept_for_are_named() {
    let (_dir, place) = place();
    let mut checkpoints = new(&place);
    make(&mut checkpoints, &place, "a", 1);
    make(&mut checkpoints, &place, "b", 10);
    let forgotten = |now| -> Vec<String> {
        let all = checkpoints.forgotten(now).unwrap().into_iter();
        all.map(|one| one.name.to_string()).collect()
    };
    assert_eq!(forgotten(161), Vec::<String>::new());
    assert_eq!(forgotten(162), ["a"]);
    assert_eq!(forgotten(171), ["a", "b"]);
}

// ATTACK: 176
#[test]
fn a_removal_follows_no_link_of_the_workload() {
    let (dir, place) = place();
    let outside = dir.path().join("outside");
    std::fs::create_dir_all(outside.join("kept")).unwrap();
    let mut checkpoints = new(&place);
    make(&mut checkpoints, &place, "a", 1);
    std::os::unix::fs::symlink(&outside, place.join("a/tree/link")).unwrap();
    checkpoints.remove(&name("a")).unwrap();
    assert!(checkpoints.open(&name("a")).is_err());
    let end = Instant::now() + Duration::from_secs(60);
    while std::fs::read_dir(&place).unwrap().next().is_some() {
        assert!(Instant::now() < end, "it stays");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(outside.join("kept").exists());
}

#[test]
fn a_checkpoint_that_was_made_again_under_its_name_is_not_the_one_that_was_found() {
    let (_dir, place) = place();
    let mut checkpoints = new(&place);
    make(&mut checkpoints, &place, "a", 400);
    let found = checkpoints.list().unwrap().remove(0);
    checkpoints.remove(&name("a")).unwrap();
    make(&mut checkpoints, &place, "a", 401);
    let stays = checkpoints.remove_found(&found).unwrap_err();
    assert_eq!(stays.code, "checkpoint_changed");
    let now = checkpoints.list().unwrap().remove(0);
    assert_eq!(now.bytes, 401);
    checkpoints.remove_found(&now).unwrap();
    assert!(checkpoints.list().unwrap().is_empty());
    assert_eq!(
        checkpoints.remove_found(&now).unwrap_err().code,
        "checkpoint_unknown"
    );
}
