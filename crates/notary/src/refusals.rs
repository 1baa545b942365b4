// SPDX-License-Identifier: Apache-2.0
//! The notary's own refusals, each with what to do next, and how one that is no decision about
//! facts is written down.

use torno_audit::{Event, RequestRefused};
use torno_policy::decision::{Layer, Reason, Refusal};
use torno_policy::names::RuleName;
use torno_vault::UnlockError;

/// The record of a refusal that is no decision about facts.
pub(crate) fn refused_event(refusal: &Refusal, target: &str) -> Event {
    Event::RequestRefused(Box::new(RequestRefused {
        reason: refusal.reason,
        layer: refusal.layer,
        rule: (&refusal.rule).into(),
        target: target.into(),
        count: 1,
    }))
}

pub(crate) fn refusal(reason: Reason, layer: Layer, rule: &str, hint: &str) -> Refusal {
    Refusal {
        reason,
        layer,
        rule: RuleName::new(rule),
        hint: hint.to_owned(),
    }
}

pub(crate) fn record_unavailable() -> Refusal {
    let hint = "the record can't be written, so nothing may happen; tell the operator";
    refusal(Reason::RecordUnavailable, Layer::Record, "record", hint)
}

pub(crate) fn session_unknown() -> Refusal {
    let hint = "this session does not exist here";
    refusal(Reason::SessionUnknown, Layer::Standing, "standing", hint)
}

pub(crate) fn undecidable() -> Refusal {
    let hint = "this could not be decided; tell the operator";
    refusal(Reason::Undecidable, Layer::Session, "default", hint)
}

pub(crate) fn receipt_invalid() -> Refusal {
    let hint = "the receipt is unknown, used, too old or another session's; ask again";
    refusal(Reason::ReceiptInvalid, Layer::Vault, "receipt", hint)
}

pub(crate) fn unlock_refusal(error: &UnlockError) -> Refusal {
    let (reason, hint) = match error {
        UnlockError::Sealed => (
            Reason::VaultSealed,
            "the vault is sealed; the operator unseals it with `torno vault unseal`",
        ),
        UnlockError::Revoked => (
            Reason::CredentialRevoked,
            "the credential was revoked or removed; do without it or tell the operator",
        ),
        UnlockError::Binding => (
            Reason::BindingNotGranted,
            "the binding was changed after the decision; ask again",
        ),
        _ => (
            Reason::Undecidable,
            "the credential can't be unlocked; tell the operator",
        ),
    };
    refusal(reason, Layer::Vault, "unlock", hint)
}
