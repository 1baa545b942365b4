// SPDX-License-Identifier: Apache-2.0
//! The smuggling matrix: brings the real servers below `target/`, none installed into the system,
//! and sends the payloads through the pipeline to each of them.

use crate::packages::Graph;
use crate::{debian, shell};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Servers of Debian: package and program.
const DEBIAN: [(&str, &str); 6] = [
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
    bring(&directory)?;
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

fn bring(directory: &Path) -> Result<()> {
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
    if !missing.is_empty() {
        debian::unpack(&missing, &directory.join("archives"), &root)?;
    }
    let python = directory.join("python");
    if !python.join("gunicorn").is_dir() {
        let mut pip = shell::program("/usr/bin/python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--target"]);
        shell::run(pip.arg(&python).args(PYTHON))?;
    }
    Ok(())
}
