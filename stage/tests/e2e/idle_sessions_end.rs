// SPDX-License-Identifier: Apache-2.0
//! `limits.idle`: a session in which no command runs ends by itself; one that works is left alone.

use crate::stage::at_each_level;
use std::time::{Duration, Instant};
use torno_stage::daemon::level::patience;

const POLICY: &str = "[sandbox]\nlimits = { wall = \"10m\", idle = \"3s\" }\n";

#[test]
fn an_idle_session_ends_and_a_working_one_does_not() {
    at_each_level("idle sessions", |stage, level| {
        stage.daemon.write_workspace("torno.toml", POLICY).unwrap();
        stage.daemon.must(&["trust", "--yes"]).unwrap();
        // Quiet for longer than the limit, and working all the time.
        stage.run(level, &["sleep", "6"]).good();

        let begun = Instant::now();
        let started = stage
            .torno(&["run", "--quiet", "--detach", "--isolation", level])
            .good();
        let session = started.stdout.trim().to_owned();
        let lives = || stage.daemon.sessions().unwrap().contains(&session);
        while lives() {
            assert!(
                begun.elapsed() < patience(Duration::from_secs(60)),
                "it never ended"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(
            begun.elapsed() >= Duration::from_secs(3),
            "{:?}",
            begun.elapsed()
        );
        let exec = stage.torno(&["session", "exec", &session, "--", "true"]);
        assert!(matches!(exec.code, Some(124 | 125)), "{exec:#?}");
        let records = stage.daemon.records().unwrap();
        let ended = records.iter().find(|record| {
            record["session"] == session.as_str() && record["event"]["kind"] == "session_ended"
        });
        assert_eq!(ended.unwrap()["event"]["cause"], "time_limit");
    });
}
