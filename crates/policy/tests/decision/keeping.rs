// SPDX-License-Identifier: Apache-2.0
//! What is kept of an answer, and for which requests it counts.

use torno_policy::binding::{Answers, Binding, Cookies, Denied, Mode, PathPattern, Slot};
use torno_policy::decide::{IssuedPlaceholder, Layers, decide};
use torno_policy::decision::PermittedKeeping;
use torno_policy::document;
use torno_policy::facts::{Act, BodySlot, Entry, Location, Presented, RequestFacts};
use torno_policy::names::*;
use torno_policy::organisation::Organisation;
use torno_policy::placeholder::{Placeholder, PlaceholderDigest};
use torno_policy::standing::{Phase, Standing, State};
use torno_policy::{Decision, Reason};

const POLICY: &str = r#"
[secret.shop]
[[allow]]
host = "shop.test"
methods = ["GET", "POST"]
"#;

fn digest() -> PlaceholderDigest {
    Placeholder::new("", [7; 16]).digest()
}

fn patterns(texts: &[&str]) -> Vec<PathPattern> {
    let one = |text: &&str| PathPattern::parse(text).unwrap();
    texts.iter().map(one).collect()
}

fn methods(names: &[&str]) -> Vec<Method> {
    names
        .iter()
        .map(|name| Method::parse(name).unwrap())
        .collect()
}

/// A password of a form, whose login earns cookies.
fn login() -> Binding {
    Binding {
        id: BindingId::parse("b1").unwrap(),
        tenant: TenantName::parse("local").unwrap(),
        credential: CredentialName::parse("shop").unwrap(),
        endpoint: Endpoint {
            scheme: Scheme::Https,
            host: Host::parse("shop.test").unwrap(),
            port: Port::HTTPS,
        },
        plaintext: false,
        methods: methods(&["GET", "POST"]),
        paths: patterns(&["/login", "/account/**"]),
        denied: vec![Denied {
            methods: Vec::new(),
            path: PathPattern::parse("/account/keys").unwrap(),
        }],
        answers: Answers {
            cookies: Cookies::Broker,
            token_endpoints: Vec::new(),
        },
        slot: Slot::Form {
            field: "password".to_owned(),
        },
        mode: Mode::Placeholder,
        expires_at: None,
        revision: 1,
    }
}

fn facts(method: &str, path: &str) -> RequestFacts {
    RequestFacts {
        entry: Entry::Captured,
        endpoint: login().endpoint,
        method: Method::parse(method).unwrap(),
        path: RequestPath::parse(path).unwrap(),
        websocket: false,
        presented: Vec::new(),
        own_credentials: Vec::new(),
        git: None,
        content: None,
        body: None,
    }
}

fn judged(bindings: &[Binding], policy: &str, facts: &RequestFacts) -> Decision {
    judged_under(&Organisation::shipped(), bindings, policy, facts)
}

fn judged_under(
    organisation: &Organisation,
    bindings: &[Binding],
    policy: &str,
    facts: &RequestFacts,
) -> Decision {
    let grant = document::parse(policy, &document::Presets::shipped()).unwrap();
    let standing = Standing {
        session: SessionId::parse("s1").unwrap(),
        generation: Generation(1),
        state: State::Running,
        phase: Phase::Locked,
    };
    let layers = Layers {
        standing: Some(&standing),
        asker: Generation(1),
        organisation,
        grant: &grant,
        bindings,
        placeholders: &[IssuedPlaceholder {
            digest: digest(),
            credential: CredentialName::parse("shop").unwrap(),
        }],
        tripwires: &[],
        now: 0,
    };
    decide(&layers, &Act::Request(facts.clone()))
}

/// What is kept, and whether the credential goes in.
fn kept(
    binding: &Binding,
    facts: &RequestFacts,
) -> Result<(Option<PermittedKeeping>, bool), Reason> {
    binding.check().unwrap();
    match judged(std::slice::from_ref(binding), POLICY, facts) {
        Decision::Allow(permit) => Ok((permit.keeping().cloned(), permit.injection().is_some())),
        Decision::Deny(refusal) => Err(refusal.reason),
        Decision::Ask(_) => panic!("nobody asks"),
    }
}

#[test]
fn cookies_go_where_the_binding_covers_and_does_not_deny() {
    let binding = login();
    for (method, path, cookies) in [
        ("GET", "/account/orders", true),
        ("GET", "/account/keys", false),
        ("GET", "/account/KEYS/", false),
        ("GET", "/elsewhere", false),
        ("GET", "/", false),
    ] {
        let (keeping, injects) = kept(&binding, &facts(method, path)).unwrap();
        assert_eq!(keeping.is_some(), cookies, "{method} {path}");
        assert!(!injects);
        assert!(keeping.is_none_or(|k| k.cookies && !k.tokens && k.binding == binding.id));
    }
    let dropping = Binding {
        methods: methods(&["POST"]),
        answers: Answers::default(),
        ..login()
    };
    let (keeping, _) = kept(&dropping, &facts("GET", "/account/orders")).unwrap();
    assert_eq!(keeping, None);
}

