// SPDX-License-Identifier: Apache-2.0
//! Does KVM run a machine here? Answered by a boot: the same plan, kernel and agent as a session's,
//! up to the agent's greeting. A /dev/kvm proves nothing, and neither do the processor's flags:
//! behind some devices a kernel's own code is interpreted, and it never gets that far.

use super::Fresh;
use super::monitor::{Kvm, Monitor, START_WAIT};
use crate::facts::HostFacts;
use crate::plan::plan;
use crate::probe::{chain, spec};
use crate::spec::{Level, SandboxId, SandboxSpec, VerifiedGuest, agent_arguments};
use crate::start::{StartInputs, start};
use rustix::event::Timespec;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use torno_guest_protocol::{
    Frame, GuestDecoder, GuestMessage, HostMessage, PROTOCOL_VERSION, encode_control,
};

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootProbe {
    /// Who makes machines of the level by KVM; none: they are emulated.
    pub monitor: Option<Monitor>,
    /// For people: what was tried, and what became of it.
    pub lines: Vec<String>,
}

/// Boots a machine of that level by each monitor that is here, until one is ready. Every machine is
/// gone again. Takes up to ten seconds and a little for each.
#[must_use]
pub fn boot_probe(
    level: Level,
    facts: &HostFacts,
    guest: &VerifiedGuest,
    (id, uid_base): (&SandboxId, u32),
) -> BootProbe {
    let mut lines = Vec::new();
    let kvm = facts.machine.as_ref().map(|parts| &parts.kvm);
    let Some(kvm) = kvm.filter(|kvm| kvm.is_there) else {
        return BootProbe {
            monitor: None,
            lines: vec!["KVM: no /dev/kvm that this launcher may give to a machine".to_owned()],
        };
    };
    for monitor in candidates(level, kvm) {
        let name = monitor.name();
        let began = Instant::now();
        match boot(level, monitor, facts, (guest, id, uid_base)) {
            Ok(()) => {
                let took = began.elapsed().as_millis();
                lines.push(format!("KVM: a machine of {name}'s was ready in {took} ms"));
                return BootProbe {
                    monitor: Some(monitor),
                    lines,
                };
            }
            Err(why) => lines.push(format!("KVM is there, and {name}: {why}")),
        }
    }
    BootProbe {
        monitor: None,
        lines,
    }
}

fn candidates(level: Level, kvm: &Kvm) -> impl Iterator<Item = Monitor> {
    let here = |monitor: &Monitor| *monitor == Monitor::Qemu || kvm.program(*monitor).is_some();
    Monitor::order(level).iter().copied().filter(here)
}

fn boot(
    level: Level,
    monitor: Monitor,
    facts: &HostFacts,
    (guest, id, uid_base): (&VerifiedGuest, &SandboxId, u32),
) -> Result<(), String> {
    let mut facts = facts.clone();
    if let Some(parts) = &mut facts.machine {
        parts.kvm.proven = vec![(level, monitor)];
    }
    let spec = SandboxSpec {
        guest: guest.clone(),
        guest_arguments: agent_arguments(level),
        ..spec(level, id, uid_base)?
    };
    let plan = plan(&spec, &facts).map_err(|error| chain(&error))?;
    let (ours, theirs) = UnixStream::pair().map_err(|error| chain(&error))?;
    let inputs = StartInputs {
        link: theirs.into(),
        workspace: None,
        network: None,
    };
    let started = start(&plan, inputs).map_err(|error| chain(&error))?;
    let link = started.link.map_or(ours, UnixStream::from);
    let renewed = started
        .renewal
        .map_or(Ok(()), |renewal| renewal.send(link.as_fd(), &NOBODYS));
    let heard = renewed
        .map_err(|error| chain(&error))
        .and_then(|()| await_greeting(link, started.handle.process().try_clone_to_owned()));
    let removed = started.handle.remove();
    heard?;
    removed.map_err(|error| chain(&error))
}

/// What a machine is given that is nobody's, runs nothing, and is gone in a moment.
const NOBODYS: Fresh = Fresh {
    entropy: [0; _],
    machine_id: [0; _],
    wall_clock: Duration::ZERO,
};

/// The agent's first words are that it is ready, and its greeting, or why not.
fn await_greeting(mut link: UnixStream, process: std::io::Result<OwnedFd>) -> Result<(), String> {
    let process = process.map_err(|error| chain(&error))?;
    let late = || format!("a machine did not start within {} s", START_WAIT.as_secs());
    let mut greeting = Default::default();
    let hello = HostMessage::Hello {
        version: PROTOCOL_VERSION,
    };
    encode_control(&hello, &mut greeting).map_err(|error| chain(&error))?;
    link.write_all(&greeting).map_err(|error| chain(&error))?;
    let deadline = Instant::now() + START_WAIT;
    let mut decoder = GuestDecoder::new();
    let mut buffer = [0; 1024];
    loop {
        match decoder.next_frame().map_err(|error| chain(&error))? {
            Some(Frame::Control(GuestMessage::MachineReady {})) => {}
            Some(Frame::Control(GuestMessage::Hello { .. })) => return Ok(()),
            Some(Frame::Control(GuestMessage::MachineUnusable { message })) => {
                let plain = message
                    .chars()
                    .map(|c| if c.is_control() { ' ' } else { c });
                return Err(format!(
                    "its machine is unusable: {}",
                    plain.collect::<String>()
                ));
            }
            Some(_) => return Err("its machine said something else than hello".to_owned()),
            None => {}
        }
        wait(&link, &process, deadline)?.ok_or_else(late)?;
        match link.read(&mut buffer) {
            Ok(0) | Err(_) => return Err("its machine ended before it was ready".to_owned()),
            Ok(count) => decoder.push(buffer.get(..count).unwrap_or_default()),
        }
    }
}

/// Until something comes, or the monitor ends; nothing when the time is over.
fn wait(link: &UnixStream, process: &OwnedFd, deadline: Instant) -> Result<Option<()>, String> {
    use rustix::event::{PollFd, PollFlags, poll};
    let left = deadline.saturating_duration_since(Instant::now());
    let left = Timespec::try_from(left).map_err(|error| error.to_string())?;
    let mut watched = [
        PollFd::new(link, PollFlags::IN),
        PollFd::new(process, PollFlags::IN),
    ];
    let ready = poll(&mut watched, Some(&left)).map_err(|error| error.to_string())?;
    let [said, ended] = &watched;
    if said.revents().is_empty() && !ended.revents().is_empty() {
        return Err("it ended before its machine was ready".to_owned());
    }
    Ok((ready > 0).then_some(()))
}
