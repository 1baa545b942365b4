// SPDX-License-Identifier: Apache-2.0
//! The package registries of this machine, as its own clients are configured, and the operator's
//! pins for them: a machine's resolver may answer with addresses that no sandbox may dial unless
//! the operator says so. No registry is named here; without network there is none.

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub(crate) const PYTHON: &str = "/usr/bin/python3";
pub(crate) const NPM: &str = "/usr/bin/npm";
/// A tiny package of one file, without dependencies.
pub(crate) const PIP_PACKAGE: &str = "six";
/// A tiny package without dependencies, and one of a scope, without code.
pub(crate) const NPM_PACKAGES: [&str; 2] = ["left-pad", "@types/estree"];

/// LIMIT: a registry that does not take a connection within this is out of reach.
const CONNECT_WAIT: Duration = Duration::from_secs(10);

/// The hosts of one client: the index that is configured, and where it has its files.
#[derive(Debug)]
pub(crate) struct Registry {
    /// The index's URL.
    pub(crate) index: String,
    /// Every host that the client asks.
    pub(crate) hosts: Vec<String>,
}

impl Registry {
    fn of(urls: &[String]) -> Self {
        let mut hosts: Vec<String> = urls.iter().map(|url| host(url).to_owned()).collect();
        hosts.dedup();
        Self {
            index: urls[0].clone(),
            hosts,
        }
    }

    /// The operator's pins: each host at the address that this machine's resolver gives.
    pub(crate) fn pins(&self) -> String {
        let mut text = String::new();
        for host in &self.hosts {
            let address = address(host).unwrap();
            let _ = write!(
                text,
                "[[pin]]\nhost = \"{host}\"\nport = 443\naddress = \"{address}\"\n\n"
            );
        }
        text
    }

    /// The same hosts as a policy allows them, in a list of tables.
    pub(crate) fn allowed(&self) -> String {
        let rule = |host: &String| format!("{{ host = \"{host}\" }}");
        self.hosts.iter().map(rule).collect::<Vec<_>>().join(", ")
    }
}

/// What pip asks, or why it can't be told here.
pub(crate) fn pip() -> Result<Registry, String> {
    // pip's configuration where there is one, else what pip itself says.
    const ASK: &str = "
import subprocess, sys
from pip._internal.models.index import PyPI
asked = subprocess.run([sys.executable, '-m', 'pip', 'config', 'get', 'global.index-url'],
                       capture_output=True, text=True)
print(asked.stdout.strip() or PyPI.simple_url)";
    let index = said(Command::new(PYTHON).args(["-c", ASK]))?;
    reachable(&index)?;
    const FILES: &str = "
import html.parser, sys, urllib.parse, urllib.request
index = sys.argv[1].rstrip('/') + '/' + sys.argv[2] + '/'
class Links(html.parser.HTMLParser):
    def handle_starttag(self, tag, attributes):
        if tag == 'a':
            print(urllib.parse.urljoin(index, dict(attributes)['href']))
Links().feed(urllib.request.urlopen(index, timeout=60).read().decode())";
    let files = said(Command::new(PYTHON).args(["-c", FILES, &index, PIP_PACKAGE]))?;
    let first = files.lines().next().unwrap_or_default().to_owned();
    Ok(Registry::of(&[index, first]))
}

/// What npm asks.
pub(crate) fn npm() -> Result<Registry, String> {
    let index = said(Command::new(NPM).args(["config", "get", "registry"]))?;
    reachable(&index)?;
    let file = said(Command::new(NPM).args(["view", NPM_PACKAGES[0], "dist.tarball"]))?;
    Ok(Registry::of(&[index, file]))
}

/// What cargo asks, by what a fetch of this machine's own cargo leaves in a fresh home.
pub(crate) fn cargo() -> Result<Registry, String> {
    // Whether there is a network at all is told by a client whose registry is known beforehand.
    reachable(&said(
        Command::new(NPM).args(["config", "get", "registry"]),
    )?)?;
    let work = tempfile::tempdir().unwrap();
    write_crate(work.path());
    let own = std::env::var_os("CARGO_HOME").map_or_else(|| home().join(".cargo"), PathBuf::from);
    let fresh = work.path().join("home");
    std::fs::create_dir(&fresh).unwrap();
    let _none = std::fs::copy(own.join("config.toml"), fresh.join("config.toml"));
    let mut fetch = Command::new("cargo");
    fetch.arg("fetch").current_dir(work.path());
    said(fetch.env("CARGO_HOME", &fresh))?;
    let index = std::fs::read_dir(fresh.join("registry/index")).unwrap();
    let index = index.flatten().next().unwrap().path();
    let name = index.file_name().unwrap().to_str().unwrap();
    let (index_host, _hash) = name.rsplit_once('-').unwrap();
    let config = std::fs::read_to_string(index.join("config.json")).unwrap();
    let config: serde_json::Value = serde_json::from_str(&config).unwrap();
    let files = config["dl"].as_str().unwrap().to_owned();
    Ok(Registry::of(&[format!("https://{index_host}/"), files]))
}

/// A program with a dependency that has one of its own.
pub(crate) fn write_crate(place: &Path) {
    std::fs::create_dir_all(place.join("src")).unwrap();
    let manifest = format!(
        "[package]\nname = \"story\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\n{DEPENDENCY}\n"
    );
    std::fs::write(place.join("Cargo.toml"), manifest).unwrap();
    std::fs::write(place.join("src/main.rs"), PROGRAM).unwrap();
}

/// One crate, which depends on another.
const DEPENDENCY: &str = "form_urlencoded = \"=1.2.1\"";
const PROGRAM: &str = "fn main() {\n    \
    let text: String = form_urlencoded::Serializer::new(String::new())\n        \
    .append_pair(\"works\", \"yes indeed\").finish();\n    println!(\"{text}\");\n}\n";

/// The toolchain that this machine builds with: a directory whose `bin` has cargo and rustc.
pub(crate) fn toolchain() -> PathBuf {
    PathBuf::from(said(Command::new("rustc").args(["--print", "sysroot"])).unwrap())
}

/// The home of who runs the tests.
pub(crate) fn home() -> PathBuf {
    std::env::var_os("HOME").map(PathBuf::from).unwrap()
}

fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', ':']).next().unwrap_or_default()
}

fn address(host: &str) -> Option<SocketAddr> {
    let mut found = (host, 443).to_socket_addrs().ok()?;
    found.find(SocketAddr::is_ipv4)
}

/// Without network, and only then, a story is skipped.
fn reachable(url: &str) -> Result<(), String> {
    let no_network = |_| "no network: the registry that is configured is out of reach".to_owned();
    let address = address(host(url)).ok_or(()).map_err(no_network)?;
    let connected = TcpStream::connect_timeout(&address, CONNECT_WAIT);
    connected.map(drop).map_err(|_| ()).map_err(no_network)
}

/// What a client of this machine says; its failure is the story's.
fn said(command: &mut Command) -> Result<String, String> {
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return Err(format!("{:?} is not here: {error}", command.get_program())),
    };
    assert!(output.status.success(), "{command:?}: {output:?}");
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
