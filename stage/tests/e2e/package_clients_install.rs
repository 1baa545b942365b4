// SPDX-License-Identifier: Apache-2.0
//! pip, npm and cargo, unmodified, against the registries that this machine has configured: they
//! install in the install phase; then nothing of it is reachable, and what was installed works.

use crate::registries::{self, NPM, NPM_PACKAGES, PIP_PACKAGE, PYTHON, Registry};
use crate::stage::{Ran, Stage, at_each_level_with};

/// Tells a story with the registry of a client, or skips it for want of a network.
fn with_registry(
    client: &str,
    registry: Result<Registry, String>,
    tell: impl Fn(&Stage, &str, &Registry),
) {
    match registry {
        Ok(registry) => at_each_level_with(client, &registry.pins(), |stage, level| {
            stage.is_not_seen_whole("an install phase exports no keys");
            tell(stage, level, &registry);
        }),
        Err(why) => println!("SKIP: package clients: {client}: {why}"),
    }
}

/// Writes the policy, accepts it, and runs a shell script in the locked phase.
fn install_and_run(stage: &Stage, level: &str, policy: &str, script: &str) -> Ran {
    stage.daemon.write_workspace("torno.toml", policy).unwrap();
    stage.daemon.must(&["trust", "--yes"]).unwrap();
    stage.shell(level, script)
}

/// A script that prints the status which an index gives now, and goes on.
fn ask_again(registry: &Registry) -> String {
    let index = &registry.index;
    format!("curl -sS -o /dev/null -w 'index %{{http_code}}\\n' '{index}'")
}

