// SPDX-License-Identifier: Apache-2.0
//! A machine that has booted and is nobody's, kept for others to begin as: its memory and the state
//! of its devices, in two files that exist in this process alone and that nobody can write to any
//! more. It ran no code but its kernel's and the agent's, and holds nothing of any session. What is
//! restored from it has pages of its own for all that it writes.

use super::qmp::{self, Qmp, QmpError};
use super::renewal;
use crate::plan::Plan;
use crate::start::{
    ClaimError, Host, StartError, StartInputs, StartStep, Started, Watch, start_further,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags, fcntl_add_seals, fstat, ftruncate};
use rustix::net::{RecvFlags, recv};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use thiserror::Error;
use torno_guest_protocol::machine_ready;

use crate::stage::Doors;

/// LIMIT: an emulated machine on a busy host; one that isn't ready by then is no template.
const BOOT_WAIT: Duration = Duration::from_secs(60);
/// LIMIT: how soon it is noticed that nobody wants it any more.
const BOOT_LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};
/// LIMIT: 300 KB of a full machine, 60 of a micro one; memory is not in it.
const STATE_BYTES_MAX: u64 = 16 << 20;

/// QEMU's descriptors of a template's files, after that of its monitor.
pub(super) const MEMORY: usize = qmp::DESCRIPTOR + 1;
pub(super) const STATE: usize = MEMORY + 1;

