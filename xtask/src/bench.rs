// SPDX-License-Identifier: Apache-2.0
//! The benchmarks: brings the peers below `target/`, builds with the release profile and runs
//! `torno-bench`. Debian packages are fetched from the machine's own sources, checked by apt and
//! unpacked, not installed: no service of theirs starts, and nothing is added to the system. A peer
//! that can't be had is said loudly and left out.

use crate::build::{self, Profile};
use crate::debian;
use crate::packages::Graph;
use crate::setup;
use crate::shell;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// A Debian package, its program, and why it is wanted.
struct Peer {
    package: &'static str,
    program: &'static str,
    reason: &'static str,
}

const PEERS: [Peer; 4] = [
    Peer {
        package: "nginx",
        program: "nginx",
        reason: "the site that everybody fetches from, and a peer",
    },
    Peer {
        package: "haproxy",
        program: "haproxy",
        reason: "a peer",
    },
    Peer {
        package: "squid-openssl",
        program: "squid",
        reason: "a peer; the variant that can bump TLS",
    },
    Peer {
        package: "bubblewrap",
        program: "bwrap",
        reason: "a peer of the start",
    },
];

/// The oldest mitmproxy that counts.
const MITMPROXY: &str = "mitmproxy>=11";
/// Where `torno-bench` finds the peers.
const TOOLS: &str = "TORNO_BENCH_TOOLS";

/// Runs one benchmark, or those beside peers with `all`.
pub(crate) fn run(root: &Path, which: &str, json: &Path) -> Result<()> {
    // The rows go where the caller stands, wherever cargo works.
    let json = std::path::absolute(json).context("no current directory")?;
    let tools = setup::run(root).context("set-up")?;
    let directory = Graph::load(root)?.target.join("tools/bench");
    std::fs::create_dir_all(&directory).context("no directory of peers")?;
    let built = build::run(root, Profile::Release, &tools).context("build")?;
    bring("Debian packages", packages(&directory));
    if matches!(which, "egress" | "all") {
        bring("mitmproxy", mitmproxy(&directory));
        bring("hudsucker", hudsucker(root, &directory));
    }
    let mut bench = shell::program(built.directory.join("torno-bench"));
    bench.arg(which).arg("--json").arg(json);
    bench.env(TOOLS, &directory);
    shell::run(crate::lanes::surrounded(&mut bench, &built, &tools))
}

/// A peer that is missing takes its own rows along, and nothing else.
fn bring(name: &str, result: Result<()>) {
    if let Err(error) = result {
        eprintln!("   SKIPPED: {name}: {error:#}");
    }
}

fn packages(directory: &Path) -> Result<()> {
    let root = directory.join("root");
    let places = [PathBuf::from("/"), root.clone()];
    let there = |program: &str| {
        places.iter().any(|place| {
            ["usr/sbin", "usr/bin"]
                .iter()
                .any(|part| place.join(part).join(program).is_file())
        })
    };
    let missing: Vec<&Peer> = PEERS.iter().filter(|peer| !there(peer.program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    for peer in &missing {
        eprintln!("   missing: {} ({})", peer.package, peer.reason);
    }
    let packages: Vec<&str> = missing.iter().map(|peer| peer.package).collect();
    debian::unpack(&packages, &directory.join("archives"), &root)?;
    let still: Vec<&str> = missing
        .iter()
        .filter(|peer| !there(peer.program))
        .map(|peer| peer.package)
        .collect();
    if still.is_empty() {
        Ok(())
    } else {
        bail!("not in the machine's package sources: {}", still.join(", "))
    }
}

fn mitmproxy(directory: &Path) -> Result<()> {
    let home = directory.join("mitmproxy");
    if home.join("bin/mitmdump").is_file() {
        return Ok(());
    }
    let mut pip = shell::program("/usr/bin/python3");
    pip.args(["-m", "pip", "install", "--quiet", "--target"]);
    shell::run(pip.arg(&home).arg(MITMPROXY))
}

/// A workspace of its own, so that its dependencies never enter ours.
fn hudsucker(root: &Path, directory: &Path) -> Result<()> {
    let mut cargo = shell::cargo(root);
    cargo.args(["build", "--release", "--manifest-path"]);
    cargo.arg(root.join("bench/hudsucker/Cargo.toml"));
    cargo.env("CARGO_TARGET_DIR", directory.join("hudsucker"));
    shell::run(&mut cargo)
}
