// SPDX-License-Identifier: Apache-2.0
//! The notary with its real store and record in a temporary directory: order of evidence, receipts,
//! standing, sealed vault, restart, rollback.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use torno_audit::record::Entry;
use torno_audit::{Event, Flush, Records, SigningKey, verify};
use torno_notary::{Config, Effect, GateId, Notary, Now, ToGate};
use torno_notary_protocol::desk::{Begin, Begun, Choice, DeskMessage, DeskReply, EndCause};
use torno_notary_protocol::gate::{
    Allowed, Answer, Answered, End, GateMessage, NotaryMessage, Outcome, Question, Ticket,
    WireRefusal,
};
use torno_notary_protocol::operator::{OperatorReply, OperatorRequest, UnsealKind};
use torno_notary_protocol::receipt::{ReceiptKey, VALID_MS};
use torno_notary_protocol::transit::CredentialInTransit;
use torno_policy::binding::{Binding, Mode, PathPattern, Slot};
use torno_policy::decision::{Reason, Refusal};
use torno_policy::document::{DocumentDigest, Preset, Presets, digest, digest_with};
use torno_policy::facts::{Act, Entry as Way, Location, Presented, RequestFacts, ToolFacts};
use torno_policy::grant::Isolation;
use torno_policy::names::*;
use torno_policy::organisation::Organisation;
use torno_policy::placeholder::Placeholder;
use torno_vault::SystemEntropy;
use zeroize::Zeroizing;

const VALUE: &[u8] = b"ghp_canary0123456789";
const KEY: &[u8] = &[7; 32];
const DOCUMENT: &str = "[secret.token]\nenv = \"TOKEN\"\n";
const GATE: GateId = GateId(1);

struct World {
    notary: Notary,
    now: Now,
    root: TempDir,
}

fn config(root: &Path) -> Config {
    Config {
        store: root.join("store/notary.db"),
        record: root.join("record"),
        signing_key: SigningKey::from_seed(&[1; 32]),
        receipt_key: ReceiptKey::new([2; 32]),
        tenant: TenantName::parse("local").unwrap(),
        organisation: Organisation::shipped(),
        software: "test".to_owned(),
        entropy: Box::new(SystemEntropy),
    }
}

const START: Now = Now {
    unix_ms: 1_000_000,
    boot_ms: 5_000,
};

