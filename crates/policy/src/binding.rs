// SPDX-License-Identifier: Apache-2.0
//! A binding: the row of the vault that says where one credential may go, and how it is put there.
//!
//! Destinations of a credential are set here alone (I14). A grant selects and narrows bindings; it
//! never makes one. A binding names one exact host; https unless the owner said `plaintext`.

use crate::names::{BindingId, CredentialName, Endpoint, Method, TenantName};
use serde::{Deserialize, Serialize};

mod check;
mod pattern;

pub use check::BindingError;
pub use pattern::{PathPattern, PathPatternError};

/// The one place of a request that the credential is put into.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Slot {
    /// A header field, with an optional scheme word before the value: `Authorization: Bearer …`.
    Header {
        /// Lower-case field name; structural fields are refused.
        name: String,
        /// `Bearer`, `token`, or nothing.
        scheme: Option<String>,
    },
    /// `Authorization: Basic base64(user:credential)`.
    Basic {
        /// The user name sent with it; no colon.
        user: String,
    },
}

impl Slot {
    /// The lower-case name of the header field that the slot fills.
    #[must_use]
    pub fn header_name(&self) -> &str {
        match self {
            Self::Header { name, .. } => name,
            Self::Basic { .. } => "authorization",
        }
    }
}

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
    /// Where the value goes.
    pub slot: Slot,
    /// When it is put there.
    pub mode: Mode,
    /// Unix seconds after which it no longer counts.
    pub expires_at: Option<u64>,
    /// Raised by every change; a placeholder belongs to one revision.
    pub revision: u64,
}
