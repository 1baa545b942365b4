// SPDX-License-Identifier: Apache-2.0
//! The organisation's layer: what the shipped policy says, and what is no policy.

use super::*;

#[test]
fn the_shipped_policy_parses_and_names_its_rules() {
    let shipped = Organisation::parse(SHIPPED).unwrap();
    let names: Vec<_> = shipped
        .rules()
        .iter()
        .map(|(name, _)| name.to_string())
        .collect();
    assert_eq!(
        names,
        [
            "org.no-credential-in-the-clear",
            "org.no-metadata",
            "org.no-own-credential-in-the-clear",
            "org.request-in-the-clear",
            "org.request-over-tls",
            "org.start",
            "org.tools",
        ]
    );
}
