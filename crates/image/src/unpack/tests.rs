// SPDX-License-Identifier: Apache-2.0
//! Layers, honest and hostile, over each other. Beside the root lies what must not change.

use super::*;
use crate::archive::tests::Forge;
use rustix::fs::{Mode, OFlags};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

/// A root directory, and a neighbour that nothing may touch.
struct Ground {
    _directory: tempfile::TempDir,
    root: PathBuf,
    outside: PathBuf,
}

impl Ground {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (root, outside) = (
            directory.path().join("root"),
            directory.path().join("outside"),
        );
        for path in [&root, &outside] {
            fs::create_dir(path).unwrap();
        }
        fs::set_permissions(&outside, fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(outside.join("kept"), "kept").unwrap();
        Self {
            _directory: directory,
            root,
            outside,
        }
    }

    fn open(&self) -> OwnedFd {
        rustix::fs::open(
            &self.root,
            OFlags::DIRECTORY | OFlags::RDONLY,
            Mode::empty(),
        )
        .unwrap()
    }

    fn unpack(&self, layers: &[Vec<u8>]) -> Result<Unpacked, UnpackError> {
        self.unpack_within(layers, Limits::default())
    }

    fn unpack_within(&self, layers: &[Vec<u8>], limits: Limits) -> Result<Unpacked, UnpackError> {
        let mut unpacker = Unpacker::new(self.open(), limits);
        for layer in layers {
            let said = crate::digest::of(layer).unwrap();
            unpacker.add(layer.as_slice(), &said)?;
        }
        Ok(unpacker.unpacked())
    }

    fn has(&self, path: &str) -> bool {
        fs::symlink_metadata(self.root.join(path)).is_ok()
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap()
    }

    /// The neighbour is as it was.
    #[track_caller]
    fn untouched(&self) {
        let names: Vec<_> = fs::read_dir(&self.outside).unwrap().flatten().collect();
        assert_eq!(names.len(), 1, "{names:?}");
        let kept = fs::metadata(self.outside.join("kept")).unwrap();
        assert_eq!((kept.nlink(), kept.len()), (1, 4));
        let mode = fs::metadata(&self.outside).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o700);
    }
}

/// Layers that aim at a directory outside.
type Attempt = fn(&str) -> Vec<Vec<u8>>;

fn forge() -> Forge {
    Forge::default()
}

// ATTACK: 169
#[test]
fn nothing_is_written_through_a_link_that_an_archive_made() {
    let outside = |ground: &Ground| ground.outside.display().to_string();
    let attempts: [Attempt; 9] = [
        |out| vec![forge().link("d", out).file("d/f", "x").end()],
        |out| vec![forge().link("d", out).end(), forge().file("d/f", "x").end()],
        |_| vec![forge().link("d", "../outside").file("d/f", "x").end()],
        |out| vec![forge().link("d", out).directory("d/e").end()],
        |out| vec![forge().link("d", out).link("d/l", "x").end()],
        |out| {
            vec![
                forge()
                    .link("k", &format!("{out}/kept"))
                    .hard_link("h", "k")
                    .end(),
            ]
        },
        |out| vec![forge().link("d", out).hard_link("h", "d/kept").end()],
        |out| {
            vec![
                forge().link("d", out).end(),
                forge().file("d/.wh.kept", "").end(),
            ]
        },
        |out| {
            vec![
                forge().link("d", out).end(),
                forge().file("d/.wh..wh..opq", "").end(),
            ]
        },
    ];
    for (at, attempt) in attempts.iter().enumerate() {
        let ground = Ground::new();
        let refused = ground.unpack(&attempt(&outside(&ground)));
        assert!(
            matches!(refused, Err(UnpackError::Through(_))),
            "{at}: {refused:?}"
        );
        ground.untouched();
    }
}

