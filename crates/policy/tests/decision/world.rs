// SPDX-License-Identifier: Apache-2.0
//! Small random worlds: few hosts, methods and names, so that rules, bindings and requests meet
//! often and every reason is reached.

use torno_policy::binding::{Algorithm, Hash, Hmac, Jwt, KeyForm, Recipe, SignedField};
use torno_policy::binding::{
    Answers, Binding, Cookies, Denied, Held, Mode, PathPattern, Pointer, Sigv4, Slot,
};
use torno_policy::decide::{IssuedPlaceholder, Layers};
use torno_policy::document;
use torno_policy::facts::{
    Act, AwsAction, AwsCall, AwsPattern, AwsProtocol, BodySlot, Content, Entry, GitFacts,
    GitOperation, GraphqlOperation, Location, Presented, RefChange, RefUpdate, RequestFacts,
    RpcMethod, RpcPattern, ToolFacts,
};
use torno_policy::grant::{
    AllowRule, AwsGrant, Dialect, GitGrant, Grant, HostPattern, RegistryGrant, SecretGrant,
    ToolPattern, ToolRule, Verdict,
};
use torno_policy::names::{
    BindingId, CredentialName, Endpoint, Generation, Host, Method, Port, RequestPath, RuleName,
    Scheme, SessionId, TenantName, ToolName,
};
use torno_policy::organisation::Organisation;
use torno_policy::placeholder::PlaceholderDigest;
use torno_policy::registry::Protocol;
use torno_policy::standing::{Phase, Standing, State};
use torno_policy::tripwire::{IssuedTripwire, Wire};

/// A xorshift generator: the same worlds on every machine.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 20) % sides as u64).unwrap()
    }

    /// True once in `sides` throws.
    pub(crate) fn rarely(&mut self, sides: usize) -> bool {
        self.below(sides) == 0
    }

    pub(crate) fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }

    fn some<T: Clone>(&mut self, items: &[T]) -> Vec<T> {
        let mut chosen: Vec<T> = items
            .iter()
            .filter(|_| self.below(2) == 0)
            .cloned()
            .collect();
        if chosen.is_empty() {
            chosen.push(self.pick(items));
        }
        chosen
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}

/// Everything that a decision looks at.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) standing: Option<Standing>,
    pub(crate) asker: Generation,
    pub(crate) grant: Grant,
    pub(crate) bindings: Vec<Binding>,
    pub(crate) placeholders: Vec<IssuedPlaceholder>,
    pub(crate) tripwires: Vec<IssuedTripwire>,
    pub(crate) now: u64,
}

impl World {
    pub(crate) fn layers<'a>(&'a self, organisation: &'a Organisation) -> Layers<'a> {
        Layers {
            standing: self.standing.as_ref(),
            asker: self.asker,
            organisation,
            grant: &self.grant,
            bindings: &self.bindings,
            placeholders: &self.placeholders,
            tripwires: &self.tripwires,
            now: self.now,
        }
    }
}

/// The shipped policy, a rule that asks, and one that forbids.
pub(crate) fn organisation() -> Organisation {
    let more = r#"
        @id("ask-delete") @ask
        forbid (principal, action == Action::"request", resource)
        when { context.method == "DELETE" };
        @id("no-port-8443-by-post")
        forbid (principal, action == Action::"request", resource)
        when { context.port == 8443 && context.method == "POST" };
        @id("ask-deploy") @ask
        forbid (principal, action == Action::"tool", resource == Tool::"mcp:ops/deploy");
    "#;
    let text = format!("{}{more}", torno_policy::organisation::SHIPPED);
    Organisation::parse(&text).unwrap()
}

