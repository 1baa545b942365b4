// SPDX-License-Identifier: Apache-2.0
//! Anonymous pages that are locked into memory, left out of core dumps, zeroed in a forked child,
//! fenced by pages that nobody can touch, and wiped before anybody else gets them: the next secret
//! of this process, or the kernel.

use rustix::mm::{self, Advice, MapFlags, MprotectFlags, ProtFlags};
use std::ffi::c_void;
use std::io;
use std::num::NonZeroUsize;
use std::ptr::{self, NonNull};
use std::sync::{Mutex, PoisonError};
use zeroize::Zeroize;

/// LIMIT: a real secret or key is smaller; a larger one has a mapping of its own, made and unmade.
const POOLED_BYTES: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
/// LIMIT: wiped mappings that wait; more go back to the kernel. A batch of releases holds two at
/// once.
const WAITING_MAX: usize = 16;
/// The largest page of any kernel that this runs on: a distance of it is page-aligned everywhere.
const FENCE_BYTES: usize = 64 * 1024;

/// Wiped mappings that wait for the next secret: making one takes six system calls.
static POOL: Pool = Pool(Mutex::new(Vec::new()));

struct Pool(Mutex<Vec<Mapping>>);

impl Pool {
    fn take(&self) -> Option<Mapping> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Keeps a mapping that was wiped.
    fn keep(&self, mapping: Mapping) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if mapping.length == POOLED_BYTES && waiting.len() < WAITING_MAX {
            waiting.push(mapping);
        }
    }
}

/// Memory of one owner.
pub(crate) struct LockedPages {
    /// Nothing only while it is being dropped.
    mapping: Option<Mapping>,
    length: NonZeroUsize,
    pool: &'static Pool,
}

impl LockedPages {
    /// Zeroed memory of this length.
    pub(crate) fn new(length: NonZeroUsize) -> io::Result<Self> {
        Self::of(&POOL, length)
    }

    fn of(pool: &'static Pool, length: NonZeroUsize) -> io::Result<Self> {
        let waiting = if length <= POOLED_BYTES {
            pool.take()
        } else {
            None
        };
        let mapping = match waiting {
            Some(mapping) => mapping,
            None => Mapping::new(length.max(POOLED_BYTES))?,
        };
        Ok(Self {
            mapping: Some(mapping),
            length,
            pool,
        })
    }

    /// All of it.
    pub(crate) fn bytes(&self) -> &[u8] {
        let all = self.mapping.as_ref().map(Mapping::bytes);
        let own = all.and_then(|all| all.get(..self.length.get()));
        own.unwrap_or_default()
    }

    /// All of it, to be written.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let all = self.mapping.as_mut().map(Mapping::bytes_mut);
        let own = all.and_then(|all| all.get_mut(..self.length.get()));
        own.unwrap_or_default()
    }
}

impl Drop for LockedPages {
    fn drop(&mut self) {
        // Nothing behind `length` was ever given out to be written.
        self.bytes_mut().zeroize();
        if let Some(mapping) = self.mapping.take() {
            self.pool.keep(mapping);
        }
    }
}

/// Locked pages between two fences.
struct Mapping {
    /// The first byte behind the first fence.
    start: NonNull<u8>,
    length: NonZeroUsize,
}

