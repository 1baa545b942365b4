// SPDX-License-Identifier: Apache-2.0
//! The table of providers. A denied row names the page of the provider's documentation, by its
//! title, that describes what it would make. `*` as method is every method.
//!
//! Paths are narrow on purpose: what is neither listed nor denied is not granted either. GraphQL
//! (`POST /graphql`) can do whatever an account can and is in no template.

use super::{Mode, Place, Row, Template};

const WRITES: &str = "POST PUT PATCH";

const fn row(methods: &'static str, path: &'static str, page: &'static str) -> Row {
    Row {
        methods,
        path,
        page,
    }
}

/// What a provider's own site and no other serves, with the placeholder in the request.
const fn hosted(name: &'static str, host: &'static str, slot: Place) -> Template {
    Template {
        name,
        host,
        elsewhere: false,
        slot,
        mode: Mode::Placeholder,
        methods: "GET HEAD POST",
        paths: &[],
        denied: &[],
    }
}

pub(super) const TEMPLATES: &[Template] = &[
    Template {
        paths: &[
            "/v1/messages/**",
            "/v1/complete",
            "/v1/models/**",
            "/v1/files/**",
        ],
        denied: ANTHROPIC,
        ..hosted("anthropic", "api.anthropic.com", Place::Header("x-api-key"))
    },
    Template {
        methods: "GET HEAD POST PUT PATCH",
        paths: &[
            "/repos/**",
            "/user",
            "/user/repos",
            "/user/issues",
            "/users/**",
            "/orgs/**",
            "/search/**",
            "/issues",
            "/gists/**",
            "/notifications/**",
            "/rate_limit",
            "/meta",
            "/emojis",
            "/licenses/**",
            "/gitignore/**",
            "/markdown/**",
        ],
        denied: GITHUB,
        ..hosted("github", "api.github.com", Place::Bearer)
    },
    Template {
        elsewhere: true,
        methods: "GET HEAD POST PUT",
        paths: &[
            "/api/v4/projects/:id",
            "/api/v4/projects/:id/**",
            "/api/v4/groups/:id",
            "/api/v4/groups/:id/**",
            "/api/v4/user",
            "/api/v4/users/**",
            "/api/v4/issues/**",
            "/api/v4/merge_requests/**",
            "/api/v4/search",
            "/api/v4/todos",
            "/api/v4/version",
        ],
        denied: GITLAB,
        ..hosted("gitlab", "gitlab.com", Place::Header("private-token"))
    },
    Template {
        methods: "GET HEAD",
        paths: &[
            "/*",
            "/*%2F*",
            "/*/*",
            "/*/-/**",
            "/*/*/-/**",
            "/-/v1/search",
            "/-/whoami",
        ],
        denied: NPM,
        ..hosted("npm", "registry.npmjs.org", Place::Bearer)
    },
    Template {
        paths: &[
            "/v1/responses/**",
            "/v1/chat/completions/**",
            "/v1/completions",
            "/v1/embeddings",
            "/v1/images/**",
            "/v1/audio/**",
            "/v1/moderations",
            "/v1/models/**",
            "/v1/files/**",
            "/v1/batches/**",
            "/v1/vector_stores/**",
        ],
        denied: OPENAI,
        ..hosted("openai", "api.openai.com", Place::Bearer)
    },
    Template {
        methods: "POST",
        paths: &["/legacy/"],
        denied: PYPI,
        ..hosted("pypi", "upload.pypi.org", Place::Basic("__token__"))
    },
    Template {
        paths: &[
            "/api/auth.test",
            "/api/chat.postMessage",
            "/api/chat.postEphemeral",
            "/api/chat.update",
            "/api/chat.getPermalink",
            "/api/conversations.history",
            "/api/conversations.info",
            "/api/conversations.list",
            "/api/conversations.members",
            "/api/conversations.open",
            "/api/conversations.replies",
            "/api/files.completeUploadExternal",
            "/api/files.getUploadURLExternal",
            "/api/files.info",
            "/api/reactions.add",
            "/api/reactions.get",
            "/api/team.info",
            "/api/users.info",
            "/api/users.list",
            "/api/users.lookupByEmail",
        ],
        denied: SLACK,
        ..hosted("slack", "slack.com", Place::Bearer)
    },
    Template {
        paths: &[
            "/v1/balance/**",
            "/v1/charges/**",
            "/v1/checkout/sessions/**",
            "/v1/coupons/**",
            "/v1/customers/**",
            "/v1/events/**",
            "/v1/invoices/**",
            "/v1/invoiceitems/**",
            "/v1/payment_intents/**",
            "/v1/payment_links/**",
            "/v1/prices/**",
            "/v1/products/**",
            "/v1/subscriptions/**",
        ],
        denied: STRIPE,
        ..hosted("stripe", "api.stripe.com", Place::Bearer)
    },
    Template {
        paths: &["/bot{credential}/*"],
        denied: TELEGRAM,
        ..hosted(
            "telegram",
            "api.telegram.org",
            Place::Path("/bot{credential}/*"),
        )
    },
];

