// SPDX-License-Identifier: Apache-2.0
//! The table is in the types, and what it denies is denied.

use super::*;
use crate::binding::{Answers, Binding};
use crate::names::{BindingId, CredentialName, Endpoint, Port, RequestPath, Scheme, TenantName};

fn bound(name: &str) -> Binding {
    let filled = named(name).unwrap().fill().unwrap();
    Binding {
        id: BindingId::parse("b1").unwrap(),
        tenant: TenantName::parse("local").unwrap(),
        credential: CredentialName::parse("c1").unwrap(),
        endpoint: Endpoint {
            scheme: Scheme::Https,
            host: filled.host,
            port: Port::HTTPS,
        },
        plaintext: false,
        methods: filled.methods,
        paths: filled.paths,
        denied: filled.denied,
        answers: Answers::default(),
        slot: filled.slot,
        mode: filled.mode,
        expires_at: None,
        revision: 1,
    }
}

fn asks(binding: &Binding, request: &str) -> (bool, bool) {
    let (method, path) = request.split_once(' ').unwrap();
    let method = Method::parse(method).unwrap();
    let path = RequestPath::parse_named(path).unwrap();
    let covered =
        binding.methods.contains(&method) && binding.paths.iter().any(|p| p.is_match(&path));
    (covered, binding.denies(&method, &path))
}

#[test]
fn each_template_is_a_binding_that_the_vault_takes() {
    let names: Vec<_> = all().into_iter().map(|template| template.name).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(names, sorted);
    assert!(names.len() >= 9);
    for template in all() {
        assert!(template.fill().is_some(), "{}", template.name);
        let binding = bound(&template.name);
        assert_eq!(binding.check(), Ok(()), "{}", template.name);
        assert!(!binding.denied.is_empty(), "{}", template.name);
        assert!(template.pages().all(|page| !page.is_empty()));
    }
}

#[test]
fn what_mints_credentials_or_leaves_authority_is_denied_and_work_is_not() {
    for (name, request) in [
        ("github", "POST /repos/x/y/keys"),
        ("github", "POST /repos/x/y/hooks"),
        ("github", "PUT /repos/x/y/actions/secrets/A"),
        (
            "github",
            "POST /repos/x/y/actions/runners/registration-token",
        ),
        (
            "github",
            "POST /repos/x/y/actions/runners/generate-jitconfig",
        ),
        ("github", "PUT /repos/x/y/collaborators/mallory"),
        ("github", "PUT /repos/x/y/contents/.github/workflows/a.yml"),
        ("github", "POST /orgs/x/invitations"),
        ("github", "PATCH /repos/x/y"),
        ("github", "POST /repos/x/y"),
        ("github", "PATCH /orgs/x"),
        ("github", "POST /repos/x/y/pulls/7/codespaces"),
        ("github", "PUT /repos/x/y/branches/release/1.0/protection"),
        (
            "gitlab",
            "POST /api/v4/groups/1/service_accounts/57/personal_access_tokens",
        ),
        ("gitlab", "POST /api/v4/groups/1/ssh_certificates"),
        ("gitlab", "POST /api/v4/projects/1"),
        ("gitlab", "POST /api/v4/projects/1/pipeline_schedules"),
        ("gitlab", "POST /api/v4/projects/1/deploy_keys"),
        ("gitlab", "POST /api/v4/projects/acme%2Fapp/access_tokens"),
        ("gitlab", "POST /api/v4/projects/acme%2Fsub%2Fapp/hooks"),
        ("gitlab", "GET /api/v4/groups/acme/variables"),
        ("telegram", "POST /bot{credential}/setWebhook"),
        ("telegram", "GET /bot{credential}/SETWEBHOOK"),
        ("stripe", "POST /v1/customers/cus_1/sources"),
    ] {
        assert_eq!(
            asks(&bound(name), request),
            (true, true),
            "{name} {request}"
        );
    }
    for (name, request) in [
        ("github", "GET /repos/x/y"),
        ("github", "GET /repos/x/y/keys"),
        ("github", "POST /repos/x/y/issues"),
        ("github", "PUT /repos/x/y/contents/src/main.rs"),
        ("gitlab", "GET /api/v4/projects/acme%2Fapp"),
        ("gitlab", "POST /api/v4/projects/1/merge_requests"),
        ("openai", "POST /v1/responses"),
        ("anthropic", "POST /v1/messages"),
        ("npm", "GET /@scope%2fname"),
        ("slack", "POST /api/chat.postMessage"),
        ("telegram", "POST /bot{credential}/sendMessage"),
        ("pypi", "POST /legacy/"),
        ("stripe", "POST /v1/payment_intents"),
    ] {
        assert_eq!(
            asks(&bound(name), request),
            (true, false),
            "{name} {request}"
        );
    }
    for (name, request) in [
        ("github", "POST /graphql"),
        ("github", "POST /user/keys"),
        ("github", "GET /repositories/1/keys"),
        ("gitlab", "POST /api/graphql"),
        ("openai", "POST /v1/realtime/client_secrets"),
        ("openai", "GET /v1/organization/admin_api_keys"),
        ("anthropic", "GET /v1/organizations/api_keys"),
        ("npm", "POST /-/npm/v1/tokens"),
        ("slack", "POST /api/oauth.v2.access"),
        ("stripe", "POST /v1/ephemeral_keys"),
    ] {
        let (covered, denied) = asks(&bound(name), request);
        assert!(!covered && denied, "{name} {request}");
    }
}
