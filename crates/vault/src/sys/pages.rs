// SPDX-License-Identifier: Apache-2.0
//! Anonymous pages that are locked into memory, left out of core dumps, zeroed in a forked child,
//! and wiped before they go back to the kernel.

use rustix::mm::{self, Advice, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::io;
use std::num::NonZeroUsize;
use std::ptr::{self, NonNull};
use zeroize::Zeroize;

/// Pages of one owner.
pub(crate) struct LockedPages {
    start: NonNull<u8>,
    length: NonZeroUsize,
}

// SAFETY: the mapping belongs to this value alone and is reached only through `&self` and
// `&mut self`, so the usual borrow rules hold when it moves to, or is read from, another thread.
unsafe impl Send for LockedPages {}
// SAFETY: see Send; `&self` gives out shared reads only.
unsafe impl Sync for LockedPages {}

impl LockedPages {
    /// Zeroed memory of this length.
    pub(crate) fn new(length: NonZeroUsize) -> io::Result<Self> {
        // SAFETY: mmap asks that a fixed address not be passed carelessly; the address is null and
        // the mapping anonymous and private, so no existing memory is touched.
        let start = unsafe {
            mm::mmap_anonymous(
                ptr::null_mut(),
                length.get(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // From here on Drop gives the pages back, whatever fails.
        let pages = Self { start, length };
        // SAFETY: mlock and madvise ask for a range that is mapped: this value's own mapping,
        // whose address and length came from mmap above. Neither advice changes its contents in
        // this process.
        unsafe {
            mm::mlock(pages.address(), length.get())?;
            mm::madvise(pages.address(), length.get(), Advice::LinuxDontDump)?;
            mm::madvise(pages.address(), length.get(), Advice::LinuxWipeOnFork)?;
        }
        Ok(pages)
    }

    /// All of it.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: from_raw_parts asks for `length` initialised bytes that nobody writes meanwhile:
        // anonymous pages start zeroed, and writing needs `&mut self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length.get()) }
    }

    /// All of it, to be written.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length.get()) }
    }

    fn address(&self) -> *mut c_void {
        self.start.as_ptr().cast()
    }
}

impl Drop for LockedPages {
    fn drop(&mut self) {
        self.bytes_mut().zeroize();
        // SAFETY: munmap asks that nothing refer to the range afterwards: this value is being
        // dropped, and every borrow of it has ended. Unmapping unlocks too.
        // A failed unmap leaks wiped pages and nothing else.
        let _ = unsafe { mm::munmap(self.address(), self.length.get()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line of VmFlags of the mapping that holds `address`.
    fn flags_of(address: usize) -> String {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        for line in maps.lines() {
            let range = line
                .split(' ')
                .next()
                .and_then(|range| range.split_once('-'));
            if let Some((from, to)) = range
                && let (Ok(from), Ok(to)) = (
                    usize::from_str_radix(from, 16),
                    usize::from_str_radix(to, 16),
                )
            {
                inside = (from..to).contains(&address);
            }
            if inside && line.starts_with("VmFlags:") {
                return line.to_owned();
            }
        }
        panic!("no mapping holds the address");
    }

    #[test]
    fn pages_are_locked_left_out_of_dumps_and_wiped_on_fork() {
        let pages = LockedPages::new(NonZeroUsize::new(100).unwrap()).unwrap();
        let flags = flags_of(pages.bytes().as_ptr().addr());
        for flag in [" lo", " dd", " wf"] {
            assert!(flags.contains(flag), "{flag} in {flags}");
        }
    }

    #[test]
    fn memory_that_cannot_be_locked_is_refused() {
        let wanted = NonZeroUsize::new(1 << 50).unwrap();
        assert!(LockedPages::new(wanted).is_err());
    }
}
