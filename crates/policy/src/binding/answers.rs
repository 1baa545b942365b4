// SPDX-License-Identifier: Apache-2.0
//! What becomes of what a far end gives back for a credential: its cookies, and the tokens of
//! endpoints that make some.

use super::{Binding, BindingError, PathPattern, Slot};
use crate::names::{Method, RequestPath, Scheme};
use serde::{Deserialize, Serialize};

/// The owner's word on answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Answers {
    /// Cookies of the host.
    #[serde(skip_serializing_if = "Cookies::is_drop")]
    pub cookies: Cookies,
    /// Exact paths whose answers hold tokens (RFC 6749 §5.1), and nothing that may pass unread.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub token_endpoints: Vec<PathPattern>,
}

/// What becomes of a cookie that the host sets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cookies {
    /// It goes nowhere.
    #[default]
    Drop,
    /// The gate keeps it and puts it into later requests that the binding covers; the sandbox gets
    /// a marker.
    Broker,
}

impl Cookies {
    const fn is_drop(&self) -> bool {
        matches!(self, Self::Drop)
    }
}

/// LIMIT: a provider has one token endpoint, or one for each flow.
const TOKEN_ENDPOINTS_MAX: usize = 8;

impl Answers {
    /// Whether nothing is kept: also how a row is written as before there was anything to say.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// Whether tokens are made here.
    #[must_use]
    pub fn makes_tokens(&self, path: &RequestPath) -> bool {
        self.token_endpoints
            .iter()
            .any(|known| known.is_match(path))
    }

    pub(super) fn check(&self, binding: &Binding) -> Result<(), BindingError> {
        if self.is_plain() {
            return Ok(());
        }
        if binding.endpoint.scheme == Scheme::Postgres || binding.slot.is_in_websocket() {
            return Err(BindingError::NoAnswers);
        }
        // What a refresh puts into a body would not be what was signed.
        let signs = matches!(binding.slot, Slot::Hmac(_) | Slot::Sigv4(_));
        if signs && !self.token_endpoints.is_empty() {
            return Err(BindingError::SignedTokens);
        }
        if self.token_endpoints.len() > TOKEN_ENDPOINTS_MAX {
            return Err(BindingError::TokenEndpoints);
        }
        let is_exact = |path: &PathPattern| !path.to_string().contains('*');
        let is_covered = |path: &PathPattern| binding.paths.iter().any(|known| known.covers(path));
        let posts = binding
            .methods
            .iter()
            .any(|method| method.as_str() == "POST");
        let mut endpoints = self.token_endpoints.iter();
        match endpoints.find(|path| !(posts && is_exact(path) && is_covered(path))) {
            Some(stray) => Err(BindingError::TokenEndpoint(stray.to_string())),
            None => Ok(()),
        }
    }
}

impl Binding {
    /// Whether the slot is in a body and the method has none: such a request can have the cookies
    /// of an earlier one, and never the credential.
    #[must_use]
    pub fn has_no_place(&self, method: &Method) -> bool {
        let brokers = self.answers.cookies == Cookies::Broker;
        brokers && self.slot.is_in_body() && is_bodiless(method)
    }
}

/// Methods without a body.
pub(super) fn is_bodiless(method: &Method) -> bool {
    matches!(method.as_str(), "GET" | "HEAD")
}
