// SPDX-License-Identifier: Apache-2.0
//! Nothing that can be asked of the desk or of the notary says where the record lies: no field does
//! today, and a field that is not known refuses the whole request, at any depth.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that can't go on must stop"
)]

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use torno_control_api::request::ApiRequest;
use torno_notary_protocol::desk::DeskMessage;
use torno_notary_protocol::operator::OperatorRequest;

/// One of each, with every field that it can have.
fn api() -> Vec<Value> {
    let digest = [0_u8; 32];
    let act = json!({ "request": {
        "entry": "captured",
        "endpoint": { "scheme": "https", "host": "a.example.org", "port": 443 },
        "method": "GET",
        "path": ["/x", null],
        "websocket": true,
        "presented": [{ "location": { "header": "authorization" }, "digest": digest }],
        "own_credentials": ["x-api-key"],
        "git": { "repository": "/a/b", "operation": { "push": [
            { "name": "refs/heads/a", "change": "create" },
        ] } },
        "content": { "jsonrpc": ["tools/list"] },
        "body": null,
    } });
    vec![
        json!({ "authenticate": { "token": "t" } }),
        json!({ "start": {
            "document": "", "isolation": "gvisor", "workspace": "copy", "wall_seconds": 1,
            "env": [["A", "b"]], "has_workspace": true, "detached": false, "also": [],
            "has_also": true, "emulation": false, "from": "before",
        } }),
        json!({ "exec": {
            "session": "s1", "argv": ["true"], "env": [], "cwd": "/",
            "terminal": { "rows": 1, "columns": 1 },
        } }),
        json!({ "attach": { "session": "s1", "exec": 1 } }),
        json!({ "sessions": { "session": null } }),
        json!({ "stop": { "session": "s1" } }),
        json!({ "kill": { "session": null } }),
        json!({ "diff": { "session": "s1" } }),
        json!({ "commits": { "session": "s1" } }),
        json!({ "apply": { "session": "s1", "paths": null, "confirmed": [] } }),
        json!({ "explain": { "session": "s1", "act": act } }),
        json!("doctor"),
        json!({ "issue_brain_token": { "session": "s1" } }),
        json!({ "pause": { "session": "s1" } }),
        json!({ "resume": { "session": "s1" } }),
        json!({ "checkpoint": { "session": "s1", "name": "before" } }),
        json!("checkpoints"),
        json!({ "leftovers": { "remove": true } }),
        json!({ "remove_checkpoint": { "name": "before" } }),
    ]
}

fn operator() -> Vec<Value> {
    let binding = json!({
        "id": "b1", "tenant": "default", "credential": "c1",
        "endpoint": { "scheme": "https", "host": "a.example.org", "port": 443 },
        "plaintext": false, "methods": ["GET"], "paths": ["/**"],
        "slot": { "header": { "name": "authorization", "scheme": "Bearer" } },
        "mode": "placeholder", "expires_at": null, "revision": 1,
    });
    vec![
        json!({ "init": { "unseal": "passphrase" } }),
        json!("unseal"),
        json!("seal"),
        json!("status"),
        json!({ "put": { "name": "c1", "shape": "" } }),
        json!({ "rotate": { "name": "c1" } }),
        json!({ "revoke": { "name": "c1" } }),
        json!({ "remove": { "name": "c1" } }),
        json!({ "bind": binding }),
        json!({ "unbind": { "id": "b1" } }),
        json!("list"),
        json!("rotate_kek"),
        json!({ "accept": { "digest": "d" } }),
        json!({ "accepted": { "digest": "d" } }),
        json!("record_head"),
        json!({ "prune": { "keep_segments": 1 } }),
        json!("presets"),
        json!({ "set_preset": { "name": "pip", "text": "" } }),
        json!({ "remove_preset": { "name": "pip" } }),
    ]
}

