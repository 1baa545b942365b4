// SPDX-License-Identifier: Apache-2.0
//! The requests of the story, each by its number: as it is sent, and what is known of it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use torno_policy::facts::{
    Entry, GitFacts, GitOperation, Location, Presented, RefChange, RefUpdate, RequestFacts,
};
use torno_policy::names::{Authority, Endpoint, Method, RequestPath, Scheme};
use torno_policy::placeholder::Placeholder;

const HOSTS: [&str; 7] = [
    "api.torno.test",
    "api.torno.test",
    "other.torno.test",
    "evil.torno.test",
    "api.torno.test:8443",
    "nowhere.torno.test",
    "git.torno.test",
];
const METHODS: [&str; 6] = ["GET", "GET", "POST", "POST", "PUT", "DELETE"];
const PATHS: [&str; 7] = [
    "/public/a",
    "/public/a/b?q=/v1/me",
    "/public/ask",
    "/v1/me",
    "/v1/items",
    "/v1/keys",
    "/",
];
const REPOSITORIES: [&str; 3] = ["/acme/app", "/acme/app", "/acme/secret-plans"];
const REFERENCES: [&str; 4] = [
    "refs/heads/agent/x",
    "refs/heads/agent/y",
    "refs/heads/main",
    "refs/tags/v1",
];
/// A session's placeholders: of the API, of git, and a dead one of an earlier session.
pub(super) struct Placeholders {
    pub(super) api: Placeholder,
    pub(super) git: Placeholder,
    pub(super) dead: Placeholder,
}

/// One request: as it is sent, and what is known of it.
pub(super) struct Sent {
    pub(super) line: Value,
    pub(super) facts: RequestFacts,
}

/// Throws that belong to one request's number.
struct Dice(Vec<u8>);

impl Dice {
    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        let thrown = self.0.pop().unwrap();
        items[usize::from(thrown) % items.len()]
    }
}

pub(super) fn line(number: u32) -> Value {
    // The text that is sent does not depend on the placeholders.
    let any = Placeholder::new("x-", [7; 16]);
    let known = Placeholders {
        api: any.clone(),
        git: any.clone(),
        dead: any,
    };
    sent(number, &known).line
}

pub(super) fn sent(number: u32, known: &Placeholders) -> Sent {
    let mut dice = Dice(Sha256::digest(number.to_be_bytes()).to_vec());
    if number.is_multiple_of(3) {
        git(&mut dice, known)
    } else {
        plain(&mut dice, known)
    }
}

fn facts(host: &str, method: &str, target: &str) -> RequestFacts {
    let authority = Authority::parse(host, Scheme::Https).unwrap();
    let (host, port) = authority.into_parts();
    RequestFacts {
        entry: Entry::Captured,
        endpoint: Endpoint {
            scheme: Scheme::Https,
            host,
            port,
        },
        method: Method::parse(method).unwrap(),
        path: RequestPath::parse(target).unwrap(),
        websocket: false,
        presented: Vec::new(),
        own_credentials: Vec::new(),
        git: None,
        content: None,
        body: None,
    }
}

fn plain(dice: &mut Dice, known: &Placeholders) -> Sent {
    let (host, method, path) = (dice.pick(&HOSTS), dice.pick(&METHODS), dice.pick(&PATHS));
    let mut headers: Vec<(&str, &str)> = Vec::new();
    let mut facts = facts(host, method, path);
    let mut present = |header: &'static str, value: &'static str, which: &Placeholder| {
        headers.push((header, value));
        facts.presented.push(Presented {
            location: Location::Header(header.to_owned()),
            digest: which.digest(),
        });
    };
    match dice.pick(&[0, 0, 1, 1, 1, 1, 2, 3, 4, 5, 6]) {
        0 => {}
        1 => present("authorization", "Bearer {api}", &known.api),
        2 => present("authorization", "Bearer {git}", &known.git),
        3 => present("authorization", "Bearer {dead}", &known.dead),
        4 => {
            headers.push(("authorization", "Bearer my-own"));
            facts.own_credentials.push("authorization".to_owned());
        }
        5 => {
            present("authorization", "Bearer {api}", &known.api);
            present("authorization", "Bearer {api}", &known.api);
        }
        _ => {
            present("authorization", "Bearer {api}", &known.api);
            present("x-api-key", "{git}", &known.git);
        }
    }
    if method == "GET" && dice.pick(&[true, false, false, false]) {
        headers.extend(HANDSHAKE);
        facts.websocket = true;
    }
    Sent {
        line: json!({
            "host": host, "method": method, "target": path, "headers": headers, "body": "" }),
        facts,
    }
}

