// SPDX-License-Identifier: Apache-2.0
//! Dates of cookies as servers write them: tokens in any order (RFC 6265bis §5.1.1).

/// What was found of a date.
#[derive(Default)]
struct Found {
    time: Option<[u64; 3]>,
    day: Option<u64>,
    month: Option<u64>,
    year: Option<u64>,
}

/// Unix seconds; nothing where it is no date. What is before 1970 is its first second.
pub(super) fn unix_seconds(text: &[u8]) -> Option<u64> {
    let mut found = Found::default();
    for token in text.split(|b| is_delimiter(*b)) {
        if found.time.is_none()
            && let Some(time) = time(token)
        {
            found.time = Some(time);
        } else if found.day.is_none()
            && let Some(day) = number(token, 1..=2)
        {
            found.day = Some(day);
        } else if found.month.is_none()
            && let Some(month) = month(token)
        {
            found.month = Some(month);
        } else if found.year.is_none()
            && let Some(year) = number(token, 2..=4)
        {
            found.year = Some(year);
        }
    }
    let year = match found.year? {
        short @ 70..=99 => short + 1900,
        short @ 0..=69 => short + 2000,
        year => year,
    };
    let (day, month, [hour, minute, second]) = (found.day?, found.month?, found.time?);
    let is_day = (1..=days_of(year, month)).contains(&day);
    if year < 1601 || !is_day || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let leaps = |year: u64| year / 4 - year / 100 + year / 400;
    let before = year
        .checked_sub(1970)
        .map(|years| years * 365 + leaps(year - 1) - leaps(1969));
    let Some(before) = before else {
        return Some(0);
    };
    let months: u64 = (1..month).map(|month| days_of(year, month)).sum();
    let days = before + months + day - 1;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

fn is_delimiter(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'/' | b';'..=b'@' | b'['..=b'`' | b'{'..=b'~')
}

/// A number of so many digits, with anything but a digit behind it.
fn number(token: &[u8], digits: std::ops::RangeInclusive<usize>) -> Option<u64> {
    let count = token.iter().take_while(|b| b.is_ascii_digit()).count();
    let text = std::str::from_utf8(token.get(..count)?).ok()?;
    digits.contains(&count).then(|| text.parse().ok())?
}

/// `9:05:00`, with anything but a digit behind it.
fn time(token: &[u8]) -> Option<[u64; 3]> {
    let mut parts = token.splitn(3, |b| *b == b':');
    let whole = |part: &[u8]| number(part, 1..=2).filter(|_| part.iter().all(u8::is_ascii_digit));
    let (hour, minute) = (whole(parts.next()?)?, whole(parts.next()?)?);
    Some([hour, minute, number(parts.next()?, 1..=2)?])
}

fn month(token: &[u8]) -> Option<u64> {
    const MONTHS: [&[u8]; 12] = [
        b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov",
        b"dec",
    ];
    let name = token.get(..3)?.to_ascii_lowercase();
    let at = MONTHS.iter().position(|known| **known == name)?;
    u64::try_from(at + 1).ok()
}

fn days_of(year: u64, month: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
