// SPDX-License-Identifier: Apache-2.0
//! The copy as an archive.

use super::*;
use rustix::fs::{Mode, OFlags};
use std::os::unix::fs::symlink;
use std::path::Path;
use torno_guest_protocol::ArchiveReader;

/// What is sent: a line for each entry, and the bytes.
fn sent(place: &Path, bytes_max: u64, hide: &[&str]) -> anyhow::Result<Vec<String>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let directory = rustix::fs::open(place, flags, Mode::empty())?;
    let out = tempfile::tempfile()?;
    let hide: Vec<String> = hide.iter().map(|&rule| rule.to_owned()).collect();
    write(&directory, out.try_clone()?.into(), bytes_max, &hide)?;
    unpacked(out)
}

/// The lines of an archive.
pub(super) fn unpacked(mut out: File) -> anyhow::Result<Vec<String>> {
    let mut bytes = Vec::new();
    std::io::Seek::rewind(&mut out)?;
    out.read_to_end(&mut bytes)?;
    let mut reader = ArchiveReader::new(u64::MAX);
    reader.push(&bytes);
    let (mut lines, mut path) = (Vec::new(), Vec::new());
    let text = |name: &FileName| String::from_utf8_lossy(name.as_bytes()).into_owned();
    while let Some(piece) = reader.next_piece()? {
        match piece {
            ArchivePiece::Directory(name) => {
                path.push(text(&name));
                lines.push(format!("{}/", path.join("/")));
            }
            ArchivePiece::Leave => {
                path.pop();
            }
            ArchivePiece::File { name, is_program } => {
                let program = if is_program { "*" } else { "" };
                lines.push(format!("{}/{}{program}:", path.join("/"), text(&name)));
            }
            ArchivePiece::Content(bytes) => {
                let last = lines.last_mut().unwrap();
                last.push_str(&String::from_utf8_lossy(&bytes));
            }
            ArchivePiece::Link { name, target } => {
                let target = String::from_utf8_lossy(&target).into_owned();
                lines.push(format!("{}/{} -> {target}", path.join("/"), text(&name)));
            }
            ArchivePiece::FileEnd | ArchivePiece::End => {}
        }
    }
    assert!(reader.is_complete());
    Ok(lines)
}

fn tree() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let at = |path: &str| place.path().join(path);
    std::fs::create_dir_all(at("a/b/c")).unwrap();
    std::fs::write(at("a/b/c/deep"), "deep").unwrap();
    std::fs::write(at("a/z"), "z").unwrap();
    std::fs::write(at("a.txt"), "first").unwrap();
    symlink("/etc/passwd", at("link")).unwrap();
    std::fs::create_dir(at("secret")).unwrap();
    std::fs::write(at("secret/key"), "key").unwrap();
    place
}

// ATTACK: 173
#[test]
fn a_copy_is_sent_in_order_with_its_links_as_links() {
    let place = tree();
    let lines = sent(place.path(), 1 << 20, &[]).unwrap();
    let right = [
        "a/",
        "a/b/",
        "a/b/c/",
        "a/b/c/deep:deep",
        "a/z:z",
        "/a.txt:first",
        "/link -> /etc/passwd",
        "secret/",
        "secret/key:key",
    ];
    assert_eq!(lines, right);
}

#[test]
fn of_what_is_hidden_nothing_is_sent_but_that_it_is_there() {
    let place = tree();
    let lines = sent(place.path(), 1 << 20, &["secret/**", "a/z", "a/b", "none"]).unwrap();
    let right = [
        "a/",
        "a/b/",
        "a/z:",
        "/a.txt:first",
        "/link -> /etc/passwd",
        "secret/",
    ];
    assert_eq!(lines, right);
}

#[test]
fn a_copy_that_is_too_large_for_a_machine_is_refused_with_what_to_raise() {
    let place = tree();
    std::fs::write(place.path().join("large"), vec![0; 20_000]).unwrap();
    let error = sent(place.path(), 10_000, &[]).unwrap_err();
    let text = format!("{error:#}");
    assert!(
        text.contains("large") && text.contains("limits.memory"),
        "{text}"
    );
}
