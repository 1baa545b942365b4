// SPDX-License-Identifier: Apache-2.0
//! The notary with its real store and record in a temporary directory: order of evidence, receipts,
//! standing, sealed vault, restart, rollback.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod content;
mod keeping;
mod minted;
mod pace;
mod pausing;
mod release;
mod sessions;
mod stores;
mod tripwires;
mod watch;

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
use torno_policy::binding::{Answers, Binding, Cookies, Mode, PathPattern, Slot};
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
    empty_under(Organisation::shipped())
}

fn empty_under(organisation: Organisation) -> World {
    let root = tempfile::tempdir().unwrap();
    for name in ["store", "record"] {
        let path = root.path().join(name);
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    let config = Config {
        organisation,
        ..config(root.path())
    };
    World {
        notary: Notary::open(config, START).unwrap(),
        now: START,
        root,
    }
}

/// With a vault, `token` bound to https://allow.test/v1/**, and the document accepted.
fn ready(mode: Mode) -> World {
    prepared(empty(), binding(mode))
}

fn prepared(mut world: World, binding: Binding) -> World {
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
    world.ask_owner(OperatorRequest::Bind(Box::new(binding)), None);
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
        denied: Vec::new(),
        answers: Answers::default(),
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
        websocket: false,
        presented: vec![],
        own_credentials: vec![],
        git: None,
        content: None,
        body: None,
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
            emulated: false,
            guarantees: vec![],
            image: None,
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
            frames.extend(self.notary.flushed(flush.run()));
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
        let frames = self.notary.flushed(flush.run());
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
                Answer::Read(kind) => panic!("{kind:?}"),
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
            Answer::Read(kind) => panic!("{kind:?}"),
        }
    }

    fn refused(&mut self, gate: GateId) -> Reason {
        let (answer, secret) = self.ask(gate, question(1, true));
        assert_eq!(secret, None);
        match answer {
            Answer::Refused(refusal) => refusal.reason,
            Answer::Allowed(allowed) => panic!("{allowed:?}"),
            Answer::Read(kind) => panic!("{kind:?}"),
        }
    }

    fn unlock(&mut self, gate: GateId, allowed: &Allowed) -> Result<Vec<u8>, Reason> {
        let receipt = allowed.receipt.clone().unwrap();
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
