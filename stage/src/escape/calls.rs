// SPDX-License-Identifier: Apache-2.0
//! Calls of the kernel that public faults went through. Each script makes the call that the fault
//! needs first, in its harmless form: where that is refused, the fault behind it isn't reached.

use super::{ALLOWED, Escape, Without, lacking, meets, says, wants};
use crate::attempt::Goal;

pub(super) const ESCAPES: [Escape; 17] = [
    says(
        "open an io_uring",
        "134, cve-2020-29373",
        r"
allowed(lambda: kernel('io_uring_setup', 1, ctypes.create_string_buffer(120)))
",
        meets("ENOSYS", "ENOSYS", "own"),
    ),
    says(
        "handle page faults",
        "136, userfaultfd",
        "allowed(lambda: kernel('userfaultfd', 1))",
        meets("EPERM", "ENOSYS", "own"),
    ),
    says(
        "count events of the processor",
        "136, cve-2020-25704",
        r"
words = struct.pack('<IIQ', 1, 112, 0).ljust(112, b'\0')
allowed(lambda: kernel('perf_event_open', words, 0, -1, -1, 0))
allowed(lambda: kernel('perf_event_open', words, -1, 0, -1, 0))
",
        meets("EPERM", "ENODEV", "EACCES"),
    ),
    says(
        "keep keys in the kernel",
        "136, cve-2015-7550, cve-2016-4470, cve-2016-9604, cve-2017-6951, cve-2017-7472, \
         cve-2017-12192, cve-2017-12193, cve-2017-15274, cve-2017-15299, cve-2017-15951, \
         cve-2017-17807",
        r"
allowed(lambda: kernel('add_key', b'user', b'torno-escape', b'x', 1, -1))
allowed(lambda: kernel('keyctl', 0, -1, 1))
def ask():
    try:
        kernel('request_key', b'user', b'torno-escape-none', 0, -1)
    except OSError as error:
        # The kernel looked for it.
        if error.errno not in (errno.ENOKEY, 126, 128):
            raise
allowed(ask)
",
        meets("EPERM", "EACCES ENOSYS", "own"),
    ),
    says(
        "write tables of descriptors of segments",
        "cve-2015-3290, cve-2017-17053",
        r"
allowed(lambda: kernel('modify_ldt', 0, ctypes.create_string_buffer(64), 64))
",
        meets("EPERM", "EPERM", "own"),
    ),
    says(
        "place memory on nodes",
        "cve-2017-7616",
        r"
allowed(lambda: kernel('set_mempolicy', 0, 0, 0))
allowed(lambda: kernel('mbind', 0, 0, 0, 0, 0, 0))
",
        meets("EPERM", "own", "own"),
    ),
    says(
        "move pages of another process",
        "136",
        "allowed(lambda: kernel('move_pages', 1, 0, 0, 0, 0, 0))",
        meets("EPERM", "EPERM", "EPERM"),
    ),
    says(
        "compare with another process",
        "136",
        "allowed(lambda: kernel('kcmp', 1, 1, 1, 0, 0))",
        meets("EPERM", "EPERM", "EPERM"),
    ),
    says(
        "take a descriptor of the agent",
        "136, 137",
        r"
held = os.pidfd_open(1)
allowed(lambda: kernel('pidfd_getfd', held, 0, 0))
",
        meets("EPERM", "ENOSYS", "EPERM"),
    ),
    says(
        "advise another process's memory",
        "136",
        r"
held = os.pidfd_open(1)
allowed(lambda: kernel('process_madvise', held, 0, 0, 4, 0))
",
        meets("EPERM", "ENOSYS", "EINVAL"),
    ),
    says(
        "name a file by a handle",
        "136, 144",
        r"
handle = ctypes.create_string_buffer(struct.pack('<Ii', 128, 0).ljust(136, b'\0'))
allowed(lambda: kernel('name_to_handle_at', -100, b'/usr', handle, ctypes.byref(ctypes.c_int()), 0))
",
        meets("EPERM", "ENOTSUP", "own"),
    ),
    says(
        "hear of all files that are opened",
        "136",
        "allowed(lambda: kernel('fanotify_init', 0, 0))",
        meets("EPERM", "ENOSYS", "EPERM"),
    ),
    says(
        "read the kernel's log",
        "136",
        r"
allowed(lambda: kernel('syslog', 3, ctypes.create_string_buffer(64), 64))
allowed(lambda: kernel('syslog', 10, 0, 0))
",
        meets("EPERM", "own", "EPERM"),
    ),
    says(
        "account, swap, set quotas",
        "136",
        r"
allowed(lambda: kernel('acct', 0))
def judged(name, *words):
    try:
        kernel(name, *words)
    except OSError as error:
        # The kernel looked for the file or the device.
        if error.errno not in (errno.ENOENT, errno.ENOTBLK, errno.EINVAL, errno.ENODEV):
            raise
allowed(lambda: judged('swapon', b'/tmp/none', 0))
",
        meets("EPERM", "EPERM", "EPERM"),
    ),
    lacking(
        "the host's kernel was built without it",
        says(
            "use ports of the processor",
            "136",
            "apart(lambda: allowed(lambda: kernel('iopl', 3)))",
            meets("EPERM", "EPERM", "EPERM"),
        ),
    ),
    says(
        "set up the packet filter of the kernel",
        "136, cve-2016-4997, cve-2021-22555",
        r"
# The question that iptables begins with: what the table holds.
def table():
    stream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        stream.getsockopt(socket.IPPROTO_IP, 64, 84)
    except OSError as error:
        # Nobody has loaded such a table; who asked was allowed to.
        if error.errno not in (errno.ENOPROTOOPT, errno.ENOENT, errno.EINVAL):
            raise
allowed(table)
",
        meets("EPERM", "own", "own"),
    ),
    Escape {
        attempt: wants(
            "call by the numbers of another ABI",
            Goal::Says(ALLOWED),
            "calls of other ABIs end the caller",
            r"
def other():
    # getpid by the 32-bit ABI, from a page of our own.
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes.fromhex('b814000000cd80c3'))
    entry = ctypes.addressof(ctypes.c_char.from_buffer(page))
    if ctypes.CFUNCTYPE(ctypes.c_int)(entry)() > 0:
        out('it was allowed')
        os._exit(1)
sys.stdout.flush()
child = os.fork()
if child == 0:
    other()
    os._exit(0)
if os.waitpid(child, 0)[1] != 256:
    absent()
",
        ),
        of: "136",
        meets: meets("absent", "absent", "own"),
        without: Without::Most(&[]),
    },
];
