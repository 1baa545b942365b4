// SPDX-License-Identifier: Apache-2.0
//! The organisation's layer: what the shipped policy says, and what is no policy.

use super::*;
use crate::document::{self, Presets};
use crate::facts::{self, Content, GitFacts, GitOperation, GraphqlOperation};
use crate::names::{CredentialName, Endpoint, Host, Method, Port, RequestPath, Scheme, SessionId};
use crate::standing::Phase;

fn refuse(text: &str, message: &str) -> DocumentError {
    let error = Organisation::parse(text).expect_err(text);
    assert!(error.message.contains(message), "{text}\n{}", error.message);
    assert!(!error.message.contains('\n'));
    error
}

fn start(organisation: &Organisation, document: &str) -> Result<(), (Reason, String)> {
    let grant = document::parse(document, &Presets::shipped()).unwrap();
    let refused = |refusal: Refusal| (refusal.reason, refusal.rule.to_string());
    organisation.admits_start(&grant).map_err(refused)
}

#[test]
fn the_shipped_policy_parses_and_names_its_rules() {
    let shipped = Organisation::parse(SHIPPED).unwrap();
    let names: Vec<_> = shipped
        .rules()
        .iter()
        .map(|(name, _)| name.to_string())
        .collect();
    assert_eq!(
        names,
        [
            "org.database",
            "org.no-credential-in-the-clear",
            "org.no-metadata",
            "org.no-own-credential-in-the-clear",
            "org.request-in-the-clear",
            "org.request-over-tls",
            "org.start",
            "org.tools",
        ]
    );
}

#[test]
fn a_policy_that_does_not_parse_is_refused_at_its_place() {
    let text = "@id(\"a\")\npermit (principal action, resource);";
    let error = refuse(text, "unexpected token");
    assert!(
        error.span.as_ref().is_some_and(|span| span.start >= 9),
        "{error:?}"
    );
}

// ATTACK: 084
#[test]
fn a_policy_that_names_what_does_not_exist_is_refused() {
    let request = |when: &str| {
        format!(
            "@id(\"a\") forbid (principal, action == Action::\"request\", resource)\n\
             when {{ {when} }};"
        )
    };
    refuse(&request("context.hosst == \"x\""), "hosst");
    refuse(&request("context.port == \"443\""), "");
    refuse(&request("context.credential == \"x\""), "credential");
    refuse(
        "@id(\"a\") forbid (principal == User::\"x\", action, resource);",
        "User",
    );
    refuse(
        "@id(\"a\") forbid (principal, action == Action::\"fly\", resource);",
        "fly",
    );
    assert!(
        Organisation::parse(&request(
            "context has credential && context.credential == \"x\""
        ))
        .is_ok()
    );
}

#[test]
fn every_rule_has_one_name_and_known_annotations() {
    refuse(
        "permit (principal, action, resource);",
        "begins with its name",
    );
    refuse(
        "@id(\"A b\") permit (principal, action, resource);",
        "lower-case",
    );
    refuse(
        "@id(\"default\") permit (principal, action, resource);",
        "taken",
    );
    let twice = "@id(\"a\") permit (principal, action, resource);";
    let error = refuse(&format!("{twice}\n{twice}"), "two rules");
    assert_eq!(error.span, Some(twice.len() + 1..twice.len() + 9));
    refuse(
        "@id(\"a\") @ask permit (principal, action, resource);",
        "only on a `forbid`",
    );
    refuse(
        "@id(\"a\") @ask(\"no\") forbid (principal, action, resource);",
        "stands alone",
    );
    refuse(
        "@id(\"a\") @aks forbid (principal, action, resource);",
        "unknown annotation",
    );
    refuse(
        "@id(\"a\") permit (principal == ?principal, action, resource);",
        "template",
    );
}

#[test]
fn an_empty_policy_permits_nothing() {
    let empty = Organisation::parse("").unwrap();
    let refused = (Reason::OrganisationForbids, "org.default".to_owned());
    assert_eq!(start(&empty, ""), Err(refused));
    assert!(empty.judge(None).undecidable);
}

