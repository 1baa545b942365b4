// SPDX-License-Identifier: Apache-2.0
//! Directories that another user of the machine prepared: tornod does not start in one, touches
//! nothing behind a link, and `torno` tells nothing to a stranger who listens in Torno's place.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use torno_stage::daemon::binaries;
use torno_stage::unwalled::PYTHON;

/// Another user of the machine.
const STRANGER: u32 = 65534;
/// LIMIT: tornod on a busy machine.
const WAIT: Duration = Duration::from_secs(60);

/// A home in the making, and a directory that nothing of Torno's may reach.
struct Ground {
    directory: TempDir,
}

impl Ground {
    fn new() -> Self {
        let directory = tempfile::Builder::new()
            .prefix("torno-prepared-")
            .tempdir()
            .unwrap();
        open(directory.path(), 0o755);
        fs::create_dir(directory.path().join("outside")).unwrap();
        fs::write(directory.path().join("outside/kept"), "kept").unwrap();
        Self { directory }
    }

    fn home(&self) -> PathBuf {
        self.directory.path().join("above/home")
    }

    fn outside(&self) -> PathBuf {
        self.directory.path().join("outside")
    }

    /// Nothing came, went or changed its rights outside.
    #[track_caller]
    fn is_untouched(&self, name: &str) {
        let outside = self.outside();
        let names: Vec<_> = fs::read_dir(&outside)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["kept"], "{name}");
        assert_eq!(fs::read_to_string(outside.join("kept")).unwrap(), "kept");
        let meta = fs::metadata(&outside).unwrap();
        assert_eq!((meta.uid(), meta.mode() & 0o7777), (0, 0o755), "{name}");
    }
}

