// SPDX-License-Identifier: Apache-2.0
//! Git, started with nothing of its surroundings: no configuration but the repository's own, no
//! hooks, no prompt, no protocol but files, no lazy fetch, and an end to its time.

use crate::stop::{Outcome, Stop};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// LIMIT: one run. A fetch of some GiB on a slow disk takes minutes.
const RUN_WAIT: Duration = Duration::from_secs(15 * 60);
/// How often it is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// LIMIT: what is read of its output: refs of a large repository.
const OUTPUT_BYTES_MAX: u64 = 16 << 20;
/// LIMIT: what is told of its complaints.
const COMPLAINT_MAX: usize = 400;

/// The program, and a directory for what it says.
#[derive(Debug)]
pub(super) struct Git {
    program: PathBuf,
    scratch: PathBuf,
}

/// How a run ended.
#[derive(Debug)]
pub(super) struct Said {
    /// It ended well.
    pub(super) is_good: bool,
    /// What it wrote.
    pub(super) output: String,
    /// Its complaints in one line: hostile text.
    pub(super) complaint: String,
}

/// Where a run's streams come from and go to.
#[derive(Default)]
pub(super) struct Streams {
    /// Read instead of nothing.
    pub(super) input: Option<File>,
    /// Written instead of what is read afterwards.
    pub(super) output: Option<File>,
}

/// Said on every run. What a repository's own file says gives way.
const SETTINGS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.packedGitWindowSize=32m",
    "core.packedGitLimit=512m",
    "core.deltaBaseCacheLimit=64m",
    "core.bigFileThreshold=16m",
    "transfer.fsckObjects=true",
    "fetch.fsckObjects=true",
    "fetch.writeCommitGraph=false",
    "fetch.pruneTags=false",
    "protocol.allow=never",
    "protocol.file.allow=always",
    "gc.auto=0",
    "maintenance.auto=false",
    "pack.threads=2",
    "pack.window=0",
];

impl Git {
    /// Finds it on the person's own search path, where that names whole paths.
    pub(super) fn find(search_path: Option<&OsStr>, scratch: &Path) -> Outcome<Self> {
        let search_path = search_path.unwrap_or_else(|| OsStr::new("/usr/bin:/bin"));
        let program = std::env::split_paths(search_path)
            .filter(|place| place.is_absolute())
            .map(|place| place.join("git"))
            .find(|program| program.is_file());
        Ok(Self {
            program: program.ok_or_else(|| {
                Stop::new("`git` is not installed").next("install git 2.31 or newer")
            })?,
            scratch: scratch.to_owned(),
        })
    }

    /// Where the program lies, for who has to reach it.
    pub(super) fn directory(&self) -> PathBuf {
        let real = self.program.canonicalize();
        let real = real.as_deref().unwrap_or(&self.program);
        real.parent().unwrap_or(real).to_owned()
    }

    /// Runs it in a repository that lies at `place`, and in none above.
    pub(super) fn run(&self, place: &Path, words: &[&OsStr], streams: Streams) -> Outcome<Said> {
        let failed = |error: std::io::Error| Stop::new("git can't be run").because(&error);
        let (output, errors) = (self.scratch.join("output"), self.scratch.join("errors"));
        let (mut output, mut errors) = (
            fresh(&output).map_err(failed)?,
            fresh(&errors).map_err(failed)?,
        );
        let to = match streams.output {
            Some(file) => file,
            None => output.try_clone().map_err(failed)?,
        };
        let mut command = Command::new(&self.program);
        command
            .args(SETTINGS.iter().flat_map(|setting| ["-c", setting]))
            .arg("-C")
            .arg(place)
            .args(words)
            .env_clear()
            .envs(ENVIRONMENT.iter().copied())
            .env("HOME", &self.scratch)
            .env("TMPDIR", &self.scratch)
            .env("GIT_CEILING_DIRECTORIES", place.parent().unwrap_or(place))
            .stdin(streams.input.map_or_else(Stdio::null, Stdio::from))
            .stdout(Stdio::from(to))
            .stderr(Stdio::from(errors.try_clone().map_err(failed)?));
        let mut child = command.spawn().map_err(failed)?;
        let began = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                break status;
            }
            if began.elapsed() > RUN_WAIT {
                child.kill().and_then(|()| child.wait()).map_err(failed)?;
                return Err(Stop::new("git did not come to its end in 15 minutes"));
            }
            std::thread::sleep(LOOK_EVERY);
        };
        let complaint = read(&mut errors).map_err(failed)?;
        Ok(Said {
            is_good: status.success(),
            output: read(&mut output).map_err(failed)?,
            complaint: complaint_of(&complaint, &status.to_string()),
        })
    }
}

const ENVIRONMENT: &[(&str, &str)] = &[
    ("PATH", "/usr/bin:/bin"),
    ("LC_ALL", "C"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "/bin/false"),
    ("GIT_ALLOW_PROTOCOL", "file"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
];

/// A file to write and read, with no name that outlasts it.
fn fresh(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    let file = options.read(true).write(true).create_new(true).open(path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

fn read(file: &mut File) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The lines that say why, in one.
fn complaint_of(text: &str, status: &str) -> String {
    let why = |line: &&str| line.starts_with("error: ") || line.starts_with("fatal: ");
    let lines: Vec<&str> = text.lines().filter(why).collect();
    if lines.is_empty() {
        return format!("git ended with {status}");
    }
    lines.join("; ").chars().take(COMPLAINT_MAX).collect()
}
