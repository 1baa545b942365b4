// SPDX-License-Identifier: Apache-2.0
//! How long a "does not work here" counts. What a probe, an image or a trial failed for may be gone
//! a moment later (memory, room on the disk, descriptors), so none is kept for a launcher's life;
//! and none is asked for so often that asking becomes the launcher's work.

use std::time::{Duration, Instant};

/// LIMIT: of the time of whoever asks again and again, a tenth goes into finding out.
const TIMES: u32 = 10;
/// LIMIT: what failed at once is not asked for more often than this.
const LEAST: Duration = Duration::from_secs(1);
/// LIMIT: whatever it took, it is tried again after this.
const MOST: Duration = Duration::from_secs(120);

/// LIMIT: what failed again and again is tried after this all the same.
const MOST_REPEATED: Duration = Duration::from_secs(3600);

/// When something that failed may be tried again.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Again(Instant);

impl Again {
    /// It failed now, and took so long.
    pub(in super::super) fn after(took: Duration) -> Self {
        Self(Instant::now() + wait(took))
    }

    /// The same, after so many failures before: each doubles the wait, so that whoever asks now and
    /// then does not wait each time for what never works.
    pub(in super::super) fn after_repeated(took: Duration, before: u32) -> Self {
        Self(Instant::now() + wait_repeated(took, before))
    }

    pub(in super::super) fn is_due(self) -> bool {
        Instant::now() >= self.0
    }
}

fn wait(took: Duration) -> Duration {
    took.saturating_mul(TIMES).clamp(LEAST, MOST)
}

fn wait_repeated(took: Duration, before: u32) -> Duration {
    let first = wait(took.max(LEAST));
    first
        .saturating_mul(2_u32.saturating_pow(before))
        .min(MOST_REPEATED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_counts_ten_times_as_long_as_it_took_within_limits() {
        assert_eq!(wait(Duration::ZERO), LEAST);
        assert_eq!(wait(Duration::from_secs(3)), Duration::from_secs(30));
        assert_eq!(wait(Duration::MAX), MOST);
        assert_eq!(wait_repeated(Duration::ZERO, 0), Duration::from_secs(10));
        assert_eq!(wait_repeated(Duration::ZERO, 3), Duration::from_secs(80));
        assert_eq!(wait_repeated(Duration::ZERO, u32::MAX), MOST_REPEATED);
        assert!(!Again::after(Duration::ZERO).is_due());
    }
}
