// SPDX-License-Identifier: Apache-2.0
//! A Torno of one's own: the shipped binaries, a fresh TORNO_HOME, a vault with the world's two
//! credentials bound as an operator binds them, and a workspace with an accepted torno.toml.

mod binaries;
mod home;
pub mod level;
mod refusals;
mod vault;

use crate::account::{Account, Given, Groups, Who, own_groups};
use crate::world::World;
use crate::world::internet::Door;
pub use binaries::{binaries, granted_hosts, works};
pub use refusals::last_refusal;

use anyhow::{Context, Result, bail};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// LIMIT: tornod opens its sockets within milliseconds; more than this is a fault.
const START_WAIT: Duration = Duration::from_secs(20);
/// LIMIT: how long tornod may take to end all sessions and itself.
const END_WAIT: Duration = Duration::from_secs(15);

/// The grant of most stories: both credentials, one repository, two hosts. Clients inside export
/// their TLS keys, so that [`crate::witness`] reads what they received.
pub const POLICY: &str = r#"[sandbox]
workspace = { path = ".", mode = "copy" }
limits = { wall = "10m", memory = "1GiB", pids = 256 }
env = { SSLKEYLOGFILE = "/workspace/.stage-keys" }

[secret.api]
env = "API_TOKEN"

[secret.git]
env = "GIT_TOKEN"

[git."https://git.torno.test/acme/app"]
secret = "git"
fetch = "allow"
push = { refs = ["refs/heads/agent/*"] }

[[allow]]
host = "api.torno.test"
methods = ["GET", "POST"]
paths = ["/public/**"]

[[allow]]
host = "other.torno.test"
methods = ["GET", "POST"]
"#;

/// A running tornod and its surroundings.
#[derive(Debug)]
pub struct Daemon {
    account: Option<Account>,
    groups: Option<Groups>,
    home: TempDir,
    binaries: PathBuf,
    daemon: Option<Child>,
    /// Where it runs in namespaces of its own.
    door: Option<Door>,
}

impl Daemon {
    /// Starts one with the world's pins, vault and bindings, and [`POLICY`] accepted.
    ///
    /// # Errors
    /// When a binary is missing, or a command of the operator fails.
    pub fn start(world: &World) -> Result<Self> {
        Self::start_as(Who::Caller, world)
    }

    /// The same, run by somebody.
    ///
    /// # Errors
    /// As [`Self::start`]; and when no user can be made.
    pub fn start_as(who: Who, world: &World) -> Result<Self> {
        Self::start_with(who, world, "")
    }

    /// The same, with further lines of the operator's `upstreams.toml`.
    ///
    /// # Errors
    /// As [`Self::start_as`].
    pub fn start_with(who: Who, world: &World, further: &str) -> Result<Self> {
        let upstreams = format!("{}{further}", world.upstreams());
        let daemon = Self::bare_as(who, &upstreams)?;
        daemon.make_vault(world)?;
        daemon.write_workspace("torno.toml", POLICY)?;
        daemon.must(&["trust", "--yes"])?;
        Ok(daemon)
    }

    /// Starts one with nothing but an `upstreams.toml`.
    ///
    /// # Errors
    /// When a binary is missing or tornod does not start.
    pub fn bare(upstreams: &str) -> Result<Self> {
        Self::bare_as(Who::Caller, upstreams)
    }

    /// The same, run by somebody.
    ///
    /// # Errors
    /// As [`Self::bare`]; and when no user can be made.
    pub fn bare_as(who: Who, upstreams: &str) -> Result<Self> {
        match who {
            Who::Caller => Self::make((None, None), upstreams),
            Who::User => Self::of_user(Given::ALL, upstreams),
        }
    }

    /// Starts one as an ordinary user who was given so much.
    ///
    /// # Errors
    /// As [`Self::bare_as`].
    pub fn of_user(given: Given, upstreams: &str) -> Result<Self> {
        Self::make((Some(given), None), upstreams)
    }

    /// Starts one behind a door: tornod and every command of the operator run there.
    ///
    /// # Errors
    /// When a binary is missing or tornod does not start.
    pub fn beyond(door: Option<Door>, upstreams: &str) -> Result<Self> {
        Self::make((None, door), upstreams)
    }

    fn make((user, door): (Option<Given>, Option<Door>), upstreams: &str) -> Result<Self> {
        let home = tempfile::Builder::new()
            .prefix("torno-home-")
            .tempdir()
            .context("no temporary directory")?;
        let binaries = binaries()?;
        let account = user.map(|given| Account::make(home.path(), &binaries, given));
        let is_roots = user.is_none() && rustix::process::geteuid().is_root();
        let mut daemon = Self {
            groups: is_roots.then(own_groups).flatten(),
            account: account.transpose().context("no user could be made")?,
            home,
            binaries,
            daemon: None,
            door,
        };
        for directory in ["config", "state", "run", "workspace", "outside"] {
            daemon.make_directory(directory)?;
        }
        if daemon.account.is_some() {
            daemon.make_directory("config/torno")?;
            daemon.make_directory("state/torno")?;
        }
        let config = daemon.place("config").join("upstreams.toml");
        daemon.write(&config, upstreams)?;
        daemon.up()?;
        Ok(daemon)
    }

