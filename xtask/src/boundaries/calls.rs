// SPDX-License-Identifier: Apache-2.0
//! Calls and constructions that only one place may hold, read from the sources without tests.

use crate::source::Source;
use crate::tidy::Finding;

/// What a pure crate's source may not name.
const PURE: [&str; 3] = [
    "crates/policy/",
    "crates/guest-protocol/",
    "crates/notary-protocol/",
];
const EFFECTS: [&str; 10] = [
    "std::fs",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "ToSocketAddrs",
    "std::env",
    "std::process",
    "std::thread",
    "SystemTime",
    "Instant",
];

/// Where `unsafe` may stand.
const UNSAFE: [&str; 5] = [
    "crates/guest/src/sys.rs",
    "crates/sandbox/src/sys.rs",
    "crates/sandbox/src/sys/",
    "crates/vault/src/sys.rs",
    "crates/vault/src/sys/",
];

/// Who may start a program, and why.
const SPAWN: [(&str, &str); 9] = [
    ("crates/sandbox/src/", "runtimes of the drivers"),
    ("crates/guest/src/", "the workload's commands"),
    ("crates/cli/src/daemon.rs", "tornod on demand"),
    (
        "crates/cli/src/command/session/commits/git.rs",
        "git, on objects in a quarantine and in the person's own repository",
    ),
    (
        "crates/image/src/debian/run.rs",
        "mmdebstrap, as the person who builds an image",
    ),
    ("crates/control/src/spawn.rs", "the roles"),
    ("xtask/", "tasks"),
    ("stage/", "the world around Torno"),
    ("bench/", "the peers that are measured"),
];

/// A place that may call `expose`.
struct Allowance {
    /// A file, or a folder with all that is in it.
    place: &'static str,
    /// How many calls stand there; none given means that the place is plaintext's own home.
    calls: Option<usize>,
    /// What it is for.
    because: &'static str,
}

/// Who may call `expose`, how often, and what for. Everybody else: never.
const EXPOSE: [Allowance; 4] = [
    Allowance {
        place: "crates/egress/src/inject.rs",
        calls: Some(1),
        because: "puts a credential in transit into the one request it was unlocked for",
    },
    Allowance {
        place: "crates/notary/src/operator.rs",
        calls: Some(1),
        because: "reads the secret that an operator's request brought in",
    },
    Allowance {
        place: "crates/notary/src/frames.rs",
        calls: Some(1),
        because: "puts a secret of the vault into the frame for a gate",
    },
    Allowance {
        place: "crates/vault/src/",
        calls: None,
        because: "seals and opens its own keys and values",
    },
];

/// Checks every source.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        findings.extend(single_file(source));
    }
    findings.extend(expose(sources));
    findings
}

fn single_file(source: &Source) -> Vec<Finding> {
    let place = source.path.display().to_string();
    let within = |places: &[&str]| places.iter().any(|p| place.starts_with(p));
    let mut findings = Vec::new();
    let mut find = |rule, at, what: &str| {
        findings.push(Finding {
            rule,
            place: place.clone(),
            what: format!("line {}: {what}", source.line_of(at)),
        });
    };
    if !within(&UNSAFE) {
        for at in source.find("unsafe") {
            find(
                "unsafe",
                at,
                "`unsafe` stands only in guest/src/sys, sandbox/src/sys and vault/src/sys",
            );
        }
    }
    if !within(&SPAWN.map(|(start, _)| start)) {
        for at in source.find("Command::new") {
            find("spawn", at, "this place starts no programs");
        }
    }
    if within(&PURE) {
        for effect in EFFECTS {
            for at in source.find(effect) {
                find(
                    "pure",
                    at,
                    &format!("`{effect}` in a pure crate; take it as an argument"),
                );
            }
        }
    }
    if !place.starts_with("crates/policy/src/decide") {
        for at in permits(source) {
            find(
                "permit",
                at,
                "a Permit is made in policy::decide and nowhere else",
            );
        }
    }
    findings
}

/// Where a `Permit` is constructed: `Permit {` that is no definition, impl, pattern or import.
fn permits(source: &Source) -> Vec<usize> {
    let mut found = Vec::new();
    for at in source.find("Permit") {
        let before = source.code.get(..at).unwrap_or_default();
        let after = source.code.get(at + "Permit".len()..).unwrap_or_default();
        let keyword = before.split_whitespace().next_back().unwrap_or_default();
        let braces = after.trim_start().starts_with('{');
        // `-> Permit {`, `impl X for Permit {`, `struct Permit {`, and `Effect::Permit`.
        let other = ["struct", "impl", "for", "->", "enum"].contains(&keyword)
            || before.ends_with("Effect::")
            || before.ends_with("->");
        if braces && !other {
            found.push(at);
        }
    }
    found
}