const ANTHROPIC: &[Row] = &[row("*", "/v1/organizations/**", "Admin API overview")];

const GITHUB: &[Row] = &[
    row("*", "/graphql/**", "Forming calls with GraphQL"),
    row(
        WRITES,
        "/repos/*/*/keys/**",
        "REST API endpoints for deploy keys",
    ),
    row(
        WRITES,
        "/repos/*/*/hooks/**",
        "REST API endpoints for repository webhooks",
    ),
    row(
        WRITES,
        "/orgs/*/hooks/**",
        "REST API endpoints for organization webhooks",
    ),
    row(
        WRITES,
        "/repos/*/*/actions/secrets/**",
        "REST API endpoints for GitHub Actions Secrets",
    ),
    row(
        WRITES,
        "/orgs/*/actions/secrets/**",
        "REST API endpoints for GitHub Actions Secrets",
    ),
    row(
        WRITES,
        "/repos/*/*/environments/**",
        "REST API endpoints for deployment environments",
    ),
    row(
        WRITES,
        "/repos/*/*/actions/variables/**",
        "REST API endpoints for GitHub Actions variables",
    ),
    row(
        WRITES,
        "/orgs/*/actions/variables/**",
        "REST API endpoints for GitHub Actions variables",
    ),
    row(
        WRITES,
        "/repos/*/*/actions/permissions/**",
        "REST API endpoints for GitHub Actions permissions",
    ),
    row(
        WRITES,
        "/orgs/*/actions/permissions/**",
        "REST API endpoints for GitHub Actions permissions",
    ),
    row(
        WRITES,
        "/repos/*/*/actions/oidc/**",
        "REST API endpoints for GitHub Actions OIDC",
    ),
    row(
        WRITES,
        "/orgs/*/actions/oidc/**",
        "REST API endpoints for GitHub Actions OIDC",
    ),
    row(
        WRITES,
        "/repos/*/*/actions/runners/**",
        "REST API endpoints for self-hosted runners",
    ),
    row(
        WRITES,
        "/orgs/*/actions/runners/**",
        "REST API endpoints for self-hosted runners",
    ),
    row(
        WRITES,
        "/orgs/*/actions/runner-groups/**",
        "REST API endpoints for self-hosted runner groups",
    ),
    row(
        WRITES,
        "/orgs/*/actions/hosted-runners/**",
        "REST API endpoints for GitHub-hosted runners",
    ),
    row(
        WRITES,
        "/repos/*/*/contents/.github/**",
        "REST API endpoints for repository contents",
    ),
    row(
        WRITES,
        "/repos/*/*/dependabot/secrets/**",
        "REST API endpoints for Dependabot secrets",
    ),
    row(
        WRITES,
        "/orgs/*/dependabot/secrets/**",
        "REST API endpoints for Dependabot secrets",
    ),
    row(
        WRITES,
        "/repos/*/*/codespaces/**",
        "REST API endpoints for Codespaces",
    ),
    row(
        WRITES,
        "/orgs/*/codespaces/**",
        "REST API endpoints for Codespaces organizations",
    ),
    row(
        WRITES,
        "/user/codespaces/**",
        "REST API endpoints for Codespaces user secrets",
    ),
    row(
        WRITES,
        "/repos/*/*/collaborators/**",
        "REST API endpoints for collaborators",
    ),
    row(
        WRITES,
        "/repos/*/*/invitations/**",
        "REST API endpoints for repository invitations",
    ),
    row(
        WRITES,
        "/user/repository_invitations/**",
        "REST API endpoints for repository invitations",
    ),
    row(
        WRITES,
        "/repos/*/*/branches/*/protection/**",
        "REST API endpoints for protected branches",
    ),
    row(
        WRITES,
        "/repos/*/*/rulesets/**",
        "REST API endpoints for rules",
    ),
    row(
        WRITES,
        "/repos/*/*/transfer",
        "REST API endpoints for repositories",
    ),
    row("PATCH", "/repos/*/*", "REST API endpoints for repositories"),
    row(
        WRITES,
        "/orgs/*/rulesets/**",
        "REST API endpoints for rules",
    ),
    row(
        WRITES,
        "/orgs/*/invitations/**",
        "REST API endpoints for organization members",
    ),
    row(
        WRITES,
        "/orgs/*/members/**",
        "REST API endpoints for organization members",
    ),
    row(
        WRITES,
        "/orgs/*/memberships/**",
        "REST API endpoints for organization members",
    ),
    row(
        WRITES,
        "/orgs/*/outside_collaborators/**",
        "REST API endpoints for outside collaborators",
    ),
    row(
        WRITES,
        "/orgs/*/organization-roles/**",
        "REST API endpoints for organization roles",
    ),
    row(WRITES, "/orgs/*/teams/**", "REST API endpoints for teams"),
    row(WRITES, "/teams/**", "REST API endpoints for team members"),
    row(
        WRITES,
        "/orgs/*/personal-access-token-requests/**",
        "REST API endpoints for personal access tokens",
    ),
    row(
        WRITES,
        "/orgs/*/personal-access-tokens/**",
        "REST API endpoints for personal access tokens",
    ),
    row(
        WRITES,
        "/user/keys/**",
        "REST API endpoints for Git SSH keys",
    ),
    row(
        WRITES,
        "/user/gpg_keys/**",
        "REST API endpoints for GPG keys",
    ),
    row(
        WRITES,
        "/user/ssh_signing_keys/**",
        "REST API endpoints for SSH signing keys",
    ),
    row(WRITES, "/user/emails/**", "REST API endpoints for emails"),
    row(
        WRITES,
        "/user/installations/**",
        "REST API endpoints for GitHub App installations",
    ),
    row("*", "/app/**", "REST API endpoints for GitHub Apps"),
    row(
        "*",
        "/app-manifests/**",
        "REST API endpoints for GitHub Apps",
    ),
    row(
        "*",
        "/applications/**",
        "REST API endpoints for OAuth authorizations",
    ),
    row(
        "*",
        "/authorizations/**",
        "REST API endpoints for OAuth authorizations",
    ),
    row("*", "/login/**", "Authorizing OAuth apps"),
    row(
        "*",
        "/repositories/**",
        "REST API endpoints for repositories",
    ),
    row(
        "*",
        "/organizations/**",
        "REST API endpoints for organizations",
    ),
];

