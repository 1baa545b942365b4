// SPDX-License-Identifier: Apache-2.0
//! Plan → a running sandbox, and its end. A start is a fixed row of named steps; when one fails,
//! what
//! the earlier ones made is taken down before the error is returned.

mod spare;
mod step;

pub(crate) use spare::Host;
pub use spare::{ClaimError, Spare};
pub use step::{StartError, StartStep, Unwatched, Watch};

use crate::cgroup::{Cgroup, Reach, group_name};
use crate::handle::Handle;
use crate::keeper::Keeper;
use crate::network::SealedNetwork;
use crate::plan::{Network, Plan};
use crate::runtime::{LOG, PID_FILE, RuntimeKind};
use crate::spec::Workspace;
use crate::stage::{self, Doors, Sources};
use crate::sys::{self, Birth};
use crate::vm::{self, Renewal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;

/// What a start is given besides the plan.
#[derive(Debug)]
pub struct StartInputs {
    /// Becomes descriptor 0 of the first process; the only one besides 1 and 2 on /dev/null.
    pub link: OwnedFd,
    /// The workspace's directory, for a plan that has one.
    pub workspace: Option<OwnedFd>,
    /// A network made ahead; none makes one now.
    pub network: Option<SealedNetwork>,
}

/// A running sandbox.
#[derive(Debug)]
pub struct Started {
    /// What the workload's dials come by.
    pub entrances: Entrances,
    /// Its life.
    pub handle: Handle,
    /// The link, where the sandbox has dialled it; else it is the other end of what was given.
    pub link: Option<OwnedFd>,
    /// What a machine has yet to be told; without it, it serves nobody.
    pub renewal: Option<Renewal>,
}

/// What a workload's dials come by.
#[derive(Debug)]
pub enum Entrances {
    /// Sockets in the sealed namespace.
    Sockets(Sockets),
    /// The link: the stack is the machine's own, and its agent carries every connection over.
    Link,
}

impl Entrances {
    fn of(network: Option<SealedNetwork>) -> Self {
        network.map_or(Self::Link, |network| {
            Self::Sockets(Sockets {
                tcp_v4: network.tcp_v4,
                tcp_v6: network.tcp_v6,
                dns_udp: network.dns_udp,
                dns_tcp: network.dns_tcp,
                proxy: network.proxy,
            })
        })
    }
}

/// The sockets of a sealed namespace.
#[derive(Debug)]
pub struct Sockets {
    /// Every IPv4 dial, any port; the destination is `SO_ORIGINAL_DST`.
    pub tcp_v4: OwnedFd,
    /// Every IPv6 dial; absent where the kernel has no IPv6.
    pub tcp_v6: Option<OwnedFd>,
    /// DNS on 127.0.0.1:53.
    pub dns_udp: OwnedFd,
    /// DNS over TCP.
    pub dns_tcp: OwnedFd,
    /// CONNECT and absolute-form, 127.0.0.1:3128.
    pub proxy: OwnedFd,
}

/// Starts the sandbox.
///
/// # Errors
/// [`StartError`]; whatever was made is gone again.
pub fn start(plan: &Plan, inputs: StartInputs) -> Result<Started, StartError> {
    start_watched(plan, inputs, &mut Unwatched)
}

/// Starts the sandbox under a watch.
///
/// # Errors
/// [`StartError`]; whatever was made is gone again.
pub fn start_watched(
    plan: &Plan,
    inputs: StartInputs,
    watch: &mut dyn Watch,
) -> Result<Started, StartError> {
    start_open(plan, inputs, watch).map(|(started, _)| started)
}

/// Starts the sandbox and keeps the doors to its files, for who has to write some of them yet.
pub(crate) fn start_open(
    plan: &Plan,
    inputs: StartInputs,
    watch: &mut dyn Watch,
) -> Result<(Started, Doors), StartError> {
    start_further(plan, inputs, &[], watch)
}

/// The same with descriptors further than the link, from 3 on: of QEMU, by which it is told what to
/// restore.
pub(crate) fn start_further(
    plan: &Plan,
    inputs: StartInputs,
    further: &[BorrowedFd<'_>],
    watch: &mut dyn Watch,
) -> Result<(Started, Doors), StartError> {
    if inputs.workspace.is_some() == (plan.workspace == Workspace::None) {
        return Err(StartError::WorkspaceDescriptor);
    }
    see(watch, StartStep::Network)?;
    let network = match (&plan.network, inputs.network) {
        (Network::Machine, _) => None,
        (Network::Sealed(_), Some(network)) => Some(network),
        (Network::Sealed(nft), None) => Some(SealedNetwork::make(nft)?),
    };
    see(watch, StartStep::Ownership)?;
    if let Some(workspace) = &inputs.workspace {
        stage::give_to(workspace.as_fd(), plan.ids.agent()).map_err(at(StartStep::Ownership))?;
    }
    see(watch, StartStep::Sources)?;
    let sources = Sources::take(plan, inputs.workspace.as_ref().map(AsFd::as_fd))
        .map_err(at(StartStep::Sources))?;
    see(watch, StartStep::Cgroup)?;
    let reach = if plan.runtime.kind == RuntimeKind::Runc {
        Reach::Every
    } else {
        Reach::Limits
    };
    let cgroup = plan
        .cgroups
        .make(&group_name(&plan.id), plan.cgroup, reach)?;
    see(watch, StartStep::Keeper)?;
    let keeper = plan
        .keeper
        .as_ref()
        .map(|program| Keeper::start(program, &cgroup))
        .transpose()
        .map_err(at(StartStep::Keeper))?;
    let groups = cgroup.open().map_err(at(StartStep::Cgroup))?;
    let staged = Staged {
        plan,
        sources,
        network: network.as_ref(),
        cgroup: &cgroup,
        groups,
        link: inputs.link,
        further,
    };
    let (number, doors) = in_own_thread(|| staged.run(watch))?;
    see(watch, StartStep::Process)?;
    let process = first_process(number, &cgroup).map_err(at(StartStep::Process))?;
    // A runtime's own helpers are dead by now.
    cgroup.reap();
    let handle = Handle {
        id: plan.id.clone(),
        process,
        cgroup,
        keeper,
        dead: false,
    };
    // A handle that is dropped ends the sandbox.
    let link = dialled(plan, &doors, &handle)?;
    let started = Started {
        entrances: Entrances::of(network),
        handle,
        link,
        renewal: Renewal::of(plan),
    };
    Ok((started, doors))
}

/// The link that a machine has dialled, once its monitor was told to make it.
fn dialled(plan: &Plan, doors: &Doors, handle: &Handle) -> Result<Option<OwnedFd>, StartError> {
    let Some(orders) = &plan.monitor else {
        return Ok(None);
    };
    let home = doors.home().ok_or_else(|| io::ErrorKind::NotFound.into());
    let home = home.map_err(at(StartStep::Process))?;
    let link = vm::make(orders, home, handle.process(), &handle.cgroup)?;
    Ok(Some(link))
}

/// Makes the caller the parent of what runtimes leave behind, so that it can reap them: for the
/// launcher, once.
///
/// # Errors
/// When the kernel refuses.
pub fn adopt_orphans() -> io::Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).map_err(io::Error::from)
}

