// SPDX-License-Identifier: Apache-2.0
//! A running notary whose supervisor is this test: it can be told of a gate whose session never
//! began, which no supervisor of ours does, and its receipt key is known here.

use super::socket::Socket;
use super::taken_over::endpoint;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde_json::{Value, json};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use torno_notary_protocol::receipt::{Receipt, ReceiptClaims, ReceiptKey};
use torno_policy::names::{Generation, RecordSeq, Scheme, SessionId};
use torno_stage::daemon::binaries;
use torno_stage::world::OTHER;

const KEY: [u8; 32] = [9; 32];

/// The notary, until it is ended.
pub(crate) struct PlayedNotary {
    directory: TempDir,
    supervisor: Socket,
    _others: [OwnedFd; 2],
    child: Child,
}

impl PlayedNotary {
    /// Starts the shipped binary in that role, as its supervisor does.
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut private = std::fs::DirBuilder::new();
        let private = private.mode(0o700);
        private.create(directory.path().join("record")).unwrap();
        let operators = listener(directory.path().join("notary.sock"));
        let ([supervisor, theirs], [desk, notarys_desk], [dialer, notarys_dialer]) =
            (pair(), pair(), pair());
        let child = Command::new(binaries().unwrap().join("tornod"))
            .arg0("tornod-notary")
            .args(["role", "notary"])
            .env_clear()
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let supervisor = Socket::new(supervisor);
        let start = json!({ "Start": {
            "directory": directory.path(), "organisation": null,
            "upstreams": { "pins": [], "roots": [], "proxy": null },
            "root": false, "session": null, "operator_digest": null, "guest": "/",
            "receipt_key": KEY, "pool": 0, "kvm": false, "templates": 0, "images": "/",
            "checkpoints": { "directory": "/", "most": 0, "bytes": 0, "age": 0 },
            "owner_uid": rustix::process::geteuid().as_raw(),
        } });
        let alive = std::fs::File::open("/dev/null").unwrap().into();
        let give = [operators, notarys_desk, notarys_dialer, alive];
        tell(&supervisor, &start, &give);
        Self {
            directory,
            supervisor,
            _others: [desk, dialer],
            child,
        }
    }

    /// Tells it of a gate, and is that gate.
    pub(crate) fn gate(&self, session: &str) -> Socket {
        let [ours, theirs] = pair();
        let joined = json!({ "GateJoined": { "session": session, "generation": 1, "number": 1 } });
        tell(&self.supervisor, &joined, &[theirs]);
        Socket::new(ours)
    }

    pub(crate) fn record(&self) -> PathBuf {
        self.directory.path().join("record")
    }

    /// A receipt with a true tag, made just now, behind which no record stands.
    pub(crate) fn receipt(&self, session: &str) -> Receipt {
        let claims = ReceiptClaims {
            session: SessionId::parse(session).unwrap(),
            generation: Generation(1),
            endpoint: endpoint(Scheme::Https, OTHER, 443),
            record: RecordSeq(1),
            issued_ms: boot_ms(),
        };
        ReceiptKey::new(KEY).seal(&claims).unwrap()
    }

    /// The supervisor is gone, and the notary with it.
    pub(crate) fn end(mut self) {
        drop(self.supervisor);
        assert!(self.child.wait().unwrap().success());
    }
}

fn tell(supervisor: &Socket, message: &Value, give: &[OwnedFd]) {
    let give: Vec<_> = give.iter().map(AsFd::as_fd).collect();
    assert!(supervisor.say(&serde_json::to_vec(message).unwrap(), &give));
}

fn pair() -> [OwnedFd; 2] {
    let kind = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let pair = rustix::net::socketpair(kind.0, kind.1, SocketFlags::CLOEXEC, None);
    pair.unwrap().into()
}

fn listener(path: PathBuf) -> OwnedFd {
    let kind = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let socket = rustix::net::socket_with(kind.0, kind.1, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::bind(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    rustix::net::listen(&socket, 1).unwrap();
    socket
}

/// The clock of receipts.
fn boot_ms() -> u64 {
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
    let seconds: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
    // To a hundredth, downwards: never from the future.
    std::time::Duration::from_secs_f64(seconds)
        .as_millis()
        .try_into()
        .unwrap()
}
