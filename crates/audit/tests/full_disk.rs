// SPDX-License-Identifier: Apache-2.0
//! A disk that is really full: a tmpfs of a few pages. Skipped, loudly, where none can be mounted.

#![expect(clippy::unwrap_used, reason = "tests: helpers of this file")]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use torno_audit::record::{EndCause, Source};
use torno_audit::{
    AppendError, Durability, Entry, Event, Opening, Recorder, Settings, ShortText, SigningKey,
    verify,
};

const PAGE: usize = 4096;
const PAGES: usize = 40;

/// One at a time: a child that is on its way to `mount` or `umount` shares, for that moment, the
/// lock that a record holds on its directory.
static ALONE: Mutex<()> = Mutex::new(());

/// A mounted tmpfs; unmounted when dropped.
struct SmallDisk {
    _alone: MutexGuard<'static, ()>,
    _holder: tempfile::TempDir,
    path: PathBuf,
}

impl SmallDisk {
    fn mount() -> Option<Self> {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let holder = tempfile::tempdir().unwrap();
        let path = holder.path().join("disk");
        fs::create_dir(&path).unwrap();
        let options = format!("size={},mode=0700", PAGE * PAGES);
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(&path)
            .output();
        let disk = Self {
            _alone: alone,
            _holder: holder,
            path,
        };
        mounted
            .is_ok_and(|mounted| mounted.status.success())
            .then_some(disk)
    }

    /// Takes all room but some pages.
    fn fill(&self, pages_left: usize) {
        let filler = self.path.join("filler");
        let mut file = fs::File::create(&filler).unwrap();
        let mut length = 0_u64;
        while file.write_all(&[0; PAGE]).is_ok() {
            length += 4096;
        }
        let left = u64::try_from(pages_left * PAGE).unwrap();
        file.set_len(length.saturating_sub(left)).unwrap();
    }

    fn empty(&self) {
        fs::remove_file(self.path.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.path).output();
    }
}

fn key() -> SigningKey {
    SigningKey::from_seed(&[3; 32])
}

fn open(path: &Path) -> Recorder {
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
    let opening = Opening {
        at_ms: 1,
        software: ShortText::new("full_disk"),
    };
    let settings = Settings {
        segment_bytes: 20_000,
        reserve_bytes: 4 * 4096,
    };
    Recorder::open_with(path, key(), opening, settings).unwrap()
}

fn act(exec: u64) -> Vec<(Entry, u64)> {
    let event = Event::CommandEnded {
        exec,
        status: 0,
        source: Source::HostObserved,
    };
    vec![(entry(event), exec)]
}

fn entry(event: Event) -> Entry {
    Entry {
        at_ms: 2,
        session: None,
        event,
    }
}

fn ends(count: usize) -> Vec<(Entry, ())> {
    let event = Event::SessionEnded {
        cause: EndCause::Stopped,
        exit_status: None,
    };
    vec![(entry(event), ()); count]
}

// ATTACK: 216
#[test]
fn on_a_full_disk_nothing_is_acknowledged_that_is_not_there_and_ends_still_pass() {
    let mut ran = 0;
    for pages_left in 0..12 {
        let Some(disk) = SmallDisk::mount() else {
            eprintln!("SKIPPED: no tmpfs can be mounted here");
            return;
        };
        let mut recorder = open(&disk.path);
        disk.fill(pages_left);
        let mut acknowledged = 0;
        // Small segments: the disk gets full in a write, a rotation or a checkpoint.
        let error = loop {
            match recorder.append(act(acknowledged), Durability::Synced) {
                Ok(evidence) => {
                    assert_eq!(evidence.len(), 1);
                    acknowledged += 1;
                }
                Err(error) => break error,
            }
        };
        assert!(matches!(error, AppendError::Full(_)), "{error}");
        assert!(recorder.append(act(0), Durability::Written).is_err());
        let evidence = recorder.append_final(ends(50)).unwrap();
        assert_eq!(evidence.len(), 50);
        drop(recorder);

        disk.empty();
        let recorder = open(&disk.path);
        assert_eq!(
            recorder.head().size,
            acknowledged + 50 + 2,
            "{pages_left} pages"
        );
        recorder.close().unwrap();
        let report = verify(&disk.path, key().public(), &[]).unwrap();
        assert_eq!(report.records, acknowledged + 52);
        ran += 1;
    }
    assert_eq!(ran, 12);
}

// ATTACK: 216
#[test]
fn a_rotation_on_a_full_disk_leaves_no_empty_segment_behind() {
    // Full in the checkpoint; full in the new segment's header; not full.
    for (signed_before, pages_left, rotates) in
        [(false, 0, false), (true, 0, false), (true, 1, true)]
    {
        let Some(disk) = SmallDisk::mount() else {
            eprintln!("SKIPPED: no tmpfs can be mounted here");
            return;
        };
        let mut recorder = open(&disk.path);
        recorder.append(act(0), Durability::Synced).unwrap().clear();
        if signed_before {
            recorder.checkpoint().unwrap();
        }
        disk.fill(pages_left);
        assert_eq!(recorder.rotate().is_ok(), rotates, "{pages_left} pages");
        recorder.append_final(ends(20)).unwrap().clear();
        drop(recorder);
        disk.empty();
        open(&disk.path).close().unwrap();
        let report = verify(&disk.path, key().public(), &[]).unwrap();
        assert_eq!(report.records, 2 + 20 + 1);
        assert_eq!(report.segments, 1 + u64::from(rotates));
    }
}
