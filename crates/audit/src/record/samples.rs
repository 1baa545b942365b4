// SPDX-License-Identifier: Apache-2.0
//! One of each event, for goldens and tests.

use super::*;
use crate::request::{GitNote, GitVerb, Outcome, ReferenceNote};
use crate::{Opening, SigningKey};
use torno_policy::binding::Mode;
use torno_policy::facts::{self, RefChange};
use torno_policy::names::{Endpoint, Method};
use torno_policy::tripwire::Wire;

pub(crate) const AT_MS: u64 = 1_700_000_000_000;

pub(crate) fn key() -> SigningKey {
    SigningKey::from_seed(&[7; 32])
}

pub(crate) fn other_key() -> SigningKey {
    SigningKey::from_seed(&[8; 32])
}

pub(crate) fn opening() -> Opening {
    Opening {
        at_ms: AT_MS,
        software: ShortText::new("torno-test 1"),
    }
}

/// A directory as the recorder wants it: 0700; in memory where that is possible, since the tests
/// open records by the thousand.
pub(crate) fn directory() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    tempfile::Builder::new()
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir_in(if std::path::Path::new("/dev/shm").is_dir() {
            "/dev/shm".into()
        } else {
            std::env::temp_dir()
        })
        .unwrap()
}

pub(crate) fn session(name: &str) -> SessionId {
    SessionId::parse(name).unwrap()
}

pub(crate) fn entry(event: Event) -> Entry {
    Entry {
        at_ms: AT_MS,
        session: Some(session("s1")),
        event,
    }
}

/// A small entry that differs by number.
pub(crate) fn numbered(number: u64) -> Entry {
    entry(Event::CommandEnded {
        exec: number,
        status: 0,
        source: Source::GuestReported,
    })
}

pub(crate) fn endpoint() -> Endpoint {
    Endpoint {
        scheme: torno_policy::names::Scheme::Https,
        host: torno_policy::names::Host::parse("api.example.test").unwrap(),
        port: torno_policy::names::Port::HTTPS,
    }
}

fn credential() -> CredentialName {
    CredentialName::parse("github").unwrap()
}

fn binding() -> BindingId {
    BindingId::parse("github-api").unwrap()
}

fn digest() -> Digest {
    Digest::of(b"sample")
}

pub(crate) fn request_decided() -> RequestDecided {
    RequestDecided {
        entry: facts::Entry::Captured,
        endpoint: endpoint(),
        method: Method::parse("POST").unwrap(),
        path: LongText::new("/acme/app/git-receive-pack"),
        query_bytes: Some(12),
        verdict: Verdict::Allow,
        layer: Layer::Session,
        rule: ShortText::new("grant.git[0]"),
        reason: None,
        credential: Some(credential()),
        binding: Some(binding()),
        git: Some(GitNote {
            operation: GitVerb::Push,
            repository: LongText::new("/acme/app"),
            references: List::new([ReferenceNote {
                name: ShortText::new("refs/heads/agent/x"),
                change: RefChange::Create,
            }]),
        }),
        content: None,
    }
}

fn session_events() -> Vec<Event> {
    vec![
        Event::SessionBegun {
            generation: Generation(3),
            tenant: TenantName::parse("local").unwrap(),
            document_digest: digest(),
            isolation: Isolation::Gvisor,
            guarantees: List::new([ShortText::new("no landlock in gvisor")]),
        },
        Event::SessionLocked,
        Event::SessionEnded {
            cause: EndCause::Exited,
            exit_status: Some(0),
        },
        Event::SessionKilled,
        Event::KillCompleted {
            processes: 4,
            leftovers: List::new([ShortText::new(
                "one upstream token has no revocation endpoint",
            )]),
            cut: 2,
        },
        Event::CommandStarted {
            exec: 1,
            argv: List::new([
                LongText::new("sh"),
                LongText::new("-c"),
                LongText::new("true"),
            ]),
            source: Source::HostObserved,
        },
        Event::CommandEnded {
            exec: 1,
            status: 0,
            source: Source::GuestReported,
        },
        Event::Hidden {
            place: LongText::new("config/.env"),
            shape: ShortText::new("dotenv"),
        },
        Event::BudgetFrozen { records: 1_000_000 },
        Event::TripwireSeen(Box::new(TripwireSeen {
            wire: Wire::AwsCredentials,
            location: ShortText::new("query"),
            endpoint: endpoint(),
            method: Method::parse("GET").unwrap(),
        })),
    ]
}