#[test]
fn what_can_not_be_evaluated_is_denied() {
    let text = r#"@id("all") permit (principal, action, resource);
        @id("sum") forbid (principal, action == Action::"start", resource)
        when { context.disk_bytes * 9000000000000000000 > 1 };"#;
    let organisation = Organisation::parse(text).unwrap();
    assert_eq!(
        start(&organisation, ""),
        Err((Reason::Undecidable, "org.sum".to_owned()))
    );
}

#[test]
fn each_budget_has_its_ceiling() {
    for (ceiling, fits, above) in [
        ("requests > 10", "requests = 10", "requests = 11"),
        ("rate > 10", "rate = \"10/s\"", "rate = \"11/s\""),
        (
            "egress_bytes > 1024",
            "egress = \"1KiB\"",
            "egress = \"2KiB\"",
        ),
        (
            "ingress_bytes > 1024",
            "ingress = \"1KiB\"",
            "ingress = \"2KiB\"",
        ),
        ("streams > 10", "streams = 10", "streams = 11"),
        (
            "host_requests > 10",
            "each_host = { requests = 10 }",
            "each_host = { requests = 11 }",
        ),
        (
            "host_egress_bytes > 1024",
            "each_host = { egress = \"1KiB\" }",
            "each_host = { egress = \"2KiB\" }",
        ),
        (
            "host_ingress_bytes > 1024",
            "each_host = { ingress = \"1KiB\" }",
            "each_host = { ingress = \"2KiB\" }",
        ),
        (
            "host_streams > 10",
            "each_host = { streams = 10 }",
            "each_host = { streams = 11 }",
        ),
    ] {
        let text = format!(
            "@id(\"all\") permit (principal, action, resource);
             @id(\"ceiling\") forbid (principal, action == Action::\"start\", resource)
             when {{ context.{ceiling} }};"
        );
        let organisation = Organisation::parse(&text).unwrap();
        let limits = |limit: &str| format!("[sandbox.limits]\n{limit}");
        assert_eq!(start(&organisation, &limits(fits)), Ok(()), "{fits}");
        let refused = Err((Reason::OrganisationForbids, "org.ceiling".to_owned()));
        assert_eq!(start(&organisation, &limits(above)), refused, "{above}");
        // What is left out is what it is by default, which is above it.
        assert_eq!(start(&organisation, ""), refused, "{ceiling}");
    }
}

#[test]
fn a_start_is_held_to_floors_and_ceilings() {
    let shipped = Organisation::shipped();
    assert_eq!(start(&shipped, ""), Ok(()));
    let long = "[sandbox.limits]\nwall = \"8d\"";
    assert_eq!(
        start(&shipped, long),
        Err((Reason::OrganisationForbids, "org.default".to_owned()))
    );
    let text = r#"@id("all") permit (principal, action, resource);
        @id("floor") forbid (principal, action == Action::"start", resource)
        when { context.isolation == "container" || context.memory_bytes > 1073741824 };
        @id("keys") @ask forbid (principal, action == Action::"start", resource)
        when { context.credentials.contains("prod") };
        @id("hosts") forbid (principal, action == Action::"start", resource)
        when { !["a.test", "*.b.test"].containsAll(context.hosts) };"#;
    let strict = Organisation::parse(text).unwrap();
    let small = "[sandbox.limits]\nmemory = \"1GiB\"\n";
    let refused = |reason, rule: &str| Err((reason, rule.to_owned()));
    assert_eq!(start(&strict, small), Ok(()));
    assert_eq!(
        start(&strict, ""),
        refused(Reason::OrganisationForbids, "org.floor")
    );
    let named = "[sandbox]\nisolation = \"container\"\nlimits = { memory = \"1GiB\" }";
    assert_eq!(
        start(&strict, named),
        refused(Reason::OrganisationForbids, "org.floor")
    );
    let prod = format!("{small}[secret.prod]");
    assert_eq!(
        start(&strict, &prod),
        refused(Reason::ApprovalUnavailable, "org.keys")
    );
    let host = format!("{small}[[allow]]\nhost = \"*.c.test\"");
    assert_eq!(
        start(&strict, &host),
        refused(Reason::OrganisationForbids, "org.hosts")
    );
}

#[test]
fn a_policy_is_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Organisation>();
}

