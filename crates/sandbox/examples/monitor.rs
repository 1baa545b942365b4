// SPDX-License-Identifier: Apache-2.0
//! A strict peer as a program, to stand where Firecracker or Cloud Hypervisor would: in their
//! place on the host, and so behind their walls. Once it is told to start it opens what it was
//! told to read, dials its link as the guest it doesn't have, and answers the host there. How much
//! memory it is given says how to misbehave.

#[path = "../tests/monitors/peer.rs"]
mod peer;

use peer::{CloudHypervisor, Firecracker, Machine, Peer};
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

/// MiB beyond the kernel's own share with which it never dials, dials twice, and ends.
const SILENT: u64 = 201;
const TWICE: u64 = 202;
const ENDS: u64 = 203;
const KERNEL_MIB: u64 = 64;

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [program, "--version"] if program.ends_with("firecracker") => {
            println!("Firecracker v1.14.1");
            Ok(())
        }
        [_, "--version"] => {
            println!("cloud-hypervisor v48.0.0");
            Ok(())
        }
        [_, "--api-sock", socket, "--id", "machine"] => be(&mut Firecracker::default(), socket),
        [_, "--api-socket", socket, "--seccomp", "true"] => {
            be(&mut CloudHypervisor::default(), socket)
        }
        _ => Err(io::Error::other("words that neither monitor knows")),
    }
}

fn be(peer: &mut dyn Peer, socket: &str) -> io::Result<()> {
    let listener = UnixListener::bind(socket)?;
    loop {
        let (stream, _) = listener.accept()?;
        peer::serve(peer, stream)?;
        if let Some(machine) = peer.machine() {
            return run(machine);
        }
    }
}

fn run(machine: &Machine) -> io::Result<()> {
    for file in &machine.files {
        File::open(file)?;
    }
    let dial = || UnixStream::connect(format!("{}_52", machine.socket));
    let own = machine.memory_mib.saturating_sub(KERNEL_MIB);
    let mut link = match own {
        ENDS => return Ok(()),
        SILENT => return wait(),
        TWICE => {
            let _first = dial()?;
            let _second = dial()?;
            return wait();
        }
        _ => dial()?,
    };
    // A frame of the guest protocol: length, kind, body.
    let mut head = [0; 5];
    link.read_exact(&mut head)?;
    if head == *b"look?" {
        link.write_all(look(machine).to_string().as_bytes())?;
    } else {
        let hello = json!({ "type": "hello", "version": 2, "guest": "peer", "walls": [] });
        let hello = hello.to_string();
        let length = u32::try_from(hello.len()).map_err(io::Error::other)?;
        link.write_all(&length.to_be_bytes())?;
        link.write_all(&[1])?;
        link.write_all(hello.as_bytes())?;
    }
    link.shutdown(std::net::Shutdown::Write)?;
    wait()
}

fn wait() -> io::Result<()> {
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

/// What is within reach here.
fn look(machine: &Machine) -> serde_json::Value {
    let open = |path: &str| OpenOptions::new().read(true).write(true).open(path).is_ok();
    let make = |path: &str| File::create(path).is_ok();
    let names = |path: &str| {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        names.sort();
        let names = names.iter().filter_map(|name| name.to_str());
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let capabilities = status.lines().filter(|line| line.starts_with("Cap"));
    let made = ["/x", "/boot/x", "/dev/shm/x", "/tmp/x"];
    let made = made.iter().filter(|path| make(path)).count();
    let written = machine.files.iter().filter(|file| open(file)).count();
    let devices = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let capable = capabilities.filter(|line| !line.ends_with("0000000000000000"));
    json!({
        "kvm": open("/dev/kvm"),
        "made": made,
        "written": written,
        "run": names("/run"),
        "root": names("/"),
        "devices": devices.lines().count(),
        "capable": capable.count(),
        "memory": fill(&machine.socket),
        "dialled": Path::new(&format!("{}_52", machine.socket)).exists(),
    })
}

/// Whether more than a few pages fit beside the sockets.
fn fill(socket: &str) -> bool {
    std::fs::write(format!("{socket}-x"), vec![0; 1 << 20]).is_ok()
}
