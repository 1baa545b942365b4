// SPDX-License-Identifier: Apache-2.0
//! Trees as bytes.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn name(text: &str) -> FileName {
    FileName::parse(text.as_bytes()).unwrap()
}

fn directory(text: &str) -> ArchivePiece {
    ArchivePiece::Directory(name(text))
}

fn file(text: &str) -> ArchivePiece {
    ArchivePiece::File {
        name: name(text),
        is_program: false,
    }
}

fn link(text: &str, target: &[u8]) -> ArchivePiece {
    ArchivePiece::Link {
        name: name(text),
        target: Bytes::copy_from_slice(target),
    }
}

fn written(bytes_max: u64, pieces: &[ArchivePiece]) -> Result<BytesMut, ArchiveError> {
    let (mut writer, mut out) = (ArchiveWriter::new(bytes_max), BytesMut::new());
    for piece in pieces {
        writer.put(piece, &mut out)?;
    }
    Ok(out)
}

/// What the reader says to bytes that no writer of ours would make.
fn error_of(bytes: &[u8]) -> ArchiveError {
    let mut reader = ArchiveReader::new(1 << 16);
    reader.push(bytes);
    loop {
        match reader.next_piece() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("no error in {bytes:?}"),
            Err(error) => {
                assert_eq!(reader.next_piece(), Err(error), "an error is final");
                assert!(!reader.is_complete());
                return error;
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Node {
    Directory(BTreeMap<FileName, Node>),
    File(bool, Vec<u8>),
    Link(Vec<u8>),
}

fn any_name() -> impl Strategy<Value = FileName> {
    proptest::collection::vec(any::<u8>(), 1..6)
        .prop_filter_map("no component", |bytes| FileName::parse(&bytes).ok())
}

fn any_tree() -> impl Strategy<Value = BTreeMap<FileName, Node>> {
    let content = proptest::collection::vec(any::<u8>(), 0..70_000);
    let leaf = prop_oneof![
        (any::<bool>(), content).prop_map(|(is_program, bytes)| Node::File(is_program, bytes)),
        proptest::collection::vec(1_u8.., 1..20).prop_map(Node::Link),
    ];
    let node = leaf.prop_recursive(4, 24, 6, |inner| {
        proptest::collection::btree_map(any_name(), inner, 0..6).prop_map(Node::Directory)
    });
    proptest::collection::btree_map(any_name(), node, 0..6)
}

fn steps(tree: &BTreeMap<FileName, Node>, into: &mut Vec<ArchivePiece>) {
    for (name, node) in tree {
        let name = name.clone();
        match node {
            Node::Directory(below) => {
                into.push(ArchivePiece::Directory(name));
                steps(below, into);
                into.push(ArchivePiece::Leave);
            }
            Node::File(is_program, bytes) => {
                let is_program = *is_program;
                into.push(ArchivePiece::File { name, is_program });
                let pieces = bytes.chunks(ARCHIVE_PIECE_BYTES_MAX);
                into.extend(pieces.map(|b| ArchivePiece::Content(Bytes::copy_from_slice(b))));
                into.push(ArchivePiece::FileEnd);
            }
            Node::Link(target) => into.push(ArchivePiece::Link {
                name,
                target: Bytes::copy_from_slice(target),
            }),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_tree_is_read_as_it_was_written_however_it_is_cut(tree in any_tree(), cut in 1..5_000_usize) {
        let mut pieces = Vec::new();
        steps(&tree, &mut pieces);
        pieces.push(ArchivePiece::End);
        let bytes = written(1 << 30, &pieces).unwrap();
        let mut reader = ArchiveReader::new(1 << 30);
        let mut read = Vec::new();
        for part in bytes.chunks(cut) {
            prop_assert!(!reader.is_complete());
            reader.push(part);
            while let Some(piece) = reader.next_piece().unwrap() {
                read.push(piece);
            }
        }
        prop_assert!(reader.is_complete());
        prop_assert_eq!(read, pieces);
    }

    #[test]
    fn any_bytes_are_a_tree_in_its_one_spelling_or_none(bytes in proptest::collection::vec(0_u8..8, 0..64)) {
        fuzz_archive(&bytes);
    }
}

// ATTACK: 166
#[test]
fn a_name_in_an_archive_is_one_component_and_nothing_else() {
    let long = "x".repeat(256);
    for odd in ["", ".", "..", "a/b", "/", "/etc", "../x", "a\0", &long] {
        assert_eq!(
            FileName::parse(odd.as_bytes()),
            Err(ArchiveError::Name),
            "{odd:?}"
        );
    }
    for plain in ["...", "a b", "\\", "\u{e9}", "x".repeat(255).as_str()] {
        assert!(FileName::parse(plain.as_bytes()).is_ok(), "{plain:?}");
    }
    assert_eq!(error_of(b"\x01\x02.."), ArchiveError::Name);
    assert_eq!(error_of(b"\x03\x03a/b\0"), ArchiveError::Name);
    assert_eq!(error_of(b"\x04\x00"), ArchiveError::Name);
}

// ATTACK: 169
#[test]
fn a_link_is_never_a_directory_and_no_name_comes_twice() {
    // Link, then the same name as a directory: what a naive unpacker writes through.
    let through = b"\x04\x01d\x00\x04/tmp\x01\x01d\x03\x01f\x00";
    assert_eq!(error_of(through), ArchiveError::Order);
    assert_eq!(error_of(b"\x01\x01b\x02\x01\x01a"), ArchiveError::Order);
    let twice = written(1 << 16, &[file("a"), ArchivePiece::FileEnd, directory("a")]);
    assert_eq!(twice.unwrap_err(), ArchiveError::Order);
    assert_eq!(error_of(b"\x04\x01d\x00\x00"), ArchiveError::Target);
    assert_eq!(error_of(b"\x04\x01d\x00\x02a\0"), ArchiveError::Target);
    let long = written(1 << 16, &[link("l", &[b'x'; 4_096])]);
    assert_eq!(long.unwrap_err(), ArchiveError::Target);
}

// ATTACK: 171
#[test]
fn no_other_kind_of_entry_and_no_other_mode_can_be_said() {
    for kind in [0, 6, b'1', b'2', b'3', 255] {
        assert_eq!(error_of(&[kind]), ArchiveError::Kind, "{kind}");
    }
    for flag in [2, 4, 0o77, 255] {
        assert_eq!(error_of(&[3, 1, b'a', flag]), ArchiveError::Kind, "{flag}");
    }
    // A piece beyond what a writer makes would be a second spelling.
    let mut long = vec![3, 1, b'a', 0, 0x80, 1];
    long.resize(long.len() + 0x8001, 0);
    assert_eq!(error_of(&long), ArchiveError::Kind);
}

#[test]
fn an_end_that_is_none_is_no_whole_tree() {
    assert_eq!(error_of(b"\x02"), ArchiveError::Nesting);
    assert_eq!(error_of(b"\x01\x01a\x05"), ArchiveError::Nesting);
    assert_eq!(error_of(b"\x05\x05"), ArchiveError::Trailing);
    let whole = b"\x01\x01a\x03\x01f\x01\x00\x01x\x00\x00\x02\x05";
    for cut in 0..whole.len() {
        let mut reader = ArchiveReader::new(1 << 16);
        reader.push(&whole[..cut]);
        while reader.next_piece().unwrap().is_some() {}
        assert!(!reader.is_complete(), "{cut}");
    }
}

// ATTACK: 172
#[test]
fn bytes_entries_depth_and_paths_are_bounded_for_both_ends() {
    let full = Bytes::from(vec![0; 1_000]);
    let large = [file("a"), ArchivePiece::Content(full)];
    assert_eq!(
        written(1_000, &large).unwrap_err(),
        ArchiveError::Bytes { bytes_max: 1_000 }
    );
    let bytes = written(10_000, &large).unwrap();
    let mut reader = ArchiveReader::new(1_000);
    reader.push(&bytes);
    assert!(matches!(
        reader.next_piece(),
        Ok(Some(ArchivePiece::File { .. }))
    ));
    assert_eq!(
        reader.next_piece(),
        Err(ArchiveError::Bytes { bytes_max: 1_000 })
    );
    // Entries without content count too.
    let many: Vec<ArchivePiece> = (0..100).map(|n| link(&format!("{n:03}"), b"x")).collect();
    assert!(matches!(
        written(20_000, &many),
        Err(ArchiveError::Bytes { .. })
    ));
    let deep = vec![directory("d"); ARCHIVE_DEPTH_MAX + 1];
    assert_eq!(written(1 << 20, &deep).unwrap_err(), ArchiveError::Depth);
    assert!(written(1 << 20, &deep[1..]).is_ok());
    let long = vec![directory(&"x".repeat(255)); 17];
    assert_eq!(written(1 << 20, &long).unwrap_err(), ArchiveError::Path);
}
