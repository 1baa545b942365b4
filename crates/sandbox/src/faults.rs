// SPDX-License-Identifier: Apache-2.0
//! Runtimes' known faults by version. They warn, since a distribution may have repaired an old
//! version; what can't work at all, and an organisation's floor, refuse.

use crate::runtime::{Runtime, RuntimeKind};
use std::fmt;

/// A version, comparable: three numbers, or gVisor's date as the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u32, pub u32, pub u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(major, minor, patch) = self;
        if *major >= OLDEST_DATE {
            write!(f, "{major}")
        } else {
            write!(f, "{major}.{minor}.{patch}")
        }
    }
}

/// gVisor's versions are dates; none is before this one.
const OLDEST_DATE: u32 = 20_180_000;
/// The systrap platform works from here on; Debian 12's build is older.
const SYSTRAP: Version = Version(20_230_800, 0, 0);

/// A fault of a runtime that upstream has repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Which runtime.
    pub kind: RuntimeKind,
    /// Its public name.
    pub name: &'static str,
    /// What it allows.
    pub what: &'static str,
    /// Upstream's first good version of each maintained branch, oldest first.
    pub fixed: &'static [Version],
}

/// Public faults that matter for a hostile workload.
pub const FAULTS: [Fault; 7] = [
    Fault {
        kind: RuntimeKind::Runc,
        name: "CVE-2024-21626",
        what: "a leaked descriptor reaches the host's files",
        fixed: &[Version(1, 1, 12)],
    },
    Fault {
        kind: RuntimeKind::Runc,
        name: "CVE-2024-45310",
        what: "a shared volume lets empty files be made on the host",
        fixed: &[Version(1, 1, 14)],
    },
    Fault {
        kind: RuntimeKind::Runc,
        name: "CVE-2025-31133",
        what: "a replaced /dev/null unmasks host state",
        fixed: &[Version(1, 2, 8), Version(1, 3, 3), Version(1, 4, 0)],
    },
    Fault {
        kind: RuntimeKind::Runc,
        name: "CVE-2025-52565",
        what: "a raced /dev/console mount reaches host state",
        fixed: &[Version(1, 2, 8), Version(1, 3, 3), Version(1, 4, 0)],
    },
    Fault {
        kind: RuntimeKind::Runc,
        name: "CVE-2025-52881",
        what: "writes to /proc can be redirected",
        fixed: &[Version(1, 2, 8), Version(1, 3, 3), Version(1, 4, 0)],
    },
    Fault {
        kind: RuntimeKind::Crun,
        name: "CVE-2022-27650",
        what: "processes start with inheritable capabilities",
        fixed: &[Version(1, 4, 4)],
    },
    Fault {
        kind: RuntimeKind::Crun,
        name: "CVE-2025-24965",
        what: "the krun handler writes outside of the root directory",
        fixed: &[Version(1, 20, 0)],
    },
];

/// The version that a runtime's line names.
#[must_use]
pub fn version_of(runtime: &Runtime) -> Option<Version> {
    let word = runtime.version.split_whitespace().find(|word| {
        word.starts_with(|c: char| c.is_ascii_digit()) || word.starts_with("release-")
    })?;
    let numbers = |text: &str| -> Vec<u32> {
        text.split(|c: char| !c.is_ascii_digit())
            .filter_map(|part| part.parse().ok())
            .collect()
    };
    if runtime.kind == RuntimeKind::Runsc {
        // `0.0~20240729.0` of Debian, `release-20240729.0` of upstream.
        return numbers(word)
            .into_iter()
            .find(|part| *part >= OLDEST_DATE)
            .map(|date| Version(date, 0, 0));
    }
    match numbers(word).as_slice() {
        [major] => Some(Version(*major, 0, 0)),
        [major, minor] => Some(Version(*major, *minor, 0)),
        [major, minor, patch, ..] => Some(Version(*major, *minor, *patch)),
        [] => None,
    }
}

/// Whether the runtime can run a sandbox at all; an unknown version can't be trusted to.
#[must_use]
pub(crate) fn is_new_enough(runtime: &Runtime) -> bool {
    runtime.kind != RuntimeKind::Runsc
        || version_of(runtime).is_some_and(|version| version >= SYSTRAP)
}

/// The faults that this version has unless its distribution repaired them.
pub fn faults_of(runtime: &Runtime) -> impl Iterator<Item = &'static Fault> {
    let kind = runtime.kind;
    let version = version_of(runtime);
    FAULTS
        .iter()
        .filter(move |fault| fault.kind == kind && version.is_none_or(|found| has(fault, found)))
}

/// Repaired in its own branch, or newer than every branch that was.
fn has(fault: &Fault, found: Version) -> bool {
    let branch = fault
        .fixed
        .iter()
        .find(|fixed| (fixed.0, fixed.1) == (found.0, found.1));
    match branch {
        Some(fixed) => found < *fixed,
        None => fault.fixed.last().is_none_or(|last| found < *last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime(kind: RuntimeKind, version: &str) -> Runtime {
        Runtime {
            kind,
            path: "/usr/bin/x".into(),
            version: version.into(),
        }
    }

    // ATTACK: 141
    #[test]
    fn versions_are_read_as_the_runtimes_print_them() {
        for (kind, text, expected) in [
            (RuntimeKind::Crun, "crun version 1.8.1", Version(1, 8, 1)),
            (RuntimeKind::Crun, "crun version 1.21", Version(1, 21, 0)),
            (
                RuntimeKind::Runc,
                "runc version 1.1.5+ds1",
                Version(1, 1, 5),
            ),
            (
                RuntimeKind::Runc,
                "runc version 1.4.0-rc.3",
                Version(1, 4, 0),
            ),
            (
                RuntimeKind::Runsc,
                "runsc version 0.0~20240729.0",
                Version(20_240_729, 0, 0),
            ),
            (
                RuntimeKind::Runsc,
                "runsc version release-20251103.0",
                Version(20_251_103, 0, 0),
            ),
        ] {
            assert_eq!(version_of(&runtime(kind, text)), Some(expected), "{text}");
        }
        assert_eq!(version_of(&runtime(RuntimeKind::Crun, "crun")), None);
    }

    #[test]
    fn a_fault_counts_until_its_branch_was_repaired() {
        let names = |version: &str| -> Vec<&str> {
            faults_of(&runtime(RuntimeKind::Runc, version))
                .map(|fault| fault.name)
                .collect()
        };
        assert_eq!(names("runc version 1.1.5+ds1").len(), 5);
        assert_eq!(names("runc version 1.2.7").len(), 3);
        assert_eq!(names("runc version 1.2.8"), [""; 0]);
        assert_eq!(names("runc version 1.3.2").len(), 3);
        assert_eq!(names("runc version 1.5.0"), [""; 0]);
        assert_eq!(names("runc").len(), 5, "an unknown version has them all");
    }

    #[test]
    fn a_user_space_kernel_without_systrap_is_too_old() {
        assert!(!is_new_enough(&runtime(
            RuntimeKind::Runsc,
            "runsc version 0.0~20221219.0"
        )));
        assert!(!is_new_enough(&runtime(
            RuntimeKind::Runsc,
            "runsc version ?"
        )));
        assert!(is_new_enough(&runtime(
            RuntimeKind::Runsc,
            "runsc version 0.0~20240729.0"
        )));
    }
}
