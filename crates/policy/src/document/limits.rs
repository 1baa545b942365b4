// SPDX-License-Identifier: Apache-2.0
//! Sizes, durations and limits. No spelling of any of them means "unlimited".

use super::DocumentError;
use super::fields::{Fields, Value, fail, text, whole};
use crate::grant::{HostLimits, Limits};
use toml::de::DeValue;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;
const TIB: u64 = 1024 * GIB;

/// What holds where the document says nothing: enough for one task of an agent on a laptop.
pub const LIMITS_DEFAULT: Limits = Limits {
    // A task that takes longer than an hour is better told so.
    wall_seconds: HOUR,
    // Nothing said for ten minutes: nobody waits for it.
    idle_seconds: 10 * MINUTE,
    // Two CPUs build most projects and leave some for the person.
    cpu_milli: 2000,
    // A compiler or a browser test fits.
    memory_bytes: 2 * GIB,
    // Parallel builds stay below it, fork bombs don't.
    pids: 512,
    // Dependencies of a large project fit.
    disk_bytes: 4 * GIB,
    // What an agent uploads is small; a copied disk is not.
    egress_bytes: GIB,
    // What an agent fetches is larger: dependencies, images, models.
    ingress_bytes: 64 * GIB,
    // About 28 requests a second for an hour.
    records: 100_000,
    // The records of a session are spent before; a document that means one says so.
    requests: 1_000_000,
    rate: 100_000,
    // A browser-like client opens six to a host; this is dozens of such clients.
    streams: 512,
    each_host: HostLimits {
        requests: 1_000_000,
        egress_bytes: GIB,
        ingress_bytes: 64 * GIB,
        streams: 512,
    },
};

/// LIMIT: the most that a document can ask for. Above these a number is a mistake, and sums over
/// a fleet's sessions stay far from 64 bits.
pub const LIMITS_MAX: Limits = Limits {
    wall_seconds: 30 * DAY,
    idle_seconds: 30 * DAY,
    cpu_milli: 1_024_000,
    memory_bytes: 16 * TIB,
    pids: 1_000_000,
    disk_bytes: 256 * TIB,
    egress_bytes: 256 * TIB,
    ingress_bytes: 256 * TIB,
    records: 100_000_000,
    requests: 100_000_000,
    rate: 100_000,
    // A gate holds buffers for each.
    streams: 512,
    each_host: HostLimits {
        requests: 100_000_000,
        egress_bytes: 256 * TIB,
        ingress_bytes: 256 * TIB,
        streams: 512,
    },
};

const KEYS: [&str; 13] = [
    "wall",
    "idle",
    "cpus",
    "memory",
    "pids",
    "disk",
    "egress",
    "ingress",
    "records",
    "requests",
    "rate",
    "streams",
    "each_host",
];
const HOST_KEYS: [&str; 4] = ["requests", "egress", "ingress", "streams"];

const ABOVE_ALL: &str = "this is above what any session may have";

pub(super) fn read(value: Option<&Value<'_>>) -> Result<Limits, DocumentError> {
    let mut limits = LIMITS_DEFAULT;
    let Some(value) = value else {
        return Ok(limits);
    };
    let fields = Fields::of(value, &KEYS)?;
    let max = &LIMITS_MAX;
    let slots = [
        (
            "wall",
            &mut limits.wall_seconds,
            max.wall_seconds,
            seconds as Read,
        ),
        ("idle", &mut limits.idle_seconds, max.idle_seconds, seconds),
        ("cpus", &mut limits.cpu_milli, max.cpu_milli, milli),
        ("memory", &mut limits.memory_bytes, max.memory_bytes, bytes),
        ("pids", &mut limits.pids, max.pids, whole),
        ("disk", &mut limits.disk_bytes, max.disk_bytes, bytes),
        ("egress", &mut limits.egress_bytes, max.egress_bytes, bytes),
        (
            "ingress",
            &mut limits.ingress_bytes,
            max.ingress_bytes,
            bytes,
        ),
        ("records", &mut limits.records, max.records, whole),
        ("requests", &mut limits.requests, max.requests, whole),
        ("rate", &mut limits.rate, max.rate, per_second),
        ("streams", &mut limits.streams, max.streams, whole),
    ];
    for (key, slot, max, read) in slots {
        if let Some(value) = fields.get(key) {
            *slot = bounded(value, (max, ABOVE_ALL), read)?;
        }
    }
    limits.each_host = each_host(fields.get("each_host"), &limits)?;
    Ok(limits)
}

