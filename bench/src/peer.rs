// SPDX-License-Identifier: Apache-2.0
//! The peers: found on the system or below the tools directory that `cargo xtask bench` filled,
//! started on loopback with the configurations in `peers/`. All verify the site against its
//! authority and set one header; none of them decides, records or scrubs anything.

use crate::site::{self, HEADER, LOCAL_NAME, NAME, Site};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// Who there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The site itself, with the real secret in the client.
    Direct,
    /// mitmproxy with a two-line addon.
    Mitmproxy,
    /// squid with ssl-bump.
    Squid,
    /// A small program on the hudsucker library.
    Hudsucker,
    /// haproxy, TLS on both sides.
    Haproxy,
    /// nginx, TLS on both sides.
    Nginx,
}

/// All of them.
pub const ALL: [Kind; 6] = [
    Kind::Direct,
    Kind::Mitmproxy,
    Kind::Squid,
    Kind::Hudsucker,
    Kind::Haproxy,
    Kind::Nginx,
];

impl Kind {
    /// The name in rows.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Mitmproxy => "mitmproxy",
            Self::Squid => "squid",
            Self::Hudsucker => "hudsucker",
            Self::Haproxy => "haproxy",
            Self::Nginx => "nginx",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Direct => 443,
            Self::Mitmproxy => 18081,
            Self::Squid => 18082,
            Self::Hudsucker => 18083,
            Self::Haproxy => 18084,
            Self::Nginx => 18085,
        }
    }

    /// The load generator's words for it.
    #[must_use]
    pub fn way(self) -> [String; 4] {
        let (flag, name) = match self {
            Self::Mitmproxy | Self::Squid | Self::Hudsucker => ("--proxy", LOCAL_NAME),
            Self::Direct | Self::Haproxy | Self::Nginx => ("--dial", NAME),
        };
        let address = format!("127.0.0.1:{}", self.port());
        ["--name", name, flag, &address].map(str::to_owned)
    }
}

/// Where programs are.
#[derive(Debug, Clone)]
pub struct Tools {
    directory: PathBuf,
}

impl Tools {
    /// With this directory: `root` (unpacked Debian packages), `mitmproxy`, `hudsucker`.
    #[must_use]
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// A Debian program: the system's, else the unpacked one.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        let root = self.directory.join("root");
        let places = [PathBuf::from("/"), root];
        places
            .iter()
            .flat_map(|root| ["usr/sbin", "usr/bin"].map(|part| root.join(part).join(name)))
            .find(|path| path.is_file())
    }

    /// What unpacked programs need in their environment.
    #[must_use]
    pub fn environment(&self) -> Vec<(String, String)> {
        let root = self.directory.join("root/usr/lib");
        let libraries = root.join(format!("{}-linux-gnu", std::env::consts::ARCH));
        let libraries = libraries.display().to_string();
        vec![("LD_LIBRARY_PATH".to_owned(), libraries)]
    }

    /// A file of a Debian package, the system's or the unpacked one.
    fn part(&self, path: &str) -> PathBuf {
        let system = Path::new("/").join(path);
        if system.exists() {
            system
        } else {
            self.directory.join("root").join(path)
        }
    }
}

/// A running peer.
#[derive(Debug)]
pub struct Peer {
    /// Which.
    pub kind: Kind,
    child: Option<Child>,
}