const GITLAB: &[Row] = &[
    row("*", "/api/graphql/**", "GraphQL API"),
    row("*", "/oauth/**", "OAuth 2.0 identity provider API"),
    row(
        "*",
        "/api/v4/projects/:id/access_tokens/**",
        "Project access tokens API",
    ),
    row(
        "*",
        "/api/v4/groups/:id/access_tokens/**",
        "Group access tokens API",
    ),
    row(
        "*",
        "/api/v4/projects/:id/deploy_tokens/**",
        "Deploy tokens API",
    ),
    row(
        "*",
        "/api/v4/groups/:id/deploy_tokens/**",
        "Deploy tokens API",
    ),
    row(
        WRITES,
        "/api/v4/projects/:id/deploy_keys/**",
        "Deploy keys API",
    ),
    row(
        WRITES,
        "/api/v4/projects/:id/hooks/**",
        "Project webhooks API",
    ),
    row(WRITES, "/api/v4/groups/:id/hooks/**", "Group webhooks API"),
    row(
        "*",
        "/api/v4/projects/:id/variables/**",
        "Project-level CI/CD variables API",
    ),
    row(
        "*",
        "/api/v4/groups/:id/variables/**",
        "Group-level CI/CD variables API",
    ),
    row(
        "*",
        "/api/v4/projects/:id/triggers/**",
        "Pipeline trigger tokens API",
    ),
    row("*", "/api/v4/projects/:id/runners/**", "Runners API"),
    row("*", "/api/v4/groups/:id/runners/**", "Runners API"),
    row("*", "/api/v4/user/runners", "Users API"),
    row(
        WRITES,
        "/api/v4/projects/:id/members/**",
        "Group and project members API",
    ),
    row(
        WRITES,
        "/api/v4/groups/:id/members/**",
        "Group and project members API",
    ),
    row(
        WRITES,
        "/api/v4/projects/:id/invitations/**",
        "Invitations API",
    ),
    row(
        WRITES,
        "/api/v4/groups/:id/invitations/**",
        "Invitations API",
    ),
    row(WRITES, "/api/v4/projects/:id/share", "Projects API"),
    row(WRITES, "/api/v4/groups/:id/share", "Groups API"),
    row(
        WRITES,
        "/api/v4/projects/:id/integrations/**",
        "Project integrations API",
    ),
    row(
        WRITES,
        "/api/v4/projects/:id/services/**",
        "Project integrations API",
    ),
    row(
        WRITES,
        "/api/v4/projects/:id/remote_mirrors/**",
        "Project remote mirrors API",
    ),
    row(
        WRITES,
        "/api/v4/projects/:id/job_token_scope/**",
        "CI/CD job token scopes API",
    ),
    row(
        WRITES,
        "/api/v4/projects/:id/protected_branches/**",
        "Protected branches API",
    ),
    row(
        WRITES,
        "/api/v4/projects/:id/cluster_agents/**",
        "Agents API",
    ),
    row("PUT", "/api/v4/projects/:id", "Projects API"),
    row("*", "/api/v4/user/keys/**", "User SSH and GPG keys API"),
    row(
        "*",
        "/api/v4/personal_access_tokens/**",
        "Personal access tokens API",
    ),
    row(WRITES, "/api/v4/users/**", "Users API"),
];

