// SPDX-License-Identifier: Apache-2.0
//! The keeper: parent and subreaper of one exec's processes, a process of its own.
//! It starts the program behind the last walls, reaps whatever is orphaned to it, passes signals,
//! and when told to kill, or when the agent is gone, kills the whole family.
//!
//! ```text
//!   agent ── StartProcess + streams ──▶ keeper ── spawn ──▶ program ─▶ …
//!         ── SendSignal ─────────────▶
//!         ◀─ ProcessStarted, ProcessEnded | ProcessFailed
//!         ── (closed) ───────────────▶ kills all, exits      exits when no descendant is left
//! ```

mod lookup;

use std::collections::HashSet;
use std::io::{self, Read, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, bail};
use bytes::BytesMut;
use rustix::fs::Mode;
use rustix::process::{
    Pid, Signal as Number, WaitId, WaitIdOptions, WaitOptions, getpid, ioctl_tiocsctty,
    kill_process, kill_process_group, set_child_subreaper, setsid, umask, wait, waitid,
};
use tokio::signal::unix::{SignalKind, signal};
use torno_guest_protocol::{
    ExecId, Frame, GuestMessage, HostDecoder, HostMessage, ProcessFailure, ProcessStatus, Signal,
    TerminalSize, encode_control,
};

use crate::handover::{self, Streams};
use crate::settings::Settings;
use crate::{link, tree, walls};

/// What the agent wants to be run.
#[derive(Debug)]
struct Plan {
    exec: ExecId,
    argv: Vec<String>,
    env: Vec<(String, String)>,
    cwd: String,
    tty: Option<TerminalSize>,
}

/// Why the program doesn't run.
type Refusal = (ProcessFailure, String);

/// The program itself, as long as its pid can't mean another process.
#[derive(Debug, Default)]
struct Program {
    unreaped: Option<Pid>,
}

/// Runs one exec to the end of its last process.
pub(crate) fn run(settings: &Settings) -> anyhow::Result<()> {
    let control = link::take_standard_input().context("cannot take the agent's socket")?;
    setsid().context("cannot begin a session")?;
    set_child_subreaper(Some(getpid())).context("cannot become the orphans' parent")?;
    walls::limit_resources()?;
    umask(Mode::WGRP | Mode::WOTH);

    let received = handover::receive(&control).context("cannot take the streams")?;
    let Some((first, streams)) = received else {
        // It was started ahead, and no command came.
        return Ok(());
    };
    let mut agent = Agent::new(UnixStream::from(control), &first);
    let plan = agent.plan()?;
    outlive_terminal_signals()?;
    if plan.tty.is_some() {
        let [terminal, ..] = &streams;
        ioctl_tiocsctty(terminal).context("cannot take the terminal")?;
    }
    let exec = plan.exec;
    let reports = agent
        .socket
        .try_clone()
        .context("cannot duplicate the agent's socket")?;
    let program = Arc::new(Mutex::new(Program::default()));
    match start(settings.clone(), plan, streams, &program) {
        Ok(pid) => {
            let pid = pid.as_raw_nonzero().get();
            // An agent that is gone is noticed by the control thread, which then kills all.
            let _agent_gone = report(&reports, &GuestMessage::ProcessStarted { exec, pid });
        }
        Err((code, message)) => {
            return report(
                &reports,
                &GuestMessage::ProcessFailed {
                    exec,
                    code,
                    message,
                },
            );
        }
    }
    let (shared, identity) = (Arc::clone(&program), settings.clone());
    std::thread::Builder::new()
        .name("control".into())
        .spawn(move || obey(agent, &shared, &identity))
        .context("cannot start the control thread")?;
    reap(exec, &program, &reports)
}

/// Starts the program from a thread that is the workload's user and has no capability.
fn start(
    settings: Settings,
    plan: Plan,
    streams: Streams,
    program: &Arc<Mutex<Program>>,
) -> Result<Pid, Refusal> {
    let shared = Arc::clone(program);
    let launcher = std::thread::Builder::new()
        .name("launcher".into())
        .spawn(move || {
            walls::drop_identity(&settings).map_err(|error| {
                (
                    ProcessFailure::WallMissing,
                    format!("{:#}", anyhow::Error::from(error)),
                )
            })?;
            enter_directory(&plan.cwd)?;
            let mut program = lock(&shared);
            let pid = spawn(&plan, streams)?;
            program.unreaped = Some(pid);
            Ok(pid)
        });
    let no_thread = |error: io::Error| (ProcessFailure::NoResources, format!("no thread: {error}"));
    launcher.map_err(no_thread)?.join().unwrap_or_else(|_| {
        Err((
            ProcessFailure::Failed,
            "the launching thread died; report this".into(),
        ))
    })
}

