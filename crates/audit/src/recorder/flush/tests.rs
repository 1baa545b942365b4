// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::record::samples::{directory, key, numbered, opening};
use crate::recorder::ROOM;
use crate::{Settings, verify};
use std::fs::{self, File};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;
use torno_policy::names::RecordSeq;

/// A disk whose flushes wait until they are let through, and then end as told.
#[derive(Debug)]
struct HeldDisk {
    file: File,
    let_through: Mutex<mpsc::Receiver<io::Result<()>>>,
}

impl Disk for HeldDisk {
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.file.write(bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.let_through.lock().unwrap().recv().unwrap()
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.file.truncate(length)
    }
}

fn held(dir: &Path) -> (Recorder, mpsc::Sender<io::Result<()>>) {
    let mut recorder = Recorder::open(dir, key(), opening()).unwrap();
    let segment = dir.join(recorder.segment.file());
    let (sender, receiver) = mpsc::channel();
    recorder.disk = Arc::new(HeldDisk {
        file: fs::OpenOptions::new().write(true).open(segment).unwrap(),
        let_through: Mutex::new(receiver),
    });
    (recorder, sender)
}

fn written(recorder: &mut Recorder, number: u64) -> Written<u64> {
    let batch = vec![(numbered(number), number)];
    recorder.write_ahead(batch).unwrap()
}

#[test]
fn what_is_written_while_another_flush_runs_waits_for_the_next() {
    let dir = directory();
    let (mut recorder, disk) = held(dir.path());
    let first = written(&mut recorder, 1);
    let flush = recorder.flush();
    let (done, ended) = mpsc::channel();
    let running = std::thread::spawn(move || done.send(flush.run()).unwrap());
    let second = written(&mut recorder, 2);
    let first = recorder.evidence(first).unwrap_err();
    assert!(ended.recv_timeout(Duration::from_millis(50)).is_err());
    let first = recorder.evidence(first).unwrap_err();
    disk.send(Ok(())).unwrap();
    let flushed = ended.recv().unwrap();
    let first = recorder.evidence(first).unwrap_err();
    recorder.flushed(flushed).unwrap();
    running.join().unwrap();
    let first = recorder.evidence(first).unwrap();
    assert_eq!((first[0].seq(), *first[0].value()), (RecordSeq(1), 1));
    let second = recorder.evidence(second).unwrap_err();
    assert!(recorder.sync_due().is_some());
    disk.send(Ok(())).unwrap();
    let flushed = recorder.flush().run();
    recorder.flushed(flushed).unwrap();
    assert_eq!(recorder.evidence(second).unwrap()[0].seq(), RecordSeq(2));
    assert!(recorder.sync_due().is_none());
}

#[test]
fn a_failed_flush_leaves_no_evidence_to_anybody() {
    let dir = directory();
    let (mut recorder, disk) = held(dir.path());
    let first = written(&mut recorder, 1);
    disk.send(Err(io::Error::other("input/output error")))
        .unwrap();
    // A kernel says it once: whoever asks next would be told that all is well.
    disk.send(Ok(())).unwrap();
    let failed = recorder.flush().run();
    let second = written(&mut recorder, 2);
    assert!(recorder.sync().is_err());
    let second = recorder.evidence(second).unwrap_err();
    assert!(recorder.flushed(failed).is_err());
    assert!(recorder.evidence(first).is_err());
    assert!(recorder.evidence(second).is_err());
    let more = recorder.append(vec![(numbered(3), ())], Durability::Written);
    assert!(matches!(more, Err(AppendError::Broken)));
}

#[test]
fn a_flush_of_a_segment_that_was_closed_meanwhile_covers_what_was_before_it() {
    let dir = directory();
    let mut recorder = Recorder::open(dir.path(), key(), opening()).unwrap();
    let first = written(&mut recorder, 1);
    let flush = recorder.flush();
    recorder.rotate().unwrap();
    let second = written(&mut recorder, 2);
    recorder.flushed(flush.run()).unwrap();
    assert!(recorder.evidence(first).is_ok());
    assert!(recorder.evidence(second).is_err());
}

#[test]
fn room_is_zeroes_behind_the_newest_segment_and_is_cut_where_it_closes() {
    let dir = directory();
    let settings = Settings {
        segment_bytes: 4000,
        ..Settings::default()
    };
    let mut recorder = Recorder::open_with(dir.path(), key(), opening(), settings).unwrap();
    for number in 1..100 {
        let batch = vec![(numbered(number), ())];
        drop(recorder.append(batch, Durability::Synced).unwrap());
        let newest = fs::read(dir.path().join(recorder.segment.file())).unwrap();
        let (lines, room) = newest.split_at(usize::try_from(recorder.length).unwrap());
        assert!(lines.ends_with(b"\n") && !lines.contains(&0));
        assert!(room.len() <= ROOM.len() && room.iter().all(|byte| *byte == 0));
        assert_eq!(recorder.ahead, u64::try_from(newest.len()).unwrap());
        verify(dir.path(), key().public(), &[]).unwrap();
    }
    recorder.close().unwrap();
    verify(dir.path(), key().public(), &[]).unwrap();
    let files = fs::read_dir(dir.path()).unwrap().map(Result::unwrap);
    let segments = files.filter(|file| file.file_name().to_string_lossy().contains("segment"));
    let segments: Vec<_> = segments
        .map(|file| fs::read(file.path()).unwrap())
        .collect();
    assert!(segments.len() > 3);
    assert!(segments.iter().all(|segment| !segment.contains(&0)));
}
