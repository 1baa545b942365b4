// SPDX-License-Identifier: Apache-2.0
//! Running other programs: what is run is printed, and a failure names the command.

use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// The cargo that started us, at the workspace's root, without what `cargo run` set for us alone.
pub(crate) fn cargo(root: &Path) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root);
    for (name, _) in std::env::vars_os() {
        let ours = name.to_str().is_some_and(|n| {
            n.starts_with("CARGO_PKG_") || n == "CARGO_MANIFEST_DIR" || n == "CARGO_MANIFEST_PATH"
        });
        if ours {
            command.env_remove(name);
        }
    }
    command
}

/// A program by name or path.
pub(crate) fn program(name: impl AsRef<std::ffi::OsStr>) -> Command {
    Command::new(name)
}

/// Runs to the end with our own streams.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    announce(command);
    let status = command
        .status()
        .with_context(|| format!("cannot start {}", shown(command)))?;
    if status.success() {
        Ok(())
    } else {
        bail!("{} ended with {status}", shown(command))
    }
}

/// Runs to the end and returns what it wrote.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", shown(command)))?;
    if !output.status.success() {
        bail!("{} ended with {}", shown(command), output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("{} wrote no UTF-8", shown(command)))
}

/// Whether it starts and ends well, silently.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs to the end, copies its standard output to ours line by line and hands each line to `each`.
/// The result says whether it ended well.
pub(crate) fn watch(command: &mut Command, mut each: impl FnMut(&str)) -> Result<bool> {
    announce(command);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", shown(command)))?;
    let out = child
        .stdout
        .take()
        .context("the child has no output pipe")?;
    let mut ours = std::io::stdout();
    for line in BufReader::new(out).split(b'\n') {
        let line = line.context("cannot read the child's output")?;
        let line = String::from_utf8_lossy(&line);
        writeln!(ours, "{line}").context("cannot write to standard output")?;
        each(&line);
    }
    Ok(child
        .wait()
        .context("the child cannot be waited for")?
        .success())
}

/// Runs one named step of a lane and says how long it took.
pub(crate) fn step(name: &str, action: impl FnOnce() -> Result<()>) -> Result<()> {
    eprintln!("── {name}");
    let begin = Instant::now();
    action().with_context(|| format!("step `{name}` failed"))?;
    eprintln!("── {name}: ok, {:.1} s", begin.elapsed().as_secs_f32());
    Ok(())
}

fn announce(command: &Command) {
    eprintln!("   $ {}", shown(command));
}

/// A command as a person would type it.
pub(crate) fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|a| a.to_string_lossy().into_owned()));
    words.join(" ")
}