impl Peer {
    /// Starts it.
    ///
    /// # Errors
    /// When it is missing or does not come up; the message says which.
    pub fn start(kind: Kind, site: &Site, tools: &Tools) -> Result<Self> {
        let directory = site.directory();
        let mut environment = tools.environment();
        let command = match kind {
            Kind::Direct => return Ok(Self { kind, child: None }),
            Kind::Mitmproxy => {
                let home = tools.directory.join("mitmproxy");
                environment.clear();
                environment.push(("PYTHONPATH".to_owned(), home.display().to_string()));
                environment.push(("HOME".to_owned(), directory.display().to_string()));
                mitmproxy(&home, directory)?
            }
            Kind::Squid => squid(tools, directory, &environment)?,
            Kind::Hudsucker => hudsucker(tools, directory)?,
            Kind::Haproxy => {
                let text = include_str!("../peers/haproxy.cfg");
                let path = configuration(directory, "haproxy.cfg", text)?;
                let mut command = Command::new(program(tools, "haproxy")?);
                command.arg("-db").arg("-f").arg(path);
                command
            }
            Kind::Nginx => {
                let text = include_str!("../peers/nginx-reverse-proxy.conf");
                let path = configuration(directory, "reverse-proxy.conf", text)?;
                let mut command = Command::new(program(tools, "nginx")?);
                command.arg("-p").arg(directory).arg("-c").arg(path);
                command.arg("-e").arg(directory.join("logs/reverse.err"));
                command
            }
        };
        let name = kind.name();
        let mut child = site::spawn(command, &environment, directory, name)?;
        let log = directory.join(format!("logs/{name}.log"));
        if let Err(error) = site::wait_for(kind.port(), &mut child, &log) {
            site::end(&mut child);
            return Err(error);
        }
        let child = Some(child);
        Ok(Self { kind, child })
    }

    /// Its first process.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            site::end(child);
        }
    }
}

fn program(tools: &Tools, name: &str) -> Result<PathBuf> {
    tools
        .find(name)
        .with_context(|| format!("{name} is not installed"))
}

fn configuration(directory: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = directory.join(name);
    std::fs::write(&path, site::filled(text, directory))
        .with_context(|| format!("no configuration {name}"))?;
    Ok(path)
}

fn mitmproxy(home: &Path, directory: &Path) -> Result<Command> {
    let script = home.join("bin/mitmdump");
    if !script.is_file() {
        bail!("mitmproxy is not installed");
    }
    let addon = include_str!("../peers/mitmproxy-addon.py");
    let addon = configuration(directory, "addon.py", addon)?;
    let mut command = Command::new("/usr/bin/python3");
    command
        .arg(script)
        .args(["-q", "--listen-host", "127.0.0.1"]);
    command.args(["-p", "18081", "-s"]).arg(addon);
    let authority = directory.join("ca.crt");
    for setting in [
        format!("confdir={}", directory.display()),
        format!("ssl_verify_upstream_trusted_ca={}", authority.display()),
    ] {
        command.arg("--set").arg(setting);
    }
    Ok(command)
}

fn squid(tools: &Tools, directory: &Path, environment: &[(String, String)]) -> Result<Command> {
    let squid = program(tools, "squid")?;
    let libexec = tools.part("usr/lib/squid");
    let text = include_str!("../peers/squid.conf")
        .replace("@LIBEXEC@", &libexec.display().to_string())
        .replace(
            "@SHARE@",
            &tools.part("usr/share/squid").display().to_string(),
        );
    let path = configuration(directory, "squid.conf", &text)?;
    let home = directory.join("sq");
    // The generator's store is made by the user that squid becomes.
    let chown = Command::new("chown").arg("proxy").arg(&home).status();
    if !chown.context("chown")?.success() {
        bail!("there is no user `proxy`");
    }
    let made = Command::new("setpriv")
        .args(["--reuid", "proxy", "--regid", "proxy", "--clear-groups"])
        .arg(libexec.join("security_file_certgen"))
        .args(["-c", "-s"])
        .arg(home.join("db"))
        .args(["-M", "4MB"])
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .output()
        .context("security_file_certgen")?;
    if !made.status.success() {
        let said = String::from_utf8_lossy(&made.stderr);
        bail!("security_file_certgen made no store: {}", said.trim());
    }
    let mut command = Command::new(squid);
    command.arg("-N").arg("-f").arg(path);
    Ok(command)
}

fn hudsucker(tools: &Tools, directory: &Path) -> Result<Command> {
    let program = tools
        .directory
        .join("hudsucker/release/torno-bench-hudsucker");
    if !program.is_file() {
        bail!("the program on hudsucker was not built");
    }
    let mut command = Command::new(program);
    command.arg(Kind::Hudsucker.port().to_string());
    command.args([directory.join("ca.crt"), directory.join("ca.key")]);
    command.arg(HEADER);
    Ok(command)
}
