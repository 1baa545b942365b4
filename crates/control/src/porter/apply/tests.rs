// SPDX-License-Identifier: Apache-2.0
//! Tests of the way back.

use super::*;
use crate::orders::Baseline;
use crate::porter::tree;
use rustix::fs::OFlags;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

struct Place {
    _dir: tempfile::TempDir,
    target: PathBuf,
    changed: PathBuf,
    baseline: Baseline,
}

fn open(path: &Path) -> OwnedFd {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
}

/// A workspace with one file that both sides have.
fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let (target, changed) = (dir.path().join("target"), dir.path().join("changed"));
    for side in [&target, &changed] {
        std::fs::create_dir(side).unwrap();
        std::fs::write(side.join("a.txt"), "one\n").unwrap();
    }
    let entry = BaselineEntry {
        digest: tree::text_digest("one\n"),
        executable: false,
        link: false,
    };
    Place {
        _dir: dir,
        target,
        changed,
        baseline: Baseline::from([("a.txt".to_owned(), entry)]),
    }
}

fn apply(place: &Place, confirmed: &[&str]) -> String {
    let baseline = place.target.with_file_name("baseline");
    std::fs::write(&baseline, serde_json::to_vec(&place.baseline).unwrap()).unwrap();
    let report = place.target.with_file_name("report");
    let wanted = Wanted {
        paths: None,
        confirmed: confirmed.iter().map(|path| (*path).to_owned()).collect(),
    };
    let pipe = File::create(&report).unwrap().into();
    let baseline = File::open(&baseline).unwrap().into();
    bring_back(
        &open(&place.target),
        &open(&place.changed),
        baseline,
        pipe,
        &wanted,
    )
    .unwrap();
    std::fs::read_to_string(report).unwrap()
}

#[test]
fn changes_come_back_and_what_the_person_changed_meanwhile_stays() {
    let place = place();
    std::fs::write(place.changed.join("a.txt"), "two\n").unwrap();
    std::fs::create_dir(place.changed.join("new")).unwrap();
    std::fs::write(place.changed.join("new/b.txt"), "b").unwrap();
    std::fs::write(place.target.join("a.txt"), "mine\n").unwrap();
    assert_eq!(apply(&place, &[]), "conflict a.txt\nwrote new/b.txt\n");
    assert_eq!(
        std::fs::read_to_string(place.target.join("a.txt")).unwrap(),
        "mine\n"
    );
    assert_eq!(
        std::fs::read_to_string(place.target.join("new/b.txt")).unwrap(),
        "b"
    );
}

#[test]
fn what_a_host_would_run_comes_back_only_by_its_own_confirmation() {
    let place = place();
    std::fs::create_dir_all(place.changed.join(".husky")).unwrap();
    std::fs::write(place.changed.join(".husky/pre-commit"), "#!/bin/sh").unwrap();
    assert_eq!(apply(&place, &[]), "asks .husky/pre-commit\n");
    assert!(!place.target.join(".husky").exists());
    assert_eq!(
        apply(&place, &[".husky/pre-commit"]),
        "wrote .husky/pre-commit\n"
    );
}

// ATTACK: 178
#[test]
fn no_file_of_a_repository_comes_back_whoever_confirms_it() {
    let mut place = place();
    let files = [
        ".git/hooks/pre-commit",
        ".git/config",
        ".git/HEAD",
        "sub/.GIT/config",
        "deep/.git",
        "a/.Git/b/.git/x",
    ];
    for file in files {
        let file = place.changed.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "x").unwrap();
    }
    // Nor is one taken away.
    std::fs::create_dir(place.target.join(".git")).unwrap();
    std::fs::write(place.target.join(".git/packed-refs"), "mine").unwrap();
    let before = BaselineEntry {
        digest: tree::text_digest("mine"),
        executable: false,
        link: false,
    };
    place.baseline.insert(".git/packed-refs".to_owned(), before);
    let report = apply(&place, &files);
    assert_eq!(
        report,
        "left .git: 4 files of a repository changed; commits come back with `torno session \
         commits`\n\
         left a/.Git: 1 file of a repository changed; it stays inside, commits too\n\
         left deep/.git: 1 file of a repository changed; it stays inside, commits too\n\
         left sub/.GIT: 1 file of a repository changed; it stays inside, commits too\n"
    );
    let there = std::fs::read_dir(place.target.join(".git"))
        .unwrap()
        .count();
    assert_eq!(there, 1);
    for gone in ["sub", "deep", "a"] {
        assert!(!place.target.join(gone).exists(), "{gone}");
    }
}

// ATTACK: 164
#[test]
fn a_link_made_inside_neither_comes_back_nor_is_followed_on_either_side() {
    let place = place();
    let host = place.target.with_file_name("host");
    std::fs::create_dir(&host).unwrap();
    std::fs::write(host.join("secret"), "secret").unwrap();
    symlink(&host, place.target.join("out")).unwrap();
    symlink(host.join("secret"), place.changed.join("stolen")).unwrap();
    std::fs::create_dir(place.changed.join("out")).unwrap();
    std::fs::write(place.changed.join("out/secret"), "overwritten").unwrap();
    std::fs::remove_file(place.changed.join("a.txt")).unwrap();
    let report = apply(&place, &[]);
    assert!(report.contains("left out/secret:"), "{report}");
    assert!(report.contains("left stolen:"), "{report}");
    assert!(report.contains("deleted a.txt"), "{report}");
    assert_eq!(
        std::fs::read_to_string(host.join("secret")).unwrap(),
        "secret"
    );
    assert!(!place.target.join("stolen").exists());
}

#[test]
fn a_name_with_a_newline_forges_no_line_of_the_report() {
    let place = place();
    std::fs::write(place.changed.join("x\nwrote .envrc"), "x").unwrap();
    let report = apply(&place, &[]);
    assert_eq!(
        report,
        "left x\\nwrote .envrc: its name has control characters\n"
    );
}
