// SPDX-License-Identifier: Apache-2.0
//! What is there after a crash: bytes cut off, sectors lost, files gone, bytes changed.

use super::*;
use tempfile::TempDir;

/// Copies a record up to `length` bytes of one of its files.
fn copy_cut(from: &Path, cut: &str, length: usize) -> TempDir {
    let to = directory();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        let mut bytes = fs::read(file.path()).unwrap();
        if file.file_name() == cut {
            bytes.truncate(length);
        }
        if file.file_name() != RESERVE {
            fs::write(to.path().join(file.file_name()), bytes).unwrap();
        }
    }
    to
}

// ATTACK: 214
#[test]
fn a_crash_at_any_byte_of_an_append_loses_at_most_the_unfinished_line() {
    let dir = directory();
    let mut recorder = Recorder::open_with(dir.path(), key(), opening(), without_disk()).unwrap();
    let acknowledged = recorder.length;
    let _evidence = write(&mut recorder, 0..3);
    drop(recorder);
    let name = SegmentName(0).file();
    let mut whole = fs::read(dir.path().join(&name)).unwrap();
    whole.truncate(whole.iter().position(|byte| *byte == 0).unwrap());
    fs::write(dir.path().join(&name), &whole).unwrap();
    let start = usize::try_from(acknowledged).unwrap();
    for cut in start..=whole.len() {
        let torn = copy_cut(dir.path(), &name, cut);
        let recorder = Recorder::open_with(torn.path(), key(), opening(), without_disk()).unwrap();
        recorder.close().unwrap();
        let lines = whole[start..cut]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        let rest = cut
            - start
            - whole[start..cut]
                .iter()
                .rposition(|b| *b == b'\n')
                .map_or(0, |at| at + 1);
        let read = events(torn.path());
        assert_eq!(
            read.len(),
            1 + lines + usize::from(rest > 0) + 1,
            "cut at {cut}"
        );
        if rest > 0 {
            let Event::RecordRecovered { dropped_bytes, .. } = read[1 + lines] else {
                panic!("no note of the cut at {cut}");
            };
            assert_eq!(usize::try_from(dropped_bytes).unwrap(), rest);
        }
        verify(torn.path(), key().public(), &[]).unwrap();
    }
    // Below what was signed nothing is repaired.
    for cut in 0..start {
        let torn = copy_cut(dir.path(), &name, cut);
        let opened = Recorder::open_with(torn.path(), key(), opening(), without_disk());
        assert!(opened.is_err(), "cut at {cut}");
        assert!(
            verify(torn.path(), key().public(), &[]).is_err(),
            "cut at {cut}"
        );
    }
}

/// Sectors reach the disk in any order: every set of those of an unflushed batch is tried.
// ATTACK: 214
#[test]
fn a_crash_that_loses_any_sectors_of_an_append_loses_what_nobody_was_told_of() {
    let dir = directory();
    let mut recorder = Recorder::open_with(dir.path(), key(), opening(), without_disk()).unwrap();
    let acknowledged = usize::try_from(recorder.length).unwrap();
    let _evidence = write(&mut recorder, 0..10);
    let end = usize::try_from(recorder.length).unwrap();
    drop(recorder);
    let name = SegmentName(0).file();
    let whole = fs::read(dir.path().join(&name)).unwrap();
    let sectors: Vec<_> = (acknowledged / 512..=end / 512).collect();
    assert!((3..10).contains(&sectors.len()), "{sectors:?}");
    for lost in 1_u32..1 << sectors.len() {
        let mut bytes = whole.clone();
        for (place, sector) in sectors.iter().enumerate() {
            if lost & (1 << place) != 0 {
                let from = (sector * 512).max(acknowledged);
                bytes[from..(sector + 1) * 512].fill(0);
            }
        }
        let there = bytes.iter().position(|byte| *byte == 0).unwrap();
        let lines = bytes[acknowledged..there].split(|byte| *byte == b'\n');
        let lines = lines.count() - 1;
        let torn = copy_cut(dir.path(), "", 0);
        fs::write(torn.path().join(&name), &bytes).unwrap();
        let recorder = Recorder::open_with(torn.path(), key(), opening(), without_disk()).unwrap();
        recorder.close().unwrap();
        let read = events(torn.path());
        // The opening, what is whole, the note of what was lost, the second opening.
        let kept = whole[..there]
            .iter()
            .rposition(|byte| *byte == b'\n')
            .unwrap()
            + 1;
        let last = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        let note = usize::from(last > kept);
        assert_eq!(read.len(), 1 + lines + note + 1, "{lost:b}");
        if note == 1 {
            let Event::RecordRecovered {
                dropped_bytes,
                dropped_sha256,
                ..
            } = &read[1 + lines]
            else {
                panic!("no note of {lost:b}");
            };
            assert_eq!(usize::try_from(*dropped_bytes).unwrap(), last - kept);
            assert_eq!(*dropped_sha256, crate::Digest::of(&bytes[kept..last]));
        }
        verify(torn.path(), key().public(), &[]).unwrap();
    }
}

