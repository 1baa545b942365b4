// SPDX-License-Identifier: Apache-2.0
//! A body of `application/x-www-form-urlencoded`, read as a query is: pairs with `&` between them.

use super::slot::{Found, Place, held};
use crate::refuse::Fault;
use torno_policy::binding::{Held, Parameter, parameter};
use torno_policy::facts::Location;

/// ATTACK: 080 – fields by which frameworks replace the method that was judged, or the character
/// set in which all others are read.
pub(super) const STEERING: [&str; 2] = ["_method", "_charset_"];

/// The value of one field.
pub(crate) fn find(body: &[u8], field: &str) -> Result<Found, Fault> {
    let text = std::str::from_utf8(body).map_err(|_| fault())?;
    // What is not escaped here is read by some servers and dropped by others.
    if !text.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(fault());
    }
    let steers = |name: &&str| parameter(text, name) != Parameter::Absent;
    if STEERING.iter().any(steers) {
        return Err(steering());
    }
    let end = text.len();
    Ok(match parameter(text, field) {
        Parameter::Twice => Found::without_place(Held::Twice),
        Parameter::Once(_, Some(value)) => {
            let held = held(body.get(value.clone()).unwrap_or_default());
            Found::at(held, Place::of(value))
        }
        Parameter::Once(pair, None) => {
            let mut place = Place::of(pair.end..pair.end);
            "=".clone_into(&mut place.before);
            Found::at(Held::Nothing, place)
        }
        Parameter::Absent => {
            let mut place = Place::of(end..end);
            place.before = format!("&{field}=");
            Found::at(Held::Nothing, place)
        }
    })
}

fn fault() -> Fault {
    Fault::malformed("send a form of printable characters, everything else as %XX")
        .at(Location::Body)
}

pub(super) fn steering() -> Fault {
    let hint = "leave `_method` and `_charset_` out: they would change what was judged";
    Fault::malformed(hint).at(Location::Body)
}
