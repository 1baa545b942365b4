// SPDX-License-Identifier: Apache-2.0
//! What a hostile machine may send, and what of it comes out.

use super::*;
use bytes::{Bytes, BytesMut};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use torno_guest_protocol::ArchiveWriter;

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["target", "before", "outside"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        Self { dir }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn read(&self, bytes: &[u8], files: &FileRules) -> anyhow::Result<PorterReply> {
        let mut stream = tempfile::tempfile()?;
        stream.write_all(bytes)?;
        std::io::Seek::rewind(&mut stream)?;
        let (target, before) = (open(&self.at("target")), open(&self.at("before")));
        super::read(&target, &before, stream.into(), 1 << 20, files)
    }

    /// What is outside has not changed.
    fn assert_kept(&self) {
        let outside: Vec<_> = std::fs::read_dir(self.at("outside")).unwrap().collect();
        assert!(outside.is_empty(), "{outside:?}");
        let mode = std::fs::metadata(self.at("outside")).unwrap().permissions();
        assert_eq!(mode.mode() & 0o7777, 0o755);
        assert!(!self.at("x").exists());
    }
}

fn open(path: &Path) -> OwnedFd {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    rustix::fs::open(path, flags, Mode::empty()).unwrap()
}

fn rules(write: Option<&[&str]>, hide: &[&str]) -> FileRules {
    let all = |rules: &[&str]| rules.iter().map(|&rule| rule.to_owned()).collect();
    FileRules {
        write: write.map(all),
        hide: all(hide),
    }
}