/// An empty notary.
fn empty() -> World {
    let root = tempfile::tempdir().unwrap();
    for name in ["store", "record"] {
        let path = root.path().join(name);
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    World {
        notary: Notary::open(config(root.path()), START).unwrap(),
        now: START,
        root,
    }
}

/// With a vault, `token` bound to https://allow.test/v1/**, and the document accepted.
fn ready(mode: Mode) -> World {
    let mut world = empty();
    world.ask_owner(
        OperatorRequest::Init {
            unseal: UnsealKind::KeyFile,
        },
        Some(KEY),
    );
    let put = OperatorRequest::Put {
        name: credential(),
        shape: "ghp_".to_owned(),
    };
    world.ask_owner(put, Some(VALUE));
    world.ask_owner(OperatorRequest::Bind(Box::new(binding(mode))), None);
    world.accept(DOCUMENT);
    world
}

/// With a running session `s1` on [`GATE`].
fn running(mode: Mode) -> World {
    let mut world = ready(mode);
    world.begin("s1", DOCUMENT).unwrap();
    world.notary.gate_joined(GATE, session("s1"), Generation(1));
    world
}

fn session(id: &str) -> SessionId {
    SessionId::parse(id).unwrap()
}

fn credential() -> CredentialName {
    CredentialName::parse("token").unwrap()
}

fn endpoint() -> Endpoint {
    Endpoint {
        scheme: Scheme::Https,
        host: Host::parse("allow.test").unwrap(),
        port: Port::HTTPS,
    }
}

fn binding(mode: Mode) -> Binding {
    Binding {
        id: BindingId::parse("b1").unwrap(),
        tenant: TenantName::parse("local").unwrap(),
        credential: credential(),
        endpoint: endpoint(),
        plaintext: false,
        methods: vec![
            Method::parse("GET").unwrap(),
            Method::parse("POST").unwrap(),
        ],
        paths: vec![PathPattern::parse("/v1/**").unwrap()],
        slot: Slot::Header {
            name: "authorization".to_owned(),
            scheme: Some("Bearer".to_owned()),
        },
        mode,
        expires_at: None,
        revision: 0,
    }
}

fn facts(path: &str) -> RequestFacts {
    RequestFacts {
        entry: Way::Captured,
        endpoint: endpoint(),
        method: Method::parse("POST").unwrap(),
        path: RequestPath::parse(path).unwrap(),
        presented: vec![],
        own_credentials: vec![],
        git: None,
    }
}

fn question(ticket: u64, pooled: bool) -> Question {
    Question {
        ticket: Ticket(ticket),
        facts: facts("/v1/items"),
        pooled,
        serves: pooled.then(credential),
        watch: 0,
    }
}

impl World {
    fn ask_owner(&mut self, request: OperatorRequest, secret: Option<&[u8]>) -> Vec<Effect> {
        let (reply, effects) = self.owner(request, secret);
        assert_eq!(reply, OperatorReply::Done);
        effects
    }

    fn owner(
        &mut self,
        request: OperatorRequest,
        secret: Option<&[u8]>,
    ) -> (OperatorReply, Vec<Effect>) {
        let attached = secret.map(|s| CredentialInTransit::new(Zeroizing::new(s.to_vec())));
        let attached: Vec<_> = attached.into_iter().collect();
        let reaction = self.notary.operator(request, &attached, self.now);
        (reaction.reply.unwrap(), reaction.effects)
    }

    fn accept(&mut self, document: &str) {
        self.accept_digest(digest(document));
    }

    fn accept_digest(&mut self, digest: DocumentDigest) {
        let hex: String = digest.0.iter().map(|b| format!("{b:02x}")).collect();
        self.ask_owner(OperatorRequest::Accept { digest: hex }, None);
    }

    fn desk(&mut self, message: DeskMessage) -> (DeskReply, Vec<Effect>) {
        let reaction = self.notary.desk(message, self.now);
        (reaction.reply.unwrap(), reaction.effects)
    }

    fn begin(&mut self, id: &str, document: &str) -> Result<Begun, Refusal> {
        let begin = Begin {
            ticket: Ticket(0),
            session: session(id),
            tenant: TenantName::parse("local").unwrap(),
            document: document.to_owned(),
            choice: Choice::default(),
            effective_isolation: Isolation::Gvisor,
            guarantees: vec![],
        };
        match self.desk(DeskMessage::Begin(Box::new(begin))).0 {
            DeskReply::Begun(begun) => Ok(*begun),
            DeskReply::Refused { refusal, .. } => Err(refusal),
            other => panic!("{other:?}"),
        }
    }

    fn send(&mut self, gate: GateId, message: GateMessage) -> Vec<ToGate> {
        self.send_all(vec![(gate, message)])
    }

    fn send_all(&mut self, batch: Vec<(GateId, GateMessage)>) -> Vec<ToGate> {
        let mut frames = self.notary.from_gates(batch, self.now);
        while let Some(flush) = self.notary.flush() {
            frames.extend(self.notary.flushed(flush.run(), self.now));
        }
        frames
    }

    /// One pooled question, judged and written; and the flush that its answer waits for.
    fn ask_ahead(&mut self, ticket: u64) -> Option<Flush> {
        let ask = GateMessage::Ask(vec![question(ticket, true)]);
        let frames = self.notary.from_gates(vec![(GATE, ask)], self.now);
        assert!(frames.is_empty(), "an answer before its flush");
        self.notary.flush()
    }

    fn flushed(&mut self, flush: Flush) -> Vec<(Ticket, Result<Vec<u8>, Reason>)> {
        let frames = self.notary.flushed(flush.run(), self.now);
        let each = frames.into_iter().flat_map(|frame| {
            let NotaryMessage::Answers(answers) = frame.message else {
                panic!("{:?}", frame.message)
            };
            let credentials = frame.credentials;
            let one = move |answered: Answered| match answered.answer {
                Answer::Allowed(_) => {
                    let at = answered.credential.unwrap();
                    (answered.ticket, Ok(credentials[at].expose().to_vec()))
                }
                Answer::Refused(refusal) => {
                    assert_eq!(answered.credential, None);
                    (answered.ticket, Err(refusal.reason))
                }
            };
            answers.into_iter().map(one)
        });
        each.collect()
    }

    /// One question's answer, with its credential when one came along.
    fn ask(&mut self, gate: GateId, question: Question) -> (Answer, Option<Vec<u8>>) {
        let mut frames = self.send(gate, GateMessage::Ask(vec![question]));
        let frame = frames.pop().unwrap();
        let NotaryMessage::Answers(mut answers) = frame.message else {
            panic!("{:?}", frame.message)
        };
        let answered = answers.pop().unwrap();
        let secret = answered
            .credential
            .map(|at| frame.credentials[at].expose().to_vec());
        (answered.answer, secret)
    }

    fn allowed(&mut self, pooled: bool) -> Allowed {
        match self.ask(GATE, question(1, pooled)).0 {
            Answer::Allowed(allowed) => *allowed,
            Answer::Refused(refusal) => panic!("{refusal:?}"),
        }
    }

    fn refused(&mut self, gate: GateId) -> Reason {
        let (answer, secret) = self.ask(gate, question(1, true));
        assert_eq!(secret, None);
        match answer {
            Answer::Refused(refusal) => refusal.reason,
            Answer::Allowed(allowed) => panic!("{allowed:?}"),
        }
    }

    fn unlock(&mut self, gate: GateId, allowed: &Allowed) -> Result<Vec<u8>, Reason> {
        let receipt = allowed.receipt.clone();
        let message = GateMessage::Unlock {
            ticket: Ticket(9),
            receipt,
        };
        let frame = self.send(gate, message).pop().unwrap();
        match frame.message {
            NotaryMessage::Unlocked {
                ticket: Ticket(9),
                released,
            } => {
                assert!(released.injects, "{released:?}");
                Ok(frame.credentials[released.watched.len()].expose().to_vec())
            }
            NotaryMessage::UnlockRefused { refusal, .. } => {
                assert!(frame.credentials.is_empty());
                Err(refusal.reason)
            }
            other => panic!("{other:?}"),
        }
    }

    fn records(&self) -> Vec<Entry> {
        let records = Records::open(&self.root.path().join("record"), 0).unwrap();
        records.map(|record| record.unwrap().entry).collect()
    }

    fn count(&self, wanted: fn(&Event) -> bool) -> usize {
        let records = self.records();
        records.iter().filter(|entry| wanted(&entry.event)).count()
    }

    /// From here on the record takes nothing: its next checkpoint can't be replaced.
    fn break_record(&mut self) {
        std::fs::create_dir(self.root.path().join("record/checkpoint.new")).unwrap();
        self.now.boot_ms += 10_000;
        assert!(self.notary.tick(self.now).is_err());
    }

    fn reopen(self) -> Self {
        let Self { notary, now, root } = self;
        drop(notary);
        Self {
            notary: Notary::open(config(root.path()), now).unwrap(),
            now,
            root,
        }
    }
}

const fn is_release(event: &Event) -> bool {
    matches!(event, Event::CredentialReleased(_))
}

const fn is_watch(event: &Event) -> bool {
    matches!(event, Event::CredentialWatched(_))
}

const fn is_refusal(event: &Event) -> bool {
    matches!(event, Event::RequestRefused(_))
}

#[test]
fn a_pooled_question_gets_its_credential_with_the_answer_after_both_records() {
    let mut world = running(Mode::Inject);
    let before = world.records().len();
    let (answer, secret) = world.ask(GATE, question(1, true));
    assert_eq!(secret.as_deref(), Some(VALUE));
    let Answer::Allowed(allowed) = answer else {
        panic!()
    };
    let records = world.records();
    let [decided, released] = &records[before..] else {
        panic!("{records:?}")
    };
    assert!(matches!(&decided.event, Event::RequestDecided(_)));
    let Event::CredentialReleased(release) = &released.event else {
        panic!()
    };
    assert_eq!((release.decision, release.version), (allowed.record, 1));
    assert_eq!(allowed.record.0, u64::try_from(before).unwrap());
    assert_eq!(allowed.strip, ["authorization"]);
    // The receipt that came along unlocks nothing more.
    assert_eq!(world.unlock(GATE, &allowed), Err(Reason::ReceiptInvalid));
}

#[test]
fn no_credential_is_answered_before_the_flush_that_covers_its_release() {
    let mut world = running(Mode::Inject);
    let first = world.ask_ahead(1).unwrap();
    assert_eq!(world.count(is_release), 1);
    // While it runs, the next is judged and written, and what releases nothing is answered.
    assert!(world.ask_ahead(2).is_none());
    assert_eq!(world.count(is_release), 2);
    let ask = GateMessage::Ask(vec![question(3, false)]);
    assert_eq!(
        world.notary.from_gates(vec![(GATE, ask)], world.now).len(),
        1
    );
    assert_eq!(world.notary.awaiting(), 2);
    let value = || Ok(VALUE.to_vec());
    assert_eq!(world.flushed(first), [(Ticket(1), value())]);
    let second = world.notary.flush().unwrap();
    assert_eq!(world.flushed(second), [(Ticket(2), value())]);
    assert!(world.notary.flush().is_none());
}

#[test]
fn what_happens_while_the_record_is_flushed_counts() {
    let kill = |world: &mut World| {
        let ticket = Ticket(5);
        world.desk(DeskMessage::Kill {
            ticket,
            session: None,
        });
    };
    let rotate = |world: &mut World| {
        let name = credential();
        world.ask_owner(
            OperatorRequest::Rotate { name },
            Some(b"ghp_fresh0123456789"),
        );
    };
    let revoke = |world: &mut World| {
        let name = credential();
        world.ask_owner(OperatorRequest::Revoke { name }, None);
    };
    let seal = |world: &mut World| {
        world.ask_owner(OperatorRequest::Seal, None);
    };
    type Meanwhile = fn(&mut World);
    let cases: [(Meanwhile, Reason); 5] = [
        (kill, Reason::SessionKilled),
        (rotate, Reason::BindingNotGranted),
        (revoke, Reason::CredentialRevoked),
        (seal, Reason::VaultSealed),
        (World::break_record, Reason::RecordUnavailable),
    ];
    for (meanwhile, reason) in cases {
        let mut world = running(Mode::Inject);
        let flush = world.ask_ahead(1).unwrap();
        meanwhile(&mut world);
        assert_eq!(world.flushed(flush), [(Ticket(1), Err(reason))]);
        assert_eq!(world.notary.awaiting(), 0);
    }
}

#[test]
fn gates_wait_when_many_releases_wait_for_one_flush() {
    let mut world = running(Mode::Inject);
    let first = world.ask_ahead(1).unwrap();
    let mut ticket = 2;
    while !world.notary.is_full() {
        assert!(world.ask_ahead(ticket).is_none());
        ticket += 1;
        assert!(ticket < 5_000, "there is no limit");
    }
    world.flushed(first);
    let rest = world.notary.flush().unwrap();
    let rest = world.flushed(rest);
    assert_eq!(rest.len(), usize::try_from(ticket).unwrap() - 2);
    assert!(!world.notary.is_full());
}

#[test]
fn an_unpooled_question_is_unlocked_by_its_receipt_once_and_in_time() {
    let mut world = running(Mode::Inject);
    let allowed = world.allowed(false);
    assert_eq!(world.count(is_release), 0);
    assert_eq!(world.unlock(GATE, &allowed).as_deref(), Ok(VALUE));
    assert_eq!(world.count(is_release), 1);
    assert_eq!(world.unlock(GATE, &allowed), Err(Reason::ReceiptInvalid));

    let late = world.allowed(false);
    world.now.boot_ms += VALID_MS + 1;
    assert_eq!(world.unlock(GATE, &late), Err(Reason::ReceiptInvalid));
    assert_eq!((world.count(is_release), world.count(is_refusal)), (1, 2));
}

#[test]
fn a_receipt_counts_on_its_own_sessions_socket_only() {
    let mut world = running(Mode::Inject);
    world.begin("s2", DOCUMENT).unwrap();
    let (other, older, nobody) = (GateId(2), GateId(3), GateId(4));
    world
        .notary
        .gate_joined(other, session("s2"), Generation(1));
    world
        .notary
        .gate_joined(older, session("s1"), Generation(0));
    let allowed = world.allowed(false);
    assert_eq!(world.unlock(other, &allowed), Err(Reason::ReceiptInvalid));
    assert_eq!(world.unlock(older, &allowed), Err(Reason::ReceiptInvalid));
    assert_eq!(world.unlock(nobody, &allowed), Err(Reason::SessionUnknown));
    assert_eq!(world.count(is_refusal), 3);
    // The theft did not spend it.
    assert!(world.unlock(GATE, &allowed).is_ok());
    assert_eq!(world.refused(older), Reason::SessionFenced);
    assert_eq!(world.refused(nobody), Reason::SessionUnknown);
}

#[test]
fn a_killed_session_unlocks_nothing_and_its_kill_is_on_disk() {
    let mut world = running(Mode::Inject);
    let allowed = world.allowed(false);
    let kill = DeskMessage::Kill {
        ticket: Ticket(1),
        session: Some(session("s1")),
    };
    let (reply, effects) = world.desk(kill);
    let DeskReply::KillRecorded {
        sessions,
        placeholders,
        ..
    } = reply
    else {
        panic!()
    };
    assert_eq!((sessions, placeholders), (vec![session("s1")], 1));
    let cut = Effect::Revoke {
        session: session("s1"),
        credential: None,
    };
    assert_eq!(effects, [cut]);
    assert!(world.unlock(GATE, &allowed).is_err());
    assert_eq!(world.refused(GATE), Reason::SessionKilled);
    assert_eq!(world.count(|e| matches!(e, Event::SessionKilled)), 1);
    // Killed is final: neither end nor a second begin brings it back.
    let end = DeskMessage::End {
        ticket: Ticket(2),
        session: session("s1"),
        exit_status: None,
        cause: EndCause::Exited,
    };
    assert_eq!(
        world.desk(end).0,
        DeskReply::Done {
            ticket: Ticket(2),
            record: None
        }
    );
    assert!(world.begin("s1", DOCUMENT).is_err());
    let mut world = world.reopen();
    world.ask_owner(OperatorRequest::Unseal, Some(KEY));
    assert!(world.begin("s1", DOCUMENT).is_err());
}

#[test]
fn what_cannot_be_recorded_does_not_happen() {
    let mut world = running(Mode::Inject);
    let allowed = world.allowed(false);
    world.break_record();
    world.now = START;
    assert_eq!(world.unlock(GATE, &allowed), Err(Reason::RecordUnavailable));
    assert_eq!(world.refused(GATE), Reason::RecordUnavailable);
    let (answer, secret) = world.ask(GATE, question(1, false));
    assert!(matches!(answer, Answer::Refused(r) if r.reason == Reason::RecordUnavailable));
    assert_eq!(secret, None);
    let refused = world.begin("s2", DOCUMENT).unwrap_err();
    assert_eq!(refused.reason, Reason::RecordUnavailable);
    // A change of the vault is taken back: nothing of it is there in the next life.
    let revoke = OperatorRequest::Revoke { name: credential() };
    let (reply, _) = world.owner(revoke, None);
    assert!(matches!(reply, OperatorReply::Failed { code, .. } if code == "record"));
    std::fs::remove_dir(world.root.path().join("record/checkpoint.new")).unwrap();
    let mut world = world.reopen();
    world.ask_owner(OperatorRequest::Unseal, Some(KEY));
    let OperatorReply::Listed { credentials, .. } = world.owner(OperatorRequest::List, None).0
    else {
        panic!()
    };
    assert!(!credentials[0].revoked);
}

// ATTACK: 101
#[test]
fn revoke_counts_between_answer_and_unlock_and_cuts_live_streams() {
    let mut world = running(Mode::Inject);
    let allowed = world.allowed(false);
    let effects = world.ask_owner(OperatorRequest::Revoke { name: credential() }, None);
    let cut = Effect::Revoke {
        session: session("s1"),
        credential: Some(credential()),
    };
    assert_eq!(effects, [cut]);
    assert_eq!(world.unlock(GATE, &allowed), Err(Reason::CredentialRevoked));
    world.refused(GATE);
    assert_eq!(world.count(is_release), 0);
}

// ATTACK: 101
#[test]
fn the_next_question_after_a_rotation_gets_the_new_value() {
    let mut world = running(Mode::Inject);
    let rotate = OperatorRequest::Rotate { name: credential() };
    world.ask_owner(rotate, Some(b"ghp_second0123456789"));
    let (_, secret) = world.ask(GATE, question(1, true));
    assert_eq!(secret.as_deref(), Some(&b"ghp_second0123456789"[..]));
    let records = world.records();
    let Event::CredentialReleased(release) = &records.last().unwrap().event else {
        panic!()
    };
    assert_eq!(release.version, 2);
}

#[test]
fn a_sealed_vault_refuses_credentialed_requests_and_starts() {
    let mut world = running(Mode::Inject);
    let allowed = world.allowed(false);
    world.ask_owner(OperatorRequest::Seal, None);
    assert_eq!(world.unlock(GATE, &allowed), Err(Reason::VaultSealed));
    assert_eq!(world.refused(GATE), Reason::VaultSealed);
    assert_eq!(
        world.begin("s2", DOCUMENT).unwrap_err().reason,
        Reason::VaultSealed
    );
    let (reply, _) = world.owner(OperatorRequest::Unseal, Some(&[8; 32]));
    assert!(matches!(reply, OperatorReply::Failed { code, .. } if code == "wrong_secret"));
    assert_eq!(world.count(|e| matches!(e, Event::UnsealFailed)), 1);
    world.ask_owner(OperatorRequest::Unseal, Some(KEY));
    assert_eq!(world.allowed(true).endpoint, endpoint());
}

#[test]
fn a_restart_ends_what_was_running_and_fences_its_generation() {
    let world = running(Mode::Inject);
    let mut world = world.reopen();
    let ended = |event: &Event| matches!(event, Event::SessionEnded { .. });
    assert_eq!(world.count(ended), 1);
    world.ask_owner(OperatorRequest::Unseal, Some(KEY));
    assert_eq!(world.refused(GATE), Reason::SessionUnknown);
    assert_eq!(
        world.begin("s2", DOCUMENT).unwrap().generation,
        Generation(2)
    );
    world.notary.gate_joined(GATE, session("s2"), Generation(1));
    assert_eq!(world.refused(GATE), Reason::SessionFenced);
    let key = SigningKey::from_seed(&[1; 32]);
    world.notary.close(world.now).unwrap();
    verify(&world.root.path().join("record"), key.public(), &[]).unwrap();
}

#[test]
fn placeholders_are_never_shared_and_mean_nothing_elsewhere() {
    let mut world = ready(Mode::Placeholder);
    let first = world.begin("s1", DOCUMENT).unwrap();
    let second = world.begin("s2", DOCUMENT).unwrap();
    let of = |begun: &Begun| Placeholder::parse(&begun.placeholders[0].1).unwrap();
    let (mine, theirs) = (of(&first), of(&second));
    assert_ne!(mine, theirs);
    assert!(mine.as_str().starts_with("ghp_"));
    world.notary.gate_joined(GATE, session("s1"), Generation(1));
    let mut with = |placeholder: &Placeholder| {
        let mut asked = question(1, true);
        asked.facts.presented = vec![Presented {
            location: Location::Header("authorization".to_owned()),
            digest: placeholder.digest(),
        }];
        world.ask(GATE, asked)
    };
    let (answer, secret) = with(&mine);
    assert!(matches!(answer, Answer::Allowed(_)));
    assert!(secret.is_some());
    let (answer, secret) = with(&theirs);
    assert!(matches!(answer, Answer::Refused(r) if r.reason == Reason::PlaceholderUnknown));
    assert_eq!(secret, None);
}

#[test]
fn a_document_counts_only_after_it_was_accepted() {
    let mut world = ready(Mode::Inject);
    let other = format!("{DOCUMENT}# changed\n");
    let refused = world.begin("s1", &other).unwrap_err();
    assert!(refused.hint.contains("torno trust"), "{}", refused.hint);
    world.accept(&other);
    world.begin("s1", &other).unwrap();
}

#[test]
fn a_credential_that_is_not_there_is_named_with_the_command_that_puts_it() {
    let mut world = ready(Mode::Inject);
    let document = "[secret.absent]\nenv = \"TOKEN\"\n";
    world.accept(document);
    let refused = world.begin("s1", document).unwrap_err();
    assert!(
        refused.hint.contains("torno secret put absent"),
        "{}",
        refused.hint
    );
}

#[test]
fn a_flood_freezes_its_own_session_alone_and_its_end_is_still_recorded() {
    let mut world = ready(Mode::Inject);
    let document = format!("[sandbox]\nlimits = {{ records = 4 }}\n{DOCUMENT}");
    world.accept(&document);
    world.begin("s1", &document).unwrap();
    world.begin("s2", DOCUMENT).unwrap();
    world.notary.gate_joined(GATE, session("s1"), Generation(1));
    world
        .notary
        .gate_joined(GateId(2), session("s2"), Generation(1));
    let mut reasons = Vec::new();
    for _ in 0..20 {
        if let Answer::Refused(refusal) = world.ask(GATE, question(1, false)).0 {
            reasons.push(refusal.reason);
        }
    }
    assert_eq!(reasons, vec![Reason::LimitReached; 17]);
    assert_eq!(world.count(|e| matches!(e, Event::BudgetFrozen { .. })), 1);
    let before = world.records().len();
    let refused = WireRefusal {
        refusal: world.begin("s1", DOCUMENT).unwrap_err(),
        location: None,
        target: "x".to_owned(),
        count: 1,
    };
    world.send(GATE, GateMessage::Refused(vec![refused; 100]));
    assert_eq!(world.records().len(), before);
    let (answer, secret) = world.ask(GateId(2), question(1, true));
    assert!(matches!(answer, Answer::Allowed(_)) && secret.is_some());
    let kill = DeskMessage::Kill {
        ticket: Ticket(1),
        session: None,
    };
    let DeskReply::KillRecorded { sessions, .. } = world.desk(kill).0 else {
        panic!()
    };
    assert_eq!(sessions.len(), 2);
}

#[test]
fn a_batch_over_many_gates_is_answered_each_to_its_own() {
    let mut world = running(Mode::Inject);
    world.begin("s2", DOCUMENT).unwrap();
    world
        .notary
        .gate_joined(GateId(2), session("s2"), Generation(1));
    let ask = |from: u64| GateMessage::Ask((from..from + 400).map(|t| question(t, true)).collect());
    let batch = vec![(GATE, ask(0)), (GateId(2), ask(1000))];
    let mut tickets = std::collections::BTreeMap::new();
    for frame in world.send_all(batch) {
        let bytes = torno_notary_protocol::transit::encode(&frame.message, &frame.credentials);
        assert!(bytes.is_ok(), "a frame fits its socket");
        let NotaryMessage::Answers(answers) = frame.message else {
            panic!()
        };
        for answered in answers {
            assert_eq!(
                frame.credentials[answered.credential.unwrap()].expose(),
                VALUE
            );
            tickets.insert(answered.ticket, frame.gate);
        }
    }
    assert_eq!(tickets.len(), 800);
    assert!(
        tickets
            .iter()
            .all(|(t, gate)| (t.0 < 1000) == (*gate == GATE))
    );
    assert_eq!(world.count(is_release), 800);
}

#[test]
fn a_report_about_a_request_of_another_session_is_an_alarm() {
    let mut world = running(Mode::Inject);
    world.begin("s2", DOCUMENT).unwrap();
    world
        .notary
        .gate_joined(GateId(2), session("s2"), Generation(1));
    let allowed = world.allowed(true);
    let outcome = Outcome {
        record: allowed.record,
        end: End::Completed { status: 201 },
        sent_bytes: 1,
        received_bytes: 2,
        reflected: 1,
        carried: 0,
        address: None,
        resolved_by_proxy: false,
    };
    world.send(GateId(2), GateMessage::Report(vec![outcome.clone()]));
    let ended = |event: &Event| matches!(event, Event::RequestEnded(_));
    assert_eq!((world.count(ended), world.count(is_refusal)), (0, 1));
    world.send(GATE, GateMessage::Report(vec![outcome.clone(), outcome]));
    assert_eq!((world.count(ended), world.count(is_refusal)), (1, 2));
    let reflected = |event: &Event| matches!(event, Event::CredentialReflected { .. });
    assert_eq!(world.count(reflected), 1);
    let kill = DeskMessage::Kill {
        ticket: Ticket(1),
        session: None,
    };
    let DeskReply::KillRecorded {
        credentialed_writes,
        ..
    } = world.desk(kill).0
    else {
        panic!()
    };
    assert!(credentialed_writes.contains(&(session("s1"), 1)));
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir(to).unwrap();
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o700)).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// An old store fits its own MAC; the record tells.
#[test]
fn an_older_store_put_back_whole_does_not_unseal() {
    let world = ready(Mode::Inject).reopen();
    let (store, backup): (PathBuf, PathBuf) = {
        let root = world.root.path();
        (root.join("store"), root.join("backup"))
    };
    let World { notary, now, root } = world;
    notary.close(now).unwrap();
    copy(&store, &backup);
    let mut world = World {
        notary: Notary::open(config(root.path()), now).unwrap(),
        now,
        root,
    };
    world.ask_owner(OperatorRequest::Unseal, Some(KEY));
    world.ask_owner(OperatorRequest::Revoke { name: credential() }, None);
    let World { notary, now, root } = world;
    notary.close(now).unwrap();
    copy(&backup, &store);
    let mut world = World {
        notary: Notary::open(config(root.path()), now).unwrap(),
        now,
        root,
    };
    let (reply, _) = world.owner(OperatorRequest::Unseal, Some(KEY));
    assert!(
        matches!(&reply, OperatorReply::Failed { code, .. } if code == "rolled_back"),
        "{reply:?}"
    );
    // And not in the life after that either.
    let mut world = world.reopen();
    let (reply, _) = world.owner(OperatorRequest::Unseal, Some(KEY));
    assert!(matches!(reply, OperatorReply::Failed { code, .. } if code == "rolled_back"));
}