/// What one host may have of the session's: all of it where nothing is said.
fn each_host(value: Option<&Value<'_>>, all: &Limits) -> Result<HostLimits, DocumentError> {
    let mut host = HostLimits {
        requests: all.requests,
        egress_bytes: all.egress_bytes,
        ingress_bytes: all.ingress_bytes,
        streams: all.streams,
    };
    let Some(value) = value else {
        return Ok(host);
    };
    let fields = Fields::of(value, &HOST_KEYS)?;
    let slots = [
        ("requests", &mut host.requests, all.requests, whole as Read),
        ("egress", &mut host.egress_bytes, all.egress_bytes, bytes),
        ("ingress", &mut host.ingress_bytes, all.ingress_bytes, bytes),
        ("streams", &mut host.streams, all.streams, whole),
    ];
    for (key, slot, max, read) in slots {
        if let Some(value) = fields.get(key) {
            let above = "one host can't have more than the whole session";
            *slot = bounded(value, (max, above), read)?;
        }
    }
    Ok(host)
}

type Read = fn(&Value<'_>) -> Result<u64, DocumentError>;

fn bounded(value: &Value<'_>, (max, above): (u64, &str), read: Read) -> Result<u64, DocumentError> {
    match read(value)? {
        0 => fail(
            value.span(),
            "0 is no limit to work under; leave the key out for the default",
        ),
        number if number > max => fail(value.span(), above),
        number => Ok(number),
    }
}

/// `90s`, `10m`, `1h`, `2d`.
fn seconds(value: &Value<'_>) -> Result<u64, DocumentError> {
    let units = [("s", 1), ("m", MINUTE), ("h", HOUR), ("d", DAY)];
    quantity(
        value,
        &units,
        "a duration is a whole number with `s`, `m`, `h` or `d`, as in \"10m\"",
    )
}

/// `512MiB`, `2GiB`.
fn bytes(value: &Value<'_>) -> Result<u64, DocumentError> {
    let units = [("KiB", KIB), ("MiB", MIB), ("GiB", GIB), ("TiB", TIB)];
    let rule = "a size is a whole number with `KiB`, `MiB`, `GiB` or `TiB`, as in \"512MiB\"";
    quantity(value, &units, rule)
}

/// `50/s`.
fn per_second(value: &Value<'_>) -> Result<u64, DocumentError> {
    quantity(
        value,
        &[("/s", 1)],
        "a rate is a whole number with `/s`, as in \"50/s\"",
    )
}

// ATTACK: 159
fn quantity(value: &Value<'_>, units: &[(&str, u64)], rule: &str) -> Result<u64, DocumentError> {
    let given = text(value)?;
    let unit_at = given
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(given.len());
    let (digits, unit) = given.split_at(unit_at);
    let unit = units.iter().find(|(name, _)| *name == unit);
    let (Some((_, factor)), false, false) = (unit, digits.is_empty(), digits.starts_with('0'))
    else {
        return fail(value.span(), rule);
    };
    let number = digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(*factor));
    match number {
        Some(number) => Ok(number),
        None => fail(value.span(), ABOVE_ALL),
    }
}

/// `2`, or `0.5` with at most three decimals.
fn milli(value: &Value<'_>) -> Result<u64, DocumentError> {
    let rule = "a number of CPUs belongs here, as in 2 or 0.5";
    let decimal = match value.get_ref() {
        DeValue::Integer(_) => return Ok(whole(value)?.saturating_mul(1000)),
        DeValue::Float(number) => number.as_str(),
        _ => return fail(value.span(), rule),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    match decimal.split_once('.') {
        Some((whole, part)) if digits(whole) && digits(part) && (1..=3).contains(&part.len()) => {
            let milli = format!("{whole}{part:0<3}").parse::<u64>();
            milli.or_else(|_| fail(value.span(), rule))
        }
        _ => fail(value.span(), rule),
    }
}
