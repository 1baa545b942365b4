// SPDX-License-Identifier: Apache-2.0
//! A home of its own for each test: directory, fakes, and `torno` run in it.

use crate::fake::{self, Seen, Shared};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::MutexGuard;
use tempfile::TempDir;

pub(crate) struct Home {
    directory: TempDir,
    seen: Option<Shared>,
}

/// How a run of `torno` ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) exit: i32,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) raw_out: Vec<u8>,
}

impl Home {
    /// With a desk and a notary that answer.
    pub(crate) fn served() -> Self {
        let mut home = Self::alone();
        home.seen = Some(fake::serve(&home.directory.path().join("home/run")));
        home
    }

    /// Begins to answer, as a daemon that was just started does.
    pub(crate) fn serve(&mut self) {
        self.seen = Some(fake::serve(&self.directory.path().join("home/run")));
    }

    /// A copy of `torno` beside a `tornod` that is this script.
    pub(crate) fn beside_script(&self, script: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let torno = self.directory.path().join("torno");
        // A link and not a copy: what is held open for writing, if only by the fork of another
        // test, can't be executed (ETXTBSY, execve(2)).
        let built = env!("CARGO_BIN_EXE_torno");
        if std::fs::hard_link(built, &torno).is_err() {
            std::fs::copy(built, &torno).unwrap();
        }
        let daemon = self.directory.path().join("tornod");
        std::fs::write(&daemon, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&daemon, std::fs::Permissions::from_mode(0o755)).unwrap();
        torno
    }

    /// Nobody answers.
    pub(crate) fn alone() -> Self {
        let directory = tempfile::Builder::new().prefix("t").tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("work")).unwrap();
        Self {
            directory,
            seen: None,
        }
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.as_ref().unwrap().lock().unwrap()
    }

    pub(crate) fn directory(&self) -> &std::path::Path {
        self.directory.path()
    }

    pub(crate) fn work(&self, name: &str) -> PathBuf {
        self.directory.path().join("work").join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.work(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        file
    }

    /// `torno` with these arguments, not run yet.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.program(env!("CARGO_BIN_EXE_torno").as_ref(), arguments)
    }

    /// Any copy of `torno` with these arguments, not run yet.
    pub(crate) fn program(&self, torno: &std::path::Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(torno);
        command
            .args(arguments)
            .env_clear()
            .env("TORNO_HOME", self.directory.path().join("home"))
            .env("HOME", "/home/somebody")
            .env("TORNO_NO_START", "1")
            .current_dir(self.directory.path().join("work"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn torno(&self, arguments: &[&str]) -> Ran {
        Ran::of(&self.command(arguments).output().unwrap())
    }

    pub(crate) fn torno_with(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that does not read closes the pipe, and that is for the test to judge.
        let _ = child.stdin.take().unwrap().write_all(input);
        Ran::of(&child.wait_with_output().unwrap())
    }
}

impl Ran {
    pub(crate) fn of(output: &Output) -> Self {
        use std::os::unix::process::ExitStatusExt;
        let exit = output
            .status
            .code()
            .or_else(|| output.status.signal().map(|n| -n));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            exit: exit.unwrap(),
            out: text(&output.stdout),
            err: text(&output.stderr),
            raw_out: output.stdout.clone(),
        }
    }

    /// Both texts, for a message.
    #[track_caller]
    pub(crate) fn expect(self, exit: i32) -> Self {
        assert_eq!(self.exit, exit, "\n{}\n{}", self.out, self.err);
        self
    }
}
