// SPDX-License-Identifier: Apache-2.0
//! The canary search at the end of every story. Before it, one more sandbox plants decoys in all
//! twelve encodings on each surface that a sandbox can reach, so that a surface which was not
//! collected is seen; on every surface decoys are also put among the collected bytes.

use crate::stage::Stage;
use base64::Engine;
use std::collections::BTreeSet;
use torno_stage::canary::{Canary, Encoding, Sweep};
use torno_stage::witness::Seen;
use torno_stage::world::journal::{Connection, Journal};
use torno_stage::world::{EVIL, OTHER, random};

/// The grant of the sandbox that plants decoys: no credential, one path that gives a body back.
const PLANTING: &str = r#"[sandbox]
workspace = { path = ".", mode = "copy" }
env = { SSLKEYLOGFILE = "/workspace/.stage-keys" }

[[allow]]
host = "api.torno.test"
methods = ["POST"]
paths = ["/public/back"]
"#;

/// Where decoys go: both outputs, home, /tmp, the workspace, a request's body and its answer.
const PLANT: &str = r#"set -e
base64 -d .stage-decoys > decoys-of-workspace
cp decoys-of-workspace ~/decoys-of-home
cp decoys-of-workspace /tmp/decoys-of-tmp
cat decoys-of-workspace
cat decoys-of-workspace >&2
curl -sS -f -o /dev/null --data-binary @decoys-of-workspace https://api.torno.test/public/back"#;

/// The surfaces that the witness reads.
const NETWORK: [&str; 2] = [
    "from sandboxes to their gates",
    "from gates to their sandboxes",
];

/// Plants, collects and searches.
#[track_caller]
pub(crate) fn everything(mut stage: Stage, level: &str) {
    let decoy = format!("decoy-{}/?>~", random().unwrap());
    plant(&stage, level, &decoy);
    let decided = decided(&stage);
    let seen = stage.witness.take().map(|witness| witness.end().unwrap());
    let mut surfaces = collected(&stage);
    if let Some(seen) = seen {
        complete(&stage, &seen, decided);
        let [to_gate, from_gate] = NETWORK;
        surfaces.push((to_gate, seen.to_gate));
        surfaces.push((from_gate, seen.from_gate));
    } else {
        println!("not searched: between sandboxes and gates: only root may read a network");
    }
    let decoy = Canary::new("decoy", &decoy);
    let mut sweep = Sweep::default();
    for (name, bytes) in surfaces {
        let missing = missing(name, &decoy, &bytes);
        let in_part = stage.seen_in_part.get() && NETWORK.contains(&name);
        assert!(
            in_part || missing.is_empty(),
            "decoys not found in {name}: {missing:?}"
        );
        sweep.add(name, [b"surface:\n", bytes.as_slice()].concat());
    }
    let canaries = [
        Canary::new("the API's token", &stage.world.api_token),
        Canary::new("the git token", &stage.world.git_token),
    ];
    let swept = sweep.run(&canaries).unwrap();
    assert!(swept.hits.is_empty(), "{:#?}", swept.hits);
    stage.torno(&["audit", "verify"]).good();
}

fn plant(stage: &Stage, level: &str, decoy: &str) {
    let written = Encoding::ALL.map(|encoding| encoding.write(decoy.as_bytes()));
    let text = base64::engine::general_purpose::STANDARD.encode(written.join(&b'\n'));
    let daemon = &stage.daemon;
    daemon.write_workspace(".stage-decoys", &text).unwrap();
    daemon.write_workspace("torno.toml", PLANTING).unwrap();
    stage.torno(&["trust", "--yes"]).good();
    // What enters is searched for the vault's values; a story may have left it sealed.
    let key = daemon.key_file();
    stage.torno(&["vault", "unseal", "--key-file", key.to_str().unwrap()]);
    let mut command = vec!["/bin/sh", "-c", PLANT, "plant"];
    // Into the record they go as arguments, all but the one that is no text.
    command.extend(
        written
            .iter()
            .filter_map(|bytes| std::str::from_utf8(bytes).ok()),
    );
    stage.run(level, &command).good();
}

