// SPDX-License-Identifier: Apache-2.0
//! The vault against its own rows, swapped, changed, rolled back; with a real record.

use super::*;
use crate::keys::PassphraseCost;
use crate::rows::{KekRow, Sealed};
use crate::{SystemEntropy, keys::UnsealRow};
use tempfile::TempDir;
use torno_audit::{Durability, Entry, Event, Opening, Recorder, SigningKey};
use torno_policy::Decision;
use torno_policy::binding::{Answers, Mode, PathPattern, Slot};
use torno_policy::decide::{Layers, decide};
use torno_policy::decision::Permit;
use torno_policy::document::{Presets, parse};
use torno_policy::facts::{Act, Entry as Way, RequestFacts};
use torno_policy::names::{
    Endpoint, Generation, Host, Method, Port, RequestPath, Scheme, SessionId,
};
use torno_policy::organisation::Organisation;
use torno_policy::standing::{Phase, Standing, State};

const PASSPHRASE: &[u8] = b"correct horse battery";
const VALUE: &[u8] = b"ghp_canary0123456789";

struct Fixture {
    vault: Vault,
    recorder: Recorder,
    _directory: TempDir,
}

fn tenant(name: &str) -> TenantName {
    TenantName::parse(name).unwrap()
}

fn credential(name: &str) -> CredentialName {
    CredentialName::parse(name).unwrap()
}

fn recorder() -> (Recorder, TempDir) {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let opening = Opening {
        at_ms: 0,
        software: "test".into(),
    };
    let key = SigningKey::from_seed(&[1; 32]);
    let recorder = Recorder::open(directory.path(), key, opening).unwrap();
    (recorder, directory)
}

fn new(kind: UnsealKind, secret: &[u8]) -> Fixture {
    let (recorder, directory) = recorder();
    let mut fixture = Fixture {
        vault: Vault::new(Rows::default()),
        recorder,
        _directory: directory,
    };
    let staged = fixture
        .vault
        .init(kind, secret, PassphraseCost::FLOOR, &mut SystemEntropy);
    fixture.apply(staged.unwrap());
    fixture
}

/// With one credential `token` of tenant `t1`, bound to https://allow.test.
fn filled() -> Fixture {
    let mut fixture = new(UnsealKind::KeyFile, &[7; 32]);
    fixture.put("t1", "token", VALUE).unwrap();
    fixture.bind(binding("b1", "token")).unwrap();
    fixture
}

impl Fixture {
    fn record<T>(&mut self, value: T) -> Recorded<T> {
        let entry = Entry {
            at_ms: 0,
            session: None,
            event: Event::VaultInitialised,
        };
        let batch = vec![(entry, value)];
        let mut recorded = self.recorder.append(batch, Durability::Synced).unwrap();
        recorded.pop().unwrap()
    }

    fn apply(&mut self, staged: Staged) {
        let recorded = self.record(staged);
        self.vault.apply(recorded).unwrap();
    }

    fn put(&mut self, owner: &str, name: &str, value: &[u8]) -> Result<(), ChangeError> {
        let (owner, name) = (tenant(owner), credential(name));
        let new = NewCredential {
            tenant: &owner,
            name: &name,
            shape: "ghp_",
            value,
        };
        let staged = self.vault.put(new, 5, &mut SystemEntropy)?;
        self.apply(staged);
        Ok(())
    }

    fn bind(&mut self, row: Binding) -> Result<(), ChangeError> {
        let staged = self.vault.bind(row, 5)?;
        self.apply(staged);
        Ok(())
    }

    fn unbind(&mut self, id: &str) {
        let id = BindingId::parse(id).unwrap();
        let staged = self.vault.unbind(&tenant("t1"), &id).unwrap();
        self.apply(staged);
    }

    fn permit(&self) -> Permit {
        permit(self.vault.live_bindings(&tenant("t1")))
    }

    fn unlock(&mut self, permit: Permit) -> Result<(Vec<u8>, u32), UnlockError> {
        let permit = self.record(permit);
        let (secret, version) = self.vault.unlock(&tenant("t1"), &permit)?;
        Ok((secret.expose().to_vec(), version))
    }

