// SPDX-License-Identifier: Apache-2.0
//! The agent as init of a virtual machine: makes of a bare kernel what a sandbox's root looks like
//! at the other levels, by the launcher's list, and ends the machine when the agent ends. What it
//! makes here holds the workload back from the agent; the walls that count are the machine's own.
//!
//! ```text
//!   kernel ── modules ── link ── network ── disk, root ──▶ nobody's ── renewed ──▶ agent
//!                                                                   link ends ──▶ power off
//! ```

mod dial;
mod network;
mod rehearsal;
mod renewal;
mod root;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use bytes::BytesMut;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, mount};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::system::{RebootCommand, finit_module, reboot, sethostname};
use torno_guest_protocol::{
    GuestMessage, MACHINE_MODULES, MACHINE_SETUP_PATH, MACHINE_TOOLS, MachineEnd, MachineLink,
    MachineSetup, encode_control,
};

pub(crate) use network::Listeners;
pub(crate) use rehearsal::{Stage, WORD as REHEARSAL};
pub(crate) use renewal::Nobodys;

use crate::settings::{Role, Settings};

/// What the agent is given by a machine that is ready.
#[derive(Debug)]
pub(crate) struct Machine {
    /// Its other end is the gate's.
    pub(crate) link: OwnedFd,
    /// Where the workload's dials land, if there is a network.
    pub(crate) listeners: Option<Listeners>,
    /// What is left to be done for the session that gets it.
    pub(crate) nobodys: Nobodys,
}

/// The launcher's list.
pub(crate) fn read() -> anyhow::Result<MachineSetup> {
    let text = std::fs::read(MACHINE_SETUP_PATH).context("the machine has no set-up")?;
    Ok(MachineSetup::parse(&text)?)
}

/// Goes through the list. The host is told of what fails, as far as there is a link.
pub(crate) fn set_up(setup: &MachineSetup) -> anyhow::Result<(Settings, Machine)> {
    let linked = prepare(setup).and_then(|settings| {
        let link = open_link(setup.link).context("the link")?;
        Ok((settings, link))
    });
    let (settings, link) = match linked {
        Ok(linked) => linked,
        Err(error) => {
            if let Ok(link) = open_link(setup.link) {
                complain(&link, &error);
            }
            return Err(error);
        }
    };
    // A link that is dialled can be had once: it is what a complaint goes by.
    match furnish(setup) {
        Ok((listeners, nobodys)) => {
            let machine = Machine {
                link,
                listeners,
                nobodys,
            };
            Ok((settings, machine))
        }
        Err(error) => {
            complain(&link, &error);
            Err(error)
        }
    }
}

/// What comes before the link.
fn prepare(setup: &MachineSetup) -> anyhow::Result<Settings> {
    let (role, settings) = Settings::parse(setup.arguments.iter().cloned())?;
    ensure!(role == Role::Init, "a machine's agent is its init");
    for (kind, at) in [("proc", "/proc"), ("devtmpfs", "/dev")] {
        mount(kind, at, kind, MountFlags::NOSUID, None).with_context(|| format!("mount {at}"))?;
    }
    for name in &setup.modules {
        load(name).with_context(|| format!("module {name}"))?;
    }
    for (name, value) in &setup.kernel {
        let path = Path::new("/proc/sys").join(name);
        std::fs::write(&path, value).with_context(|| format!("{}", path.display()))?;
    }
    sethostname(setup.hostname.as_bytes()).context("host name")?;
    limit(Resource::Nofile, DESCRIPTORS).context("descriptors")?;
    // It binds users, of which the workload is the only one.
    limit(Resource::Nproc, setup.processes).context("processes")?;
    Ok(settings)
}

/// What comes after it.
fn furnish(setup: &MachineSetup) -> anyhow::Result<(Option<Listeners>, Nobodys)> {
    // Before the disk: what may be somebody's image has no part in it.
    let listeners = setup.network.as_ref().map(network::seal).transpose()?;
    drop_tools().context("the tools")?;
    let disk = await_device(|name| name == DISK).context("the disk")?;
    let tree = root::enter(&disk, setup)?;
    Ok((listeners, Nobodys { tree }))
}