// ATTACK: 230
#[test]
fn hostile_policy_texts_are_refused_in_bounded_time_and_stack() {
    let when = |body: String| {
        format!("@id(\"a\") permit (principal, action, resource) when {{ {body} }};")
    };
    let n = 40_000;
    for text in [
        when(format!("{}true{}", "(".repeat(n), ")".repeat(n))),
        when(format!("{}true", "!".repeat(n))),
        when(format!("{}true", "true && ".repeat(n / 2))),
        when(format!("1{} > 0", " + 1".repeat(n))),
        when(format!("context{}", ".a".repeat(n))),
        when(format!("{}1{} == 1", "[".repeat(n), "]".repeat(n))),
        when(format!(
            "{}true{}",
            "if true then ".repeat(n / 4),
            " else false".repeat(n / 4)
        )),
        when(format!("context.x like \"{}\"", "*a".repeat(n))),
    ] {
        let start = std::time::Instant::now();
        let parsed = Organisation::parse(&text);
        let shown = text.get(..90).unwrap_or_default();
        assert!(parsed.is_err(), "{shown}");
        assert!(
            start.elapsed().as_secs() < 10,
            "{shown} {:?}",
            start.elapsed()
        );
    }
}

/// A request, with one part of it changed.
fn asked(change: &str) -> (SessionId, Phase, Option<CredentialName>, RequestFacts) {
    let is = |part: &str| change == part;
    let name = |text: &str| CredentialName::parse(text).unwrap();
    let facts = RequestFacts {
        entry: facts::Entry::Captured,
        endpoint: Endpoint {
            scheme: if is("scheme") {
                Scheme::Http
            } else {
                Scheme::Https
            },
            host: Host::parse(if is("host") { "b.test" } else { "a.test" }).unwrap(),
            port: Port::new(if is("port") { 8443 } else { 443 }).unwrap(),
        },
        method: Method::parse(if is("method") { "POST" } else { "GET" }).unwrap(),
        path: RequestPath::parse(if is("path") { "/b" } else { "/a" }).unwrap(),
        websocket: is("websocket"),
        presented: vec![],
        own_credentials: if is("own_credentials") {
            vec!["x".into()]
        } else {
            vec![]
        },
        git: is("git").then(|| GitFacts {
            repository: "/r".to_owned(),
            operation: GitOperation::Fetch,
        }),
        content: is("content").then(|| Content::Graphql(vec![GraphqlOperation::Query])),
        body: None,
    };
    let session = if is("session") { "s2" } else { "s1" };
    let phase = if is("phase") {
        Phase::Install
    } else {
        Phase::Locked
    };
    let credential = is("credential").then(|| name("c1"));
    (SessionId::parse(session).unwrap(), phase, credential, facts)
}

#[test]
fn a_known_answer_is_for_an_equal_question_whatever_part_of_it_differs() {
    let rules = [
        ("scheme", "context.scheme == \"http\""),
        ("host", "context.host == \"b.test\""),
        ("port", "context.port == 8443"),
        ("method", "context.method == \"POST\""),
        ("path", "context.path == \"/b\""),
        ("websocket", "context.websocket"),
        ("own_credentials", "context.own_credentials"),
        ("git", "context has git"),
        (
            "content",
            "context has graphql && context.graphql.contains(\"query\")",
        ),
        ("session", "principal == Session::\"s2\""),
        ("phase", "context.phase == \"install\""),
        ("credential", "context has credential"),
    ];
    let mut text = "@id(\"all\") permit (principal, action, resource);\n".to_owned();
    for (part, when) in rules {
        text.push_str(&format!(
            "@id(\"{}\") forbid (principal, action == Action::\"request\", resource)\n\
             when {{ {when} }};\n",
            part.replace('_', "-")
        ));
    }
    let organisation = Organisation::parse(&text).unwrap();
    let judge = |change: &str| {
        let (session, phase, credential, facts) = asked(change);
        let subject = Subject {
            session: &session,
            phase,
            credential: credential.as_ref(),
        };
        organisation.judge_request(subject, &facts)
    };
    for round in 0..2 {
        assert_eq!(judge("").verdict, Verdict::Allow);
        for (part, _) in rules {
            let judgement = judge(part);
            assert_eq!(judgement.verdict, Verdict::Deny, "{part} in round {round}");
            let rule = format!("org.{}", part.replace('_', "-"));
            assert_eq!(judgement.rule.to_string(), rule);
        }
        assert_eq!(organisation.known.count(), rules.len() + 1);
    }
}