fn open(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn program(name: &str, home: &Path) -> Command {
    let mut command = Command::new(binaries().unwrap().join(name));
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", "/nonexistent")
        .env("TORNO_HOME", home)
        .env("NO_COLOR", "1")
        .current_dir("/")
        .stdin(Stdio::null());
    command
}

/// Starts tornod; `Err` holds what it said when it ended by itself.
fn start(home: &Path) -> Result<(), String> {
    let mut child = program("tornod", home)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let end = Instant::now() + WAIT;
    loop {
        if child.try_wait().unwrap().is_some() {
            let output = child.wait_with_output().unwrap();
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let status = program("torno", home)
            .args(["--no-start", "vault", "status"])
            .output();
        if status.unwrap().status.success() && stays(&mut child) {
            let pid = rustix::process::Pid::from_child(&child);
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
            child.wait().unwrap();
            return Ok(());
        }
        if Instant::now() > end {
            child.kill().unwrap();
            child.wait().unwrap();
            return Err("it neither came up nor ended".to_owned());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Whether it goes on: its notary may answer before its launcher has looked at the sandboxes.
fn stays(child: &mut Child) -> bool {
    (0..30).all(|_| {
        std::thread::sleep(Duration::from_millis(50));
        child.try_wait().unwrap().is_none()
    })
}

/// An empty file of the operator's.
fn configure(ground: &Ground, name: &str) {
    let config = ground.home().join("config");
    fs::create_dir(&config).unwrap();
    fs::write(config.join(name), "").unwrap();
    open(&config.join(name), 0o644);
}

/// What is prepared, and what is said about it; nothing for what is harmless.
type Case = (&'static str, fn(&Ground), Option<&'static str>);

const CASES: &[Case] = &[
    ("nothing", |_| {}, None),
    (
        "its own directories, open to all",
        |g| {
            fs::create_dir_all(g.home().join("state/sandboxes")).unwrap();
            open(&g.home().join("state/sandboxes"), 0o777);
        },
        None,
    ),
    (
        "a directory where everybody keeps what is theirs",
        |g| open(g.home().parent().unwrap(), 0o1777),
        None,
    ),
    (
        "a link of one's own on the way",
        |g| {
            let real = g.directory.path().join("real");
            fs::create_dir(&real).unwrap();
            fs::remove_dir(g.home()).unwrap();
            symlink(real, g.home()).unwrap();
        },
        None,
    ),
    (
        "a link for the state",
        |g| symlink(g.outside(), g.home().join("state")).unwrap(),
        Some("is no directory"),
    ),
    (
        "a link for the sockets",
        |g| symlink(g.outside(), g.home().join("run")).unwrap(),
        Some("is no directory"),
    ),
    (
        "a link for the sandboxes",
        |g| {
            fs::create_dir(g.home().join("state")).unwrap();
            symlink(g.outside(), g.home().join("state/sandboxes")).unwrap();
        },
        Some("is no directory"),
    ),
    (
        "a stranger's directory for the sandboxes",
        |g| {
            fs::create_dir_all(g.home().join("state/sandboxes")).unwrap();
            chown(g.home().join("state/sandboxes"), Some(STRANGER), None).unwrap();
        },
        Some("belongs to uid 65534"),
    ),
    (
        "a stranger's directory for the record",
        |g| {
            fs::create_dir_all(g.home().join("state/notary/record")).unwrap();
            chown(g.home().join("state/notary/record"), Some(STRANGER), None).unwrap();
        },
        Some("belongs to uid 65534"),
    ),
    (
        "a stranger's home",
        |g| chown(g.home(), Some(STRANGER), None).unwrap(),
        Some("belongs to uid 65534"),
    ),
    (
        "a stranger's directory above home",
        |g| chown(g.home().parent().unwrap(), Some(STRANGER), None).unwrap(),
        Some("belongs to uid 65534"),
    ),
    (
        "a home that a group may write to",
        |g| {
            chown(g.home(), None, Some(STRANGER)).unwrap();
            open(&g.home(), 0o775);
        },
        Some("others may write to"),
    ),
    (
        "a home that all may write to",
        |g| open(&g.home(), 0o777),
        Some("others may write to"),
    ),
    (
        "a directory above home that all may write to",
        |g| open(g.home().parent().unwrap(), 0o777),
        Some("others may write to"),
    ),
    (
        "a stranger's link to a fine home",
        |g| {
            let real = g.directory.path().join("real");
            fs::create_dir(&real).unwrap();
            fs::remove_dir(g.home()).unwrap();
            symlink(real, g.home()).unwrap();
            lchown(g.home(), Some(STRANGER), None).unwrap();
        },
        Some("belongs to uid 65534"),
    ),
    (
        "a fine link to a stranger's home",
        |g| {
            let real = g.directory.path().join("real");
            fs::create_dir(&real).unwrap();
            chown(&real, Some(STRANGER), None).unwrap();
            fs::remove_dir(g.home()).unwrap();
            symlink(real, g.home()).unwrap();
        },
        Some("belongs to uid 65534"),
    ),
    (
        "a configuration of one's own",
        |g| configure(g, "upstreams.toml"),
        None,
    ),
    (
        "a stranger's directory for the configuration",
        |g| {
            configure(g, "upstreams.toml");
            chown(g.home().join("config"), Some(STRANGER), None).unwrap();
        },
        Some("belongs to uid 65534"),
    ),
    (
        "an empty directory for the configuration that all may write to",
        |g| {
            fs::create_dir(g.home().join("config")).unwrap();
            open(&g.home().join("config"), 0o777);
        },
        Some("others may write to"),
    ),
    (
        "upstreams that all may write to",
        |g| {
            configure(g, "upstreams.toml");
            open(&g.home().join("config/upstreams.toml"), 0o666);
        },
        Some("chmod go-w"),
    ),
    (
        "a stranger's policy of the organisation",
        |g| {
            configure(g, "organisation.cedar");
            let policy = g.home().join("config/organisation.cedar");
            chown(policy, Some(STRANGER), None).unwrap();
        },
        Some("belongs to uid 65534"),
    ),
    (
        "a link among the sandboxes",
        |g| {
            fs::create_dir_all(g.home().join("state/sandboxes")).unwrap();
            symlink(g.outside(), g.home().join("state/sandboxes/s1")).unwrap();
        },
        Some("a sandbox of an earlier life"),
    ),
];

// ATTACK: 149
#[test]
fn tornod_does_not_start_in_a_place_that_others_prepared() {
    for (name, prepare, says) in CASES {
        let ground = Ground::new();
        fs::create_dir_all(ground.home()).unwrap();
        prepare(&ground);
        let started = start(&ground.home());
        match (says, &started) {
            (None, Ok(())) => {
                let meta = fs::metadata(ground.home().join("state/sandboxes")).unwrap();
                assert_eq!((meta.uid(), meta.mode() & 0o7777), (0, 0o700), "{name}");
            }
            (Some(says), Err(said)) => assert!(said.contains(says), "{name}: {said}"),
            (None, Err(_)) | (Some(_), Ok(())) => panic!("{name}: {started:?}"),
        }
        ground.is_untouched(name);
    }
}

/// Listens where the notary would, and tells of every byte.
const LISTEN: &str = r"
import socket, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(sys.argv[1])
listener.listen(8)
print('listening', flush=True)
while True:
    stream, _ = listener.accept()
    said = stream.recv(65536)
    if said:
        print('heard', said, flush=True)
    stream.close()
";

// ATTACK: 149
#[test]
fn torno_tells_nothing_to_a_stranger_who_listens_in_the_notarys_place() {
    use std::io::{BufRead, BufReader, Read};
    for (listener, says) in [(STRANGER, "uid 65534 listens there"), (0, "")] {
        let ground = Ground::new();
        let run = ground.home().join("run");
        fs::create_dir_all(&run).unwrap();
        chown(&run, Some(listener), None).unwrap();
        let id = listener.to_string();
        let mut fake = Command::new("setpriv")
            .args(["--reuid", &id, "--clear-groups", "--", PYTHON, "-c", LISTEN])
            .arg(run.join("notary.sock"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(fake.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "listening\n");
        let value = ground.outside().join("kept");
        let ran = program("torno", &ground.home())
            .args(["--no-start", "secret", "put", "api", "--file"])
            .arg(&value)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        fake.kill().unwrap();
        fake.wait().unwrap();
        let mut heard = String::new();
        output.read_to_string(&mut heard).unwrap();
        assert_eq!(ran.status.code(), Some(125), "{said}");
        if listener == STRANGER {
            assert!(said.contains(says), "{said}");
            assert_eq!(heard, "");
        } else {
            // The wall is the user alone: from root it is taken, and the fake hears the value.
            assert!(heard.contains("kept"), "{heard} {said}");
        }
    }
}
