// SPDX-License-Identifier: Apache-2.0
//! Programs: streams, ends, environment, terminals, walls.

use torno_guest_protocol::{
    ExecId, GuestMessage, HostMessage, ProcessFailure, ProcessStatus, Signal, Stream, TerminalSize,
    WallKind,
};

use crate::rig::Rig;

#[test]
fn output_error_and_code_come_back() {
    let mut rig = Rig::start();
    let outcome = rig.shell("echo out; echo err >&2; exit 7");
    assert_eq!(
        (outcome.code(), &*outcome.stdout, &*outcome.stderr),
        (7, "out\n", "err\n")
    );
}

#[test]
fn ten_mebibytes_go_through_cat_unchanged() {
    let mut rig = Rig::start();
    let input: Vec<u8> = (0u32..2_621_440).flat_map(u32::to_le_bytes).collect();
    let exec = rig.begin(&["cat"], None);
    rig.send_all(exec, Stream::Stdin, &input);
    let outcome = rig.finish(exec);
    assert_eq!(outcome.code(), 0);
    assert!(rig.output(exec, Stream::Stdout) == input, "bytes differ");
}

#[test]
fn an_unread_stream_holds_up_nobody_else() {
    let mut rig = Rig::start();
    // Never reads its input, and its own output stays within one window of ours.
    let (stuck, _) = rig.begin_started(&["sleep", "60"]);
    rig.send(stuck, Stream::Stdin, &vec![b'x'; 256 * 1024]);
    for _ in 0..3 {
        assert_eq!(rig.shell("echo free").stdout, "free\n");
    }
}

#[test]
fn all_output_written_before_the_end_arrives_before_the_end() {
    let mut rig = Rig::start();
    for _ in 0..5 {
        let outcome = rig.shell("head -c 3000000 /dev/zero | tr '\\0' a");
        assert_eq!(outcome.stdout.len(), 3_000_000);
    }
}

#[test]
fn a_process_left_behind_does_not_delay_the_end() {
    let mut rig = Rig::start();
    let outcome = rig.shell("sleep 60 & echo done");
    assert_eq!((outcome.code(), &*outcome.stdout), (0, "done\n"));
}

#[test]
fn the_environment_is_exactly_what_was_given() {
    let mut rig = Rig::start();
    let exec = ExecId(rig.id());
    rig.tell(&HostMessage::StartProcess {
        exec,
        argv: vec!["/usr/bin/env".into()],
        env: vec![
            ("ONE".into(), "1 2=3".into()),
            ("EMPTY".into(), String::new()),
        ],
        cwd: "/".into(),
        tty: None,
    });
    let outcome = rig.finish(exec);
    let mut lines: Vec<&str> = outcome.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["EMPTY=", "ONE=1 2=3"]);
}

#[test]
fn the_program_starts_in_its_directory_with_only_three_descriptors() {
    let mut rig = Rig::start();
    let workspace = rig.workspace.path().to_str().unwrap().to_owned();
    let outcome = rig.shell("pwd; for fd in /proc/$$/fd/*; do [ -e $fd ] && echo ${fd##*/}; done");
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(lines, [&*workspace, "0", "1", "2"]);
}

