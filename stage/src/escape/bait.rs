// SPDX-License-Identifier: Apache-2.0
//! What escapes aim at on the host, besides the props of the demo: one process that holds the
//! host's secret in its memory, in shared memory, behind sockets and on a block device. Whoever
//! prints the secret has been there.

use crate::props::Props;
use crate::unwalled::PYTHON;
use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Lays itself out, says where, and takes everything away when its input ends.
const SCRIPT: &str = r"
import ctypes, os, socket, subprocess, sys, threading
home, secret = sys.argv[1], open(sys.argv[2], 'rb').read()
name = 'torno-bait-%d' % os.getpid()
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
key = 0x70000000 | os.getpid()
shared = libc.shmget(key, 4096, 0o1666)
ctypes.memmove(libc.shmat(shared, None, 0), secret, len(secret))
open('/dev/shm/' + name, 'wb').write(secret)
os.chmod('/dev/shm/' + name, 0o644)
open(home + '/disk', 'wb').write(secret.ljust(1 << 20, b'\0'))
open(home + '/token', 'wb').write(secret)
loop = subprocess.run(['losetup', '-f', '--show', home + '/disk'], capture_output=True, text=True)
loop = loop.stdout.strip()
if loop:
    # Given up while it is held: the kernel takes it away with this process, however that ends.
    held = open(loop, 'rb')
    subprocess.run(['losetup', '-d', loop])

def serve(listener):
    listener.listen()
    while True:
        stream, _ = listener.accept()
        stream.sendall(b'HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n' % len(secret) + secret)
        stream.close()

listeners = [socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX), socket.socket()]
listeners[0].bind('\0' + name)
listeners[1].bind(home + '/bait.sock')
listeners[2].bind(('127.0.0.1', 0))
for listener in listeners:
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
number = loop.removeprefix('/dev/loop') or '255'
print(name, key, number, listeners[2].getsockname()[1], flush=True)
sys.stdin.read()
libc.shmctl(shared, 0, None)
os.unlink('/dev/shm/' + name)
";

/// The bait, until it is dropped.
#[derive(Debug)]
pub struct Bait {
    process: Child,
    directory: PathBuf,
    name: String,
    key: String,
    disk: String,
    port: String,
}

impl Bait {
    /// Lays it out beside the props.
    ///
    /// # Errors
    /// When its process can't be started or says nothing.
    pub fn new(props: &Props) -> Result<Self> {
        let secret = PathBuf::from(props.fill("@HOST_FILE@"));
        let directory = secret.parent().context("no directory")?.to_path_buf();
        let mut process = Command::new(PYTHON)
            .args(["-c", SCRIPT])
            .arg(&directory)
            .arg(&secret)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the bait")?;
        let mut line = String::new();
        let said = process.stdout.take().context("no output")?;
        BufReader::new(said).read_line(&mut line)?;
        let mut words = line.split_whitespace().map(str::to_owned);
        let mut next = || words.next().unwrap_or_default();
        let bait = Self {
            process,
            directory,
            name: next(),
            key: next(),
            disk: next(),
            port: next(),
        };
        ensure!(!bait.port.is_empty(), "the bait was not laid: `{line}`");
        Ok(bait)
    }

    /// A script with the bait's places filled in.
    #[must_use]
    pub fn fill(&self, script: &str) -> String {
        script
            .replace("@BAIT@", &self.name)
            .replace("@BAIT_PROCESS@", &self.process.id().to_string())
            .replace("@BAIT_KEY@", &self.key)
            .replace("@BAIT_DISK@", &self.disk)
            .replace("@BAIT_PORT@", &self.port)
    }

    /// The props' directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Its socket in the file system.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.directory.join("bait.sock")
    }

    /// Its token.
    #[must_use]
    pub fn token(&self) -> PathBuf {
        self.directory.join("token")
    }
}

impl Drop for Bait {
    fn drop(&mut self) {
        // It takes away what it laid out when its input ends.
        drop(self.process.stdin.take());
        let _ended = self.process.wait();
    }
}
