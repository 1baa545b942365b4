// SPDX-License-Identifier: Apache-2.0
//! A workload leaves a tree that is meant for the tools of the host: links out, set-user-id files,
//! pipes and sockets, names that a shell, a terminal or an option parser would obey. `diff` and
//! `apply` bring back what is harmless; the tools that people use instead do what the tree says.

use crate::stage::{Stage, at_each_level};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use torno_stage::props::Props;
use torno_stage::unwalled::PYTHON;

/// Makes the tree in a directory.
const TREE: &str = r"
import os, socket
os.chdir('@TREE@')
open('result.txt', 'w').write('honest\n')
os.symlink('@HOST_FILE@', 'link')
os.symlink(os.path.dirname('@HOST_FILE@'), 'place')
open('tool', 'w').write('#!/bin/sh\n')
os.chmod('tool', 0o6777)
os.mkfifo('pipe')
socket.socket(socket.AF_UNIX).bind('sock')
os.link('result.txt', 'twin')
for name in ['$(touch dropped)', '`touch dropped`', ';touch dropped', '-rf', '|touch dropped',
             '--upload-pack=touch dropped', '@secret', 'two\nlines', '\x1b[2Jgone', '..x']:
    open(name, 'w').write('x')
deep = '.'
for _ in range(200):
    deep += '/d'
    os.mkdir(deep)
";

// ATTACK: 164
// ATTACK: 169
// ATTACK: 171
// ATTACK: 174
// ATTACK: 180
// ATTACK: 182
#[test]
fn a_hostile_tree_comes_back_without_its_links_its_bits_and_its_words() {
    at_each_level("a hostile tree", |stage, level| {
        let props = Props::new(&stage.world, stage.daemon.home(), Path::new("/none")).unwrap();
        let secret = std::fs::read_to_string(props.fill("@HOST_FILE@")).unwrap();
        without_walls(&props, &secret);
        let session = session(stage, level, &props);
        let into = directory(stage, "into");
        let diff = stage.torno(&["session", "diff", &session]);
        let target = into.to_str().unwrap();
        let apply = ["session", "apply", &session, "--into", target, "--yes"];
        let applied = stage.torno(&apply).good();
        let said = [diff.stdout, diff.stderr, applied.stdout, applied.stderr].concat();
        assert!(!said.contains('\x1b'), "a terminal would obey: {said:?}");
        assert!(!said.contains(&secret), "the host's file was read: {said}");
        let honest = std::fs::read_to_string(into.join("result.txt")).unwrap();
        assert_eq!(honest, "honest\n", "{said}");
        harmless(&into, &secret);
        for place in [
            &into,
            &stage.daemon.workspace(),
            &stage.daemon.home().to_owned(),
        ] {
            assert!(!place.join("dropped").exists(), "{}", place.display());
        }
        assert!(!Path::new("dropped").exists());
    });
}

/// A session that left the tree in its workspace, over.
fn session(stage: &Stage, level: &str, props: &Props) -> String {
    let detach = ["run", "--quiet", "--isolation", level, "--detach"];
    let session = stage.torno(&detach).good().stdout.trim().to_owned();
    let script = props.fill(TREE).replace("@TREE@", "/workspace");
    let exec = ["session", "exec", &session, "--", PYTHON, "-c", &script];
    stage.torno(&exec).good();
    stage.torno(&["session", "stop", &session]).good();
    session
}

/// The tree does what it is meant to where ordinary tools meet it.
fn without_walls(props: &Props, secret: &str) {
    let tree = tempfile::tempdir().unwrap();
    let script = props
        .fill(TREE)
        .replace("@TREE@", tree.path().to_str().unwrap());
    let made = Command::new(PYTHON).args(["-c", &script]).status().unwrap();
    assert!(made.success());
    let shell = |script: &str| {
        let output = Command::new("/bin/sh")
            .args(["-c", script])
            .current_dir(tree.path())
            .output();
        String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
    };
    assert_eq!(
        shell("mkdir ../copy$$; cp -L link ../copy$$/x; cat ../copy$$/x; rm -r ../copy$$"),
        secret
    );
    assert!(shell("cp -p tool again; stat -c %a again").starts_with('6'));
    shell("for name in *; do eval echo $name; done");
    assert!(tree.path().join("dropped").exists(), "the names are none");
}

fn directory(stage: &Stage, name: &str) -> PathBuf {
    let path = stage.daemon.home().join("outside").join(name);
    std::fs::create_dir(&path).unwrap();
    path
}

/// Nothing but directories and plain files, none of them the host's, none with a bit too many.
fn harmless(at: &Path, secret: &str) {
    for entry in std::fs::read_dir(at).unwrap().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        assert!(!kind.is_symlink() || !path.exists(), "{path:?} leads out");
        assert!(!kind.is_fifo() && !kind.is_socket() && !kind.is_block_device());
        let mode = std::fs::symlink_metadata(&path)
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o7022, 0, "{path:?} has mode {mode:o}");
        if kind.is_dir() {
            harmless(&path, secret);
        } else if kind.is_file() {
            let text = std::fs::read(&path).unwrap();
            let text = String::from_utf8_lossy(&text).into_owned();
            assert!(!text.contains(secret), "{path:?} is the host's file");
        }
    }
}