#[test]
fn what_cannot_be_run_says_why() {
    let mut rig = Rig::start();
    let script = rig.workspace.path().join("plain");
    std::fs::write(&script, "text").unwrap();
    let cases: [(&[&str], ProcessFailure); 5] = [
        (&["no-such-program"], ProcessFailure::NotFound),
        (&["/no/such/program"], ProcessFailure::NotFound),
        (&[script.to_str().unwrap()], ProcessFailure::NotExecutable),
        (&[], ProcessFailure::BadArguments),
        (&["echo", "a\0b"], ProcessFailure::BadArguments),
    ];
    for (argv, wanted) in cases {
        match rig.run(argv).end {
            GuestMessage::ProcessFailed { code, message, .. } => {
                assert_eq!(code, wanted, "{argv:?}: {message}");
                assert!(!message.is_empty());
            }
            other => panic!("{other:?}"),
        }
    }
    let exec = ExecId(rig.id());
    rig.tell(&HostMessage::StartProcess {
        exec,
        argv: vec!["true".into()],
        env: vec![],
        cwd: "/no/such/directory".into(),
        tty: None,
    });
    match rig.hear() {
        GuestMessage::ProcessFailed {
            code: ProcessFailure::BadDirectory,
            ..
        } => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn signals_arrive_and_the_end_names_them() {
    let mut rig = Rig::start();
    for (signal, number) in [
        (Signal::Terminate, 15),
        (Signal::Kill, 9),
        (Signal::User1, 10),
    ] {
        let (exec, _) = rig.begin_started(&["sleep", "60"]);
        rig.signal(exec, signal);
        match rig.finish(exec).end {
            GuestMessage::ProcessEnded {
                status: ProcessStatus::Signaled(found),
                ..
            } => {
                assert_eq!(found, number);
            }
            other => panic!("{other:?}"),
        }
    }
    let exec = rig.begin(
        &[
            "sh",
            "-c",
            "trap 'echo caught; exit 3' INT; echo set; sleep 60 & wait",
        ],
        None,
    );
    rig.wait_for_output(exec, "set");
    rig.signal(exec, Signal::Interrupt);
    let outcome = rig.finish(exec);
    assert_eq!((outcome.code(), &*outcome.stdout), (3, "set\ncaught\n"));
}

#[test]
fn a_terminal_has_a_size_follows_a_resize_and_ends() {
    let mut rig = Rig::start();
    let size = TerminalSize {
        rows: 33,
        columns: 101,
    };
    let script = "stty size; tty >/dev/null && echo isatty; trap 'stty size; exit 4' WINCH; echo set; while :; do sleep 0.05; done";
    let exec = rig.begin(&["sh", "-c", script], Some(size));
    rig.wait_for_output(exec, "set");
    rig.tell(&HostMessage::Resize {
        exec,
        size: TerminalSize {
            rows: 44,
            columns: 99,
        },
    });
    let outcome = rig.finish(exec);
    assert_eq!(outcome.code(), 4, "{outcome:?}");
    assert_eq!(outcome.stdout, "33 101\r\nisatty\r\nset\r\n44 99\r\n");
}

#[test]
fn control_c_and_end_of_file_work_on_a_terminal() {
    let mut rig = Rig::start();
    let size = TerminalSize {
        rows: 24,
        columns: 80,
    };
    let exec = rig.begin(&["sh", "-c", "echo set; exec sleep 60"], Some(size));
    rig.wait_for_output(exec, "set");
    rig.send(exec, Stream::Stdin, b"\x03");
    match rig.finish(exec).end {
        GuestMessage::ProcessEnded {
            status: ProcessStatus::Signaled(2),
            ..
        } => {}
        other => panic!("{other:?}"),
    }
    let exec = rig.begin(&["cat"], Some(size));
    rig.send(exec, Stream::Stdin, b"line\n");
    rig.wait_for_output(exec, "line\r\nline\r\n");
    rig.end(exec, Stream::Stdin);
    assert_eq!(rig.finish(exec).code(), 0);
}

#[test]
fn an_interactive_shell_has_job_control() {
    let mut rig = Rig::start();
    let size = TerminalSize {
        rows: 24,
        columns: 80,
    };
    let exec = rig.begin(&["bash", "--norc", "-i"], Some(size));
    rig.send(
        exec,
        Stream::Stdin,
        b"sleep 50 & jobs; kill %1; wait; echo over $((40+2)); exit 5\n",
    );
    rig.wait_for_output(exec, "over 42");
    let outcome = rig.finish(exec);
    assert_eq!(outcome.code(), 5);
    assert!(
        !outcome.stdout.contains("no job control"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn programs_have_no_capability_and_no_new_privileges() {
    // ATTACK: 147
    let mut rig = Rig::start();
    let outcome = rig.shell("grep -E '^(Cap|NoNewPrivs|Groups)' /proc/self/status; ulimit -c");
    let zero = "0000000000000000";
    assert_eq!(
        outcome.stdout,
        format!(
            "Groups:\t \nCapInh:\t{zero}\nCapPrm:\t{zero}\nCapEff:\t{zero}\nCapBnd:\t{zero}\nCapAmb:\t{zero}\nNoNewPrivs:\t1\n0\n"
        )
    );
}

#[test]
fn programs_run_as_the_workload_when_the_agent_may_choose() {
    if !rustix::process::getuid().is_root() {
        eprintln!("SKIPPED: changing the user needs root");
        return;
    }
    let mut rig = Rig::start_as((54_321, 54_322));
    let outcome =
        rig.shell("id -u; id -g; id -G; echo x > file; stat -c %u file; echo y > /dev/stdout");
    assert_eq!(
        outcome.stdout, "54321\n54322\n54322\n54321\ny\n",
        "{outcome:?}"
    );
    let (exec, _) = rig.begin_started(&["sh", "-c", "setsid sleep 60 & exec sleep 60"]);
    rig.signal(exec, Signal::Kill);
    match rig.finish(exec).end {
        GuestMessage::ProcessEnded {
            status: ProcessStatus::Signaled(9),
            ..
        } => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn landlock_keeps_writes_to_their_places() {
    let mut rig = Rig::start();
    let holds = |kind| rig.walls.iter().any(|wall| wall.kind == kind && wall.holds);
    assert!(holds(WallKind::NoNewPrivileges) && holds(WallKind::NoCapabilities));
    if !holds(WallKind::Landlock) {
        eprintln!("SKIPPED: this kernel has no landlock");
        return;
    }
    // A place that the plain permissions would allow.
    if !rustix::process::getuid().is_root() {
        eprintln!("SKIPPED: only root may write outside of the writable places");
        return;
    }
    let outside = tempfile::tempdir_in("/run").unwrap();
    let file = outside.path().join("file");
    std::fs::write(&file, "kept").unwrap();
    let file = file.to_str().unwrap();
    let outcome = rig.shell(&format!(
        "echo changed > {file}; rm {file}; ln {file} link; echo in > inside; echo tmp > /tmp/$$; rm /tmp/$$; cat {file}"
    ));
    assert_eq!(outcome.stdout, "kept", "{outcome:?}");
    assert_eq!(outcome.stderr.lines().count(), 3, "{outcome:?}");
    assert!(rig.workspace.path().join("inside").exists());
}

#[test]
fn programs_can_signal_programs_of_another_exec_but_not_the_agent() {
    let mut rig = Rig::start();
    let (first, pid) = rig.begin_started(&["sleep", "60"]);
    let agent = rig.agent.id();
    if rig
        .walls
        .iter()
        .any(|wall| wall.kind == WallKind::LandlockScope && wall.holds)
    {
        assert_ne!(rig.shell(&format!("kill -9 {agent}")).code(), 0);
    }
    assert_eq!(rig.shell(&format!("kill {pid}")).code(), 0);
    match rig.finish(first).end {
        GuestMessage::ProcessEnded {
            status: ProcessStatus::Signaled(15),
            ..
        } => {}
        other => panic!("{other:?}"),
    }
}