    /// A vault of these rows, unsealed.
    fn reopen(&mut self, rows: Rows) -> Result<(), UnsealError> {
        self.vault = Vault::new(rows);
        let unsealed = self.vault.unseal(&[7; 32])?;
        let recorded = self.record(unsealed);
        self.vault.admit(recorded);
        Ok(())
    }
}

fn binding(id: &str, name: &str) -> Binding {
    Binding {
        id: BindingId::parse(id).unwrap(),
        tenant: tenant("t1"),
        credential: credential(name),
        endpoint: Endpoint {
            scheme: Scheme::Https,
            host: Host::parse("allow.test").unwrap(),
            port: Port::HTTPS,
        },
        plaintext: false,
        methods: vec![Method::parse("GET").unwrap()],
        paths: vec![PathPattern::parse("/v1/**").unwrap()],
        denied: Vec::new(),
        answers: Answers::default(),
        slot: Slot::Header {
            name: "authorization".to_owned(),
            scheme: Some("Bearer".to_owned()),
        },
        mode: Mode::Inject,
        expires_at: None,
        revision: 0,
    }
}

fn permit(bindings: &[Binding]) -> Permit {
    let standing = Standing {
        session: SessionId::parse("s1").unwrap(),
        generation: Generation(1),
        state: State::Running,
        phase: Phase::Locked,
    };
    let grant = parse("[secret.token]\nenv = \"TOKEN\"\n", &Presets::shipped()).unwrap();
    let layers = Layers {
        standing: Some(&standing),
        asker: Generation(1),
        organisation: &Organisation::shipped(),
        grant: &grant,
        bindings,
        placeholders: &[],
        tripwires: &[],
        now: 5,
    };
    let act = Act::Request(RequestFacts {
        entry: Way::Captured,
        endpoint: binding("b1", "token").endpoint,
        method: Method::parse("GET").unwrap(),
        path: RequestPath::parse("/v1/items").unwrap(),
        websocket: false,
        presented: vec![],
        own_credentials: vec![],
        git: None,
        content: None,
        body: None,
    });
    match decide(&layers, &act) {
        Decision::Allow(permit) => permit,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_recorded_decision_unlocks_its_credential() {
    let mut fixture = filled();
    let permit = fixture.permit();
    assert_eq!(fixture.unlock(permit).unwrap(), (VALUE.to_vec(), 1));
}

#[test]
fn a_passphrase_opens_the_vault_it_made_and_no_other_does() {
    let mut fixture = new(UnsealKind::Passphrase, PASSPHRASE);
    fixture.put("t1", "token", VALUE).unwrap();
    let vault = Vault::new(fixture.vault.rows.clone());
    assert_eq!(vault.unseal_kind(), Some(UnsealKind::Passphrase));
    for wrong in [&b"correct horse batterz"[..], b"", b"x"] {
        assert!(matches!(vault.unseal(wrong), Err(UnsealError::Secret)));
    }
    assert!(vault.unseal(PASSPHRASE).is_ok());
}

#[test]
fn costs_below_the_floor_are_neither_written_nor_taken() {
    let vault = Vault::new(Rows::default());
    let cheap = PassphraseCost {
        memory_kib: 64 * 1024 - 1,
        ..PassphraseCost::FLOOR
    };
    let staged = vault.init(
        UnsealKind::Passphrase,
        PASSPHRASE,
        cheap,
        &mut SystemEntropy,
    );
    assert!(matches!(staged, Err(ChangeError::Cost)));

    let mut rows = new(UnsealKind::KeyFile, &[7; 32]).vault.rows;
    rows.meta.as_mut().unwrap().unseal = UnsealRow::Passphrase {
        salt: [0; 16],
        cost: cheap,
    };
    let vault = Vault::new(rows);
    assert!(matches!(vault.unseal(PASSPHRASE), Err(UnsealError::Cost)));
}

#[test]
fn weak_unseal_secrets_are_refused() {
    let vault = Vault::new(Rows::default());
    for (kind, secret) in [
        (UnsealKind::Passphrase, &[7; 11][..]),
        (UnsealKind::KeyFile, &[7; 31]),
    ] {
        let staged = vault.init(kind, secret, PassphraseCost::FLOOR, &mut SystemEntropy);
        assert!(matches!(staged, Err(ChangeError::WeakUnseal)));
    }
}

#[test]
fn a_sealed_vault_gives_and_takes_nothing() {
    let mut fixture = filled();
    let permit = fixture.permit();
    fixture.vault.seal();
    assert!(matches!(fixture.unlock(permit), Err(UnlockError::Sealed)));
    let put = fixture.put("t1", "other", VALUE);
    assert!(matches!(put, Err(ChangeError::Sealed)));
    let prints = fixture
        .vault
        .fingerprints(&tenant("t1"), &mut SystemEntropy);
    assert!(matches!(prints, Err(UnlockError::Sealed)));
    let rows = fixture.vault.rows.clone();
    fixture.reopen(rows).unwrap();
    let permit = fixture.permit();
    assert!(fixture.unlock(permit).is_ok());
}

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

type Swap = fn(&mut Rows);

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

#[test]
fn values_that_cannot_be_sent_or_scrubbed_are_refused() {
    let mut fixture = filled();
    let long = vec![b'a'; 64 * 1024 + 1];
    for value in [
        &b""[..],
        b"short-value",
        b"line-one\nline-two",
        b"carriage\rreturn-",
        b"nul-nul-nul\0nul",
        b" leading-space-1",
        b"trailing-newline\n",
        b"ababababababababab",
        b"-----BEGIN PRIVATE KEY-----\nMIGHAgEA\0\n-----END PRIVATE KEY-----",
        b"-----BEGIN PRIVATE KEY-----\nMIGHAgEA\n-----END CERTIFICATE-----",
        &long,
    ] {
        let refused = fixture.put("t1", "bad", value);
        assert!(matches!(refused, Err(ChangeError::Value)));
    }
    let key = b"-----BEGIN PRIVATE KEY-----\nMIGHAgEA\n-----END PRIVATE KEY-----";
    assert!(fixture.put("t1", "key", key).is_ok());
    assert!(matches!(
        fixture.put("t1", "token", VALUE),
        Err(ChangeError::Taken(_))
    ));
}

#[test]
fn bindings_that_one_request_could_match_twice_are_refused() {
    let mut fixture = filled();
    fixture.put("t1", "other", b"other-0123456789").unwrap();
    let overlapping = fixture.bind(binding("b2", "other"));
    assert!(matches!(overlapping, Err(ChangeError::Overlap(id)) if id.as_str() == "b1"));

    let apart = Binding {
        paths: vec![PathPattern::parse("/v2/**").unwrap()],
        ..binding("b2", "other")
    };
    fixture.bind(apart).unwrap();
    let other_slot = Binding {
        slot: Slot::Header {
            name: "x-api-key".to_owned(),
            scheme: None,
        },
        ..binding("b3", "other")
    };
    fixture.bind(other_slot.clone()).unwrap();
    let same_credential = Binding {
        id: BindingId::parse("b4").unwrap(),
        ..other_slot
    };
    let refused = fixture.bind(same_credential);
    assert!(matches!(refused, Err(ChangeError::Overlap(_))));
    // Its own older self is no rival.
    fixture.bind(binding("b1", "token")).unwrap();
}

fn in_path(id: &str, name: &str) -> Binding {
    let template = PathPattern::parse("/bot{credential}/**").unwrap();
    Binding {
        paths: vec![template.clone()],
        slot: Slot::Path { template },
        ..binding(id, name)
    }
}

// ATTACK: 096
#[test]
fn a_value_that_no_path_can_hold_is_neither_bound_nor_rotated_into_one() {
    let mut fixture = filled();
    let unsafe_value = b"slash/0123456789";
    fixture.put("t1", "slashed", unsafe_value).unwrap();
    let refused = fixture.bind(in_path("b2", "slashed"));
    assert!(matches!(refused, Err(ChangeError::SegmentUnsafe(name)) if name.as_str() == "slashed"));
    fixture.put("t1", "bot", b"123456:ABC-0123456789").unwrap();
    fixture.bind(in_path("b3", "bot")).unwrap();
    let (owner, name) = (tenant("t1"), credential("bot"));
    let rotated = fixture
        .vault
        .rotate((&owner, &name), unsafe_value, 6, &mut SystemEntropy);
    assert!(matches!(rotated, Err(ChangeError::SegmentUnsafe(_))));
    // A header takes it.
    let mut header = binding("b4", "slashed");
    header.paths = vec![PathPattern::parse("/v3/**").unwrap()];
    fixture.bind(header).unwrap();
}

#[test]
fn two_credentials_for_one_parameter_or_two_paths_are_refused() {
    let mut fixture = filled();
    fixture.put("t1", "other", b"other-0123456789").unwrap();
    let query = |id: &str, name: &str, parameter: &str| Binding {
        slot: Slot::Query {
            parameter: parameter.to_owned(),
        },
        ..binding(id, name)
    };
    fixture.unbind("b1");
    fixture.bind(query("b2", "token", "key")).unwrap();
    let rival = fixture.bind(query("b3", "other", "KEY"));
    assert!(matches!(rival, Err(ChangeError::Overlap(id)) if id.as_str() == "b2"));
    fixture.bind(query("b3", "other", "sig")).unwrap();
    fixture.bind(in_path("b4", "token")).unwrap();
    let rival = fixture.bind(in_path("b5", "other"));
    assert!(matches!(rival, Err(ChangeError::Overlap(id)) if id.as_str() == "b4"));
}

// ATTACK: 098
#[test]
fn a_binding_is_checked_before_it_is_taken() {
    let mut fixture = filled();
    let mut plain = binding("b2", "token");
    plain.endpoint.scheme = Scheme::Http;
    assert!(matches!(
        fixture.bind(plain),
        Err(ChangeError::Binding(BindingError::Plaintext))
    ));
    let nobody = fixture.bind(binding("b2", "absent"));
    assert!(matches!(nobody, Err(ChangeError::NoCredential(_))));
    let over = Binding {
        expires_at: Some(5),
        ..binding("b1", "token")
    };
    assert!(matches!(fixture.bind(over), Err(ChangeError::Expired)));
}

// ATTACK: 227
#[test]
fn path_tricks_are_not_names_so_no_row_can_be_reached_by_them() {
    for trick in [
        "a/../b", "./a", "..", "%2e%2e", "a/", "/a", "a..b", "A", "", "a b", "a\0",
    ] {
        assert!(CredentialName::parse(trick).is_err(), "{trick:?}");
        assert!(TenantName::parse(trick).is_err(), "{trick:?}");
    }
    // A name that another tenant uses is another row.
    let fixture = filled();
    let name = credential("token");
    assert!(fixture.vault.credential(&tenant("root"), &name).is_none());
    assert_eq!(fixture.vault.live_bindings(&tenant("root")), &[]);
}

// ATTACK: 233
#[test]
fn nothing_that_is_stored_or_shown_holds_the_value() {
    let fixture = filled();
    let shown = format!("{:?}", fixture.vault.rows);
    let mut raw: Vec<u8> = shown.into_bytes();
    for row in fixture.vault.rows.credentials.values() {
        raw.extend(&row.data_key.0);
        raw.extend(&row.value.0);
    }
    let hit = raw
        .windows(12)
        .any(|window| VALUE.windows(12).any(|v| v == window));
    assert!(!hit);
    let numbers = format!("{:?}", &VALUE[..12]);
    let listed = numbers.trim_matches(['[', ']']);
    assert!(!String::from_utf8_lossy(&raw).contains(listed));
}

#[test]
fn fingerprints_find_a_value_and_differ_each_time() {
    let fixture = filled();
    let owner = tenant("t1");
    let print = || {
        let prints = fixture.vault.fingerprints(&owner, &mut SystemEntropy);
        prints.unwrap().pop().unwrap()
    };
    let (first, second) = (print(), print());
    assert_ne!(first.digest, second.digest);
    let stream = [b"some text before ", VALUE, b" and after"].concat();
    let mut rolling = crate::Rolling::new(first.base);
    let hits: Vec<usize> = stream
        .iter()
        .enumerate()
        .filter_map(|(at, byte)| (rolling.push(*byte) == Some(first.rolling)).then_some(at))
        .collect();
    let [end] = hits.as_slice() else {
        panic!("{hits:?}")
    };
    let start = end + 1 - crate::ROLLING_WINDOW;
    let found = &stream[start..start + first.length];
    let digest: [u8; 32] = {
        use sha2::{Digest, Sha256};
        Sha256::new()
            .chain_update(first.salt)
            .chain_update(found)
            .finalize()
            .into()
    };
    assert_eq!(digest, first.digest);
}
