// SPDX-License-Identifier: Apache-2.0
//! A kill in the middle of a streaming upload, measured at the far end: when the last byte came,
//! against when `torno kill` said that it was done.

use crate::daemon::Daemon;
use crate::world::World;
use anyhow::{Context, Result, bail};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// What both ends saw of a kill.
#[derive(Debug)]
pub struct Cut {
    /// Bytes that the far end had when `killed` was reported.
    pub bytes: u64,
    /// Bytes that came after the report.
    pub late_bytes: u64,
    /// From asking for the kill to its report.
    pub took: Duration,
    /// The exit code of `torno run`.
    pub exit: Option<i32>,
    /// What `torno run` said.
    pub said: String,
    /// What `torno kill` printed.
    pub receipt: String,
}

/// What was received once nothing more comes for a moment. What lay in this end's socket when the
/// receipt came was sent before it, and a reader on a busy machine is behind. A stream that goes on
/// is never quiet, and what comes of it later is late.
fn once_quiet(received: &impl Fn() -> u64) -> u64 {
    let (end, first) = (Instant::now() + READER_BEHIND, received());
    let mut before = first;
    loop {
        std::thread::sleep(QUIET);
        let now = received();
        if now == before {
            return now;
        }
        if Instant::now() > end || now - first > BEHIND_BYTES {
            return first;
        }
        before = now;
    }
}

const QUIET: Duration = Duration::from_millis(50);
/// LIMIT: a full socket is read in far less, on a loaded machine too.
const READER_BEHIND: Duration = Duration::from_secs(2);
/// LIMIT: what lies in sockets, at most (tcp(7), `tcp_rmem` and `tcp_wmem`: 32 and 4 MiB here).
const BEHIND_BYTES: u64 = 36 << 20;

/// Enough to know that the upload streams.
const STREAMING_BYTES: u64 = 256 * 1024;
/// LIMIT: how long the upload may take to get there.
const STREAM_WAIT: Duration = Duration::from_secs(30);
/// How long the far end is watched after the report.
const WATCH: Duration = Duration::from_secs(1);

const UPLOAD: &str = r"
import os, socket, ssl
stream = ssl.create_default_context().wrap_socket(
    socket.create_connection(('api.torno.test', 443), timeout=20),
    server_hostname='api.torno.test')
stream.sendall(('POST /upload HTTP/1.1\r\nHost: api.torno.test\r\nAuthorization: Bearer '
                + os.environ['API_TOKEN'] + '\r\nTransfer-Encoding: chunked\r\n\r\n').encode())
while True:
    stream.sendall(b'1000\r\n' + b'x' * 4096 + b'\r\n')
";

/// Starts an upload at a level, kills its session, and watches the far end.
///
/// # Errors
/// When the upload never streams, or torno can't be started.
pub fn watch(daemon: &Daemon, world: &World, level: &str) -> Result<Cut> {
    let mark = world.api.journal.mark();
    let received = || -> u64 {
        world
            .api
            .journal
            .since(mark)
            .iter()
            .map(|c| c.received_bytes)
            .sum()
    };
    let before = daemon.sessions()?;
    let mut run = daemon
        .run_command(level, &[crate::unwalled::PYTHON, "-c", UPLOAD])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start torno")?;
    let end = Instant::now() + STREAM_WAIT;
    while received() < STREAMING_BYTES {
        if Instant::now() > end || run.try_wait()?.is_some() {
            let _dead = run.kill();
            let output = run.wait_with_output()?;
            bail!(
                "the upload never streamed: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let sessions = daemon.sessions()?;
    let session = sessions.iter().find(|session| !before.contains(session));
    let session = session.context("the upload's session is not listed")?;
    let asked = Instant::now();
    let receipt = daemon
        .torno(&["kill", session])
        .output()
        .context("cannot start torno")?;
    let took = asked.elapsed();
    let bytes = once_quiet(&received);
    std::thread::sleep(WATCH);
    let late_bytes = received() - bytes;
    let ended = run.wait_with_output()?;
    Ok(Cut {
        bytes,
        late_bytes,
        took,
        exit: ended.status.code(),
        said: String::from_utf8_lossy(&ended.stderr).into_owned(),
        receipt: String::from_utf8_lossy(&[receipt.stdout, receipt.stderr].concat()).into_owned(),
    })
}
