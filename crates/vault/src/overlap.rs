// SPDX-License-Identifier: Apache-2.0
//! Whether one request could match two bindings. Conservative: what can't be told apart overlaps.

use torno_policy::binding::{Binding, PathPattern};
use torno_policy::names::CREDENTIAL_WORD;

/// Both cover some request.
pub(crate) fn overlap(a: &Binding, b: &Binding) -> bool {
    a.endpoint == b.endpoint
        && a.methods.iter().any(|method| b.methods.contains(method))
        && a.paths
            .iter()
            .any(|path| b.paths.iter().any(|other| paths_overlap(path, other)))
}

fn paths_overlap(a: &PathPattern, b: &PathPattern) -> bool {
    let (a, b) = (a.to_string(), b.to_string());
    let mut left = a.split('/').skip(1);
    let mut right = b.split('/').skip(1);
    loop {
        match (left.next(), right.next()) {
            (Some("**"), _) | (_, Some("**")) | (None, None) => return true,
            (Some(x), Some(y)) if x == y => {}
            (Some(x), Some(y)) if may_hold(x, y) || may_hold(y, x) => {}
            (Some("*"), Some(other)) | (Some(other), Some("*")) if !other.is_empty() => {}
            (Some(_) | None, Some(_)) | (Some(_), None) => return false,
        }
    }
}

/// Whether a segment with a slot in it could be the other: a binding that fills it by itself takes
/// whatever the client has there.
fn may_hold(slot: &str, other: &str) -> bool {
    let around = slot.split_once(CREDENTIAL_WORD);
    around.is_some_and(|(before, after)| {
        other.contains(CREDENTIAL_WORD) || (other.starts_with(before) && other.ends_with(after))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_overlap_when_one_path_fits_both() {
        let both = |a: &str, b: &str| {
            let (a, b) = (
                PathPattern::parse(a).unwrap(),
                PathPattern::parse(b).unwrap(),
            );
            let one_way = paths_overlap(&a, &b);
            assert_eq!(one_way, paths_overlap(&b, &a), "{a} {b}");
            one_way
        };
        for (a, b) in [
            ("/**", "/a"),
            ("/a/**", "/a"),
            ("/a/*/c", "/*/b/c"),
            ("/a/**", "/a/b/c"),
            ("/", "/**"),
            ("/bot{credential}/a", "/botx/a"),
            ("/{credential}/a", "/*/a"),
        ] {
            assert!(both(a, b), "{a} {b}");
        }
        for (a, b) in [
            ("/a/**", "/b/**"),
            ("/a", "/a/b"),
            ("/a/*", "/a"),
            ("/a/*", "/a/"),
            ("/a/*/c", "/*/b/d"),
            ("/bot{credential}/a", "/bot{credential}/b"),
            ("/bot{credential}/a", "/v1/a"),
        ] {
            assert!(!both(a, b), "{a} {b}");
        }
    }
}
