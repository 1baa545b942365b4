// SPDX-License-Identifier: Apache-2.0
//! `torno run` is a good citizen of a pipeline: exit code, both outputs, input, time limit.

use crate::stage::at_each_level_for_both;
use sha2::Digest;
use std::io::Write;
use std::process::Stdio;

#[test]
fn the_exit_code_and_both_outputs_pass_through() {
    at_each_level_for_both("exit code and outputs", |stage, level| {
        let ran = stage.shell(level, "echo out; echo err >&2; exit 7");
        assert_eq!(
            (ran.stdout.as_str(), ran.code),
            ("out\n", Some(7)),
            "{ran:?}"
        );
        assert!(ran.stderr.contains("err"), "{ran:?}");
        let ran = stage.run_bare(level, &["/bin/sh", "-c", "kill -TERM $$"]);
        assert_eq!(ran.code, Some(143), "{ran:?}");
    });
}

#[test]
fn input_is_relayed_to_its_end() {
    at_each_level_for_both("input is relayed", |stage, level| {
        let mut run = stage.daemon.run_command(level, &["sha256sum"]);
        run.stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut run = run.spawn().unwrap();
        let mut input = run.stdin.take().unwrap();
        let bytes = vec![b'x'; 3_000_000];
        input.write_all(&bytes).unwrap();
        drop(input);
        let ran = stage.hear(&run.wait_with_output().unwrap()).good();
        let right = data_encoding::HEXLOWER.encode(&sha2::Sha256::digest(&bytes));
        assert_eq!(ran.stdout.split(' ').next(), Some(right.as_str()));
    });
}

#[test]
fn the_wall_time_ends_a_session_with_its_own_code() {
    at_each_level_for_both("the wall time", |stage, level| {
        let ran = stage.torno(&[
            "run",
            "--quiet",
            "--isolation",
            level,
            "--wall",
            "3s",
            "--",
            "sleep",
            "60",
        ]);
        assert_eq!(ran.code, Some(124), "{ran:?}");
    });
}

#[test]
fn a_command_that_does_not_exist_ends_with_127_and_is_named() {
    at_each_level_for_both("a command that does not exist", |stage, level| {
        let ran = stage.run_bare(level, &["no-such-command"]);
        assert_eq!(ran.code, Some(127), "{ran:?}");
        assert!(ran.stderr.contains("no-such-command"), "{ran:?}");
    });
}
