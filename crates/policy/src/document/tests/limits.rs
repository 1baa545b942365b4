// SPDX-License-Identifier: Apache-2.0
//! Limits, as they are written and as they are refused.

use super::*;

// ATTACK: 159
#[test]
fn limits_that_wrap_vanish_or_mean_nothing_are_refused() {
    for size in [
        "0MiB",
        "-1MiB",
        "18446744073709551616MiB",
        "18446744073709551615GiB",
        "1e99G",
        "512m ",
        "512MiB ",
        " 512MiB",
        "512 MiB",
        "512MB",
        "512",
        "",
        "MiB",
        "0x10MiB",
        "+1MiB",
        "007MiB",
        "1.5GiB",
        "unlimited",
        "-1",
        "17TiB",
    ] {
        refuse(&format!("[sandbox.limits]\nmemory = «\"{size}\"»"), "");
    }
    for time in [
        "0s",
        "1",
        "1H",
        "1h30m",
        "1 h",
        "-1h",
        "99999999999999999999d",
        "31d",
        "٣h",
        "",
    ] {
        refuse(&format!("[sandbox.limits]\nwall = «\"{time}\"»"), "");
    }
    for number in [
        "0",
        "-1",
        "\"512\"",
        "1e3",
        "18446744073709551615",
        "9223372036854775807",
        "true",
    ] {
        refuse(&format!("[sandbox.limits]\npids = «{number}»"), "");
    }
    for cpus in [
        "0", "0.0", "-1", "inf", "nan", "1e3", "0.0001", "1025", "\"2\"",
    ] {
        refuse(&format!("[sandbox.limits]\ncpus = «{cpus}»"), "");
    }
}

#[test]
fn limits_are_read_exactly() {
    let text = "[sandbox.limits]\nwall = \"90s\"\nidle = \"2d\"\ncpus = 0.5\n\
                memory = \"512MiB\"\npids = 7\nrecords = 10\nrequests = 9\nrate = \"50/s\"";
    let limits = read(text).sandbox.limits;
    assert_eq!(
        (limits.wall_seconds, limits.idle_seconds, limits.cpu_milli),
        (90, 172_800, 500)
    );
    assert_eq!(
        (limits.memory_bytes, limits.pids, limits.records),
        (512 << 20, 7, 10)
    );
    assert_eq!((limits.requests, limits.rate), (9, 50));
    assert_eq!(limits.disk_bytes, LIMITS_DEFAULT.disk_bytes);
    for rate in ["50", "\"50\"", "\"0/s\"", "\"5/m\"", "\"100001/s\""] {
        refuse(&format!("[sandbox.limits]\nrate = «{rate}»"), "");
    }
}

#[test]
fn one_host_has_what_the_document_says_and_never_more_than_the_session() {
    let limits = |text: &str| read(&format!("[sandbox.limits]\n{text}")).sandbox.limits;
    let plain = limits("requests = 9\negress = \"5KiB\"\ningress = \"6KiB\"\nstreams = 7");
    let host = &plain.each_host;
    assert_eq!((host.requests, host.egress_bytes), (9, 5 << 10));
    assert_eq!((host.ingress_bytes, host.streams), (6 << 10, 7));
    let narrow = limits("ingress = \"6KiB\"\neach_host = { ingress = \"6KiB\", streams = 1 }");
    assert_eq!(narrow.each_host.ingress_bytes, 6 << 10);
    assert_eq!((narrow.streams, narrow.each_host.streams), (512, 1));
    for more in [
        "requests = 9\neach_host = { requests = «10» }",
        "egress = \"1KiB\"\neach_host = { egress = «\"2KiB\"» }",
        "ingress = \"1KiB\"\neach_host = { ingress = «\"2KiB\"» }",
        "streams = 2\neach_host = { streams = «3» }",
        "streams = «513»",
        "streams = «0»",
        "each_host = { requests = «0» }",
        "each_host = «3»",
    ] {
        refuse(&format!("[sandbox.limits]\n{more}"), "");
    }
}
