// SPDX-License-Identifier: Apache-2.0
//! What the demo and the tests need from the machine. On Debian as root it is installed from the
//! machine's own package sources; anybody else gets the exact command and goes on with what is
//! there. Nothing is added to those sources, and a runsc that is too old is not replaced: a newer
//! one is unpacked below `target/`.

mod machine;
mod runsc;

use crate::shell;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// A Debian package, how to see that it is there, and why it is wanted.
struct Need {
    package: &'static str,
    sign: Sign,
    reason: &'static str,
}

enum Sign {
    /// One of these files exists.
    File(&'static [&'static str]),
    /// The distribution's Python imports it.
    PythonModule(&'static str),
}

use Sign::{File, PythonModule};

const fn need(package: &'static str, sign: Sign, reason: &'static str) -> Need {
    Need {
        package,
        sign,
        reason,
    }
}

const NEEDS: [Need; 28] = [
    need("gcc", File(&["/usr/bin/cc"]), "links the binaries"),
    need("g++", File(&["/usr/bin/c++"]), "the TLS provider's C code"),
    need(
        "libc6-dev",
        File(&["/usr/include/stdio.h"]),
        "the static guest links libc",
    ),
    need(
        "iproute2",
        File(&["/sbin/ip", "/usr/sbin/ip", "/bin/ip"]),
        "address tests",
    ),
    need(
        "nftables",
        File(&["/usr/sbin/nft"]),
        "the sealed network of level container",
    ),
    need(
        "crun",
        File(&["/usr/bin/crun"]),
        "the runtime of level container",
    ),
    need(
        "runc",
        File(&["/usr/sbin/runc", "/usr/bin/runc"]),
        "the other runtime of it",
    ),
    need(
        "uidmap",
        File(&["/usr/bin/newuidmap"]),
        "uid ranges without root",
    ),
    need(
        "mmdebstrap",
        File(&["/usr/bin/mmdebstrap"]),
        "images of Debian's packages",
    ),
    need(
        "strace",
        File(&["/usr/bin/strace"]),
        "calls that the kernel refuses",
    ),
    need(
        "util-linux",
        File(&["/usr/bin/setpriv"]),
        "tests as another user",
    ),
    need(
        "git",
        File(&["/usr/lib/git-core/git-http-backend"]),
        "a client, and the far end",
    ),
    need(
        "git-lfs",
        File(&["/usr/bin/git-lfs"]),
        "a client of large files",
    ),
    need("curl", File(&["/usr/bin/curl"]), "a client"),
    need("wget", File(&["/usr/bin/wget"]), "a client"),
    need(
        "python3",
        File(&["/usr/bin/python3"]),
        "a client, and the hostile script",
    ),
    need("python3-pip", PythonModule("pip"), "a package client"),
    need("python3-requests", PythonModule("requests"), "a client"),
    need("python3-httpx", PythonModule("httpx"), "a client"),
    need(
        "python3-websockets",
        PythonModule("websockets"),
        "a client, and the far end",
    ),
    need(
        "python3-boto3",
        PythonModule("boto3"),
        "a client, and the far end's check of its signatures",
    ),
    need(
        "python3-jwt",
        PythonModule("jwt"),
        "the far end's check of claims, with python3-cryptography",
    ),
    need(
        "python3-cryptography",
        PythonModule("cryptography"),
        "the keys of that far end",
    ),
    need("nodejs", File(&["/usr/bin/node"]), "a client"),
    need("npm", File(&["/usr/bin/npm"]), "a package client"),
    need(
        "postgresql",
        // One of the versions of Debian 12 and 13.
        File(&[
            "/usr/lib/postgresql/15/bin/postgres",
            "/usr/lib/postgresql/17/bin/postgres",
        ]),
        "a client, and the far end",
    ),
    need("python3-psycopg2", PythonModule("psycopg2"), "a client"),
    need(
        "ca-certificates",
        File(&["/etc/ssl/certs/ca-certificates.crt"]),
        "the trust bundle",
    ),
];

/// Tools that were set up outside the system's directories.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    /// The directory of a newer runsc.
    pub(crate) runsc: Option<PathBuf>,
    /// The parts of a virtual machine.
    pub(crate) machine: Option<PathBuf>,
}

impl Tools {
    /// `PATH` with these tools first.
    pub(crate) fn path(&self) -> std::ffi::OsString {
        let old = std::env::var_os("PATH").unwrap_or_default();
        let directories = self
            .runsc
            .iter()
            .cloned()
            .chain(std::env::split_paths(&old));
        std::env::join_paths(directories).unwrap_or(old)
    }
}

/// Installs what is missing, or says how.
pub(crate) fn run(root: &Path) -> Result<Tools> {
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| !is_there(&need.sign)).collect();
    if !missing.is_empty() {
        for need in &missing {
            eprintln!("   missing: {} ({})", need.package, need.reason);
        }
        let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
        install(&packages)?;
    }
    let runsc = match runsc::find(root) {
        Some(directory) => Some(directory),
        None if is_root() && is_debian() => match runsc::unpack(root) {
            Ok(directory) => Some(directory),
            Err(error) => {
                eprintln!("   level gvisor stays unavailable: {error:#}");
                None
            }
        },
        None => {
            eprintln!("   level gvisor stays unavailable: no runsc of 2024 or later on PATH");
            None
        }
    };
    let machine = match machine::find(root) {
        Some(directory) => Some(directory),
        None if is_root() && is_debian() => machine::unpack(root).unwrap_or_else(|error| {
            eprintln!("   levels microvm and vm stay unavailable: {error:#}");
            None
        }),
        None => None,
    };
    Ok(Tools { runsc, machine })
}

fn install(packages: &[&str]) -> Result<()> {
    let list = packages.join(" ");
    let command = format!("apt-get update && apt-get install -y --no-install-recommends {list}");
    if !is_debian() {
        eprintln!("   not Debian: install these with your package manager: {list}");
        return Ok(());
    }
    if !is_root() {
        eprintln!("   not root: going on with what is here; the command for the rest is");
        eprintln!("     sudo sh -c '{command}'");
        return Ok(());
    }
    let apt = || {
        let mut apt = shell::program("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive").arg("-q");
        apt
    };
    // A source that is down must not stop the others: what counts is whether the install works.
    if let Err(error) = shell::run(apt().arg("update")) {
        eprintln!("   {error:#}");
    }
    shell::run(
        apt()
            .args(["install", "-y", "--no-install-recommends"])
            .args(packages),
    )
    .with_context(|| format!("run it yourself and look at its answer: {command}"))
}

fn is_there(sign: &Sign) -> bool {
    match sign {
        File(paths) => paths.iter().any(|path| Path::new(path).exists()),
        PythonModule(module) => {
            shell::succeeds(shell::program("/usr/bin/python3").env_clear().args([
                "-I",
                "-c",
                &format!("import {module}"),
            ]))
        }
    }
}

/// Whether our effective user is root.
pub(crate) fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))
        .and_then(|ids| ids.split_whitespace().nth(1))
        == Some("0")
}

fn is_debian() -> bool {
    std::fs::read_to_string("/etc/os-release")
        .is_ok_and(|text| text.lines().any(|line| line == "ID=debian"))
}
