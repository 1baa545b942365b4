// SPDX-License-Identifier: Apache-2.0
//! The profile against Docker's default, spelled out, and the mask arithmetic.

use super::*;
use std::collections::BTreeSet;

/// What Docker's default profile allows without capabilities and we don't.
#[rustfmt::skip]
const NOT_OURS: &[&str] = &[
    // Time of the host; never needed without CAP_SYS_TIME.
    "adjtimex", "clock_adjtime",
    // File-system-wide marks, handles by number, memory hidden from its owner's limits.
    "fanotify_mark", "name_to_handle_at", "memfd_secret",
    // Around the filter.
    "io_uring_enter", "io_uring_register", "io_uring_setup",
    // Old or odd: a kernel path for nobody.
    "modify_ldt", "process_mrelease", "remap_file_pages", "epoll_ctl_old", "epoll_wait_old",
];

/// What its default refuses without capabilities: never ours either.
#[rustfmt::skip]
const REFUSED_BY_BOTH: &[&str] = &[
    "acct", "add_key", "bpf", "chroot", "clock_settime", "clone3", "create_module",
    "delete_module", "fanotify_init", "finit_module", "fsconfig", "fsmount", "fsopen", "fspick",
    "get_mempolicy", "init_module", "ioperm", "iopl", "kcmp", "kexec_file_load", "kexec_load",
    "keyctl", "lookup_dcookie", "mbind", "mount", "mount_setattr", "move_mount", "move_pages",
    "nfsservctl", "open_by_handle_at", "open_tree", "perf_event_open", "pidfd_getfd", "pivot_root",
    "process_madvise", "quotactl", "quotactl_fd", "reboot", "request_key", "set_mempolicy",
    "setdomainname", "sethostname", "setns", "settimeofday", "swapoff", "swapon", "sysfs",
    "syslog", "umount2", "unshare", "uselib", "userfaultfd", "ustat", "vhangup", "vm86",
];

// ATTACK: 134
// ATTACK: 136
// ATTACK: 144
#[test]
fn nothing_that_dockers_default_refuses_is_allowed() {
    let ours: BTreeSet<&str> = ALLOWED.iter().copied().collect();
    for name in NOT_OURS.iter().chain(REFUSED_BY_BOTH) {
        assert!(!ours.contains(name), "{name}");
    }
    assert_eq!(ours.len(), ALLOWED.len(), "no name twice");
    // Those with arguments are never in the unconditional list.
    for name in ["clone", "personality", "socket", "socketpair", "ioctl"] {
        assert!(!ours.contains(name), "{name}");
    }
}

#[test]
fn the_default_is_eperm_and_probes_get_enosys() {
    let profile = profile();
    assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
    assert_eq!(profile["defaultErrnoRet"], 1);
    assert_eq!(
        profile["architectures"].as_array().unwrap().len(),
        1,
        "the native ABI alone"
    );
    let absent = &profile["syscalls"][1];
    assert_eq!(absent["errnoRet"], 38);
    assert_eq!(absent["names"].as_array().unwrap().len(), 4);
}

/// Whether the profile lets a socket of this family, type and protocol be opened.
fn opens(family: u64, kind: u64, protocol: u64) -> bool {
    let words = [family, kind, protocol];
    let holds = |condition: &Value| {
        let number = |key: &str| condition[key].as_u64().unwrap();
        let word = words[usize::try_from(number("index")).unwrap()];
        match condition["op"].as_str().unwrap() {
            "SCMP_CMP_EQ" => word == number("value"),
            "SCMP_CMP_MASKED_EQ" => word & number("value") == number("valueTwo"),
            other => panic!("{other}"),
        }
    };
    let profile = profile();
    let rules = profile["syscalls"].as_array().unwrap().iter();
    rules
        .filter(|rule| rule["names"][0] == "socket")
        .any(|rule| rule["args"].as_array().unwrap().iter().all(holds))
}

// ATTACK: 136
#[test]
fn of_the_internet_only_tcp_and_udp_can_be_opened() {
    let (nonblock, cloexec) = (0o4000, 0o200_0000);
    for family in [2, 10] {
        for flags in [0, nonblock, cloexec, nonblock | cloexec] {
            for (kind, protocol) in [(1, 0), (1, 6), (2, 0), (2, 17)] {
                assert!(opens(family, kind | flags, protocol));
            }
        }
        // MPTCP, ping, UDP-Lite, SCTP by protocol and by type, DCCP, raw.
        for (kind, protocol) in [
            (1, 262),
            (2, 1),
            (2, 58),
            (2, 136),
            (1, 132),
            (5, 132),
            (5, 0),
            (6, 33),
            (6, 0),
            (3, 0),
            (3, 255),
        ] {
            assert!(!opens(family, kind, protocol), "{family} {kind} {protocol}");
        }
    }
    assert!(opens(1, 5, 0) && opens(16, 3, 0) && !opens(16, 3, 12));
    assert!(!opens(17, 3, 0) && !opens(38, 5, 0) && !opens(40, 1, 0));
    assert!(
        !opens(1 << 32 | 2, 1, 0),
        "the kernel would cut the high bits off"
    );
}

// ATTACK: 136
#[test]
fn a_pair_of_sockets_is_of_this_host_alone() {
    let profile = profile();
    let rules = profile["syscalls"].as_array().unwrap().iter();
    let is_pair = |name: &serde_json::Value| name == "socketpair";
    let of_pairs = rules.filter(|rule| rule["names"].as_array().unwrap().iter().any(is_pair));
    let arguments: Vec<_> = of_pairs.map(|rule| rule["args"].clone()).collect();
    let unix = serde_json::json!([{ "index": 0, "value": 1, "op": "SCMP_CMP_EQ" }]);
    assert_eq!(arguments, [unix]);
}

// ATTACK: 133
#[test]
fn every_request_but_terminal_injection_is_in_the_complement() {
    let rules: Vec<(u64, u64)> = ioctl_complement().collect();
    let allowed = |request: u64| rules.iter().any(|(mask, value)| request & mask == *value);
    for denied in [0x5412_u64, 0x541C] {
        for high in [
            0,
            0x8004_0000,
            1 << 32,
            0x7fff_ffff_0000_0000,
            0xffff_ffff_0000_0000,
        ] {
            assert!(!allowed(denied | high), "{:#x}", denied | high);
        }
    }
    let neighbours = (0x5400..0x5500).chain([0, 1, 0xffff_ffff, 0x8912, 0x8004_5430]);
    for request in neighbours.filter(|request| ![0x5412, 0x541C].contains(request)) {
        assert!(allowed(request), "{request:#x}");
    }
}
