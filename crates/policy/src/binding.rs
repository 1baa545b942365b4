// SPDX-License-Identifier: Apache-2.0
//! A binding: the row of the vault that says where one credential may go, and how it is put there.
//!
//! Destinations of a credential are set here alone (I14). A grant selects and narrows bindings; it
//! never makes one. A binding names one exact host; https unless the owner said `plaintext`.

use crate::names::{BindingId, CredentialName, Endpoint, Method, RequestPath, TenantName};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

mod answers;
mod check;
mod denied;
mod pattern;
mod slot;
pub mod template;

pub use answers::{Answers, Cookies};
pub use check::{BindingError, is_segment_safe};
pub use denied::Denied;
pub use pattern::{PathPattern, PathPatternError};
pub use slot::{Algorithm, Hash, Hmac, Jwt, KeyForm, Part, Recipe, SignedField};
pub use slot::{Filling, Held, Parameter, Pointer, Sigv4, Slot, may_mean, parameter};

/// When the credential is put in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Only where the client presented this credential's placeholder in the slot.
    Placeholder,
    /// Where the slot holds the placeholder or nothing (git's first request).
    PlaceholderOrInject,
    /// Always: the client's value in the slot is replaced.
    Inject,
}

/// A credential-to-endpoint pair.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binding {
    /// Its name.
    pub id: BindingId,
    /// Whose it is.
    pub tenant: TenantName,
    /// Which credential.
    pub credential: CredentialName,
    /// The exact endpoint.
    pub endpoint: Endpoint,
    /// Set when the owner accepts that the credential crosses the network in the clear.
    #[serde(default)]
    pub plaintext: bool,
    /// Methods it may be used with; never empty.
    pub methods: Vec<Method>,
    /// Paths it may be used with; never empty.
    pub paths: Vec<PathPattern>,
    /// What it may not be used for, whatever `paths` says. A row without any is written as before
    /// there were any, so that it keeps its MAC.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<Denied>,
    /// What becomes of what comes back. A row that says nothing is written without.
    #[serde(default, skip_serializing_if = "Answers::is_plain")]
    pub answers: Answers,
    /// Where the value goes.
    pub slot: Slot,
    /// When it is put there.
    pub mode: Mode,
    /// Unix seconds after which it no longer counts.
    pub expires_at: Option<u64>,
    /// Raised by every change; a placeholder belongs to one revision.
    pub revision: u64,
}

impl Binding {
    /// The path that the binding's and its grant's patterns are compared with. Where the binding
    /// fills a segment by itself, whatever the client has there is named like a placeholder.
    #[must_use]
    pub fn judged<'a>(&self, path: &'a RequestPath) -> Cow<'a, RequestPath> {
        match self.mode {
            Mode::Placeholder => Cow::Borrowed(path),
            Mode::PlaceholderOrInject | Mode::Inject => self.slot.named(path),
        }
    }

    /// Whether the binding denies this use of its credential.
    #[must_use]
    pub fn denies(&self, method: &Method, path: &RequestPath) -> bool {
        let path = self.judged(path);
        self.denied.iter().any(|denied| denied.means(method, &path))
    }
}
