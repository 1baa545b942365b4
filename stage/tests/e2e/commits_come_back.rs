// SPDX-License-Identifier: Apache-2.0
//! An agent commits in its copy, and does to the repository there what it can: configuration,
//! hooks, a watcher of files, other places for objects, trees that git's own checks know. Good
//! commits come back below `refs/torno/`, the others don't, and no program of the copy runs.

use crate::stage::{Stage, at_each_level_as};
use std::path::{Path, PathBuf};
use std::process::Command;
use torno_stage::account::Who;
use torno_stage::world::git::GIT;

/// One good branch, then everything else.
const INSIDE: &str = r#"
set -e
export HOME=/tmp
git config --global user.name agent
git config --global user.email agent@torno.test
cd /workspace
git checkout --quiet -b agent/fix
echo fixed > file
git commit --quiet -a -m 'a fix'
git tag -m 'of the agent' v2
good=$(git rev-parse HEAD)

# A tree of one entry with a name that mktree would not take.
bad() {
    python3 - "$2" "$3" "$blob" <<'END' > /tmp/tree
import sys
entry = f'{sys.argv[1]} {sys.argv[2]}'.encode() + b'\0' + bytes.fromhex(sys.argv[3])
sys.stdout.buffer.write(entry)
END
    tree=$(git hash-object -w --literally -t tree /tmp/tree)
    git update-ref "refs/heads/$1" "$(git commit-tree -m bad -p "$good" "$tree")"
}
blob=$(printf '/etc/passwd' | git hash-object -w --stdin)
bad dotgit 100644 .git
bad parent 100644 ..
bad link 120000 .gitmodules
blob=$(printf '[submodule "x"]\n\tpath = x\n\turl = -u./payload\n' | git hash-object -w --stdin)
bad option 100644 .gitmodules
printf '%040d\n' 7 > .git/refs/heads/nowhere
ln -s /etc/passwd .git/refs/heads/linked
echo 'ref: refs/heads/agent/fix' > .git/refs/heads/symbolic
printf '%s\n' "$good" > ".git/refs/heads/$(printf 'odd\033[2J')"
printf '%s refs/heads/../../config\n' "$good" >> .git/packed-refs
printf '%s refs/remotes/origin/x\n' "$good" >> .git/packed-refs

mkdir -p .git/hooks
for hook in post-checkout pre-commit reference-transaction post-index-change pre-auto-gc \
    post-update update pre-receive; do
    printf '#!/bin/sh\ntouch @MARK@\n' > .git/hooks/$hook
    chmod +x .git/hooks/$hook
done
cat >> .git/config <<END
[core]
	fsmonitor = touch @MARK@
	sshCommand = touch @MARK@
	alternateRefsCommand = touch @MARK@
	pager = touch @MARK@
[uploadpack]
	packObjectsHook = touch @MARK@
[filter "x"]
	clean = touch @MARK@
	smudge = touch @MARK@
[remote "origin"]
	url = ext::touch @MARK@
	promisor = true
[extensions]
	partialClone = origin
END
echo /root/elsewhere/objects > .git/objects/info/alternates
mkdir -p nested/.git/hooks
cp .git/hooks/pre-commit nested/.git/hooks/
"#;

fn git(stage: &Stage, at: &Path, words: &[&str]) -> (bool, String) {
    let output = Command::new(GIT)
        .current_dir(at)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", stage.daemon.home().join("outside"))
        // Where the workspace is another user's: this is the stage's own look.
        .args(["-c", "safe.directory=*"])
        .args(["-c", "user.name=a", "-c", "user.email=a@torno.test"])
        .args(words)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned();
    (output.status.success(), said)
}

/// Every file of the repository but objects and what came.
fn own(repository: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut ahead = vec![repository.to_owned()];
    while let Some(directory) = ahead.pop() {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            let path = entry.path();
            if path.ends_with(".git/objects") || path.ends_with(".git/refs/torno") {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                ahead.push(path);
            } else {
                let bytes = std::fs::read(&path).unwrap_or_default();
                found.push((path, bytes));
            }
        }
    }
    found.sort();
    found
}

