// SPDX-License-Identifier: Apache-2.0
//! The refresh token in a request to a token endpoint (RFC 6749 §6): one member of a JSON body or
//! one field of a form, read as strictly as a slot. What is put there is decided elsewhere.

use super::slot::{self, Spot};
use super::{Request, content};
use crate::head::list_members;
use crate::refuse::Fault;
use torno_policy::binding::{Held, Pointer, Slot};
use torno_policy::placeholder::Placeholder;

/// The name of RFC 6749 §6.
const NAME: &str = "refresh_token";

impl Request {
    /// Whether its head says that it may hold a refresh token: a form or JSON of a size that is
    /// read, not encoded. What is anything else streams, and a placeholder in it means nothing.
    pub(crate) fn may_refresh(&self) -> bool {
        self.facts.method.as_str() == "POST"
            && self.refresh_slot().is_some_and(|slot| {
                let is_read = slot::head(self, &slot);
                is_read.is_ok_and(|has_body| has_body)
            })
    }

    fn refresh_slot(&self) -> Option<Slot> {
        let codings = list_members(self.head.values("content-encoding"));
        if codings.into_iter().any(|coding| coding != "identity") {
            return None;
        }
        let is = |kind: &str| content::media_type(self, kind, "").is_ok();
        if is("application/x-www-form-urlencoded") {
            let field = NAME.to_owned();
            Some(Slot::Form { field })
        } else if is("application/json") {
            let pointer = Pointer::parse(&format!("/{NAME}"))?;
            Some(Slot::Json { pointer })
        } else {
            None
        }
    }

    /// Reads it. `body` is whole.
    pub(super) fn read_refresh(&mut self, body: &[u8]) -> Result<(), Fault> {
        let Some(slot) = self.refresh_slot() else {
            return Ok(());
        };
        let spot = slot::read(self, &slot, body)?;
        if spot.found.held == Held::Twice {
            return Err(Fault::malformed("send one refresh token, in one place"));
        }
        self.refresh = (spot.found.held == Held::Placeholder).then_some(spot);
        Ok(())
    }
}

/// The placeholder that stands at a spot of a body.
pub(crate) fn placeholder_at(spot: &Spot, body: &[u8]) -> Option<Placeholder> {
    let place = spot.found.place.as_ref()?;
    let held = body.get(place.cut.clone())?;
    let held = held.strip_prefix(b"\"").unwrap_or(held);
    let held = held.strip_suffix(b"\"").unwrap_or(held);
    Placeholder::parse(std::str::from_utf8(held).ok()?)
}