/// What the desk says that carries a session's text or a tool's call.
fn desk() -> Vec<Value> {
    vec![
        json!({ "begin": {
            "ticket": 1, "session": "s1", "tenant": "default", "document": "",
            "choice": { "isolation": null, "workspace": null, "wall_seconds": null,
                "emulation": false },
            "effective_isolation": "gvisor", "emulated": false, "guarantees": [],
            "image": null,
        } }),
        json!({ "kill": { "ticket": 1, "session": null } }),
        json!({ "note": { "session": "s1", "note": {
            "command_started": { "exec": 1, "argv": ["true"] },
        } } }),
        json!({ "sessions": { "ticket": 1 } }),
    ]
}

/// Words that somebody who wants to choose a place would try.
const TRIED: [&str; 8] = [
    "record",
    "record_path",
    "audit",
    "audit_path",
    "prefix",
    "socket",
    "directory",
    "log",
];

/// The value with one more field in one of its objects, for each of them, at any depth. A word
/// alone becomes an object of that name.
fn widened(value: &Value, key: &str) -> Vec<Value> {
    let place = json!("/etc/cron.d/x");
    match value {
        Value::Object(fields) => {
            let mut more = fields.clone();
            more.insert(key.to_owned(), place);
            let mut all = vec![Value::Object(more)];
            for (name, field) in fields {
                if field.is_string() {
                    continue;
                }
                all.extend(widened(field, key).into_iter().map(|wide| {
                    let mut fields = fields.clone();
                    fields.insert(name.clone(), wide);
                    Value::Object(fields)
                }));
            }
            all
        }
        Value::Array(items) => (0..items.len())
            .flat_map(|at| {
                widened(&items[at], key)
                    .into_iter()
                    .map(move |wide| (at, wide))
            })
            .map(|(at, wide)| {
                let mut items = items.clone();
                items[at] = wide;
                Value::Array(items)
            })
            .collect(),
        Value::String(word) => {
            let inner = Map::from_iter([(key.to_owned(), place)]);
            vec![json!({ word.clone(): inner })]
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

/// Each sample is a whole request, with no field left out; none takes a field more.
#[track_caller]
fn check<T: DeserializeOwned + Serialize>(samples: &[Value]) {
    let mut taken = Vec::new();
    for sample in samples {
        let read: T = serde_json::from_value(sample.clone()).unwrap();
        assert_eq!(&serde_json::to_value(read).unwrap(), sample);
        for key in TRIED {
            let wide = widened(sample, key);
            assert!(!wide.is_empty(), "{sample}");
            let accepted = wide
                .into_iter()
                .filter(|wide| serde_json::from_value::<T>(wide.clone()).is_ok());
            taken.extend(accepted.map(|wide| wide.to_string()));
        }
        let other = json!({ "set_record": { "path": "/etc/cron.d/x" } });
        assert!(serde_json::from_value::<T>(other).is_err());
    }
    assert!(taken.is_empty(), "taken:\n{}", taken.join("\n"));
}

/// The names of all fields and words of the samples.
fn names(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                into.insert(name.clone());
                names(field, into);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| names(item, into)),
        _ => {}
    }
}

// ATTACK: 219
#[test]
fn no_request_of_the_desk_or_the_notary_takes_a_place_of_the_record() {
    check::<ApiRequest>(&api());
    check::<OperatorRequest>(&operator());
    check::<DeskMessage>(&desk());
    let mut all = BTreeSet::new();
    for sample in api().iter().chain(&operator()).chain(&desk()) {
        names(sample, &mut all);
    }
    // Of every field there is, these are paths: of a request, of the workspace, inside a sandbox;
    // and one says what a request asks to become.
    let paths = [
        "websocket",
        "path",
        "paths",
        "cwd",
        "also",
        "document",
        "has_workspace",
        "workspace",
    ];
    for word in [
        "path", "dir", "place", "file", "log", "socket", "audit", "record",
    ] {
        let found = all.iter().filter(|name| name.contains(word));
        let odd: Vec<_> = found
            .filter(|name| !paths.contains(&name.as_str()))
            .collect();
        assert!(odd.is_empty(), "{odd:?}");
    }
}

/// A variant that is added must be looked at here: the match has no other arm.
#[test]
fn every_request_is_among_the_samples() {
    let api: BTreeSet<usize> = api()
        .into_iter()
        .map(|sample| match serde_json::from_value(sample).unwrap() {
            ApiRequest::Authenticate { .. } => 0,
            ApiRequest::Start(_) => 1,
            ApiRequest::Exec(_) => 2,
            ApiRequest::Attach { .. } => 3,
            ApiRequest::Sessions { .. } => 4,
            ApiRequest::Stop { .. } => 5,
            ApiRequest::Kill { .. } => 6,
            ApiRequest::Diff { .. } => 7,
            ApiRequest::Apply { .. } => 8,
            ApiRequest::Explain { .. } => 9,
            ApiRequest::Doctor => 10,
            ApiRequest::IssueBrainToken { .. } => 11,
            ApiRequest::Pause { .. } => 12,
            ApiRequest::Resume { .. } => 13,
            ApiRequest::Checkpoint { .. } => 14,
            ApiRequest::Checkpoints => 15,
            ApiRequest::RemoveCheckpoint { .. } => 16,
            ApiRequest::Leftovers { .. } => 17,
            ApiRequest::Commits { .. } => 18,
        })
        .collect();
    assert_eq!(api, (0..=18).collect());
    let operator: BTreeSet<usize> = operator()
        .into_iter()
        .map(|sample| match serde_json::from_value(sample).unwrap() {
            OperatorRequest::Init { .. } => 0,
            OperatorRequest::Unseal => 1,
            OperatorRequest::Seal => 2,
            OperatorRequest::Status => 3,
            OperatorRequest::Put { .. } => 4,
            OperatorRequest::Rotate { .. } => 5,
            OperatorRequest::Revoke { .. } => 6,
            OperatorRequest::Remove { .. } => 7,
            OperatorRequest::Bind(_) => 8,
            OperatorRequest::Unbind { .. } => 9,
            OperatorRequest::List => 10,
            OperatorRequest::RotateKek => 11,
            OperatorRequest::Accept { .. } => 12,
            OperatorRequest::Accepted { .. } => 13,
            OperatorRequest::RecordHead => 14,
            OperatorRequest::Prune { .. } => 15,
            OperatorRequest::Presets => 16,
            OperatorRequest::SetPreset { .. } => 17,
            OperatorRequest::RemovePreset { .. } => 18,
        })
        .collect();
    assert_eq!(operator, (0..=18).collect());
}

// ATTACK: 093
#[test]
fn no_binding_puts_a_credential_into_a_slot_that_does_not_exist() {
    let bind = operator().into_iter().find(|r| r.get("bind").is_some());
    let bind = bind.unwrap();
    let with = |slot: Value| {
        let mut bind = bind.clone();
        bind["bind"]["slot"] = slot;
        serde_json::from_value::<OperatorRequest>(bind).is_ok()
    };
    assert!(with(json!({ "basic": { "user": "agent" } })));
    assert!(with(json!({ "json": { "pointer": "/token" } })));
    for slot in [
        json!("body"),
        json!({ "body": {} }),
        json!({ "body": { "pointer": "/token" } }),
        json!({ "form": { "name": "token" } }),
        json!({ "json": { "pointer": "token" } }),
        json!({ "json": { "pointer": "/token", "all": true } }),
        json!({ "query": { "name": "token" } }),
        json!({ "path": {} }),
        json!({ "trailer": { "name": "x" } }),
        json!({ "header": { "name": "x", "scheme": null, "body": true } }),
    ] {
        assert!(!with(slot.clone()), "{slot}");
    }
}
