// SPDX-License-Identifier: Apache-2.0
//! The vault against its own rows, swapped, changed, rolled back; with a real record.

mod binding;
mod changes;
mod tampering;

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

type Swap = fn(&mut Rows);

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