const HOSTS: [&str; 3] = ["allow.test", "api.allow.test", "other.test"];
const CREDENTIALS: [&str; 3] = ["c1", "c2", "c3"];
const METHODS: [&str; 5] = ["GET", "POST", "DELETE", "HEAD", "PUT"];
const AWS_ACTIONS: [&str; 3] = ["GetObject", "PutObject", "CopyObject"];
const AWS_PATTERNS: [&str; 5] = ["read", "write", "GetObject", "PutObject", "CopyObject"];
const RPC_METHODS: [&str; 4] = ["tools/list", "tools/call", "tools", "ping"];
const RPC_PATTERNS: [&str; 4] = ["tools/*", "tools/list", "*", "ping"];
const GRAPHQL: [GraphqlOperation; 3] = [
    GraphqlOperation::Query,
    GraphqlOperation::Mutation,
    GraphqlOperation::Subscription,
];
const PATHS: [&str; 17] = [
    "/",
    "/a",
    "/a/b",
    "/a/b/c",
    "/b?x=/a",
    "/a%2Fb",
    "/a%2Fb/c",
    "/a?key={credential}",
    "/a?key=own&x=1",
    "/a?key={credential}&KEY=own",
    "/a?other={credential}",
    "/a?key=",
    "/a?X-Amz-Signature=own",
    "/bot{credential}/a",
    "/botown/a",
    "/bot/a",
    "/bot{credential}/{credential}",
];
const PATTERNS: [&str; 11] = [
    "/**",
    "/a/**",
    "/a",
    "/a/*",
    "/*",
    "/*/b/**",
    "/b",
    "/*%2Fb",
    "/a%2F*/**",
    "/bot{credential}/*",
    "/botown/**",
];
const REPOSITORIES: [&str; 2] = ["/acme/app", "/acme/lib"];
const REFS: [&str; 4] = [
    "refs/heads/agent/x",
    "refs/heads/agent/x/y",
    "refs/heads/main",
    "refs/tags/v1",
];
const REF_PATTERNS: [&str; 4] = [
    "refs/heads/agent/*",
    "refs/heads/agent/**",
    "refs/heads/main",
    "refs/*/v1",
];
const HEADERS: [&str; 3] = ["authorization", "x-api-key", "cookie"];
const TOOLS: [&str; 6] = [
    "bash",
    "read",
    "apply",
    "mcp:db/query",
    "mcp:ops/deploy",
    "unknown",
];

fn methods(names: &[&str]) -> Vec<Method> {
    names
        .iter()
        .map(|name| Method::parse(name).unwrap())
        .collect()
}

fn patterns(texts: &[&str]) -> Vec<PathPattern> {
    texts
        .iter()
        .map(|text| PathPattern::parse(text).unwrap())
        .collect()
}

fn credential(dice: &mut Dice) -> CredentialName {
    CredentialName::parse(dice.pick(&CREDENTIALS)).unwrap()
}

fn phase(dice: &mut Dice) -> Phase {
    if dice.rarely(5) {
        Phase::Install
    } else {
        Phase::Locked
    }
}

fn endpoint(dice: &mut Dice) -> Endpoint {
    let scheme = if dice.rarely(10) {
        Scheme::Http
    } else {
        Scheme::Https
    };
    let odd = dice.rarely(12);
    let port = if odd {
        Port::new(8443).unwrap()
    } else {
        scheme.default_port()
    };
    let host = if dice.rarely(40) {
        "169.254.169.254"
    } else {
        dice.pick(&HOSTS)
    };
    Endpoint {
        scheme,
        host: Host::parse(host).unwrap(),
        port,
    }
}

