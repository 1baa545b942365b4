// SPDX-License-Identifier: Apache-2.0
//! Running an attempt with its wall off: on the host, as an ordinary program, with the real
//! credentials where an ordinary setup has them, and with every name and address leading to the far
//! ends on loopback. An attempt that fails here proves nothing inside.

use crate::props::Props;
use crate::world::World;
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The system's Python: the one that a sandbox has too.
pub const PYTHON: &str = "/usr/bin/python3";

/// Turns every dial of a Python program to the far ends; the script itself stays as it is.
const REDIRECT: &str = r#"
import os, socket
KNOWN = dict(pair.split('=') for pair in os.environ['STAGE_MAP'].split(','))
SINK = int(KNOWN['*'])
NAMES = ['api.torno.test', 'other.torno.test', 'git.torno.test', 'evil.torno.test']
resolve, dial, send = socket.getaddrinfo, socket.socket.connect, socket.socket.sendto

def getaddrinfo(host, port, *rest, **more):
    if host in NAMES:
        place = ('10.99.0.%d' % NAMES.index(host), port)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, '', place)]
    return resolve(host, port, *rest, **more)

def far(place):
    host, port = place[0], place[1]
    if host.startswith('127.'):
        return port
    if host.startswith('10.99.0.'):
        return int(KNOWN.get('%s:%d' % (NAMES[int(host[8:])], port), SINK))
    return SINK

def loopback(stream):
    return '::ffff:127.0.0.1' if stream.family == socket.AF_INET6 else '127.0.0.1'

def connect(stream, place):
    if stream.family == socket.AF_UNIX:
        return dial(stream, place)
    return dial(stream, (loopback(stream), far(place)))

def sendto(stream, data, *rest):
    return send(stream, data, (loopback(stream), far(rest[-1])))

socket.getaddrinfo, socket.socket.connect, socket.socket.sendto = getaddrinfo, connect, sendto
"#;

/// A host without walls.
#[derive(Debug)]
pub struct Unwalled {
    home: TempDir,
}

impl Unwalled {
    /// Lays out a home directory as developers have it: with a token in a file.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn new(world: &World) -> Result<Self> {
        let home = tempfile::Builder::new()
            .prefix("torno-unwalled-")
            .tempdir()
            .context("no temporary directory")?;
        let write = |name: &str, text: &str| {
            std::fs::write(home.path().join(name), text).with_context(|| format!("no {name}"))
        };
        std::fs::create_dir(home.path().join("python")).context("no directory")?;
        write("python/sitecustomize.py", REDIRECT)?;
        write(".env", &format!("API_TOKEN={}\n", world.api_token))?;
        Ok(Self { home })
    }

    /// Runs a script; what it wrote.
    ///
    /// # Errors
    /// When Python can't be started.
    pub fn run(&self, script: &str, world: &World, props: &Props) -> Result<Vec<u8>> {
        let work = self.home.path().join("work");
        let _gone = std::fs::remove_dir_all(&work);
        std::fs::create_dir(&work).context("no working directory")?;
        let proxy = format!("http://{}", world.lawless);
        // A directory of the host stays open in it, as careless parents leave them.
        let output = Command::new("/bin/sh")
            .args([
                "-c",
                "exec \"$0\" -c \"$1\" 9</",
                PYTHON,
                &props.fill(script),
            ])
            .current_dir(&work)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.home.path())
            .env("PYTHONPATH", self.home.path().join("python"))
            .env("STAGE_MAP", map_text(world))
            .env("SSL_CERT_FILE", world.ca())
            .env("GIT_SSL_CAINFO", world.ca())
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("https_proxy", &proxy)
            .env("API_TOKEN", &world.api_token)
            .env("GIT_TOKEN", &world.git_token)
            .stdin(Stdio::null())
            .output()
            .context("cannot start Python")?;
        Ok([output.stdout, output.stderr].concat())
    }

    /// Where its home lies.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.home.path()
    }
}

fn map_text(world: &World) -> String {
    let map = world.map();
    let mut text = format!("*={}", map.otherwise.port());
    for (name, address) in &map.known {
        let _ = write!(text, ",{name}={}", address.port());
    }
    text
}
