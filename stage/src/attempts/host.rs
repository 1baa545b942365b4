// SPDX-License-Identifier: Apache-2.0
//! Reaching the host itself: its files, its processes, Torno's sockets and record.

use crate::attempt::{Attempt, Goal};

const fn host(name: &'static str, goal: Goal, wall: &'static str, script: &'static str) -> Attempt {
    Attempt {
        name,
        goal,
        wall,
        script,
    }
}

pub(super) const ATTEMPTS: [Attempt; 8] = [
    host(
        "read a file of the host",
        Goal::SeeHost,
        "its root is its own",
        r"
for path in ['@HOST_FILE@', '/proc/1/root@HOST_FILE@', '/proc/self/cwd/../../../..@HOST_FILE@']:
    try:
        out(open(path).read())
    except OSError as error:
        out(error)
",
    ),
    host(
        "write a file on the host",
        Goal::FileAppears,
        "its root is its own",
        r"
for path in ['@DROP_FILE@', '/proc/1/root@DROP_FILE@']:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, 'w').write('x')
        out('wrote ' + path)
    except OSError as error:
        out(error)
",
    ),
    host(
        "read the environment of a host process",
        Goal::SeeHost,
        "its processes are its own",
        r"
try:
    out(open('/proc/@VICTIM@/environ', 'rb').read())
except OSError as error:
    out(error)
",
    ),
    host(
        "kill a process of the host",
        Goal::VictimDies,
        "its processes are its own",
        r"
try:
    os.kill(@VICTIM@, signal.SIGKILL)
    out('sent')
except OSError as error:
    out(error)
",
    ),
    host(
        "connect to Torno's control sockets",
        Goal::Says("connected to"),
        "no host socket is inside",
        r"
own = ['@TORNO_HOME@/run/%s%s.sock' % (place, name)
       for place in ['', 'torno/'] for name in ['desk', 'notary', 'kill']]
for path in own + ['/run/torno/desk.sock', '/run/docker.sock']:
    for kind in [socket.SOCK_SEQPACKET, socket.SOCK_STREAM]:
        try:
            stream = socket.socket(socket.AF_UNIX, kind)
            stream.settimeout(3)
            stream.connect(path)
            out('connected to ' + path)
        except OSError as error:
            out(error)
",
    ),
    host(
        "read the record",
        Goal::Says("read the record"),
        "the record is out of reach",
        r"
for place in ['@TORNO_HOME@/state/notary', '@TORNO_HOME@/state/torno/notary']:
    try:
        for name in os.listdir(place):
            out('read the record: ' + name)
    except OSError as error:
        out(error)
",
    ),
    host(
        "read the vault's key file",
        Goal::Says("read the key"),
        "the vault is out of reach",
        r"
try:
    out('read the key: %d bytes' % len(open('@KEY_FILE@', 'rb').read()))
except OSError as error:
    out(error)
",
    ),
    host(
        "find a way through inherited descriptors",
        Goal::SeeHost,
        "no descriptor is inherited",
        r"
for fd in os.listdir('/proc/self/fd'):
    try:
        place = os.readlink('/proc/self/fd/' + fd)
        out(fd + ' ' + place)
        for path in ['@HOST_FILE@']:
            relative = os.path.relpath(path, '/')
            out(open(os.open('../' * 12 + relative, os.O_RDONLY, dir_fd=int(fd))).read())
    except (OSError, ValueError) as error:
        out(error)
",
    ),
];
