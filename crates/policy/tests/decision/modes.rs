// SPDX-License-Identifier: Apache-2.0
//! Each mode at each slot, for each thing that a client can send there: one table.

use torno_policy::binding::{Algorithm, Hash, Hmac, Jwt, KeyForm, Recipe, SignedField};
use torno_policy::binding::{Answers, Binding, Held, Mode, PathPattern, Pointer, Slot};
use torno_policy::decide::{IssuedPlaceholder, Layers, decide, unread};
use torno_policy::facts::{Act, BodySlot, Entry, Location, Presented, RequestFacts, Unread};
use torno_policy::names::{
    BindingId, CredentialName, Endpoint, Generation, Host, Method, Port, RequestPath, Scheme,
    SessionId, TenantName,
};
use torno_policy::organisation::Organisation;
use torno_policy::placeholder::PlaceholderDigest;
use torno_policy::standing::{Phase, Standing, State};
use torno_policy::{Decision, document};

const POLICY: &str = "[secret.token]\n\n[[allow]]\nhost = \"allow.test\"\nwebsocket = true\n\
    methods = [\"GET\", \"POST\"]\n";
const DIGEST: PlaceholderDigest = PlaceholderDigest([7; 32]);

/// What a client has in the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Nothing,
    Placeholder,
    Own,
    Twice,
}

const SENT: [Sent; 4] = [Sent::Nothing, Sent::Placeholder, Sent::Own, Sent::Twice];
const MODES: [Mode; 3] = [Mode::Placeholder, Mode::PlaceholderOrInject, Mode::Inject];

fn slots() -> Vec<Slot> {
    let word = |text: &str| text.to_owned();
    let pointer = || Pointer::parse("/d/token").unwrap();
    vec![
        Slot::Header {
            name: word("x-api-key"),
            scheme: None,
        },
        Slot::Basic { user: word("git") },
        Slot::Query {
            parameter: word("key"),
        },
        Slot::Path {
            template: PathPattern::parse("/bot{credential}/**").unwrap(),
        },
        Slot::Form {
            field: word("client_secret"),
        },
        Slot::Json { pointer: pointer() },
        Slot::Multipart {
            part: word("token"),
        },
        hmac(),
        Slot::Jwt(Box::new(Jwt {
            algorithm: Algorithm::RS256,
            issuer: word("app"),
            subject: None,
            audience: None,
            key_id: None,
            lifetime_seconds: 600,
        })),
        Slot::WebsocketJson {
            pointer: pointer(),
            binary: false,
        },
    ]
}

fn hmac() -> Slot {
    let recipe = |text: &str| Recipe::parse(text).unwrap();
    let field = SignedField {
        name: "x-signature".to_owned(),
        value: recipe("{hex}"),
    };
    Slot::Hmac(Box::new(Hmac {
        hash: Hash::Sha256,
        key: KeyForm::Text,
        text: recipe("{body}"),
        fields: vec![field],
    }))
}

fn endpoint() -> Endpoint {
    Endpoint {
        scheme: Scheme::Https,
        host: Host::parse("allow.test").unwrap(),
        port: Port::HTTPS,
    }
}

fn binding(slot: &Slot, mode: Mode) -> Binding {
    let paths = match slot {
        Slot::Path { template } => template.clone(),
        _ => PathPattern::parse("/**").unwrap(),
    };
    Binding {
        id: BindingId::parse("b1").unwrap(),
        tenant: TenantName::parse("local").unwrap(),
        credential: CredentialName::parse("token").unwrap(),
        endpoint: endpoint(),
        plaintext: false,
        methods: vec![method(slot)],
        paths: vec![paths],
        denied: Vec::new(),
        answers: Answers::default(),
        slot: slot.clone(),
        mode,
        expires_at: None,
        revision: 1,
    }
}

fn method(slot: &Slot) -> Method {
    Method::parse(if slot.reads_body() { "POST" } else { "GET" }).unwrap()
}

fn facts(slot: &Slot, target: &str) -> RequestFacts {
    RequestFacts {
        entry: Entry::Captured,
        endpoint: endpoint(),
        method: method(slot),
        path: RequestPath::parse_named(target).unwrap(),
        websocket: slot.is_in_websocket(),
        presented: Vec::new(),
        own_credentials: Vec::new(),
        git: None,
        content: None,
        body: None,
    }
}

/// What a gate says of a request with this in the slot.
fn said(slot: &Slot, sent: Sent) -> RequestFacts {
    let target = match (slot, sent) {
        (Slot::Query { .. }, Sent::Nothing) => "/x?a=1",
        (Slot::Query { .. }, Sent::Placeholder) => "/x?key={credential}",
        (Slot::Query { .. }, Sent::Own) => "/x?key=mine",
        (Slot::Query { .. }, Sent::Twice) => "/x?key={credential}&KEY=mine",
        (Slot::Path { .. }, Sent::Nothing) => "/bot/x",
        (Slot::Path { .. }, Sent::Placeholder) => "/bot{credential}/x",
        (Slot::Path { .. }, Sent::Own) => "/botmine/x",
        (Slot::Path { .. }, Sent::Twice) => "/bot{credential}/{credential}",
        _ => "/x",
    };
    let mut facts = facts(slot, target);
    let (location, at_most) = match slot {
        Slot::Query { .. } => (Location::Query, 1),
        Slot::Path { .. } => (Location::Path, 2),
        Slot::Header { .. } | Slot::Basic { .. } | Slot::Jwt(_) | Slot::Hmac(_) => {
            if let Slot::Hmac(_) = slot {
                let (slot, held) = (slot.clone(), Held::Nothing);
                facts.body = Some(Box::new(BodySlot { slot, held }));
            }
            let name = slot.header_name().unwrap().to_owned();
            if sent == Sent::Own {
                facts.own_credentials.push(name.clone());
            }
            (Location::Header(name), 2)
        }
        Slot::Form { .. } | Slot::Json { .. } | Slot::Multipart { .. } => {
            let held = match sent {
                Sent::Nothing => Held::Nothing,
                Sent::Placeholder => Held::Placeholder,
                Sent::Own => Held::Own,
                Sent::Twice => Held::Twice,
            };
            let slot = slot.clone();
            facts.body = Some(Box::new(BodySlot { slot, held }));
            (Location::Slot, 2)
        }
        // Its messages come later, a password is proved and a key signs.
        Slot::WebsocketJson { .. } | Slot::Postgres { .. } | Slot::Sigv4(_) => (Location::Slot, 0),
    };
    let count = match sent {
        Sent::Nothing | Sent::Own => 0,
        Sent::Placeholder => 1,
        Sent::Twice => 2,
    };
    for _ in 0..count.min(at_most) {
        let (location, digest) = (location.clone(), DIGEST);
        facts.presented.push(Presented { location, digest });
    }
    facts
}