// ATTACK: 169
#[test]
fn a_directory_that_becomes_a_link_and_the_other_way_round_stays_inside() {
    let ground = Ground::new();
    let out = ground.outside.display().to_string();
    let layers = [
        forge().directory("d").file("d/f", "first").end(),
        forge().link("d", &out).end(),
        forge().directory("d").file("d/f", "third").end(),
    ];
    ground.unpack(&layers).unwrap();
    assert_eq!(ground.read("d/f"), "third");
    ground.untouched();
    let ground = Ground::new();
    let layer = forge().file("f", "x").file("f/g", "y").end();
    assert!(matches!(
        ground.unpack(&[layer]),
        Err(UnpackError::Through(_))
    ));
}

// ATTACK: 171
#[test]
fn rights_owners_and_attributes_of_an_archive_are_cut_down() {
    let ground = Ground::new();
    let out = ground.outside.display().to_string();
    let pax = [("SCHILY.xattr.security.capability", "x"), ("uid", "0")];
    let layer = forge()
        .directory("d")
        .pax(&pax)
        .file("d/set-id", "x")
        .file("d/b", "x");
    ground.unpack(&[layer.end()]).unwrap();
    let found = fs::metadata(ground.root.join("d/set-id")).unwrap();
    assert_eq!(found.mode() & 0o7777, 0o755);
    assert_eq!(found.uid(), rustix::process::geteuid().as_raw());
    assert_eq!(found.mtime(), 1_700_000_000);
    let directory = fs::metadata(ground.root.join("d")).unwrap();
    assert_eq!(directory.mode() & 0o7777, 0o755);
    // A directory whose path is a link to one outside: the link makes way, the outside stays.
    symlink(&out, ground.root.join("l")).unwrap();
    ground.unpack(&[forge().directory("l").end()]).unwrap();
    assert!(
        fs::symlink_metadata(ground.root.join("l"))
            .unwrap()
            .is_dir()
    );
    ground.untouched();
}

// ATTACK: 145
#[test]
fn devices_and_fifos_of_an_archive_are_left_out() {
    let ground = Ground::new();
    let mut layer = forge().directory("dev");
    for (name, kind) in [("dev/kmsg", b'3'), ("dev/vda", b'4'), ("dev/fifo", b'6')] {
        layer = layer.entry(name, kind, b"", "");
    }
    let unpacked = ground.unpack(&[layer.end()]).unwrap();
    assert_eq!(unpacked.left_out, 3);
    assert_eq!(fs::read_dir(ground.root.join("dev")).unwrap().count(), 0);
}

#[test]
fn removals_take_what_lower_layers_have_and_nothing_of_their_own() {
    let ground = Ground::new();
    let lower = || {
        let layer = forge().directory("d").file("d/a", "1").file("d/b", "1");
        layer
            .directory("d/e")
            .file("d/e/f", "1")
            .file("d/e/g", "1")
            .end()
    };
    ground
        .unpack(&[
            lower(),
            forge().file("d/.wh.a", "").file("d/.wh.none", "").end(),
        ])
        .unwrap();
    assert!(!ground.has("d/a") && ground.has("d/b") && !ground.has("d/.wh.a"));
    // The same wherever the removal of all stands in its layer.
    let opaque = ".wh..wh..opq";
    let upper = [
        forge()
            .file(&format!("d/{opaque}"), "")
            .file("d/e/g", "2")
            .file("d/c", "2")
            .end(),
        forge()
            .file("d/e/g", "2")
            .file("d/c", "2")
            .file(&format!("d/{opaque}"), "")
            .end(),
    ];
    for upper in upper {
        let ground = Ground::new();
        ground.unpack(&[lower(), upper]).unwrap();
        let there = ["d/a", "d/b", "d/e/f", "d/e/g", "d/c"].map(|path| ground.has(path));
        assert_eq!(there, [false, false, false, true, true]);
        assert_eq!(ground.read("d/e/g"), "2");
    }
    for layer in [
        forge().file("d/x", "").file("d/.wh.x", "").end(),
        forge().file("d/x/y", "").file("d/.wh.x", "").end(),
        forge().file(".wh.", "").end(),
        forge().file(".wh...", "").end(),
        forge().file(".wh..wh.plnk", "").end(),
        forge().file(".wh..wh.aufs", "").end(),
        forge().file("d/.wh.a", "content").end(),
        forge().directory("d/.wh.a").end(),
    ] {
        let ground = Ground::new();
        assert!(ground.unpack(&[lower(), layer]).is_err());
    }
}

