// SPDX-License-Identifier: Apache-2.0
use crate::record::samples::{AT_MS, directory, key, numbered, opening};
use crate::verify::{VerifyError, verify};
use crate::{Durability, Recorder, Records, TreeHead};
use std::fs;
use std::path::Path;
use torno_policy::names::RecordSeq;

fn filled(dir: &Path) -> (Recorder, Vec<TreeHead>) {
    let mut recorder = Recorder::open(dir, key(), opening()).unwrap();
    let mut heads = Vec::new();
    for part in 0..4 {
        let batch = (0..5)
            .map(|number| (numbered(part * 5 + number), ()))
            .collect();
        recorder.append(batch, Durability::Synced).unwrap().clear();
        heads.push(recorder.head());
        recorder.rotate().unwrap();
    }
    (recorder, heads)
}

#[test]
fn what_stays_after_a_prune_still_verifies_and_heads_before_it_still_compare() {
    let dir = directory();
    let (mut recorder, heads) = filled(dir.path());
    let pruned = recorder.prune(2, AT_MS).unwrap();
    assert_eq!((pruned.segments, pruned.first_kept), (3, RecordSeq(16)));
    let again = recorder.prune(2, AT_MS).unwrap();
    assert_eq!((again.segments, again.first_kept), (0, RecordSeq(16)));
    recorder.close().unwrap();
    let report = verify(dir.path(), key().public(), &heads).unwrap();
    assert_eq!((report.first, report.records), (16, 6));
    let first = Records::open(dir.path(), 0)
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(first.seq, RecordSeq(16));
    let recorder = Recorder::open(dir.path(), key(), opening()).unwrap();
    recorder.close().unwrap();
    verify(dir.path(), key().public(), &heads).unwrap();

    let mut forged = heads[0];
    forged.root = heads[1].root;
    let error = verify(dir.path(), key().public(), &[forged]).unwrap_err();
    assert!(matches!(error, VerifyError::TwoHistories { size: 6 }));
    forged.size += 1;
    let error = verify(dir.path(), key().public(), &[forged]).unwrap_err();
    assert!(matches!(error, VerifyError::Uncomparable { size: 7 }));
}

#[test]
fn one_segment_always_stays() {
    let dir = directory();
    let (mut recorder, _) = filled(dir.path());
    assert_eq!(recorder.prune(0, AT_MS).unwrap().segments, 4);
    recorder.close().unwrap();
    verify(dir.path(), key().public(), &[]).unwrap();
}

#[test]
fn a_prune_that_was_cut_off_leaves_a_shorter_prune() {
    let dir = directory();
    let (mut recorder, heads) = filled(dir.path());
    let kept = dir.path().join("segment-00000000000000000006.jsonl");
    let second = fs::read(&kept).unwrap();
    recorder.prune(2, AT_MS).unwrap();
    recorder.close().unwrap();
    // The second of three was not removed any more; the third was read back from nowhere.
    fs::write(&kept, second).unwrap();
    let error = verify(dir.path(), key().public(), &heads).unwrap_err();
    assert!(matches!(error, VerifyError::Segment { .. }), "{error}");
}

#[test]
fn segments_that_are_missing_without_a_record_of_it_are_a_gap() {
    let dir = directory();
    let (recorder, _) = filled(dir.path());
    recorder.close().unwrap();
    fs::remove_file(dir.path().join("segment-00000000000000000000.jsonl")).unwrap();
    let error = verify(dir.path(), key().public(), &[]).unwrap_err();
    assert!(matches!(error, VerifyError::Gap { first: 6 }), "{error}");
    fs::remove_file(dir.path().join("segment-00000000000000000011.jsonl")).unwrap();
    let error = verify(dir.path(), key().public(), &[]).unwrap_err();
    assert!(matches!(error, VerifyError::Segment { .. }), "{error}");
}
