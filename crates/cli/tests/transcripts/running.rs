// SPDX-License-Identifier: Apache-2.0
//! `torno run` and `session exec`: exit codes, streams, what counts as a grant, what is said.

use crate::fake::SESSION;
use crate::home::{Home, Ran};
use std::process::Stdio;
use torno_control_api::request::ApiRequest;
use torno_notary_protocol::operator::OperatorRequest;
use torno_policy::grant::Isolation;

#[test]
fn the_commands_exit_code_is_ours() {
    let home = Home::served();
    for code in [0, 1, 2, 77, 125, 255] {
        let code_text = code.to_string();
        home.torno(&["run", "-q", "--", "exit", &code_text])
            .expect(code);
    }
    home.torno(&["run", "-q", "--", "late"]).expect(124);
    home.torno(&["run", "-q", "--", "lost"]).expect(137);
    home.torno(&["run", "-q", "--", "lost", "ended"])
        .expect(124);
    home.torno(&["run", "-q", "--", "missing"]).expect(127);
    home.torno(&["run", "-q", "--", "unrunnable"]).expect(126);
    home.torno(&["run", "-q", "--", "busy"]).expect(125);
    home.torno(&["session", "exec", SESSION, "--", "missing"])
        .expect(127);
    home.torno(&["session", "exec", SESSION, "--", "exit", "3"])
        .expect(3);
}

#[test]
fn streams_stay_apart_and_are_byte_exact_when_no_terminal_reads_them() {
    let home = Home::served();
    let ran = home.torno(&["run", "-q", "--", "both"]).expect(0);
    assert_eq!(
        (ran.out.as_str(), ran.err.starts_with("err\n")),
        ("out\n", true),
        "{}",
        ran.err
    );
    let ran = home.torno(&["run", "-q", "--", "evil"]).expect(0);
    assert_eq!(ran.raw_out, b"a\x1b]52;c;eA==\x07b\x1b[6nc\xff");
}

#[test]
fn input_of_any_size_and_bytes_comes_back_whole() {
    let home = Home::served();
    let input: Vec<u8> = (0..400_000_u32)
        .map(|n| n.to_le_bytes()[n as usize % 3])
        .collect();
    let ran = home
        .torno_with(&["run", "-q", "--", "cat"], &input)
        .expect(0);
    assert_eq!(ran.raw_out, input);
}

#[test]
fn without_a_document_what_was_typed_is_accepted_first_and_shown() {
    let home = Home::served();
    let arguments = [
        "run",
        "--isolation",
        "container",
        "--allow",
        "docs.example.org",
        "--",
        "exit",
        "0",
    ];
    let ran = home.torno(&arguments).expect(0);
    let seen = home.seen();
    let accepted = seen
        .notary
        .iter()
        .position(|(r, _)| matches!(r, OperatorRequest::Accept { .. }));
    assert!(accepted.is_some());
    let ApiRequest::Start(start) = &seen.desk[1] else {
        panic!("{:?}", seen.desk)
    };
    assert!(
        start.document.contains("host = \"docs.example.org\""),
        "{}",
        start.document
    );
    assert_eq!(start.isolation, Some(Isolation::Container));
    let at = seen
        .desk
        .iter()
        .position(|r| matches!(r, ApiRequest::Start(_)))
        .unwrap();
    assert_eq!(
        seen.descriptors[at], 1,
        "the workspace's directory goes along"
    );
    for said in [
        "granted  reaches https://docs.example.org",
        "hidden   bad\\u{1b}]0;x\\u{7}.env (dotenv)",
        "absent   a kernel of its own",
        "the host's kernel is the boundary",
        "torno: 3 refused",
        "3× GET https://evil.test\\u{1b}[2K: host_not_granted (default)",
        "add [[allow]] host = \"evil.test\"",
        "1 file changed",
    ] {
        assert!(ran.err.contains(said), "{said}\n{}", ran.err);
    }
    assert!(!ran.err.contains('\x1b'), "{:?}", ran.err);
}

#[test]
fn quiet_says_nothing_of_its_own() {
    let ran = Home::served()
        .torno(&["run", "--quiet", "--", "exit", "0"])
        .expect(0);
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("", ""));
}

#[test]
fn an_empty_workspace_hands_no_directory_over() {
    let home = Home::served();
    home.torno(&["run", "-q", "--workspace", "none", "--", "exit", "0"])
        .expect(0);
    let seen = home.seen();
    let at = seen
        .desk
        .iter()
        .position(|r| matches!(r, ApiRequest::Start(_)))
        .unwrap();
    assert_eq!(seen.descriptors[at], 0);
}

