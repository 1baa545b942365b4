// SPDX-License-Identifier: Apache-2.0
//! After `killed` is reported no byte leaves, in the middle of an upload as well.

use crate::stage::at_each_level_for_both;
use std::io::Read;
use std::process::Stdio;
use std::time::Duration;
use torno_stage::crash::cut;

#[test]
fn no_byte_arrives_after_the_report() {
    at_each_level_for_both("kill cuts an upload", |stage, level| {
        let cut = cut::watch(&stage.daemon, &stage.world, level).unwrap();
        assert_eq!(cut.late_bytes, 0, "{cut:?}");
        assert_eq!(cut.exit, Some(137), "{cut:?}");
        assert!(cut.receipt.contains(" 0 left"), "{cut:?}");
        // How fast it is, the benchmarks say; a hang is no kill.
        assert!(cut.took < Duration::from_secs(15), "{cut:?}");
        assert!(stage.daemon.sessions().unwrap().is_empty());
    });
}

#[test]
fn kill_all_ends_every_session() {
    at_each_level_for_both("kill all", |stage, level| {
        let mut runs: Vec<_> = (0..3)
            .map(|_| {
                let script = "echo runs; exec sleep 60";
                let mut run = stage.daemon.run_command(level, &["/bin/sh", "-c", script]);
                run.stdout(Stdio::piped())
                    .stderr(Stdio::null())
                    .spawn()
                    .unwrap()
            })
            .collect();
        for run in &mut runs {
            // Running commands, not only sessions.
            let mut word = [0; 5];
            run.stdout.as_mut().unwrap().read_exact(&mut word).unwrap();
        }
        assert_eq!(stage.daemon.sessions().unwrap().len(), 3);
        let ran = stage.torno(&["kill", "--all"]).good();
        assert_eq!(ran.stdout.matches("killed ").count(), 3, "{ran:?}");
        assert!(stage.daemon.sessions().unwrap().is_empty(), "{ran:?}");
        // Of one kill the desk hears twice, and the second may come when the first is through.
        let killed = ran
            .stdout
            .lines()
            .next()
            .unwrap()
            .split(' ')
            .nth(1)
            .unwrap();
        for again in ["--all", killed] {
            let ran = stage.torno(&["kill", again]).good();
            assert!(
                ran.stdout.contains(&format!("killed {killed} in ")),
                "{ran:?}"
            );
        }
        for run in &mut runs {
            assert_eq!(run.wait().unwrap().code(), Some(137));
        }
    });
}
