// SPDX-License-Identifier: Apache-2.0
//! Reaching the host by what containers often share with it, becoming more than one is, and being
//! taken for another session; and which of the demo's attempts public lists name as well.

use super::loose::Gift;
use super::{ALLOWED, Escape, Meets, Without, meets, wants};
use crate::attempt::Goal;

pub(super) const ESCAPES: [Escape; 11] = [
    Escape {
        attempt: wants(
            "attach to the host's shared memory",
            Goal::SeeHost,
            "its shared memory is its own",
            r"
def attach():
    shared = LIBC.shmget(@BAIT_KEY@, 4096, 0)
    if shared == -1:
        raise OSError(ctypes.get_errno(), 'shmget')
    LIBC.shmat.restype = ctypes.c_void_p
    out(ctypes.string_at(LIBC.shmat(shared, None, 0o10000), 256))
tried(attach)
tried(lambda: out(open('/dev/shm/@BAIT@', 'rb').read()))
",
        ),
        of: "141",
        meets: meets("ENOENT", "ENOENT", "ENOENT"),
        without: Without::Most(&[Gift::Memory]),
    },
    Escape {
        attempt: wants(
            "connect to an abstract socket of the host",
            Goal::SeeHost,
            "its network namespace is its own",
            r"
def ask():
    stream = socket.socket(socket.AF_UNIX)
    stream.connect('\0@BAIT@')
    out(read(stream))
tried(ask)
",
        ),
        of: "121",
        meets: meets("ECONNREFUSED", "ECONNREFUSED", "ECONNREFUSED"),
        without: Without::Most(&[Gift::Network]),
    },
    Escape {
        attempt: wants(
            "read the memory of a process of the host",
            Goal::SeeHost,
            "its processes are its own",
            r"
def search():
    memory = open('/proc/@BAIT_PROCESS@/mem', 'rb', 0)
    for line in open('/proc/@BAIT_PROCESS@/maps'):
        begin, end = (int(part, 16) for part in line.split()[0].split('-'))
        if ' rw' in line and end - begin < 8 << 20:
            memory.seek(begin)
            for found in re.findall(rb'host-secret-[0-9A-Za-z]+', memory.read(end - begin)):
                out(found)
tried(search)
",
        ),
        of: "139, sandboxbench escape 8",
        meets: meets("ENOENT", "ENOENT", "ENOENT"),
        without: Without::Most(&[Gift::Processes]),
    },
    Escape {
        attempt: wants(
            "kill the bait from inside",
            Goal::VictimDies,
            "its processes are its own",
            "tried(lambda: os.kill(@VICTIM@, signal.SIGKILL))",
        ),
        of: "151",
        meets: meets("ESRCH", "ESRCH", "ESRCH"),
        without: Without::Most(&[Gift::Processes]),
    },
    Escape {
        attempt: wants(
            "become root",
            Goal::Says(ALLOWED),
            "a fixed user, no capability, no new privileges",
            r"
apart(lambda: allowed(lambda: os.setuid(0)))
apart(lambda: allowed(lambda: os.setgid(0)))
apart(lambda: allowed(lambda: os.setgroups([0])))
apart(lambda: allowed(lambda: os.chroot('/tmp')))
apart(lambda: allowed(lambda: os.chown('/tmp', 1234, 1234)))
",
        ),
        of: "147, sandboxbench capabilities",
        meets: meets("EPERM", "EPERM", "EPERM"),
        without: Without::Most(&[]),
    },
    Escape {
        attempt: wants(
            "hold a capability",
            Goal::Says(ALLOWED),
            "all five sets are empty",
            r"
held = [line.split()[1] for line in open('/proc/self/status') if line.startswith('Cap')]
out('it was allowed') if any(int(held, 16) for held in held) else absent()
",
        ),
        of: "147",
        meets: meets("absent", "absent", "absent"),
        without: Without::Most(&[]),
    },
    Escape {
        attempt: wants(
            "trace the agent",
            Goal::Says(ALLOWED),
            "the agent can't be traced by what it runs",
            r"
def trace():
    # Seized, not stopped; whoever ends lets go.
    allowed(lambda: kernel('ptrace', 0x4206, 1, 0, 0))
    allowed(lambda: os.close(os.open('/proc/1/mem', os.O_RDWR)))
apart(trace)
",
        ),
        of: "139",
        meets: meets("EACCES EPERM", "EACCES EPERM", "EACCES EPERM"),
        without: Without::Most(&[]),
    },
    Escape {
        attempt: wants(
            "put a link where the next mount will be made",
            Goal::Says(ALLOWED),
            "the root directory is read-only",
            r"
for place in ['/x', '/mnt/x', '/etc/x', '/dev/x', '/proc/x', '/.torno/x', '/usr/x', '/var/lib/x']:
    allowed(lambda: os.symlink('/proc', place))
for place in ['/mnt', '/workspace', '/dev/shm', '/proc']:
    allowed(lambda: os.rename(place, place + '-moved'))
",
        ),
        of: "141, cve-2025-31133, cve-2025-52565",
        meets: meets("EACCES ENOENT EROFS", "EACCES", "ENOENT EROFS"),
        without: Without::Most(&[]),
    },
    Escape {
        attempt: wants(
            "be taken for another session by a header",
            Goal::ApiSees(|request| {
                request.header("x-forwarded-for").is_some() || request.header("forwarded").is_some()
            }),
            "whose session it is, is known from the link",
            r"
call('GET', API, '/public', [('X-Forwarded-For', '10.0.0.7'), ('Forwarded', 'for=10.0.0.7')])
",
        ),
        of: "124",
        meets: meets("", "", ""),
        without: Without::Walls,
    },
    Escape {
        attempt: wants(
            "speak the PROXY protocol to the gate",
            Goal::ApiSees(|_| true),
            "a request line or a TLS record begins a connection, nothing else",
            r"
line = b'PROXY TCP4 10.0.0.7 10.0.0.8 4000 80\r\n'
request = b'GET /public HTTP/1.1\r\nHost: api.torno.test\r\nConnection: close\r\n\r\n'
raw(API, line + request, port=443, tls=False)
raw(API, b'\r\n\r\n\0\r\nQUIT\n' + b'\x21\x11\0\x0c' + b'\n' * 12 + request, port=443, tls=False)
absent()
",
        ),
        of: "124",
        meets: meets(
            "absent malformed_request",
            "absent malformed_request",
            "absent malformed_request",
        ),
        without: Without::Nothing("the far end of the stage speaks no PROXY protocol either"),
    },
    Escape {
        attempt: wants(
            "inject into a terminal",
            Goal::Says(ALLOWED),
            "the two requests are refused, and no terminal is shared",
            r"
import fcntl, pty
leader, follower = pty.openpty()
for request in [0x5412, 0x541C]:
    allowed(lambda: fcntl.ioctl(follower, request, b'\x0a'))
allowed(lambda: os.close(os.open('/dev/tty', os.O_RDWR)))
",
        ),
        of: "133, cve-2017-5226",
        meets: meets("ENXIO EPERM", "EIO ENOTTY", "ENOTTY ENXIO EPERM"),
        without: Without::Most(&[]),
    },
];

