// SPDX-License-Identifier: Apache-2.0
//! What a role must never have is tried from inside the running role, and refused by its own walls.
//! Each try has its control: the same call from an ordinary process of the same user is not refused.

use crate::roles::forbidden::{self, Row};
use crate::roles::trying::{Call, try_calls};
use crate::roles::{self, Process, processes};
use crate::stage::{Stage, at_level};
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const EPERM: i64 = -1;
const EACCES: i64 = -13;
const ENOSYS: i64 = -38;
/// What seccomp refuses every role but the launcher, by the roles that may.
const CONFINED: [&str; 5] = ["desk", "notary", "dialer", "gate", "porter"];
/// LIMIT: a porter takes this long over a file of [`LARGE_BYTES`] at least; it is caught within.
const PORTER_WAIT: Duration = Duration::from_secs(30);
const LARGE_BYTES: u64 = 1 << 28;

/// Tells the story with a session; as root and on x86-64, since nobody else may make a process of
/// another user try what it would not.
fn with_roles(story: &str, tell: impl Fn(&Stage, &[Process])) {
    if !rustix::process::geteuid().is_root() || std::env::consts::ARCH != "x86_64" {
        println!("SKIP: {story}: not root on x86-64, so no role can be made to try");
        return;
    }
    at_level(story, "container", |stage| {
        let run = ["run", "--quiet", "--isolation", "container", "--detach"];
        let session = stage.torno(&run).good().stdout;
        tell(stage, &processes(stage));
        // Every role goes on as if nothing had been.
        let exec = ["session", "exec", session.trim(), "--", "true"];
        stage.torno(&exec).good();
        stage.torno(&["session", "stop", session.trim()]).good();
    });
}

/// An ordinary process, without walls and capabilities, of a role's user.
struct Control(Child);

