// SPDX-License-Identifier: Apache-2.0
//! Machines from one template, as a program in each finds them: nothing that has to be unique is
//! the same in two, and the clock is right in all.

use crate::daemon::Daemon;
use anyhow::{Context, Result, bail, ensure};
use rustix::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// What a session's machine holds that no other one may: a name and a value on each line. It goes
/// on to its end when it is told to, so that it can be looked at from outside meanwhile.
const SCRIPT: &str = r#"
say() { printf '%s %s\n' "$1" "$2"; }
up=$(cut -d' ' -f1 /proc/uptime)
say uuid "$(cat /proc/sys/kernel/random/uuid)"
say boot_id "$(cat /proc/sys/kernel/random/boot_id)"
say machine_id "$(cat /etc/machine-id)"
say urandom "$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')"
say random "$(head -c 16 /dev/random | od -An -tx1 | tr -d ' \n')"
say getrandom "$(/usr/bin/python3 -c 'import os; print(os.getrandom(16).hex())')"
say python "$(/usr/bin/python3 -c 'import random; print(random.getrandbits(128))')"
say shell "$(mktemp -u XXXXXXXXXXXXXXXX)"
if command -v ssh-keygen > /dev/null; then
  ssh-keygen -q -t ed25519 -N '' -f /tmp/host_key && say host_key "$(cut -d' ' -f2 /tmp/host_key.pub)"
fi
say placeholder "$API_TOKEN"
say decoy "$(sha256sum < ~/.netrc)"
say authority "$(sha256sum < /etc/ssl/certs/torno-session-ca.pem)"
say grows "$(awk -v before="$up" '{ print ($1 >= before) }' /proc/uptime)"
say clock "$(date +%s.%N)"
read -r _
"#;
/// What each must have said; `host_key` where the image has what makes one.
const UNIQUE: [&str; 11] = [
    "uuid",
    "boot_id",
    "machine_id",
    "urandom",
    "random",
    "getrandom",
    "python",
    "shell",
    "placeholder",
    "decoy",
    "authority",
];
const HOST_KEY: &str = "host_key";
/// LIMIT: how far a machine's clock may be from the host's.
const CLOCK_OFF_MAX: f64 = 1.0;
/// LIMIT: the first one boots, emulated and beside other work.
const TEMPLATE_WAIT: Duration = Duration::from_secs(120);
/// LIMIT: machines at once; each has some 60 MiB for itself and a busy processor.
const AT_ONCE: usize = 3;

/// What all of them showed.
#[derive(Debug, Default)]
pub struct Clones {
    /// How many said all that they had to.
    pub looked_at: usize,
    /// Of those, how many QEMU had restored from a template.
    pub restored: usize,
    /// Values that were compared, each with all of its kind.
    pub values: usize,
    /// The clock that was furthest off, in seconds.
    pub clock_off: f64,
    /// What must not be.
    pub faults: Vec<String>,
}

/// Runs a session that boots, waits for its template, and then looks at so many from it. Sandboxes
/// must not be made ahead: each session restores its own.
///
/// # Errors
/// When a session does not come up, or says other than it has to.
pub fn look(daemon: &Daemon, level: &str, count: usize) -> Result<Clones> {
    let first = begin(daemon, level)?;
    end(first.0)?;
    await_template(daemon)?;
    let mut clones = Clones::default();
    let mut seen: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    while clones.looked_at < count {
        let now = AT_ONCE.min(count - clones.looked_at);
        let mut running = Vec::new();
        for _ in 0..now {
            running.push(begin(daemon, level)?);
        }
        clones.restored += restored(daemon)?;
        for (child, said) in running {
            end(child)?;
            clones.take(&said, &mut seen)?;
        }
        eprintln!("{} of {count}", clones.looked_at);
    }
    if clones.restored != clones.looked_at {
        let what = format!("{} of {count} were restored", clones.restored);
        clones.faults.push(what);
    }
    Ok(clones)
}