pub(crate) fn world(dice: &mut Dice) -> World {
    let session = SessionId::parse("s1").unwrap();
    let state = match dice.below(60) {
        0 => State::Killed,
        1 => State::Ended,
        2 => State::Frozen,
        3 => State::Paused,
        _ => State::Running,
    };
    let standing = Standing {
        session,
        generation: Generation(7),
        state,
        phase: phase(dice),
    };
    let asker = Generation(if dice.rarely(50) { 6 } else { 7 });
    let mut grant = document::parse("", &document::Presets::shipped()).unwrap();
    grant.allow = (0..dice.below(4)).map(|at| allow_rule(dice, at)).collect();
    grant.secrets = (0..dice.pick(&[0, 1, 1, 2]))
        .map(|_| secret(dice))
        .collect();
    grant.git = (0..dice.below(3)).map(|at| git_grant(dice, at)).collect();
    grant.tools = (0..dice.below(4)).map(|_| tool_rule(dice)).collect();
    let named: Vec<_> = grant
        .secrets
        .iter()
        .map(|secret| secret.credential.clone())
        .collect();
    let bindings = (0..dice.below(5))
        .map(|at| binding(dice, at, &named))
        .collect();
    World {
        standing: (!dice.rarely(50)).then_some(standing),
        asker,
        grant,
        bindings,
        placeholders: (0..dice.below(5)).map(|_| issued(dice)).collect(),
        tripwires: if dice.rarely(2) {
            Vec::new()
        } else {
            vec![tripwire()]
        },
        now: 1000,
    }
}

fn allow_rule(dice: &mut Dice, at: usize) -> AllowRule {
    let Endpoint { scheme, host, port } = endpoint(dice);
    let suffix = HostPattern::OneLabel(Host::parse("allow.test").unwrap());
    let dialect = if dice.rarely(3) {
        dialect(dice)
    } else {
        Dialect::Plain
    };
    let paths = match &dialect {
        Dialect::Registry(registry) => patterns(&[format!("{}/**", registry.under).as_str()]),
        _ => patterns(&dice.some(&PATTERNS)),
    };
    AllowRule {
        name: RuleName::new(format!("grant.allow[{at}]")),
        host: if dice.rarely(4) {
            suffix
        } else {
            HostPattern::Exact(host)
        },
        scheme,
        port,
        methods: methods(&dice.some(&METHODS)),
        paths,
        own_credentials: dice.rarely(3),
        websocket: at.is_multiple_of(2),
        phase: phase(dice),
        dialect,
        transcripts: false,
    }
}

fn dialect(dice: &mut Dice) -> Dialect {
    match dice.below(4) {
        3 => Dialect::Aws(AwsGrant {
            service: "s3".to_owned(),
            protocol: AwsProtocol::S3Path,
            actions: dice
                .some(&AWS_PATTERNS)
                .iter()
                .filter_map(|text| AwsPattern::parse(text))
                .collect(),
        }),
        0 => Dialect::Registry(RegistryGrant {
            protocol: Protocol::Npm,
            under: dice.pick(&["", "", "/a"]).to_owned(),
            publish: dice.rarely(2),
        }),
        1 => Dialect::Graphql(dice.some(&GRAPHQL)),
        _ => {
            let granted = dice.some(&RPC_PATTERNS);
            Dialect::Jsonrpc(
                granted
                    .iter()
                    .filter_map(|text| RpcPattern::parse(text))
                    .collect(),
            )
        }
    }
}

fn content(dice: &mut Dice) -> Option<Content> {
    match dice.below(5) {
        0 => None,
        4 => {
            let said = dice.some(&AWS_ACTIONS);
            let said = said.iter().filter_map(|text| AwsAction::parse(text));
            Some(Content::Aws(Box::new(AwsCall {
                protocol: dice.pick(&[AwsProtocol::S3Path, AwsProtocol::S3Path, AwsProtocol::Json]),
                actions: if dice.rarely(6) {
                    Vec::new()
                } else {
                    said.collect()
                },
            })))
        }
        1 => Some(Content::Graphql(dice.some(&GRAPHQL))),
        2 if dice.rarely(6) => Some(Content::Jsonrpc(Vec::new())),
        _ => {
            let said = dice.some(&RPC_METHODS);
            let said = said.iter().filter_map(|text| RpcMethod::parse(text));
            Some(Content::Jsonrpc(said.collect()))
        }
    }
}

