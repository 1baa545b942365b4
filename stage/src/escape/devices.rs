// SPDX-License-Identifier: Apache-2.0
//! Devices, files of the kernel that show or steer the whole host, and what a workload could take
//! of the host's time and memory.

use super::loose::Gift;
use super::{ALLOWED, Escape, Without, lacking, meets, says, wants};
use crate::attempt::Goal;

pub(super) const ESCAPES: [Escape; 10] = [
    Escape {
        attempt: wants(
            "open a device of the host",
            Goal::Says(ALLOWED),
            "a minimal /dev",
            r"
for name in ['kmsg', 'mem', 'port', 'kvm', 'fuse', 'loop-control', 'vsock', 'vhost-net', 'net/tun',
             'userfaultfd', 'btrfs-control', 'input/event0', 'snd/timer', 'snd/seq', 'sg0', 'rtc0']:
    allowed(lambda: os.close(os.open('/dev/' + name, os.O_RDONLY | os.O_NONBLOCK)))
",
        ),
        of: "145, cve-2017-1000380, cve-2018-7566, cve-2018-1000204",
        meets: meets("ENOENT", "ENOENT own", "ENOENT"),
        without: Without::Most(&[Gift::Devices]),
    },
    says(
        "make device nodes",
        "145",
        r"
for kind, numbers in [(0o20600, (1, 1)), (0o20600, (10, 232)), (0o60600, (254, 0))]:
    def make():
        os.mknod('/tmp/made', kind, os.makedev(*numbers))
        os.unlink('/tmp/made')
    allowed(make)
",
        meets("EPERM", "own", "EPERM"),
    ),
    says(
        "trace the kernel",
        "136",
        r"
for place in ['/sys/kernel/tracing', '/sys/kernel/debug']:
    tried(lambda: os.listdir(place))
    allowed(lambda: os.close(os.open(place + '/available_events', os.O_RDONLY)))
",
        meets("ENOENT", "ENOENT", "ENOENT"),
    ),
    says(
        "read addresses and memory of the kernel",
        "139, cve-2016-7042",
        r"
def peek(path, shows):
    def look():
        # An empty file covers it, or zeroes stand for what is not shown.
        out('it was allowed') if shows(open(path, 'rb').read(65536)) else absent()
    tried(look)
def number(data):
    return any(int(found, 16) for found in re.findall(rb'[0-9a-f]{8,16}(?=[ -])', data))
for path in ['/proc/kallsyms', '/proc/iomem', '/proc/vmallocinfo']:
    peek(path, number)
for path in ['/proc/kcore', '/proc/keys', '/proc/timer_list', '/proc/kpageflags', '/proc/cmdline',
             '/sys/firmware/dmi/tables/DMI', '/sys/kernel/notes']:
    peek(path, len)
",
        meets(
            "EACCES ENOENT absent",
            "ENOENT own",
            "EACCES ENOENT absent own",
        ),
    ),
    Escape {
        attempt: wants(
            "press keys of the system",
            Goal::Says(ALLOWED),
            "the kernel's knobs are read-only and no longer ours",
            "allowed(lambda: os.close(os.open('/proc/sysrq-trigger', os.O_WRONLY)))",
        ),
        of: "144",
        meets: meets("ENOENT", "EACCES", "EACCES"),
        without: Without::Nothing("the host's kernel was built without these keys"),
    },
    Escape {
        attempt: wants(
            "boot another kernel",
            Goal::Says(ALLOWED),
            "no capability, and no call for it",
            "allowed(lambda: kernel('kexec_load', 0, 0, 0, 0))",
        ),
        of: "144",
        meets: meets("EPERM", "EPERM", "EPERM"),
        without: Without::Nothing("the host's kernel was built without it"),
    },
    says(
        "switch the machine off",
        "144",
        r"
try:
    # Only whether the keys on its keyboard do: a namespace's root is told that there are none.
    kernel('reboot', 0xfee1dead, 672274793, 0, 0)
    out('it was allowed')
except OSError as error:
    out('it was allowed') if error.errno == errno.EINVAL else refused(error)
",
        meets("EPERM", "EPERM", "EPERM"),
    ),
    says(
        "set the clock",
        "161",
        "allowed(lambda: kernel('settimeofday', 0, struct.pack('<ii', 0, 0)))",
        meets("EPERM", "EPERM", "EPERM"),
    ),
    lacking(
        "the host has no CAP_SYS_RESOURCE to give",
        says(
            "be the last that the kernel ends",
            "157",
            r"
def spared():
    with open('/proc/self/oom_score_adj', 'w') as score:
        score.write('-1000')
apart(lambda: allowed(spared))
",
            meets("EACCES", "own", "EACCES"),
        ),
    ),
    says(
        "go before everybody else",
        "156, 163",
        r"
apart(lambda: allowed(lambda: os.setpriority(os.PRIO_PROCESS, 0, -20)))
apart(lambda: allowed(lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))))
apart(lambda: allowed(lambda: os.nice(-5)))
",
        meets("EACCES EPERM", "EINVAL own", "EACCES EPERM"),
    ),
];