// ATTACK: 178
#[test]
fn commits_come_back_as_a_checked_bundle() {
    at_each_level_as(&Who::ALL, "commits come back", |who, stage, level| {
        let workspace = stage.daemon.workspace();
        let good = |words: &[&str]| {
            let (is_good, said) = git(stage, &workspace, words);
            assert!(is_good, "{words:?}");
            said
        };
        stage.daemon.write_workspace("file", "broken\n").unwrap();
        good(&["init", "--quiet", "--initial-branch=main"]);
        good(&["add", "."]);
        good(&["commit", "--quiet", "-m", "x"]);
        stage.daemon.give_workspace().unwrap();
        let before = own(&workspace.join(".git"));
        let mark = stage.daemon.home().join("outside/sprung");
        let detach = ["run", "--quiet", "--isolation", level, "--detach"];
        let session = stage.torno(&detach).good().stdout.trim().to_owned();
        let script = INSIDE.replace("@MARK@", mark.to_str().unwrap());
        let exec = ["session", "exec", &session, "--", "/bin/sh", "-c", &script];
        stage.torno(&exec).good();
        if who == Who::User {
            stage.torno(&["session", "stop", &session]).good();
        }
        looked_at(stage, &session);
        brought(stage, &session);
        let bundle = stage.daemon.home().join("outside/work.bundle");
        let _gone = std::fs::remove_file(&bundle);
        let words = [
            "session",
            "commits",
            &session,
            "--bundle",
            bundle.to_str().unwrap(),
        ];
        stage.torno(&words).good();
        good(&["bundle", "verify", bundle.to_str().unwrap()]);
        let now = own(&workspace.join(".git"));
        assert_eq!(now, before, "the person's repository is another one");
        assert!(!mark.exists(), "a program of the copy ran on the host");
        if who == Who::Caller {
            stage.torno(&["session", "stop", &session]).good();
        }
    });
}

/// The diff lists refs, and of a repository's files only how many they are.
fn looked_at(stage: &Stage, session: &str) {
    let diff = stage.torno(&["session", "diff", session]).good().stdout;
    for said in [
        "commits: branches and tags that differ",
        "  new    refs/heads/agent/fix  ",
        "  new    refs/tags/v2  ",
        "  left   refs/heads/linked: ",
        "  left   refs/heads/odd\\u{1b}[2J: ",
        "\n.git: ",
        "\nnested/.git: 1 file of a repository changed",
    ] {
        assert!(diff.contains(said), "{said}: {diff}");
    }
    assert!(
        !diff.contains(".git/hooks") && !diff.contains(".git/objects/"),
        "{diff}"
    );
    let apply = stage.torno(&["session", "apply", session, "--yes"]).good();
    assert!(apply.stdout.contains("left      .git: "), "{apply:?}");
}

/// The good ones come, more than once, and nothing else.
fn brought(stage: &Stage, session: &str) {
    let workspace = stage.daemon.workspace();
    let place = format!("refs/torno/{session}");
    for (verb, run) in [("new   ", "first"), ("there ", "second")] {
        let came = stage.torno(&["session", "commits", session]).good().stdout;
        for name in ["heads/agent/fix", "tags/v2"] {
            assert!(
                came.contains(&format!("{verb}  {place}/{name}  ")),
                "{run}: {came}"
            );
        }
        for name in [
            "dotgit", "parent", "link", "option", "nowhere", "linked", "symbolic",
        ] {
            assert!(
                came.contains(&format!("left    refs/heads/{name}: ")),
                "{run}: {came}"
            );
        }
        assert!(came.contains("git merge "), "{run}: {came}");
        assert!(!came.contains('\x1b'), "{run}: {came:?}");
    }
    let (_, refs) = git(stage, &workspace, &["for-each-ref", "--format=%(refname)"]);
    let expected = [
        "refs/heads/main".to_owned(),
        format!("{place}/heads/agent/fix"),
    ];
    let expected = [&expected[..], &[format!("{place}/tags/v2")]].concat();
    assert_eq!(refs, expected.join("\n"));
    let file = format!("{place}/heads/agent/fix:file");
    assert_eq!(git(stage, &workspace, &["show", &file]).1, "fixed");
    assert!(git(stage, &workspace, &["fsck", "--strict"]).0);
}