fn secret(dice: &mut Dice) -> SecretGrant {
    let narrow = dice.rarely(3);
    SecretGrant {
        credential: credential(dice),
        env: None,
        methods: narrow.then(|| methods(&dice.some(&METHODS))),
        paths: dice.rarely(4).then(|| patterns(&dice.some(&PATTERNS))),
        phase: phase(dice),
    }
}

fn git_grant(dice: &mut Dice, at: usize) -> GitGrant {
    GitGrant {
        name: RuleName::new(format!("git[{at}]")),
        endpoint: endpoint(dice),
        repository: dice.pick(&REPOSITORIES).to_owned(),
        secret: dice.rarely(2).then(|| credential(dice)),
        fetch: dice.below(3) > 0,
        push_refs: if dice.rarely(2) {
            dice.some(&REF_PATTERNS)
        } else {
            Vec::new()
        }
        .into_iter()
        .map(str::to_owned)
        .collect(),
        delete: dice.rarely(2),
    }
}

fn tool_rule(dice: &mut Dice) -> ToolRule {
    let exact = ToolPattern::Exact(ToolName::parse(dice.pick(&TOOLS)).unwrap());
    let server = ToolPattern::Server(dice.pick(&["mcp:db/", "mcp:ops/"]).to_owned());
    let condition = (
        "sql".to_owned(),
        serde_json::json!(dice.pick(&["read", "write"])),
    );
    ToolRule {
        tool: if dice.rarely(3) { server } else { exact },
        verdict: dice.pick(&[Verdict::Deny, Verdict::Ask, Verdict::Allow]),
        when: if dice.rarely(3) {
            vec![condition]
        } else {
            Vec::new()
        },
    }
}

fn binding(dice: &mut Dice, at: usize, named: &[CredentialName]) -> Binding {
    let slot = slot(dice);
    let paths = match &slot {
        Slot::Path { template } => vec![template.clone()],
        _ => patterns(&dice.some(&["/**", "/**", "/a/**", "/*"])),
    };
    let denied = dice.rarely(2).then(|| Denied {
        methods: if dice.rarely(2) {
            Vec::new()
        } else {
            methods(&dice.some(&METHODS))
        },
        path: patterns(&[dice.pick(&["/A", "/**", "/**", "/**", "/bot{credential}/*", "/*"])])
            .remove(0),
    });
    Binding {
        id: BindingId::parse(&format!("b{at}")).unwrap(),
        tenant: TenantName::parse("local").unwrap(),
        credential: if named.is_empty() || dice.rarely(4) {
            credential(dice)
        } else {
            dice.pick(named)
        },
        endpoint: endpoint(dice),
        plaintext: dice.rarely(2),
        methods: methods(&dice.some(&METHODS)),
        paths,
        denied: denied.into_iter().collect(),
        answers: Answers {
            cookies: if at == 1 {
                Cookies::Drop
            } else {
                Cookies::Broker
            },
            ..Answers::default()
        },
        mode: match slot {
            Slot::Sigv4(_) => Mode::Placeholder,
            _ => dice.pick(&[Mode::Placeholder, Mode::PlaceholderOrInject, Mode::Inject]),
        },
        slot,
        expires_at: dice.rarely(3).then(|| dice.pick(&[999, 1000, 1001])),
        revision: 1,
    }
}

/// Signed with or without the body, in one of the two fields that clients send.
fn signed(dice: &mut Dice) -> Slot {
    let recipe = |text: &str| Recipe::parse(text).unwrap();
    let field = SignedField {
        name: dice.pick(&["authorization", "x-api-key"]).to_owned(),
        value: recipe("{hex}"),
    };
    Slot::Hmac(Box::new(Hmac {
        hash: Hash::Sha256,
        key: KeyForm::Text,
        text: recipe(dice.pick(&["{target}", "{body}"])),
        fields: vec![field],
    }))
}

