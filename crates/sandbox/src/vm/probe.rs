// SPDX-License-Identifier: Apache-2.0
//! Does a machine work here? An emulated one has to be named and claims nothing, so its parts are
//! looked for and nothing more. Its image is made when it is named, and its first start says the
//! rest. Whether KVM runs one is another question, which [`super::boot`] answers.

use crate::facts::HostFacts;
use crate::guarantees::Guarantees;
use crate::plan::MACHINE_FIX;
use crate::probe::Missing;
use crate::spec::Level;

/// The promises of that level here.
pub(crate) fn probe(level: Level, facts: &HostFacts) -> Result<Guarantees, Missing> {
    let missing = |part: &str, fix: &str| Missing {
        level: level.name(),
        part: part.to_owned(),
        fix: fix.to_owned(),
    };
    let parts = facts.machine.as_ref();
    let parts = parts.ok_or_else(|| missing("no QEMU, no kernel or no mkfs.erofs", MACHINE_FIX))?;
    if facts.container_runtime.is_none() {
        return Err(missing("no crun to hold QEMU", "apt-get install crun"));
    }
    if facts.nft.is_none() {
        return Err(missing(
            "no nft in the image of /usr",
            "apt-get install nftables",
        ));
    }
    Ok(super::guarantees(level, parts))
}
