// SPDX-License-Identifier: Apache-2.0
//! Directories of the host that the policy lists (`also`): at every level the workload sees what
//! everybody may read, may change nothing of it, and finds the same. A machine shares none with its
//! host, so they are carried into it, and what enters is searched.

use crate::stage::{Ran, Stage, at_each_level, at_each_level_for_both, at_machine};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use torno_stage::unwalled::PYTHON;

const POLICY: &str = "[sandbox]\nalso = [\"~/tools\", \"~/deep/er\"]\n\
    limits = { memory = \"512MiB\" }\n";

/// The home of who types the command: two directories and what they must not lead to.
fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let at = |path: &str| home.path().join(path);
    for directory in ["tools/bin", "tools/inner", "deep/er"] {
        fs::create_dir_all(at(directory)).unwrap();
    }
    for (name, text, mode) in [
        ("tools/bin/run", "#!/bin/sh\necho ran\n", 0o755),
        ("tools/notes", "notes\n", 0o644),
        ("tools/mine", "canary\n", 0o640),
        ("tools/inner/file", "canary\n", 0o644),
        ("deep/er/lib", "lib\n", 0o644),
        ("outside", "canary\n", 0o644),
    ] {
        fs::write(at(name), text).unwrap();
        mode_of(&at(name), mode);
    }
    symlink("bin/run", at("tools/link")).unwrap();
    symlink(at("outside"), at("tools/out")).unwrap();
    symlink("../outside", at("tools/up")).unwrap();
    for (name, mode) in [
        (".", 0o755),
        ("tools", 0o755),
        ("tools/bin", 0o755),
        ("tools/inner", 0o750),
        ("deep", 0o755),
        ("deep/er", 0o755),
    ] {
        mode_of(&at(name), mode);
    }
    home
}

