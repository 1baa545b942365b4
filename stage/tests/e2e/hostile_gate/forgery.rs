// SPDX-License-Identifier: Apache-2.0
//! Receipts that nobody made.

use torno_notary_protocol::receipt::{Receipt, ReceiptClaims};
use torno_policy::names::Endpoint;

/// The receipt's text, changed; its form stays.
pub(crate) fn forge(receipt: &Receipt, change: impl Fn(&str, &str) -> String) -> Receipt {
    let text = serde_json::to_value(receipt).unwrap();
    let (claims, tag) = text.as_str().unwrap().split_once('.').unwrap();
    serde_json::from_value(change(claims, tag).into()).unwrap()
}

pub(crate) fn flipped(claims: &str, tag: &str) -> String {
    let first = if tag.starts_with('A') { 'B' } else { 'A' };
    format!("{claims}.{first}{}", &tag[1..])
}

fn base64(bytes: &[u8]) -> String {
    data_encoding::BASE64URL_NOPAD.encode(bytes)
}

pub(crate) fn claims(receipt: &Receipt) -> ReceiptClaims {
    let text = serde_json::to_value(receipt).unwrap();
    let (claims, _) = text.as_str().unwrap().split_once('.').unwrap();
    let claims = data_encoding::BASE64URL_NOPAD
        .decode(claims.as_bytes())
        .unwrap();
    serde_json::from_slice(&claims).unwrap()
}

/// A true receipt whose claims name another endpoint, with the tag that it had.
pub(crate) fn pointing_at(receipt: &Receipt, endpoint: &Endpoint) -> Receipt {
    let claims = ReceiptClaims {
        endpoint: endpoint.clone(),
        ..claims(receipt)
    };
    let claims = base64(&serde_json::to_vec(&claims).unwrap());
    forge(receipt, |_, tag| format!("{claims}.{tag}"))
}
