// SPDX-License-Identifier: Apache-2.0
//! A workspace is copied in; results come back by `session diff` and `apply`, under a person's eye.

use crate::stage::at_each_level_for_both;

#[test]
fn changes_stay_inside_until_they_are_applied() {
    at_each_level_for_both("results come back", |stage, level| {
        stage
            .daemon
            .write_workspace("kept.txt", "before\n")
            .unwrap();
        let session = stage
            .torno(&["run", "--quiet", "--isolation", level, "--detach"])
            .good()
            .stdout;
        let session = session.trim();
        let script = "echo after > kept.txt; echo new > fresh.txt; mkdir -p .git/hooks; \
            echo evil > .git/hooks/pre-commit";
        stage
            .torno(&["session", "exec", session, "--", "/bin/sh", "-c", script])
            .good();
        let workspace = stage.daemon.workspace();
        let kept = || std::fs::read_to_string(workspace.join("kept.txt")).unwrap();
        assert_eq!(kept(), "before\n");
        let diff = stage.torno(&["session", "diff", session]).good().stdout;
        assert!(
            diff.contains("fresh.txt") && diff.contains("+after"),
            "{diff}"
        );
        let applied = stage.torno(&["session", "apply", session, "--yes"]).good();
        let said = format!("{}{}", applied.stdout, applied.stderr);
        assert!(
            said.contains("left      .git: 1 file of a repository changed"),
            "the repository is not named: {said}"
        );
        assert_eq!(kept(), "after\n");
        assert!(workspace.join("fresh.txt").exists());
        assert!(
            !workspace.join(".git/hooks/pre-commit").exists(),
            "a hook came back unasked"
        );
        stage.torno(&["session", "stop", session]).good();
    });
}
