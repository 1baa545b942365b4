// SPDX-License-Identifier: Apache-2.0
//! A bound workspace: what either side saves the other has in a moment, but for what a person has to
//! look at first; and no renaming on the host takes a rule away.

use crate::ahead::until_equal;
use crate::stage::{Stage, at_each_level_for_both};
use std::path::Path;

/// What is hidden, in a directory of its own and as one file.
const POLICY: &str = "[sandbox]
workspace = { path = \".\", mode = \"bind\" }
files = { hide = [\"private/**\", \"key.txt\", \"above/secret/**\"] }
";

/// What the story's agent does to a repository and to what a host obeys.
const REACH_OUT: &str = "mkdir -p .git/hooks .github/workflows
echo evil > .git/hooks/post-checkout; git config core.fsmonitor evil
echo evil > .envrc; echo evil > .github/workflows/ci.yml
ln -s /etc/passwd link; rm gone.txt
mkdir githooks; echo evil > githooks/pre-commit; chmod +x githooks/pre-commit
mv above moved";

fn begin(stage: &Stage, level: &str) -> String {
    let run = ["run", "--quiet", "--isolation", level, "--detach"];
    stage.torno(&run).good().stdout.trim().to_owned()
}

fn shell(stage: &Stage, session: &str, script: &str) -> String {
    let words = ["session", "exec", session, "--", "/bin/sh", "-c", script];
    stage.torno(&words).good().stdout
}

/// As editors save: beside, then in its place.
fn save(at: &Path, text: &str) {
    let beside = at.with_extension("saving");
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(beside, at).unwrap();
}

fn read(at: &Path) -> Option<String> {
    std::fs::read_to_string(at).ok()
}

#[test]
fn what_either_side_saves_the_other_has() {
    at_each_level_for_both("a bound workspace", |stage, level| {
        let daemon = &stage.daemon;
        let workspace = daemon.workspace();
        let write = |name, text| daemon.write_workspace(name, text).unwrap();
        std::fs::create_dir_all(workspace.join("src/deep")).unwrap();
        write("torno.toml", POLICY);
        write("kept.txt", "one\n");
        write("src/deep/a.txt", "one\n");
        daemon.give_workspace().unwrap();
        stage.torno(&["trust", "--yes"]).good();
        let session = begin(stage, level);
        // A command has what was saved before it, and the person what it left.
        save(&workspace.join("kept.txt"), "by the person\n");
        let seen = shell(
            stage,
            &session,
            "cat kept.txt; echo by the agent > src/deep/a.txt; \
            mkdir made; echo x > made/b.txt",
        );
        assert_eq!(seen, "by the person\n");
        for (name, text) in [("src/deep/a.txt", "by the agent\n"), ("made/b.txt", "x\n")] {
            let wanted = Some(text.to_owned());
            until_equal(name, &wanted, || read(&workspace.join(name)));
        }
        // While one runs as well, and without one.
        save(&workspace.join("kept.txt"), "later\n");
        let wait = "for n in $(seq 600); do [ \"$(cat kept.txt)\" = later ] && \
            [ ! -e src ] && exit 0; sleep 0.1; done; ls -lR; exit 1";
        std::fs::remove_dir_all(workspace.join("src")).unwrap();
        shell(stage, &session, wait);
        // What is there when it ends is brought as well.
        shell(
            stage,
            &session,
            "echo last > last.txt; echo last > kept.txt",
        );
        let ended = stage.torno(&["session", "stop", &session]).good();
        assert_eq!(read(&workspace.join("last.txt")).as_deref(), Some("last\n"));
        assert_eq!(read(&workspace.join("kept.txt")).as_deref(), Some("last\n"));
        assert!(!ended.stderr.contains("changed"), "{ended:?}");
    });
}

// ATTACK: 178
#[test]
fn what_a_host_would_run_waits_for_a_person_and_rules_outlive_a_rename() {
    at_each_level_for_both("a bound workspace holds its rules", |stage, level| {
        let daemon = &stage.daemon;
        let workspace = daemon.workspace();
        let write = |name, text| daemon.write_workspace(name, text).unwrap();
        for name in ["private", "above/secret", ".git/objects", ".git/refs"] {
            std::fs::create_dir_all(workspace.join(name)).unwrap();
        }
        write("torno.toml", POLICY);
        for name in ["gone.txt", "kept.txt", ".git/config"] {
            write(name, "[core]\n");
        }
        write(".git/HEAD", "ref: refs/heads/main\n");
        for name in ["private/a", "key.txt", "above/secret/b"] {
            write(name, "hidden\n");
        }
        daemon.give_workspace().unwrap();
        stage.torno(&["trust", "--yes"]).good();
        let session = begin(stage, level);
        shell(stage, &session, REACH_OUT);
        // Renamed onto on the host: a mount on it would be gone now, in the sandbox too.
        for name in ["key.txt", "private/a", ".git/config"] {
            save(&workspace.join(name), "[core]\n\tbare = false\n");
        }
        std::fs::rename(workspace.join("private"), workspace.join("aside")).unwrap();
        std::fs::rename(workspace.join("aside"), workspace.join("private")).unwrap();
        save(&workspace.join("kept.txt"), "seen\n");
        let hidden = "for n in $(seq 600); do [ \"$(cat kept.txt)\" = seen ] && break; sleep 0.1; \
            done; cat kept.txt key.txt private/a; find private moved/secret -type f; true";
        assert_eq!(shell(stage, &session, hidden), "seen\n");
        shell(stage, &session, "echo done > done.txt");
        stage.torno(&["session", "stop", &session]).good();
        assert_eq!(read(&workspace.join("done.txt")).as_deref(), Some("done\n"));
        let held = [
            ".envrc",
            ".github",
            ".git/hooks",
            "link",
            "githooks",
            "moved/secret",
        ];
        for name in held {
            let found = std::fs::symlink_metadata(workspace.join(name));
            assert!(found.is_err(), "{name} came out by itself");
        }
        let config = read(&workspace.join(".git/config")).unwrap();
        assert!(!config.contains("evil"), "{config}");
        assert!(workspace.join("gone.txt").exists(), "a file was deleted");
        // They wait where changes of a copy wait.
        let diff = stage.torno(&["session", "diff", &session]).good().stdout;
        for name in [".envrc", ".github/workflows/ci.yml", "gone.txt"] {
            assert!(diff.contains(name), "{name}: {diff}");
        }
        stage.torno(&["session", "apply", &session, "--yes"]).good();
        assert!(!workspace.join("gone.txt").exists());
        assert!(!workspace.join(".envrc").exists());
    });
}