/// `put in`, `without`, or the reason; and what would be read first.
fn judged(slot: &Slot, mode: Mode, facts: &RequestFacts) -> (String, Option<Unread>) {
    let bindings = [binding(slot, mode)];
    bindings[0].check().unwrap();
    let grant = document::parse(POLICY, &document::Presets::shipped()).unwrap();
    let organisation = Organisation::shipped();
    let placeholders = [IssuedPlaceholder {
        digest: DIGEST,
        credential: CredentialName::parse("token").unwrap(),
    }];
    let standing = Standing {
        session: SessionId::parse("s1").unwrap(),
        generation: Generation(1),
        state: State::Running,
        phase: Phase::Locked,
    };
    let layers = Layers {
        standing: Some(&standing),
        asker: Generation(1),
        organisation: &organisation,
        grant: &grant,
        bindings: &bindings,
        placeholders: &placeholders,
        tripwires: &[],
        now: 0,
    };
    let act = Act::Request(facts.clone());
    let decision = decide(&layers, &act);
    let unread = unread(&layers, &decision, facts);
    let answer = match decision {
        Decision::Allow(permit) if permit.injection().is_some() => "put in",
        Decision::Allow(_) => "without",
        Decision::Ask(_) => "ask",
        Decision::Deny(refusal) => refusal.reason.code(),
    };
    (answer.to_owned(), unread)
}

// ATTACK: 083, 086
#[test]
fn each_mode_does_the_same_at_every_slot() {
    for slot in slots() {
        for mode in MODES {
            for sent in SENT {
                let expected = match (mode, sent) {
                    _ if slot.is_in_websocket() => "put in",
                    (_, Sent::Placeholder) => "put in",
                    (_, Sent::Twice) => "placeholder_repeated",
                    (Mode::Placeholder, Sent::Nothing) => "without",
                    (Mode::PlaceholderOrInject | Mode::Inject, Sent::Nothing) => "put in",
                    (Mode::Placeholder | Mode::PlaceholderOrInject, Sent::Own) => "own_credential",
                    (Mode::Inject, Sent::Own) => "put in",
                };
                let (answer, unread) = judged(&slot, mode, &said(&slot, sent));
                assert_eq!(
                    (answer.as_str(), unread),
                    (expected, None),
                    "{slot} {mode:?} {sent:?}"
                );
            }
        }
    }
}

// ATTACK: 083
#[test]
fn in_no_mode_does_a_credential_of_the_clients_go_beside_the_bound_one() {
    for slot in slots() {
        for mode in MODES {
            for sent in [Sent::Nothing, Sent::Placeholder] {
                let mut facts = said(&slot, sent);
                facts.own_credentials.push("x-other-token".to_owned());
                let (answer, _) = judged(&slot, mode, &facts);
                assert_eq!(answer, "own_credential", "{slot} {mode:?} {sent:?}");
            }
        }
    }
}

#[test]
fn a_body_is_read_for_its_slot_before_anything_is_decided_and_no_other_is() {
    for slot in slots() {
        for mode in MODES {
            let (answer, unread) = judged(&slot, mode, &facts(&slot, "/bot/x"));
            if slot.reads_body() {
                assert_eq!(answer, "content_unread", "{slot} {mode:?}");
                assert_eq!(unread, Some(Unread::Slot(slot.clone())));
            } else {
                assert_eq!(unread, None, "{slot} {mode:?}");
            }
        }
    }
}

#[test]
fn where_the_body_has_no_place_nothing_is_put_in() {
    for slot in slots().into_iter().filter(Slot::is_in_body) {
        for mode in MODES {
            let mut facts = said(&slot, Sent::Nothing);
            let held = Held::Nowhere;
            let read = slot.clone();
            facts.body = Some(Box::new(BodySlot { slot: read, held }));
            let expected = match mode {
                Mode::Placeholder => "without",
                Mode::PlaceholderOrInject | Mode::Inject => "placeholder_missing",
            };
            assert_eq!(judged(&slot, mode, &facts).0, expected, "{mode:?}");
        }
    }
}

#[test]
fn a_slot_in_a_websocket_is_for_handshakes_alone() {
    let slot = slots().pop().unwrap();
    for mode in MODES {
        let mut facts = facts(&slot, "/x");
        facts.websocket = false;
        assert_eq!(judged(&slot, mode, &facts).0, "without", "{mode:?}");
    }
}
