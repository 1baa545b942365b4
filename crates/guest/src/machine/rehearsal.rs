// SPDX-License-Identifier: Apache-2.0
//! A machine that is nobody's yet goes once through what every command needs, so that the first
//! command of its session doesn't wait for it: the kernel's ways of starting a process, in memory
//! that the template keeps; and, where the processor is emulated, their translation. The program is
//! the agent itself, and of the image two files are read: nothing of it is run before the machine
//! is renewed.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::fs::{FileType, Mode, OFlags, fstat, fstatfs};
use rustix::process::getpid;
use tokio::sync::mpsc;
use torno_guest_protocol::{ExecId, HostMessage};

use crate::exec::{Exec, FirstKeeper, Surroundings};
use crate::link;
use crate::nursery::{Keepers, Nursery};
use crate::settings::Settings;
use crate::tree;

/// The argument of the program that ends at once.
pub(crate) const WORD: &str = "rehearse";

/// What is rehearsed with.
pub(crate) struct Stage<'a> {
    pub(crate) nursery: &'a Nursery,
    pub(crate) keepers: &'a Keepers,
    pub(crate) settings: &'a Arc<Settings>,
}

impl Stage<'_> {
    /// Runs one program to its end. Whoever is left is killed, and the machine is nobody's.
    pub(crate) async fn rehearse(&self) -> anyhow::Result<()> {
        LIBRARIES.into_iter().for_each(read);
        let (host, writing) = link::start_writer(Box::new(tokio::io::sink()));
        let (closed, mut closings) = mpsc::channel(1);
        let around = Surroundings {
            settings: Arc::clone(self.settings),
            nursery: self.nursery.clone(),
            host,
            // That one is for the session.
            first_keeper: FirstKeeper::default(),
            closed,
        };
        let exec = ExecId(0);
        let plan = HostMessage::StartProcess {
            exec,
            argv: ["/proc/self/exe", WORD].map(str::to_owned).to_vec(),
            env: Vec::new(),
            cwd: "/".to_owned(),
            tty: None,
        };
        let running = Exec::start(exec, plan, around);
        let end = tokio::time::timeout(WAIT, closings.recv()).await;
        writing.abort();
        drop(running);
        let _exec = end.ok().flatten().context("the rehearsal has no end")?;
        ensure!(!self.keepers.reap(), "the rehearsal lost its keeper");
        let living: HashSet<_> = self.keepers.lock().clone();
        ensure!(
            tree::kill_descendants(getpid(), &living)?,
            "a process of the rehearsal survives"
        );
        Ok(())
    }
}

/// Brings a file of the image into memory.
fn read(path: &str) {
    if let Some(file) = file_of(path, EROFS) {
        let mut rest = file.take(LIBRARY_BYTES_MAX);
        let _as_far_as_it_goes = std::io::copy(&mut rest, &mut std::io::sink());
    }
}

/// A regular file of that kind of file system, opened for reading. The name is the image's, and may
/// be a link to anywhere: to read `boot_id` would be to make it, in all machines the same, and a
/// device may never answer.
fn file_of(path: &str, file_system: u64) -> Option<File> {
    let place = OFlags::PATH | OFlags::CLOEXEC;
    let place = rustix::fs::open(path, place, Mode::empty()).ok()?;
    let kind = FileType::from_raw_mode(fstat(&place).ok()?.st_mode);
    let is_of = u64::try_from(fstatfs(&place).ok()?.f_type) == Ok(file_system);
    if kind != FileType::RegularFile || !is_of {
        return None;
    }
    File::open(format!("/proc/self/fd/{}", place.as_raw_fd())).ok()
}

// What nearly every program of a distribution begins with.
const LIBRARIES: [&str; 2] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/x86_64-linux-gnu/libc.so.6",
];
// LIMIT: a C library has two megabytes.
const LIBRARY_BYTES_MAX: u64 = 8 << 20;
// LIMIT: an emulated processor on a busy host.
const WAIT: Duration = Duration::from_secs(45);
// The disk's (statfs(2), `EROFS_SUPER_MAGIC_V1`).
const EROFS: u64 = 0xE0F5_E1E2;

#[cfg(test)]
mod tests {
    use super::*;

    // ATTACK: 130
    #[test]
    fn a_link_of_the_image_leads_to_no_file_that_is_not_the_disks() {
        let directory = tempfile::tempdir().unwrap();
        let link = |name: &str, to: &str| {
            let at = directory.path().join(name);
            std::os::unix::fs::symlink(to, &at).unwrap();
            at.to_str().unwrap().to_owned()
        };
        let plain = directory.path().join("plain");
        std::fs::write(&plain, "text").unwrap();
        let here = u64::try_from(rustix::fs::statfs(&plain).unwrap().f_type).unwrap();
        let through = link("through", plain.to_str().unwrap());
        let mut text = String::new();
        let mut opened = file_of(&through, here).unwrap();
        opened.read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        for (name, to) in [
            ("boot", "/proc/sys/kernel/random/boot_id"),
            ("zero", "/dev/zero"),
            ("directory", "."),
            ("nowhere", "/nowhere"),
        ] {
            assert!(file_of(&link(name, to), here).is_none(), "{to}");
        }
        assert!(file_of(&through, EROFS).is_none());
    }
}
