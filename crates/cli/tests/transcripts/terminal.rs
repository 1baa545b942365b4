// SPDX-License-Identifier: Apache-2.0
//! `torno` at a terminal: a pseudo-terminal stands for the person's.

use crate::home::Home;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Terminal {
    person: File,
    program: OwnedFd,
    screen: String,
}

impl Terminal {
    fn new() -> Self {
        let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&person).unwrap();
        unlockpt(&person).unwrap();
        let name = ptsname(&person, Vec::new()).unwrap();
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
        let program = rustix::fs::open(name, flags, rustix::fs::Mode::empty()).unwrap();
        let terminal = Self {
            person: File::from(person),
            program,
            screen: String::new(),
        };
        terminal.resize(30, 90);
        terminal
    }

    fn resize(&self, rows: u16, columns: u16) {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&self.person, size).unwrap();
    }

    fn spawn(&self, mut command: Command) -> Child {
        let end = || Stdio::from(self.program.try_clone().unwrap());
        command
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap()
    }

    fn type_keys(&mut self, keys: &[u8]) {
        self.person.write_all(keys).unwrap();
    }

    /// Reads until the text stands on the screen.
    #[track_caller]
    fn wait_for(&mut self, text: &str) {
        let end = Instant::now() + Duration::from_secs(10);
        while !self.screen.contains(text) {
            assert!(Instant::now() < end, "no {text:?} in {:?}", self.screen);
            let mut chunk = [0; 4096];
            let timeout = rustix::event::Timespec {
                tv_sec: 1,
                tv_nsec: 0,
            };
            let mut watched = [rustix::event::PollFd::new(
                &self.person,
                rustix::event::PollFlags::IN,
            )];
            if rustix::event::poll(&mut watched, Some(&timeout)).unwrap() > 0 {
                let read = self.person.read(&mut chunk).unwrap();
                self.screen
                    .push_str(&String::from_utf8_lossy(&chunk[..read]));
            }
        }
    }

    fn echoes(&self) -> bool {
        tcgetattr(&self.program)
            .unwrap()
            .local_modes
            .contains(LocalModes::ECHO | LocalModes::ICANON)
    }
}

fn signal(child: &Child, number: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), number).unwrap();
}

// ATTACK: 133
#[test]
fn the_command_gets_a_terminal_of_its_own_and_ours_comes_back_as_it_was() {
    let home = Home::served();
    let mut terminal = Terminal::new();
    assert!(terminal.echoes());
    let mut child = terminal.spawn(home.command(&["run", "-q", "--", "watch"]));
    terminal.wait_for("terminal Some((30, 90))");
    assert!(!terminal.echoes(), "raw mode");
    // Ctrl-C is a byte for the command, not a signal for us.
    terminal.type_keys(b"\x03");
    terminal.wait_for("Stdin([3])");
    terminal.resize(40, 100);
    signal(&child, rustix::process::Signal::WINCH);
    terminal.wait_for("Resize(40, 100)");
    terminal.type_keys(b"q");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(terminal.echoes());
}

#[test]
fn the_terminal_comes_back_when_the_run_is_ended_from_outside() {
    let home = Home::served();
    let mut terminal = Terminal::new();
    let mut child = terminal.spawn(home.command(&["run", "-q", "--", "watch", "deaf"]));
    terminal.wait_for("terminal Some");
    signal(&child, rustix::process::Signal::HUP);
    assert_eq!(child.wait().unwrap().code(), Some(129));
    assert!(terminal.echoes());
}

// ATTACK: 184
#[test]
fn what_would_steer_the_terminal_does_not_reach_it_unless_raw() {
    let home = Home::served();
    let mut terminal = Terminal::new();
    let mut child = terminal.spawn(home.command(&["run", "-q", "--", "evil"]));
    child.wait().unwrap();
    terminal.wait_for("abc\u{fffd}");
    assert!(!terminal.screen.contains('\x1b'), "{:?}", terminal.screen);
    let mut child = terminal.spawn(home.command(&["run", "-q", "--raw", "--", "evil"]));
    child.wait().unwrap();
    terminal.wait_for("\x1b]52;c;eA==\x07b\x1b[6n");
}

#[test]
fn a_secret_is_typed_without_echo() {
    let home = Home::served();
    let mut terminal = Terminal::new();
    let mut child = terminal.spawn(home.command(&["secret", "put", "api"]));
    terminal.wait_for("Value of api: ");
    terminal.type_keys(b"sk-canarX\x7fy\r");
    terminal.wait_for("stored api");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!terminal.screen.contains("canar"), "{:?}", terminal.screen);
    assert!(terminal.echoes());
    assert_eq!(
        home.seen().notary.last().unwrap().1,
        [b"sk-canary".to_vec()]
    );
}

#[test]
fn a_secret_that_is_broken_off_is_not_stored() {
    let home = Home::served();
    let mut terminal = Terminal::new();
    let mut child = terminal.spawn(home.command(&["secret", "put", "api"]));
    terminal.wait_for("Value of api: ");
    terminal.type_keys(b"half\x03");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(terminal.echoes());
    assert!(home.seen().notary.is_empty());
}

#[test]
fn passphrases_must_agree() {
    let home = Home::served();
    let mut terminal = Terminal::new();
    let mut child = terminal.spawn(home.command(&["vault", "init"]));
    terminal.wait_for("New passphrase: ");
    terminal.type_keys(b"one\r");
    terminal.wait_for("Again: ");
    terminal.type_keys(b"two\r");
    terminal.wait_for("the two passphrases differ");
    assert_eq!(child.wait().unwrap().code(), Some(125));
}

#[test]
fn what_executes_on_a_host_is_asked_for_even_with_yes() {
    let home = Home::served();
    let mut terminal = Terminal::new();
    let session = crate::fake::SESSION;
    let mut child = terminal.spawn(home.command(&["session", "apply", session, "--yes"]));
    terminal.wait_for("`.envrc` executes on your machine. Write it? [y/N]");
    terminal.type_keys(b"y\n");
    terminal.wait_for("wrote     .envrc");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn run_apply_ask_shows_the_changes_and_brings_nothing_back_on_no() {
    let home = Home::served();
    let mut terminal = Terminal::new();
    let mut child =
        terminal.spawn(home.command(&["run", "-q", "--apply", "ask", "--", "exit", "4"]));
    terminal.wait_for("+\\u{1b}[2Kx\\xff");
    terminal.wait_for("[y/N]");
    terminal.type_keys(b"n\n");
    terminal.wait_for("nothing was brought back");
    assert_eq!(child.wait().unwrap().code(), Some(4));
}