/// The keeper itself goes there, as the workload's user: it has no other use for a directory, and a
/// child that has to change its own must be forked (see [`lookup`]).
fn enter_directory(cwd: &str) -> Result<(), Refusal> {
    rustix::process::chdir(cwd).map_err(|error| {
        (
            ProcessFailure::BadDirectory,
            format!("cannot work in `{cwd}`: {error}; name a directory that exists inside"),
        )
    })
}

fn spawn(plan: &Plan, [stdin, stdout, stderr]: Streams) -> Result<Pid, Refusal> {
    let Some((name, arguments)) = plan.argv.split_first() else {
        return Err((
            ProcessFailure::BadArguments,
            "the command is empty; name a program".into(),
        ));
    };
    let path = plan.env.iter().rev().find(|(name, _)| name == "PATH");
    let found = lookup::program(name, path.map(|(_, path)| path.as_str()));
    let mut command = Command::new(found.map_err(|error| refusal(name, &error))?);
    command
        .arg0(name)
        .args(arguments)
        .env_clear()
        .envs(plan.env.iter().map(|(name, value)| (name, value)))
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr);
    if plan.tty.is_none() {
        // On a terminal the program stays in the keeper's group: that one is in the foreground.
        command.process_group(0);
    }
    let child = match command.spawn() {
        // A script without `#!`: a forked child has the C library's way with it, the shell.
        Err(error) if error.raw_os_error() == Some(ENOEXEC) => command.current_dir(".").spawn(),
        spawned => spawned,
    };
    let child = child.map_err(|error| refusal(name, &error))?;
    i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| {
            (
                ProcessFailure::Failed,
                "the kernel gave an impossible pid".into(),
            )
        })
}

fn refusal(name: &str, error: &io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::NotFound => (
            ProcessFailure::NotFound,
            format!("`{name}` was not found; install it in the image or give its full path"),
        ),
        io::ErrorKind::PermissionDenied => (
            ProcessFailure::NotExecutable,
            format!("`{name}` may not be executed; check its permissions (chmod +x)"),
        ),
        io::ErrorKind::ArgumentListTooLong => (
            ProcessFailure::BadArguments,
            format!("the command line of `{name}` is too long; pass data by a file"),
        ),
        io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => (
            ProcessFailure::NoResources,
            format!("no room for `{name}`: {error}; end other processes or raise the limits"),
        ),
        _ if matches!(error.raw_os_error(), Some(ENOEXEC | EISDIR | ETXTBSY)) => (
            ProcessFailure::NotExecutable,
            format!("`{name}` is not a program this machine runs: {error}"),
        ),
        _ => (
            ProcessFailure::Failed,
            format!("cannot run `{name}`: {error}"),
        ),
    }
}

/// Reaps until no child is left, and reports the program's own end.
// ATTACK: 156
fn reap(exec: ExecId, program: &Mutex<Program>, reports: &UnixStream) -> anyhow::Result<()> {
    loop {
        // Waits without reaping; the pid is given back to the kernel only under the lock, so that
        // no signal can hit its next owner.
        match waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::CHILD) => return Ok(()),
            Err(error) => return Err(error).context("cannot wait for processes"),
        }
        let mut program = lock(program);
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if program.unreaped != Some(pid) {
                continue;
            }
            program.unreaped = None;
            let status = match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => ProcessStatus::Exited(code),
                (None, Some(signal)) => ProcessStatus::Signaled(signal),
                // Only ends are waited for; a kernel that says otherwise gets the general failure.
                (None, None) => ProcessStatus::Exited(i32::from(u8::MAX)),
            };
            // Reaping goes on without an agent: the control thread is killing the family.
            let _agent_gone = report(reports, &GuestMessage::ProcessEnded { exec, status });
        }
    }
}