fn expose(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let calls = |source: &Source| -> Vec<usize> {
        let mut calls = source.find(".expose(");
        calls.extend(source.find("::expose"));
        calls
    };
    let mut inside = [0_usize; EXPOSE.len()];
    for source in sources {
        let place = source.path.display().to_string();
        let row = EXPOSE.iter().position(|row| place.starts_with(row.place));
        for at in calls(source) {
            match row.and_then(|row| inside.get_mut(row)) {
                Some(count) => *count += 1,
                None => findings.push(Finding {
                    rule: "expose",
                    place: place.clone(),
                    what: format!(
                        "line {}: this place exposes no credential",
                        source.line_of(at)
                    ),
                }),
            }
        }
    }
    for (row, count) in EXPOSE.iter().zip(inside) {
        if let Some(most) = row.calls.filter(|most| count > *most) {
            findings.push(Finding {
                rule: "expose",
                place: row.place.to_owned(),
                what: format!(
                    "{count} calls of `expose`, at most {most}: this place {} and no more",
                    row.because
                ),
            });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn rules(path: &str, text: &str) -> Vec<&'static str> {
        let source = Source::new(Path::new(path), text.to_owned());
        check(&[source]).into_iter().map(|f| f.rule).collect()
    }

    #[test]
    fn unsafe_outside_sys_is_seen() {
        let text = "fn f() { unsafe { g() } }";
        assert_eq!(rules("crates/egress/src/x.rs", text), ["unsafe"]);
        assert_eq!(rules("crates/sandbox/src/driver.rs", text), ["unsafe"]);
        assert!(rules("crates/sandbox/src/sys/mount.rs", text).is_empty());
        assert!(rules("crates/egress/src/x.rs", "// unsafe\nfn unsafe_name() {}").is_empty());
    }

    #[test]
    fn starting_a_program_from_the_gate_is_seen() {
        let text = "fn f() { std::process::Command::new(\"sh\"); }";
        assert_eq!(rules("crates/egress/src/x.rs", text), ["spawn"]);
        assert_eq!(rules("crates/cli/src/run.rs", text), ["spawn"]);
        assert!(rules("crates/cli/src/daemon.rs", text).is_empty());
        assert!(rules("crates/guest/src/exec.rs", text).is_empty());
    }

    #[test]
    fn a_permit_made_outside_decide_is_seen() {
        let made = "fn f() -> Permit { Permit { session } }";
        assert_eq!(rules("crates/policy/src/grant.rs", made), ["permit"]);
        assert_eq!(
            rules(
                "crates/notary/src/answer.rs",
                "let p = policy::Permit { x };"
            ),
            ["permit"]
        );
        assert!(rules("crates/policy/src/decide.rs", made).is_empty());
        let defined = "pub struct Permit { a: u8 }\nimpl Permit { }\nimpl X for Permit { }";
        assert!(rules("crates/policy/src/decision.rs", defined).is_empty());
    }

    #[test]
    fn a_second_call_of_expose_and_one_elsewhere_are_seen() {
        let one = "fn f() { c.expose(); }";
        let two = "fn f() { c.expose(); C::expose(&c); }";
        for place in [
            "crates/egress/src/inject.rs",
            "crates/notary/src/operator.rs",
            "crates/notary/src/frames.rs",
        ] {
            assert!(rules(place, one).is_empty(), "{place}");
            assert_eq!(rules(place, two), ["expose"], "{place}");
        }
        for place in [
            "crates/egress/src/pipeline.rs",
            "crates/notary/src/answer.rs",
            "crates/notary-protocol/src/transit.rs",
            "crates/control/src/desk.rs",
        ] {
            assert_eq!(rules(place, one), ["expose"], "{place}");
        }
        assert!(rules("crates/vault/src/seal.rs", two).is_empty());
        let test = format!("#[cfg(test)]\nmod tests {{ {two} }}");
        assert!(rules("crates/notary-protocol/src/transit.rs", &test).is_empty());
    }

    #[test]
    fn a_clock_or_a_file_in_a_pure_crate_is_seen() {
        let text = "use std::fs; fn f() { let _ = std::time::Instant::now(); }";
        assert_eq!(rules("crates/policy/src/x.rs", text), ["pure", "pure"]);
        assert!(rules("crates/control/src/x.rs", text).is_empty());
    }
}
