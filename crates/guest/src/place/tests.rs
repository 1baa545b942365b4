// SPDX-License-Identifier: Apache-2.0
//! Paths that try to leave, with openat2 and without.

use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::process::{Gid, Uid};

use super::*;

fn settings(workspace: &Path) -> Settings {
    Settings {
        uid: Uid::from_raw(0),
        gid: Gid::from_raw(0),
        workspace: workspace.to_path_buf(),
        writable: Vec::new(),
        landlock_required: false,
        made_ahead: false,
    }
}

#[test]
fn names_that_cannot_be_places_are_refused() {
    // ATTACK: 166
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(directory.path());
    let long = "x/".repeat(3_000);
    for path in [
        "",
        "../x",
        "a/../../x",
        "a/..",
        "/etc/passwd",
        "/",
        "/tmpx/a",
        "/tmp/../etc/passwd",
        "/proc/self/mem",
        "/dev/zero",
        "a\0b",
        &long,
    ] {
        let failure = Place::parse(path, &settings).unwrap_err();
        assert_eq!(failure.code, FileFailure::Outside, "{path}");
    }
}

#[test]
fn a_sibling_with_the_same_prefix_is_outside() {
    // ATTACK: 168
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let workspace = directory.path().join("w");
    std::fs::create_dir(&workspace).unwrap();
    std::fs::create_dir(directory.path().join("w2")).unwrap();
    let settings = settings(&workspace);
    let sibling = format!("{}2/x", workspace.display());
    assert_eq!(
        Place::parse(&sibling, &settings).unwrap_err().code,
        FileFailure::Outside
    );
    let inside = format!("{}/x", workspace.display());
    assert_eq!(Place::parse(&inside, &settings).unwrap().parts, ["x"]);
}

#[test]
fn links_out_are_refused_and_links_within_are_followed() {
    // ATTACK: 168
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    std::fs::create_dir(root.join("sub")).unwrap();
    std::fs::write(root.join("sub/file"), "inside").unwrap();
    symlink("/etc", root.join("etc")).unwrap();
    symlink("../../../../../../etc", root.join("up")).unwrap();
    symlink("/proc/self/root", root.join("magic")).unwrap();
    symlink("sub", root.join("within")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    let settings = settings(root);
    let open = |path: &str| {
        Place::parse(path, &settings)
            .unwrap()
            .open(OFlags::RDONLY, Mode::empty())
    };
    for path in [
        "etc/passwd",
        "etc",
        "up/passwd",
        "magic/etc/passwd",
        "loop",
        "loop/x",
    ] {
        assert_eq!(open(path).unwrap_err().code, FileFailure::Outside, "{path}");
    }
    assert!(open("within/file").is_ok());
    assert!(open("./sub//file").is_ok());
    assert!(
        Place::parse("up/passwd", &settings)
            .unwrap()
            .parent()
            .is_err()
    );
}

#[test]
fn without_openat2_no_link_is_followed_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    std::fs::create_dir(root.join("sub")).unwrap();
    std::fs::write(root.join("sub/file"), "inside").unwrap();
    symlink("/etc", root.join("etc")).unwrap();
    symlink("file", root.join("sub/link")).unwrap();
    let handle = std::fs::File::open(root).unwrap();
    let walk = |path: &str| {
        let parts: Vec<String> = path.split('/').map(String::from).collect();
        walk_below(handle.as_fd(), &parts, OFlags::RDONLY, Mode::empty())
    };
    assert!(walk("sub/file").is_ok());
    assert_eq!(walk("etc/passwd").unwrap_err(), Errno::NOTDIR);
    assert_eq!(walk("sub/link").unwrap_err(), Errno::LOOP);
    assert_eq!(walk("etc").unwrap_err(), Errno::LOOP);
}
