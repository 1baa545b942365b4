// SPDX-License-Identifier: Apache-2.0
//! Times as people read them: RFC 3339 in UTC.

/// Unix seconds; `-` when no calendar has them.
pub(crate) fn seconds(unix: u64) -> String {
    let time = i64::try_from(unix).map(jiff::Timestamp::from_second);
    shown(time.ok().and_then(Result::ok))
}

/// Unix milliseconds; `-` when no calendar has them.
pub(crate) fn milliseconds(unix: u64) -> String {
    let time = i64::try_from(unix).map(jiff::Timestamp::from_millisecond);
    shown(time.ok().and_then(Result::ok))
}

fn shown(time: Option<jiff::Timestamp>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| time.to_string())
}
