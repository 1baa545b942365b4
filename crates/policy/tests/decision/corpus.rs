// SPDX-License-Identifier: Apache-2.0
//! The corpus: `corpus/*.toml`, each a policy, its bindings and placeholders, and cases with the
//! decision that is expected. People read these files to learn what the layers do.

use serde::Deserialize;
use std::collections::BTreeMap;
use torno_policy::Decision;
use torno_policy::binding::{Answers, Binding, Denied, Mode, PathPattern, Sigv4, Slot};
use torno_policy::decide::{IssuedPlaceholder, Layers, decide};
use torno_policy::document;
use torno_policy::facts::{
    Act, Content, Entry, GitFacts, GitOperation, Location, Presented, RefChange, RefUpdate,
    RequestFacts, ToolFacts,
};
use torno_policy::names::{Authority, RuleName};
use torno_policy::names::{
    BindingId, CredentialName, Endpoint, Generation, Method, RequestPath, Scheme, SessionId,
    TenantName, ToolName,
};
use torno_policy::organisation::{Organisation, SHIPPED};
use torno_policy::placeholder::PlaceholderDigest;
use torno_policy::postgres::Access;
use torno_policy::standing::{Phase, Standing, State};
use torno_policy::tripwire::{IssuedTripwire, Wire};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sheet {
    /// The grant.
    policy: String,
    /// Cedar text; the shipped policy where it is left out, and before it where it begins with `+`.
    organisation: Option<String>,
    #[serde(default)]
    binding: Vec<BindingRow>,
    /// Name → credential, of this session's placeholders.
    #[serde(default)]
    placeholders: BTreeMap<String, String>,
    /// Names of tripwires, which stand in `.netrc`.
    #[serde(default)]
    tripwires: Vec<String>,
    case: Vec<Case>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BindingRow {
    id: String,
    credential: String,
    /// `https://host:port`
    to: String,
    methods: Vec<Method>,
    paths: Vec<PathPattern>,
    /// `POST /keys/**`
    #[serde(default)]
    denied: Vec<String>,
    #[serde(default = "authorization")]
    header: String,
    /// In place of `header`: a parameter of the query, or a template of the path.
    query: Option<String>,
    path: Option<PathPattern>,
    /// A signature.
    sigv4: Option<Sigv4>,
    mode: Mode,
    expires_at: Option<u64>,
    #[serde(default)]
    plaintext: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// What it shows.
    it: String,
    /// `GET https://host/path`
    request: Option<String>,
    tool: Option<String>,
    #[serde(default)]
    arguments: serde_json::Value,
    #[serde(default)]
    websocket: bool,
    /// `header:authorization placeholder-name`
    #[serde(default)]
    presents: Vec<String>,
    #[serde(default)]
    own: Vec<String>,
    /// `fetch /acme/app`, or `push /acme/app update refs/heads/x`
    git: Option<String>,
    /// What it says, as in an act: `{ graphql = ["query"] }`.
    says: Option<Content>,
    #[serde(default = "running")]
    state: State,
    #[serde(default = "locked")]
    phase: Phase,
    #[serde(default)]
    fenced: bool,
    #[serde(default)]
    unknown_session: bool,
    /// `allow`, `ask` or a reason.
    expect: String,
    /// The binding that is put in.
    injects: Option<String>,
    /// How far a connection to a database is opened.
    opens: Option<Access>,
    rule: Option<String>,
    /// Whether bodies may quote tripwires.
    transcripts: Option<bool>,
}

fn authorization() -> String {
    "authorization".to_owned()
}

fn running() -> State {
    State::Running
}

fn locked() -> Phase {
    Phase::Locked
}

fn target(text: &str) -> (Endpoint, RequestPath) {
    let (scheme, rest) = text.split_once("://").unwrap();
    let scheme = match scheme {
        "http" => Scheme::Http,
        "postgres" => Scheme::Postgres,
        _ => Scheme::Https,
    };
    let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    let (host, port) = Authority::parse(authority, scheme).unwrap().into_parts();
    (
        Endpoint { scheme, host, port },
        RequestPath::parse_named(path).unwrap(),
    )
}

fn digest(name: &str) -> PlaceholderDigest {
    PlaceholderDigest(document::digest(name).0)
}

fn presented(text: &str) -> Presented {
    let (place, name) = text.split_once(' ').unwrap();
    let location = match place.split_once(':') {
        Some(("header", header)) => Location::Header(header.to_owned()),
        _ => serde_json::from_value(place.into()).unwrap(),
    };
    Presented {
        location,
        digest: digest(name),
    }
}

fn git(text: &str) -> GitFacts {
    let words: Vec<_> = text.split(' ').collect();
    let update = |pair: &[&str]| RefUpdate {
        change: match pair[0] {
            "create" => RefChange::Create,
            "update" => RefChange::Update,
            "delete" => RefChange::Delete,
            other => panic!("{other}"),
        },
        name: pair[1].to_owned(),
    };
    let operation = match words[0] {
        "discover-fetch" => GitOperation::DiscoverFetch,
        "fetch" => GitOperation::Fetch,
        "discover-push" => GitOperation::DiscoverPush,
        "lfs-batch" => GitOperation::LfsBatch,
        "lfs-download" => GitOperation::LfsDownload,
        "lfs-upload" => GitOperation::LfsUpload,
        "lfs-verify-locks" => GitOperation::LfsVerifyLocks,
        "push" => GitOperation::Push(words[2..].chunks(2).map(update).collect()),
        other => panic!("{other}"),
    };
    GitFacts {
        repository: words[1].to_owned(),
        operation,
    }
}

fn act(case: &Case) -> Act {
    if let Some(tool) = &case.tool {
        let arguments = case.arguments.clone();
        return Act::Tool(ToolFacts {
            tool: ToolName::parse(tool).unwrap(),
            arguments,
        });
    }
    let (method, url) = case.request.as_ref().unwrap().split_once(' ').unwrap();
    let (endpoint, path) = target(url);
    Act::Request(RequestFacts {
        entry: Entry::Connect,
        endpoint,
        method: Method::parse(method).unwrap(),
        path,
        websocket: case.websocket,
        presented: case.presents.iter().map(|text| presented(text)).collect(),
        own_credentials: case.own.clone(),
        git: case.git.as_deref().map(git),
        content: case.says.clone(),
        body: None,
    })
}

fn denied(text: &str) -> Denied {
    let (method, path) = text.split_once(' ').unwrap();
    Denied {
        methods: vec![Method::parse(method).unwrap()],
        path: PathPattern::parse(path).unwrap(),
    }
}

fn slot(row: &BindingRow) -> Slot {
    if row.to.starts_with("postgres://") {
        let writes = row.methods == Access::Write.methods();
        let access = if writes { Access::Write } else { Access::Read };
        return Slot::Postgres { access, role: None };
    }
    if let Some(scope) = &row.sigv4 {
        return Slot::Sigv4(scope.clone());
    }
    match (&row.query, &row.path) {
        (Some(parameter), _) => Slot::Query {
            parameter: parameter.clone(),
        },
        (None, Some(template)) => Slot::Path {
            template: template.clone(),
        },
        (None, None) => Slot::Header {
            name: row.header.clone(),
            scheme: None,
        },
    }
}

fn binding(row: &BindingRow) -> Binding {
    let (endpoint, _) = target(&row.to);
    Binding {
        id: BindingId::parse(&row.id).unwrap(),
        tenant: TenantName::parse("local").unwrap(),
        credential: CredentialName::parse(&row.credential).unwrap(),
        endpoint,
        plaintext: row.plaintext,
        methods: row.methods.clone(),
        paths: row.paths.clone(),
        denied: row.denied.iter().map(|text| denied(text)).collect(),
        answers: Answers::default(),
        slot: slot(row),
        mode: row.mode,
        expires_at: row.expires_at,
        revision: 1,
    }
}

fn check(file: &str, sheet: &Sheet) {
    let grant = document::parse(&sheet.policy, &document::Presets::shipped())
        .unwrap_or_else(|error| panic!("{file}\n{}", document::render(&error, &sheet.policy)));
    let organisation = match sheet.organisation.as_deref() {
        None => Organisation::shipped(),
        Some(text) => match text.strip_prefix('+') {
            Some(more) => Organisation::parse(&format!("{SHIPPED}{more}")).unwrap(),
            None => Organisation::parse(text).unwrap(),
        },
    };
    let bindings: Vec<_> = sheet.binding.iter().map(binding).collect();
    for binding in &bindings {
        binding.check().unwrap();
    }
    let issued = |(name, credential): (&String, &String)| IssuedPlaceholder {
        digest: digest(name),
        credential: CredentialName::parse(credential).unwrap(),
    };
    let placeholders: Vec<_> = sheet.placeholders.iter().map(issued).collect();
    let wire = |name: &String| IssuedTripwire {
        digest: digest(name),
        wire: Wire::Netrc,
    };
    let tripwires: Vec<_> = sheet.tripwires.iter().map(wire).collect();
    for case in &sheet.case {
        let standing = Standing {
            session: SessionId::parse("s1").unwrap(),
            generation: Generation(2),
            state: case.state,
            phase: case.phase,
        };
        let layers = Layers {
            standing: (!case.unknown_session).then_some(&standing),
            asker: Generation(if case.fenced { 1 } else { 2 }),
            organisation: &organisation,
            grant: &grant,
            bindings: &bindings,
            placeholders: &placeholders,
            tripwires: &tripwires,
            now: 1000,
        };
        let decision = decide(&layers, &act(case));
        let (word, rule, injects) = match &decision {
            Decision::Allow(permit) => ("allow", permit.rule(), permit.injection()),
            Decision::Ask(asked) => ("ask", &asked.rule, None),
            Decision::Deny(refusal) => (refusal.reason.code(), &refusal.rule, None),
        };
        let case_name = format!("{file}: {}\n{decision:#?}", case.it);
        assert_eq!(word, case.expect, "{case_name}");
        if let Some(expected) = case.opens {
            let opened = injects.map(|injection| &injection.slot);
            let is_so =
                matches!(opened, Some(Slot::Postgres { access, .. }) if *access == expected);
            assert!(is_so, "{case_name}");
        }
        let injects = injects.map(|injection| injection.binding.to_string());
        assert_eq!(injects, case.injects, "{case_name}");
        if let (Some(expected), Decision::Allow(permit)) = (case.transcripts, &decision) {
            assert_eq!(permit.transcripts(), expected, "{case_name}");
        }
        if let Some(expected) = &case.rule {
            assert_eq!(rule, &RuleName::new(expected.as_str()), "{case_name}");
        }
        if let Decision::Deny(refusal) = &decision {
            assert!(
                !refusal.hint.is_empty() && !refusal.hint.contains('\n'),
                "{case_name}"
            );
        }
    }
}

// ATTACK: 005, 014, 015, 077, 078, 080, 083, 085, 086, 097, 098, 101
// ATTACK: 161
#[test]
fn every_case_of_the_corpus_is_decided_as_it_says() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");
    let mut cases = 0;
    for file in std::fs::read_dir(directory).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let sheet: Sheet = toml::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        check(&name, &sheet);
        cases += sheet.case.len();
    }
    assert!(cases >= 80, "{cases} cases");
}
