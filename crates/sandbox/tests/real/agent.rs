// SPDX-License-Identifier: Apache-2.0
//! The product's own agent as first process: it greets, names the walls it found, and runs a program.

use crate::harness::{facts_for, spec};
use crate::inside::LEVELS;
use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;
use torno_guest_protocol::PROTOCOL_VERSION;
use torno_sandbox::{StartInputs, VerifiedGuest, agent_arguments, plan, start};

/// Built by `cargo build -p torno-guest --target …` with a static C runtime.
pub(crate) fn agent() -> Option<PathBuf> {
    let own = std::env::current_exe().unwrap();
    let target = own.ancestors().nth(3).unwrap();
    let path = target.join(format!(
        "{}-unknown-linux-gnu/debug/torno-guest",
        std::env::consts::ARCH
    ));
    if !path.exists() {
        println!(
            "SKIP: the agent as first process: {} is not built",
            path.display()
        );
        return None;
    }
    Some(path)
}

pub(crate) fn say(link: &mut UnixStream, message: &Value) {
    let body = message.to_string();
    link.write_all(&u32::try_from(body.len()).unwrap().to_be_bytes())
        .unwrap();
    link.write_all(&[1]).unwrap();
    link.write_all(body.as_bytes()).unwrap();
}

/// The next frame: its kind and body.
fn hear(link: &mut UnixStream) -> (u8, Vec<u8>) {
    let mut head = [0; 5];
    link.read_exact(&mut head).unwrap();
    let [a, b, c, d, kind] = head;
    let mut body = vec![0; usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap()];
    link.read_exact(&mut body).unwrap();
    (kind, body)
}

pub(crate) fn hear_control(link: &mut UnixStream) -> Value {
    loop {
        let (kind, body) = hear(link);
        if kind == 1 {
            return serde_json::from_slice(&body).unwrap();
        }
    }
}

#[test]
fn the_agent_greets_raises_its_walls_and_runs_a_program() {
    let Some(agent) = agent() else { return };
    let digest = HEXLOWER.encode(&Sha256::digest(std::fs::read(&agent).unwrap()));
    for level in LEVELS {
        let Some(facts) = facts_for(level) else {
            continue;
        };
        let mut spec = spec(level);
        spec.guest = VerifiedGuest::load(&agent, &digest).unwrap();
        spec.guest_arguments = agent_arguments(level);
        let (mut link, inside) = UnixStream::pair().unwrap();
        link.set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let inputs = StartInputs {
            link: inside.into(),
            workspace: None,
            network: None,
        };
        let started = start(&plan(&spec, &facts).unwrap(), inputs).unwrap();
        say(
            &mut link,
            &json!({ "type": "hello", "version": PROTOCOL_VERSION }),
        );
        let hello = hear_control(&mut link);
        assert_eq!(hello["type"], "hello", "{level:?}: {hello}");
        println!("{} {hello}", level.name());
        say(
            &mut link,
            &json!({
                "type": "start_process", "exec": 1, "argv": ["id", "-u"], "env": [["PATH", "/usr/bin"]],
                "cwd": "/workspace", "tty": null,
            }),
        );
        let answer = hear_control(&mut link);
        assert_eq!(answer["type"], "process_started", "{level:?}: {answer}");
        let ended = hear_control(&mut link);
        assert_eq!(ended["type"], "process_ended", "{level:?}: {ended}");
        println!("{ended}");
        started.handle.remove().unwrap();
    }
}

#[test]
fn a_guest_of_another_version_is_not_loaded() {
    let Some(agent) = agent() else { return };
    assert!(VerifiedGuest::load(&agent, &"0".repeat(64)).is_err());
}
