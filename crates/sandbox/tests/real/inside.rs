// SPDX-License-Identifier: Apache-2.0
//! What code inside sees and what it can't do.

use crate::harness::Running;
use torno_sandbox::Level;

pub(crate) const LEVELS: [Level; 2] = [Level::Container, Level::Gvisor];

/// Calls libc by number, as hostile code would.
const SYSCALL: &str = "
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    status = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    return errno.errorcode[ctypes.get_errno()] if status == -1 else 'allowed'
";

fn each(check: impl Fn(Level, &mut Running)) {
    for level in LEVELS {
        if let Some(mut sandbox) = Running::new(level) {
            check(level, &mut sandbox);
        }
    }
}

#[test]
fn it_starts_and_answers_over_the_link() {
    each(|level, sandbox| {
        let code = "import os; print(os.getuid(), os.getgid(), os.uname().nodename, os.getpid(), os.getcwd())";
        assert_eq!(sandbox.run(code), "1000 1000 sandbox 1 /", "{level:?}");
    });
}

// ATTACK: 137
#[test]
fn no_descriptor_is_inherited_but_the_link_and_two_on_dev_null() {
    each(|level, sandbox| {
        // The directory being listed is the fourth.
        let code = "import os
names = sorted(int(n) for n in os.listdir('/proc/self/fd'))
print([n for n in names if os.path.lexists(f'/proc/self/fd/{n}')])
print(os.readlink('/proc/self/fd/0').split(':')[0], os.fstat(1).st_rdev == os.stat('/dev/null').st_rdev)
print([n for n in range(3, 1024) if os.path.isdir(f'/proc/self/fd/{n}')])";
        let answer = sandbox.run(code);
        let mut lines = answer.lines();
        assert_eq!(lines.next(), Some("[0, 1, 2]"), "{level:?}: {answer}");
        let links = lines.next().unwrap();
        assert!(
            links.starts_with(if level == Level::Container {
                "socket"
            } else {
                "host"
            }),
            "{links}"
        );
        assert_eq!(lines.next(), Some("[]"), "{level:?}: {answer}");
    });
}

