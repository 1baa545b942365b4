// SPDX-License-Identifier: Apache-2.0
//! A machine shares no directory with its host: its workspace goes in and comes out over the link.
//! What comes out is what programs may have changed, of a kind that a host can look at.

use crate::stage::{Stage, at_machine};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

fn detached(stage: &Stage, level: &str) -> String {
    let run = ["run", "--quiet", "--isolation", level, "--detach"];
    stage.torno(&run).good().stdout.trim().to_owned()
}

fn exec(stage: &Stage, session: &str, script: &str) -> String {
    let words = ["session", "exec", session, "--", "/bin/sh", "-c", script];
    stage.torno(&words).good().stdout
}

fn read(place: &Path) -> String {
    std::fs::read_to_string(place).unwrap_or_default()
}

#[test]
fn what_a_machine_changed_comes_out_and_back_by_hand() {
    at_machine("a workspace in a machine", &["microvm"], |stage, level| {
        let workspace = stage.daemon.workspace();
        stage
            .daemon
            .write_workspace("kept.txt", "before\n")
            .unwrap();
        stage.daemon.write_workspace(".env", "SECRET=1\n").unwrap();
        std::fs::create_dir_all(workspace.join("deep/er")).unwrap();
        let large = vec![b'x'; 3_000_000];
        std::fs::write(workspace.join("deep/er/large"), &large).unwrap();
        let session = detached(stage, level);
        // It is there before the first command, the workload's own, without what is hidden.
        let script = "cat kept.txt; wc -c < deep/er/large; ls -A | grep -c '^.env$'; \
                stat -c %u kept.txt; pwd; echo after > kept.txt; rm deep/er/large; \
                mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; chmod 000 kept.txt; \
                ln -s /etc/passwd link; mkfifo pipe; sleep 1000 >/dev/null 2>&1 &
                true";
        let said = exec(stage, &session, script);
        assert_eq!(said, "before\n3000000\n0\n1000\n/workspace\n");
        // While it runs, and a second time.
        for _ in 0..2 {
            let diff = stage.torno(&["session", "diff", &session]).good().stdout;
            assert!(diff.contains("+after"), "{diff}");
            assert!(diff.contains("deleted: deep/er/large"), "{diff}");
            assert!(!diff.contains("pipe"), "{diff}");
        }
        exec(stage, &session, "echo later > late.txt");
        stage.torno(&["session", "stop", &session]).good();
        let applied = stage.torno(&["session", "apply", &session, "--yes"]).good();
        let said = format!("{}{}", applied.stdout, applied.stderr);
        assert!(
            said.contains("left      .git: 1 file of a repository"),
            "{said}"
        );
        assert_eq!(read(&workspace.join("kept.txt")), "after\n", "{said}");
        assert_eq!(read(&workspace.join("late.txt")), "later\n", "{said}");
        assert!(!workspace.join("link").exists() && !workspace.join("pipe").exists());
        assert!(!workspace.join(".git/hooks/pre-commit").exists());
    });
}

const RULES: &str = r#"[sandbox]
limits = { wall = "10m", memory = "1GiB" }
files = { write = ["src/gen/**", "notes.txt", "fresh/**"], hide = ["secret/**"] }
"#;

#[test]
fn file_rules_hold_in_a_machine_and_for_what_comes_out_of_it() {
    at_machine("file rules in a machine", &["microvm"], |stage, level| {
        let workspace = stage.daemon.workspace();
        for directory in ["src/gen", "secret"] {
            std::fs::create_dir_all(workspace.join(directory)).unwrap();
        }
        for (name, text) in [
            ("torno.toml", RULES),
            ("src/main.rs", "main\n"),
            ("src/gen/old.rs", "old\n"),
            ("secret/key", "hidden-canary\n"),
            ("notes.txt", "before\n"),
        ] {
            stage.daemon.write_workspace(name, text).unwrap();
        }
        stage.torno(&["trust", "--yes"]).good();
        let session = detached(stage, level);
        let script = "grep -r hidden-canary . ; ls secret; cat src/main.rs; \
            for place in src/main.rs torno.toml new.txt secret/key src/new.rs; do \
                (echo x > $place) 2>/dev/null && echo wrote $place; done; \
            mv src moved 2>/dev/null && echo moved; rm -rf src/gen 2>/dev/null; \
            echo new > src/gen/new.rs; echo after > notes.txt; echo made > fresh/made.txt; \
            ls src/gen";
        assert_eq!(exec(stage, &session, script), "main\nnew.rs\n");
        stage.torno(&["session", "stop", &session]).good();
        let diff = stage.torno(&["session", "diff", &session]).good().stdout;
        let changed: Vec<&str> = diff
            .lines()
            .filter(|line| {
                let kinds = ["added: ", "modified: ", "deleted: "];
                kinds.iter().any(|kind| line.starts_with(kind))
            })
            .collect();
        let right = [
            "added: fresh/made.txt",
            "modified: notes.txt",
            "added: src/gen/new.rs",
            "deleted: src/gen/old.rs",
        ];
        assert_eq!(changed, right, "{diff}");
    });
}