fn mode_of(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// What is there, what may be run, what may be changed, and that home stays the workload's.
const LOOK: &str = "cd /home/agent; tools/bin/run; tools/link; cat tools/notes deep/er/lib; \
    cat tools/mine tools/inner/file tools/out tools/up 2>/dev/null; \
    [ -x tools/bin/run ] && [ ! -x tools/notes ] && echo modes; \
    for at in tools/new tools/notes tools/bin/run deep/er/new deep/er/lib; do \
        (echo x > $at) 2>/dev/null && echo wrote $at; done; \
    rm -rf tools/bin 2>/dev/null; \
    chmod 777 tools/notes 2>/dev/null && echo changed a mode; \
    mount -o remount,rw tools 2>/dev/null && echo mounted; \
    umount tools 2>/dev/null && echo unmounted; tools/bin/run; \
    touch deep/own && rm deep/own && echo own; readlink tools/up";

fn run(stage: &Stage, level: &str, (home, script): (&Path, &str)) -> Ran {
    let mut run = stage.daemon.torno(&["run", "--isolation", level]);
    run.args(["--", "/bin/sh", "-c", script]).env("HOME", home);
    stage.hear(&run.output().unwrap())
}

fn accept(stage: &Stage, policy: &str) {
    stage.daemon.write_workspace("torno.toml", policy).unwrap();
    stage.daemon.must(&["trust", "--yes"]).unwrap();
}

#[track_caller]
fn shows(stage: &Stage, level: &str) {
    let home = home();
    accept(stage, POLICY);
    let said = run(stage, level, (home.path(), LOOK)).good().stdout;
    let right = "ran\nran\nnotes\nlib\nmodes\nran\nown\n../outside\n";
    assert_eq!(said, right, "{level}");
    // The host's own stays as it was.
    let notes = fs::read_to_string(home.path().join("tools/notes")).unwrap();
    assert_eq!(notes, "notes\n");
    for (directory, entries) in [("tools", 7), ("tools/bin", 1), ("deep/er", 1), ("deep", 1)] {
        let found = fs::read_dir(home.path().join(directory)).unwrap().count();
        assert_eq!(found, entries, "{directory}");
    }
}

#[test]
fn a_listed_directory_is_shown_and_can_not_be_changed() {
    at_each_level_for_both("a listed directory", |stage, level| shows(stage, level));
}

#[test]
fn a_machine_shows_a_listed_directory_as_other_levels_do() {
    at_machine(
        "a listed directory in a machine",
        &["microvm"],
        |stage, level| {
            shows(stage, level);
            // The phase before the lock has it too.
            let install = "\n[install]\nsee = [\"torno.toml\"]\n\
            run = [[\"/bin/sh\", \"-c\", \"/home/agent/tools/bin/run > made\"]]\nallow = []\n";
            accept(stage, &format!("{POLICY}{install}"));
            let home = home();
            let ran = run(
                stage,
                level,
                (home.path(), "cat made; /home/agent/tools/bin/run"),
            );
            assert_eq!(ran.good().stdout, "ran\nran\n");
        },
    );
}

#[test]
fn what_enters_a_machine_by_a_listed_directory_is_searched() {
    at_machine(
        "a search of a listed directory",
        &["microvm"],
        |stage, level| {
            let home = home();
            let at = |path: &str| home.path().join(path);
            accept(stage, POLICY);
            fs::write(at("tools/.npmrc"), "//r.test/:_authToken=npm_canary\n").unwrap();
            let look = "cat /home/agent/tools/.npmrc; echo looked";
            let ran = run(stage, level, (home.path(), look)).good();
            assert_eq!(ran.stdout, "looked\n");
            for named in ["~/tools/.npmrc", "2 entries that not everybody may read"] {
                assert!(ran.stderr.contains(named), "{named}: {}", ran.stderr);
            }
            let refused = |word: &str| {
                let ran = run(stage, level, (home.path(), "echo looked"));
                assert_eq!((ran.code, ran.stdout.as_str()), (Some(125), ""), "{ran:?}");
                assert!(ran.stderr.contains(word), "{word}: {}", ran.stderr);
                assert!(stage.daemon.sessions().unwrap().is_empty());
            };
            let token = format!("x {} y\n", stage.world.api_token);
            fs::write(at("deep/er/token"), token).unwrap();
            refused("~/deep/er/token");
            // Half of the machine's memory is for what is carried in.
            fs::write(at("deep/er/token"), "").unwrap();
            let large = fs::File::create(at("tools/large")).unwrap();
            large.set_len(300 << 20).unwrap();
            refused("limits.memory");
            fs::remove_file(at("tools/large")).unwrap();
            mode_of(&at("tools"), 0o750);
            refused("chmod o+rx");
            mode_of(&at("tools"), 0o755);
            fs::remove_dir_all(at("deep")).unwrap();
            symlink("/srv", at("deep")).unwrap();
            refused("can't be opened");
        },
    );
}

/// Starts by hand, with other descriptors than a `torno` would hand over.
const LIAR: &str = "
import json, os, socket, sys
path, token, home, level, document = sys.argv[1:]
token = open(token).read()

def start(named, handed, says=True):
    desk = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    desk.settimeout(60)
    desk.connect(path)
    desk.send(json.dumps({'authenticate': {'token': token}}).encode())
    desk.recv(1 << 20)
    wanted = {'document': document, 'isolation': level, 'workspace': 'none', 'wall_seconds': None,
        'env': [], 'has_workspace': False, 'detached': False, 'also': [home + at for at in named],
        'has_also': says, 'emulation': True, 'from': None}
    handed = [os.open(home + at, os.O_PATH) for at in handed]
    socket.send_fds(desk, [json.dumps({'start': wanted}).encode()], handed)
    said = json.loads(desk.recv(1 << 20))
    print(said['failed']['code'] if 'failed' in said else 'started')

named = ['/tools', '/deep/er']
start(named, named)
start(named, ['/deep/er', '/tools'])
start(named, ['/tools', '/tools/inner'])
start(named, ['/tools'])
start(named, [], says=False)
start(['/other/tools', '/deep/er'], named)
start(['/other/tools', '/deep/er'], ['/other/tools', '/deep/er'])
";

/// Whoever says to the desk what lies where must have it: the launcher reaches every directory.
#[track_caller]
fn shows_what_was_handed_over(stage: &Stage, level: &str) {
    let home = home();
    let home = home.path();
    accept(stage, POLICY);
    fs::create_dir_all(home.join("other/tools")).unwrap();
    let run = stage.daemon.home().join("run");
    let told = Command::new(PYTHON)
        .args(["-c", LIAR])
        .args([run.join("desk.sock"), run.join("operator.token")])
        .arg(home)
        .args([level, POLICY])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&told.stdout);
    let lines: Vec<&str> = said.lines().collect();
    // The last one has what it names: whose home `~` is, is the caller's word.
    let right = [
        "started", MISMATCH, MISMATCH, MISMATCH, MISMATCH, MISMATCH, "started",
    ];
    let why = String::from_utf8_lossy(&told.stderr);
    assert_eq!(lines, right, "{level}: {why}");
}

const MISMATCH: &str = "also_mismatch";

#[test]
fn a_directory_is_shown_to_who_could_hand_it_over() {
    at_each_level("a directory that was handed over", |stage, level| {
        shows_what_was_handed_over(stage, level);
    });
}

#[test]
fn a_machine_is_sent_the_directory_that_the_policy_names() {
    at_machine("a directory that is named", &["microvm"], |stage, level| {
        shows_what_was_handed_over(stage, level);
    });
}