/// Each surface but those of the network.
fn collected(stage: &Stage) -> Vec<(&'static str, Vec<u8>)> {
    let (daemon, world) = (&stage.daemon, &stage.world);
    let tree = |path: &std::path::Path| torno_stage::canary::tree(path).unwrap();
    let files = stage.files.borrow().clone();
    let mut surfaces = vec![
        ("what was heard", stage.heard.borrow().clone()),
        ("files of sandboxes", files),
        ("workspace copies", tree(&daemon.sandboxes())),
        ("tornod's log", daemon.log_text().into_bytes()),
        ("the record", tree(&daemon.record())),
        ("the stores", tree(&daemon.state())),
        ("the workspace", tree(&daemon.workspace())),
        ("the API, outside of the slot", api(stage)),
        ("the git server, outside of the slot", git(stage)),
    ];
    for (name, bytes) in world.journals() {
        if [EVIL, OTHER].contains(&name) {
            surfaces.push((name, bytes));
        }
    }
    surfaces
}

/// Encodings in which the decoy should have been there and was not found.
fn missing(surface: &str, decoy: &Canary, bytes: &[u8]) -> BTreeSet<Encoding> {
    let mut planted: BTreeSet<Encoding> = match surface {
        "what was heard"
        | "files of sandboxes"
        | "workspace copies"
        | "the stores"
        | "the API, outside of the slot"
        | "the record"
        | "from sandboxes to their gates"
        | "from gates to their sandboxes" => Encoding::ALL.into(),
        _ => BTreeSet::new(),
    };
    if surface == "the record" {
        // Its text escapes backslashes once more, and has no bytes that are no text.
        planted.remove(&Encoding::Gzip);
        planted.remove(&Encoding::JsonEscape);
    }
    let found = decoy.writings(bytes);
    planted.difference(&found).copied().collect()
}

/// What the API received, without the credential in its one place of each request that has it.
fn api(stage: &Stage) -> Vec<u8> {
    let value = format!("Bearer {}", stage.world.api_token);
    outside_of_the_slot(&stage.world.api.journal, &value)
}

/// The same for the git server, and what it sent: it gives no credential back.
fn git(stage: &Stage) -> Vec<u8> {
    let pair = format!("agent:{}", stage.world.git_token);
    let pair = base64::engine::general_purpose::STANDARD.encode(pair);
    let journal = &stage.world.git.journal;
    let mut bytes = outside_of_the_slot(journal, &format!("Basic {pair}"));
    for connection in journal.connections() {
        bytes.extend(connection.sent);
    }
    bytes
}

fn outside_of_the_slot(journal: &Journal, value: &str) -> Vec<u8> {
    let line = format!("{value}\r\n");
    let mut outside = Vec::new();
    for Connection {
        received, requests, ..
    } in journal.connections()
    {
        let has = |field: &&(String, Vec<u8>)| {
            field.0.eq_ignore_ascii_case("authorization") && field.1 == value.as_bytes()
        };
        let slots = requests
            .iter()
            .filter(|request| request.headers.iter().filter(has).count() == 1);
        let mut rest = received.as_slice();
        for _ in slots {
            if let Some(at) = memchr::memmem::find(rest, line.as_bytes()) {
                let (before, after) = rest.split_at(at);
                outside.extend_from_slice(before);
                rest = &after[line.len()..];
            }
        }
        outside.extend_from_slice(rest);
        outside.push(b'\n');
    }
    outside
}

/// Requests that the record says were judged.
fn decided(stage: &Stage) -> usize {
    let kind = |record: &serde_json::Value| {
        let kind = record.pointer("/event/kind").cloned();
        kind == Some("request_decided".into())
    };
    let records = stage.daemon.records().unwrap();
    records.iter().filter(|record| kind(record)).count()
}

/// The witness saw at least the requests that the notary judged, and could read them.
#[track_caller]
fn complete(stage: &Stage, seen: &Seen, decided: usize) {
    if stage.seen_in_part.get() {
        println!(
            "not searched: {} streams: {:?}",
            seen.unopened.len(),
            seen.unopened
        );
        return;
    }
    assert!(seen.unopened.is_empty(), "{:#?}", seen.unopened);
    let heads = memchr::memmem::find_iter(&seen.to_gate, b" HTTP/1.").count();
    assert!(
        heads >= decided,
        "{decided} requests were judged, {heads} were seen in {} frames",
        seen.frames
    );
}