#[test]
fn a_store_that_lost_nothing_since_opens_from_its_backup() {
    let world = ready(Mode::Inject);
    let World { notary, now, root } = world;
    notary.close(now).unwrap();
    let (store, backup) = (root.path().join("store"), root.path().join("backup"));
    copy(&store, &backup);
    let notary = Notary::open(config(root.path()), now).unwrap();
    notary.close(now).unwrap();
    copy(&backup, &store);
    let mut world = World {
        notary: Notary::open(config(root.path()), now).unwrap(),
        now,
        root,
    };
    world.ask_owner(OperatorRequest::Unseal, Some(KEY));
}

fn tool(name: &str) -> Act {
    Act::Tool(ToolFacts {
        tool: ToolName::parse(name).unwrap(),
        arguments: serde_json::json!({"path": "x"}),
    })
}

#[test]
fn tool_calls_are_judged_and_recorded_whatever_the_answer() {
    let mut world = running(Mode::Inject);
    for (name, wanted) in [
        ("bash", None),
        ("apply", Some(Reason::ApprovalUnavailable)),
        ("mcp:db/drop", Some(Reason::ToolNotGranted)),
    ] {
        let judge = DeskMessage::Judge {
            ticket: Ticket(1),
            session: session("s1"),
            act: tool(name),
        };
        let reason = match world.desk(judge).0 {
            DeskReply::Permitted { .. } => None,
            DeskReply::Refused { refusal, .. } => Some(refusal.reason),
            other => panic!("{other:?}"),
        };
        assert_eq!(reason, wanted, "{name}");
    }
    assert_eq!(world.count(|e| matches!(e, Event::ToolDecided { .. })), 3);
}

