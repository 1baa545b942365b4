// SPDX-License-Identifier: Apache-2.0
//! A program is started inside its cgroups, so that no instruction of it runs outside. It is cloned
//! into the v2 group and enters v1 groups as the one thread that it is then: moving a process from
//! one group to another makes the kernel wait for every CPU, twenty milliseconds and more.

use std::ffi::{CString, c_char, c_int};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// A group's ways in, opened while its hierarchies are in sight.
#[derive(Debug)]
pub(crate) struct Entrances {
    /// v2: the group's directory.
    pub(crate) unified: Option<OwnedFd>,
    /// v1: the file `tasks` of each hierarchy.
    pub(crate) tasks: Vec<File>,
}

/// What is started: an empty environment, `/` as its directory.
#[derive(Debug)]
pub(crate) struct Birth<'a> {
    pub(crate) program: &'a Path,
    pub(crate) arguments: &'a [String],
    /// Its descriptor 0; 1 and 2 are `/dev/null`.
    pub(crate) stdin: BorrowedFd<'a>,
    /// Its descriptors from 3 on; it has no other.
    pub(crate) further: &'a [BorrowedFd<'a>],
}

/// Copies of what a newborn needs lie from here on, where none of its own places is.
const COPIES_FROM: c_int = 64;

impl Birth<'_> {
    /// Starts it. The pidfd is the caller's child, to be waited for.
    pub(crate) fn start(&self, groups: &Entrances) -> io::Result<OwnedFd> {
        let program = CString::new(self.program.as_os_str().as_bytes())?;
        let arguments = self
            .arguments
            .iter()
            .map(|word| CString::new(word.as_str()));
        let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
        let words: Vec<*const c_char> = [program.as_ptr()]
            .into_iter()
            .chain(arguments.iter().map(|word| word.as_ptr()))
            .chain([ptr::null()])
            .collect();
        let null = File::options().write(true).open("/dev/null")?;
        let tasks: Vec<c_int> = groups.tasks.iter().map(AsRawFd::as_raw_fd).collect();
        let copy = |fd: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, COPIES_FROM);
        let further = self.further.iter().map(|fd| copy(*fd));
        let further = further.collect::<Result<Vec<OwnedFd>, _>>()?;
        let (mut failure, writer) = io::pipe()?;
        let tell = copy(std::os::fd::AsFd::as_fd(&writer))?;
        // Its end is what an exec is told by; only the newborn may hold it open.
        drop(writer);
        let placed: Vec<c_int> = further.iter().map(AsRawFd::as_raw_fd).collect();
        let newborn = Newborn {
            words: &words,
            tasks: &tasks,
            streams: [self.stdin.as_raw_fd(), null.as_raw_fd(), null.as_raw_fd()],
            further: &placed,
            tell: tell.as_raw_fd(),
        };
        let child = clone_into(groups.unified.as_ref(), &newborn)?;
        drop(tell);
        let mut code = [0; size_of::<c_int>()];
        // Closed without a word by a successful exec.
        match failure.read(&mut code)? {
            0 => Ok(child),
            _ => {
                let exited = rustix::process::WaitIdOptions::EXITED;
                let id = rustix::process::WaitId::PidFd(std::os::fd::AsFd::as_fd(&child));
                // It exits right after its word; whether it is collected changes no answer.
                let _ = rustix::process::waitid(id, exited);
                Err(io::Error::from_raw_os_error(c_int::from_ne_bytes(code)))
            }
        }
    }
}

/// All that the child uses, made before it exists.
struct Newborn<'a> {
    words: &'a [*const c_char],
    tasks: &'a [c_int],
    streams: [c_int; 3],
    further: &'a [c_int],
    tell: c_int,
}

fn clone_into(unified: Option<&OwnedFd>, newborn: &Newborn<'_>) -> io::Result<OwnedFd> {
    let mut pidfd: c_int = -1;
    let mut flags = u64::from(libc::CLONE_PIDFD.unsigned_abs());
    let mut cgroup = 0;
    if let Some(group) = unified {
        flags |= INTO_CGROUP;
        cgroup = u64::from(group.as_raw_fd().unsigned_abs());
    }
    let arguments = libc::clone_args {
        flags,
        pidfd: ptr::from_mut(&mut pidfd).expose_provenance() as u64,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: u64::from(libc::SIGCHLD.unsigned_abs()),
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup,
    };
    // SAFETY: clone3 reads `size` bytes at the pointer, which lives across the call, and writes a
    // descriptor to `pidfd`, which does too. Without CLONE_VM and with no stack given it returns
    // twice like fork: the child has a copy of this stack. In a threaded process the child may only
    // make async-signal-safe calls, and `become_program` makes no others and never returns.
    let child = unsafe {
        match libc::syscall(
            libc::SYS_clone3,
            &raw const arguments,
            size_of_val(&arguments),
        ) {
            0 => become_program(newborn),
            child => child,
        }
    };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has put a new descriptor there, which nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(pidfd) })
}

/// `CLONE_INTO_CGROUP` of clone3(2), since Linux 5.7.
const INTO_CGROUP: u64 = 0x2_0000_0000;

/// The child's life until exec.
///
/// # Safety
/// The caller is a fresh copy of a process, and every pointer of `newborn.words` but the last, null
/// one, leads to a NUL-terminated text.
unsafe fn become_program(newborn: &Newborn<'_>) -> ! {
    // SAFETY: write, dup2, chdir, sigprocmask, signal, execve and _exit are async-signal-safe; they
    // get descriptors that are open in this copy, texts that end in NUL, and lists that end in a
    // null pointer. Nothing is allocated or locked. Descriptors 0 to 2 are taken in the launcher,
    // so none of the streams is one of them; the others, and the pipe, were copied above the places
    // that they come to; and dup2 clears their close-on-exec.
    unsafe {
        let entered = newborn
            .tasks
            .iter()
            .all(|file| libc::write(*file, c"0".as_ptr().cast(), 1) == 1);
        let [stdin, stdout, stderr] = newborn.streams;
        let placed = entered
            && libc::dup2(stdin, 0) == 0
            && libc::dup2(stdout, 1) == 1
            && libc::dup2(stderr, 2) == 2
            && newborn
                .further
                .iter()
                .zip(3..)
                .all(|(fd, place)| libc::dup2(*fd, place) == place)
            && libc::chdir(c"/".as_ptr()) == 0;
        if placed {
            // As every program expects to find them; a Rust process has them otherwise.
            let mut none = std::mem::zeroed::<libc::sigset_t>();
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            let environment: [*const c_char; 1] = [ptr::null()];
            let words = newborn.words.as_ptr();
            libc::execve(words.read(), words, environment.as_ptr());
        }
        let code = *libc::__errno_location();
        let _ = libc::write(
            newborn.tell,
            ptr::from_ref(&code).cast(),
            size_of::<c_int>(),
        );
        libc::_exit(127)
    }
}
