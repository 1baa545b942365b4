// SPDX-License-Identifier: Apache-2.0
//! Whoever starts tornod may hold descriptors: a terminal, a socket of an agent, a file with a key.
//! None of them is in any role, nor in anything that a role starts.

use crate::roles;
use crate::stage::at_level;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use torno_stage::daemon::binaries;

/// LIMIT: tornod opens its sockets within milliseconds; a machine under load gets this long.
const START_WAIT: Duration = Duration::from_secs(30);

/// Every process that holds a descriptor of that file.
fn holders(file: &Path) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let holds = |process: &fs::DirEntry| {
        let descriptors = fs::read_dir(process.path().join("fd"));
        let mut descriptors = descriptors.into_iter().flatten().flatten();
        descriptors.any(|fd| fs::read_link(fd.path()).is_ok_and(|target| target == file))
    };
    let holding = processes.filter(holds);
    let name = |process: fs::DirEntry| {
        fs::read_to_string(process.path().join("cmdline")).unwrap_or_default()
    };
    holding.map(name).collect()
}

/// A program, started by somebody who holds the file at descriptors 7 and 77.
fn holding(file: &Path, program: &[&str]) -> Command {
    let mut shell = Command::new("/bin/bash");
    let script = "exec 7<\"$0\" 77<\"$0\"; exec \"$@\"";
    shell.args(["-c", script]).arg(file).args(program);
    shell.current_dir("/").stdin(Stdio::null());
    shell
}

/// A process of this story, asked to end when the story is over, however that comes.
struct Ours(Child);

impl Drop for Ours {
    fn drop(&mut self) {
        let pid = i32::try_from(self.0.id()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        let _asked = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _reaped = self.0.wait();
    }
}

// ATTACK: 137
#[test]
fn what_the_callers_of_tornod_hold_reaches_no_role_and_no_sandbox() {
    at_level("descriptors of tornod's caller", "container", |stage| {
        let file = stage.daemon.home().join("outside/held");
        fs::write(&file, "held").unwrap();
        let control = Ours(holding(&file, &["/bin/sleep", "60"]).spawn().unwrap());
        let end = Instant::now() + START_WAIT;
        while holders(&file).is_empty() {
            assert!(Instant::now() < end, "no control: nobody holds the file");
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(control);
        assert_eq!(holders(&file), Vec::<String>::new());

        // A second daemon, of a home of its own, since this stage's is running.
        let home = tempfile::Builder::new()
            .prefix("torno-home-")
            .tempdir()
            .unwrap();
        let tornod = binaries().unwrap().join("tornod");
        let mut start = holding(&file, &[tornod.to_str().unwrap()]);
        start
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap());
        start
            .env("HOME", home.path())
            .env("TORNO_HOME", home.path());
        let tornod = Ours(start.spawn().unwrap());
        let standing = ["desk", "notary", "dialer", "launcher"];
        let end = Instant::now() + START_WAIT;
        while roles::below(tornod.0.id(), &standing).len() < standing.len() {
            assert!(Instant::now() < end, "tornod did not come up");
            std::thread::sleep(Duration::from_millis(20));
        }
        let run = [
            "run",
            "--quiet",
            "--workspace",
            "none",
            "--isolation",
            "container",
        ];
        let mut torno = stage.daemon.torno(&run);
        torno.env("TORNO_HOME", home.path()).current_dir("/");
        let _torno = Ours(torno.args(["--", "sleep", "20"]).spawn().unwrap());
        while roles::serving(tornod.0.id()).is_empty() {
            assert!(Instant::now() < end, "no session began");
            std::thread::sleep(Duration::from_millis(20));
        }
        for _ in 0..20 {
            assert_eq!(holders(&file), Vec::<String>::new());
            std::thread::sleep(Duration::from_millis(50));
        }
    });
}