/// Attempts of the demo by name, and what of the public lists they are.
pub(super) const OF_THE_DEMO: [(&str, &str, Meets); 9] = [
    (
        "post it to another host",
        "sandboxbench exfiltration 1",
        meets("host_not_granted", "host_not_granted", "host_not_granted"),
    ),
    (
        "in the labels of a DNS query",
        "sandboxbench exfiltration 2",
        meets("EPERM", "EPERM", "EPERM"),
    ),
    (
        "CONNECT through the proxy on loopback",
        "sandboxbench exfiltration 3",
        meets("host_not_granted", "host_not_granted", "host_not_granted"),
    ),
    (
        "the cloud's metadata address",
        "021",
        meets("raw_address", "raw_address", "raw_address"),
    ),
    (
        "read the environment",
        "sandboxbench discovery 1",
        meets("", "", ""),
    ),
    (
        "read /proc/*/environ and cmdline",
        "139, sandboxbench discovery 2",
        meets("", "", ""),
    ),
    (
        "search the files of home, /etc, /run, /tmp",
        "sandboxbench discovery 3",
        meets("", "", ""),
    ),
    (
        "search the memory of other processes",
        "sandboxbench discovery 4",
        meets("", "", ""),
    ),
    (
        "connect to Torno's control sockets",
        "126, 127, 028",
        meets("", "", ""),
    ),
];
