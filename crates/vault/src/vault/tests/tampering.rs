// SPDX-License-Identifier: Apache-2.0
//! Rows that somebody changed, swapped or brought back.

use super::*;

/// Each change of the rows behind the vault's back.
fn tampered(rows: &Rows) -> Vec<(&'static str, Rows)> {
    let mut all = Vec::new();
    let mut with = |what, change: &dyn Fn(&mut Rows)| {
        let mut changed = rows.clone();
        change(&mut changed);
        all.push((what, changed));
    };
    let key = || (tenant("t1"), credential("token"));
    let bound = || (tenant("t1"), BindingId::parse("b1").unwrap());
    with("version", &|r| {
        r.credentials.get_mut(&key()).unwrap().version = 2
    });
    with("shape", &|r| {
        r.credentials.get_mut(&key()).unwrap().shape = "x".into()
    });
    with("time", &|r| {
        r.credentials.get_mut(&key()).unwrap().changed_at += 1
    });
    with("revoked", &|r| {
        r.credentials.get_mut(&key()).unwrap().revoked = true
    });
    with("kek version", &|r| {
        r.credentials.get_mut(&key()).unwrap().kek_version = 2
    });
    with("counter", &|r| r.meta.as_mut().unwrap().counter += 1);
    with("no credential", &|r| drop(r.credentials.remove(&key())));
    with("no binding", &|r| drop(r.bindings.remove(&bound())));
    with("host", &|r| {
        let row = r.bindings.get_mut(&bound()).unwrap();
        row.endpoint.host = Host::parse("evil.test").unwrap();
    });
    with("credential moved to another tenant", &|r| {
        let row = r.credentials.remove(&key()).unwrap();
        r.credentials
            .insert((tenant("t2"), credential("token")), row);
    });
    with("key moved to another tenant", &|r| {
        let row = r.keks.get(&(tenant("t1"), 1)).unwrap().clone();
        r.keks.insert((tenant("t2"), 1), row);
    });
    with("key of another version", &|r| {
        let row = r.keks.get(&(tenant("t1"), 1)).unwrap().clone();
        r.keks.insert((tenant("t1"), 2), row);
    });
    all
}

#[test]
fn no_changed_row_is_taken() {
    let fixture = filled();
    for (what, rows) in tampered(&fixture.vault.rows) {
        let refused = Vault::new(rows).unseal(&[7; 32]);
        assert!(matches!(refused, Err(UnsealError::Integrity)), "{what}");
    }
}

#[test]
fn no_changed_byte_of_a_sealed_field_is_taken() {
    let fixture = filled();
    let rows = &fixture.vault.rows;
    let fields: [fn(&mut Rows) -> &mut Sealed; 4] = [
        |rows| &mut rows.meta.as_mut().unwrap().root,
        |rows| &mut rows.keks.values_mut().next().unwrap().key,
        |rows| &mut rows.credentials.values_mut().next().unwrap().data_key,
        |rows| &mut rows.credentials.values_mut().next().unwrap().value,
    ];
    for field in fields {
        let length = field(&mut rows.clone()).0.len();
        for at in 0..length {
            let mut changed = rows.clone();
            field(&mut changed).0[at] ^= 1;
            assert!(Vault::new(changed).unseal(&[7; 32]).is_err(), "byte {at}");
        }
        let mut cut = rows.clone();
        field(&mut cut).0.truncate(20);
        assert!(Vault::new(cut).unseal(&[7; 32]).is_err());
    }
}

/// The MAC is the first line; these hold should it ever be blind: the ciphertext itself names its
/// place.
#[test]
fn a_swapped_row_does_not_open_even_in_a_vault_that_took_it() {
    let swaps: [(&str, Swap); 5] = [
        ("value of another credential", |rows| {
            let other = rows.credentials[&(tenant("t1"), credential("other"))].clone();
            let row = rows
                .credentials
                .get_mut(&(tenant("t1"), credential("token")));
            let row = row.unwrap();
            (row.data_key, row.value) = (other.data_key, other.value);
        }),
        ("value alone", |rows| {
            let other = rows.credentials[&(tenant("t1"), credential("other"))].clone();
            let row = rows
                .credentials
                .get_mut(&(tenant("t1"), credential("token")));
            row.unwrap().value = other.value;
        }),
        ("same name of another tenant", |rows| {
            let other = rows.credentials[&(tenant("t2"), credential("token"))].clone();
            let row = rows
                .credentials
                .get_mut(&(tenant("t1"), credential("token")));
            *row.unwrap() = other;
        }),
        ("version", |rows| {
            let row = rows
                .credentials
                .get_mut(&(tenant("t1"), credential("token")));
            row.unwrap().version = 2;
        }),
        ("kek version", |rows| {
            let row = rows
                .credentials
                .get_mut(&(tenant("t1"), credential("token")));
            row.unwrap().kek_version = 2;
        }),
    ];
    for (what, swap) in swaps {
        let mut fixture = filled();
        fixture.put("t1", "other", b"other-0123456789").unwrap();
        fixture.put("t2", "token", b"second-0123456789").unwrap();
        swap(&mut fixture.vault.rows);
        let permit = fixture.permit();
        let refused = fixture.unlock(permit);
        assert!(matches!(refused, Err(UnlockError::Row)), "{what}");
    }
}

#[test]
fn an_older_row_under_a_newer_meta_row_is_a_rollback() {
    let mut fixture = filled();
    let old = fixture.vault.rows.clone();
    let name = credential("token");
    let staged = fixture.vault.revoke(&tenant("t1"), &name).unwrap();
    fixture.apply(staged);
    let mut rolled = old.clone();
    rolled.meta = fixture.vault.rows.meta.clone();
    assert!(matches!(
        fixture.reopen(rolled),
        Err(UnsealError::Integrity)
    ));
    assert!(fixture.vault.counter() > old.meta.unwrap().counter);
}
