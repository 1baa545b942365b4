// SPDX-License-Identifier: Apache-2.0
//! The time of a signature, in the one spelling of AWS: `20150830T123600Z`.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970-01-01, of a year with four digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(u64);

const DAY: u64 = 86_400;
/// LIMIT: the end of the year 9999; a later one has no spelling.
const END: u64 = 253_402_300_800;

impl Stamp {
    /// Reads `20150830T123600Z`, of a day that there is.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
        let number = |text: &str, start: usize, count: usize| -> Option<u64> {
            let digits = text.get(start..start + count)?;
            let plain = digits.bytes().all(|b| b.is_ascii_digit());
            plain.then(|| digits.parse().ok()).flatten()
        };
        let (year, month, day) = (
            number(date, 0, 4)?,
            number(date, 4, 2)?,
            number(date, 6, 2)?,
        );
        let (hour, minute, second) = (
            number(time, 0, 2)?,
            number(time, 2, 2)?,
            number(time, 4, 2)?,
        );
        if year < 1970 || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let days = days(year, month.checked_sub(1)?, day)?;
        let read = Self(days * DAY + hour * 3600 + minute * 60 + second);
        // A day that there is not would be written as another.
        (read.to_string() == text).then_some(read)
    }

    /// The time of a clock, when it can be written.
    pub(crate) fn of(now: SystemTime) -> Option<Self> {
        let seconds = now.duration_since(UNIX_EPOCH).ok()?.as_secs();
        (seconds < END).then_some(Self(seconds))
    }

    /// The day, as a scope names it: `20150830`.
    pub(crate) fn day(self) -> String {
        let mut text = self.to_string();
        text.truncate(8);
        text
    }

    /// How many seconds lie between two.
    pub(crate) fn apart(self, other: Self) -> u64 {
        self.0.abs_diff(other.0)
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut day, rest) = (self.0 / DAY, self.0 % DAY);
        let mut year = 1970;
        while day >= year_days(year) {
            day -= year_days(year);
            year += 1;
        }
        let mut month = 0;
        while day >= month_days(year, month) {
            day -= month_days(year, month);
            month += 1;
        }
        let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
        let (month, day) = (month + 1, day + 1);
        write!(
            f,
            "{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z"
        )
    }
}

/// Days from 1970-01-01; the month counts from 0.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let years: u64 = (1970..year).map(year_days).sum();
    let months: u64 = (0..month.min(12))
        .map(|month| month_days(year, month))
        .sum();
    Some(years + months + day.checked_sub(1)?)
}

fn year_days(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

fn month_days(year: u64, month: u64) -> u64 {
    match month {
        1 if is_leap(year) => 29,
        1 => 28,
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    #[test]
    fn one_spelling_is_read_of_days_that_there_are() {
        let at = |text: &str| Stamp::parse(text.as_bytes()).map(|stamp| stamp.0);
        assert_eq!(at("20150830T123600Z"), Some(1_440_938_160));
        assert_eq!(at("19700101T000000Z"), Some(0));
        assert_eq!(at("20240229T235959Z"), Some(1_709_251_199));
        assert_eq!(at("99991231T235959Z"), Some(END - 1));
        for bad in [
            "",
            "20150830T123600",
            "20150830t123600Z",
            "20150830T123600z",
            "20150830T1236000Z",
            "020150830T12360Z",
            "20150830T+23600Z",
            "20150230T123600Z",
            "20150229T123600Z",
            "20151330T123600Z",
            "20150030T123600Z",
            "20150800T123600Z",
            "20150830T243600Z",
            "20150830T126000Z",
            "20150830T123660Z",
            "19691231T235959Z",
            "2015-08-30T12:36:00Z",
        ] {
            assert_eq!(at(bad), None, "{bad}");
        }
        let end = UNIX_EPOCH + Duration::from_secs(END);
        assert_eq!(Stamp::of(end), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_the_same_time(seconds in 0..END) {
            let stamp = Stamp::of(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
            prop_assert_eq!(Stamp::parse(stamp.to_string().as_bytes()), Some(stamp));
            prop_assert!(stamp.to_string().starts_with(&stamp.day()));
        }
    }
}
