// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::directory::CHECKPOINT;
use crate::reader::Records;
use crate::record::samples::{directory, entry, key, numbered, opening, other_key};
use crate::verify;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

mod crash;

fn small() -> Settings {
    Settings {
        segment_bytes: 2048,
        reserve_bytes: 4096,
    }
}

fn open(dir: &Path) -> Result<Recorder, OpenError> {
    Recorder::open_with(dir, key(), opening(), small())
}

fn write(recorder: &mut Recorder, numbers: std::ops::Range<u64>) -> Vec<Recorded<u64>> {
    let batch = numbers.map(|number| (numbered(number), number)).collect();
    recorder.append(batch, Durability::Synced).unwrap()
}

fn events(dir: &Path) -> Vec<Event> {
    Records::open(dir, 0)
        .unwrap()
        .map(|record| record.unwrap().entry.event)
        .collect()
}

#[test]
fn evidence_comes_in_the_order_of_the_batch_with_each_place() {
    let dir = directory();
    let mut recorder = open(dir.path()).unwrap();
    assert_eq!(recorder.next_seq(), RecordSeq(1));
    let evidence = write(&mut recorder, 5..8);
    let told: Vec<(u64, u64)> = evidence
        .into_iter()
        .map(|recorded| (recorded.seq().0, recorded.into_value()))
        .collect();
    assert_eq!(told, [(1, 5), (2, 6), (3, 7)]);
    assert_eq!(recorder.head().size, 4);
}

#[test]
fn a_record_goes_on_where_it_was_closed() {
    let dir = directory();
    let mut recorder = open(dir.path()).unwrap();
    write(&mut recorder, 0..3);
    let head = recorder.close().unwrap();
    let recorder = open(dir.path()).unwrap();
    assert_eq!(recorder.head().size, head.size + 1);
    drop(recorder);
    let report = verify(dir.path(), key().public(), &[head]).unwrap();
    assert_eq!((report.records, report.unsigned), (5, 0));
}

#[test]
fn only_one_writer_opens_a_record() {
    let dir = directory();
    let first = open(dir.path()).unwrap();
    assert!(matches!(open(dir.path()), Err(OpenError::Locked)));
    drop(first);
    open(dir.path()).unwrap();
}

#[test]
fn a_directory_that_others_may_enter_is_refused() {
    let dir = directory();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o750)).unwrap();
    assert!(matches!(open(dir.path()), Err(OpenError::Shared)));
}

#[test]
fn a_record_of_another_key_is_refused_also_before_its_first_checkpoint() {
    let dir = directory();
    open(dir.path()).unwrap().close().unwrap();
    let other = || Recorder::open_with(dir.path(), other_key(), opening(), small());
    assert!(matches!(other(), Err(OpenError::Key)));
    fs::remove_file(dir.path().join(CHECKPOINTS)).unwrap();
    fs::remove_file(dir.path().join(CHECKPOINT)).unwrap();
    assert!(matches!(other(), Err(OpenError::Key)));
}

