// SPDX-License-Identifier: Apache-2.0
//! CLI ↔ notary, on the notary's own socket: the vault, accepted documents, the record. The socket
//! is the owner's alone (mode 0600, peer uid checked); a secret comes as a frame's attachment.

use serde::{Deserialize, Serialize};
use torno_policy::binding::Binding;
use torno_policy::decision::Refusal;
use torno_policy::names::{BindingId, CredentialName, PresetName};

/// What a person may ask of the notary. `Init`, `Unseal`, `Put` and `Rotate` carry attachment 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum OperatorRequest {
    /// Make a vault; the attachment is the passphrase or the key file's bytes.
    Init {
        /// How it is unsealed from now on.
        unseal: UnsealKind,
    },
    /// Unseal with the attachment.
    Unseal,
    /// Drop every key and refuse credentials until unsealed.
    Seal,
    /// Sealed or not, counts, key versions.
    Status,
    /// Put a new credential; the attachment is its value.
    Put {
        /// Its name.
        name: CredentialName,
        /// What it looks like, for the placeholder's shape (`ghp_`, `sk-`, or empty).
        shape: String,
    },
    /// A new version of a credential; the attachment is its value. Placeholders stay.
    Rotate {
        /// Its name.
        name: CredentialName,
    },
    /// No use from now on; live streams are cut.
    Revoke {
        /// Its name.
        name: CredentialName,
    },
    /// Remove it and its bindings.
    Remove {
        /// Its name.
        name: CredentialName,
    },
    /// Tie a credential to an endpoint. The revision in the row is ignored.
    Bind(Box<Binding>),
    /// Remove a binding.
    Unbind {
        /// Which.
        id: BindingId,
    },
    /// Names, shapes, versions and bindings; never values.
    List,
    /// A new tenant key; data keys are wrapped anew.
    RotateKek,
    /// Accept a policy document by digest (hex SHA-256), which covers the presets that it names.
    Accept {
        /// The digest.
        digest: String,
    },
    /// Was this digest accepted?
    Accepted {
        /// The digest.
        digest: String,
    },
    /// Every preset that was confirmed.
    Presets,
    /// Confirm a preset, in place of an earlier one of that name.
    SetPreset {
        /// Its name.
        name: PresetName,
        /// Its rules, in a document's grammar.
        text: String,
    },
    /// Forget a preset.
    RemovePreset {
        /// Its name.
        name: PresetName,
    },
    /// Where the record lies and what its head is.
    RecordHead,
    /// Remove whole old segments; their tree heads stay.
    Prune {
        /// Keep this many newest segments at least.
        keep_segments: u32,
    },
}

/// How a vault is unsealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnsealKind {
    /// A passphrase, through Argon2id.
    Passphrase,
    /// A key file of 32 bytes or more.
    KeyFile,
}

/// What the notary replies to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum OperatorReply {
    /// Done and on disk.
    Done,
    /// Status.
    Status(VaultStatus),
    /// The list.
    Listed {
        /// Credentials.
        credentials: Vec<CredentialRow>,
        /// Bindings.
        bindings: Vec<Binding>,
    },
    /// Whether the digest was accepted.
    Accepted(bool),
    /// The presets.
    Presets {
        /// By name.
        presets: Vec<PresetRow>,
    },
    /// The record's place and head.
    RecordHead {
        /// The directory of segments.
        directory: String,
        /// The verifier's public key, as a C2SP note key line.
        public_key: String,
        /// Number of records.
        size: u64,
        /// Root hash of the tree, hex.
        root: String,
    },
    /// How many segments went.
    Pruned {
        /// Segments removed.
        segments: u32,
    },
    /// It was not done, and nothing changed.
    Failed {
        /// A stable code.
        code: String,
        /// What failed, and what to do next.
        message: String,
    },
    /// A policy refusal.
    Refused(Refusal),
}

/// A preset as it was confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PresetRow {
    /// Its name.
    pub name: PresetName,
    /// Its rules in their one spelling.
    pub text: String,
}

/// The vault's state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VaultStatus {
    /// A vault exists.
    pub initialised: bool,
    /// Its keys are not in memory.
    pub sealed: bool,
    /// How it is unsealed.
    pub unseal: Option<UnsealKind>,
    /// Credentials in it.
    pub credentials: u32,
    /// The tenant key's version.
    pub kek_version: u32,
}

/// A credential as it may be shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialRow {
    /// Its name.
    pub name: CredentialName,
    /// The placeholder's shape.
    pub shape: String,
    /// Version in use.
    pub version: u32,
    /// It was revoked.
    pub revoked: bool,
    /// Unix seconds of the newest version.
    pub changed_at: u64,
}
