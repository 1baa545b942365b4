// SPDX-License-Identifier: Apache-2.0
//! Torno as it ships: tornod with a vault, a bound credential and a pinned upstream, and the load
//! generator as workload of a session of its own, on the captured way: it dials the site's name
//! like any program, and holds a placeholder.

use crate::load_report::LoadReport;
use crate::site::{Body, NAME, PORTS, SECRET, Site};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use torno_stage::daemon::{Daemon, binaries};

/// Where the load generator and the bodies appear inside: `also = ["~/bench"]`.
const SHOWN: &str = "/home/agent/bench";

/// The level that all figures of the way out are taken at.
pub const LEVEL: &str = "container";

/// One credential, the load generator, and limits that a minute of load does not reach.
const POLICY: &str = r#"[sandbox]
workspace = { path = ".", mode = "none" }
also = ["~/bench"]
limits = { egress = "100GiB", records = 100000000, requests = 100000000 }

[secret.bench]
env = "API_TOKEN"
"#;

/// A Torno of the bench's own.
#[derive(Debug)]
pub struct Torno {
    daemon: Daemon,
}

/// What the record holds of one run, by kind.
pub type Kinds = BTreeMap<String, u64>;

impl Torno {
    /// Starts it, with the site pinned and its secret bound.
    ///
    /// # Errors
    /// When an operator's command fails.
    pub fn start(site: &Site) -> Result<Self> {
        let authority = site.authority();
        let pins = format!(
            "[[pin]]\nhost = \"{NAME}\"\nport = 443\naddress = \"127.0.0.1:{}\"\nca = \"{}\"\n",
            PORTS[1],
            authority.display()
        );
        let daemon = Daemon::bare(&pins)?;
        std::fs::write(daemon.key_file(), torno_stage::world::random()?).context("no key file")?;
        let key = daemon.key_file();
        let key = key.to_str().context("a path that is not UTF-8")?;
        daemon.must(&["vault", "init", "--key-file", key])?;
        daemon.put("bench", "sk-live-", SECRET)?;
        daemon.must(&["secret", "bind", "bench", "--host", NAME, "--path", "/**"])?;
        // The operator's commands have this home (`Daemon::torno`).
        show(site, &daemon.home().join("outside/bench"))?;
        daemon.write_workspace("torno.toml", POLICY)?;
        daemon.must(&["trust", "--yes"])?;
        Ok(Self { daemon })
    }

    /// The supervisor's process.
    ///
    /// # Errors
    /// When it is gone.
    pub fn pid(&self) -> Result<u32> {
        self.daemon.pid().context("tornod is gone")
    }

    /// Records so far.
    ///
    /// # Errors
    /// When the notary does not say.
    pub fn records(&self) -> Result<u64> {
        let text = self.daemon.must(&["audit", "head", "--output", "json"])?;
        let value: serde_json::Value = serde_json::from_str(&text).context("audit head")?;
        let size = value.get("size").and_then(serde_json::Value::as_u64);
        size.with_context(|| format!("no size in {text}"))
    }

    /// What was recorded from there on.
    ///
    /// # Errors
    /// When the record can't be read.
    pub fn kinds_from(&self, first: u64) -> Result<Kinds> {
        let text = self
            .daemon
            .must(&["audit", "export", "--from", &first.to_string()])?;
        let mut kinds = Kinds::new();
        for line in text.lines() {
            let value: serde_json::Value = serde_json::from_str(line).context("a record")?;
            let kind = value.pointer("/event/kind").or_else(|| value.get("kind"));
            let kind = kind.and_then(serde_json::Value::as_str);
            let kind = kind.with_context(|| format!("a record without kind: {line}"))?;
            *kinds.entry(kind.to_owned()).or_default() += 1;
        }
        Ok(kinds)
    }

    /// Starts the load in a session of its own.
    ///
    /// # Errors
    /// When torno can't be started.
    pub fn load(&self, words: &[String], body: Body) -> Result<Child> {
        let mut command =
            self.daemon
                .torno(&["run", "--quiet", "--raw", "--isolation", LEVEL, "--"]);
        command.arg(format!("{SHOWN}/torno-load"));
        command.args(["--name", NAME]);
        command.arg("--body").arg(format!("{SHOWN}/{}", body.block));
        command.args(words);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start torno")
    }
}

/// Reads the report of a load that ended.
///
/// # Errors
/// When it ended badly or printed no report.
pub fn report(child: Child) -> Result<LoadReport> {
    let output = child.wait_with_output().context("the load is lost")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("the load ended with {}: {}", output.status, said.trim());
    }
    serde_json::from_slice(&output.stdout).context("the load printed no report")
}

/// The load generator, beside this program.
///
/// # Errors
/// When it is not there.
pub fn generator() -> Result<PathBuf> {
    let path = binaries()?.join("torno-load");
    if path.is_file() {
        return Ok(path);
    }
    bail!("torno-load is not beside torno: run `cargo xtask bench`")
}

/// A directory with what the load needs inside.
fn show(site: &Site, directory: &Path) -> Result<()> {
    std::fs::create_dir(directory).context("no directory")?;
    let copy = |from: &Path, name: &str| {
        std::fs::copy(from, directory.join(name)).with_context(|| format!("cannot copy {name}"))
    };
    copy(&generator()?, "torno-load")?;
    for body in [crate::site::SMALL, crate::site::LARGE] {
        copy(&site.www().join(body.block), body.block)?;
    }
    Ok(())
}