#[test]
fn two_entries_of_one_layer_at_one_place_are_refused() {
    for layer in [
        forge().file("a", "1").file("a", "2"),
        forge().file("a", "1").file("./a", "2"),
        forge().directory("a").file("a", "2"),
        forge().link("a", "b").hard_link("a", "c"),
    ] {
        let refused = Ground::new().unpack(&[layer.end()]);
        assert!(matches!(refused, Err(UnpackError::Twice(_))), "{refused:?}");
    }
    let ground = Ground::new();
    let twice = forge().directory("a").file("a/b", "1").directory("a").end();
    ground.unpack(&[twice]).unwrap();
    assert_eq!(ground.read("a/b"), "1");
    let link = forge().link("a", "b").directory("a").end();
    assert!(Ground::new().unpack(&[link]).is_err());
}

#[test]
fn hard_links_name_files_of_any_layer_and_a_new_file_is_not_written_into_them() {
    let ground = Ground::new();
    let layers = [
        forge().file("a", "first").hard_link("b", "a").end(),
        forge().hard_link("c", "b").file("a", "second").end(),
    ];
    ground.unpack(&layers).unwrap();
    assert_eq!(
        (ground.read("a"), ground.read("b")),
        ("second".into(), "first".into())
    );
    assert_eq!(ground.read("c"), "first");
    for target in ["none", "d"] {
        let layer = forge().directory("d").hard_link("x", target).end();
        assert!(Ground::new().unpack(&[layer]).is_err(), "{target}");
    }
}

// ATTACK: 172
#[test]
fn an_image_that_is_larger_than_it_may_be_is_ended() {
    let small = Limits {
        bytes: 1000,
        entries: 3,
        ..Limits::default()
    };
    let large = "x".repeat(600);
    let two = forge().file("a", &large).file("b", &large).end();
    let over = Ground::new().unpack_within(&[two], small.clone());
    assert!(matches!(over, Err(UnpackError::Limit("bytes"))), "{over:?}");
    let layers = [
        forge().file("a", &large).end(),
        forge().file("b", &large).end(),
    ];
    let over = Ground::new().unpack_within(&layers, small.clone());
    assert!(matches!(over, Err(UnpackError::Limit("bytes"))), "{over:?}");
    let many = forge()
        .directory("a")
        .directory("b")
        .directory("c")
        .directory("d")
        .end();
    let over = Ground::new().unpack_within(&[many], small);
    assert!(
        matches!(over, Err(UnpackError::Limit("entries"))),
        "{over:?}"
    );
    // A file that says a terabyte and has none.
    let head = crate::archive::tests_block(b"a", 1 << 40);
    let over = Ground::new().unpack(&[head]);
    assert!(matches!(over, Err(UnpackError::Limit("bytes"))), "{over:?}");
}

#[test]
fn a_layer_that_unpacks_to_something_else_than_was_said_is_refused() {
    let ground = Ground::new();
    let mut unpacker = Unpacker::new(ground.open(), Limits::default());
    let other = crate::digest::of(b"other").unwrap();
    let added = unpacker.add(forge().file("a", "x").end().as_slice(), &other);
    assert!(matches!(added, Err(UnpackError::Other { .. })));
}

#[test]
fn behind_the_wall_nothing_but_the_two_directories_is_reached() {
    let ground = Ground::new();
    let outside = ground.outside.clone();
    let (read, write) = (ground.open(), ground.open());
    let root = ground.root.clone();
    let tried = behind_a_wall(&read, &write, || {
        let inside = fs::write(root.join("inside"), "x").is_ok();
        let read = fs::read(outside.join("kept")).is_ok();
        Ok((inside, read, fs::write(outside.join("new"), "x").is_ok()))
    });
    assert_eq!(tried.unwrap(), (true, false, false));
    ground.untouched();
}