fn request_events() -> Vec<Event> {
    vec![
        Event::RequestDecided(Box::new(request_decided())),
        Event::CredentialReleased(Box::new(CredentialReleased {
            decision: RecordSeq(9),
            credential: credential(),
            version: 2,
            binding: binding(),
            endpoint: endpoint(),
        })),
        Event::CredentialWatched(Box::new(CredentialWatched {
            decision: RecordSeq(9),
            credential: credential(),
            version: 2,
        })),
        Event::RequestEnded(Box::new(RequestEnded {
            decision: RecordSeq(9),
            outcome: Outcome::Completed,
            status: Some(200),
            reason: None,
            sent: 10,
            received: 20,
            reflected: 1,
            carried: 0,
            address: Some(ShortText::new("192.0.2.7:443")),
            resolved_by_proxy: false,
        })),
        Event::RequestRefused(Box::new(RequestRefused {
            reason: Reason::NamesDisagree,
            layer: Layer::Wire,
            rule: ShortText::new("wire"),
            target: ShortText::new("evil.test\r\nHost: allow.test"),
            count: 3,
        })),
        Event::CredentialReflected {
            decision: RecordSeq(9),
            credential: credential(),
            count: 1,
        },
        Event::CredentialMinted {
            decision: RecordSeq(9),
            credential: credential(),
            count: 2,
        },
        Event::CookiesKept {
            decision: RecordSeq(9),
            credential: credential(),
            names: List::new([ShortText::new("sid")]),
        },
        Event::DialAlarm {
            reason: Reason::ReceiptInvalid,
        },
        Event::ToolDecided {
            tool: ToolName::parse("mcp:mail/send").unwrap(),
            arguments_digest: digest(),
            verdict: Verdict::Ask,
            layer: Layer::Tool,
            rule: ShortText::new("tool[3]"),
            reason: Some(Reason::ApprovalUnavailable),
        },
    ]
}

pub(crate) fn binding_set() -> BindingSet {
    BindingSet {
        binding: binding(),
        revision: 1,
        credential: credential(),
        endpoint: endpoint(),
        plaintext: false,
        methods: List::new([Method::parse("GET").unwrap()]),
        paths: List::new([ShortText::new("/repos/acme/app/**")]),
        denied: List::new([ShortText::new("POST /repos/*/*/keys/**")]),
        cookies: None,
        token_endpoints: None,
        slot: ShortText::new("header:authorization"),
        mode: Mode::Placeholder,
        expires_at: None,
    }
}

fn vault_events() -> Vec<Event> {
    vec![
        Event::VaultInitialised,
        Event::VaultUnsealed,
        Event::VaultSealed,
        Event::UnsealFailed,
        Event::CredentialPut {
            name: credential(),
            version: 1,
        },
        Event::CredentialRotated {
            name: credential(),
            version: 2,
        },
        Event::CredentialRevoked { name: credential() },
        Event::CredentialRemoved { name: credential() },
        Event::BindingSet(Box::new(binding_set())),
        Event::BindingRemoved { binding: binding() },
        Event::KekRotated { version: 2 },
        Event::DocumentAccepted { digest: digest() },
        Event::PresetSet {
            name: PresetName::parse("pip").unwrap(),
            digest: digest(),
        },
        Event::PresetRemoved {
            name: PresetName::parse("pip").unwrap(),
        },
    ]
}