/// The error of a step.
fn at(step: StartStep) -> impl Fn(io::Error) -> StartError {
    move |source| StartError::Step { step, source }
}

fn see(watch: &mut dyn Watch, step: StartStep) -> Result<(), StartError> {
    watch
        .before(step)
        .map_err(|source| StartError::Step { step, source })
}

/// The thread ends with its namespaces; only the sandbox's processes keep them.
fn in_own_thread<T: Send>(
    work: impl FnOnce() -> Result<T, StartError> + Send,
) -> Result<T, StartError> {
    let failed = |source| StartError::Step {
        step: StartStep::Stage,
        source,
    };
    thread::scope(|scope| {
        let worker = thread::Builder::new()
            .name("stage".into())
            .spawn_scoped(scope, work)
            .map_err(failed)?;
        worker
            .join()
            .unwrap_or_else(|_| Err(failed(io::ErrorKind::Other.into())))
    })
}

/// What the staging thread works with.
struct Staged<'a> {
    plan: &'a Plan,
    sources: Sources,
    /// None is an empty one.
    network: Option<&'a SealedNetwork>,
    cgroup: &'a Cgroup,
    /// Opened while the hierarchies are still in sight.
    groups: sys::Entrances,
    link: OwnedFd,
    further: &'a [BorrowedFd<'a>],
}