#[test]
fn an_explanation_says_what_enforcement_does_and_writes_nothing() {
    let mut world = running(Mode::Inject);
    for path in ["/v1/items", "/v2/items"] {
        let explain = DeskMessage::Explain {
            ticket: Ticket(1),
            session: session("s1"),
            act: Box::new(Act::Request(facts(path))),
        };
        let before = world.records().len();
        let DeskReply::Explained { refusal, .. } = world.desk(explain).0 else {
            panic!()
        };
        assert_eq!(world.records().len(), before);
        let mut asked = question(1, false);
        asked.facts = facts(path);
        let enforced = match world.ask(GATE, asked).0 {
            Answer::Allowed(_) => None,
            Answer::Refused(refusal) => Some(refusal),
        };
        assert_eq!(refusal, enforced, "{path}");
    }
}

#[test]
fn a_kills_receipt_is_taken_of_a_killed_session_only() {
    let mut world = running(Mode::Inject);
    let killed = || DeskMessage::Killed {
        ticket: Ticket(1),
        session: session("s1"),
        processes: 2,
        leftovers: vec!["one".to_owned()],
    };
    assert!(matches!(world.desk(killed()).0, DeskReply::Refused { .. }));
    world.allowed(true);
    let kill = DeskMessage::Kill {
        ticket: Ticket(1),
        session: None,
    };
    world.desk(kill);
    assert!(matches!(world.desk(killed()).0, DeskReply::Done { .. }));
    let cut = |event: &Event| {
        matches!(
            event,
            Event::KillCompleted {
                cut: 1,
                processes: 2,
                ..
            }
        )
    };
    assert_eq!(world.count(cut), 1);
}

