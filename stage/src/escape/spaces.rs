// SPDX-License-Identifier: Apache-2.0
//! Namespaces and mounts: a workload that makes its own gets at code of the kernel that was never
//! meant for it, and most kernel faults of the last years begin there.

use super::{Escape, meets, says};

pub(super) const ESCAPES: [Escape; 12] = [
    says(
        "make a user namespace",
        "136, cve-2018-18955, cve-2022-0185, userns01, userns08",
        r"
apart(lambda: allowed(lambda: kernel('unshare', 0x10000000)))
def born():
    child = kernel('clone', 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
apart(lambda: allowed(born))
def born_anew():
    words = struct.pack('<QQQQQQQQ', 0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    if kernel('clone3', words, 64) == 0:
        os._exit(0)
apart(lambda: allowed(born_anew))
",
        meets("ENOSYS EPERM", "own", "ENOSPC"),
    ),
    says(
        "become root of a user namespace",
        "136, cve-2018-18955, userns03, userns07",
        r"
def root():
    if os.getuid() == 0:
        # A map of root itself takes more than this is about.
        os.setuid(65534)
        LIBC.prctl(4, 1, 0, 0, 0)
    tried(lambda: kernel('unshare', 0x10000000))
    def write():
        with open('/proc/self/uid_map', 'w') as ids:
            ids.write('0 %d 1' % os.getuid())
        os.setuid(0)
    allowed(write)
apart(root)
",
        meets("EACCES EPERM", "EPERM", "EACCES ENOSPC"),
    ),
    says(
        "make a mount namespace",
        "136, mountns01, mountns04",
        "apart(lambda: allowed(lambda: kernel('unshare', 0x20000)))",
        meets("EPERM", "EPERM", "EPERM"),
    ),
    says(
        "make a network namespace",
        "136, netns_netlink, netns_sysfs",
        "apart(lambda: allowed(lambda: kernel('unshare', 0x40000000)))",
        meets("EPERM", "EPERM", "EPERM"),
    ),
    says(
        "make a namespace of processes, names, groups, IPC or time",
        "136, pidns01, pidns32, utsname03, shmnstest, mqns_01, msg_comm, sem_comm, timens01",
        r"
for kind in [0x20000000, 0x4000000, 0x2000000, 0x8000000, 0x80]:
    apart(lambda: allowed(lambda: kernel('unshare', kind)))
",
        meets("EPERM", "EPERM own", "EPERM"),
    ),
    says(
        "enter a namespace",
        "136, userns02, pidns10",
        r"
for name in ['net', 'uts', 'ipc', 'mnt', 'cgroup', 'pid']:
    for whose in ['1', 'self']:
        def enter():
            kernel('setns', os.open('/proc/%s/ns/%s' % (whose, name), os.O_RDONLY), 0)
        apart(lambda: allowed(enter))
",
        meets("EACCES EPERM", "EINVAL ENOENT EPERM", "EACCES EPERM"),
    ),
    says(
        "mount a file system",
        "136",
        r"
for kind in [b'tmpfs', b'proc', b'sysfs', b'overlay', b'devpts', b'mqueue', b'cgroup2']:
    apart(lambda: allowed(lambda: kernel('mount', b'none', b'/tmp', kind, 0, 0)))
",
        meets("EPERM", "EPERM", "EPERM"),
    ),
    says(
        "mount again, bind or move what is mounted",
        "136, 141",
        r"
for flags in [0x1000, 0x20 | 0x1000, 0x2000, 0x40000]:
    apart(lambda: allowed(lambda: kernel('mount', b'/tmp', b'/mnt', 0, flags, 0)))
",
        meets("EPERM", "EPERM", "EPERM"),
    ),
    says(
        "take a cover off",
        "141",
        r"
for place in [b'/proc/kcore', b'/proc/sys', b'/usr', b'/etc', b'/tmp', b'/dev/shm']:
    apart(lambda: allowed(lambda: kernel('umount2', place, 2)))
",
        meets("EPERM", "EPERM", "EPERM"),
    ),
    says(
        "mount by the new calls",
        "136, cve-2022-0185",
        r"
allowed(lambda: kernel('fsopen', b'tmpfs', 0))
allowed(lambda: kernel('open_tree', -100, b'/tmp', 1))
def attributes():
    kernel('mount_setattr', -100, b'/tmp', 0, struct.pack('<QQQQ', 2, 0, 0, 0), 32)
allowed(attributes)
def moved():
    kernel('move_mount', -100, b'/tmp', -100, b'/mnt', 0)
apart(lambda: allowed(moved))
",
        meets("EPERM", "ENOSYS", "EPERM"),
    ),
    says(
        "change the root directory",
        "136",
        r"
apart(lambda: allowed(lambda: kernel('chroot', b'/tmp')))
def pivot():
    try:
        kernel('pivot_root', b'/tmp', b'/tmp')
    except OSError as error:
        # The kernel looked at the two places.
        if error.errno not in (errno.EINVAL, errno.EBUSY):
            raise
apart(lambda: allowed(pivot))
",
        meets("EPERM", "EPERM", "EPERM"),
    ),
    says(
        "be called something else",
        "136, utsname04",
        "allowed(lambda: kernel('sethostname', b'loose', 5))",
        meets("EPERM", "EPERM", "EPERM"),
    ),
];
