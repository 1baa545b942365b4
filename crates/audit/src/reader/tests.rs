// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::record::samples::{directory, key, numbered, opening};
use crate::{Durability, Recorder};
use std::fs;

#[test]
fn lines_come_with_their_byte_and_a_last_one_without_newline_says_so() {
    let mut lines = Lines::new(&b"ab\n\ncd"[..]);
    let mut read = Vec::new();
    while let Some(line) = lines.step().unwrap() {
        read.push((line.byte, line.bytes.to_vec(), line.ended));
    }
    let expected = [
        (0, b"ab".to_vec(), true),
        (3, b"".to_vec(), true),
        (4, b"cd".to_vec(), false),
    ];
    assert_eq!(read, expected);
}

// ATTACK: 218
#[test]
fn a_line_without_end_is_never_held_whole() {
    let endless = io::repeat(b'x').take(64 << 20);
    let mut lines = Lines::new(BufReader::new(endless));
    let line = lines.step().unwrap().unwrap();
    assert_eq!(line.bytes.len(), LINE_BYTES_MAX + 1);
    assert!(!line.ended);
    assert_eq!(line::parse(line.bytes), Err(LineError::Length));
}

#[test]
fn a_reader_beside_the_writer_stops_before_an_unfinished_line() {
    let dir = directory();
    let mut recorder = Recorder::open(dir.path(), key(), opening()).unwrap();
    let batch = vec![(numbered(0), ())];
    recorder.append(batch, Durability::Written).unwrap().clear();
    let path = dir.path().join("segment-00000000000000000000.jsonl");
    let mut bytes = fs::read(&path).unwrap();
    let whole = bytes.iter().position(|byte| *byte == 0).unwrap();
    bytes.truncate(whole);
    bytes.extend_from_slice(b"{\"seq\":2,\"at\":17");
    // At the end of the file, and in the room behind it.
    for room in [0, 1, 1 << 20] {
        let mut bytes = bytes.clone();
        bytes.resize(bytes.len() + room, 0);
        fs::write(&path, &bytes).unwrap();
        let read: Vec<_> = Records::open(dir.path(), 0).unwrap().collect();
        assert_eq!(read.len(), 2);
        assert!(read.iter().all(Result::is_ok));
    }

    bytes.truncate(whole);
    bytes.extend_from_slice(b"nonsense\n");
    fs::write(&path, &bytes).unwrap();
    let mut records = Records::open(dir.path(), 0).unwrap().skip(2);
    let error = records.next().unwrap().unwrap_err();
    let at = u64::try_from(whole).unwrap();
    assert!(matches!(error, ReadError::Damaged { byte, .. } if byte == at));
    assert!(records.next().is_none());
}

#[test]
fn the_printed_records_are_the_bytes_of_the_file() {
    let dir = directory();
    let mut recorder = Recorder::open(dir.path(), key(), opening()).unwrap();
    let batch = (0..20).map(|number| (numbered(number), ())).collect();
    recorder.append(batch, Durability::Synced).unwrap().clear();
    recorder.close().unwrap();
    let path = dir.path().join("segment-00000000000000000000.jsonl");
    let file = fs::read_to_string(path).unwrap();
    let (_, lines) = file.split_once('\n').unwrap();
    let exported: String = Records::open(dir.path(), 0)
        .unwrap()
        .map(|record| String::from_utf8(line::print(&record.unwrap())).unwrap() + "\n")
        .collect();
    assert_eq!(exported, lines);
    assert!(fuzz_reader(file.as_bytes()));
}
