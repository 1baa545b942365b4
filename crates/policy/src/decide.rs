// SPDX-License-Identifier: Apache-2.0
//! The decision: a meet over layers on `Deny < Ask < Allow`. The one maker of [`Permit`].

use crate::binding::Binding;
use crate::decision::{Decision, Permit};
use crate::facts::Act;
use crate::grant::Grant;
use crate::names::{CredentialName, Generation};
use crate::organisation::Organisation;
use crate::placeholder::PlaceholderDigest;
use crate::standing::Standing;

/// Everything that has a say, as rows of one policy generation.
#[derive(Debug, Clone, Copy)]
pub struct Layers<'a> {
    /// The session's row; `None` when there is no such session.
    pub standing: Option<&'a Standing>,
    /// The generation that the asker's socket was made for.
    pub asker: Generation,
    /// The organisation's policy.
    pub organisation: &'a Organisation,
    /// The session's grant.
    pub grant: &'a Grant,
    /// Bindings of the session's tenant.
    pub bindings: &'a [Binding],
    /// The session's live placeholders.
    pub placeholders: &'a [IssuedPlaceholder],
    /// Unix seconds.
    pub now: u64,
}

/// A placeholder that the session was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedPlaceholder {
    /// Its digest.
    pub digest: PlaceholderDigest,
    /// The credential it stands for.
    pub credential: CredentialName,
}

/// Judges one act.
#[must_use]
pub fn decide(layers: &Layers<'_>, act: &Act) -> Decision {
    let _ = (layers, act);
    unimplemented!()
}