/// The record has what the phase asked for, then the lock, and after it refusals only.
#[track_caller]
fn recorded(stage: &Stage, registry: &Registry) {
    let records = stage.daemon.records().unwrap();
    let event = |record: &serde_json::Value, name: &str| {
        record["event"][name]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let locked = records
        .iter()
        .position(|r| event(r, "kind") == "session_locked");
    let (before, after) = records.split_at(locked.unwrap());
    let verdicts = |records: &[serde_json::Value]| {
        let of_registry = |record: &&serde_json::Value| {
            let host = record["event"]["endpoint"]["host"]
                .as_str()
                .unwrap_or_default();
            event(record, "kind") == "request_decided" && registry.hosts.iter().any(|h| h == host)
        };
        let decided = records.iter().filter(of_registry);
        decided
            .map(|record| format!("{} {}", event(record, "verdict"), event(record, "reason")))
            .collect::<Vec<_>>()
    };
    let before = verdicts(before);
    assert!(
        !before.is_empty() && before.iter().all(|v| v == "allow "),
        "{before:?}"
    );
    let after = verdicts(after);
    let refused = "deny phase_not_granted";
    assert!(
        !after.is_empty() && after.iter().all(|v| v == refused),
        "{after:?}"
    );
}

#[test]
fn pip_installs_and_the_package_works_when_locked() {
    with_registry("pip", registries::pip(), |stage, level, registry| {
        let requirements = format!("{PIP_PACKAGE}\n");
        stage
            .daemon
            .write_workspace("requirements.txt", &requirements)
            .unwrap();
        let policy = format!(
            "[sandbox]\nenv = {{ PIP_INDEX_URL = \"{}\" }}\n\n[install]\n\
             see = [\"requirements.txt\"]\n\
             run = [[\"{PYTHON}\", \"-m\", \"pip\", \"install\", \"--target\", \"site\", \
             \"-r\", \"requirements.txt\"]]\nallow = [{}]\n",
            registry.index,
            registry.allowed()
        );
        let script = format!(
            "PYTHONPATH=site {PYTHON} -c 'import {PIP_PACKAGE} as p; print(p.__file__)'; {}; \
             {PYTHON} -m pip install --target more --retries 0 {PIP_PACKAGE} && echo again",
            ask_again(registry)
        );
        let ran = install_and_run(stage, level, &policy, &script);
        assert!(ran.stdout.contains("/workspace/site/six.py"), "{ran:#?}");
        assert!(ran.stdout.contains("index 403"), "{ran:#?}");
        assert!(!ran.stdout.contains("again"), "{ran:#?}");
        recorded(stage, registry);
    });
}

#[test]
fn npm_installs_plain_and_scoped_packages_that_work_when_locked() {
    with_registry("npm", registries::npm(), |stage, level, registry| {
        let [plain, scoped] = NPM_PACKAGES;
        let manifest = format!(
            "{{\"name\":\"story\",\"version\":\"1.0.0\",\"private\":true,\
             \"dependencies\":{{\"{plain}\":\"*\",\"{scoped}\":\"*\"}}}}"
        );
        stage
            .daemon
            .write_workspace("package.json", &manifest)
            .unwrap();
        let policy = |scopes: &str| {
            let hosts = registry
                .hosts
                .iter()
                .map(|host| format!("{{ host = \"{host}\", paths = [\"/**\"{scopes}] }}"));
            format!(
                "[sandbox]\nenv = {{ NPM_CONFIG_REGISTRY = \"{}\" }}\n\n[install]\n\
                 see = [\"package.json\"]\nrun = [[\"{NPM}\", \"install\", \"--fetch-retries=0\"]]\n\
                 allow = [{}]\n",
                registry.index,
                hosts.collect::<Vec<_>>().join(", ")
            )
        };
        // A scoped name's URL has an encoded slash, which `/**` alone does not mean.
        let ran = install_and_run(stage, level, &policy(""), "true");
        assert_eq!(ran.code, Some(125), "{ran:#?}");
        assert!(ran.stderr.contains("install phase ended with"), "{ran:#?}");
        let records = stage.daemon.records().unwrap();
        let refused = torno_stage::daemon::last_refusal(&records).unwrap();
        assert_eq!(refused.0, "path_not_granted");
        let script = format!(
            "node -e 'console.log(require(\"{plain}\")(\"x\", 5, \"-\"))'; \
             test -f node_modules/{scoped}/package.json && echo scoped; {}; \
             {NPM} install --fetch-retries=0 is-odd || echo refused",
            ask_again(registry)
        );
        let ran = install_and_run(stage, level, &policy(", \"/*%2F*\""), &script);
        for expected in ["----x", "scoped", "index 403", "refused"] {
            assert!(ran.stdout.contains(expected), "{expected}: {ran:#?}");
        }
    });
}

#[test]
fn cargo_fetches_a_crate_that_builds_offline_when_locked() {
    with_registry("cargo", registries::cargo(), |stage, level, registry| {
        registries::write_crate(&stage.daemon.workspace());
        // A toolchain below home appears below the sandbox's home; one of the system is there.
        let (toolchain, home) = (registries::toolchain(), registries::home());
        let (also, bin) = match toolchain.strip_prefix(&home) {
            Ok(below) => {
                let below = below.display();
                let also = format!("also = [\"~/{below}\"]\n");
                (also, format!("/home/agent/{below}/bin"))
            }
            Err(_) => (String::new(), format!("{}/bin", toolchain.display())),
        };
        let path = format!("PATH={bin}:/usr/bin:/bin");
        let policy = format!(
            "[sandbox]\n{also}env = {{ CARGO_HOME = \"/workspace/.cargo-home\" }}\n\
             limits = {{ memory = \"2GiB\" }}\n\n\
             [install]\nsee = [\"Cargo.toml\", \"src/**\"]\n\
             run = [[\"/usr/bin/env\", \"{path}\", \"cargo\", \"fetch\"]]\nallow = [{}]\n",
            registry.allowed()
        );
        stage.daemon.write_workspace("torno.toml", &policy).unwrap();
        stage.daemon.must(&["trust", "--yes"]).unwrap();
        let script = format!(
            "{path}; export PATH; cargo run --offline; {}",
            ask_again(registry)
        );
        let mut run = stage.daemon.run_command(level, &["/bin/sh", "-c", &script]);
        // `~` of `also` is the home of who types the command.
        let ran = stage.hear(&run.env("HOME", home).output().unwrap());
        assert!(ran.stdout.contains("works=yes+indeed"), "{ran:#?}");
        assert!(ran.stdout.contains("index 403"), "{ran:#?}");
        recorded(stage, registry);
    });
}