// ATTACK: 144
// ATTACK: 147
#[test]
fn there_is_no_capability_and_no_way_to_get_one() {
    each(|level, sandbox| {
        let code =
            "print([l.split()[1] for l in open('/proc/self/status') if l.startswith('Cap')])";
        let answer = sandbox.run(code);
        assert!(
            answer.contains("0000000000000000") && !answer.contains("1") && !answer.contains("f"),
            "{answer}"
        );
        let code = "import os
for call in (lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.chroot('/tmp')):
    try: call(); print('allowed')
    except PermissionError: print('refused')";
        assert_eq!(sandbox.run(code), "refused\nrefused\nrefused", "{level:?}");
        // A program with the set-user-id bit is on the host's /usr: its mount says nosuid.
        let code = "import subprocess
print(subprocess.run(['su', '-c', 'id -u'], capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout.strip())";
        assert_ne!(sandbox.run(code), "0", "{level:?}");
        if level == Level::Container {
            let code = "print([l.split()[1] for l in open('/proc/self/status') if l.startswith(('NoNewPrivs', 'Seccomp:'))])";
            assert_eq!(sandbox.run(code), "['1', '2']");
        }
    });
}

// ATTACK: 141
// ATTACK: 144
// ATTACK: 145
#[test]
fn host_knobs_devices_and_system_places_are_not_writable() {
    each(|level, sandbox| {
        let code = "import os
for path in ('/proc/sys/kernel/core_pattern', '/proc/sys/kernel/modprobe', '/proc/sysrq-trigger', '/sys/kernel/uevent_helper',
             '/proc/sys/net/ipv4/ip_forward', '/proc/sys/fs/binfmt_misc/register', '/usr/bin/x', '/etc/passwd', '/x', '/usr/local/x',
             '/.torno/torno-guest', '/etc/alternatives/x', '/etc/resolv.conf'):
    try: open(path, 'w').write('x'); print(path)
    except OSError: pass
for path in ('/dev/kmsg', '/dev/mem', '/dev/vda', '/dev/loop0', '/dev/kvm', '/dev/net/tun'):
    if os.path.exists(path): print(path)
for mode in (0o60600, 0o20600):
    try: os.mknod('/tmp/node', mode, os.makedev(1, 1)); open('/tmp/node', 'rb'); print('mknod')
    except OSError: pass
try: os.write(os.open('/proc/1/attr/current', os.O_WRONLY), b'x'); print('attr')
except OSError: pass";
        assert_eq!(sandbox.run(code), "", "{level:?}");
    });
}

#[test]
fn home_tmp_and_workspace_are_writable_and_forget_devices_and_set_user_id() {
    each(|level, sandbox| {
        let code = "import os
for place in ('/tmp', '/home/agent', '/workspace', '/run', '/dev/shm', '/var/tmp'):
    open(place + '/x', 'w').write('x')
print('written')";
        assert_eq!(sandbox.run(code), "written", "{level:?}");
    });
}

// ATTACK: 134
// ATTACK: 136
#[test]
fn calls_that_reach_around_the_filter_are_refused() {
    let Some(mut sandbox) = Running::new(Level::Container) else {
        return;
    };
    let calls: [(&str, i64, &str); 19] = [
        ("io_uring_setup", libc::SYS_io_uring_setup, "1, 0"),
        ("io_uring_enter", libc::SYS_io_uring_enter, "0, 0, 0, 0, 0"),
        (
            "io_uring_register",
            libc::SYS_io_uring_register,
            "0, 0, 0, 0",
        ),
        ("clone3", libc::SYS_clone3, "0, 0"),
        ("unshare user", libc::SYS_unshare, "0x10000000"),
        ("unshare mount", libc::SYS_unshare, "0x20000"),
        ("clone newuser", libc::SYS_clone, "0x10000011, 0, 0, 0, 0"),
        ("setns", libc::SYS_setns, "0, 0"),
        ("fsopen", libc::SYS_fsopen, "b'tmpfs', 0"),
        ("open_tree", libc::SYS_open_tree, "-100, b'/', 1"),
        ("move_mount", libc::SYS_move_mount, "0, b'', 0, b'', 0"),
        (
            "mount_setattr",
            libc::SYS_mount_setattr,
            "-100, b'/', 0, 0, 0",
        ),
        ("pivot_root", libc::SYS_pivot_root, "b'/tmp', b'/tmp'"),
        ("add_key", libc::SYS_add_key, "b'user', b'x', b'x', 1, -2"),
        ("keyctl", libc::SYS_keyctl, "0, -2, 0"),
        ("bpf", libc::SYS_bpf, "0, 0, 0"),
        (
            "perf_event_open",
            libc::SYS_perf_event_open,
            "0, 0, -1, -1, 0",
        ),
        ("userfaultfd", libc::SYS_userfaultfd, "1"),
        (
            "open_by_handle_at",
            libc::SYS_open_by_handle_at,
            "-100, 0, 0",
        ),
    ];
    for (name, number, arguments) in calls {
        let answer = sandbox.run(&format!("{SYSCALL}\nprint(call({number}, {arguments}))"));
        assert!(
            matches!(answer.as_str(), "EPERM" | "ENOSYS"),
            "{name}: {answer}"
        );
    }
}

// ATTACK: 136
#[test]
fn user_namespaces_mounts_and_keyrings_are_refused_or_stay_in_the_user_space_kernel() {
    let Some(mut sandbox) = Running::new(Level::Gvisor) else {
        return;
    };
    // Its own kernel may offer namespaces: what counts is that none of the host's is reached.
    for (name, number, arguments) in [
        ("io_uring_setup", libc::SYS_io_uring_setup, "1, 0"),
        ("bpf", libc::SYS_bpf, "0, 0, 0"),
        (
            "perf_event_open",
            libc::SYS_perf_event_open,
            "0, 0, -1, -1, 0",
        ),
        ("userfaultfd", libc::SYS_userfaultfd, "1"),
        ("setns", libc::SYS_setns, "0, 0"),
        ("pivot_root", libc::SYS_pivot_root, "b'/tmp', b'/tmp'"),
        ("mount", libc::SYS_mount, "b'none', b'/tmp', b'proc', 0, 0"),
    ] {
        let answer = sandbox.run(&format!("{SYSCALL}\nprint(call({number}, {arguments}))"));
        assert!(
            matches!(answer.as_str(), "EPERM" | "ENOSYS" | "EINVAL" | "ENODEV"),
            "{name}: {answer}"
        );
    }
}

// ATTACK: 136
#[cfg(target_arch = "x86_64")]
#[test]
fn calls_of_the_32_bit_and_x32_abis_do_not_pass() {
    let Some(mut sandbox) = Running::new(Level::Container) else {
        return;
    };
    // x32's number space: mount, and getpid which is harmless natively.
    for number in [0x4000_0000_i64 + 165, 0x4000_0000 + 39] {
        let code = format!(
            "{SYSCALL}
pid = os.fork()
if pid == 0:
    os._exit(0 if call({number}) == 'allowed' else 7)
status = os.waitpid(pid, 0)[1]
print(os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 7)"
        );
        assert_eq!(sandbox.run(&code), "True", "{number:#x}");
    }
    // int 0x80 with eax = 20 (getpid of the 32-bit ABI), from a page of our own.
    let code = "import ctypes, mmap, os
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex('b814000000cd80c3'))
entry = ctypes.addressof(ctypes.c_char.from_buffer(page))
pid = os.fork()
if pid == 0:
    value = ctypes.CFUNCTYPE(ctypes.c_int)(entry)()
    os._exit(0 if value > 0 else 7)
status = os.waitpid(pid, 0)[1]
print(os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 7)";
    assert_eq!(sandbox.run(code), "True");
}