/// RFC 6455 §4.1.
const HANDSHAKE: [(&str, &str); 4] = [
    ("connection", "Upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

fn git(dice: &mut Dice, known: &Placeholders) -> Sent {
    let repository = dice.pick(&REPOSITORIES);
    let suffix = dice.pick(&["", ".git"]);
    let operation = match dice.pick(&[0, 1, 2, 3, 3, 3]) {
        0 => GitOperation::DiscoverFetch,
        1 => GitOperation::Fetch,
        2 => GitOperation::DiscoverPush,
        _ => GitOperation::Push(updates(dice)),
    };
    let (method, rest) = match &operation {
        GitOperation::DiscoverFetch => ("GET", "/info/refs?service=git-upload-pack"),
        GitOperation::Fetch => ("POST", "/git-upload-pack"),
        GitOperation::DiscoverPush => ("GET", "/info/refs?service=git-receive-pack"),
        GitOperation::Push(_) => ("POST", "/git-receive-pack"),
        // `large_files_go_where_the_refs_may` is their story.
        large => panic!("{large:?} was not picked"),
    };
    let target = format!("{repository}{suffix}{rest}");
    let mut facts = facts("git.torno.test", method, &target);
    let mut headers = Vec::new();
    if dice.pick(&[true, true, true, false]) {
        headers.push(("authorization", "Basic agent:{git}"));
        facts.presented.push(Presented {
            location: Location::Header("authorization".to_owned()),
            digest: known.git.digest(),
        });
    }
    let body = match &operation {
        GitOperation::Push(updates) => commands(updates),
        GitOperation::Fetch => "0000".to_owned(),
        _ => String::new(),
    };
    if let Some(kind) = match &operation {
        GitOperation::Push(_) => Some("application/x-git-receive-pack-request"),
        GitOperation::Fetch => Some("application/x-git-upload-pack-request"),
        _ => None,
    } {
        headers.push(("content-type", kind));
    }
    facts.git = Some(GitFacts {
        repository: repository.to_owned(),
        operation,
    });
    Sent {
        line: json!({
            "host": "git.torno.test", "method": method, "target": target, "headers": headers,
            "body": STANDARD.encode(body) }),
        facts,
    }
}

fn updates(dice: &mut Dice) -> Vec<RefUpdate> {
    let count = dice.pick(&[1, 1, 2]);
    let mut updates: Vec<RefUpdate> = Vec::new();
    for _ in 0..count {
        let name = dice.pick(&REFERENCES).to_owned();
        let change = dice.pick(&[RefChange::Create, RefChange::Update, RefChange::Delete]);
        // A push that names a reference twice is malformed, and no layer ever sees it.
        if updates.iter().all(|update| update.name != name) {
            updates.push(RefUpdate { name, change });
        }
    }
    updates
}

/// The commands of a push as pkt-lines, and a flush.
fn commands(updates: &[RefUpdate]) -> String {
    let (none, old, new) = ("0".repeat(40), "1".repeat(40), "2".repeat(40));
    let mut body = String::new();
    for (number, update) in updates.iter().enumerate() {
        let (from, to) = match update.change {
            RefChange::Create => (&none, &new),
            RefChange::Update => (&old, &new),
            RefChange::Delete => (&old, &none),
        };
        let wanted = if number == 0 { "\0report-status" } else { "" };
        let command = format!("{from} {to} {}{wanted}\n", update.name);
        body.push_str(&format!("{:04x}{command}", command.len() + 4));
    }
    body + "0000"
}
