// SPDX-License-Identifier: Apache-2.0
//! Emulated machines with the product's own agent, from their template to a command.

use crate::agent::{agent, hear_control, say};
use crate::harness::{facts_for, paths, spec};
use data_encoding::HEXLOWER;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use torno_guest_protocol::{ENTROPY_BYTES, PROTOCOL_VERSION};
use torno_sandbox::{
    Fresh, HostFacts, Level, Paths, Rights, SandboxSpec, StartInputs, Started, Template, Unwatched,
    VerifiedGuest, agent_arguments, host_image, plan, rehearse,
};

/// A machine's spec and what it is made of, or a loud skip.
fn machine(images: &Path) -> Option<(SandboxSpec, HostFacts)> {
    let agent = agent()?;
    let mut facts = facts_for(Level::Container)?;
    if !matches!(facts.rights, Ok(Rights::Root)) {
        println!("not told here: machines: images of /usr are kept where root alone writes");
        return None;
    }
    let machine = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/machine");
    if !machine.exists() {
        println!("SKIP: machines: no parts of a machine");
        return None;
    }
    let paths = Paths {
        machines: vec![machine],
        ..paths()
    };
    facts.find_machine(&paths);
    let parts = facts.machine.as_mut().unwrap();
    parts.image = Some(host_image(parts, images, || {}).unwrap());
    let digest = HEXLOWER.encode(&Sha256::digest(std::fs::read(&agent).unwrap()));
    let mut spec = spec(Level::Microvm);
    spec.guest = VerifiedGuest::load(&agent, &digest).unwrap();
    spec.guest_arguments = agent_arguments(Level::Microvm);
    Some((spec, facts))
}

fn restored(template: &Template, spec: &SandboxSpec, facts: &HostFacts) -> (Started, UnixStream) {
    let (link, inside) = UnixStream::pair().unwrap();
    // LIMIT: an emulated machine on a busy host.
    link.set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let inputs = StartInputs {
        link: inside.into(),
        workspace: None,
        network: None,
    };
    let plan = plan(spec, facts).unwrap();
    let started = template.restore(plan, inputs, &mut Unwatched).unwrap();
    (started, link)
}

#[test]
fn a_machine_rehearses_while_it_is_nobodys_and_nothing_of_that_is_left() {
    let images = tempfile::tempdir().unwrap();
    let Some((spec, facts)) = machine(images.path()) else {
        return;
    };
    let template = Template::make(plan(&spec, &facts).unwrap(), &mut Unwatched).unwrap();
    let (mut started, mut link) = restored(&template, &spec, &facts);
    for _ in 0..2 {
        rehearse(link.as_fd()).unwrap();
        assert_eq!(hear_control(&mut link)["type"], "machine_ready");
    }
    let fresh = Fresh {
        entropy: [7; ENTROPY_BYTES],
        machine_id: [9; 16],
        wall_clock: Duration::from_secs(1_800_000_000),
    };
    let renewal = started.renewal.take().unwrap();
    renewal.send(link.as_fd(), &fresh).unwrap();
    say(
        &mut link,
        &json!({ "type": "hello", "version": PROTOCOL_VERSION }),
    );
    assert_eq!(hear_control(&mut link)["type"], "hello");
    // Agent, keeper, and the one that looks: a process of a rehearsal would be one more.
    let look = "set -- /proc/[0-9]*/exe; n=0; for p; do d=${p%/exe}; \
                [ -n \"$(tr -d '\\0' < $d/cmdline)\" ] && n=$((n+1)); done; \
                echo $n > /tmp/n; exit $n";
    say(
        &mut link,
        &json!({
            "type": "start_process", "exec": 1, "argv": ["sh", "-c", look],
            "env": [["PATH", "/usr/bin"]], "cwd": "/", "tty": null,
        }),
    );
    let ended = loop {
        let said = hear_control(&mut link);
        if said["type"] == "process_ended" {
            break said;
        }
    };
    println!("{ended}");
    assert_eq!(ended["status"]["exited"], 3, "{ended}");
    // Somebody's machine doesn't rehearse: that is the link's end.
    rehearse(link.as_fd()).unwrap();
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut link, &mut rest).unwrap();
    started.handle.remove().unwrap();
}