impl Control {
    fn of(uid: u32) -> Self {
        // The porter's user is the caller, here root; an ordinary user stands for it.
        let uid = if uid == 0 { 65534 } else { uid };
        let mut sleep = Command::new("/bin/sleep");
        sleep.arg("600").uid(uid).gid(uid).stdin(Stdio::null());
        let child = sleep.spawn().unwrap();
        // Until it sleeps it is not where a call can be put in.
        std::thread::sleep(Duration::from_millis(200));
        Self(child)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _dead = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn calls(rows: &[Row]) -> Vec<Call> {
    rows.iter().map(|row| row.call.clone()).collect()
}

/// Tries every row in a role and in its control.
fn try_rows(process: &Process, rows: &[Row]) {
    let role = process.role;
    let control = Control::of(process.uid());
    let free = try_calls(control.0.id(), &calls(rows));
    let tried = try_calls(process.number, &calls(rows));
    let mut proven = 0;
    for ((row, free), tried) in rows.iter().zip(free).zip(tried) {
        if row.may.contains(&role) {
            assert_ne!(tried, EPERM, "{role} is refused its own {}", row.name);
            continue;
        }
        assert_eq!(tried, EPERM, "{role} may {}", row.name);
        // Where the control is refused too, or the kernel has no such call, it proves nothing.
        proven += usize::from(![EPERM, ENOSYS].contains(&free));
    }
    let refused = rows.iter().filter(|row| !row.may.contains(&role)).count();
    assert!(
        proven + 6 >= refused,
        "{role}: {proven} of {refused} refusals have a control"
    );
}

fn all_rows() -> Vec<Row> {
    let mut all = forbidden::network();
    all.extend(forbidden::files());
    all.extend(forbidden::processes());
    all
}

#[test]
fn each_role_is_refused_every_call_that_its_row_forbids() {
    with_roles("roles try what is forbidden", |_, roles| {
        for process in roles.iter().filter(|p| CONFINED.contains(&p.role)) {
            try_rows(process, &all_rows());
        }
    });
}

/// Opens each path for reading, in a role and in its control.
fn open_each(process: &Process, paths: &[&str]) -> Vec<(i64, i64)> {
    let open = |path: &&str| Call::new(257, json!([-100, path, 0])).closing();
    let opens: Vec<_> = paths.iter().map(open).collect();
    let control = Control::of(process.uid());
    let free = try_calls(control.0.id(), &opens);
    try_calls(process.number, &opens)
        .into_iter()
        .zip(free)
        .collect()
}

#[test]
fn each_role_opens_nothing_but_its_own_files() {
    with_roles("roles open files", |stage, roles| {
        let state = stage.daemon.home().join("state");
        let notary = state.join("notary/notary.sqlite");
        let desk = state.join("desk");
        for process in roles.iter().filter(|p| p.role != "launcher") {
            let role = process.role;
            let (own, foreign): (&[&str], &[&str]) = match role {
                "notary" => (&[notary.to_str().unwrap()], &["/etc/passwd", "/run", "/"]),
                "desk" => (&[desk.to_str().unwrap()], &["/etc/passwd", "/run", "/"]),
                "dialer" => (
                    &["/etc/hosts", "/etc/resolv.conf"],
                    &[
                        "/run",
                        "/tmp",
                        "/",
                        "/usr/bin/env",
                        "/dev/null",
                        "/proc/self/environ",
                    ],
                ),
                _ => (&[], &[]),
            };
            for (path, (opened, _)) in own.iter().zip(open_each(process, own)) {
                assert!(opened >= 0, "{role} can't open its own {path}: {opened}");
            }
            for (path, (opened, free)) in foreign.iter().zip(open_each(process, foreign)) {
                assert!(free >= 0, "no control for {path}: {free}");
                assert_eq!(opened, EACCES, "{role} opened {path}");
            }
        }
    });
}

#[test]
fn a_porter_reaches_its_own_directories_and_no_network() {
    with_roles("a porter tries what is forbidden", |stage, _| {
        let large = std::fs::File::create(stage.daemon.workspace().join("large")).unwrap();
        large.set_len(LARGE_BYTES).unwrap();
        let mut run = stage.daemon.run_command("container", &["true"]);
        let mut run = run.stdout(Stdio::null()).spawn().unwrap();
        let end = Instant::now() + PORTER_WAIT;
        let porter = loop {
            // Confined, and at its job.
            let mut porters = roles::of(stage, &["porter"]).into_iter();
            let filtered = |p: &Process| p.is_alive() && p.status("Seccomp") == "2";
            if let Some(porter) = porters.find(filtered) {
                break porter;
            }
            assert!(Instant::now() < end, "no porter was seen at work");
        };
        porter.stop();
        try_rows(&porter, &all_rows());
        for path in ["/etc/passwd", "/", "/root"] {
            let open = Call::new(257, json!([-100, path, 0])).closing();
            assert_eq!(try_calls(porter.number, &[open]), [EACCES], "{path}");
        }
        porter.go_on();
        run.wait().unwrap();
        std::fs::remove_file(stage.daemon.workspace().join("large")).unwrap();
    });
}

#[test]
fn the_launcher_has_no_network_though_it_is_root() {
    with_roles("the launcher's network", |_, roles| {
        let launcher = roles.iter().find(|p| p.role == "launcher").unwrap();
        let host = std::fs::read_link("/proc/self/ns/net").unwrap();
        assert_ne!(std::fs::read_link(launcher.proc("ns/net")).unwrap(), host);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let SocketAddr::V4(address) = listener.local_addr().unwrap() else {
            panic!("not an IPv4 address")
        };
        let [high, low] = address.port().to_be_bytes();
        // sockaddr_in as text: family, port, 127.0.0.1, and zeros that the text's end brings.
        let name: String = [2, 0, high, low, 127, 0, 0, 1]
            .map(char::from)
            .iter()
            .collect();
        let connect = [
            Call::new(41, json!([2, 1, 0])),
            Call::new(42, json!(["last", name, 16])),
        ];
        let control = Control::of(0);
        let free = try_calls(control.0.id(), &connect);
        assert_eq!(free[1], 0, "no control: {free:?}");
        let tried = try_calls(launcher.number, &connect);
        assert!(tried[0] >= 0 && tried[1] < 0, "{tried:?}");
        let left = Call::new(3, json!([tried[0]]));
        assert_eq!(try_calls(launcher.number, &[left]), [0]);
        listener.accept().unwrap();
        listener.set_nonblocking(true).unwrap();
        assert!(
            listener.accept().is_err(),
            "the launcher came to the listener"
        );
    });
}
