// SPDX-License-Identifier: Apache-2.0
//! A machine becomes one session's. Until then it is nobody's, and may have been restored from a
//! template from which others were restored too: what would be alike in all of them is renewed
//! here, before it runs anything for anybody. The random source comes first; `boot_id` and the rest
//! of what a kernel makes on demand are made of it later.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use anyhow::{Context as _, ensure};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::time::{ClockId, Timespec, clock_settime};
use torno_guest_protocol::{ENTROPY_BYTES, Entropy, MachineRenewal, MachineRewrite, WallClock};

use super::root::make_file;
use crate::settings::Settings;
use crate::sys;

/// A machine that nobody has yet: the way to the root directory below its read-only mount, which no
/// path leads to. It is closed when the machine is somebody's.
#[derive(Debug)]
pub(crate) struct Nobodys {
    pub(super) tree: OwnedFd,
}

impl Nobodys {
    /// Takes in what makes it a session's, all of it or none.
    pub(crate) fn renew(self, renewal: &MachineRenewal, settings: &Settings) -> anyhow::Result<()> {
        let MachineRenewal {
            entropy,
            wall_clock,
            tree,
            home,
        } = renewal;
        stir(entropy).context("the random source")?;
        if let Some(time) = wall_clock {
            set_clock(*time).context("the clock")?;
        }
        for file in tree {
            self.rewrite(file)
                .with_context(|| format!("file {}", file.path))?;
        }
        for file in home {
            make_file(Path::new("/"), file, settings)
                .with_context(|| format!("file {}", file.path))?;
        }
        Ok(())
    }

    fn rewrite(&self, rewrite: &MachineRewrite) -> anyhow::Result<()> {
        let below = Path::new(&rewrite.path).strip_prefix("/")?;
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        // No user code has run, so there is no link to follow; it stays so if that is ever wrong.
        let resolve = ResolveFlags::BENEATH
            | ResolveFlags::NO_SYMLINKS
            | ResolveFlags::NO_MAGICLINKS
            | ResolveFlags::NO_XDEV;
        let file = openat2(&self.tree, below, flags, Mode::empty(), resolve)?;
        let mut file = File::from(file);
        ensure!(
            file.metadata()?.len() >= rewrite.kept,
            "it is shorter than what is to stay of it"
        );
        file.set_len(rewrite.kept)?;
        file.seek(SeekFrom::End(0))?;
        file.write_all(rewrite.text.as_bytes())?;
        Ok(())
    }
}

/// Mixes the host's random bytes into the kernel's pool, and has it make its key anew of that pool:
/// by itself it would go on for a minute with the key that others have too.
fn stir(entropy: &Entropy) -> anyhow::Result<()> {
    ensure!(
        entropy.0.len() == ENTROPY_BYTES,
        "other than {ENTROPY_BYTES} random bytes"
    );
    let mut source = File::options().write(true).open("/dev/urandom")?;
    source.write_all(&entropy.0)?;
    sys::reseed(&source)?;
    Ok(())
}

fn set_clock(time: WallClock) -> anyhow::Result<()> {
    let time = Timespec {
        tv_sec: time.seconds.into(),
        tv_nsec: time.nanoseconds.into(),
    };
    Ok(clock_settime(ClockId::Realtime, time)?)
}
