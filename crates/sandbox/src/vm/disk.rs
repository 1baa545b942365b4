// SPDX-License-Identifier: Apache-2.0
//! A directory as a machine's disk: an erofs file, made by mkfs.erofs. What the directory holds may
//! be a stranger's, so the maker is behind landlock, and its size, its time and its words are
//! bounded.

use super::parts::MachineParts;
use data_encoding::HEXLOWER;
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, Scope,
};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Why there is no disk.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DiskError {
    /// A file of it.
    #[error("the disk can't be kept at `{0}`")]
    Keep(PathBuf, #[source] io::Error),
    /// The maker's complaint.
    #[error("mkfs.erofs made no disk of `{0}`: `{1}`")]
    Maker(PathBuf, String),
    /// It grew.
    #[error("the disk of `{0}` is larger than its files")]
    Size(PathBuf),
    /// It took too long.
    #[error("the disk of `{0}` was not done in time")]
    Time(PathBuf),
    /// No wall around the maker.
    #[error("the maker of disks has no wall")]
    Wall(#[from] RulesetError),
}

/// What a disk is made of.
#[derive(Debug, Clone, Copy)]
pub struct DiskSource<'a> {
    /// The directory: no link on the way.
    pub directory: &'a Path,
    /// A place in it that stays out.
    pub without: Option<&'static str>,
    /// Bytes that the disk may have.
    pub bytes_max: u64,
}

/// LIMIT: an image of 32 GiB on a slow disk. Whoever waits is told to try again.
const MAKER_WAIT: Duration = Duration::from_secs(30 * 60);
/// LIMIT: how far beyond its size a disk can get before it is seen.
const MAKER_STEP: Duration = Duration::from_millis(20);
/// LIMIT: the maker's words in an error.
const MESSAGE_CHARACTERS_MAX: usize = 500;
/// LIMIT: what is read of them.
const MESSAGE_BYTES_MAX: u64 = 64 << 10;
const DIGEST_PIECE: usize = 256 << 10;
/// Rights that are taken where the kernel knows them.
const WANTED: ABI = ABI::V6;

/// Makes the disk at that place, whole and synced or not at all.
///
/// # Errors
/// [`DiskError`].
pub fn make_disk(parts: &MachineParts, source: DiskSource<'_>, at: &Path) -> Result<(), DiskError> {
    let made = make(parts, source, at);
    if made.is_err() {
        // What is left of it is in the way of nobody.
        let _removed = fs::remove_file(at);
    }
    made
}

/// A disk's SHA-256, in hexadecimal.
///
/// # Errors
/// [`DiskError::Keep`] when it can't be read.
pub fn disk_digest(at: &Path) -> Result<String, DiskError> {
    let failed = |error| DiskError::Keep(at.to_owned(), error);
    let (mut file, mut digest) = (File::open(at).map_err(failed)?, Sha256::new());
    let mut piece = vec![0; DIGEST_PIECE];
    loop {
        let length = file.read(&mut piece).map_err(failed)?;
        if length == 0 {
            return Ok(HEXLOWER.encode(&digest.finalize()));
        }
        digest.update(piece.get(..length).unwrap_or_default());
    }
}

fn make(parts: &MachineParts, source: DiskSource<'_>, at: &Path) -> Result<(), DiskError> {
    let failed = |error| DiskError::Keep(at.to_owned(), error);
    // New, so that it is nobody else's file: what an earlier try left goes.
    match fs::remove_file(at) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    let file = File::create_new(at).map_err(failed)?;
    // A machine's monitor has ids of its own.
    let readable = fs::Permissions::from_mode(0o644);
    file.set_permissions(readable).map_err(failed)?;
    let broken = |_| failed(io::Error::other("the thread broke"));
    // The wall stands around the thread that starts the maker, and around nothing else here.
    let child = thread::scope(|scope| scope.spawn(|| start(parts, source, at)).join());
    let child = child.map_err(broken)??;
    watch(child, source, at)?;
    file.sync_all().map_err(failed)
}

fn start(parts: &MachineParts, source: DiskSource<'_>, at: &Path) -> Result<Child, DiskError> {
    let mut maker = Command::new(&parts.image_maker);
    maker.args(["--quiet", "-x-1", "--all-root"]);
    if let Some(without) = source.without {
        maker.arg(format!("--exclude-path={without}"));
    }
    // Python finds its compiled files stale when times are lost.
    maker.arg("--preserve-mtime").arg(at).arg(source.directory);
    maker
        .env_clear()
        .env("LD_LIBRARY_PATH", MachineParts::libraries(&parts.root))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    raise(parts, source.directory, at)?;
    let started = maker.spawn();
    started.map_err(|error| DiskError::Maker(source.directory.to_owned(), error.to_string()))
}

/// Reads its own libraries and the directory, writes the one file, and has no TCP and no socket of
/// others. On a kernel without landlock there is no such wall.
fn raise(parts: &MachineParts, directory: &Path, at: &Path) -> Result<(), RulesetError> {
    let own = ["/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/dev/urandom"];
    let own = own.iter().map(Path::new);
    let read = own.chain([parts.root.as_path(), directory]);
    let files = AccessFs::from_all(WANTED);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(files)?
        .handle_access(AccessNet::from_all(WANTED))?
        .scope(Scope::from_all(WANTED))?
        .create()?;
    let allowed = read.map(|path| (path, AccessFs::from_read(WANTED)));
    for (path, access) in allowed.chain([(at, files), (Path::new("/dev/null"), files)]) {
        // What is not there needs no way to it.
        if let Ok(opened) = PathFd::new(path) {
            let access = if path.is_dir() {
                access
            } else {
                access & AccessFs::from_file(WANTED)
            };
            ruleset = ruleset.add_rule(PathBeneath::new(opened, access))?;
        }
    }
    ruleset.restrict_self()?;
    Ok(())
}

/// Waits for its end, and brings it about where it takes more than it may.
fn watch(mut child: Child, source: DiskSource<'_>, at: &Path) -> Result<(), DiskError> {
    let complaint = child
        .stderr
        .take()
        .map(|said| thread::spawn(|| heard(said)));
    let deadline = Instant::now() + MAKER_WAIT;
    let outcome = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Ok(status.success()),
            Ok(None) => {}
            Err(error) => break Err(DiskError::Keep(at.to_owned(), error)),
        }
        if fs::metadata(at).is_ok_and(|found| found.len() > source.bytes_max) {
            break Err(DiskError::Size(source.directory.to_owned()));
        }
        if Instant::now() > deadline {
            break Err(DiskError::Time(source.directory.to_owned()));
        }
        thread::sleep(MAKER_STEP);
    };
    if outcome.is_err() {
        // One that has ended already is none to end.
        let _killed = child.kill();
        let _waited = child.wait();
    }
    let said = complaint.and_then(|complaint| complaint.join().ok());
    if outcome? {
        return Ok(());
    }
    let said = said.unwrap_or_default();
    Err(DiskError::Maker(source.directory.to_owned(), said))
}

