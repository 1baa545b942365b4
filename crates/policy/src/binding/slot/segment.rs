// SPDX-License-Identifier: Apache-2.0
//! One segment of a path, found by its number in a template and by what the template has around
//! it. A path that is none of the template's has no slot.

use super::Held;
use crate::binding::PathPattern;
use crate::names::{CREDENTIAL_WORD, RequestPath};
use std::ops::Range;

pub(super) fn held(template: &PathPattern, path: &RequestPath) -> Option<Held> {
    let place = place(template, path)?;
    let middle = path.path().get(place)?;
    let inside = middle.matches(CREDENTIAL_WORD).count();
    Some(match middle {
        _ if path.words().0 > inside => Held::Twice,
        "" => Held::Nothing,
        CREDENTIAL_WORD => Held::Placeholder,
        _ => Held::Own,
    })
}

/// The bytes of the path where the template has its word.
pub(super) fn place(template: &PathPattern, path: &RequestPath) -> Option<Range<usize>> {
    let (number, before, after) = template.credential()?;
    let text = path.path();
    let mut segments = text.split('/').skip(1);
    let ahead: usize = segments.by_ref().take(number).map(|s| s.len() + 1).sum();
    let segment = segments.next()?;
    let middle = segment.strip_prefix(before)?.strip_suffix(after)?;
    let start = ahead + 1 + before.len();
    let place = start..start + middle.len();
    let named = path.replaced(place.clone(), CREDENTIAL_WORD);
    template.is_match(&named).then_some(place)
}
