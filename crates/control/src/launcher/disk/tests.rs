// SPDX-License-Identifier: Apache-2.0

use super::*;
use std::fs::{self, File};
use std::io::Write;

const MIB: u64 = 1 << 20;

fn session(id: &str) -> SessionId {
    SessionId::parse(id).unwrap()
}

fn fill(file: &mut File, mib: u64) {
    for _ in 0..mib {
        file.write_all(&vec![1; 1 << 20]).unwrap();
    }
    file.sync_all().unwrap();
}

#[test]
fn every_file_of_a_tree_counts_once_and_no_link_is_followed() {
    let outside = tempfile::tempdir().unwrap();
    fill(&mut File::create(outside.path().join("big")).unwrap(), 4);
    let dir = tempfile::tempdir().unwrap();
    let inner = dir.path().join("a/b");
    fs::create_dir_all(&inner).unwrap();
    fill(&mut File::create(inner.join("file")).unwrap(), 2);
    fs::hard_link(inner.join("file"), dir.path().join("again")).unwrap();
    std::os::unix::fs::symlink(outside.path(), dir.path().join("out")).unwrap();
    let used = usage(dir.path(), &[]);
    assert!((2 * MIB..3 * MIB).contains(&used), "{used}");
}

#[test]
fn a_tree_too_deep_to_count_is_over_any_limit() {
    let dir = tempfile::tempdir().unwrap();
    let deep: PathBuf = (0..DEPTH_MAX).map(|_| "d").collect();
    fs::create_dir_all(dir.path().join(deep)).unwrap();
    assert_eq!(usage(dir.path(), &[]), u64::MAX);
}

// ATTACK: 158
#[test]
fn a_removed_file_that_is_still_open_counts() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = File::create(dir.path().join("file")).unwrap();
    fill(&mut file, 2);
    fs::remove_file(dir.path().join("file")).unwrap();
    // A group of this process alone, as the kernel would list it.
    let group = tempfile::tempdir().unwrap();
    let own = format!("{}\n", std::process::id());
    fs::write(group.path().join("cgroup.procs"), own).unwrap();
    let groups = [group.path().to_owned(), group.path().to_owned()];
    let used = usage(dir.path(), &groups);
    assert!((2 * MIB..3 * MIB).contains(&used), "{used}");
    assert!(usage(dir.path(), &[]) < MIB);
}

#[test]
fn who_is_over_its_limit_ends_and_on_a_full_disk_who_holds_most() {
    let rows = |used: &[(&str, u64, u64)]| -> Vec<_> {
        used.iter()
            .map(|(id, used, limit)| (session(id), used * MIB, limit * MIB))
            .collect()
    };
    let ended = |used: &[(&str, u64, u64)], low| -> Vec<_> {
        judge(rows(used), low)
            .into_iter()
            .map(|over| (over.session.as_str().to_owned(), over.low))
            .collect()
    };
    let used = [("s1", 100, 200), ("s2", 300, 200), ("s3", 150, 400)];
    assert_eq!(ended(&used, false), [("s2".to_owned(), false)]);
    assert_eq!(ended(&used, true), [("s2".to_owned(), true)]);
    let used = [("s1", 100, 200), ("s2", 30, 20), ("s3", 150, 400)];
    assert_eq!(
        ended(&used, true),
        [("s2".to_owned(), false), ("s3".to_owned(), true)]
    );
    assert!(ended(&[("s1", 60, 200)], true).is_empty());
}

#[test]
fn on_a_low_disk_copies_go_first_and_then_one_session_at_a_time() {
    let mut low = Low::default();
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    assert_eq!(low.step(false, at(0)), Step::Nothing);
    assert_eq!(low.step(true, at(100)), Step::MakeRoom);
    assert_eq!(low.step(true, at(200)), Step::Nothing);
    assert_eq!(low.step(true, at(4_100)), Step::NameOne);
    // Whoever was named is being removed: nobody else is ended for it.
    assert_eq!(low.step(true, at(4_200)), Step::Nothing);
    assert_eq!(low.step(false, at(4_300)), Step::Nothing);
    assert_eq!(low.step(true, at(9_000)), Step::MakeRoom);
}