/// Why there is no template.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The plan is none of a machine.
    #[error("only a machine can be a template")]
    NoMachine,
    /// It did not start.
    #[error("the template's machine did not start")]
    Start(#[from] StartError),
    /// It did not become ready.
    #[error("the template's machine did not become ready")]
    Boot(#[source] io::Error),
    /// It could not be kept.
    #[error("the template's machine could not be kept")]
    Keep(#[from] QmpError),
    /// Its files could not be made or sealed.
    #[error("the template's files could not be made")]
    Files(#[source] io::Error),
}

/// A template.
#[derive(Debug)]
pub struct Template {
    made_by: Plan,
    host: Host,
    memory: OwnedFd,
    state: OwnedFd,
}

impl Template {
    /// Boots a machine by a plan, keeps what it is then, and ends it.
    ///
    /// # Errors
    /// [`TemplateError`]; nothing of it is left.
    pub fn make(plan: Plan, watch: &mut dyn Watch) -> Result<Self, TemplateError> {
        let host = Host::of(&plan);
        let machine = plan.machine.as_ref();
        let qemu = machine.and_then(|machine| machine.qemu.as_ref());
        let words = &qemu.ok_or(TemplateError::NoMachine)?.words;
        let memory = file("memory", words.memory_bytes()).map_err(TemplateError::Files)?;
        let state = file("state", 0).map_err(TemplateError::Files)?;
        let (link, theirs) =
            std::os::unix::net::UnixStream::pair().map_err(TemplateError::Files)?;
        let (monitor, qemus) = Qmp::pair().map_err(TemplateError::Files)?;
        let inputs = StartInputs {
            link: theirs.into(),
            workspace: None,
            network: None,
        };
        let further = [qemus.as_fd(), memory.as_fd()];
        let (started, _) = start_further(&plan.clone().template(), inputs, &further, watch)?;
        drop(qemus);
        await_ready(link.as_fd(), watch).map_err(TemplateError::Boot)?;
        renewal::rehearse(link.as_fd()).map_err(TemplateError::Boot)?;
        await_ready(link.as_fd(), watch).map_err(TemplateError::Boot)?;
        monitor.keep(state.as_fd())?;
        // Ended before its files are sealed: nobody may have them mapped for writing then.
        started.handle.remove().map_err(TemplateError::Files)?;
        seal(&memory, &state).map_err(TemplateError::Files)?;
        Ok(Self {
            made_by: plan,
            host,
            memory,
            state,
        })
    }

    /// Whether the machine of a plan would be this one once it has booted.
    #[must_use]
    pub fn fits(&self, wanted: &Plan) -> bool {
        // Without `..`: what a plan gains is compared here, or said not to matter.
        let Plan {
            // Who it is on the host, and QEMU's words with it.
            id: _,
            ids: _,
            config: _,
            level,
            runtime,
            tree,
            cgroup,
            // A machine's workspace is its own.
            workspace: _,
            rules: _,
            network,
            keeper: _,
            cgroups: _,
            monitor,
            machine,
        } = wanted;
        let made = &self.made_by;
        let machines = machine.as_ref().zip(made.machine.as_ref());
        *level == made.level
            && *runtime == made.runtime
            && *tree == made.tree
            && *cgroup == made.cgroup
            && *network == made.network
            && *monitor == made.monitor
            && machines.is_some_and(|(one, other)| one.boots_like(other))
    }

    /// Whether what it was made from is still there.
    ///
    /// # Errors
    /// [`ClaimError::Host`] when it isn't.
    pub fn check(&self) -> Result<(), ClaimError> {
        if self.host == Host::of(&self.made_by) {
            Ok(())
        } else {
            Err(ClaimError::Host)
        }
    }

    /// Bytes of memory that it holds.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let of = |file: &OwnedFd| fstat(file).map_or(0, |found| found.st_blocks);
        let blocks = [&self.memory, &self.state].map(of).iter().sum::<i64>();
        u64::try_from(blocks).unwrap_or(0) * BLOCK_BYTES
    }

    /// Starts the machine of a plan that fits, from here.
    ///
    /// # Errors
    /// [`StartError`]; whatever was made is gone again.
    pub fn restore(
        &self,
        plan: Plan,
        inputs: StartInputs,
        watch: &mut dyn Watch,
    ) -> Result<Started, StartError> {
        let plan = plan.restored();
        self.restore_open(&plan, inputs, watch)
            .map(|(started, _)| started)
    }

    /// The same by the plan of a restored machine, with the doors to its files.
    pub(crate) fn restore_open(
        &self,
        plan: &Plan,
        inputs: StartInputs,
        watch: &mut dyn Watch,
    ) -> Result<(Started, Doors), StartError> {
        if !plan.is_restored() {
            return Err(StartError::Template(io::ErrorKind::InvalidInput.into()));
        }
        let (monitor, qemus) = Qmp::pair().map_err(StartError::Template)?;
        // Each clone reads at a place of its own, and has nothing that could be written through.
        let [memory, state] =
            [&self.memory, &self.state].map(|file| again(file).map_err(StartError::Template));
        let (memory, state) = (memory?, state?);
        let further = [qemus.as_fd(), memory.as_fd(), state.as_fd()];
        let made = start_further(plan, inputs, &further, watch)?;
        drop(qemus);
        monitor.restore(STATE).map_err(StartError::Restore)?;
        Ok(made)
    }
}

/// `st_blocks` counts in these (stat(2)).
const BLOCK_BYTES: u64 = 512;

fn file(name: &str, bytes: u64) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create(format!("torno-template-{name}"), flags)?;
    ftruncate(&file, bytes)?;
    Ok(file)
}

/// The same file, opened once more for reading.
fn again(file: &OwnedFd) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

fn seal(memory: &OwnedFd, state: &OwnedFd) -> io::Result<()> {
    let length = u64::try_from(fstat(state)?.st_size).unwrap_or(0);
    if !(1..=STATE_BYTES_MAX).contains(&length) {
        return Err(io::Error::other(format!("a state of {length} bytes")));
    }
    // Pages that are mapped privately may still be written to, each writer its own.
    let all = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    for file in [memory, state] {
        fcntl_add_seals(file, all)?;
    }
    Ok(())
}

/// The one frame that a machine says when it waits to be somebody's, byte by byte and nothing else:
/// only this machine's kernel and agent have run in it.
fn await_ready(link: BorrowedFd<'_>, watch: &mut dyn Watch) -> io::Result<()> {
    let frame = machine_ready().map_err(io::Error::other)?;
    let end = Instant::now() + BOOT_WAIT;
    let mut expected = &frame[..];
    while !expected.is_empty() {
        watch.before(StartStep::Process)?;
        if Instant::now() > end {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if poll(&mut [PollFd::new(&link, PollFlags::IN)], Some(&BOOT_LOOK))? == 0 {
            continue;
        }
        let mut piece = [0; 64];
        let room = expected.len().min(piece.len());
        let space = piece.get_mut(..room).unwrap_or_default();
        let (read, _) = recv(link, space, RecvFlags::DONTWAIT)?;
        let said = piece.get(..read).unwrap_or_default();
        expected = match expected.strip_prefix(said) {
            Some(rest) if !said.is_empty() => rest,
            _ => return Err(io::Error::other("it says something else")),
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    fn heard(bytes: &[u8]) -> io::Result<()> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(bytes).unwrap();
        drop(theirs);
        await_ready(ours.as_fd(), &mut crate::start::Unwatched)
    }

    #[test]
    fn only_a_machine_that_says_it_is_ready_becomes_a_template() {
        let ready = machine_ready().unwrap();
        heard(&ready).unwrap();
        let mut complaint = ready.clone();
        complaint[20] ^= 1;
        for other in [&complaint[..], &[], &ready[..ready.len() - 1], b"x"] {
            assert!(heard(other).is_err(), "{other:?}");
        }
    }

    /// A template of that plan, as far as it is compared.
    fn template(made_by: Plan) -> Template {
        Template {
            host: Host::of(&made_by),
            made_by,
            memory: file("memory", 8192).unwrap(),
            state: file("state", 0).unwrap(),
        }
    }

    #[test]
    fn a_template_serves_machines_of_its_own_image_and_of_no_other() {
        use crate::spec::{ImageTree, Level};
        use crate::vm::plan::tests::{facts, spec};
        let of = |image: Option<(&str, &str)>| {
            let mut spec = spec(Level::Microvm);
            spec.image = image.map(|(digest, disk)| ImageTree {
                root: format!("/images/{digest}/root").into(),
                parts: Vec::new(),
                env: Vec::new(),
                disk: Some(format!("/images/{digest}/{disk}").into()),
            });
            crate::plan(&spec, &facts()).unwrap()
        };
        let plans = [
            None,
            Some(("one", "disk-1")),
            Some(("one", "disk-2")),
            Some(("two", "disk-1")),
        ]
        .map(of);
        for (at, made_by) in plans.iter().enumerate() {
            let template = template(made_by.clone());
            let fitting = plans.iter().map(|plan| template.fits(plan));
            let own = (0..plans.len()).map(|other| other == at);
            assert!(fitting.eq(own), "{at}");
        }
    }

    #[test]
    fn a_templates_files_can_not_be_written_and_every_reader_begins_at_their_beginning() {
        let (memory, state) = (file("memory", 8192).unwrap(), file("state", 0).unwrap());
        assert!(seal(&memory, &state).is_err(), "a state of nothing");
        rustix::io::write(&state, b"state").unwrap();
        seal(&memory, &state).unwrap();
        for file in [&memory, &state] {
            assert!(rustix::io::write(file, b"x").is_err());
            assert!(ftruncate(file, 0).is_err());
        }
        for _ in 0..2 {
            let mut found = [0; 8];
            let reader = again(&state).unwrap();
            assert_eq!(rustix::io::read(&reader, &mut found).unwrap(), 5);
        }
    }
}