/// A zero that no lost sector explains is damage, wherever it stands.
// ATTACK: 214
#[test]
fn a_zeroed_byte_of_the_newest_segment_is_damage() {
    let dir = directory();
    let mut recorder = Recorder::open_with(dir.path(), key(), opening(), without_disk()).unwrap();
    let acknowledged = usize::try_from(recorder.length).unwrap();
    let _evidence = write(&mut recorder, 0..3);
    let end = usize::try_from(recorder.length).unwrap();
    drop(recorder);
    let name = SegmentName(0).file();
    let whole = fs::read(dir.path().join(&name)).unwrap();
    for at in (0..end).filter(|at| (at + 1) % 512 != 0 && at + 1 != end) {
        let copy = copy_cut(dir.path(), "", 0);
        let mut bytes = whole.clone();
        bytes[at] = 0;
        fs::write(copy.path().join(&name), bytes).unwrap();
        let error = Recorder::open_with(copy.path(), key(), opening(), without_disk()).unwrap_err();
        match error {
            OpenError::Damaged { segment, .. } => assert_eq!(segment, name),
            // Below what was signed it is a loss.
            OpenError::Lost { .. } => assert!(at < acknowledged),
            error => panic!("byte {at}: {error}"),
        }
    }
}

// ATTACK: 214
#[test]
fn a_crash_at_any_byte_of_a_rotation_goes_on_in_the_segment_before() {
    let dir = directory();
    let mut recorder = Recorder::open_with(dir.path(), key(), opening(), without_disk()).unwrap();
    write(&mut recorder, 0..3).clear();
    recorder.rotate().unwrap();
    drop(recorder);
    let name = SegmentName(4).file();
    let header = fs::read(dir.path().join(&name)).unwrap();
    for cut in 0..=header.len() {
        let torn = copy_cut(dir.path(), &name, cut);
        let mut recorder =
            Recorder::open_with(torn.path(), key(), opening(), without_disk()).unwrap();
        write(&mut recorder, 3..4).clear();
        recorder.rotate().unwrap();
        recorder.close().unwrap();
        let report = verify(torn.path(), key().public(), &[]).unwrap();
        assert_eq!(
            report.records,
            4 + u64::from(cut < header.len()) + 2,
            "cut at {cut}"
        );
    }
}

// ATTACK: 214
#[test]
fn a_crash_at_any_byte_of_a_checkpoint_is_signed_again() {
    let dir = directory();
    let mut recorder = Recorder::open_with(dir.path(), key(), opening(), without_disk()).unwrap();
    let before = usize::try_from(recorder.history_bytes).unwrap();
    let note = fs::read(dir.path().join(CHECKPOINT)).unwrap();
    write(&mut recorder, 0..3).clear();
    recorder.checkpoint().unwrap();
    drop(recorder);
    let whole = fs::read(dir.path().join(CHECKPOINTS)).unwrap();
    for cut in before..=whole.len() {
        let torn = copy_cut(dir.path(), CHECKPOINTS, cut);
        // The newest checkpoint's file is replaced after the history is on disk.
        fs::write(torn.path().join(CHECKPOINT), &note).unwrap();
        verify(torn.path(), key().public(), &[]).unwrap();
        let recorder = Recorder::open_with(torn.path(), key(), opening(), without_disk()).unwrap();
        recorder.close().unwrap();
        let report = verify(torn.path(), key().public(), &[]).unwrap();
        assert_eq!((report.records, report.unsigned), (5, 0));
    }
}

// ATTACK: 214
#[test]
fn a_record_never_begins_again_where_segments_or_checkpoints_are_missing() {
    let dir = directory();
    let mut recorder = open(dir.path()).unwrap();
    write(&mut recorder, 0..3).clear();
    recorder.rotate().unwrap();
    write(&mut recorder, 3..6).clear();
    recorder.close().unwrap();
    let (first, second) = (SegmentName(0).file(), SegmentName(4).file());
    let gone: [&[&str]; 4] = [
        &[&second],
        &[&first, &second],
        &[CHECKPOINTS],
        &[CHECKPOINTS, &second],
    ];
    for names in gone {
        let copy = copy_cut(dir.path(), "", 0);
        for name in names {
            fs::remove_file(copy.path().join(name)).unwrap();
        }
        let error = open(copy.path()).unwrap_err();
        assert!(matches!(error, OpenError::Lost { .. }), "{names:?} {error}");
    }
    let copy = copy_cut(dir.path(), "", 0);
    fs::remove_file(copy.path().join(CHECKPOINT)).unwrap();
    fs::remove_file(copy.path().join(CHECKPOINTS)).unwrap();
    assert!(matches!(open(copy.path()), Err(OpenError::Unsigned)));
}

// ATTACK: 214
#[test]
fn a_flipped_byte_of_the_newest_segment_is_refused_with_its_place() {
    let dir = directory();
    let mut recorder = open(dir.path()).unwrap();
    write(&mut recorder, 0..3).clear();
    recorder.close().unwrap();
    let name = SegmentName(0).file();
    let whole = fs::read(dir.path().join(&name)).unwrap();
    for at in 0..whole.len() {
        let copy = copy_cut(dir.path(), "", 0);
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(copy.path().join(&name), bytes).unwrap();
        match open(copy.path()).unwrap_err() {
            OpenError::Damaged { segment, byte, .. } => {
                assert_eq!(segment, name);
                assert!(byte <= u64::try_from(whole.len()).unwrap());
            }
            OpenError::Key | OpenError::Lost { .. } => {}
            error => panic!("byte {at}: {error}"),
        }
    }
}

#[test]
fn a_lost_newline_of_an_unsigned_record_is_damage_and_no_torn_tail() {
    let dir = directory();
    let mut recorder = open(dir.path()).unwrap();
    write(&mut recorder, 0..1).clear();
    drop(recorder);
    let path = dir.path().join(SegmentName(0).file());
    let mut bytes = fs::read(&path).unwrap();
    let newline = bytes.iter().rposition(|byte| *byte == b'\n').unwrap();
    bytes[newline] = b'\x0b';
    fs::write(&path, bytes).unwrap();
    assert!(matches!(open(dir.path()), Err(OpenError::Damaged { .. })));
}
