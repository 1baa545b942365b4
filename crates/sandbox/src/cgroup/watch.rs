// SPDX-License-Identifier: Apache-2.0
//! Looking at a living group: who was killed for want of memory, and holding it still.
//!
//! ```text
//!   going on ── written ──▶ freezing ── the kernel says so ──▶ still ── written ──▶ going on
//!                              └── not in time: written back ───────────────────────▲
//! ```

use super::Cgroup;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

impl Cgroup {
    /// Bytes of memory that the group holds, as the kernel counts them; 0 where it can't be read.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let memory = self.v1.iter().find(|(name, _)| name == "memory");
        let file = match (memory, &self.unified) {
            (Some((_, group)), _) => group.join("memory.usage_in_bytes"),
            (None, Some(group)) => group.join("memory.current"),
            (None, None) => return 0,
        };
        let text = fs::read_to_string(file).unwrap_or_default();
        text.trim().parse().unwrap_or_default()
    }

    /// Processes that the kernel killed because the group was out of memory.
    #[must_use]
    pub fn memory_kills(&self) -> u64 {
        let memory = self
            .v1
            .iter()
            .find(|(name, _)| name == "memory")
            .map(|(_, group)| group);
        let file = match (memory, &self.unified) {
            (Some(group), _) => group.join("memory.oom_control"),
            (None, Some(group)) => group.join("memory.events"),
            (None, None) => return 0,
        };
        let text = fs::read_to_string(file).unwrap_or_default();
        text.lines()
            .find_map(|line| line.strip_prefix("oom_kill "))
            .and_then(|count| count.trim().parse().ok())
            .unwrap_or_default()
    }

    /// Stops or continues every process inside; a kill works on a stopped group too. Once this has
    /// stopped them, none of them does anything: the kernel has said so of each.
    ///
    /// # Errors
    /// When the kernel has no freezer for the group, or not all of it stood still in time: then it
    /// goes on.
    pub fn set_frozen(&self, frozen: bool) -> io::Result<()> {
        if frozen && self.is_frozen()? {
            return Ok(());
        }
        self.write_frozen(frozen)?;
        if !frozen {
            return Ok(());
        }
        let end = Instant::now() + FREEZE_WAIT;
        while !self.is_frozen()? {
            if Instant::now() > end {
                self.write_frozen(false)?;
                return Err(io::ErrorKind::TimedOut.into());
            }
            thread::sleep(FREEZE_LOOK);
            // The older freezer tries again when it is told again.
            self.write_frozen(true)?;
        }
        Ok(())
    }

    fn write_frozen(&self, frozen: bool) -> io::Result<()> {
        if let Some(group) = &self.unified {
            return fs::write(group.join("cgroup.freeze"), if frozen { "1" } else { "0" });
        }
        let word = if frozen { "FROZEN" } else { "THAWED" };
        fs::write(self.freezer()?.join("freezer.state"), word)
    }

    fn is_frozen(&self) -> io::Result<bool> {
        if let Some(group) = &self.unified {
            let events = fs::read_to_string(group.join("cgroup.events"))?;
            return Ok(events.lines().any(|line| line == "frozen 1"));
        }
        let state = fs::read_to_string(self.freezer()?.join("freezer.state"))?;
        Ok(state.trim() == "FROZEN")
    }

    fn freezer(&self) -> io::Result<&PathBuf> {
        let freezer = self.v1.iter().find(|(name, _)| name == "freezer");
        let (_, group) = freezer.ok_or(io::ErrorKind::Unsupported)?;
        Ok(group)
    }
}

/// LIMIT: a process stands still within milliseconds, unless it is in a call to a file system that
/// does not answer.
const FREEZE_WAIT: Duration = Duration::from_secs(2);
/// LIMIT: how often the kernel is asked.
const FREEZE_LOOK: Duration = Duration::from_millis(1);