impl Clones {
    fn take(
        &mut self,
        said: &BTreeMap<String, String>,
        seen: &mut BTreeMap<String, BTreeSet<String>>,
    ) -> Result<()> {
        self.looked_at += 1;
        let value = |name: &str| said.get(name).filter(|value| !value.is_empty());
        for name in UNIQUE {
            value(name).with_context(|| format!("no {name}"))?;
        }
        for name in UNIQUE.into_iter().chain([HOST_KEY]) {
            let Some(value) = value(name) else { continue };
            self.values += 1;
            let is_new = seen.entry(name.into()).or_default().insert(value.clone());
            if !is_new {
                self.faults.push(format!("two have the {name} {value}"));
            }
        }
        let off: f64 = value("off").context("no clock")?.parse()?;
        self.clock_off = self.clock_off.max(off.abs());
        if off.abs() > CLOCK_OFF_MAX {
            self.faults.push(format!("a clock is {off:.3} s off"));
        }
        if value("grows").map(String::as_str) != Some("1") {
            self.faults.push("time went back".to_owned());
        }
        Ok(())
    }
}

/// A session up to its last line; `off` is how far its clock was from ours when that came.
fn begin(daemon: &Daemon, level: &str) -> Result<(Child, BTreeMap<String, String>)> {
    let options = ["--workspace", "none"];
    let mut child = daemon
        .run_in(level, &options, &["/bin/sh", "-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start torno")?;
    let lines = BufReader::new(child.stdout.take().context("no output")?).lines();
    let mut said = BTreeMap::new();
    for line in lines {
        let line = line.context("no line")?;
        let (name, value) = line.split_once(' ').context("no line of the script")?;
        said.insert(name.to_owned(), value.to_owned());
        if name == "clock" {
            let ours = clock_gettime(ClockId::Realtime);
            let nanos = u32::try_from(ours.tv_nsec).unwrap_or(0);
            let ours = Duration::new(u64::try_from(ours.tv_sec).unwrap_or(0), nanos);
            let theirs: f64 = value.parse().context("no time")?;
            said.insert("off".into(), format!("{}", ours.as_secs_f64() - theirs));
            return Ok((child, said));
        }
    }
    let output = child.wait_with_output().context("torno is gone")?;
    bail!("{}", String::from_utf8_lossy(&output.stderr).trim())
}

fn end(mut child: Child) -> Result<()> {
    let mut stdin = child.stdin.take().context("no input")?;
    stdin.write_all(b"\n").context("no input")?;
    drop(stdin);
    let output = child.wait_with_output().context("torno is gone")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", stderr.trim());
    Ok(())
}

/// Waits until there is a template.
///
/// # Errors
/// When there is none for long.
pub fn await_template(daemon: &Daemon) -> Result<()> {
    let until = Instant::now() + TEMPLATE_WAIT;
    while templates(daemon)? == 0 {
        ensure!(
            Instant::now() < until,
            "no template was made:\n{}",
            daemon.log_text()
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// How many there are, as `torno doctor` says.
///
/// # Errors
/// When it says nothing.
pub fn templates(daemon: &Daemon) -> Result<usize> {
    let output = daemon.torno(&["doctor"]).output().context("no doctor")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let counts = said
        .lines()
        .filter_map(|line| line.trim().strip_prefix("templates: "));
    Ok(counts.filter_map(|count| count.parse::<usize>().ok()).sum())
}

/// How many of the running sessions have a machine that QEMU restored, by its own words.
///
/// # Errors
/// When the desk does not answer.
pub fn restored(daemon: &Daemon) -> Result<usize> {
    let groups: Vec<String> = daemon
        .sessions()?
        .iter()
        .map(|session| format!("/torno-{session}"))
        .collect();
    let processes = std::fs::read_dir("/proc").context("no /proc")?.flatten();
    let is_one = |entry: &std::fs::DirEntry| {
        let text = |name: &str| std::fs::read_to_string(entry.path().join(name)).ok();
        let is_restored = text("cmdline").is_some_and(|words| words.contains("\0-incoming\0"));
        is_restored
            && text("cgroup").is_some_and(|text| {
                let mut lines = text.lines();
                lines.any(|line| groups.iter().any(|group| line.ends_with(group)))
            })
    };
    Ok(processes.filter(is_one).count())
}
