// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::directory::SegmentName;
use crate::record::samples::{AT_MS, directory, key, numbered, opening, other_key};
use crate::{Durability, Recorder};
use std::fs;
use tempfile::TempDir;

fn append(recorder: &mut Recorder, numbers: std::ops::Range<u64>) {
    let batch = numbers.map(|number| (numbered(number), ())).collect();
    recorder.append(batch, Durability::Synced).unwrap().clear();
}

/// Three segments, one pruned, closed.
fn filled() -> TempDir {
    let dir = directory();
    let mut recorder = Recorder::open(dir.path(), key(), opening()).unwrap();
    for part in 0..3 {
        append(&mut recorder, part * 2..part * 2 + 2);
        recorder.rotate().unwrap();
    }
    recorder.prune(3, AT_MS).unwrap();
    append(&mut recorder, 6..8);
    recorder.close().unwrap();
    dir
}

// ATTACK: 214
#[test]
fn every_flipped_bit_of_every_file_is_found() {
    let dir = filled();
    verify(dir.path(), key().public(), &[]).unwrap();
    let mut flips = 0;
    for file in fs::read_dir(dir.path()).unwrap() {
        let path = file.unwrap().path();
        if path.ends_with("reserve") {
            continue;
        }
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            for bit in [0, 5, 7] {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                fs::write(&path, &bytes).unwrap();
                let found = verify(dir.path(), key().public(), &[]);
                assert!(found.is_err(), "{path:?} byte {at} bit {bit}");
                flips += 1;
            }
        }
        fs::write(&path, whole).unwrap();
    }
    assert!(flips > 9_000, "{flips}");
    verify(dir.path(), key().public(), &[]).unwrap();
}

// ATTACK: 214
#[test]
fn a_fault_is_reported_with_segment_line_and_byte() {
    let dir = filled();
    let path = dir.path().join(SegmentName(3).file());
    let whole = fs::read(&path).unwrap();
    let second = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let mut bytes = whole.clone();
    bytes[second + 2] = b'x';
    fs::write(&path, &bytes).unwrap();
    match verify(dir.path(), key().public(), &[]).unwrap_err() {
        VerifyError::Segment {
            segment,
            line,
            byte,
            fault: SegmentFault::Line(_),
        } => {
            assert_eq!(segment, SegmentName(3).file());
            assert_eq!((line, byte), (2, u64::try_from(second).unwrap()));
        }
        error => panic!("{error}"),
    }
    // A line that is still a record: found by the next signed head, with the range.
    let text = String::from_utf8(whole).unwrap();
    fs::write(&path, text.replacen("\"exec\":2", "\"exec\":7", 1)).unwrap();
    match verify(dir.path(), key().public(), &[]).unwrap_err() {
        VerifyError::Segment {
            fault: SegmentFault::Root { after, size },
            ..
        } => assert_eq!((after, size), (3, 5)),
        error => panic!("{error}"),
    }
}

#[test]
fn lines_that_were_swapped_removed_or_doubled_are_found() {
    let dir = filled();
    let path = dir.path().join(SegmentName(3).file());
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let orders: [&[usize]; 4] = [&[0, 2, 1], &[0, 1], &[0, 1, 1, 2], &[1, 2]];
    for order in orders {
        let other: String = order.iter().map(|at| format!("{}\n", lines[*at])).collect();
        fs::write(&path, other).unwrap();
        assert!(
            verify(dir.path(), key().public(), &[]).is_err(),
            "{order:?}"
        );
    }
}

#[test]
fn another_key_verifies_nothing() {
    let dir = filled();
    assert!(verify(dir.path(), other_key().public(), &[]).is_err());
}

#[test]
fn an_empty_directory_is_no_record() {
    let dir = directory();
    let error = verify(dir.path(), key().public(), &[]).unwrap_err();
    assert!(matches!(error, VerifyError::Empty));
}

#[test]
fn records_after_the_newest_checkpoint_are_counted_as_unsigned() {
    let dir = directory();
    let mut recorder = Recorder::open(dir.path(), key(), opening()).unwrap();
    append(&mut recorder, 0..3);
    // A reader beside the writer.
    let report = verify(dir.path(), key().public(), &[]).unwrap();
    assert_eq!((report.records, report.unsigned), (4, 3));
    assert_eq!(report.head, recorder.head());
}

// ATTACK: 221
#[test]
fn a_fork_after_a_restored_backup_does_not_pass_with_a_head_that_was_kept() {
    let dir = directory();
    let mut recorder = Recorder::open(dir.path(), key(), opening()).unwrap();
    append(&mut recorder, 0..3);
    let early = recorder.close().unwrap();
    let backup = directory();
    for file in fs::read_dir(dir.path()).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), backup.path().join(file.file_name())).unwrap();
    }
    let go_on = |dir: &TempDir, numbers| {
        let mut recorder = Recorder::open(dir.path(), key(), opening()).unwrap();
        append(&mut recorder, numbers);
        recorder.close().unwrap()
    };
    let ours = go_on(&dir, 3..6);
    let theirs = go_on(&backup, 13..16);
    assert_eq!(ours.size, theirs.size);
    assert_ne!(ours.root, theirs.root);
    for dir in [&dir, &backup] {
        verify(dir.path(), key().public(), &[early]).unwrap();
        let error = verify(dir.path(), key().public(), &[early, ours, theirs]).unwrap_err();
        assert!(matches!(error, VerifyError::TwoHistories { .. }), "{error}");
    }
    // A whole log that is shorter than a kept head.
    let longer = go_on(&dir, 6..7);
    let error = verify(backup.path(), key().public(), &[longer]).unwrap_err();
    assert!(matches!(error, VerifyError::TwoHistories { .. }), "{error}");
}

// ATTACK: 221
#[test]
fn a_log_whose_checkpoint_file_is_of_another_history_does_not_pass() {
    let (ours, theirs) = (directory(), directory());
    for (dir, first) in [(&ours, 0), (&theirs, 10)] {
        let mut recorder = Recorder::open(dir.path(), key(), opening()).unwrap();
        append(&mut recorder, first..first + 3);
        recorder.close().unwrap();
    }
    fs::copy(
        theirs.path().join("checkpoint"),
        ours.path().join("checkpoint"),
    )
    .unwrap();
    let error = verify(ours.path(), key().public(), &[]).unwrap_err();
    assert!(matches!(error, VerifyError::TwoHistories { .. }), "{error}");
}

#[test]
fn records_whose_every_checkpoint_was_removed_do_not_pass() {
    let dir = directory();
    let mut recorder = Recorder::open(dir.path(), key(), opening()).unwrap();
    append(&mut recorder, 0..3);
    recorder.close().unwrap();
    fs::remove_file(dir.path().join("checkpoint")).unwrap();
    fs::remove_file(dir.path().join("checkpoints")).unwrap();
    let error = verify(dir.path(), key().public(), &[]).unwrap_err();
    assert!(matches!(error, VerifyError::Unsigned), "{error}");
}

#[test]
fn a_record_that_is_being_written_verifies_at_any_moment() {
    let dir = directory();
    let settings = crate::Settings {
        segment_bytes: 4096,
        reserve_bytes: 0,
    };
    let mut recorder = Recorder::open_with(dir.path(), key(), opening(), settings).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0..400 {
                append(&mut recorder, number..number + 1);
                recorder.checkpoint().unwrap();
            }
        });
        while !writer.is_finished() {
            verify(dir.path(), key().public(), &[]).unwrap();
        }
    });
    assert_eq!(recorder.head().size, 401);
}
