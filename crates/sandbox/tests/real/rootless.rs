// SPDX-License-Identifier: Apache-2.0
//! The same sandboxes made by an ordinary user: everything that this binary tests as root is tested
//! once more with what an administrator gives such a user, and what is not given is refused with
//! the command that gives it.

use crate::account::{Account, Given};
use crate::harness::paths;
use std::path::{Path, PathBuf};
use std::process::Output;
use tempfile::TempDir;

/// An account and the programs that it is shown.
struct User {
    account: Account,
    home: TempDir,
}

impl User {
    fn new(given: Given) -> Option<Self> {
        if !rustix::process::geteuid().is_root() || !is_whole() {
            println!("SKIP: an ordinary user's sandboxes: not root, so no other user can be made");
            return None;
        }
        let home = tempfile::tempdir().unwrap();
        let account = Account::make(home.path(), &target(), given).unwrap();
        Some(Self { account, home })
    }

    /// Where the user sees a program.
    fn shown(&self, program: &Path) -> PathBuf {
        let below = program.strip_prefix(target()).unwrap();
        self.account.programs().join(below)
    }

    /// The launcher in small, in the user's groups.
    fn launcher(&self, arguments: &[&str]) -> Output {
        let program = self.shown(&output().join("examples/ordinary_user"));
        let mut command = self.account.command_in_groups(&program);
        let search = std::env::join_paths(paths().search).unwrap();
        command
            .args(arguments)
            .env("PATH", search)
            .env("TMPDIR", self.home.path())
            .env_remove("TORNO_HOME");
        command.output().unwrap()
    }

    /// What a launcher says that lacks something.
    #[track_caller]
    fn refusal(&self) -> String {
        let mut said = Vec::new();
        for level in ["container", "gvisor"] {
            let output = self.launcher(&["probe", level]);
            assert_eq!(output.status.code(), Some(1), "{level}: {output:?}");
            said.push(text(&output).replace(level, "LEVEL"));
        }
        assert_eq!(said.first(), said.last());
        said.swap_remove(0)
    }
}

/// Where cargo put this binary and the examples.
fn output() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.ancestors().nth(2).unwrap().to_owned()
}

/// That, and what was built for other platforms.
fn target() -> PathBuf {
    output().parent().unwrap().to_owned()
}

/// Whether this is the host's root, and no namespace's.
fn is_whole() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn text(output: &Output) -> String {
    let all = [output.stdout.as_slice(), &output.stderr].concat();
    String::from_utf8_lossy(&all).into_owned()
}

#[test]
fn an_ordinary_user_gets_the_same_walls_limits_and_kills() {
    let Some(user) = User::new(Given::ALL) else {
        return;
    };
    let own = user.shown(&std::env::current_exe().unwrap());
    let output = user.launcher(&[
        "become",
        own.to_str().unwrap(),
        "--skip",
        "rootless",
        "--test-threads=2",
        "--show-output",
    ]);
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    let skips: Vec<&str> = said.lines().filter(|l| l.starts_with("SKIP: ")).collect();
    assert!(skips.is_empty(), "{skips:#?}");
    for module in ["inside", "lifetime", "network", "workspace", "agent"] {
        assert!(
            said.contains(&format!("test {module}::")),
            "{module}: {said}"
        );
    }
}

#[test]
fn each_level_works_for_an_ordinary_user() {
    let Some(user) = User::new(Given::ALL) else {
        return;
    };
    for level in ["container", "gvisor"] {
        let output = user.launcher(&["probe", level]);
        assert_eq!(text(&output), format!("{level} works\n"));
    }
}

#[test]
fn without_subordinate_ids_the_command_that_gives_some_is_named() {
    let given = Given {
        subordinate_ids: false,
        ..Given::ALL
    };
    let Some(user) = User::new(given) else { return };
    let refusal = user.refusal();
    assert!(refusal.contains("/etc/subuid"), "{refusal}");
    assert!(refusal.contains("run `usermod --add-subuids "), "{refusal}");
    assert!(refusal.trim_end().ends_with(" torno-stage`"), "{refusal}");
}

#[test]
fn without_the_programs_that_map_ids_their_package_is_named() {
    let given = Given {
        map_programs: false,
        ..Given::ALL
    };
    let Some(user) = User::new(given) else { return };
    let refusal = user.refusal();
    assert_eq!(
        refusal.trim_end(),
        "newuidmap is not installed: run `apt-get install uidmap`"
    );
}

#[test]
fn what_is_mounted_below_a_directory_of_the_sandbox_is_named() {
    let Some(user) = User::new(Given::ALL) else {
        return;
    };
    let mounted = user
        .account
        .administrator(Path::new("mount"))
        .args(["-t", "tmpfs", "tmpfs", "/usr/share"])
        .status();
    assert!(mounted.unwrap().success());
    let refusal = user.refusal();
    assert!(
        refusal.contains("`/usr/share` is mounted below `/usr`"),
        "{refusal}"
    );
    assert!(
        refusal.trim_end().ends_with("run `umount '/usr/share'`"),
        "{refusal}"
    );
}

#[test]
fn without_groups_of_its_own_the_command_that_hands_some_over_is_named_and_works() {
    let given = Given {
        groups: false,
        ..Given::ALL
    };
    let Some(user) = User::new(given) else { return };
    let refusal = user.refusal();
    assert!(refusal.contains("was not delegated to you"), "{refusal}");
    let (_, command) = refusal.trim_end().split_once("run `").unwrap();
    let command = command.strip_suffix('`').unwrap();
    if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        assert!(command.starts_with("systemd-run --user "), "{refusal}");
        return;
    }
    hand_over_and_start(&user, command);
}

/// Runs the command as the user does, with the two programs that it names in the test's place:
/// sudo (the shell that asks is root here, by way of the same namespace) and tornod.
fn hand_over_and_start(user: &User, command: &str) {
    let id = user.account.id();
    let launcher = user.shown(&output().join("examples/ordinary_user"));
    let as_user = format!(
        "setpriv --reuid {id} --regid {id} --clear-groups -- {} probe container",
        launcher.display()
    );
    let script = command
        .replace("sudo sh -c", "sh -c")
        .replace("$(id -u)", &id.to_string())
        .replace("torno-user", &format!("torno-user-{id}"))
        .replace("&& tornod", &format!("&& {as_user}"));
    let mut shell = user.account.administrator(Path::new("/bin/sh"));
    let search = std::env::join_paths(paths().search).unwrap();
    let done = shell.args(["-c", &script]).env("PATH", search).output();
    let said = text(&done.unwrap());
    // The shell that was moved has ended; the directories are this test's own.
    let made = crate::harness::traces().1;
    let made = made
        .iter()
        .filter(|path| path.ends_with(format!("torno-user-{id}")));
    made.for_each(|path| std::fs::remove_dir(path).unwrap());
    assert_eq!(said, "container works\n", "{script}");
}
