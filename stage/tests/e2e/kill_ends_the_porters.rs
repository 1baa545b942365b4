// SPDX-License-Identifier: Apache-2.0
//! A kill ends what works on the files of the session as well: nothing more is copied in.

use crate::stage::{Stage, at_each_level_for_both};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use torno_stage::crash;

/// A file that takes many seconds to copy, and costs no disk before.
const LARGE_BYTES: u64 = 3 << 30;
/// LIMIT: how long a porter may take to be there on a busy machine.
const WAIT: Duration = Duration::from_secs(60);

/// SIGKILL in the masks of proc(5).
const SIGKILL_BIT: u64 = 1 << (9 - 1);

const POLICY: &str = "[sandbox]\nlimits = { disk = \"8GiB\" }\n";

#[test]
fn a_kill_ends_the_copying_of_a_workspace() {
    at_each_level_for_both("kill while copying in", |stage, level| {
        stage.daemon.write_workspace("torno.toml", POLICY).unwrap();
        stage.daemon.must(&["trust", "--yes"]).unwrap();
        let large = stage.daemon.workspace().join("large");
        let file = std::fs::File::create(&large).unwrap();
        file.set_len(LARGE_BYTES).unwrap();
        let mut command = stage.daemon.run_command(level, &["true"]);
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut run = command.spawn().unwrap();
        let porter = porter(stage, &mut run);
        let ran = stage.torno(&["kill", "--all"]).good();
        assert!(ran.stdout.contains("killed "), "{ran:?}");
        assert!(is_ended(porter), "the porter outlived the kill");
        assert_ne!(
            run.wait().unwrap().code(),
            Some(0),
            "{}",
            stage.daemon.log_text()
        );
        assert!(stage.daemon.sessions().unwrap().is_empty());
        // Whoever searches the stage afterwards reads its files whole.
        std::fs::remove_file(large).unwrap();
    });
}

/// The porter that copies, once it is there.
fn porter(stage: &Stage, run: &mut Child) -> i32 {
    let end = Instant::now() + WAIT;
    loop {
        let porter = crash::process(&stage.daemon, "porter").unwrap();
        let has_begun = !stage.daemon.sessions().unwrap().is_empty();
        if let (Some(porter), true) = (porter, has_begun) {
            return porter.as_raw_nonzero().get();
        }
        let ended = run.try_wait().unwrap();
        assert!(ended.is_none(), "{ended:?}: {}", stage.daemon.log_text());
        assert!(Instant::now() < end, "{}", stage.daemon.log_text());
    }
}

/// Gone, or at its end. Whom a file system holds back has SIGKILL before it, and does nothing of its
/// own any more (signal(7)): a kill waits for it only for a moment.
fn is_ended(pid: i32) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else {
        return true;
    };
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim).unwrap_or_default()
    };
    let pending = |name| u64::from_str_radix(field(name), 16).unwrap_or(0) & SIGKILL_BIT != 0;
    // A process that gave its memory back is at its end.
    let has_memory = status.lines().any(|line| line.starts_with("VmSize:"));
    field("State:").starts_with('Z') || !has_memory || pending("SigPnd:") || pending("ShdPnd:")
}
