// SPDX-License-Identifier: Apache-2.0
//! A credential that waits for its message on a WebSocket. It is put into one message, and dropped.

use super::body::{around, json_escaped};
use crate::normalize::{Found, in_json, presented};
use crate::refuse::Fault;
use torno_policy::Reason;
use torno_policy::binding::{Held, Mode, Pointer};
use torno_policy::facts::Location;
use torno_policy::placeholder::PlaceholderDigest;
use zeroize::Zeroizing;

/// The slot of a WebSocket's messages.
pub(crate) struct MessageSlot {
    pub(super) pointer: Pointer,
    /// Messages that are no text pass, unread.
    pub(crate) passes_binary: bool,
    pub(super) mode: Mode,
    pub(super) placeholder: Option<PlaceholderDigest>,
    /// Until it is put in.
    pub(super) value: Option<Zeroizing<Vec<u8>>>,
}

impl MessageSlot {
    /// What is sent for a whole text message: the same bytes, or those with the value in its place.
    ///
    /// ATTACK: 063, 086 – nothing but strict JSON is said here, no second placeholder in any place,
    /// and nothing of the client's own where a credential goes.
    pub(crate) fn take(&mut self, message: Vec<u8>) -> Result<Zeroizing<Vec<u8>>, Fault> {
        let found = in_json(&message, &self.pointer)?;
        let (slot, elsewhere): (Vec<_>, Vec<_>) = presented(&found, &message)?
            .into_iter()
            .partition(|one| one.location == Location::Slot);
        let is_mine = slot.iter().all(|one| Some(one.digest) == self.placeholder);
        if !elsewhere.is_empty() {
            return Err(misplaced());
        }
        let fills = match (found.held, self.mode) {
            (Held::Placeholder, _) if !is_mine => return Err(misplaced()),
            (Held::Placeholder, _) => true,
            (Held::Twice, _) => return Err(twice()),
            (Held::Own, Mode::Inject) => true,
            (Held::Own, Mode::Placeholder | Mode::PlaceholderOrInject) => return Err(own()),
            (Held::Nothing, Mode::PlaceholderOrInject | Mode::Inject) => {
                self.value.is_some() && is_said(&found)
            }
            (Held::Nothing, Mode::Placeholder) | (Held::Nowhere, _) => false,
        };
        if !fills {
            return Ok(Zeroizing::new(message));
        }
        let place = found.place.as_ref().ok_or_else(twice)?;
        let value = self.value.take().ok_or_else(twice)?;
        around(place, &message, &json_escaped(&value)).ok_or_else(twice)
    }
}

/// Whether the member is there: a message without it is another message.
fn is_said(found: &Found) -> bool {
    found
        .place
        .as_ref()
        .is_some_and(|place| !place.cut.is_empty())
}

fn misplaced() -> Fault {
    Fault::new(
        Reason::CredentialEndpointMismatch,
        "send the placeholder in the one place of one message that it is bound to",
    )
}

fn twice() -> Fault {
    Fault::new(
        Reason::PlaceholderRepeated,
        "send the placeholder once on a WebSocket, its member once and in one spelling",
    )
}

fn own() -> Fault {
    Fault::new(
        Reason::OwnCredential,
        "leave the credential out: on this WebSocket the bound one alone goes in",
    )
}

#[cfg(test)]
mod tests;
