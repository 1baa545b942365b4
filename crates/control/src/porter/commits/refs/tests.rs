// SPDX-License-Identifier: Apache-2.0
//! Tests of refs as somebody hostile writes them.

#![expect(clippy::string_slice, reason = "ids are ASCII")]

use super::*;
use std::os::unix::fs::symlink;
use std::path::Path;

const ID: &str = "0123456789abcdef0123456789abcdef01234567";

fn open(path: &Path) -> OwnedFd {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
}

fn packed_refs(text: &[u8]) -> anyhow::Result<Refs> {
    let mut refs = Refs::default();
    read_packed(text, &mut refs).map(|()| refs)
}

fn names(refs: &Refs) -> Vec<&str> {
    refs.at.keys().map(RefName::as_str).collect()
}

#[test]
fn packed_refs_are_read_as_git_writes_them() {
    let text = format!(
        "# pack-refs with: peeled fully-peeled sorted \n{ID} refs/heads/main\n\
         {ID} refs/remotes/origin/main\n{ID} refs/tags/v1\n^{ID}\n"
    );
    let refs = packed_refs(text.as_bytes()).unwrap();
    assert_eq!(names(&refs), ["refs/heads/main", "refs/tags/v1"]);
    assert!(refs.left.is_empty());
    assert_eq!(packed_refs(b"").unwrap(), Refs::default());
}

// ATTACK: 166
#[test]
fn packed_refs_in_another_form_are_none() {
    let long = format!("{ID} refs/heads/{}\n", "a".repeat(1 << 20));
    let twice = format!("{ID} refs/heads/a\n{ID} refs/heads/a\n");
    let short = format!("{} refs/heads/a\n", &ID[1..]);
    let upper = format!("{} refs/heads/a\n", ID.to_uppercase());
    let null = format!("{} refs/heads/a\n", "0".repeat(40));
    for (odd, says) in [
        (format!("{ID} refs/heads/a"), "no end"),
        (long, "line 1 is too long"),
        (twice, "line 2 has a name again"),
        (short, "line 1"),
        (upper, "line 1"),
        (null, "line 1"),
        (format!("{ID}\trefs/heads/a\n"), "line 1"),
        (format!(" {ID} refs/heads/a\n"), "line 1"),
        (format!("^{ID}\n"), "line 1"),
        (format!("{ID} refs/heads/a\n^{ID}\n^{ID}\n"), "line 3"),
        (format!("{ID} refs/heads/a\n# pack-refs with: \n"), "line 2"),
        (
            format!("{ID} refs/heads/a\n\n{ID} refs/heads/b\n"),
            "line 2",
        ),
        ("<<<<<<< HEAD\n".to_owned(), "line 1"),
        (format!("{} refs/heads/a\n", "a".repeat(64)), "SHA-256"),
    ] {
        let said = packed_refs(odd.as_bytes()).unwrap_err().to_string();
        assert!(said.contains(says), "{says}: {said}");
    }
}

// ATTACK: 166
#[test]
fn a_name_that_is_none_keeps_no_other_from_coming() {
    let odd: &[&[u8]] = &[
        b"refs/heads/../../config",
        b"refs/heads/a.lock",
        b"refs/heads/\x1b[2J",
        b"refs/heads/\xff",
        b"refs/heads/a\r",
        b"refs/heads/-x",
        b"refs/tags/",
    ];
    let mut text = Vec::new();
    for name in odd {
        text.extend_from_slice(format!("{ID} ").as_bytes());
        text.extend_from_slice(name);
        text.push(b'\n');
    }
    text.extend_from_slice(format!("{ID} refs/heads/good\n").as_bytes());
    let refs = packed_refs(&text).unwrap();
    assert_eq!(names(&refs), ["refs/heads/good"]);
    assert_eq!(refs.left.len(), odd.len());
}

#[test]
fn any_bytes_give_names_of_the_one_form_or_an_error() {
    // A small generator, so that the cases are the same each time (xorshift, Marsaglia 2003).
    let mut state = 88_172_645_463_325_252_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % 1_000_003).unwrap() % below
    };
    let pieces: &[&[u8]] = &[
        ID.as_bytes(),
        b" ",
        b"\n",
        b"^",
        b"#",
        b"refs/heads/",
        b"refs/tags/",
        b"a",
        b"..",
        b"/",
        b".lock",
        b"\0",
        b"\xc3",
        b"\xff",
        b"\r",
        b"@{",
    ];
    let mut read = 0;
    for _ in 0..20_000 {
        let mut text = Vec::new();
        for _ in 0..next(4) {
            text.extend_from_slice(ID.as_bytes());
            text.extend_from_slice(b" refs/heads/");
            for _ in 0..=next(3) {
                text.extend_from_slice(pieces[next(pieces.len())]);
            }
            text.push(b'\n');
        }
        let Ok(refs) = packed_refs(&text) else {
            continue;
        };
        read += refs.at.len();
        for name in refs.at.keys() {
            assert_eq!(RefName::parse(name.as_str()).as_ref(), Ok(name));
        }
    }
    assert!(read > 1000, "{read}");
}

// ATTACK: 166
#[test]
fn loose_refs_are_plain_files_with_an_id() {
    let place = tempfile::tempdir().unwrap();
    let git = place.path();
    let write = |name: &str, text: &str| {
        let file = git.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    write("HEAD", &format!("{}\n", "e".repeat(40)));
    write(
        "packed-refs",
        &format!("{ID} refs/heads/packed\n{ID} refs/heads/hidden\n"),
    );
    write("refs/heads/main", &format!("{ID}\n"));
    write("refs/heads/agent/fix", ID);
    write("refs/heads/agent/fix.lock", "");
    write("refs/heads/hidden", "ref: refs/heads/main\n");
    write("refs/heads/loop", "ref: refs/heads/loop\n");
    write("refs/heads/long", &"a".repeat(1 << 20));
    write("refs/heads/two", &format!("{ID}\n{ID}\n"));
    write("refs/heads/empty", "");
    write("refs/heads/@", ID);
    write("host", &format!("{ID}\n"));
    symlink(git.join("host"), git.join("refs/heads/link")).unwrap();
    symlink(git.join("refs/heads"), git.join("refs/heads/around")).unwrap();
    let mode = Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(open(git), "refs/heads/pipe", FileType::Fifo, mode, 0).unwrap();
    let refs = read(&open(git)).unwrap();
    assert_eq!(
        names(&refs),
        [
            "refs/heads/agent/fix",
            "refs/heads/main",
            "refs/heads/packed"
        ]
    );
    let left: Vec<&str> = refs.left.iter().map(|(what, _)| &**what).collect();
    let heads = [
        "@", "around", "empty", "hidden", "link", "long", "loop", "pipe", "two",
    ];
    let mut expected: Vec<String> = heads.map(|name| format!("refs/heads/{name}")).to_vec();
    expected.push("HEAD".to_owned());
    assert_eq!(left, expected);
}