/// An archive of files (`a/b=text`, `a/b*=text`), links (`a -> b`) and directories (`a/`) in order.
fn archive(entries: &[&str]) -> BytesMut {
    let (mut writer, mut out) = (ArchiveWriter::new(1 << 20), BytesMut::new());
    let mut put = |piece: ArchivePiece| writer.put(&piece, &mut out).unwrap();
    let name = |text: &str| FileName::parse(text.as_bytes()).unwrap();
    let mut path: Vec<&str> = Vec::new();
    for entry in entries {
        let (place, said) = match entry.split_once(" -> ") {
            Some((place, target)) => (place, Some((target, true))),
            None => entry
                .split_once('=')
                .map_or((*entry, None), |(place, text)| (place, Some((text, false)))),
        };
        let parts: Vec<&str> = place.trim_end_matches('/').split('/').collect();
        let (last, parents) = parts.split_last().unwrap();
        while !parents.starts_with(&path) {
            path.pop();
            put(ArchivePiece::Leave);
        }
        for parent in &parents[path.len()..] {
            put(ArchivePiece::Directory(name(parent)));
            path.push(parent);
        }
        match said {
            None => {
                put(ArchivePiece::Directory(name(last)));
                path.push(last);
            }
            Some((target, true)) => put(ArchivePiece::Link {
                name: name(last),
                target: Bytes::copy_from_slice(target.as_bytes()),
            }),
            Some((text, false)) => {
                put(ArchivePiece::File {
                    name: name(last.trim_end_matches('*')),
                    is_program: last.ends_with('*'),
                });
                if !text.is_empty() {
                    put(ArchivePiece::Content(Bytes::copy_from_slice(
                        text.as_bytes(),
                    )));
                }
                put(ArchivePiece::FileEnd);
            }
        }
    }
    for _ in &path {
        put(ArchivePiece::Leave);
    }
    put(ArchivePiece::End);
    out
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

// ATTACK: 171
#[test]
fn a_tree_comes_out_as_ordinary_files_of_the_callers_own() {
    let place = Place::new();
    let bytes = archive(&["a/b/deep=deep", "a/run*=#!", "empty/", "l -> a/b"]);
    place.read(&bytes, &FileRules::default()).unwrap();
    assert_eq!(text(&place.at("target/a/b/deep")), "deep");
    let mode = |path: &str| {
        let found = std::fs::symlink_metadata(place.at(path)).unwrap();
        found.permissions().mode() & 0o7777
    };
    assert_eq!(mode("target/a/b/deep"), 0o600);
    assert_eq!(mode("target/a/run"), 0o700);
    assert_eq!(mode("target/a"), 0o700);
    assert!(place.at("target/empty").is_dir());
    assert_eq!(
        std::fs::read_link(place.at("target/l")).unwrap(),
        Path::new("a/b")
    );
}

// ATTACK: 164, 169
#[test]
fn a_link_that_came_out_is_never_written_through() {
    let place = Place::new();
    let outside = place.at("outside").display().to_string();
    // By the form: the name is taken. Written by hand, since no writer of ours would.
    let mut bytes = BytesMut::new();
    bytes.extend_from_slice(b"\x04\x01d\x00");
    bytes.extend_from_slice(&[u8::try_from(outside.len()).unwrap()]);
    bytes.extend_from_slice(outside.as_bytes());
    bytes.extend_from_slice(b"\x01\x01d\x03\x01f\x00\x00\x01x\x00\x00\x02\x05");
    assert!(place.read(&bytes, &FileRules::default()).is_err());
    place.assert_kept();
    // By what was there before: a place that the rules keep lies below what is a link now.
    let place = Place::new();
    std::fs::create_dir(place.at("before/d")).unwrap();
    std::fs::write(place.at("before/d/f"), "kept").unwrap();
    let outside = place.at("outside").display().to_string();
    let bytes = archive(&[&format!("d -> {outside}")]);
    let error = place.read(&bytes, &rules(None, &["d/f"])).unwrap_err();
    assert!(format!("{error:#}").contains("d/f"), "{error:#}");
    place.assert_kept();
}

// ATTACK: 164
#[test]
fn what_lies_in_the_target_is_never_opened() {
    let place = Place::new();
    symlink(place.at("outside"), place.at("target/d")).unwrap();
    symlink(place.at("x"), place.at("target/f")).unwrap();
    assert!(
        place
            .read(&archive(&["d/f=x"]), &FileRules::default())
            .is_err()
    );
    assert!(
        place
            .read(&archive(&["f=x"]), &FileRules::default())
            .is_err()
    );
    place.assert_kept();
}

// ATTACK: 166, 172
#[test]
fn malformed_cut_and_oversized_streams_are_errors() {
    let place = Place::new();
    let whole = archive(&["a/b=1", "c=2"]);
    for cut in 0..whole.len() {
        let place = Place::new();
        let cut = place.read(&whole[..cut], &FileRules::default());
        assert!(cut.is_err());
    }
    for bytes in [
        &b"\x03\x04../x\x00\x00\x00\x05"[..],
        b"\x03\x02/x\x00\x00\x00\x05",
        b"\x01\x02..\x02\x05",
        b"\x05\x05",
    ] {
        assert!(
            place.read(bytes, &FileRules::default()).is_err(),
            "{bytes:?}"
        );
    }
    // A byte of JSON would be shorter than a mebibyte of zeros: what counts is what is written.
    let mut bomb = BytesMut::from(&b"\x03\x01f\x00"[..]);
    for _ in 0..40 {
        bomb.extend_from_slice(&[0x80, 0]);
        bomb.resize(bomb.len() + 0x8000, 0);
    }
    let error = place.read(&bomb, &FileRules::default()).unwrap_err();
    assert!(format!("{error:#}").contains("larger than"), "{error:#}");
    place.assert_kept();
}

#[test]
fn what_programs_may_not_write_is_what_it_was() {
    let place = Place::new();
    for directory in ["src/gen", "secret", "kept"] {
        std::fs::create_dir_all(place.at(&format!("before/{directory}"))).unwrap();
    }
    for (path, text) in [
        ("src/main.rs", "main"),
        ("src/gen/old.rs", "old"),
        ("secret/key", "key"),
        ("kept/run", "run"),
        ("notes.txt", "before"),
    ] {
        std::fs::write(place.at(&format!("before/{path}")), text).unwrap();
    }
    symlink("kept/run", place.at("before/run")).unwrap();
    // A machine whose kernel was taken over sends what it likes.
    let bytes = archive(&[
        "forged/deep/x=x",
        "kept -> /etc",
        "notes.txt=after",
        "secret/key=stolen",
        "src/gen/new.rs=new",
        "src/main.rs=trojan",
    ]);
    let files = rules(
        Some(&["src/gen/**", "notes.txt", "secret/**"]),
        &["secret/**"],
    );
    place.read(&bytes, &files).unwrap();
    assert_eq!(text(&place.at("target/src/main.rs")), "main");
    assert_eq!(text(&place.at("target/src/gen/new.rs")), "new");
    assert!(
        !place.at("target/src/gen/old.rs").exists(),
        "it was deleted"
    );
    assert_eq!(text(&place.at("target/secret/key")), "key");
    assert_eq!(text(&place.at("target/kept/run")), "run");
    assert_eq!(text(&place.at("target/notes.txt")), "after");
    assert!(!place.at("target/forged").exists());
    assert_eq!(text(&place.at("target/run")), "run");
}

#[test]
fn a_name_that_could_not_be_shown_is_refused() {
    let place = Place::new();
    let bytes = b"\x03\x02\xff\xfe\x00\x00\x00\x05";
    let error = place.read(bytes, &FileRules::default()).unwrap_err();
    assert!(format!("{error:#}").contains("UTF-8"), "{error:#}");
}
