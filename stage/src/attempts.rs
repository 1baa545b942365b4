// SPDX-License-Identifier: Apache-2.0
//! The attempts, as data, in the order of the demo's table.

mod host;
mod misuse;
mod reflect;
mod see;
mod send;

use crate::attempt::Attempt;

/// Every attempt.
#[must_use]
pub fn all() -> Vec<&'static Attempt> {
    let lists: [&'static [Attempt]; 5] = [
        &see::ATTEMPTS,
        &reflect::ATTEMPTS,
        &send::ATTEMPTS,
        &misuse::ATTEMPTS,
        &host::ATTEMPTS,
    ];
    lists.into_iter().flatten().collect()
}
