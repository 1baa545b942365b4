// SPDX-License-Identifier: Apache-2.0
//! Tests of what is sent of a repository, and of what a diff says.

#![expect(clippy::string_slice, reason = "ids are ASCII")]

use super::*;
use rustix::fs::{Mode, OFlags};
use std::os::unix::fs::symlink;
use std::path::Path;
use torno_control_api::commits::read_frame;

fn open(path: &Path) -> OwnedFd {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
}

fn write(root: &Path, name: &str, text: &str) {
    let file = root.join(name);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

fn id(digit: char) -> String {
    digit.to_string().repeat(40)
}

fn sent(root: &Path) -> Vec<(Frame, String)> {
    let stream = tempfile::tempfile().unwrap();
    super::send(&open(root), stream.try_clone().unwrap().into()).unwrap();
    let mut stream = stream;
    std::io::Seek::rewind(&mut stream).unwrap();
    let mut frames = Vec::new();
    loop {
        let frame = read_frame(&mut stream).unwrap();
        let bytes = match &frame {
            Frame::Object { bytes, .. } | Frame::Pack { bytes } => *bytes,
            Frame::Ref { .. } | Frame::Left { .. } | Frame::Failed { .. } => 0,
            Frame::End => return frames,
        };
        let mut body = String::new();
        std::io::Read::read_to_string(&mut std::io::Read::take(&mut stream, bytes), &mut body)
            .unwrap();
        frames.push((frame, body));
    }
}

// ATTACK: 178
#[test]
fn refs_and_objects_are_sent_and_nothing_else_of_a_repository() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path();
    write(root, ".git/HEAD", "ref: refs/heads/main\n");
    write(root, ".git/refs/heads/main", &format!("{}\n", id('a')));
    write(root, ".git/objects/aa/11", "no id");
    write(
        root,
        &format!(".git/objects/aa/{}", &id('a')[2..]),
        "object",
    );
    write(
        root,
        &format!(".git/objects/pack/pack-{}.pack", id('b')),
        "pack",
    );
    write(
        root,
        &format!(".git/objects/pack/pack-{}.idx", id('b')),
        "SECRET",
    );
    write(root, ".git/objects/pack/pack-x.pack", "SECRET");
    write(root, ".git/objects/info/alternates", "/SECRET\n");
    for odd in [
        "config",
        "hooks/post-checkout",
        "index",
        "logs/HEAD",
        "info/attributes",
        "modules/m/config",
        "refs/stash",
        "worktrees/w/HEAD",
        "objects/info/commit-graph",
        "objects/zz/SECRET",
    ] {
        write(root, &format!(".git/{odd}"), "SECRET");
    }
    write(root, "host", "SECRET");
    symlink(
        root.join("host"),
        root.join(format!(".git/objects/aa/{}", &id('c')[2..])),
    )
    .unwrap();
    symlink(root.join("host"), root.join(".git/refs/heads/linked")).unwrap();
    symlink(root, root.join(".git/objects/cc")).unwrap();
    let frames = sent(root);
    assert!(!format!("{frames:?}").contains("SECRET"), "{frames:?}");
    let bodies: String = frames.iter().map(|(_, body)| &**body).collect();
    assert_eq!(bodies, "objectpack");
    let refs = frames
        .iter()
        .filter(|(frame, _)| matches!(frame, Frame::Ref { .. }));
    assert_eq!(refs.count(), 1);
    let told = format!("{frames:?}");
    for left in ["refs/heads/linked", "objects/info/alternates", "objects/cc"] {
        assert!(told.contains(left), "{left}: {told}");
    }
}

#[test]
fn a_repository_that_lies_elsewhere_says_so() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path();
    let says = |text: &str| {
        let frames = sent(root);
        assert_eq!(frames.len(), 1, "{frames:?}");
        assert!(
            matches!(&frames[0].0, Frame::Failed { why } if why.contains(text)),
            "{frames:?}"
        );
    };
    says("no `.git`");
    write(root, ".git", "gitdir: /elsewhere\n");
    says("worktree's or submodule's");
    std::fs::remove_file(root.join(".git")).unwrap();
    symlink("/", root.join(".git")).unwrap();
    says("worktree's or submodule's");
    std::fs::remove_file(root.join(".git")).unwrap();
    write(root, ".git/reftable/tables.list", "");
    says("reftable");
    std::fs::remove_dir_all(root.join(".git/reftable")).unwrap();
    write(root, ".git/commondir", "..");
    says("a worktree's");
    std::fs::remove_file(root.join(".git/commondir")).unwrap();
    write(
        root,
        ".git/packed-refs",
        &format!("{} refs/heads/a\n", "a".repeat(64)),
    );
    says("SHA-256");
}

#[test]
fn a_diff_says_which_refs_differ() {
    let place = tempfile::tempdir().unwrap();
    let (ours, theirs) = (place.path().join("ours"), place.path().join("theirs"));
    for side in [&ours, &theirs] {
        write(side, ".git/refs/heads/main", &format!("{}\n", id('a')));
        write(side, ".git/refs/heads/same", &format!("{}\n", id('b')));
        write(side, ".git/refs/heads/-odd", "x");
    }
    assert_eq!(heading(&open(&ours), &open(&theirs)), Vec::<String>::new());
    write(&theirs, ".git/refs/heads/main", &format!("{}\n", id('c')));
    write(&theirs, ".git/refs/tags/v\x1b[2J", "x");
    write(
        &theirs,
        ".git/packed-refs",
        &format!("{} refs/heads/fresh\n", id('d')),
    );
    let lines = heading(&open(&ours), &open(&theirs));
    assert_eq!(
        lines,
        [
            "commits: branches and tags that differ; `torno session commits` brings them",
            &format!("  new    refs/heads/fresh  {}", id('d')),
            &format!("  moved  refs/heads/main  {} -> {}", id('a'), id('c')),
            "  left   refs/tags/v\\u{1b}[2J: git allows no such name, or it reads like something \
             else",
        ]
    );
}
