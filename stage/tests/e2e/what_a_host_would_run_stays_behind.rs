// SPDX-License-Identifier: Apache-2.0
//! An agent leaves traps for the host in its workspace: git's configuration in every place that git
//! reads it from, hooks, editors' and shells' files. Neither `diff` nor `apply` springs one, and
//! afterwards a real git on the host doesn't either.

use crate::stage::at_each_level;
use std::process::Command;
use torno_stage::world::git::GIT;

/// Writes traps that make `@MARK@`, and one honest file.
const TRAPS: &str = r#"
set -e
config() { cat > "$1" <<END
[core]
	fsmonitor = touch @MARK@
	hooksPath = hooks
	sshCommand = touch @MARK@
	pager = touch @MARK@
	editor = touch @MARK@
[diff]
	external = touch @MARK@
[diff "x"]
	textconv = touch @MARK@
[filter "x"]
	clean = touch @MARK@
	smudge = touch @MARK@
[include]
	path = other
END
}
mkdir -p .git/hooks .git/modules/m hooks bare/objects bare/refs sub/.GIT .husky .vscode .github/workflows
for place in .git/config .git/config.worktree .git/modules/m/config bare/config sub/.GIT/config; do
    config $place
done
echo 'ref: refs/heads/main' > bare/HEAD
printf '* filter=x diff=x\n' > .gitattributes
mkdir -p deep; printf '* filter=x diff=x\n' > deep/.gitattributes
for hook in .git/hooks/post-checkout .git/hooks/pre-commit hooks/post-index-change .husky/pre-commit; do
    printf '#!/bin/sh\ntouch @MARK@\n' > $hook; chmod +x $hook
done
for file in .envrc .exrc .vscode/tasks.json .github/workflows/x.yml .npmrc Jenkinsfile AGENTS.md; do
    echo 'touch @MARK@' > $file
done
rm -rf linked && ln -s .git/hooks linked
echo 'gitdir: ../bare' > deep/.git
echo honest > result.txt
"#;

// ATTACK: 178
#[test]
fn no_trap_in_a_workspace_is_sprung_by_diff_apply_or_a_git_on_the_host() {
    at_each_level("traps in a workspace", |stage, level| {
        let workspace = stage.daemon.workspace();
        let git = |arguments: &[&str]| {
            let output = Command::new(GIT)
                .current_dir(&workspace)
                .env_clear()
                .env("PATH", "/usr/bin:/bin")
                .env("HOME", stage.daemon.home().join("outside"))
                .args(["-c", "user.name=a", "-c", "user.email=a@torno.test"])
                .args(arguments)
                .output()
                .unwrap();
            (output.status.success(), format!("{output:?}"))
        };
        assert!(git(&["init", "--quiet", "."]).0);
        assert!(git(&["add", "."]).0);
        assert!(git(&["commit", "--quiet", "-m", "x"]).0);
        let mark = stage.daemon.home().join("outside/sprung");
        let detach = ["run", "--quiet", "--isolation", level, "--detach"];
        let session = stage.torno(&detach).good().stdout.trim().to_owned();
        let traps = TRAPS.replace("@MARK@", mark.to_str().unwrap());
        let exec = ["session", "exec", &session, "--", "/bin/sh", "-c", &traps];
        stage.torno(&exec).good();
        let diff = stage.torno(&["session", "diff", &session]).good().stdout;
        assert!(diff.contains("\n.git: "), "{diff}");
        assert!(!diff.contains(".git/hooks"), "{diff}");
        let applied = stage.torno(&["session", "apply", &session, "--yes"]).good();
        let said = format!("{}{}", applied.stdout, applied.stderr);
        let read = |name: &str| std::fs::read_to_string(workspace.join(name)).unwrap_or_default();
        assert_eq!(read("result.txt"), "honest\n", "{said}");
        for left in [
            ".git/hooks/post-checkout",
            ".git/config.worktree",
            ".git/modules/m/config",
            "bare/config",
            "bare/HEAD",
            "sub/.GIT/config",
            "deep/.git",
            ".gitattributes",
            "deep/.gitattributes",
            ".husky/pre-commit",
            ".envrc",
            ".exrc",
            ".vscode/tasks.json",
            ".github/workflows/x.yml",
            ".npmrc",
            "Jenkinsfile",
            "AGENTS.md",
        ] {
            assert!(!workspace.join(left).exists(), "{left} came back: {said}");
            // Of a repository's files only their place is named.
            let end = left
                .to_lowercase()
                .find(".git/")
                .map(|at| at + ".git".len());
            let named = end.map_or(left, |end| &left[..end]);
            assert!(said.contains(named), "{left} is not named: {said}");
        }
        assert!(!read(".git/config").contains("fsmonitor"), "{said}");
        assert!(!workspace.join("linked").join("pre-commit").exists());
        for arguments in [
            &["status"][..],
            &["diff", "HEAD"],
            &["add", "."],
            &["commit", "--quiet", "-m", "y"],
            &["-C", "deep", "status"],
            &["-C", "bare", "status"],
            &["-C", "sub", "status"],
        ] {
            let _either = git(arguments);
        }
        assert!(!mark.exists(), "a trap was sprung");
        stage.torno(&["session", "stop", &session]).good();
        // The trap is one: where it does come back, it springs.
        std::fs::write(
            workspace.join(".git/config"),
            format!("[core]\n\tfsmonitor = touch {}\n", mark.display()),
        )
        .unwrap();
        git(&["status"]);
        assert!(mark.exists(), "the trap is none");
    });
}