#[test]
fn a_file_that_looks_like_a_segment_or_a_link_is_refused() {
    let dir = directory();
    open(dir.path()).unwrap().close().unwrap();
    let odd = dir.path().join("segment-1.jsonl");
    fs::write(&odd, "").unwrap();
    assert!(matches!(open(dir.path()), Err(OpenError::OddFile)));
    fs::remove_file(&odd).unwrap();
    let segment = dir.path().join(SegmentName(0).file());
    fs::rename(&segment, dir.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("elsewhere", &segment).unwrap();
    assert!(matches!(open(dir.path()), Err(OpenError::Files(_))));
}

#[test]
fn segments_rotate_by_size_and_the_whole_verifies() {
    let dir = directory();
    let mut recorder = open(dir.path()).unwrap();
    for number in 0..60 {
        write(&mut recorder, number..number + 1);
    }
    recorder.close().unwrap();
    let report = verify(dir.path(), key().public(), &[]).unwrap();
    assert!(report.segments > 3, "{report:?}");
    assert_eq!(report.records, 61);
    assert_eq!(events(dir.path()).len(), 61);
    let numbers: Vec<u64> = Records::open(dir.path(), 40)
        .unwrap()
        .map(|record| record.unwrap().seq.0)
        .collect();
    assert_eq!(numbers, (40..61).collect::<Vec<u64>>());
    open(dir.path()).unwrap().rotate().unwrap();
    // Header only: nothing to rotate.
    let mut recorder = open(dir.path()).unwrap();
    recorder.rotate().unwrap();
    recorder.rotate().unwrap();
}

#[test]
fn what_was_only_written_is_due_after_100_ms_and_a_flush_settles_it() {
    let dir = directory();
    let mut recorder = open(dir.path()).unwrap();
    assert_eq!(recorder.sync_due(), None);
    let batch = vec![(numbered(1), ())];
    let _evidence = recorder.append(batch, Durability::Written).unwrap();
    assert_eq!(recorder.sync_due(), Some(numbered(1).at_ms + 100));
    recorder.sync().unwrap();
    assert_eq!(recorder.sync_due(), None);
}

#[test]
fn an_entry_without_a_line_stops_its_batch_only() {
    // LINE_BYTES_MAX can't be passed by any event (record/tests.rs); the recorder's own promise is
    // that printing comes before writing.
    let dir = directory();
    let mut recorder = open(dir.path()).unwrap();
    let none: Vec<(Entry, ())> = Vec::new();
    assert!(
        recorder
            .append(none, Durability::Synced)
            .unwrap()
            .is_empty()
    );
    assert!(recorder.is_ready());
}

/// A disk that fails as told.
#[derive(Debug)]
struct FailingDisk {
    file: File,
    reserve: PathBuf,
    room: AtomicUsize,
    error: ErrorKind,
    sync_fails: bool,
    truncate_fails: bool,
}

impl Disk for FailingDisk {
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let room = self.room.load(Ordering::Relaxed);
        let fits = bytes.len().min(room);
        self.file.write(&bytes[..fits], at)?;
        self.room.store(room - fits, Ordering::Relaxed);
        if fits == bytes.len() {
            Ok(())
        } else {
            Err(self.error.into())
        }
    }

    fn sync(&self) -> io::Result<()> {
        if self.sync_fails {
            Err(io::Error::other("input/output error"))
        } else {
            self.file.sync_data()
        }
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        if self.truncate_fails {
            return Err(io::Error::other("input/output error"));
        }
        let cut = self.file.metadata()?.len().saturating_sub(length);
        let room = self.room.load(Ordering::Relaxed) + usize::try_from(cut).unwrap();
        // What the reserve gave back.
        let given = if self.reserve.exists() { room } else { 1 << 20 };
        self.room.store(given, Ordering::Relaxed);
        self.file.set_len(length)
    }
}

fn failing(dir: &Path, room: usize) -> (Recorder, FailingDisk) {
    let recorder = open(dir).unwrap();
    let segment = dir.join(recorder.segment.file());
    let file = fs::OpenOptions::new().write(true).open(segment).unwrap();
    let disk = FailingDisk {
        file,
        reserve: dir.join(RESERVE),
        room: AtomicUsize::new(room),
        error: ErrorKind::StorageFull,
        sync_fails: false,
        truncate_fails: false,
    };
    (recorder, disk)
}

fn refuse(recorder: &mut Recorder) {
    let batch = vec![(numbered(9), ())];
    let error = recorder.append(batch, Durability::Written).unwrap_err();
    assert!(matches!(error, AppendError::Broken), "{error}");
}

