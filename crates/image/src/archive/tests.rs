// SPDX-License-Identifier: Apache-2.0
//! Archives, ours and hostile ones.

use super::header::BLOCK;
use super::pack::{block, record};
use super::*;
use proptest::prelude::*;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::process::Command;

/// Writes archives that no honest tool would.
#[derive(Default)]
pub(crate) struct Forge(pub(crate) Vec<u8>);

impl Forge {
    pub(crate) fn entry(mut self, name: &str, kind: u8, content: &[u8], target: &str) -> Self {
        let size = if matches!(kind, b'0' | b'x' | b'g' | b'L' | b'K') {
            content.len()
        } else {
            0
        };
        let size = u64::try_from(size).unwrap();
        let head = block(
            name.as_bytes(),
            kind,
            (0o7777, size, 1_700_000_000),
            target.as_bytes(),
        );
        self.0.extend_from_slice(&head);
        self.0.extend_from_slice(content);
        let over = self.0.len() % BLOCK;
        if over > 0 {
            self.0.resize(self.0.len() + BLOCK - over, 0);
        }
        self
    }

    pub(crate) fn file(self, name: &str, content: &str) -> Self {
        self.entry(name, b'0', content.as_bytes(), "")
    }

    pub(crate) fn directory(self, name: &str) -> Self {
        self.entry(name, b'5', b"", "")
    }

    pub(crate) fn link(self, name: &str, target: &str) -> Self {
        self.entry(name, b'2', b"", target)
    }

    pub(crate) fn hard_link(self, name: &str, target: &str) -> Self {
        self.entry(name, b'1', b"", target)
    }

    pub(crate) fn pax(self, records: &[(&str, &str)]) -> Self {
        let mut text = Vec::new();
        for (key, value) in records {
            record(&mut text, key, value.as_bytes());
        }
        self.entry("pax", b'x', &text, "")
    }

    pub(crate) fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 2 * BLOCK, 0);
        self.0
    }
}

fn all(bytes: &[u8]) -> Result<Vec<(Entry, Vec<u8>)>, ArchiveError> {
    let mut archive = Reader::new(bytes);
    let mut entries = Vec::new();
    while let Some(entry) = archive.next_entry()? {
        let mut content = Vec::new();
        archive
            .read_to_end(&mut content)
            .map_err(ArchiveError::Read)?;
        entries.push((entry, content));
    }
    Ok(entries)
}

#[track_caller]
fn refused(forge: Forge) -> String {
    let error = all(&forge.end()).unwrap_err();
    error.to_string()
}

// ATTACK: 166
#[test]
fn a_name_that_leads_out_or_is_read_in_two_ways_is_refused() {
    let deep = "d/".repeat(65) + "f";
    let long = "n".repeat(256);
    for name in [
        "../x",
        "a/../../x",
        "/etc/x",
        "//x",
        "a//b",
        "a/./b",
        "a/..",
        "..",
        "",
        "././x",
        &deep,
    ] {
        refused(Forge::default().file(name, "x"));
        refused(Forge::default().pax(&[("path", name)]).file("fine", "x"));
        // A longer target is cut to its field, and another one then.
        if name.len() <= 100 {
            refused(Forge::default().hard_link("fine", name));
        }
    }
    refused(Forge::default().pax(&[("path", &long)]).file("fine", "x"));
    refused(Forge::default().pax(&[("path", "a\0b")]).file("fine", "x"));
    refused(
        Forge::default()
            .entry("L", b'L', b"../x\0", "")
            .file("fine", "x"),
    );
    for (name, plain) in [("./a", "a"), ("a\\b", "a\\b"), ("a b", "a b")] {
        let read = all(&Forge::default().file(name, "x").end()).unwrap();
        assert_eq!(read[0].0.path, EntryPath::parse(plain.as_bytes()).unwrap());
    }
    assert!(
        all(&Forge::default().directory("./").end()).unwrap()[0]
            .0
            .path
            .is_root()
    );
}

#[test]
fn what_stands_before_an_entry_is_bounded_and_said_once() {
    let forge = Forge::default;
    refused(forge().pax(&[("path", "a"), ("path", "b")]).file("c", ""));
    refused(
        forge()
            .pax(&[("path", "a")])
            .pax(&[("size", "0")])
            .file("c", ""),
    );
    refused(
        forge()
            .pax(&[("path", "a")])
            .entry("L", b'L', b"b\0", "")
            .file("c", ""),
    );
    refused(forge().entry("L", b'L', &[b'a'; 5000], "").file("c", ""));
    refused(forge().pax(&[("GNU.sparse.major", "1")]).file("c", ""));
    refused(
        forge()
            .pax(&[("size", "99999999999999999999")])
            .file("c", ""),
    );
    refused(forge().entry("g", b'g', b"8 path=a\n", "").file("c", ""));
    refused(forge().entry("sparse", b'S', b"", ""));
    refused(forge().pax(&[("path", "a")]));
    // A header of 1 TiB before an entry is refused before its first byte is taken.
    let mut huge = block(b"pax", b'x', (0o644, 1 << 40, 0), b"").to_vec();
    huge.extend_from_slice(&[0; 2 * BLOCK]);
    assert!(matches!(all(&huge), Err(ArchiveError::Header(_))));
    let comment = forge()
        .entry("g", b'g', b"13 comment=a\n", "")
        .file("c", "x");
    assert_eq!(all(&comment.end()).unwrap().len(), 1);
}

