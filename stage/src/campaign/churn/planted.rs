// SPDX-License-Identifier: Apache-2.0
//! One leak of each kind, planted and found: a picture that misses one proves nothing.

use anyhow::{Context, Result, ensure};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use torno_stage::account::Groups;
use torno_stage::leftovers::Host;

/// LIMIT: what was planted is gone at once when it is taken away.
const GONE_WAIT: Duration = Duration::from_secs(5);

/// What is planted, and the word by which its line in a picture begins.
const KINDS: [(&str, Plant); 8] = [
    ("process", a_process),
    ("network namespace", a_namespace),
    ("mount", a_mount),
    ("cgroup", a_group),
    ("packet filter", a_table),
    ("network device", a_device),
    ("socket", a_socket),
    ("file", a_file),
];

type Plant = fn(&Path) -> Result<Undo>;
type Undo = Box<dyn FnOnce() -> Result<()>>;

/// Plants and finds each.
pub(in super::super) fn each_is_found(host: &Host) -> Result<()> {
    let scratch = tempfile::Builder::new()
        .prefix("planted-")
        .tempdir_in("/dev/shm");
    let scratch = scratch.context("no directory")?;
    for (kind, plant) in KINDS {
        let before = host.picture()?;
        let undo = plant(scratch.path()).with_context(|| format!("planting a {kind}"))?;
        let gained = before.gained(&host.picture()?);
        let found = gained.iter().any(|line| line.starts_with(kind));
        ensure!(found, "a planted {kind} is not found: {gained:?}");
        undo()?;
        let left = host.at_rest(&before, GONE_WAIT)?;
        ensure!(left.is_empty(), "a planted {kind} is not gone: {left:?}");
        println!("planted and found: {kind}");
    }
    Ok(())
}

fn must(words: &[&str]) -> Result<()> {
    let Some((program, rest)) = words.split_first() else {
        return Ok(());
    };
    let status = Command::new(program)
        .args(rest)
        .stdin(Stdio::null())
        .status();
    let status = status.with_context(|| format!("cannot start {program}"))?;
    ensure!(status.success(), "{program} ended with {status}");
    Ok(())
}

fn end(mut child: Child) -> Result<()> {
    child.kill()?;
    child.wait()?;
    Ok(())
}

fn a_process(_: &Path) -> Result<Undo> {
    let child = Command::new("sleep").arg("1000").spawn()?;
    Ok(Box::new(|| end(child)))
}

/// Kept by the one process in it.
fn a_namespace(_: &Path) -> Result<Undo> {
    let words = ["--net", "--", "sh", "-c", "echo begun; exec sleep 1000"];
    let mut child = Command::new("unshare")
        .args(words)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut word = [0; 5];
    std::io::Read::read_exact(child.stdout.as_mut().context("no output")?, &mut word)?;
    Ok(Box::new(|| end(child)))
}

fn a_mount(scratch: &Path) -> Result<Undo> {
    let at = scratch.display().to_string();
    must(&["mount", "-t", "tmpfs", "planted", &at])?;
    Ok(Box::new(move || must(&["umount", &at])))
}

fn a_group(_: &Path) -> Result<Undo> {
    let groups: Vec<PathBuf> = Groups::present();
    let group = groups.first().context("no cgroup")?.join("planted");
    std::fs::create_dir(&group)?;
    Ok(Box::new(move || Ok(std::fs::remove_dir(group)?)))
}

fn a_table(_: &Path) -> Result<Undo> {
    must(&["nft", "add", "table", "inet", "planted"])?;
    Ok(Box::new(|| {
        must(&["nft", "delete", "table", "inet", "planted"])
    }))
}

fn a_device(_: &Path) -> Result<Undo> {
    must(&["ip", "link", "add", "planted0", "type", "veth"])?;
    Ok(Box::new(|| must(&["ip", "link", "delete", "planted0"])))
}

fn a_socket(scratch: &Path) -> Result<Undo> {
    let path = scratch.join("planted.socket");
    let listener = UnixListener::bind(&path)?;
    Ok(Box::new(move || {
        drop(listener);
        Ok(std::fs::remove_file(path)?)
    }))
}

fn a_file(_: &Path) -> Result<Undo> {
    let path = PathBuf::from(format!("/dev/shm/planted-{}", std::process::id()));
    std::fs::write(&path, "")?;
    Ok(Box::new(move || Ok(std::fs::remove_file(path)?)))
}