#[test]
fn a_document_that_nobody_accepted_starts_nothing() {
    let home = Home::served();
    home.write("torno.toml", "[sandbox]\nisolation = \"gvisor\"\n");
    let ran = home.torno(&["run", "--", "exit", "0"]).expect(125);
    assert!(ran.err.contains("next: run `torno trust`"), "{}", ran.err);
    assert!(
        !home
            .seen()
            .desk
            .iter()
            .any(|r| matches!(r, ApiRequest::Start(_)))
    );
    home.torno(&["trust", "--yes"]).expect(0);
    home.torno(&["run", "-q", "--", "exit", "0"]).expect(0);
    // One byte more is another document.
    home.write("torno.toml", "[sandbox]\nisolation = \"gvisor\"\n\n");
    home.torno(&["run", "-q", "--", "exit", "0"]).expect(125);
}

#[test]
fn arguments_do_not_widen_a_document() {
    let home = Home::served();
    home.write("torno.toml", "");
    home.torno(&["trust", "--yes"]).expect(0);
    for wider in [
        ["--allow", "a.example"],
        ["--secret", "api=API"],
        ["--also", "/opt"],
    ] {
        let ran = home
            .torno(&["run", wider[0], wider[1], "--", "exit", "0"])
            .expect(125);
        assert!(ran.err.contains("can't widen"), "{}", ran.err);
    }
    home.torno(&[
        "run", "-q", "--env", "A=b", "--wall", "5m", "--", "exit", "0",
    ])
    .expect(0);
    let seen = home.seen();
    let start = seen.desk.iter().find_map(|r| match r {
        ApiRequest::Start(start) => Some(start),
        _ => None,
    });
    let start = start.unwrap();
    assert_eq!(start.env, [("A".to_owned(), "b".to_owned())]);
    assert_eq!(start.wall_seconds, Some(300));
}

#[test]
fn a_refusal_of_the_desk_is_printed_once_with_what_to_do() {
    let home = Home::served();
    home.seen().desk_refuses = true;
    let ran = home.torno(&["run", "--", "exit", "0"]).expect(125);
    assert_eq!(
        ran.err,
        "torno: no level works here\\u{1b}[2K\nnext: apt-get install it\n"
    );
    let ran = home
        .torno(&["--output", "json", "run", "--", "exit", "0"])
        .expect(125);
    let error: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!(error["error"]["code"], "isolation_unavailable");
    assert_eq!(error["error"]["exit"], 125);
}

#[test]
fn signals_go_to_the_command_and_the_third_unheeded_one_ends_us() {
    let home = Home::served();
    let signalled = |argument: &'static str, times: usize, number| {
        let mut command = home.command(&["run", "-q", "--", "watch", argument]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        let mut out = child.stdout.take().unwrap();
        let mut ready = [0; 9];
        std::io::Read::read_exact(&mut out, &mut ready).unwrap();
        for _ in 0..times {
            rustix::process::kill_process(pid, number).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        let drained = std::thread::spawn(move || std::io::read_to_string(out));
        let ran = Ran::of(&child.wait_with_output().unwrap());
        drained.join().unwrap().unwrap();
        ran
    };
    signalled("", 1, rustix::process::Signal::INT).expect(130);
    signalled("", 1, rustix::process::Signal::TERM).expect(143);
    signalled("deaf", 3, rustix::process::Signal::INT).expect(130);
}

#[test]
fn a_reader_that_goes_away_ends_the_run() {
    let home = Home::served();
    let mut child = home
        .command(&["run", "-q", "--", "cat"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut input = child.stdin.take().unwrap();
    let writer =
        std::thread::spawn(
            move || {
                while std::io::Write::write_all(&mut input, &[b'x'; 4096]).is_ok() {}
            },
        );
    let ran = Ran::of(&child.wait_with_output().unwrap());
    ran.expect(141);
    writer.join().unwrap();
}

#[test]
fn without_a_daemon_and_without_leave_to_start_one_the_next_step_is_named() {
    let ran = Home::alone().torno(&["run", "--", "true"]).expect(125);
    assert!(ran.err.contains("tornod is not running"), "{}", ran.err);
    assert!(ran.err.contains("next: start `tornod`"), "{}", ran.err);
}
