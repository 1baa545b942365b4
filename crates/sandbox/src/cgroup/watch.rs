// SPDX-License-Identifier: Apache-2.0
//! Looking at a living group: who was killed for want of memory, and holding it still.

use super::Cgroup;
use std::fs;
use std::io;

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

    /// Stops or continues every process inside; a kill works on a stopped group too.
    ///
    /// # Errors
    /// When the kernel has no freezer for the group.
    pub fn set_frozen(&self, frozen: bool) -> io::Result<()> {
        if let Some(group) = &self.unified {
            return fs::write(group.join("cgroup.freeze"), if frozen { "1" } else { "0" });
        }
        let freezer = self.v1.iter().find(|(name, _)| name == "freezer");
        let (_, group) = freezer.ok_or(io::ErrorKind::Unsupported)?;
        fs::write(
            group.join("freezer.state"),
            if frozen { "FROZEN" } else { "THAWED" },
        )
    }
}
