// SPDX-License-Identifier: Apache-2.0
//! What a binding must be before the vault takes it.

/// Why a binding is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BindingError {
    /// http without `plaintext`.
    #[error("a credential goes over https; to send it in the clear, say `--plaintext`")]
    Plaintext,
}
