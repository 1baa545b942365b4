// SPDX-License-Identifier: Apache-2.0
//! Looking for a credential where a process, a file or memory would have it.

use crate::attempt::{Attempt, Goal};

pub(super) const ATTEMPTS: [Attempt; 5] = [
    Attempt {
        name: "read the environment",
        goal: Goal::SeeSecret,
        wall: "only placeholders are inside",
        script: r"
for name, value in os.environ.items():
    out(name + '=' + value)
",
    },
    Attempt {
        name: "read /proc/*/environ and cmdline",
        goal: Goal::SeeSecret,
        wall: "only placeholders are inside",
        script: r"
for path in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline'):
    try:
        shapes(open(path, 'rb').read())
    except OSError as error:
        out(error)
",
    },
    Attempt {
        name: "search the files of home, /etc, /run, /tmp",
        goal: Goal::SeeSecret,
        wall: "no credential enters as a file",
        script: r"
tops = ['.', os.environ.get('HOME', '/root'), '/etc', '/run', '/var/lib', '/dev/shm']
for top in tops:
    for place, dirs, files in os.walk(top):
        for name in files:
            path = os.path.join(place, name)
            try:
                if os.path.isfile(path) and os.path.getsize(path) < 1 << 20:
                    shapes(open(path, 'rb').read())
            except OSError:
                pass
out('searched')
",
    },
    Attempt {
        name: "use the credential, then search my own memory",
        goal: Goal::SeeSecret,
        wall: "it is put in outside, per request",
        script: r"
call('GET', API, '/v1/me', [('Authorization', AUTH)])
memory = open('/proc/self/mem', 'rb', 0)
for line in open('/proc/self/maps'):
    place, rights = line.split()[:2]
    begin, end = (int(part, 16) for part in place.split('-'))
    if rights.startswith('rw') and end - begin < 64 << 20:
        try:
            memory.seek(begin)
            shapes(memory.read(end - begin))
        except (OSError, ValueError, OverflowError):
            pass
out('searched')
",
    },
    Attempt {
        name: "search the memory of other processes",
        goal: Goal::SeeSecret,
        wall: "no process inside ever holds it",
        script: r"
child = subprocess.Popen(['sleep', '20'])
time.sleep(0.2)
for pid in [child.pid, os.getppid(), 1]:
    try:
        memory = open('/proc/%d/mem' % pid, 'rb', 0)
        seen = 0
        for line in open('/proc/%d/maps' % pid):
            place, rights = line.split()[:2]
            begin, end = (int(part, 16) for part in place.split('-'))
            if rights.startswith('rw') and seen < 32 << 20:
                try:
                    memory.seek(begin)
                    seen += end - begin
                    shapes(memory.read(end - begin))
                except (OSError, ValueError, OverflowError):
                    pass
    except OSError as error:
        out('%d: %s' % (pid, error))
child.kill()
out('searched')
",
    },
];