/// One of each.
pub(crate) fn every_event() -> Vec<Event> {
    let mut events = vec![
        Event::RecordOpened {
            software: ShortText::new("torno-test 1"),
            key: ShortText::new(key().public().to_string()),
        },
        Event::RecordRecovered {
            dropped_bytes: 17,
            dropped_sha256: digest(),
            segment: RecordSeq(0),
        },
        Event::SegmentPruned {
            first: RecordSeq(0),
            end: RecordSeq(100),
            root: digest(),
        },
    ];
    events.extend(session_events());
    events.extend(request_events());
    events.extend(vault_events());
    events.push(Event::SandboxClaimed {
        sandbox: ShortText::new("abcdefghijklmnopqrstuvwx23"),
    });
    let image = ImageDigest::parse(&format!("sha256:{}", "ab".repeat(32))).unwrap();
    events.push(Event::ImageChosen {
        image: ShortText::new("tools"),
        digest: image,
    });
    let checkpoint = CheckpointName::parse("before-upgrade").unwrap();
    events.push(Event::SessionCheckpointed {
        checkpoint: checkpoint.clone(),
        bytes: 4096,
    });
    events.push(Event::CheckpointRemoved {
        checkpoint: checkpoint.clone(),
    });
    events.push(Event::SessionForked {
        checkpoint,
        of: session("s0"),
    });
    events.push(Event::SessionPaused);
    events.push(Event::SessionResumed);
    events
}

/// The kind of each event; without wildcard, so that a new event asks for its sample.
pub(crate) fn kind(event: &Event) -> &'static str {
    match event {
        Event::RecordOpened { .. } => "record_opened",
        Event::RecordRecovered { .. } => "record_recovered",
        Event::SegmentPruned { .. } => "segment_pruned",
        Event::SessionBegun { .. } => "session_begun",
        Event::SessionLocked => "session_locked",
        Event::SessionEnded { .. } => "session_ended",
        Event::SessionKilled => "session_killed",
        Event::KillCompleted { .. } => "kill_completed",
        Event::RequestDecided(_) => "request_decided",
        Event::CredentialReleased(_) => "credential_released",
        Event::CredentialWatched(_) => "credential_watched",
        Event::RequestEnded(_) => "request_ended",
        Event::RequestRefused(_) => "request_refused",
        Event::CredentialReflected { .. } => "credential_reflected",
        Event::CredentialMinted { .. } => "credential_minted",
        Event::CookiesKept { .. } => "cookies_kept",
        Event::DialAlarm { .. } => "dial_alarm",
        Event::ToolDecided { .. } => "tool_decided",
        Event::CommandStarted { .. } => "command_started",
        Event::CommandEnded { .. } => "command_ended",
        Event::Hidden { .. } => "hidden",
        Event::VaultInitialised => "vault_initialised",
        Event::VaultUnsealed => "vault_unsealed",
        Event::VaultSealed => "vault_sealed",
        Event::UnsealFailed => "unseal_failed",
        Event::CredentialPut { .. } => "credential_put",
        Event::CredentialRotated { .. } => "credential_rotated",
        Event::CredentialRevoked { .. } => "credential_revoked",
        Event::CredentialRemoved { .. } => "credential_removed",
        Event::BindingSet(_) => "binding_set",
        Event::BindingRemoved { .. } => "binding_removed",
        Event::KekRotated { .. } => "kek_rotated",
        Event::DocumentAccepted { .. } => "document_accepted",
        Event::PresetSet { .. } => "preset_set",
        Event::PresetRemoved { .. } => "preset_removed",
        Event::BudgetFrozen { .. } => "budget_frozen",
        Event::TripwireSeen(_) => "tripwire_seen",
        Event::SandboxClaimed { .. } => "sandbox_claimed",
        Event::ImageChosen { .. } => "image_chosen",
        Event::SessionCheckpointed { .. } => "session_checkpointed",
        Event::CheckpointRemoved { .. } => "checkpoint_removed",
        Event::SessionForked { .. } => "session_forked",
        Event::SessionPaused => "session_paused",
        Event::SessionResumed => "session_resumed",
    }
}

/// The number of arms of [`kind`].
pub(crate) const KINDS: usize = 44;