/// What it says, bounded and plain; what is beyond is read and dropped, or it would wait for us.
fn heard(mut said: impl Read) -> String {
    let mut text = Vec::new();
    // What can't be read is not said.
    let _read = (&mut said).take(MESSAGE_BYTES_MAX).read_to_end(&mut text);
    let _rest = io::copy(&mut said, &mut io::sink());
    let text = String::from_utf8_lossy(&text);
    let plain = text
        .chars()
        .map(|c| if c.is_control() || c == '`' { ' ' } else { c });
    plain.take(MESSAGE_CHARACTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::plan::tests::parts;
    use std::os::unix::fs::PermissionsExt;

    /// A maker of the test's own, with a directory to make a disk of.
    fn made(script: &str, bytes_max: u64) -> (Result<String, DiskError>, bool) {
        let place = tempfile::tempdir().unwrap();
        let place = fs::canonicalize(place.path()).unwrap();
        let (maker, tree) = (place.join("parts/maker"), place.join("image/tree"));
        for directory in [place.join("parts"), tree.clone()] {
            fs::create_dir_all(directory).unwrap();
        }
        fs::write(tree.join("file"), "said").unwrap();
        fs::write(place.join("secret"), "secret").unwrap();
        let script = script.replace("PLACE", place.to_str().unwrap());
        fs::write(&maker, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&maker, fs::Permissions::from_mode(0o755)).unwrap();
        let parts = MachineParts {
            root: place.join("parts"),
            image_maker: maker,
            ..parts()
        };
        let source = DiskSource {
            directory: &tree,
            without: None,
            bytes_max,
        };
        let at = place.join("image/disk");
        fs::write(&at, "of an earlier try").unwrap();
        let made = make_disk(&parts, source, &at);
        let made = made.map(|()| fs::read_to_string(&at).unwrap());
        let _cleared = fs::remove_dir_all(&place);
        (made, at.exists())
    }

    /// The maker's last words but one are where it writes and what it reads.
    const WORDS: &str = "for word; do at=$from; from=$word; done; ";

    #[test]
    fn a_disk_is_made_whole_and_readable_or_not_at_all() {
        let (said, _) = made(&format!("{WORDS} cat $from/file > $at"), 1 << 20);
        assert_eq!(said.unwrap(), "said");
        let (failed, left) = made(
            &format!("{WORDS} echo half > $at; printf 'no\\n`x`' >&2; exit 1"),
            1 << 20,
        );
        let error = failed.unwrap_err().to_string();
        assert!(error.contains("`no  x `") && !left, "{error}");
    }

    #[test]
    fn a_maker_that_writes_more_than_it_may_is_ended_and_leaves_nothing() {
        let script = format!("{WORDS} while :; do cat $from/file $from/file >> $at; done");
        let (failed, left) = made(&script, 1000);
        assert!(matches!(failed, Err(DiskError::Size(_))) && !left);
    }

    // ATTACK: 169
    #[test]
    fn the_maker_of_a_disk_reads_the_image_and_its_own_and_writes_one_file() {
        if crate::sys::landlock_version() == 0 {
            println!("SKIP: the wall of the maker of disks: this kernel has no landlock");
            return;
        }
        for script in [
            "cat PLACE/secret > $at || exit 1",
            "cat /etc/passwd > $at || exit 1",
            "echo x > PLACE/dropped || exit 1",
            "echo x > $from/dropped || exit 1",
            "echo x > PLACE/image/beside || exit 1",
            "rm $from/file || exit 1",
        ] {
            let (reached, _) = made(&format!("{WORDS} {script}"), 1 << 20);
            assert!(matches!(reached, Err(DiskError::Maker(..))), "{script}");
        }
    }
}
