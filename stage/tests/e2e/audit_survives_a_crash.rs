// SPDX-License-Identifier: Apache-2.0
//! kill -9 of the whole daemon in the middle of work: after the restart the record verifies, and
//! every credential that the far end saw has its record.

use crate::stage::at_each_level;
use std::process::Stdio;
use std::time::{Duration, Instant};

const LOOP: &str = "while :; do curl -sS -m 5 -o /dev/null \
    -H \"authorization: Bearer $API_TOKEN\" https://api.torno.test/v1/me; done";

#[test]
fn a_killed_daemon_starts_again_with_a_whole_record() {
    at_each_level("a killed daemon", |stage, level| {
        let real = format!("Bearer {}", stage.world.api_token);
        let used = || {
            let seen = stage.world.api.journal.requests();
            seen.iter()
                .filter(|r| r.header("authorization").as_ref() == Some(&real))
                .count()
        };
        let mut run = stage.daemon.run_command(level, &["/bin/sh", "-c", LOOP]);
        let mut run = run
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let end = Instant::now() + Duration::from_secs(30);
        while used() < 5 {
            assert!(Instant::now() < end, "no request arrived");
            std::thread::sleep(Duration::from_millis(10));
        }
        kill_nine(stage.daemon.pid().unwrap());
        // Its roles see their channels close; nothing of the session may go on.
        run.wait().unwrap();
        std::thread::sleep(Duration::from_secs(2));
        let after_crash = used();
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(used(), after_crash, "requests went on without a daemon");
        stage
            .torno(&[
                "vault",
                "unseal",
                "--key-file",
                stage.daemon.key_file().to_str().unwrap(),
            ])
            .good();
        stage.torno(&["audit", "verify"]).good();
        let text = stage
            .torno(&["audit", "export", "--format", "jsonl"])
            .good()
            .stdout;
        let released = text
            .lines()
            .filter(|line| line.contains("\"released\""))
            .count();
        assert!(
            released >= after_crash,
            "{released} releases recorded, {after_crash} seen"
        );
        assert!(stage.daemon.sessions().unwrap().is_empty());
        stage.shell(level, "true").good();
    });
}

fn kill_nine(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}
