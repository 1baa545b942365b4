// SPDX-License-Identifier: Apache-2.0
//! The smuggling matrix: brings the real servers below `target/`, none installed into the system,
//! and sends the payloads through the pipeline to each of them.

use crate::packages::Graph;
use crate::{debian, shell};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Servers of Debian: package and program.
const DEBIAN: [(&str, &str); 7] = [
    ("nodejs", "node"),
    ("nginx", "nginx"),
    ("haproxy", "haproxy"),
    ("apache2-bin", "apache2"),
    ("lighttpd", "lighttpd"),
    ("squid", "squid"),
    ("varnish", "varnishd"),
];

/// Servers of Python, and the two readers of uvicorn. Others than the ones of Debian: newer, and
/// pinned to nothing, so that a new one is met soon.
const PYTHON: [&str; 10] = [
    "gunicorn",
    "uvicorn",
    "h11",
    "httptools",
    "hypercorn",
    "aiohttp",
    "waitress",
    "tornado",
    "twisted",
    "cheroot",
];

/// Where the example finds them.
const TOOLS: &str = "TORNO_SMUGGLE_TOOLS";

/// What to try.
pub(crate) struct Matrix<'a> {
    /// Far ends by name, with commas; all when absent.
    pub(crate) origins: Option<&'a str>,
    pub(crate) payloads: usize,
    pub(crate) seed: u64,
    pub(crate) json: Option<&'a Path>,
}

/// Brings, builds, tries.
pub(crate) fn run(root: &Path, matrix: &Matrix<'_>) -> Result<()> {
    // The rows go where the caller stands, wherever cargo works.
    let json = matrix.json.map(std::path::absolute).transpose();
    let json = json.context("no current directory")?;
    let target = Graph::load(root)?.target;
    let directory = target.join("tools/smuggle");
    bring(&directory);
    let build = ["build", "--locked", "--workspace", "--example", "smuggle"];
    shell::run(shell::cargo(root).args(build))?;
    let mut program = shell::program(target.join("debug/examples/smuggle"));
    program.env(TOOLS, &directory);
    program.args(["--payloads", &matrix.payloads.to_string()]);
    program.args(["--seed", &matrix.seed.to_string()]);
    if let Some(origins) = matrix.origins {
        program.args(["--origins", origins]);
    }
    if let Some(json) = json {
        program.arg("--json").arg(json);
    }
    shell::run(&mut program)
}

fn bring(directory: &Path) {
    let root = directory.join("root");
    let there = |program: &str| {
        let places = [PathBuf::from("/"), root.clone()];
        let parts = ["usr/sbin", "usr/bin"];
        places.iter().any(|place| {
            parts
                .iter()
                .any(|part| place.join(part).join(program).is_file())
        })
    };
    let missing: Vec<&str> = DEBIAN
        .iter()
        .filter(|(_, program)| !there(program))
        .map(|(package, _)| *package)
        .collect();
    let archives = directory.join("archives");
    for package in missing {
        brought(package, debian::unpack(&[package], &archives, &root));
    }
    let python = directory.join("python");
    for package in PYTHON {
        if !python.join(package).is_dir() {
            let mut pip = shell::program("/usr/bin/python3");
            pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--target"]);
            brought(package, shell::run(pip.arg(&python).arg(package)));
        }
    }
}

/// One that can't be had is told of here and counted by the campaign, which fails in the end; the
/// others are tried all the same.
fn brought(package: &str, result: Result<()>) {
    if let Err(error) = result {
        println!("SKIP: {package} can't be had here: {error:#}");
    }
}
