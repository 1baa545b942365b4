// SPDX-License-Identifier: Apache-2.0
//! A notary that decides in earnest, by the function that the real one calls.

use super::stage::*;
use std::sync::Arc;
use torno_policy::binding::{Answers, Binding, Mode, PathPattern, Slot};
use torno_policy::decide::{IssuedPlaceholder, Layers, decide, unread};
use torno_policy::document::{self, Presets};
use torno_policy::facts::Act;
use torno_policy::names::*;
use torno_policy::organisation::Organisation;
use torno_policy::standing::{Phase, Standing, State};
use torno_policy::{Decision, Reason};

/// Everything at allow.test and other.test is granted, and a WebSocket at plain.test.
const POLICY: &str = r#"
[secret.c1]
[[allow]]
host = "allow.test"
methods = ["GET", "POST", "PUT"]
[[allow]]
host = "other.test"
methods = ["GET", "POST"]
[[allow]]
host = "plain.test"
scheme = "http"
websocket = true
"#;

/// The session's one credential is bound with this slot to allow.test, or to plain.test where the
/// slot is in a WebSocket.
pub(super) fn judging(slot: Slot, mode: Mode, path: &str) -> Arc<Notary> {
    let grant = document::parse(POLICY, &Presets::shipped()).unwrap();
    let binding = binding(slot, mode, path);
    binding.check().unwrap();
    // The shipped one wants https, and raw frames are told over http here.
    let organisation = "@id(\"all\") permit (principal, action, resource);";
    let organisation = Organisation::parse(organisation).unwrap();
    let placeholders = [IssuedPlaceholder {
        digest: placeholder().digest(),
        credential: CredentialName::parse("c1").unwrap(),
    }];
    let standing = Standing {
        session: SessionId::parse("s1").unwrap(),
        generation: Generation(1),
        state: State::Running,
        phase: Phase::Locked,
    };
    Notary::new(move |facts| {
        let layers = Layers {
            standing: Some(&standing),
            asker: Generation(1),
            organisation: &organisation,
            grant: &grant,
            bindings: std::slice::from_ref(&binding),
            placeholders: &placeholders,
            tripwires: &[],
            now: 0,
        };
        let decision = decide(&layers, &Act::Request(facts.clone()));
        let reads = unread(&layers, &decision, facts);
        match decision {
            _ if reads.is_some() => Ok(Yes {
                reads,
                ..Yes::default()
            }),
            Decision::Allow(permit) => Ok(Yes {
                slot: permit.injection().map(|injection| injection.slot.clone()),
                mode: Some(mode),
                ..Yes::default()
            }),
            Decision::Ask(_) => Err(no(Reason::ApprovalUnavailable)),
            Decision::Deny(refusal) => Err(refusal),
        }
    })
}

fn binding(slot: Slot, mode: Mode, path: &str) -> Binding {
    let scheme = if slot.is_in_websocket() {
        Scheme::Http
    } else {
        Scheme::Https
    };
    let (host, plaintext) = match scheme {
        Scheme::Http => ("plain.test", true),
        Scheme::Https | Scheme::Postgres => ("allow.test", false),
    };
    let methods = match (slot.is_in_body(), plaintext) {
        (true, _) => &["POST", "PUT"][..],
        (false, true) => &["GET"],
        (false, false) => &["GET", "POST"],
    };
    Binding {
        id: BindingId::parse("b1").unwrap(),
        tenant: TenantName::parse("local").unwrap(),
        credential: CredentialName::parse("c1").unwrap(),
        endpoint: Endpoint {
            scheme,
            host: Host::parse(host).unwrap(),
            port: scheme.default_port(),
        },
        plaintext,
        methods: methods.iter().map(|m| Method::parse(m).unwrap()).collect(),
        paths: vec![PathPattern::parse(path).unwrap()],
        denied: Vec::new(),
        answers: Answers::default(),
        slot,
        mode,
        expires_at: None,
        revision: 1,
    }
}