impl Staged<'_> {
    fn run(self, watch: &mut dyn Watch) -> Result<(i32, Doors), StartError> {
        let Self {
            plan,
            sources,
            network,
            cgroup,
            groups,
            link,
            further,
        } = self;
        let mut take = |step: StartStep, act: &mut dyn FnMut() -> io::Result<()>| {
            watch
                .before(step)
                .and_then(|()| act())
                .map_err(|source| StartError::Step { step, source })
        };
        let mut root = None;
        take(StartStep::Stage, &mut || {
            match network {
                Some(network) => rustix::thread::move_into_link_name_space(
                    network.namespace.as_fd(),
                    Some(rustix::thread::LinkNameSpaceType::Network),
                )?,
                None => sys::leave_network_namespace()?,
            }
            root = Some(stage::enter(plan.runtime.kind, &plan.cgroups)?);
            Ok(())
        })?;
        let mut sources = Some(sources);
        take(StartStep::Tree, &mut || {
            stage::build(plan, sources.take().ok_or(io::ErrorKind::InvalidInput)?)
        })?;
        take(StartStep::Rules, &mut || match plan.workspace {
            Workspace::None => Ok(()),
            Workspace::Copy | Workspace::Shared => stage::apply_rules(plan),
        })?;
        take(StartStep::Configuration, &mut || {
            stage::close()?;
            stage::write_configuration(plan)
        })?;
        let doors = root.ok_or_else(|| io::ErrorKind::InvalidInput.into());
        let doors = doors.and_then(|root| Doors::open(root, plan));
        let doors = doors.map_err(at(StartStep::Tree))?;
        // A monitor with an interface is given nothing: its machine dials.
        let link = match plan.monitor {
            None => link,
            Some(_) => File::open("/dev/null")
                .map_err(at(StartStep::Runtime))?
                .into(),
        };
        let mut child = None;
        take(StartStep::Runtime, &mut || {
            child = Some(spawn_runtime(plan, &groups, link.as_fd(), further)?);
            Ok(())
        })?;
        // The sandbox has it; nobody else may hold the link open.
        drop(link);
        if let Some(child) = child {
            wait_for_runtime(plan.runtime.kind, &child, cgroup)?;
        }
        let number = written_pid().map_err(at(StartStep::Runtime))?;
        Ok((number, doors))
    }
}

fn spawn_runtime(
    plan: &Plan,
    groups: &sys::Entrances,
    link: BorrowedFd<'_>,
    further: &[BorrowedFd<'_>],
) -> io::Result<OwnedFd> {
    let words = plan
        .runtime
        .arguments(plan.id.as_str(), plan.file_access(), further.len());
    let birth = Birth {
        program: &plan.runtime.path,
        arguments: &words,
        stdin: link,
        further,
    };
    birth.start(groups)
}

/// LIMIT: runsc takes 0.2 s on a busy machine; a runtime that hangs (KVM probes do) is killed.
const RUNTIME_WAIT: Timespec = Timespec {
    tv_sec: 30,
    tv_nsec: 0,
};
/// LIMIT: a runtime's complaint in an error.
const MESSAGE_BYTES_MAX: u64 = 2048;

fn wait_for_runtime(kind: RuntimeKind, child: &OwnedFd, cgroup: &Cgroup) -> Result<(), StartError> {
    let failed = at(StartStep::Runtime);
    let refused = |message| StartError::Runtime {
        runtime: kind.name(),
        message,
    };
    let wait = || waitid(WaitId::PidFd(child.as_fd()), WaitIdOptions::EXITED);
    let ended = poll(
        &mut [PollFd::new(child, PollFlags::IN)],
        Some(&RUNTIME_WAIT),
    );
    if !matches!(ended, Ok(1..)) {
        cgroup.kill();
        // The kill may have collected it already.
        let _ = wait();
        return Err(refused("no answer in 30 s".to_owned()));
    }
    let status = wait().map_err(|error| failed(error.into()))?;
    if status.and_then(|status| status.exit_status()) == Some(0) {
        return Ok(());
    }
    let mut bytes = Vec::new();
    let _ = File::open(LOG).and_then(|log| log.take(MESSAGE_BYTES_MAX).read_to_end(&mut bytes));
    let text = String::from_utf8_lossy(&bytes);
    Err(refused(
        text.chars()
            .map(|c| if c.is_control() || c == '`' { ' ' } else { c })
            .collect(),
    ))
}

fn written_pid() -> io::Result<i32> {
    Ok(fs::read_to_string(PID_FILE)?
        .trim()
        .parse()
        .map_err(|_| io::ErrorKind::InvalidData)?)
}

/// The pid that the runtime wrote, taken only if it is in the sandbox's group: a reused number
/// isn't.
fn first_process(number: i32, cgroup: &Cgroup) -> io::Result<OwnedFd> {
    let pid = Pid::from_raw(number).ok_or(io::ErrorKind::InvalidData)?;
    let process = pidfd_open(pid, PidfdFlags::NONBLOCK)?;
    if cgroup.members().contains(&number) {
        Ok(process)
    } else {
        Err(io::Error::other("the first process ended at once"))
    }
}
