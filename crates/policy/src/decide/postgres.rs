// SPDX-License-Identifier: Apache-2.0
//! How far a connection to a database goes: it is opened to write only where writing itself is
//! allowed, by every layer and without a question. Otherwise the far end is told to keep it from
//! writing, whatever the binding would let it do.

use super::{Explanation, Verdict};
use crate::binding::Slot;
use crate::decision::PermittedInjection;
use crate::facts::RequestFacts;
use crate::postgres::{Access, Deed};

/// The injection of a connection that opens, narrowed to what `judge` says of writing on it.
pub(super) fn narrowed(
    injection: PermittedInjection,
    facts: &RequestFacts,
    judge: impl Fn(&RequestFacts) -> Explanation,
) -> PermittedInjection {
    let Slot::Postgres { access, role } = &injection.slot else {
        return injection;
    };
    if *access == Access::Read || facts.method != Deed::Start.method() {
        return injection;
    }
    let writing = judge(&RequestFacts {
        method: Deed::Write.method(),
        ..facts.clone()
    });
    let is_allowed = |opinion: &super::Opinion| opinion.verdict() == Verdict::Allow;
    let access = if writing.layers.iter().all(is_allowed) {
        Access::Write
    } else {
        Access::Read
    };
    let slot = Slot::Postgres {
        access,
        role: role.clone(),
    };
    PermittedInjection { slot, ..injection }
}