fn slot(dice: &mut Dice) -> Slot {
    match dice.below(16) {
        9 | 10 => Slot::Form {
            field: "secret".to_owned(),
        },
        11 => Slot::Json {
            pointer: Pointer::parse("/secret").unwrap(),
        },
        12 => Slot::WebsocketJson {
            pointer: Pointer::parse("/d/secret").unwrap(),
            binary: false,
        },
        13 => Slot::Sigv4(Sigv4 {
            key_id: "AKIA".to_owned(),
            region: "eu-central-1".to_owned(),
            service: "s3".to_owned(),
        }),
        14 => signed(dice),
        15 => Slot::Jwt(Box::new(Jwt {
            algorithm: Algorithm::ES256,
            issuer: "app".to_owned(),
            subject: None,
            audience: None,
            key_id: None,
            lifetime_seconds: 600,
        })),
        0 | 1 => Slot::Query {
            parameter: "key".to_owned(),
        },
        2 => Slot::Path {
            template: PathPattern::parse("/bot{credential}/*").unwrap(),
        },
        3 | 4 => Slot::Basic {
            user: "u".to_owned(),
        },
        _ => Slot::Header {
            name: dice.pick(&["authorization", "x-api-key"]).to_owned(),
            scheme: None,
        },
    }
}

fn issued(dice: &mut Dice) -> IssuedPlaceholder {
    let number = dice.below(4);
    IssuedPlaceholder {
        digest: placeholder(number),
        // The last two stand for one credential, as after a re-issue.
        credential: CredentialName::parse(CREDENTIALS[number.min(2)]).unwrap(),
    }
}

/// The one that no session was given as a placeholder.
fn tripwire() -> IssuedTripwire {
    IssuedTripwire {
        digest: placeholder(4),
        wire: Wire::Netrc,
    }
}

fn placeholder(number: usize) -> PlaceholderDigest {
    PlaceholderDigest([u8::try_from(number).unwrap(); 32])
}

/// An act that has much to do with the world: mostly at an endpoint that something names.
pub(crate) fn act(dice: &mut Dice, world: &World) -> Act {
    if dice.rarely(8) {
        let arguments = match dice.below(3) {
            0 => serde_json::json!({ "sql": "write" }),
            1 => serde_json::json!({ "sql": "read", "n": 1 }),
            _ => serde_json::json!([]),
        };
        return Act::Tool(ToolFacts {
            tool: ToolName::parse(dice.pick(&TOOLS)).unwrap(),
            arguments,
        });
    }
    let mut places: Vec<Endpoint> = world.bindings.iter().map(|b| b.endpoint.clone()).collect();
    places.extend(world.grant.git.iter().map(|git| git.endpoint.clone()));
    places.push(endpoint(dice));
    let endpoint = if dice.rarely(3) {
        endpoint(dice)
    } else {
        dice.pick(&places)
    };
    let mut facts = RequestFacts {
        entry: dice.pick(&[Entry::Captured, Entry::Connect, Entry::AbsoluteForm]),
        endpoint,
        method: Method::parse(dice.pick(&METHODS)).unwrap(),
        path: RequestPath::parse_named(dice.pick(&PATHS)).unwrap(),
        websocket: false,
        presented: Vec::new(),
        own_credentials: Vec::new(),
        git: None,
        content: content(dice),
        body: None,
    };
    if dice.rarely(3) {
        git_facts(dice, &mut facts);
    }
    for _ in 0..dice.pick(&[0, 0, 1, 1, 2]) {
        let mut one = presented(dice, world);
        if let (Some(first), true) = (facts.presented.first(), dice.rarely(2)) {
            one.location = first.location.clone();
        }
        facts.presented.push(one);
    }
    // As a gate does: where a placeholder is named, one is presented. Rarely a gate that lies.
    let (in_path, in_query) = facts.path.words();
    let named = [(in_path, Location::Path), (in_query, Location::Query)];
    for (count, location) in named {
        if count > 0 && !dice.rarely(16) {
            facts.presented.retain(|one| one.location != location);
            for _ in 0..count {
                let mut one = presented(dice, world);
                one.location = location.clone();
                facts.presented.push(one);
            }
        }
    }
    if dice.rarely(5) {
        facts.own_credentials = dice.some(&HEADERS).into_iter().map(str::to_owned).collect();
    }
    facts.websocket = dice.rarely(12);
    read_body(dice, world, &mut facts);
    Act::Request(facts)
}