#[test]
fn an_ended_session_is_cut_and_its_end_recorded_once() {
    let mut world = running(Mode::Inject);
    let end = || DeskMessage::End {
        ticket: Ticket(1),
        session: session("s1"),
        exit_status: Some(3),
        cause: EndCause::Exited,
    };
    let (reply, effects) = world.desk(end());
    assert!(matches!(
        reply,
        DeskReply::Done {
            record: Some(_),
            ..
        }
    ));
    assert_eq!(effects.len(), 1);
    assert_eq!(world.notary.gates_of(&session("s1")), [GATE]);
    assert_eq!(world.refused(GATE), Reason::SessionEnded);
    world.desk(end());
    assert_eq!(world.count(|e| matches!(e, Event::SessionEnded { .. })), 1);
}

#[test]
fn a_binding_that_goes_cuts_the_streams_it_covered() {
    let mut world = running(Mode::Inject);
    let allowed = world.allowed(false);
    let id = BindingId::parse("b1").unwrap();
    let effects = world.ask_owner(OperatorRequest::Unbind { id }, None);
    assert_eq!(effects.len(), 1);
    assert_eq!(world.unlock(GATE, &allowed), Err(Reason::BindingNotGranted));
    assert_eq!(world.count(is_release), 0);
}

#[test]
fn one_sessions_receipts_push_out_no_other_sessions() {
    let mut world = running(Mode::Inject);
    world.begin("s2", DOCUMENT).unwrap();
    world
        .notary
        .gate_joined(GateId(2), session("s2"), Generation(1));
    let mine = world.allowed(false);
    let flood = (0..5_000).map(|ticket| question(ticket, false)).collect();
    world.send(GateId(2), GateMessage::Ask(flood));
    assert!(world.unlock(GATE, &mine).is_ok());
}

