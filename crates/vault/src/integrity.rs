// SPDX-License-Identifier: Apache-2.0
//! One keyed MAC over every row, and a counter that each change raises by one.
//!
//! A row that is changed, added, removed or exchanged for its older self does not fit the MAC. A
//! whole older store does fit its own MAC: the notary therefore compares the counter's history with
//! the record, which is not restored along with it (see `torno_notary`).

use crate::keys::Keys;
use crate::rows::{MetaRow, Rows, Sealed};
use crate::seal::FORMAT;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The MAC of these rows, whose counter will be `counter`.
pub(crate) fn mac(keys: &Keys, rows: &Rows, counter: u64) -> Option<[u8; 32]> {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(keys.mac.expose()).ok()?;
    mac.update(b"torno vault rows");
    mac.update(&[FORMAT]);
    mac.update(&counter.to_le_bytes());
    for ((tenant, version), row) in &rows.keks {
        text(&mut mac, b'k', tenant.as_str());
        mac.update(&version.to_le_bytes());
        sealed(&mut mac, &row.key);
    }
    for ((tenant, name), row) in &rows.credentials {
        text(&mut mac, b'c', tenant.as_str());
        text(&mut mac, b'n', name.as_str());
        text(&mut mac, b's', &row.shape);
        mac.update(&row.version.to_le_bytes());
        mac.update(&[u8::from(row.revoked)]);
        mac.update(&row.changed_at.to_le_bytes());
        mac.update(&row.kek_version.to_le_bytes());
        sealed(&mut mac, &row.data_key);
        sealed(&mut mac, &row.value);
    }
    for ((tenant, id), row) in &rows.bindings {
        text(&mut mac, b'b', tenant.as_str());
        text(&mut mac, b'i', id.as_str());
        // Fields have a fixed order and one spelling, so equal bindings have equal JSON.
        text(&mut mac, b'j', &serde_json::to_string(row).ok()?);
    }
    Some(mac.finalize().into_bytes().into())
}

/// Whether the rows are the ones that were written together with this meta row.
pub(crate) fn is_whole(keys: &Keys, meta: &MetaRow, rows: &Rows) -> bool {
    mac(keys, rows, meta.counter).is_some_and(|wanted| wanted.ct_eq(&meta.mac).into())
}

fn text(mac: &mut Hmac<Sha256>, tag: u8, text: &str) {
    mac.update(&[tag]);
    // usize is at most 64 bits on every target of this product.
    mac.update(&u64::try_from(text.len()).unwrap_or(u64::MAX).to_le_bytes());
    mac.update(text.as_bytes());
}

fn sealed(mac: &mut Hmac<Sha256>, sealed: &Sealed) {
    mac.update(&Sha256::digest(&sealed.0));
}
