// SPDX-License-Identifier: Apache-2.0
//! After `killed` is reported no byte leaves, in the middle of an upload as well.

use crate::stage::at_each_level;
use std::process::Stdio;
use std::time::{Duration, Instant};
use torno_stage::cut;

#[test]
fn no_byte_arrives_after_the_report() {
    at_each_level("kill cuts an upload", |stage, level| {
        let cut = cut::watch(&stage.daemon, &stage.world, level).unwrap();
        assert_eq!(cut.late_bytes, 0, "{cut:?}");
        assert_eq!(cut.exit, Some(137), "{cut:?}");
        assert!(cut.receipt.contains(" 0 left"), "{cut:?}");
        assert!(cut.took < Duration::from_secs(2), "{cut:?}");
        assert!(stage.daemon.sessions().unwrap().is_empty());
    });
}

#[test]
fn kill_all_ends_every_session() {
    at_each_level("kill all", |stage, level| {
        let mut runs: Vec<_> = (0..3)
            .map(|_| {
                let mut run = stage.daemon.run_command(level, &["sleep", "60"]);
                run.stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .unwrap()
            })
            .collect();
        let end = Instant::now() + Duration::from_secs(20);
        while stage.daemon.sessions().unwrap().len() < 3 {
            assert!(Instant::now() < end, "the sessions did not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        // Running commands, not only sessions.
        std::thread::sleep(Duration::from_secs(1));
        let ran = stage.torno(&["kill", "--all"]).good();
        assert_eq!(ran.stdout.matches("killed ").count(), 3, "{ran:?}");
        for run in &mut runs {
            assert_eq!(run.wait().unwrap().code(), Some(137));
        }
    });
}