    /// Starts tornod and waits for its sockets.
    ///
    /// # Errors
    /// When it does not come up; its log is in the message.
    pub fn up(&mut self) -> Result<()> {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log())
            .context("no log")?;
        let mut child = self
            .program("tornod", Path::new("/"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("no log")?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .context("cannot start tornod")?;
        let end = Instant::now() + START_WAIT;
        while !self.answers() {
            if Instant::now() > end || child.try_wait().context("tornod")?.is_some() {
                let _dead = child.kill();
                let _reaped = child.wait();
                bail!("tornod did not come up:\n{}", self.log_text());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.daemon = Some(child);
        Ok(())
    }

    fn answers(&self) -> bool {
        self.torno(&["--no-start", "vault", "status"])
            .output()
            .is_ok_and(|output| output.status.success())
    }

    /// Ends tornod in good order.
    pub fn down(&mut self) {
        let Some(mut child) = self.daemon.take() else {
            return;
        };
        let pid = i32::try_from(child.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _gone = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let end = Instant::now() + END_WAIT;
        while Instant::now() < end {
            if matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _dead = child.kill();
        let _reaped = child.wait();
    }

    /// Whether the supervisor's process runs.
    pub fn runs(&mut self) -> bool {
        let alive = self
            .daemon
            .as_mut()
            .is_some_and(|d| matches!(d.try_wait(), Ok(None)));
        if !alive {
            self.daemon = None;
        }
        alive
    }

    /// Waits until tornod ended by itself.
    ///
    /// # Errors
    /// When it goes on.
    pub fn wait_for_end(&mut self, limit: Duration) -> Result<()> {
        let end = Instant::now() + limit;
        while self.runs() {
            if Instant::now() > end {
                bail!("tornod went on without one of its roles");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The supervisor's process, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.daemon.as_ref().map(Child::id)
    }

    /// A `torno` command in the workspace, as the operator types it. Whatever is to run at a
    /// machine's level says that emulation will do: what a machine without hardware for it can
    /// have.
    #[must_use]
    pub fn torno(&self, arguments: &[&str]) -> Command {
        let is_machine = |pair: &[&str]| matches!(pair, ["--isolation", "microvm" | "vm"]);
        let mut words = arguments.to_vec();
        if let Some(place) = arguments.windows(2).position(is_machine) {
            words.insert(place, "--emulation");
        }
        self.typed(&words)
    }

    /// A `torno` command with exactly these words.
    #[must_use]
    pub fn typed(&self, arguments: &[&str]) -> Command {
        let mut command = self.program("torno", &self.workspace());
        command.args(arguments).stdin(Stdio::null());
        command
    }

    /// Runs a `torno` command that must succeed; its standard output.
    ///
    /// # Errors
    /// When it fails; what it said is in the message.
    pub fn must(&self, arguments: &[&str]) -> Result<String> {
        let output = self
            .torno(arguments)
            .output()
            .context("cannot start torno")?;
        if !output.status.success() {
            bail!(
                "torno {} ended with {}:\n{}{}",
                arguments.join(" "),
                output.status,
                String::from_utf8_lossy(&output.stderr),
                self.log_text()
            );
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// `torno run` at a level, quiet, in the workspace.
    ///
    /// # Errors
    /// When torno can't be started.
    pub fn run(&self, level: &str, command: &[&str]) -> Result<Output> {
        self.run_command(level, command)
            .output()
            .context("cannot start torno")
    }

    /// The same, not yet started.
    #[must_use]
    pub fn run_command(&self, level: &str, command: &[&str]) -> Command {
        self.run_in(level, &[], command)
    }

    /// The same, with further options.
    #[must_use]
    pub fn run_in(&self, level: &str, options: &[&str], command: &[&str]) -> Command {
        let mut run = self.torno(&["run", "--quiet", "--isolation", level]);
        run.args(options).arg("--").args(command);
        run
    }

    /// The sessions that run now.
    ///
    /// # Errors
    /// When the desk does not answer.
    pub fn sessions(&self) -> Result<Vec<String>> {
        let text = self.must(&["session", "list", "--output", "json"])?;
        let value: serde_json::Value = serde_json::from_str(&text).context("not JSON")?;
        let rows = value.as_array().cloned().unwrap_or_default();
        let running = |row: &serde_json::Value| {
            let state = row.get("state").and_then(serde_json::Value::as_str)?;
            let session = row.get("session").and_then(serde_json::Value::as_str)?;
            ["starting", "running", "frozen", "paused"]
                .contains(&state)
                .then(|| session.to_owned())
        };
        Ok(rows.iter().filter_map(running).collect())
    }

    /// One of the programs, started in a directory, as whoever runs this Torno, behind the door
    /// where there is one, with nothing of our environment but `PATH`.
    fn program(&self, name: &str, directory: &Path) -> Command {
        let ours = self.binaries.join(name);
        let mut command = match (&self.door, &self.account, &self.groups) {
            (Some(door), _, _) => door.command(&ours, directory),
            (None, Some(account), _) if name == "tornod" => {
                account.command_in_groups(&account.programs().join(name))
            }
            (None, Some(account), _) => account.command(&account.programs().join(name)),
            (None, None, Some(groups)) if name == "tornod" => groups.command(&ours),
            (None, None, _) => Command::new(&ours),
        };
        let home = self.home.path();
        command
            .current_dir(directory)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", home.join("outside"))
            .env("NO_COLOR", "1");
        match self.account {
            None => command.env("TORNO_HOME", home),
            Some(_) => command
                .env("XDG_RUNTIME_DIR", home.join("run"))
                .env("XDG_STATE_HOME", home.join("state"))
                .env("XDG_CONFIG_HOME", home.join("config")),
        };
        command
    }

    /// The record, one JSON object for each line that is one.
    ///
    /// # Errors
    /// When the record can't be read.
    pub fn records(&self) -> Result<Vec<serde_json::Value>> {
        let text = self.must(&["audit", "export", "--format", "jsonl"])?;
        Ok(text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.down();
        // Told again it may not fail: what a failure leaves behind is all that there is to read.
        if std::thread::panicking() {
            println!("{}", self.log_text());
        }
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is not UTF-8")
}