const NPM: &[Row] = &[
    row("*", "/-/npm/v1/tokens/**", "About access tokens"),
    row(
        "*",
        "/-/npm/v1/user",
        "Configuring two-factor authentication",
    ),
    row(
        "*",
        "/-/npm/v1/oidc/**",
        "Trusted publishing for npm packages",
    ),
    row("*", "/-/npm/v1/hooks/**", "npm-hook"),
    row("*", "/-/user/**", "npm-adduser"),
    row("*", "/-/v1/login", "npm-login"),
    row("*", "/-/package/**", "npm-access"),
    row("*", "/-/org/**", "npm-org"),
    row("*", "/-/team/**", "npm-team"),
];

const OPENAI: &[Row] = &[
    row("*", "/v1/organization/**", "Admin API keys"),
    row("*", "/v1/organizations/**", "Administration"),
    row("*", "/v1/projects/**", "Projects"),
    row("*", "/v1/realtime/**", "Client Secrets"),
    row("*", "/v1/chatkit/**", "ChatKit sessions"),
];

const PYPI: &[Row] = &[row("*", "/_/oidc/**", "Internals and technical details")];

const SLACK: &[Row] = &[
    row("*", "/api/oauth.access", "oauth.access method"),
    row("*", "/api/oauth.v2.access", "oauth.v2.access method"),
    row("*", "/api/oauth.v2.exchange", "oauth.v2.exchange method"),
    row(
        "*",
        "/api/openid.connect.token",
        "openid.connect.token method",
    ),
    row(
        "*",
        "/api/tooling.tokens.rotate",
        "tooling.tokens.rotate method",
    ),
    row(
        "*",
        "/api/apps.connections.open",
        "apps.connections.open method",
    ),
    row(
        "*",
        "/api/apps.manifest.create",
        "apps.manifest.create method",
    ),
    row(
        "*",
        "/api/apps.manifest.update",
        "apps.manifest.update method",
    ),
    row(
        "*",
        "/api/conversations.invite",
        "conversations.invite method",
    ),
    row(
        "*",
        "/api/conversations.inviteShared",
        "conversations.inviteShared method",
    ),
    row(
        "*",
        "/api/files.sharedPublicURL",
        "files.sharedPublicURL method",
    ),
    row(
        "*",
        "/api/workflows.triggers.permissions.add",
        "workflows.triggers.permissions.add method",
    ),
];

