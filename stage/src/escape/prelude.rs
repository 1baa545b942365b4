// SPDX-License-Identifier: Apache-2.0
//! What the scripts of escapes begin with, after that of all attempts.

/// Calls of the kernel by number, as hostile code makes them, and one way to say what refused.
pub const PRELUDE: &str = r"
import ctypes, errno, mmap, struct, threading
# Without a workspace there is nowhere for its keys.
os.environ.pop('SSLKEYLOGFILE', None)
LIBC = ctypes.CDLL(None, use_errno=True)
PLACE = os.uname().machine != 'x86_64'
# By name: the number on x86-64, and elsewhere. From 424 on they are the same everywhere.
NUMBERS = {
    'acct': (163, 89), 'add_key': (248, 217), 'bpf': (321, 280), 'clone': (56, 220),
    'clone3': (435, 435), 'fanotify_init': (300, 262), 'finit_module': (313, 273),
    'fsopen': (430, 430), 'init_module': (175, 105), 'io_uring_setup': (425, 425),
    'kcmp': (312, 272), 'kexec_load': (246, 104), 'keyctl': (250, 219), 'mbind': (237, 235),
    'modify_ldt': (154, 999), 'mount': (165, 40), 'mount_setattr': (442, 442),
    'move_mount': (429, 429), 'move_pages': (279, 239), 'name_to_handle_at': (303, 264),
    'open_by_handle_at': (304, 265), 'open_tree': (428, 428), 'perf_event_open': (298, 241),
    'pidfd_getfd': (438, 438), 'pivot_root': (155, 41), 'ptrace': (101, 117),
    'reboot': (169, 142), 'request_key': (249, 218), 'set_mempolicy': (238, 237),
    'setns': (308, 268), 'settimeofday': (164, 170), 'swapon': (167, 224), 'syslog': (103, 116),
    'umount2': (166, 39), 'unshare': (272, 97), 'userfaultfd': (323, 282),
    'process_madvise': (440, 440), 'iopl': (172, 999), 'sethostname': (170, 161),
    'chroot': (161, 51),
}

def kernel(name, *arguments):
    number = NUMBERS[name][PLACE]
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    got = LIBC.syscall(ctypes.c_long(number), *words)
    if got == -1:
        raise OSError(ctypes.get_errno(), name)
    return got

def refused(error):
    number = None if isinstance(error, ssl.SSLError) else error.errno
    out('refused: ' + errno.errorcode.get(number, type(error).__name__))

def broken(kind, error, trace):
    if isinstance(error, OSError):
        refused(error)
    else:
        out('refused: broken: %s: %s' % (kind.__name__, error))
sys.excepthook = broken

def absent():
    out('refused: absent')

def tried(action):
    try:
        return action()
    except OSError as error:
        refused(error)

def allowed(action):
    try:
        action()
        out('it was allowed')
    except OSError as error:
        refused(error)

def apart(action):
    # In a process of its own, so that what it changes of itself is gone with it.
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        action()
        os._exit(0)
    os.waitpid(child, 0)

def family(*words):
    allowed(lambda: socket.socket(*words).close())
";