#[test]
fn few_answers_are_kept_and_none_of_a_long_path() {
    let organisation = Organisation::shipped();
    let (session, phase, _, mut facts) = asked("");
    let mut judge = |path: String| {
        facts.path = RequestPath::parse(&path).unwrap();
        let subject = Subject {
            session: &session,
            phase,
            credential: None,
        };
        let _ = organisation.judge_request(subject, &facts);
        organisation.known.count()
    };
    assert_eq!(judge(format!("/{}", "x".repeat(300))), 0);
    let most = (0..1_000).map(|at| judge(format!("/{at}"))).max();
    assert!(
        most.is_some_and(|most| (2..=256).contains(&most)),
        "{most:?}"
    );
}

fn request_to(path: &str) -> crate::facts::RequestFacts {
    use crate::names::{Endpoint, Host, Method, Port, RequestPath, Scheme};
    crate::facts::RequestFacts {
        entry: crate::facts::Entry::Captured,
        endpoint: Endpoint {
            scheme: Scheme::Https,
            host: Host::parse("allow.test").unwrap(),
            port: Port::HTTPS,
        },
        method: Method::parse("GET").unwrap(),
        path: RequestPath::parse(path).unwrap(),
        websocket: false,
        presented: Vec::new(),
        own_credentials: Vec::new(),
        git: None,
        content: None,
        body: None,
    }
}

// ATTACK: 075
#[test]
fn what_is_forbidden_is_not_reached_by_an_encoded_slash() {
    let forbids = |how: &str| {
        let rule = format!(
            "@id(\"all\") permit (principal, action, resource);\n{how} forbid (principal, action \
             == Action::\"request\", resource) when {{ context.path like \"/admin/*\" }};"
        );
        Organisation::parse(&rule).unwrap()
    };
    let permits = Organisation::parse(
        "@id(\"some\") permit (principal, action == Action::\"request\", resource) \
         when { context.path like \"/api/*\" };",
    )
    .unwrap();
    let session = crate::names::SessionId::parse("s1").unwrap();
    let subject = Subject {
        session: &session,
        phase: crate::standing::Phase::Locked,
        credential: None,
    };
    let verdict = |organisation: &Organisation, path: &str| {
        organisation
            .judge_request(subject, &request_to(path))
            .verdict
    };
    let firm = forbids("@id(\"admin\")");
    for path in ["/admin/x", "/admin%2Fx", "/admin%2fx/y"] {
        assert_eq!(verdict(&firm, path), Verdict::Deny, "{path}");
    }
    assert_eq!(verdict(&firm, "/x%2Fadmin"), Verdict::Allow);
    let asking = forbids("@id(\"admin\") @ask");
    assert_eq!(verdict(&asking, "/admin%2Fx"), Verdict::Ask);
    // What is permitted must be in both readings: this one is no path below `/api/` as it stands.
    assert_eq!(verdict(&permits, "/api/a%2Fb"), Verdict::Allow);
    assert_eq!(verdict(&permits, "/api%2Fx"), Verdict::Deny);
}

// ATTACK: 075
#[test]
fn what_is_forbidden_is_not_reached_by_an_escape_of_what_needs_none() {
    let session = crate::names::SessionId::parse("s1").unwrap();
    let subject = Subject {
        session: &session,
        phase: crate::standing::Phase::Locked,
        credential: None,
    };
    for raw in ":@!$&'()+,=".chars() {
        let forbidden = Organisation::parse(&format!(
            "@id(\"all\") permit (principal, action, resource);\n@id(\"f\") forbid (principal, \
             action == Action::\"request\", resource) when {{ context.path like \"/v1/a{raw}b/*\" }};"
        ))
        .unwrap();
        let verdict = |path: &str| forbidden.judge_request(subject, &request_to(path)).verdict;
        let escape = format!("%{:02x}", u32::from(raw));
        for path in ["/v1/aXb/c", "/v1%2FaXb/c", "/v1/aXb%2Fc"] {
            assert_eq!(verdict(&path.replace('X', &escape)), Verdict::Deny);
        }
        assert_eq!(verdict(&format!("/v1/a{escape}/c")), Verdict::Allow);
    }
}
