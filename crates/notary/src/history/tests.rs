// SPDX-License-Identifier: Apache-2.0
//! Crashes between the store, the record and the store's second step.

use super::*;
use crate::{Config, Notary, Now};
use std::os::unix::fs::PermissionsExt;
use torno_audit::{Durability, SigningKey};
use torno_notary_protocol::receipt::ReceiptKey;
use torno_policy::names::{CredentialName, TenantName};
use torno_policy::organisation::Organisation;
use torno_vault::{NewCredential, PassphraseCost, Staged, SystemEntropy, UnsealKind};

const NOW: Now = Now {
    unix_ms: 1,
    boot_ms: 1,
};

fn open(root: &Path) -> Notary {
    let record = root.join("record");
    if !record.exists() {
        std::fs::create_dir(&record).unwrap();
        std::fs::set_permissions(&record, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    let config = Config {
        store: root.join("notary.db"),
        record,
        signing_key: SigningKey::from_seed(&[1; 32]),
        receipt_key: ReceiptKey::new([2; 32]),
        tenant: TenantName::parse("local").unwrap(),
        organisation: Organisation::shipped(),
        software: "test".to_owned(),
        entropy: Box::new(SystemEntropy),
    };
    Notary::open(config, NOW).unwrap()
}

/// A change that is staged on a fresh vault, and its event.
fn staged(notary: &mut Notary) -> (Staged, Event) {
    let init = notary.vault.init(
        UnsealKind::KeyFile,
        &[7; 32],
        PassphraseCost::FLOOR,
        &mut SystemEntropy,
    );
    let init = init.unwrap();
    notary
        .store
        .commit(init.changes(), Some(&Event::VaultInitialised))
        .unwrap();
    record(notary, Event::VaultInitialised, init)
        .map(|recorded| notary.vault.apply(recorded).unwrap())
        .unwrap();
    notary.remember_seen().unwrap();
    let name = CredentialName::parse("token").unwrap();
    let new = NewCredential {
        tenant: &notary.tenant,
        name: &name,
        shape: "",
        value: b"token-0123456789",
    };
    let staged = notary.vault.put(new, 1, &mut SystemEntropy).unwrap();
    (staged, Event::CredentialPut { name, version: 1 })
}

fn record<T>(notary: &mut Notary, event: Event, value: T) -> Option<torno_audit::Recorded<T>> {
    let batch = vec![(NOW.entry(None, event), value)];
    notary
        .recorder
        .append(batch, Durability::Synced)
        .unwrap()
        .pop()
}

fn puts(root: &Path) -> usize {
    let records = Records::open(&root.join("record"), 0).unwrap();
    let events = records.map(|record| record.unwrap().entry.event);
    events
        .filter(|event| matches!(event, Event::CredentialPut { .. }))
        .count()
}

fn credentials(notary: &Notary) -> usize {
    notary.vault.credentials(&notary.tenant).count()
}

#[test]
fn a_change_that_was_stored_and_not_recorded_is_recorded_before_it_is_used() {
    let root = tempfile::tempdir().unwrap();
    let mut notary = open(root.path());
    let (staged, event) = staged(&mut notary);
    notary.store.commit(staged.changes(), Some(&event)).unwrap();
    drop(notary);
    assert_eq!(puts(root.path()), 0);
    let notary = open(root.path());
    assert!(!notary.rolled_back);
    assert_eq!((puts(root.path()), credentials(&notary)), (1, 1));
    drop(notary);
    assert!(!open(root.path()).rolled_back);
    assert_eq!(puts(root.path()), 1);
}

#[test]
fn a_change_that_was_recorded_and_not_settled_is_not_recorded_twice() {
    let root = tempfile::tempdir().unwrap();
    let mut notary = open(root.path());
    let (staged, event) = staged(&mut notary);
    notary.store.commit(staged.changes(), Some(&event)).unwrap();
    let _ = record(&mut notary, event, ());
    drop(notary);
    let notary = open(root.path());
    assert!(!notary.rolled_back);
    assert_eq!((puts(root.path()), credentials(&notary)), (1, 1));
}

#[test]
fn a_recorded_change_that_the_store_lacks_is_a_rollback() {
    let root = tempfile::tempdir().unwrap();
    let mut notary = open(root.path());
    let (_, event) = staged(&mut notary);
    let _ = record(&mut notary, event, ());
    drop(notary);
    assert!(open(root.path()).rolled_back);
}

#[test]
fn an_empty_store_beside_a_record_with_changes_is_a_rollback() {
    let root = tempfile::tempdir().unwrap();
    let mut notary = open(root.path());
    let _ = staged(&mut notary);
    drop(notary);
    std::fs::remove_file(root.path().join("notary.db")).unwrap();
    let _ = std::fs::remove_file(root.path().join("notary.db-wal"));
    assert!(open(root.path()).rolled_back);
}