// ATTACK: 216
#[test]
fn a_full_disk_refuses_acts_and_still_takes_their_end() {
    for room in 0..200 {
        let dir = directory();
        let (mut recorder, disk) = failing(dir.path(), room);
        recorder.disk = Arc::new(disk);
        let batch = vec![(numbered(1), ()), (numbered(2), ()), (numbered(3), ())];
        let error = recorder.append(batch, Durability::Written).unwrap_err();
        assert!(matches!(error, AppendError::Full(_)), "{error}");
        refuse(&mut recorder);
        let act = vec![(numbered(1), ())];
        let error = recorder.append_final(act).unwrap_err();
        assert!(matches!(error, AppendError::NotFinal));
        assert!(dir.path().join(RESERVE).exists());
        let end = vec![(entry(Event::SessionKilled), ())];
        let evidence = recorder.append_final(end).unwrap();
        assert_eq!(evidence[0].seq(), RecordSeq(1));
        assert!(!dir.path().join(RESERVE).exists());
        refuse(&mut recorder);
        drop(recorder);
        // Nothing of the refused batch is there, the end is.
        let recorder = open(dir.path()).unwrap();
        assert_eq!(recorder.head().size, 3);
        assert!(dir.path().join(RESERVE).exists());
        drop(recorder);
        assert_eq!(events(dir.path())[1], Event::SessionKilled);
        verify(dir.path(), key().public(), &[]).unwrap();
    }
}

// ATTACK: 216
#[test]
fn after_any_other_failure_nothing_more_is_taken() {
    let kinds = [
        ErrorKind::Other,
        ErrorKind::PermissionDenied,
        ErrorKind::StorageFull,
    ];
    for (error, truncate_fails) in kinds.into_iter().zip([false, false, true]) {
        let dir = directory();
        let (mut recorder, mut disk) = failing(dir.path(), 10);
        disk.error = error;
        disk.truncate_fails = truncate_fails;
        recorder.disk = Arc::new(disk);
        let batch = vec![(numbered(1), ())];
        let error = recorder.append(batch, Durability::Written).unwrap_err();
        assert!(matches!(error, AppendError::Write(_)), "{error}");
        refuse(&mut recorder);
        let end = vec![(entry(Event::SessionKilled), ())];
        assert!(recorder.append_final(end).is_err());
        assert!(recorder.sync().is_err());
        assert!(recorder.checkpoint().is_err());
        assert!(recorder.rotate().is_err());
        drop(recorder);
        // The torn line goes, and that is recorded.
        open(dir.path()).unwrap().close().unwrap();
        assert!(matches!(
            events(dir.path())[1],
            Event::RecordRecovered {
                dropped_bytes: 10,
                ..
            }
        ));
    }
}

// ATTACK: 216
#[test]
fn a_failed_flush_gives_no_evidence_and_is_never_tried_again() {
    let dir = directory();
    let (mut recorder, mut disk) = failing(dir.path(), 1 << 20);
    disk.sync_fails = true;
    recorder.disk = Arc::new(disk);
    let batch = vec![(numbered(1), ())];
    let error = recorder.append(batch, Durability::Synced).unwrap_err();
    assert!(matches!(error, AppendError::Write(_)));
    refuse(&mut recorder);
    assert!(recorder.sync().is_err());
}

// ATTACK: 216
#[test]
fn a_file_that_really_can_not_grow_is_a_full_disk() {
    // /dev/full answers every write with ENOSPC.
    let dir = directory();
    let mut recorder = open(dir.path()).unwrap();
    let full = fs::OpenOptions::new()
        .append(true)
        .open("/dev/full")
        .unwrap();
    recorder.disk = Arc::new(full);
    let batch = vec![(numbered(1), ())];
    let error = recorder.append(batch, Durability::Synced).unwrap_err();
    assert!(matches!(
        error,
        AppendError::Full(_) | AppendError::Write(_)
    ));
    refuse(&mut recorder);
    drop(recorder);
    assert_eq!(events(dir.path()).len(), 1);
}

fn without_disk() -> Settings {
    Settings {
        reserve_bytes: 0,
        ..small()
    }
}
