// SPDX-License-Identifier: Apache-2.0
//! Errors as the owner reads them: one mapping to stable codes.

use std::error::Error;
use torno_notary_protocol::operator::OperatorReply;

/// A failure for a person: a stable code, what failed, and what to do next.
pub(crate) struct Failure {
    pub(super) code: &'static str,
    pub(super) message: String,
}

impl Failure {
    pub(super) fn reply(self) -> OperatorReply {
        OperatorReply::Failed {
            code: self.code.to_owned(),
            message: self.message,
        }
    }
}

pub(super) fn stale() -> Failure {
    Failure {
        code: "stale",
        message: "the vault changed in between; try again".to_owned(),
    }
}

/// An error with its sources, for a person.
#[expect(clippy::needless_pass_by_value, reason = "`map_err` hands it over")]
pub(super) fn failed<E: Error + Coded>(error: E) -> Failure {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        message.push_str(": ");
        message.push_str(&cause.to_string());
        source = cause.source();
    }
    Failure {
        code: error.code(),
        message,
    }
}

/// The stable code of an error.
pub(super) trait Coded {
    fn code(&self) -> &'static str;
}

macro_rules! codes {
    ($($error:ty = $code:literal;)*) => {
        $(impl Coded for $error {
            fn code(&self) -> &'static str {
                $code
            }
        })*
    };
}

codes! {
    crate::store::StoreError = "store";
    crate::notary::OpenError = "store";
    torno_audit::AppendError = "record";
    torno_audit::PruneError = "record";
    torno_audit::digest::DigestError = "digest";
}

impl Coded for torno_vault::UnsealError {
    fn code(&self) -> &'static str {
        match self {
            Self::NotInitialised => "not_initialised",
            Self::AlreadyUnsealed => "already_unsealed",
            Self::Secret => "wrong_secret",
            Self::Integrity | Self::Cost => "integrity",
            Self::Memory | Self::Locked(_) | _ => "memory",
        }
    }
}

impl Coded for torno_vault::ChangeError {
    fn code(&self) -> &'static str {
        match self {
            Self::Exists => "exists",
            Self::NotInitialised => "not_initialised",
            Self::Sealed => "sealed",
            Self::WeakUnseal => "weak_unseal",
            Self::Taken(_) => "taken",
            Self::NoCredential(_) => "no_credential",
            Self::NoBinding(_) => "no_binding",
            Self::Revoked(_) => "revoked",
            Self::Value => "value",
            Self::Shape => "shape",
            Self::Binding(_) => "binding",
            Self::Expired => "expired",
            Self::Overlap(_) => "overlap",
            Self::Full => "full",
            Self::Stale => "stale",
            _ => "vault",
        }
    }
}
