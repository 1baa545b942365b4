// SPDX-License-Identifier: Apache-2.0
//! The programs that lie beside `torno`: `tornod`, started on demand, and `torno-demo`. The one
//! place of this crate where a process is made.

use crate::context::Context;
use crate::printable;
use crate::stop::{Outcome, Stop};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use torno_control_api::channel::Channel;
use torno_control_api::places::open_log;

/// LIMIT: probes of the levels run in the background; opening the sockets takes milliseconds, so
/// ten seconds is a slow disk, and more is a fault.
const START_WAIT: Duration = Duration::from_secs(10);
/// LIMIT: between two looks at the sockets; below what a person notices.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Puts what it becomes into a scope of its own.
const SYSTEMD_RUN: &str = "/usr/bin/systemd-run";
/// What the daemon gets of our environment. Everything else stays here, tokens above all (I13).
const PASSED_ON: [&str; 13] = [
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "TZ",
    "TORNO_HOME",
    "TORNO_LOG",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    "XDG_CONFIG_HOME",
    "DBUS_SESSION_BUS_ADDRESS",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Makes sure that the daemon answers at `socket`; starts it when it may be started.
pub(crate) async fn ensure(context: &Context, socket: &Path) -> Outcome {
    match Channel::connect(socket) {
        Ok(_) => return Ok(()),
        // Somebody is there, and it is not ours to start another.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            let stop = Stop::new(format!("`{}` can't be used", socket.display()));
            let next = "run this as the user that runs tornod, or set TORNO_HOME";
            return Err(stop.because(&error).next(next));
        }
        Err(_) => {}
    }
    if !context.may_start {
        return Err(Stop::new(format!(
            "tornod is not running: nobody answers at `{}`",
            socket.display()
        ))
        .next("start `tornod`, or run this again without `--no-start` and TORNO_NO_START"));
    }
    context.progress("starting tornod");
    if let Some(scope) = own_scope() {
        match start(context, &scope).await {
            Ok(()) => return Ok(()),
            // Without a group of its own it comes up all the same, and says what it lacks.
            Err(_) => context
                .progress("tornod did not come up in a group of its own; starting it without one"),
        }
    }
    start(context, &[]).await
}

/// The words before `tornod` that give it a cgroup of its own, where it could hand on no limits
/// otherwise: on hosts with v2 alone that systemd runs, a login session's group is shared with the
/// shell (cgroups(7), "no internal processes"; systemd.resource-control(5), `Delegate=`).
fn own_scope() -> Option<Vec<&'static str>> {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let is_v2_alone = own.lines().count() == 1 && own.starts_with("0::");
    let is_here = Path::new(SYSTEMD_RUN).is_file() && Path::new("/run/systemd/system").is_dir();
    (is_v2_alone && is_here).then(|| {
        let mut words = vec![SYSTEMD_RUN, "--quiet", "--scope", "--collect"];
        if !rustix::process::geteuid().is_root() {
            words.push("--user");
        }
        words.extend(["--property=Delegate=yes", "--description=tornod", "--"]);
        words
    })
}

/// Starts the daemon after these words, and waits for its sockets.
async fn start(context: &Context, before: &[&str]) -> Outcome {
    let mut child = spawn(context, before)?;
    let sockets = [context.paths.desk_socket(), context.paths.notary_socket()];
    let token = context.paths.operator_token();
    let up = || sockets.iter().all(|s| answers(s)) && token.exists();
    let end = tokio::time::Instant::now() + START_WAIT;
    let mut ended = None;
    while tokio::time::Instant::now() < end {
        if up() {
            return Ok(());
        }
        // Another run of torno may have won the race; its daemon is as good as ours, and gets as
        // long as a start takes.
        if ended.is_none() {
            ended = child.try_wait().ok().flatten();
        }
        if ended.is_some_and(|status| !status.success()) && !sockets.iter().any(|s| s.exists()) {
            break;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    if ended.is_none() && !before.is_empty() {
        // It waits for systemd, and must not come up beside the next one.
        let _ = child.kill();
    }
    let mut stop = Stop::new(match ended {
        Some(status) => format!("tornod ended at once ({status})"),
        None => format!(
            "tornod did not open its sockets in {} s",
            START_WAIT.as_secs()
        ),
    });
    stop.causes = last_lines(&context.paths.log());
    Err(stop.next(format!(
        "read `{}`, then `torno doctor`",
        context.paths.log().display()
    )))
}

/// Somebody listens there.
pub(crate) fn answers(socket: &Path) -> bool {
    Channel::connect(socket).is_ok()
}

/// A program beside this one.
pub(crate) fn beside(context: &Context, name: &str) -> Option<PathBuf> {
    let directory = context.executable.as_ref()?.parent()?;
    Some(directory.join(name)).filter(|program| program.is_file())
}

/// Becomes another program; comes back only when it can't.
pub(crate) fn become_program(program: &Path, arguments: &[String]) -> Stop {
    let error = Command::new(program).args(arguments).exec();
    Stop::new(format!("`{}` can't be run", program.display())).because(&error)
}

fn spawn(context: &Context, before: &[&str]) -> Outcome<Child> {
    let program = find(context)?;
    let log = context.paths.log();
    let failed = |error: &(dyn std::error::Error + 'static)| {
        Stop::new(format!("`{}` can't be the daemon's log", log.display()))
            .because(error)
            .next("check the owner and the free space of that directory")
    };
    // ATTACK: 149
    let out = open_log(&log).map_err(|error| failed(&error))?;
    let err = out.try_clone().map_err(|error| failed(&error))?;
    let environment = PASSED_ON
        .iter()
        .filter_map(|name| std::env::var_os(name).map(|value| (*name, value)));
    let mut command = match before.split_first() {
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(&program);
            command
        }
        None => Command::new(&program),
    };
    command
        .env_clear()
        .envs(environment)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        // Its own group: Ctrl-C at this terminal is not for the daemon.
        .process_group(0)
        .spawn()
        .map_err(|error| {
            Stop::new(format!("`{}` can't be started", program.display())).because(&error)
        })
}

fn find(context: &Context) -> Outcome<PathBuf> {
    let on_path = || {
        let directories = std::env::split_paths(context.search_path.as_ref()?);
        directories
            .filter(|directory| directory.is_absolute())
            .map(|directory| directory.join("tornod"))
            .find(|program| program.is_file())
    };
    beside(context, "tornod").or_else(on_path).ok_or_else(|| {
        Stop::new("tornod is neither beside torno nor on PATH")
            .next("install the `tornod` of the same release beside `torno`")
    })
}

/// The end of the daemon's log, made inert.
fn last_lines(log: &Path) -> Vec<String> {
    use std::io::{Read, Seek, SeekFrom};
    /// LIMIT: a person reads the last lines; the rest is in the file.
    const TAIL_BYTES: i64 = 2048;
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(log)?;
        if file.metadata()?.len() > TAIL_BYTES.unsigned_abs() {
            file.seek(SeekFrom::End(-TAIL_BYTES))?;
        }
        let mut tail = Vec::new();
        file.take(TAIL_BYTES.unsigned_abs())
            .read_to_end(&mut tail)?;
        Ok(tail)
    };
    let tail = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&tail);
    let lines: Vec<_> = text.lines().map(printable::line).collect();
    lines.iter().rev().take(5).rev().cloned().collect()
}
