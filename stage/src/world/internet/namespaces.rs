// SPDX-License-Identifier: Apache-2.0
//! Network namespaces of one story: held by a process that ends with this one, joined by a veth
//! pair, named nowhere. The machine's own network and files are not touched: what replaces
//! `/etc/resolv.conf` is mounted in a mount namespace that only commands through the door see.

use anyhow::{Context, Result, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A namespace, until it is dropped.
#[derive(Debug)]
pub(super) struct Namespace {
    holder: Child,
}

/// The way into a namespace for a command: its network, and its view of `/etc`.
#[derive(Debug, Clone)]
pub struct Door {
    namespaces: PathBuf,
}

/// Says a word once everything is mounted, and stays until its input ends: with us.
const HOLD: &str = r#"while [ $# -gt 1 ]; do mount --bind "$1" "$2"; shift 2; done
ip link set lo up
echo held
exec cat"#;

impl Namespace {
    /// Makes one, with files bound over others.
    ///
    /// # Errors
    /// When the machine has no namespaces for us: it takes root.
    pub(super) fn new(files: &[(PathBuf, &str)]) -> Result<Self> {
        let mut command = Command::new("unshare");
        command
            .args(["--net", "--mount", "--propagation", "private", "--"])
            .args(["/bin/sh", "-euc", HOLD, "hold"]);
        for (file, over) in files {
            command.arg(file).arg(over);
        }
        let mut holder = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start unshare")?;
        let mut word = String::new();
        if let Some(output) = holder.stdout.take() {
            BufReader::new(output)
                .read_line(&mut word)
                .context("a namespace's holder")?;
        }
        let namespace = Self { holder };
        if word != "held\n" {
            bail!("no namespace: it takes root, unshare(1), mount(8) and ip(8)");
        }
        Ok(namespace)
    }

    /// Whoever holds it.
    pub(super) fn process(&self) -> u32 {
        self.holder.id()
    }

    /// The way in.
    pub(super) fn door(&self) -> Door {
        Door {
            namespaces: PathBuf::from(format!("/proc/{}/ns", self.process())),
        }
    }

    /// Runs a shell script in it that must succeed.
    ///
    /// # Errors
    /// When it does not.
    pub(super) fn must(&self, script: &str) -> Result<()> {
        let output = self
            .door()
            .command(Path::new("/bin/sh"), Path::new("/"))
            .args(["-euc", script])
            .output()
            .context("cannot start nsenter")?;
        if !output.status.success() {
            bail!(
                "in a namespace: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(())
    }

    /// Opens a socket in it; it stays there, whoever uses it.
    ///
    /// # Errors
    /// When the namespace can't be entered or the socket can't be made.
    pub(super) fn socket<T: Send>(&self, make: impl FnOnce() -> io::Result<T> + Send) -> Result<T> {
        let path = format!("/proc/{}/ns/net", self.process());
        let network = File::open(&path).with_context(|| format!("cannot open {path}"))?;
        let enter = move || {
            move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?;
            make()
        };
        // The thread ends with its namespace.
        std::thread::scope(|scope| scope.spawn(enter).join())
            .map_err(|_| anyhow::anyhow!("the thread for a socket panicked"))?
            .context("no socket in a namespace")
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _dead = self.holder.kill();
        let _reaped = self.holder.wait();
    }
}

impl Door {
    /// A program, started inside, in a directory.
    #[must_use]
    pub fn command(&self, program: &Path, directory: &Path) -> Command {
        let way = |flag, file| format!("--{flag}={}", self.namespaces.join(file).display());
        let mut command = Command::new("nsenter");
        // nsenter(1) forgets the working directory when it changes the mounts.
        command
            .arg(way("net", "net"))
            .arg(way("mount", "mnt"))
            .args(["--", "/bin/sh", "-euc", r#"cd "$0"; exec "$@""#])
            .arg(directory)
            .arg(program);
        command
    }
}