#[test]
fn a_workspace_that_is_too_large_says_what_to_raise_and_one_that_died_inside_says_so() {
    at_machine(
        "workspaces that stay inside",
        &["microvm"],
        |stage, level| {
            let large = stage.daemon.workspace().join("large");
            std::fs::write(&large, vec![0; 2_000_000]).unwrap();
            let policy = "[sandbox]\nlimits = { memory = \"1GiB\", disk = \"3MiB\" }\n";
            stage.daemon.write_workspace("torno.toml", policy).unwrap();
            stage.torno(&["trust", "--yes"]).good();
            let run = ["run", "--quiet", "--isolation", level, "--", "true"];
            let refused = stage.torno(&run);
            assert_eq!(refused.code, Some(125), "{refused:?}");
            assert!(refused.stderr.contains("raise limits.disk"), "{refused:?}");
            std::fs::remove_file(&large).unwrap();
            let policy = "[sandbox]\nlimits = { memory = \"1GiB\", disk = \"60MiB\" }\n";
            stage.daemon.write_workspace("torno.toml", policy).unwrap();
            stage.torno(&["trust", "--yes"]).good();
            // More than it may send back: a file that is all hole counts whole.
            let session = detached(stage, level);
            exec(stage, &session, "truncate -s 1G hole; echo new > small.txt");
            let stopped = stage.torno(&["session", "stop", &session]);
            let diff = stage.torno(&["session", "diff", &session]);
            assert_ne!(diff.code, Some(0), "{diff:?} {stopped:?}");
            assert!(diff.stderr.contains("did not come out"), "{diff:?}");
            assert!(diff.stderr.contains("larger than"), "{diff:?}");
        },
    );
}

#[test]
fn commands_run_while_somebody_looks_and_neither_ends_the_session() {
    at_machine("commands beside looks", &["microvm"], |stage, level| {
        let session = detached(stage, level);
        let (daemon, name) = (&stage.daemon, session.as_str());
        let ran = |words: &[&str]| {
            let output = daemon.torno(words).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{words:?}: {said}");
        };
        std::thread::scope(|scope| {
            for number in 0..3 {
                scope.spawn(move || {
                    for turn in 0..4 {
                        let file = format!("made-{number}-{turn}");
                        ran(&["session", "exec", name, "--", "touch", &file]);
                    }
                });
            }
            for _ in 0..3 {
                ran(&["session", "diff", name]);
            }
        });
        stage.torno(&["session", "stop", &session]).good();
        let changes = stage.torno(&["session", "diff", &session]).good().stdout;
        for number in 0..3 {
            for turn in 0..4 {
                let file = format!("made-{number}-{turn}");
                assert!(changes.contains(&file), "{file}: {changes}");
            }
        }
    });
}

#[test]
fn a_kill_while_files_come_out_is_a_kill_with_its_receipt() {
    at_machine(
        "a kill while files come out",
        &["microvm"],
        |stage, level| {
            let session = detached(stage, level);
            let fill = "for n in $(seq 1 3000); do echo $n > many-$n; done";
            exec(stage, &session, fill);
            let mut stop = stage.daemon.torno(&["session", "stop", &session]);
            let stop = stop.stdout(Stdio::null()).stderr(Stdio::null());
            let mut stop = stop.spawn().unwrap();
            std::thread::sleep(Duration::from_millis(150));
            let told = stage.torno(&["kill", &session]).good().stdout;
            let _ended = stop.wait().unwrap();
            // Either it came in time, or the session had ended by then.
            if told.contains("killed") {
                assert!(told.contains(&session), "{told}");
                let records = stage.daemon.records().unwrap();
                let completed = |record: &serde_json::Value| {
                    let text = record.to_string();
                    text.contains("kill_completed") && text.contains(&session)
                };
                assert!(records.iter().any(completed), "no end of the kill");
                let diff = stage.torno(&["session", "diff", &session]);
                assert_ne!(
                    diff.code,
                    Some(0),
                    "a killed session's copy stays: {diff:?}"
                );
            } else {
                println!("the session had ended before the kill");
            }
        },
    );
}
