// SPDX-License-Identifier: Apache-2.0
//! The only `unsafe` of this crate: one order to the kernel's random source, for which there is no
//! safe binding.

use std::fs::File;

use rustix::ioctl::{NoArg, Opcode, ioctl, opcode};

/// `RNDRESEEDCRNG` of random(4).
const RESEED: Opcode = opcode::none(b'R', 7);

/// Has the kernel make its key anew of what the pool holds now.
pub(crate) fn reseed(source: &File) -> rustix::io::Result<()> {
    // SAFETY: the number is the kernel's own for this order (`_IO('R', 0x07)`); the order takes no
    // argument, so no memory is read or written. On a file that is no random source it is refused.
    unsafe { ioctl(source, NoArg::<RESEED>::new()) }
}