/// They lie in the machine's memory, and nobody needs them any more.
fn drop_tools() -> io::Result<()> {
    match std::fs::remove_dir_all(MACHINE_TOOLS) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Tells the host why there is no sandbox.
fn complain(link: &OwnedFd, error: &anyhow::Error) {
    let message = complaint(error);
    let mut frame = BytesMut::new();
    if encode_control(&GuestMessage::MachineUnusable { message }, &mut frame).is_ok() {
        // Without a link nobody can be told.
        let _told = rustix::io::write(link, &frame);
        std::thread::sleep(COMPLAINT_WAIT);
    }
}

/// An error, as the host is told.
pub(crate) fn complaint(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    text.chars().take(COMPLAINT_CHARACTERS).collect()
}

/// Ends the machine; the kernel does the same when init ends.
pub(crate) fn power_off(end: MachineEnd) {
    if end == MachineEnd::PowerOff {
        // What can't be switched off is restarted, which QEMU takes for its end too.
        let _off = reboot(RebootCommand::PowerOff);
    }
    let _restarted = reboot(RebootCommand::Restart);
}

fn limit(resource: Resource, most: u64) -> rustix::io::Result<()> {
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    setrlimit(resource, limit)
}

fn load(name: &str) -> anyhow::Result<()> {
    let file = File::open(PathBuf::from(MACHINE_MODULES).join(name))?;
    match finit_module(file, c"", 0) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(error) => Err(io::Error::from(error).into()),
    }
}

/// The link, whatever it is made of.
fn open_link(link: MachineLink) -> anyhow::Result<OwnedFd> {
    match link {
        MachineLink::Port => open_port(),
        MachineLink::Vsock { port } => dial::host(port, DEVICE_WAIT),
    }
}

/// The port, once the host holds its other end: before that, reading finds an end of file.
fn open_port() -> anyhow::Result<OwnedFd> {
    let path = await_device(is_link)?;
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let port = rustix::fs::open(path, flags, Mode::empty())?;
    let end = Instant::now() + DEVICE_WAIT;
    while is_hung_up(&port)? {
        if Instant::now() > end {
            bail!("nobody holds the other end");
        }
        std::thread::sleep(DEVICE_STEP);
    }
    Ok(port)
}

fn is_hung_up(port: &OwnedFd) -> rustix::io::Result<bool> {
    let mut watched = [PollFd::new(port, PollFlags::OUT)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut watched, Some(&now))?;
    Ok(watched
        .iter()
        .any(|port| port.revents().contains(PollFlags::HUP)))
}

/// Devices appear when their drivers have found them.
fn await_device(is_it: impl Fn(&str) -> bool) -> anyhow::Result<PathBuf> {
    let end = Instant::now() + DEVICE_WAIT;
    loop {
        for entry in std::fs::read_dir("/dev")? {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(&is_it) {
                return Ok(entry.path());
            }
        }
        if Instant::now() > end {
            bail!("no driver has found it");
        }
        std::thread::sleep(DEVICE_STEP);
    }
}

/// The first port of the one virtio-serial device, whose number depends on the other devices.
fn is_link(name: &str) -> bool {
    name.starts_with("vport") && name.ends_with("p1")
}

/// The one disk.
const DISK: &str = "vda";
// LIMIT: drivers find their devices within milliseconds; an emulated processor under load takes
// longer, and the gate waits no longer than this for the first word.
const DEVICE_WAIT: Duration = Duration::from_secs(45);
/// What was written is in QEMU's hands by then.
pub(crate) const COMPLAINT_WAIT: Duration = Duration::from_millis(100);
// LIMIT: the chain of an error.
const COMPLAINT_CHARACTERS: usize = 1_000;
const DEVICE_STEP: Duration = Duration::from_millis(1);
// LIMIT: the same as elsewhere; the agent takes fewer if it wants fewer.
const DESCRIPTORS: u64 = 65_536;