#[test]
fn a_form_logs_in_and_what_has_no_body_goes_with_the_cookies_alone() {
    let binding = login();
    let unread = kept(&binding, &facts("POST", "/login"));
    assert_eq!(unread, Err(Reason::ContentUnread));
    let mut said = facts("POST", "/login");
    said.body = Some(Box::new(BodySlot {
        slot: binding.slot.clone(),
        held: torno_policy::binding::Held::Placeholder,
    }));
    said.presented.push(Presented {
        location: Location::Slot,
        digest: digest(),
    });
    let (keeping, injects) = kept(&binding, &said).unwrap();
    assert!(keeping.is_some() && injects);
    for mode in [Mode::Placeholder, Mode::PlaceholderOrInject, Mode::Inject] {
        let binding = Binding { mode, ..login() };
        let (keeping, injects) = kept(&binding, &facts("GET", "/account/orders")).unwrap();
        assert!(keeping.is_some() && !injects, "{mode:?}");
    }
    // Without a rule, a request that has no credential is not granted.
    let only_secret = "[secret.shop]\n";
    let alone = judged(&[login()], only_secret, &facts("GET", "/account/orders"));
    let Decision::Deny(refusal) = alone else {
        panic!("{alone:?}")
    };
    assert_eq!(refusal.reason, Reason::PlaceholderMissing);
}

#[test]
fn a_cookie_of_the_clients_own_is_replaced_where_cookies_are_kept_and_refused_elsewhere() {
    let own = |path: &str, name: &str| {
        let mut facts = facts("GET", path);
        facts.own_credentials.push(name.to_owned());
        kept(&login(), &facts).map(|_| ())
    };
    assert_eq!(own("/account/orders", "cookie"), Ok(()));
    for (path, name) in [
        ("/elsewhere", "cookie"),
        ("/account/keys", "cookie"),
        ("/account/orders", "cookie2"),
        ("/account/orders", "authorization"),
    ] {
        assert_eq!(own(path, name), Err(Reason::OwnCredential), "{path} {name}");
    }
}

#[test]
fn a_token_endpoint_is_one_path_of_the_binding() {
    let binding = Binding {
        methods: methods(&["POST"]),
        paths: patterns(&["/oauth/token", "/api/**"]),
        answers: Answers {
            cookies: Cookies::Drop,
            token_endpoints: patterns(&["/oauth/token"]),
        },
        slot: Slot::Basic {
            user: "client".to_owned(),
        },
        mode: Mode::PlaceholderOrInject,
        ..login()
    };
    for (path, tokens) in [("/oauth/token", true), ("/api/oauth/token", false)] {
        let (keeping, injects) = kept(&binding, &facts("POST", path)).unwrap();
        assert_eq!(
            keeping.is_some_and(|k| k.tokens && !k.cookies),
            tokens,
            "{path}"
        );
        assert!(injects);
    }
    for (paths, methods_) in [
        (&["/oauth/*"][..], &["POST"][..]),
        (&["/oauth/**"], &["POST"]),
        (&["/elsewhere"], &["POST"]),
        (&["/oauth/token"], &["GET"]),
        (
            &[
                "/api/1", "/api/2", "/api/3", "/api/4", "/api/5", "/api/6", "/api/7", "/api/8",
                "/api/9",
            ],
            &["POST"],
        ),
    ] {
        let wrong = Binding {
            methods: methods(methods_),
            answers: Answers {
                token_endpoints: patterns(paths),
                ..Answers::default()
            },
            ..binding.clone()
        };
        assert!(wrong.check().is_err(), "{paths:?} {methods_:?}");
    }
}

#[test]
fn a_row_that_keeps_nothing_is_written_as_before() {
    let plain = Binding {
        methods: methods(&["POST"]),
        answers: Answers::default(),
        ..login()
    };
    let text = serde_json::to_string(&plain).unwrap();
    assert!(
        !text.contains("answers") && !text.contains("cookies"),
        "{text}"
    );
    assert_eq!(serde_json::from_str::<Binding>(&text).unwrap(), plain);
    let kept = login();
    let text = serde_json::to_string(&kept).unwrap();
    assert!(text.contains(r#""answers":{"cookies":"broker"}"#), "{text}");
    assert_eq!(serde_json::from_str::<Binding>(&text).unwrap(), kept);
}

#[test]
fn a_body_slot_has_methods_without_a_body_only_where_cookies_are_kept() {
    let of = |names: &[&str], cookies| Binding {
        methods: methods(names),
        answers: Answers {
            cookies,
            ..Answers::default()
        },
        ..login()
    };
    assert!(
        of(&["POST", "GET", "HEAD"], Cookies::Broker)
            .check()
            .is_ok()
    );
    assert!(of(&["POST", "GET"], Cookies::Drop).check().is_err());
    assert!(of(&["GET"], Cookies::Broker).check().is_err());
    assert!(of(&["POST", "OPTIONS"], Cookies::Broker).check().is_err());
}

/// What was made for a credential goes where the credential may go, and nowhere else.
#[test]
fn an_organisation_that_forbids_a_credential_forbids_what_it_earned() {
    let forbids = Organisation::parse(
        r#"@id("all") permit(principal, action, resource);
        @id("no-shop") forbid(principal, action, resource)
        when { context has credential && context.credential == "shop" };"#,
    )
    .unwrap();
    let tokens = Binding {
        methods: methods(&["POST"]),
        paths: patterns(&["/oauth/token"]),
        answers: Answers {
            cookies: Cookies::Drop,
            token_endpoints: patterns(&["/oauth/token"]),
        },
        slot: Slot::Basic {
            user: "client".to_owned(),
        },
        ..login()
    };
    for (binding, facts) in [
        (tokens, facts("POST", "/oauth/token")),
        (login(), facts("GET", "/account/orders")),
    ] {
        let decision = judged_under(&forbids, &[binding], POLICY, &facts);
        let Decision::Deny(refusal) = decision else {
            panic!("{decision:?}")
        };
        assert_eq!(refusal.reason, Reason::OrganisationForbids);
    }
}
