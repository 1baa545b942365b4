// SPDX-License-Identifier: Apache-2.0
//! Hosts that break the protocol, and links that break.

use std::io::{Read as _, Write as _};

use torno_guest_protocol::{
    ExecId, HostMessage, PROTOCOL_VERSION, RequestId, Signal, Stream, WINDOW_BYTES,
};

use crate::rig::{Rig, command, spawn};

fn own() -> (u32, u32) {
    (
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    )
}

#[test]
fn a_shutdown_ends_the_agent_in_order() {
    let mut rig = Rig::start();
    rig.tell(&HostMessage::Shutdown {});
    assert!(rig.ended());
}

#[test]
fn garbage_ends_the_agent_with_an_error() {
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0xff; 64],
        &[0, 0, 0, 2, 1, b'{', b'}'],
    ] {
        let mut rig = Rig::start();
        rig.link.write_all(garbage).unwrap();
        assert!(!rig.ended());
    }
}

#[test]
fn a_host_that_overruns_its_credit_ends_the_agent() {
    let mut rig = Rig::start();
    let (exec, _) = rig.begin_started(&["sleep", "60"]);
    rig.send(exec, Stream::Stdin, &vec![0; WINDOW_BYTES as usize]);
    // A pipe takes 64 KiB of it and no more, so this is one window and more beyond what is credited.
    rig.send(exec, Stream::Stdin, &vec![0; WINDOW_BYTES as usize]);
    assert!(!rig.ended());
}

#[test]
fn frames_out_of_place_end_the_agent() {
    type Break = fn(&mut Rig);
    let breaks: [Break; 7] = [
        |rig| {
            rig.tell(&HostMessage::Hello {
                version: PROTOCOL_VERSION,
            })
        },
        |rig| rig.send(ExecId(99), Stream::Stdin, b"x"),
        |rig| rig.signal(ExecId(99), Signal::Kill),
        |rig| {
            rig.tell(&HostMessage::CancelRequest {
                request: RequestId(99),
            })
        },
        |rig| {
            let (exec, _) = rig.begin_started(&["sleep", "60"]);
            rig.send(exec, Stream::Stdout, b"x");
        },
        |rig| {
            let (exec, _) = rig.begin_started(&["sleep", "60"]);
            rig.end(exec, Stream::Stdin);
            rig.end(exec, Stream::Stdin);
        },
        |rig| {
            let (exec, _) = rig.begin_started(&["sleep", "60"]);
            let request = RequestId(exec.0);
            rig.tell(&HostMessage::StatPath {
                request,
                path: "x".into(),
            });
        },
    ];
    for (number, offence) in breaks.iter().enumerate() {
        let mut rig = Rig::start();
        offence(&mut rig);
        assert!(!rig.ended(), "offence {number}");
    }
}

#[test]
fn late_frames_for_an_ended_exec_are_harmless() {
    let mut rig = Rig::start();
    let exec = rig.begin(&["true"], None);
    assert_eq!(rig.finish(exec).code(), 0);
    rig.send(exec, Stream::Stdin, b"late");
    rig.end(exec, Stream::Stdin);
    rig.signal(exec, Signal::Terminate);
    assert_eq!(rig.shell("echo alive").stdout, "alive\n");
}

#[test]
fn a_host_of_another_version_is_refused() {
    let workspace = tempfile::tempdir().unwrap();
    let (mut link, mut agent) = spawn(workspace.path(), own());
    let body = br#"{"type":"hello","version":999}"#;
    let mut frame = vec![0, 0, 0, u8::try_from(body.len()).unwrap(), 1];
    frame.extend_from_slice(body);
    link.write_all(&frame).unwrap();
    let mut answer = Vec::new();
    link.read_to_end(&mut answer).unwrap();
    assert!(answer.is_empty());
    assert!(!agent.wait().unwrap().success());
}

#[test]
fn standard_input_must_be_a_socket() {
    let output = command()
        .args(["init", "--workload-uid", "0", "--workload-gid", "0"])
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("no connected unix stream socket"), "{text}");
}