#[test]
fn fingerprints_are_of_every_value_and_need_the_keys() {
    let mut world = ready(Mode::Inject);
    let ask = || DeskMessage::Fingerprints { ticket: Ticket(1) };
    let DeskReply::FingerprintSet { fingerprints, .. } = world.desk(ask()).0 else {
        panic!()
    };
    assert_eq!(fingerprints.len(), 1);
    assert_eq!(fingerprints[0].length, 20);
    world.ask_owner(OperatorRequest::Seal, None);
    assert!(
        matches!(world.desk(ask()).0, DeskReply::Refused { refusal, .. }
        if refusal.reason == Reason::VaultSealed)
    );
}

// ATTACK: 233
#[test]
fn no_reply_and_no_stored_byte_holds_the_value() {
    let mut world = running(Mode::Inject);
    world.allowed(true);
    let requests = [
        OperatorRequest::List,
        OperatorRequest::Status,
        OperatorRequest::RecordHead,
    ];
    let mut seen = String::new();
    for request in requests {
        seen.push_str(&format!("{:?}", world.owner(request, None).0));
    }
    let mut bytes = seen.into_bytes();
    for directory in ["store", "record"] {
        for entry in std::fs::read_dir(world.root.path().join(directory)).unwrap() {
            bytes.extend(std::fs::read(entry.unwrap().path()).unwrap());
        }
    }
    let found = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    assert!(!found(&VALUE[..12]));
    // The search works: names are there.
    assert!(found(b"credential_released"));
}

