// SPDX-License-Identifier: Apache-2.0
//! A binding of the vault, as the record has it.

use super::{DENIED_MAX, METHODS_MAX, PATHS_MAX};
use crate::text::{List, ShortText};
use serde::{Deserialize, Serialize};
use torno_policy::binding::{Cookies, Mode, PathPattern};
use torno_policy::names::{BindingId, CredentialName, Endpoint, Method};

/// A binding as it was set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BindingSet {
    /// Its name.
    pub binding: BindingId,
    /// Its revision.
    pub revision: u64,
    /// Which credential.
    pub credential: CredentialName,
    /// Where it may go.
    pub endpoint: Endpoint,
    /// Whether the owner accepts the network in the clear.
    pub plaintext: bool,
    /// With which methods.
    pub methods: List<Method, METHODS_MAX>,
    /// At which paths.
    pub paths: List<ShortText, PATHS_MAX>,
    /// What it is never used for.
    pub denied: List<ShortText, DENIED_MAX>,
    /// What becomes of cookies, where they are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookies: Option<Cookies>,
    /// Where it makes tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_endpoints: Option<List<ShortText, DENIED_MAX>>,
    /// The slot it goes into: `header:authorization`, `query:key`.
    pub slot: ShortText,
    /// When it is put there.
    pub mode: Mode,
    /// Unix seconds after which it no longer counts.
    pub expires_at: Option<u64>,
}

impl BindingSet {
    /// The record of a vault row.
    #[must_use]
    pub fn of(row: &torno_policy::binding::Binding) -> Self {
        Self {
            binding: row.id.clone(),
            revision: row.revision,
            credential: row.credential.clone(),
            endpoint: row.endpoint.clone(),
            plaintext: row.plaintext,
            methods: List::new(row.methods.iter().cloned()),
            paths: List::new(row.paths.iter().map(pattern_text)),
            denied: List::new(
                row.denied
                    .iter()
                    .map(|denied| ShortText::new(denied.to_string())),
            ),
            cookies: Some(row.answers.cookies).filter(|cookies| *cookies != Cookies::Drop),
            token_endpoints: (!row.answers.token_endpoints.is_empty())
                .then(|| List::new(row.answers.token_endpoints.iter().map(pattern_text))),
            slot: ShortText::new(row.slot.to_string()),
            mode: row.mode,
            expires_at: row.expires_at,
        }
    }
}

fn pattern_text(pattern: &PathPattern) -> ShortText {
    ShortText::new(pattern.to_string())
}
