// SPDX-License-Identifier: Apache-2.0
//! What a change does to what was open, and how it is taken back.

use super::*;

// ATTACK: 101
#[test]
fn revoked_rotated_removed_and_unbound_count_at_once() {
    let mut fixture = filled();
    let (owner, name) = (tenant("t1"), credential("token"));

    let early = fixture.permit();
    let (staged, version) = fixture
        .vault
        .rotate(
            (&owner, &name),
            b"new-value-0123456789",
            9,
            &mut SystemEntropy,
        )
        .unwrap();
    fixture.apply(staged);
    assert_eq!(version, 2);
    let (value, version) = fixture.unlock(early.clone()).unwrap();
    assert_eq!(
        (value.as_slice(), version),
        (&b"new-value-0123456789"[..], 2)
    );

    let staged = fixture.vault.revoke(&owner, &name).unwrap();
    fixture.apply(staged);
    assert!(matches!(fixture.unlock(early), Err(UnlockError::Revoked)));
    assert!(fixture.vault.live_bindings(&owner).is_empty());

    let mut fixture = filled();
    let early = fixture.permit();
    let id = BindingId::parse("b1").unwrap();
    let staged = fixture.vault.unbind(&owner, &id).unwrap();
    fixture.apply(staged);
    let refused = fixture.unlock(early.clone());
    assert!(matches!(refused, Err(UnlockError::Binding)));
    // Bound again it is another revision.
    fixture.bind(binding("b1", "token")).unwrap();
    assert!(matches!(fixture.unlock(early), Err(UnlockError::Binding)));

    let early = fixture.permit();
    let staged = fixture.vault.remove(&owner, &name).unwrap();
    fixture.apply(staged);
    assert!(matches!(fixture.unlock(early), Err(UnlockError::Revoked)));
    assert_eq!(fixture.vault.bindings(&owner).count(), 0);
}

#[test]
fn a_data_key_that_was_opened_is_gone_after_every_change_and_after_sealing() {
    let changes: [fn(&Vault) -> Staged; 6] = [
        |vault| {
            let name = (&tenant("t1"), &credential("token"));
            let rotated = vault.rotate(name, b"ghp_another0123456789", 6, &mut SystemEntropy);
            rotated.unwrap().0
        },
        |vault| vault.revoke(&tenant("t1"), &credential("token")).unwrap(),
        |vault| vault.remove(&tenant("t1"), &credential("token")).unwrap(),
        |vault| {
            vault
                .rotate_kek(&tenant("t1"), &mut SystemEntropy)
                .unwrap()
                .0
        },
        |vault| vault.bind(binding("b1", "token"), 5).unwrap(),
        |vault| {
            let id = BindingId::parse("b1").unwrap();
            vault.unbind(&tenant("t1"), &id).unwrap()
        },
    ];
    let opened = |fixture: &Fixture| fixture.vault.keys().map(|keys| keys.opened.count());
    for change in changes {
        let mut fixture = filled();
        let permit = fixture.permit();
        fixture.unlock(permit.clone()).unwrap();
        assert_eq!(opened(&fixture), Some(1));
        assert_eq!(fixture.unlock(permit).unwrap().0, VALUE);
        let staged = change(&fixture.vault);
        fixture.apply(staged);
        assert_eq!(opened(&fixture), Some(0));
    }
    let mut fixture = filled();
    let permit = fixture.permit();
    fixture.unlock(permit).unwrap();
    let rows = fixture.vault.rows.clone();
    fixture.vault.seal();
    assert_eq!(opened(&fixture), None);
    fixture.reopen(rows).unwrap();
    assert_eq!(opened(&fixture), Some(0));
}

#[test]
fn a_new_tenant_key_replaces_the_old_one() {
    let mut fixture = filled();
    let owner = tenant("t1");
    let old: Vec<KekRow> = fixture.vault.rows.keks.values().cloned().collect();
    let (staged, version) = fixture
        .vault
        .rotate_kek(&owner, &mut SystemEntropy)
        .unwrap();
    fixture.apply(staged);
    assert_eq!((version, fixture.vault.kek_version(&owner)), (2, 2));
    assert!(
        fixture
            .vault
            .rows
            .keks
            .values()
            .all(|row| !old.contains(row))
    );
    let rows = fixture.vault.rows.clone();
    fixture.reopen(rows).unwrap();
    let permit = fixture.permit();
    assert_eq!(fixture.unlock(permit).unwrap().0, VALUE);
}

#[test]
fn undo_leads_back_to_the_rows_that_were() {
    let fixture = filled();
    let (staged, _) = fixture
        .vault
        .rotate_kek(&tenant("t1"), &mut SystemEntropy)
        .unwrap();
    assert_eq!(changes(&staged.next, &fixture.vault.rows), staged.undo());
    assert_eq!(changes(&fixture.vault.rows, &staged.next), staged.changes());
    assert!(changes(&staged.next, &staged.next).is_empty());
}

#[test]
fn of_two_changes_staged_at_once_the_second_is_stale() {
    let mut fixture = filled();
    let (first, _) = fixture
        .vault
        .rotate_kek(&tenant("t1"), &mut SystemEntropy)
        .unwrap();
    let (second, _) = fixture
        .vault
        .rotate_kek(&tenant("t1"), &mut SystemEntropy)
        .unwrap();
    fixture.apply(first);
    let second = fixture.record(second);
    assert!(matches!(
        fixture.vault.apply(second),
        Err(ChangeError::Stale)
    ));
}
