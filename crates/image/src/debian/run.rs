// SPDX-License-Identifier: Apache-2.0
//! `mmdebstrap`, started as the person: as root it works in a chroot, else in a user namespace of
//! the person's subordinate ids. Its archive becomes a blob while it is written.

use super::{PackageName, Source, Suite};
use crate::import::{ImportError, image_of, layer_blob};
use crate::store::Store;
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read};
use std::process::{Command, ExitStatus, Stdio};
use thiserror::Error;
use torno_policy::names::ImageDigest;

const PROGRAM: &str = "mmdebstrap";

/// Why there is no image.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DebianError {
    /// It is not here.
    #[error("`mmdebstrap` is not installed")]
    Missing,
    /// It could not be started.
    #[error("`mmdebstrap` does not start")]
    Start(#[source] io::Error),
    /// It failed.
    #[error("`mmdebstrap` ended with {status}: {said}")]
    Failed {
        /// How.
        status: ExitStatus,
        /// Its complaints.
        said: String,
    },
    /// What it wrote.
    #[error(transparent)]
    Import(#[from] ImportError),
}

/// What to build.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Besides what Debian calls essential.
    pub packages: &'a [PackageName],
    /// Of which suite.
    pub suite: &'a Suite,
    /// From where.
    pub sources: &'a [Source],
}

/// LIMIT: a line of its words.
const LINE_BYTES_MAX: u64 = 4096;
/// LIMIT: complaints in an error; apt says what it lacks in a few.
const COMPLAINTS_MAX: usize = 6;
/// LIMIT: and their length.
const COMPLAINT_CHARACTERS_MAX: usize = 200;

/// Copied in from this machine, or telling of it; the sandbox has its own, or needs none.
const CLEAN: &str = "--customize-hook=rm -rf \"$1/etc/resolv.conf\" \"$1/etc/hostname\" \
     \"$1/etc/apt/sources.list\" \"$1/etc/apt/sources.list.d\"";
/// A name that is no package is an error, and no pattern of names (apt(8)).
const NO_PATTERNS: &str = "--aptopt=APT::Cmd::Pattern-Only \"true\"";

/// Has the root directory made, and makes an image of it that is yet to be unpacked. `progress` is
/// told what it does.
///
/// # Errors
/// [`DebianError`]; nothing of a build that failed is kept.
pub fn build(
    store: &mut Store,
    wanted: Wanted<'_>,
    progress: &mut (dyn FnMut(&str) + Send),
) -> Result<ImageDigest, DebianError> {
    let (archive, theirs) = io::pipe().map_err(DebianError::Start)?;
    let mut command = Command::new(PROGRAM);
    command
        .args(words(wanted, rustix::process::geteuid().is_root()))
        .env("LC_ALL", "C.UTF-8")
        // apt(8): what a person set for other runs of apt.
        .env_remove("APT_CONFIG")
        .stdin(Stdio::null())
        .stdout(Stdio::from(theirs))
        .stderr(Stdio::piped());
    let started = command.spawn();
    // Our copy of its end, or the archive would never end.
    drop(command);
    let mut child = match started {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(DebianError::Missing),
        started => started.map_err(DebianError::Start)?,
    };
    let said = child.stderr.take();
    let (put, said, status) = std::thread::scope(|scope| {
        let hearing = scope.spawn(|| said.map(|said| heard(said, progress)));
        // Where it can't be kept nobody reads, and that is its end too.
        let put = layer_blob(store, archive);
        let status = child.wait();
        (put, hearing.join().ok().flatten(), status)
    });
    let status = status.map_err(DebianError::Start)?;
    let blob = put?;
    if !status.success() {
        store.drop_blob(&blob.0).map_err(ImportError::from)?;
        let said = said.unwrap_or_default();
        return Err(DebianError::Failed { status, said });
    }
    Ok(image_of(store, blob)?)
}

/// Whether this machine's apt looks at the age of an index (apt.conf(5), `Check-Valid-Until`).
#[must_use]
pub fn checks_age() -> bool {
    let asked = Command::new("apt-config")
        .args(["dump", "--format", "%v%n", "Acquire::Check-Valid-Until"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    // Who can't be asked looks.
    asked.map_or(true, |said| {
        !matches!(said.stdout.trim_ascii(), b"false" | b"0" | b"no")
    })
}

/// Whether the program is on that path.
#[must_use]
pub fn is_installed(search_path: &OsStr) -> bool {
    std::env::split_paths(search_path).any(|directory| directory.join(PROGRAM).is_file())
}

fn words(wanted: Wanted<'_>, is_root: bool) -> Vec<String> {
    let mode = if is_root { "root" } else { "unshare" };
    let mut words: Vec<String> = vec![
        format!("--mode={mode}"),
        "--format=tar".to_owned(),
        "--variant=essential".to_owned(),
        "--skip=output/dev".to_owned(),
        NO_PATTERNS.to_owned(),
        CLEAN.to_owned(),
    ];
    let packages: Vec<&str> = wanted.packages.iter().map(PackageName::as_str).collect();
    if !packages.is_empty() {
        words.push(format!("--include={}", packages.join(",")));
    }
    words.push(wanted.suite.to_string());
    words.push("-".to_owned());
    words.extend(wanted.sources.iter().map(Source::line));
    words
}

/// Its words, line by line; complaints are kept.
fn heard(said: impl Read, progress: &mut (dyn FnMut(&str) + Send)) -> String {
    let mut said = BufReader::new(said);
    let mut complaints = Vec::new();
    loop {
        let mut line = Vec::new();
        let read = said
            .by_ref()
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line);
        if !read.is_ok_and(|read| read > 0) {
            return complaints.join("; ");
        }
        let line = plain(&line);
        match line.split_once(": ") {
            Some(("I", step)) => progress(step),
            Some(("E" | "W", complaint)) if complaints.len() < COMPLAINTS_MAX => {
                complaints.push(complaint.to_owned());
            }
            Some(_) | None => {}
        }
    }
}

/// Fit to be shown.
fn plain(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let inert = text
        .trim()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c });
    inert.take(COMPLAINT_CHARACTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_no_option_and_sources_come_last() {
        let packages = ["python3", "g++"].map(|name| name.parse().unwrap());
        let wanted = Wanted {
            packages: &packages,
            suite: &"bookworm".parse().unwrap(),
            sources: &[],
        };
        let words = words(wanted, false);
        assert_eq!(words[0], "--mode=unshare");
        let last: Vec<&str> = words.iter().rev().take(3).map(String::as_str).collect();
        assert_eq!(last, ["-", "bookworm", "--include=python3,g++"]);
        assert_eq!(super::words(wanted, true)[0], "--mode=root");
    }

    #[test]
    fn steps_are_told_and_complaints_kept_both_plain_and_bounded() {
        let mut said =
            b"I: running apt-get update...\nnoise\nE: Unable to \x1b[1mlocate x\n".to_vec();
        said.extend(vec![b'E'; 10_000]);
        said.push(b'\n');
        for _ in 0..20 {
            said.extend(b"W: again\n");
        }
        let mut steps = Vec::new();
        let complaints = heard(said.as_slice(), &mut |step| steps.push(step.to_owned()));
        assert_eq!(steps, ["running apt-get update..."]);
        assert!(
            complaints.starts_with("Unable to  [1mlocate x; again"),
            "{complaints}"
        );
        assert_eq!(complaints.matches("again").count(), COMPLAINTS_MAX - 1);
    }
}