/// The control thread: signals, and the end of everything when the agent closes or errs.
fn obey(mut agent: Agent, program: &Mutex<Program>, settings: &Settings) {
    // As the workload's user it may signal the workload without a capability.
    let is_able = walls::drop_identity(settings).is_ok();
    while let Ok(message) = agent.next() {
        let HostMessage::SendSignal { signal, .. } = message else {
            break;
        };
        match number(signal) {
            None => kill_family(),
            Some(number) => pass(program, number),
        }
    }
    kill_family();
    std::process::exit(i32::from(!is_able));
}

// ATTACK: 151, 153
fn kill_family() {
    match tree::kill_descendants(getpid(), &HashSet::new()) {
        Ok(true) => {}
        Ok(false) => eprintln!("torno-guest: processes survive the kill; destroy the sandbox"),
        Err(error) => eprintln!("torno-guest: cannot find processes to kill: {error}"),
    }
}

fn pass(program: &Mutex<Program>, number: Number) {
    let program = lock(program);
    let Some(pid) = program.unreaped else { return };
    // Its own group if it has one, as it does unless it runs on a terminal.
    if kill_process_group(pid, number).is_err() {
        let _ended_meanwhile = kill_process(pid, number);
    }
}

/// `None` for the signal that is more than one: kill.
const fn number(signal: Signal) -> Option<Number> {
    match signal {
        Signal::Hangup => Some(Number::HUP),
        Signal::Interrupt => Some(Number::INT),
        Signal::Quit => Some(Number::QUIT),
        Signal::Terminate => Some(Number::TERM),
        Signal::User1 => Some(Number::USR1),
        Signal::User2 => Some(Number::USR2),
        Signal::TerminalStop => Some(Number::TSTP),
        Signal::Continue => Some(Number::CONT),
        Signal::Kill => None,
    }
}

/// A program on a terminal shares the keeper's process group, and Ctrl-C reaches both. With
/// handlers (unlike ignored signals) the program starts with the defaults.
fn outlive_terminal_signals() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    let _entered = runtime.enter();
    for kind in [
        SignalKind::hangup(),
        SignalKind::interrupt(),
        SignalKind::quit(),
        SignalKind::terminate(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
        SignalKind::from_raw(Number::TSTP.as_raw()),
        SignalKind::from_raw(Number::TTIN.as_raw()),
        SignalKind::from_raw(Number::TTOU.as_raw()),
    ] {
        // The handler stays for the life of the process, the listener isn't needed.
        let _listener = signal(kind).context("cannot handle a signal")?;
    }
    Ok(())
}

/// The agent's end of the socket.
#[derive(Debug)]
struct Agent {
    socket: UnixStream,
    decoder: HostDecoder,
}

impl Agent {
    fn new(socket: UnixStream, first: &[u8]) -> Self {
        let mut decoder = HostDecoder::new();
        decoder.push(first);
        Self { socket, decoder }
    }

    fn next(&mut self) -> anyhow::Result<HostMessage> {
        let mut buffer = [0; 16 * 1024];
        loop {
            match self.decoder.next_frame()? {
                Some(Frame::Control(message)) => return Ok(message),
                Some(_) => bail!("the agent sent data to a keeper"),
                None => {}
            }
            let count = match self.socket.read(&mut buffer) {
                Ok(0) => bail!("the agent is gone"),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).context("cannot read from the agent"),
            };
            self.decoder.push(buffer.get(..count).unwrap_or_default());
        }
    }

    fn plan(&mut self) -> anyhow::Result<Plan> {
        match self.next()? {
            HostMessage::StartProcess {
                exec,
                argv,
                env,
                cwd,
                tty,
            } => Ok(Plan {
                exec,
                argv,
                env,
                cwd,
                tty,
            }),
            _ => bail!("the agent's first message to a keeper must be a plan"),
        }
    }
}

fn report(mut socket: &UnixStream, message: &GuestMessage) -> anyhow::Result<()> {
    let mut bytes = BytesMut::new();
    encode_control(message, &mut bytes)?;
    socket
        .write_all(&bytes)
        .context("cannot report to the agent")
}

fn lock(program: &Mutex<Program>) -> MutexGuard<'_, Program> {
    program.lock().unwrap_or_else(PoisonError::into_inner)
}

const ENOEXEC: i32 = rustix::io::Errno::NOEXEC.raw_os_error();
const EISDIR: i32 = rustix::io::Errno::ISDIR.raw_os_error();
const ETXTBSY: i32 = rustix::io::Errno::TXTBSY.raw_os_error();
