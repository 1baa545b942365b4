// SPDX-License-Identifier: Apache-2.0
//! The refresh token behind a placeholder, put into the request to the token endpoint that made
//! it: for the same binding, at the same path, and nowhere else.

use super::body;
use crate::forward::Upload;
use crate::normalize::{Request, Spot, placeholder_at};
use crate::scrub::{Refreshing, Released};
use torno_notary_protocol::gate::Allowed;
use torno_policy::Refusal;

/// Fills the body that was read whole, when a refresh token of this endpoint is presented in it. A
/// credential may have been put in already: `read` bytes were there before.
pub(super) fn fill(
    allowed: &Allowed,
    (request, upload): (&Request, &mut Upload),
    (released, read): (&Released, usize),
) -> Result<(), Refusal> {
    let keeping = allowed.keeping.as_ref().filter(|keeping| keeping.tokens);
    let (Some(keeping), Some(spot)) = (keeping, &request.refresh) else {
        return Ok(());
    };
    let filled = allowed.injection.as_ref().filter(|i| i.slot.is_in_body());
    let filled = filled.and(request.spot.as_ref());
    let Some(spot) = moved(spot, filled, (read, upload.ahead.len())) else {
        return Ok(());
    };
    let at = Refreshing {
        binding: &keeping.binding,
        endpoint: &allowed.endpoint,
        path: request.facts.path.path(),
    };
    let placeholder = placeholder_at(&spot, &upload.ahead);
    let known = placeholder.and_then(|one| released.refresh(one.as_str(), at));
    let Some(known) = known else {
        // Somebody else's, or of another place: it stays what it is, and means nothing there.
        return Ok(());
    };
    let value = super::usable(&known)?;
    let filled = body::fill(&spot, &upload.ahead, value);
    upload.replace(filled.ok_or_else(|| super::unusable(super::ONE_PLACE))?);
    Ok(())
}

/// The spot where it is now, when a value was put in before it. Nothing where the filled slot is
/// this very place.
fn moved(spot: &Spot, filled: Option<&Spot>, lengths: (usize, usize)) -> Option<Spot> {
    let mut spot = spot.clone();
    let place = spot.found.place.as_mut()?;
    let Some(filled) = filled.and_then(|filled| filled.found.place.as_ref()) else {
        return Some(spot);
    };
    if filled.cut.start == place.cut.start {
        return None;
    }
    if filled.cut.start < place.cut.start {
        let (before, now) = lengths;
        let at = |place: usize| (place + now).checked_sub(before);
        place.cut = at(place.cut.start)?..at(place.cut.end)?;
    }
    Some(spot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normalize::body_slot;
    use torno_policy::binding::Slot;

    fn spot(field: &str, body: &[u8]) -> Spot {
        let slot = Slot::Form {
            field: field.to_owned(),
        };
        let found = body_slot(&slot, "", body).unwrap();
        Spot { slot, found }
    }

    #[test]
    fn a_spot_moves_with_what_was_put_in_before_it_and_only_then() {
        let body = b"a=one&refresh_token=two&c=three";
        let refresh = spot("refresh_token", body);
        for (field, value, text) in [
            (
                "a",
                "longer-than-it",
                "a=longer-than-it&refresh_token=X&c=three",
            ),
            ("a", "", "a=&refresh_token=X&c=three"),
            (
                "c",
                "longer-than-it",
                "a=one&refresh_token=X&c=longer-than-it",
            ),
            ("d", "new", "a=one&refresh_token=X&c=three&d=new"),
        ] {
            let slot = spot(field, body);
            let filled = body::fill(&slot, body, value.as_bytes()).unwrap();
            let lengths = (body.len(), filled.len());
            let refresh = moved(&refresh, Some(&slot), lengths).unwrap();
            let filled = body::fill(&refresh, &filled, b"X").unwrap();
            assert_eq!(String::from_utf8_lossy(&filled), text);
        }
        assert_eq!(moved(&refresh, Some(&refresh), (31, 40)), None);
        assert_eq!(moved(&refresh, None, (31, 40)), Some(refresh));
    }
}