/// What a gate was given for a receipt: watched placeholders and values, whether one is put in,
/// and the watch.
type Given = (Vec<(String, Vec<u8>)>, bool, u64);

impl World {
    /// A running session of a grant with two credentials; the question uses the first.
    fn running_with_two() -> Self {
        let mut world = ready(Mode::Inject);
        let put = OperatorRequest::Put {
            name: CredentialName::parse("other").unwrap(),
            shape: "glpat-".to_owned(),
        };
        world.ask_owner(put, Some(b"glpat-other0123456789"));
        let mut elsewhere = binding(Mode::Inject);
        elsewhere.id = BindingId::parse("b2").unwrap();
        elsewhere.credential = CredentialName::parse("other").unwrap();
        elsewhere.endpoint.host = Host::parse("elsewhere.test").unwrap();
        world.ask_owner(OperatorRequest::Bind(Box::new(elsewhere)), None);
        let two = format!("{DOCUMENT}[secret.other]\nenv = \"OTHER\"\n");
        world.accept(&two);
        world.begin("s1", &two).unwrap();
        world.notary.gate_joined(GATE, session("s1"), Generation(1));
        world
    }

    fn ask_with_watch(&mut self, watch: u64, pooled: bool) -> (Allowed, Option<Vec<u8>>) {
        let question = Question {
            watch,
            ..question(1, pooled)
        };
        match self.ask(GATE, question) {
            (Answer::Allowed(allowed), secret) => (*allowed, secret),
            (Answer::Refused(refusal), _) => panic!("{refusal:?}"),
        }
    }

    fn redeem(&mut self, allowed: &Allowed) -> Result<Given, Reason> {
        let receipt = allowed.receipt.clone();
        let ticket = Ticket(9);
        let message = GateMessage::Unlock { ticket, receipt };
        let frame = self.send(GATE, message).pop().unwrap();
        match frame.message {
            NotaryMessage::Unlocked { released, .. } => {
                let values = frame.credentials.iter().map(|c| c.expose().to_vec());
                let watched = released.watched.into_iter().zip(values).collect();
                Ok((watched, released.injects, released.watch))
            }
            NotaryMessage::UnlockRefused { refusal, .. } => Err(refusal.reason),
            other => panic!("{other:?}"),
        }
    }
}

// ATTACK: 105
#[test]
fn a_gate_is_given_every_credential_of_its_session_to_watch_for_before_the_first_request() {
    let mut world = World::running_with_two();
    // Not with the answer, pooled or not: a peer must be verified first.
    let (allowed, secret) = world.ask_with_watch(0, true);
    assert!(allowed.unlock && secret.is_none());
    assert_eq!(world.count(is_watch), 0);
    let (watched, injects, watch) = world.redeem(&allowed).unwrap();
    let [(placeholder, value)] = watched.as_slice() else {
        panic!("{watched:?}")
    };
    assert!(placeholder.starts_with("glpat-") && value == b"glpat-other0123456789");
    assert!(injects && watch > 0);
    assert_eq!((world.count(is_watch), world.count(is_release)), (1, 1));
    let records = world.records();
    let Event::CredentialWatched(seen) = &records.last().unwrap().event else {
        panic!()
    };
    assert_eq!(seen.decision, allowed.record);
    assert_eq!((seen.credential.as_str(), seen.version), ("other", 1));
    assert_eq!(world.redeem(&allowed), Err(Reason::ReceiptInvalid));

    // Once it is taken up the answer brings the credential as ever.
    let (_, secret) = world.ask_with_watch(watch, true);
    assert_eq!(secret.as_deref(), Some(VALUE));
    assert_eq!(world.count(is_watch), 1);

    // A rotation is watched for from the next request on.
    let name = CredentialName::parse("other").unwrap();
    world.ask_owner(
        OperatorRequest::Rotate { name },
        Some(b"glpat-second0123456789"),
    );
    let (allowed, secret) = world.ask_with_watch(watch, true);
    assert_eq!(secret, None);
    let (watched, _, newer) = world.redeem(&allowed).unwrap();
    assert!(watched[0].1 == b"glpat-second0123456789" && newer > watch);
}

