// SPDX-License-Identifier: Apache-2.0
//! KVM: whether it runs a machine is found out by a boot and said, and never taken for granted from
//! a device or a processor's flags. Where it runs one, the machine is a session's like any other.

use crate::stage::{Ran, Stage, at_machine};
use std::path::Path;
use std::process::Command;

fn shell(stage: &Stage, script: &str) -> Ran {
    let words = ["/bin/sh", "-c", script];
    let options = ["--workspace", "none"];
    let output = stage.daemon.run_in("microvm", &options, &words).output();
    stage.hear(&output.unwrap())
}

/// What the doctor says once the level was named.
fn doctor(stage: &Stage) -> String {
    shell(stage, "true").good();
    stage.torno(&["doctor"]).stdout
}

fn is_left(pattern: &str) -> bool {
    let found = Command::new("pgrep")
        .args(["-f", pattern])
        .output()
        .unwrap();
    !found.stdout.is_empty()
}

#[test]
fn a_kvm_that_runs_no_machine_is_said_and_emulation_works_by_name_all_the_same() {
    let story = "a KVM that runs no machine";
    at_machine(story, &["microvm"], |stage, _| {
        if !Path::new("/dev/kvm").exists() {
            let said = doctor(stage);
            assert!(said.contains("KVM: no /dev/kvm"), "{said}");
            assert!(said.contains("none claimed"), "{said}");
            return;
        }
        let before = stage.torno(&["doctor"]).stdout;
        assert!(
            before.contains("is tried when this level is named"),
            "{before}"
        );
        let said = doctor(stage);
        if said.contains("was ready in") {
            println!("SKIP: {story}: it runs one here");
            return;
        }
        assert!(said.contains("KVM is there, and QEMU: "), "{said}");
        assert!(said.contains("none claimed"), "{said}");
        assert!(!is_left("accel kvm"), "the machine that was tried is left");
        let words = [
            "run",
            "--workspace",
            "none",
            "--isolation",
            "microvm",
            "--",
            "true",
        ];
        let silent = stage.hear(&stage.daemon.typed(&words).output().unwrap());
        assert!(silent.stderr.contains("--emulation"), "{silent:?}");
    });
}

#[test]
fn an_operator_can_leave_kvm_out() {
    at_machine("an operator leaves KVM out", &["microvm"], |_, _| {
        let mut stage = Stage::new();
        stage.daemon.set_again("kvm = false\n").unwrap();
        let said = doctor(&stage);
        assert!(said.contains("KVM: not used, by `kvm = false`"), "{said}");
        assert!(said.contains("none claimed"), "{said}");
    });
}

#[test]
fn a_machine_by_kvm_is_a_sessions_like_any_other() {
    let story = "a machine by KVM";
    at_machine(story, &["microvm"], |stage, _| {
        let said = doctor(stage);
        for (name, program) in [
            ("Firecracker", Some("firecracker")),
            ("Cloud Hypervisor", Some("cloud-hypervisor")),
            ("QEMU", None),
        ] {
            let paths = std::env::var_os("PATH").unwrap_or_default();
            let mut places = std::env::split_paths(&paths);
            if let Some(program) = program.filter(|name| !places.any(|at| at.join(name).exists())) {
                println!("SKIP: {story}: no {program} binary");
                continue;
            }
            if !said.contains(&format!("a machine of {name}'s was ready")) {
                println!("SKIP: {story}: no hardware virtualisation that {name} can use first");
                continue;
            }
            assert!(said.contains("the processor's virtualisation"), "{said}");
            let script = "uname -n; id -u; touch /usr/x 2>/dev/null || echo read-only; \
                curl -sS -f -o /dev/null https://api.torno.test/public && echo plain; exit 7";
            let ran = shell(stage, script);
            let lines: Vec<&str> = ran.stdout.lines().collect();
            assert_eq!(lines, ["sandbox", "1000", "read-only", "plain"], "{ran:?}");
            assert_eq!(ran.code, Some(7));
            // By its name alone: there is a boundary, so nobody has to say that there is none.
            let words = [
                "run",
                "--workspace",
                "none",
                "--isolation",
                "microvm",
                "--",
                "true",
            ];
            stage
                .hear(&stage.daemon.typed(&words).output().unwrap())
                .good();
        }
    });
}