// ATTACK: 133
#[test]
fn terminal_injection_is_refused_also_with_high_bits_set() {
    each(|level, sandbox| {
        let code = format!(
            "{SYSCALL}
leader, follower = os.openpty()
byte = ctypes.create_string_buffer(b'x')
for request in (0x5412, 0x541C, 0x100005412, 0x7fffffff00005412, 0x10000541C):
    print(call({ioctl}, follower, request, ctypes.addressof(byte)))
import fcntl, termios, struct
print(len(fcntl.ioctl(follower, termios.TIOCGWINSZ, struct.pack('HHHH', 0, 0, 0, 0))))
try: open('/dev/tty', 'rb'); print('controlling terminal')
except OSError: print('none')",
            ioctl = libc::SYS_ioctl
        );
        let answer = sandbox.run(&code);
        let lines: Vec<&str> = answer.lines().collect();
        let (requests, rest) = lines.split_at(5);
        assert!(!requests.contains(&"allowed"), "{level:?}: {answer}");
        if level == Level::Container {
            assert_eq!(requests, ["EPERM"; 5], "{answer}");
        }
        assert_eq!(
            rest,
            ["8", "none"],
            "{level:?}: other requests pass and no terminal is shared: {answer}"
        );
    });
}

// ATTACK: 139
// ATTACK: 143
#[test]
fn the_first_process_holds_nothing_but_what_the_spec_listed() {
    each(|level, sandbox| {
        let code = "print(open('/proc/1/environ').read().replace('\\0', '\\n'))
print(open('/proc/1/cmdline').read().replace('\\0', ' '))";
        let answer = sandbox.run(code);
        let names: Vec<&str> = answer
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(name, _)| name)
            .collect();
        let known = [
            "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "LC_CTYPE", "PWD", "SHLVL",
            "_",
        ];
        let trust: Vec<&str> = torno_sandbox::trust_environment()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        for name in names {
            assert!(
                known.contains(&name) || trust.contains(&name),
                "{level:?}: {name}"
            );
        }
        if level == Level::Container {
            assert_eq!(sandbox.run("print(open('/proc/cmdline').read())"), "");
        }
    });
}

#[test]
fn nothing_of_the_host_is_visible_but_usr() {
    each(|level, sandbox| {
        let code = "import os
for path in ('/root', '/etc/shadow', '/etc/ssh', '/etc/ssl/private/x', '/var/lib/dpkg', '/boot', '/home/user',
             '/run/dbus', '/run/systemd', '/sys/fs/cgroup/unified', '/var/log'):
    if os.path.exists(path): print(path)
print(os.listdir('/usr/local'), os.listdir('/home'), os.listdir('/run'))";
        assert_eq!(sandbox.run(code), "[] ['agent'] []", "{level:?}");
    });
}

// ATTACK: 119
// ATTACK: 121
#[test]
fn no_socket_of_the_host_is_reachable() {
    use std::os::linux::net::SocketAddrExt;
    let name = format!("torno-test-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    each(|level, sandbox| {
        let code = format!(
            "import socket
print(open('/proc/net/unix').read().count('@'))
for name in ('\\0{name}', '/run/dbus/system_bus_socket', '\\0/org/freedesktop/systemd1/notify'):
    try: socket.socket(socket.AF_UNIX).connect(name); print('connected')
    except OSError: pass"
        );
        assert_eq!(sandbox.run(&code), "0", "{level:?}");
    });
}