#[test]
fn nothing_is_watched_for_that_was_revoked_or_that_the_session_does_not_hold() {
    let mut world = running(Mode::Inject);
    let put = OperatorRequest::Put {
        name: CredentialName::parse("foreign").unwrap(),
        shape: "glpat-".to_owned(),
    };
    world.ask_owner(put, Some(b"glpat-foreign0123456789"));
    let (_, secret) = world.ask_with_watch(0, true);
    assert_eq!((secret.as_deref(), world.count(is_watch)), (Some(VALUE), 0));

    let mut world = World::running_with_two();
    let name = CredentialName::parse("other").unwrap();
    world.ask_owner(OperatorRequest::Remove { name }, None);
    let (allowed, _) = world.ask_with_watch(0, false);
    let (watched, injects, _) = world.redeem(&allowed).unwrap();
    assert!(watched.is_empty() && injects);
    assert_eq!(world.count(is_watch), 0);
}

#[test]
fn a_credential_that_was_revoked_before_it_was_watched_for_refuses_and_later_does_not() {
    let mut world = World::running_with_two();
    let name = CredentialName::parse("other").unwrap();
    let mut known = World::running_with_two();
    let allowed = known.ask_with_watch(0, false).0;
    let (_, _, watch) = known.redeem(&allowed).unwrap();
    for world in [&mut world, &mut known] {
        let name = name.clone();
        world.ask_owner(OperatorRequest::Revoke { name }, None);
    }
    assert_eq!(world.refused(GATE), Reason::CredentialRevoked);
    // The gate knows the value: its answers are searched.
    let (_, secret) = known.ask_with_watch(watch, true);
    assert_eq!(secret.as_deref(), Some(VALUE));
}

// ATTACK: 101
#[test]
fn a_new_value_cuts_every_stream_of_the_sessions_that_hold_it() {
    let whole = |session: &str| Effect::Revoke {
        session: SessionId::parse(session).unwrap(),
        credential: None,
    };
    let mut world = World::running_with_two();
    let name = || CredentialName::parse("other").unwrap();
    let rotate = OperatorRequest::Rotate { name: name() };
    let cut = world.ask_owner(rotate, Some(b"glpat-second0123456789"));
    assert_eq!(cut, [whole("s1")]);
    world.ask_owner(OperatorRequest::Remove { name: name() }, None);
    let put = OperatorRequest::Put {
        name: name(),
        shape: "glpat-".to_owned(),
    };
    assert_eq!(
        world.ask_owner(put, Some(b"glpat-third0123456789")),
        [whole("s1")]
    );
    let put = OperatorRequest::Put {
        name: CredentialName::parse("foreign").unwrap(),
        shape: "glpat-".to_owned(),
    };
    assert!(
        world
            .ask_owner(put, Some(b"glpat-foreign0123456789"))
            .is_empty()
    );
}

#[test]
fn a_credential_comes_with_the_answer_only_where_the_connection_was_used_with_it() {
    let mut world = running(Mode::Inject);
    let serves = |serves| Question {
        serves,
        ..question(1, true)
    };
    let other = CredentialName::parse("other").ok();
    for used_with in [None, other] {
        let (answer, secret) = world.ask(GATE, serves(used_with));
        assert!(matches!(answer, Answer::Allowed(allowed) if allowed.unlock));
        assert_eq!(secret, None);
    }
    assert_eq!(world.count(is_release), 0);
    let (_, secret) = world.ask(GATE, serves(Some(credential())));
    assert_eq!(secret.as_deref(), Some(VALUE));
}

#[test]
fn a_sealed_vault_refuses_a_request_whose_answer_could_not_be_searched() {
    let mut world = World::running_with_two();
    let allowed = world.ask_with_watch(0, false).0;
    world.ask_owner(OperatorRequest::Seal, None);
    assert_eq!(world.redeem(&allowed), Err(Reason::VaultSealed));
    assert_eq!(world.refused(GATE), Reason::VaultSealed);
    assert_eq!(world.count(is_watch), 0);
}

#[test]
fn a_preset_counts_when_it_was_confirmed_and_its_change_asks_for_trust_again() {
    let text = "[[allow]]\npreset = \"pip\"\n";
    let narrow = "[[allow]]\nhost = \"allow.test\"\npaths = [\"/simple/**\"]\n";
    let pip = || PresetName::parse("pip").unwrap();
    let presets = |text: &str| Presets::shipped().with(pip(), Preset::parse(text).unwrap());
    let set = |text: &str| OperatorRequest::SetPreset {
        name: pip(),
        text: text.to_owned(),
    };
    let mut world = ready(Mode::Placeholder);
    world.accept_digest(digest_with(text, &presets(narrow)));
    // Accepted beforehand, and still nothing: nobody confirmed the preset.
    assert!(world.begin("s1", text).is_err());
    world.ask_owner(set(narrow), None);
    let begun = world.begin("s2", text).unwrap();
    assert_eq!(begun.grant.allow[0].name.as_str(), "preset.pip[0]");

    let wide = format!("{narrow}[[allow]]\nhost = \"other.test\"\n");
    world.ask_owner(set(&wide), None);
    let refused = world.begin("s3", text).unwrap_err();
    assert!(refused.hint.contains("torno trust"), "{}", refused.hint);
    world.accept_digest(digest_with(text, &presets(&wide)));
    assert_eq!(world.begin("s4", text).unwrap().grant.allow.len(), 2);

    // It is there in the next life, and no broken text takes its place.
    let (reply, _) = world.owner(set("[[allow]]\nhost = \"*.com\"\n"), None);
    assert!(matches!(reply, OperatorReply::Failed { .. }), "{reply:?}");
    let World { notary, now, root } = world;
    notary.close(now).unwrap();
    let notary = Notary::open(config(root.path()), now).unwrap();
    let mut world = World { notary, now, root };
    assert_eq!(world.begin("s5", text).unwrap().grant.allow.len(), 2);
    world.ask_owner(OperatorRequest::RemovePreset { name: pip() }, None);
    assert!(world.begin("s6", text).is_err());
}