const STRIPE: &[Row] = &[
    row("*", "/v1/ephemeral_keys/**", "Ephemeral Keys"),
    row(WRITES, "/v1/webhook_endpoints/**", "Webhook Endpoints"),
    row("*", "/v2/core/event_destinations/**", "Event Destinations"),
    row("*", "/v1/terminal/connection_tokens", "Connection Tokens"),
    row("*", "/v1/apps/secrets/**", "Secrets"),
    row(WRITES, "/v1/accounts/**", "Accounts"),
    row("*", "/v1/account_links", "Account Links"),
    row("*", "/v1/account_sessions", "Account Sessions"),
    row("*", "/v1/customer_sessions", "Customer Sessions"),
    row(
        "*",
        "/v1/billing_portal/sessions",
        "Customer Portal Session",
    ),
    row(WRITES, "/v1/customers/*/sources/**", "Sources"),
];

const TELEGRAM: &[Row] = &[
    row(
        "*",
        "/bot{credential}/setWebhook",
        "Telegram Bot API: setWebhook",
    ),
    row(
        "*",
        "/bot{credential}/deleteWebhook",
        "Telegram Bot API: deleteWebhook",
    ),
    row("*", "/bot{credential}/logOut", "Telegram Bot API: logOut"),
    row("*", "/bot{credential}/close", "Telegram Bot API: close"),
    row(
        "*",
        "/bot{credential}/exportChatInviteLink",
        "Telegram Bot API: exportChatInviteLink",
    ),
    row(
        "*",
        "/bot{credential}/createChatInviteLink",
        "Telegram Bot API: createChatInviteLink",
    ),
    row(
        "*",
        "/bot{credential}/createChatSubscriptionInviteLink",
        "Telegram Bot API: createChatSubscriptionInviteLink",
    ),
    row(
        "*",
        "/bot{credential}/promoteChatMember",
        "Telegram Bot API: promoteChatMember",
    ),
    row(
        "*",
        "/bot{credential}/setChatPermissions",
        "Telegram Bot API: setChatPermissions",
    ),
    row(
        "*",
        "/bot{credential}/getManagedBotToken",
        "Telegram Bot API: getManagedBotToken",
    ),
    row(
        "*",
        "/bot{credential}/replaceManagedBotToken",
        "Telegram Bot API: replaceManagedBotToken",
    ),
];
