// SPDX-License-Identifier: Apache-2.0
//! What enters a sandbox is searched like what leaves it (I13): no vault value goes in, and files
//! that look like credentials are hidden or named before the start.
//!
//! Values are searched for by fingerprint: a rolling hash over 12 bytes picks candidates, a salted
//! SHA-256 over the whole value confirms. Whoever searches can find a value but not learn one.

pub(crate) mod search;
pub(crate) mod shape;
pub(crate) mod stream;

use search::Searcher;
use torno_control_api::request::Failure;
use torno_notary_protocol::desk::Fingerprint;

/// Refuses texts that hold a vault value: arguments, variables.
pub(crate) fn check_strings<'a>(
    kind: &str,
    texts: impl Iterator<Item = (String, &'a str)>,
    fingerprints: &[Fingerprint],
) -> Result<(), Failure> {
    let searcher = Searcher::new(fingerprints);
    for (place, text) in texts {
        if let Some(credential) = searcher.find(text.as_bytes()) {
            return Err(vault_value(&format!("{kind}: {place}"), credential));
        }
    }
    Ok(())
}

/// The refusal for a vault value that would have entered.
pub(crate) fn vault_value(place: &str, credential: &str) -> Failure {
    Failure {
        code: "vault_value_inside".to_owned(),
        message: format!("{place} holds the value of the credential `{credential}`"),
        hint: format!(
            "take it out; the sandbox gets a placeholder by [secret.{credential}] in torno.toml"
        ),
    }
}