// SAFETY: the mapping belongs to this value alone and is reached only through `&self` and
// `&mut self`, so the usual borrow rules hold when it moves to, or is read from, another thread.
unsafe impl Send for Mapping {}
// SAFETY: see Send; `&self` gives out shared reads only.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(length: NonZeroUsize) -> io::Result<Self> {
        let whole = Self::whole(length).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: mmap asks that a fixed address not be passed carelessly; the address is null and
        // the mapping anonymous and private, so no existing memory is touched.
        let fence = unsafe {
            mm::mmap_anonymous(
                ptr::null_mut(),
                whole,
                ProtFlags::empty(),
                MapFlags::PRIVATE,
            )?
        };
        let start = fence.cast::<u8>().wrapping_add(FENCE_BYTES);
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        // From here on Drop gives everything back, whatever fails.
        let pages = Self { start, length };
        // SAFETY: mprotect, mlock and madvise ask for a range that is mapped and nobody uses: it
        // lies `FENCE_BYTES` inside this value's own mapping, which is `FENCE_BYTES` longer than
        // the range at its end, and no reference to it exists yet. The kernel rounds the length up
        // to whole pages, which stay inside as a fence is at least a page.
        unsafe {
            let access = MprotectFlags::READ | MprotectFlags::WRITE;
            mm::mprotect(pages.address(), length.get(), access)?;
            mm::mlock(pages.address(), length.get())?;
            mm::madvise(pages.address(), length.get(), Advice::LinuxDontDump)?;
            mm::madvise(pages.address(), length.get(), Advice::LinuxWipeOnFork)?;
        }
        Ok(pages)
    }

    /// Bytes of address space, fences included; nothing when there can't be so many.
    const fn whole(length: NonZeroUsize) -> Option<usize> {
        length.get().checked_add(2 * FENCE_BYTES)
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: from_raw_parts asks for `length` initialised bytes that nobody writes meanwhile:
        // anonymous pages start zeroed, `new` made them readable, and writing needs `&mut self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length.get()) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length.get()) }
    }

    fn address(&self) -> *mut c_void {
        self.start.as_ptr().cast()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let fence = self.address().wrapping_byte_sub(FENCE_BYTES);
        // INVARIANT: `new` made a mapping of this size, so it has a number.
        let whole = Self::whole(self.length).unwrap_or_default();
        // SAFETY: munmap asks that nothing refer to the range afterwards: it is the mapping that
        // `new` made, this value is being dropped, and every borrow of it has ended. Unmapping
        // unlocks too. A failed unmap leaks wiped pages and nothing else.
        let _ = unsafe { mm::munmap(fence, whole) };
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

    fn pool() -> &'static Pool {
        Box::leak(Box::new(Pool(Mutex::default())))
    }

    fn length(bytes: usize) -> NonZeroUsize {
        NonZeroUsize::new(bytes).unwrap()
    }

    // ATTACK: 111
    #[test]
    fn pages_are_wiped_before_the_next_secret_gets_them() {
        let pool = pool();
        let mut first = LockedPages::of(pool, length(3000)).unwrap();
        first.bytes_mut().fill(7);
        let address = first.bytes().as_ptr().addr();
        drop(first);
        let waiting = pool.0.lock().unwrap();
        assert!(waiting[0].bytes().iter().all(|byte| *byte == 0));
        drop(waiting);
        let second = LockedPages::of(pool, length(4096)).unwrap();
        assert_eq!(second.bytes().as_ptr().addr(), address);
        assert!(second.bytes().iter().all(|byte| *byte == 0));
        assert!(flags_of(address).contains(" lo"));
    }

    #[test]
    fn a_secret_shows_its_own_length_and_fences_stand_on_both_sides() {
        for bytes in [1, 4096, 4097, 70_000] {
            let pages = LockedPages::new(length(bytes)).unwrap();
            assert_eq!(pages.bytes().len(), bytes);
            let start = pages.bytes().as_ptr().addr();
            let mapped = bytes.max(POOLED_BYTES.get()).next_multiple_of(4096);
            for (address, open) in [
                (start - 1, false),
                (start, true),
                (start + mapped - 1, true),
                // A kernel of larger pages rounds further up, and a fence is as long.
                (start + mapped.next_multiple_of(FENCE_BYTES), false),
            ] {
                let readable = flags_of(address).contains(" rd");
                assert_eq!(readable, open, "{bytes}: {address:x} of {start:x}");
            }
        }
    }

    #[test]
    fn few_wiped_mappings_wait_and_large_ones_never_do() {
        let pool = pool();
        let all: Vec<_> = (0..WAITING_MAX + 3)
            .map(|_| LockedPages::of(pool, length(32)).unwrap())
            .collect();
        drop(all);
        drop(LockedPages::of(pool, length(5000)).unwrap());
        let waiting = pool.0.lock().unwrap();
        assert_eq!(waiting.len(), WAITING_MAX);
        assert!(waiting.iter().all(|mapping| mapping.length == POOLED_BYTES));
    }

    #[test]
    fn memory_that_cannot_be_locked_is_refused() {
        let wanted = NonZeroUsize::new(1 << 50).unwrap();
        assert!(LockedPages::new(wanted).is_err());
    }
}