#[test]
fn a_broken_archive_is_refused_where_it_breaks() {
    let good = Forge::default()
        .file("a", "content")
        .file("b", "more")
        .end();
    for cut in [1, BLOCK, BLOCK + 3, 2 * BLOCK + 1, 4 * BLOCK] {
        assert!(all(&good[..cut]).is_err(), "{cut}");
    }
    for at in [0, 100, 124, 148, 156, 257, 345] {
        let mut bad = good.clone();
        bad[at] ^= 0x11;
        assert!(all(&bad).is_err(), "{at}");
    }
    let sized = |kind| {
        let mut bytes = block(b"a", kind, (0o644, 7, 0), b"b").to_vec();
        bytes.extend_from_slice(&[0; 3 * BLOCK]);
        bytes
    };
    for kind in [b'5', b'2', b'1', b'3'] {
        assert!(all(&sized(kind)).is_err(), "{}", char::from(kind));
    }
    refused(Forge::default().file("directory/", "x"));
}

#[test]
fn rights_beyond_the_three_sets_are_dropped() {
    let read = all(&Forge::default().file("a", "x").end()).unwrap();
    assert_eq!(read[0].0.mode, 0o777);
}

/// A directory with all that an archive can hold.
fn sample(at: &std::path::Path) {
    let deep = at.join("d".repeat(80)).join("e".repeat(80));
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(deep.join("file"), "deep").unwrap();
    std::fs::write(at.join("grüße"), "non-ascii").unwrap();
    std::fs::write(at.join("empty"), "").unwrap();
    std::fs::write(at.join("large"), vec![7; 100_000]).unwrap();
    symlink("../".repeat(60), at.join("link")).unwrap();
    std::fs::hard_link(at.join("large"), at.join("other")).unwrap();
}

/// Paths, kinds and contents; a hard link is read as the file that it names.
fn simple(bytes: &[u8]) -> Vec<(String, String, usize)> {
    let read = all(bytes).unwrap();
    let size_of = |path: &EntryPath| {
        let found = read.iter().find(|(entry, _)| entry.path == *path);
        found.map_or(0, |(_, content)| content.len())
    };
    let mut simple: Vec<_> = read
        .iter()
        .filter(|(entry, _)| !entry.path.is_root())
        .map(|(entry, content)| {
            let path = entry.path.as_path().display().to_string();
            match &entry.kind {
                Kind::File(_) => (path, "file".to_owned(), content.len()),
                Kind::HardLink(target) => (path, "file".to_owned(), size_of(target)),
                other => (path, format!("{other:?}"), 0),
            }
        })
        .collect();
    simple.sort();
    simple
}

#[test]
fn what_tar_packs_in_every_format_is_read_as_what_we_pack() {
    let directory = tempfile::tempdir().unwrap();
    sample(directory.path());
    let mut ours = Vec::new();
    pack(std::fs::File::open(directory.path()).unwrap(), &mut ours).unwrap();
    let ours = simple(&ours);
    assert_eq!(ours.len(), 8);
    for format in ["gnu", "pax", "oldgnu"] {
        let packed = Command::new("tar")
            .args(["--format", format, "-cf", "-", "-C"])
            .arg(directory.path())
            .arg(".")
            .output()
            .unwrap();
        assert_eq!(simple(&packed.stdout), ours, "{format}");
    }
}

#[test]
fn tar_reads_what_we_pack_and_the_same_directory_gives_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    sample(directory.path());
    let packed = || {
        let mut bytes = Vec::new();
        pack(std::fs::File::open(directory.path()).unwrap(), &mut bytes).unwrap();
        bytes
    };
    let first = packed();
    assert_eq!(first, packed());
    let (archive, out) = (
        tempfile::NamedTempFile::new().unwrap(),
        tempfile::tempdir().unwrap(),
    );
    std::fs::write(archive.path(), &first).unwrap();
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(archive.path()).arg("-C").arg(out.path());
    assert!(tar.status().unwrap().success());
    let same = Command::new("diff")
        .args(["-r", "--no-dereference"])
        .args([directory.path(), out.path()])
        .status();
    assert!(same.unwrap().success());
}

#[test]
fn a_directory_with_a_name_that_would_remove_another_is_not_packed() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join(".wh.passwd"), "").unwrap();
    let packed = pack(
        std::fs::File::open(directory.path()).unwrap(),
        &mut Vec::new(),
    );
    assert!(matches!(packed, Err(PackError::Whiteout(_))));
}

proptest! {
    #[test]
    fn no_path_leads_out_of_the_root(text in proptest::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(path) = EntryPath::parse(&text) {
            let again = EntryPath::parse(if path.is_root() { b"./" } else { path.as_bytes() });
            prop_assert!(again.unwrap() == path);
            for part in path.as_path().components() {
                prop_assert!(matches!(part, std::path::Component::Normal(_)));
            }
        }
    }

    #[test]
    fn whatever_is_changed_in_an_archive_is_read_or_refused(
        at in 0_usize..3072, to in any::<u8>()
    ) {
        let mut bytes = Forge::default().pax(&[("path", "a/b")]).file("x", "content").end();
        if let Some(byte) = bytes.get_mut(at) {
            *byte = to;
        }
        crate::fuzz::fuzz_archive(&bytes);
    }
}
