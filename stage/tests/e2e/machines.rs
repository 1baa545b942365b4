// SPDX-License-Identifier: Apache-2.0
//! A kernel of its own: what is granted works, what isn't is refused, a kill leaves nothing. The
//! levels are emulated here, so these stories are few; `cargo xtask e2e --level` tells the others.

use crate::stage::{Ran, Stage, at_machine};
use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Runs a command without a workspace.
fn run(stage: &Stage, level: &str, command: &[&str]) -> Ran {
    let output = stage
        .daemon
        .run_in(level, &["--workspace", "none"], command)
        .output();
    stage.hear(&output.unwrap())
}

fn shell(stage: &Stage, level: &str, script: &str) -> Ran {
    run(stage, level, &["/bin/sh", "-c", script])
}

#[test]
fn a_machine_runs_a_command_behind_its_own_kernel() {
    at_machine(
        "a machine runs a command",
        &["microvm", "vm"],
        |stage, level| {
            let script = "uname -n; id -u; grep -c ^CapEff:.*0000000000000000 /proc/self/status; \
                grep NoNewPrivs /proc/self/status | tr -d '\\t'; \
                touch /usr/x 2>/dev/null || echo read-only; \
                unshare -U true 2>/dev/null || echo no namespaces; \
                ls /dev/vda /dev/vport* 2>/dev/null; \
                head -c 300000 /dev/zero | wc -c; echo wrong >&2; exit 7";
            let ran = shell(stage, level, script);
            let lines: Vec<&str> = ran.stdout.lines().collect();
            let right = [
                "sandbox",
                "1000",
                "1",
                "NoNewPrivs:1",
                "read-only",
                "no namespaces",
                "300000",
            ];
            assert_eq!(lines, right, "{ran:?}");
            assert!(ran.stderr.contains("wrong"), "{ran:?}");
            assert_eq!(ran.code, Some(7));
            let kernel = shell(stage, level, "uname -r").good().stdout;
            let host = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
            assert_ne!(kernel.trim(), host.trim(), "the host's kernel");
        },
    );
}

#[test]
fn what_a_machine_dials_meets_the_one_pipeline() {
    at_machine("what a machine dials", &["microvm"], |stage, level| {
        // By name, to an address, by proxy; what isn't granted is told why.
        let script = "curl -sS -f -o /dev/null https://api.torno.test/public && echo plain; \
            curl -sS -f -H \"authorization: Bearer $API_TOKEN\" \
                https://api.torno.test/v1/me -o /dev/null && echo bound; \
            curl -sS -f -x http://127.0.0.1:3128 -o /dev/null https://api.torno.test/public && echo proxy; \
            curl -sS https://elsewhere.torno.test/ | grep -o host_not_granted; \
            curl -sS -k https://192.0.2.1/ | grep -o '\"code\":\"[a-z_]*\"'; \
            curl -sS -k -g 'https://[2001:db8::1]/' | grep -o '\"code\":\"[a-z_]*\"'; \
            getent ahostsv4 nowhere.torno.test | grep -c ^198.18.";
        let ran = shell(stage, level, script);
        let lines: Vec<&str> = ran.stdout.lines().collect();
        assert_eq!(
            lines.get(..4),
            Some(&["plain", "bound", "proxy", "host_not_granted"][..])
        );
        let seen = stage.world.api.journal.requests();
        assert!(seen.iter().any(|request| request.target == "/v1/me"));
    });
}

#[test]
fn large_bodies_cross_the_link_unchanged_both_ways() {
    at_machine(
        "large bodies cross the link",
        &["microvm"],
        |stage, level| {
            let script = "cd /tmp && head -c 5000000 /dev/urandom > body && sha256sum body \
            && curl -sS -f -o /dev/null -T body -X POST -H \"authorization: Bearer $API_TOKEN\" \
            https://api.torno.test/upload";
            let ran = shell(stage, level, script).good();
            let sum = ran.stdout.split(' ').next().unwrap().to_owned();
            let seen = stage.world.api.journal.requests();
            let upload = seen
                .iter()
                .find(|request| request.target == "/upload")
                .unwrap();
            assert_eq!(
                (upload.body_bytes, upload.body_sha256.as_ref()),
                (5_000_000, Some(&sum))
            );
        },
    );
}

#[test]
fn a_machine_is_killed_whole_and_at_once() {
    at_machine("a machine is killed", &["microvm"], |stage, level| {
        let options = ["--workspace", "none"];
        let mut run = stage
            .daemon
            .run_in(level, &options, &["sh", "-c", "echo up; sleep 600"]);
        let mut run = run.stdout(Stdio::piped()).spawn().unwrap();
        let mut up = [0; 3];
        run.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
        let session = stage.daemon.sessions().unwrap().remove(0);
        let began = Instant::now();
        let killed = stage.torno(&["kill", &session]).good();
        assert!(began.elapsed() < Duration::from_secs(5), "{killed:?}");
        assert_eq!(run.wait().unwrap().code(), Some(137), "{killed:?}");
        let qemus = std::process::Command::new("pgrep")
            .args(["-f", &session])
            .output()
            .unwrap();
        assert!(qemus.stdout.is_empty(), "a process of the machine is left");
    });
}

#[test]
fn emulation_must_be_named_and_what_a_machine_lacks_is_said() {
    at_machine("emulation must be named", &["microvm"], |stage, level| {
        let silent = [
            "run",
            "--quiet",
            "--workspace",
            "none",
            "--isolation",
            level,
            "--",
            "true",
        ];
        let refused = stage.hear(&stage.daemon.typed(&silent).output().unwrap());
        assert_ne!(refused.code, Some(0));
        assert!(refused.stderr.contains("--emulation"), "{refused:?}");
        let doctor = stage.torno(&["doctor"]);
        assert!(doctor.stdout.contains("none claimed"), "{doctor:?}");
        let strongest = ["run", "--workspace", "none", "--", "true"];
        let ran = stage.torno(&strongest);
        assert!(
            !ran.stderr.contains("microvm") && !ran.stderr.contains("at vm"),
            "{ran:?}"
        );
    });
}