/// As a gate does that was told to read the slot of a binding here. Rarely another one's, or one
/// that lies.
fn read_body(dice: &mut Dice, world: &World, facts: &mut RequestFacts) {
    let here = world.bindings.iter().filter(|binding| {
        let is_in_body = matches!(
            binding.slot,
            Slot::Form { .. } | Slot::Json { .. } | Slot::Hmac(_)
        );
        is_in_body && binding.endpoint == facts.endpoint
    });
    let slots: Vec<Slot> = here.map(|binding| binding.slot.clone()).collect();
    if slots.is_empty() || dice.rarely(4) {
        return;
    }
    let held = dice.pick(&[
        Held::Nothing,
        Held::Placeholder,
        Held::Placeholder,
        Held::Own,
        Held::Twice,
        Held::Nowhere,
    ]);
    let count = match held {
        Held::Placeholder => 1,
        Held::Twice => dice.below(3),
        Held::Nothing | Held::Own | Held::Nowhere => 0,
    };
    let count = if dice.rarely(16) {
        dice.below(2)
    } else {
        count
    };
    for _ in 0..count {
        let mut one = presented(dice, world);
        one.location = Location::Slot;
        facts.presented.push(one);
    }
    let slot = dice.pick(&slots);
    facts.body = Some(Box::new(BodySlot { slot, held }));
}

fn presented(dice: &mut Dice, world: &World) -> Presented {
    let location = match dice.below(16) {
        0 => Location::Query,
        1 => Location::Path,
        2 => Location::Trailer,
        3 => Location::Method,
        4 => Location::Body,
        5..9 => Location::Header("x-api-key".to_owned()),
        _ => Location::Header("authorization".to_owned()),
    };
    let known: Vec<_> = world
        .placeholders
        .iter()
        .map(|issued| issued.digest)
        .collect();
    let foreign = known.is_empty() || dice.rarely(10);
    let digest = if foreign {
        placeholder(dice.below(5))
    } else {
        dice.pick(&known)
    };
    Presented { location, digest }
}

fn git_facts(dice: &mut Dice, facts: &mut RequestFacts) {
    let repository = dice.pick(&REPOSITORIES).to_owned();
    let updates = (0..dice.below(3)).map(|_| RefUpdate {
        name: dice.pick(&REFS).to_owned(),
        change: dice.pick(&[RefChange::Create, RefChange::Update, RefChange::Delete]),
    });
    let updates = updates.collect();
    let (operation, method, suffix) = match dice.below(4) {
        0 => (
            GitOperation::DiscoverFetch,
            "GET",
            "/info/refs?service=git-upload-pack",
        ),
        1 => (GitOperation::Fetch, "POST", "/git-upload-pack"),
        2 => (
            GitOperation::DiscoverPush,
            "GET",
            "/info/refs?service=git-receive-pack",
        ),
        _ => (GitOperation::Push(updates), "POST", "/git-receive-pack"),
    };
    let ending = dice.pick(&["", ".git"]);
    facts.path = RequestPath::parse(&format!("{repository}{ending}{suffix}")).unwrap();
    facts.method = Method::parse(method).unwrap();
    match dice.below(20) {
        // The path looks like git, and the gate did not say so.
        0 => return,
        // The facts contradict the request.
        1 => facts.method = Method::parse("DELETE").unwrap(),
        2 => facts.path = RequestPath::parse("/acme/other/git-upload-pack").unwrap(),
        _ => {}
    }
    facts.git = Some(GitFacts {
        repository,
        operation,
    });
}
