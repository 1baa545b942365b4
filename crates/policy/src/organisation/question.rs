// SPDX-License-Identifier: Apache-2.0
//! Facts → a Cedar request. Everything that a policy can look at is in its context, so no entity
//! is ever built.

use crate::facts::{Content, GitOperation, RequestFacts, ToolFacts};
use crate::grant::{Grant, HostPattern, Isolation, WorkspaceMode};
use crate::names::{CredentialName, Endpoint, Method, SessionId};
use crate::standing::Phase;
use cedar_policy::{
    Context, EntityId, EntityTypeName, EntityUid, Request, RestrictedExpression as Expression,
};
use std::sync::LazyLock;

/// Whose act it is, as far as an organisation's policy may look.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The session.
    pub session: &'a SessionId,
    /// The phase that it is in.
    pub phase: Phase,
    /// The credential that would be put in.
    pub credential: Option<&'a CredentialName>,
}

/// The four entity types and three actions, parsed once. `None` only if a constant below did not
/// parse; every question is then undecidable.
struct Names {
    session: EntityTypeName,
    endpoint: EntityTypeName,
    tool: EntityTypeName,
    sandbox: EntityTypeName,
    action: EntityTypeName,
}

static NAMES: LazyLock<Option<Names>> = LazyLock::new(|| {
    Some(Names {
        session: "Session".parse().ok()?,
        endpoint: "Endpoint".parse().ok()?,
        tool: "Tool".parse().ok()?,
        sandbox: "Sandbox".parse().ok()?,
        action: "Action".parse().ok()?,
    })
});

/// What a policy sees of a request. The question is made of this and of nothing else, so equal ones
/// have equal answers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    session: SessionId,
    phase: Phase,
    credential: Option<CredentialName>,
    endpoint: Endpoint,
    method: Method,
    pub(super) path: String,
    websocket: bool,
    own_credentials: bool,
    git: Option<&'static str>,
    content: Option<Content>,
}

impl Asked {
    pub(super) fn new(subject: Subject<'_>, facts: &RequestFacts) -> Self {
        let git = facts.git.as_ref().map(|git| match git.operation {
            GitOperation::DiscoverFetch | GitOperation::Fetch | GitOperation::LfsDownload => {
                "fetch"
            }
            GitOperation::DiscoverPush
            | GitOperation::Push(_)
            | GitOperation::LfsVerifyLocks
            | GitOperation::LfsUpload => "push",
            GitOperation::LfsBatch => match &facts.content {
                Some(Content::Lfs(batch)) if !batch.is_upload => "fetch",
                _ => "push",
            },
        });
        Self {
            session: subject.session.clone(),
            phase: subject.phase,
            credential: subject.credential.cloned(),
            endpoint: facts.endpoint.clone(),
            method: facts.method.clone(),
            path: facts.path.path().to_owned(),
            websocket: facts.websocket,
            own_credentials: !facts.own_credentials.is_empty(),
            git,
            content: facts.content.clone(),
        }
    }
}

impl Asked {
    /// How many things a request says.
    pub(super) fn count_said(&self) -> usize {
        match &self.content {
            Some(Content::Graphql(said)) => said.len(),
            Some(Content::Jsonrpc(said)) => said.len(),
            Some(Content::Aws(call)) => call.actions.len(),
            Some(Content::Lfs(_)) | None => 0,
        }
    }
}

/// The question whether a request may leave. `None` is undecidable.
pub(super) fn request(asked: &Asked) -> Option<Request> {
    let names = NAMES.as_ref()?;
    let endpoint = &asked.endpoint;
    let mut context = vec![
        text("scheme", endpoint.scheme.word()),
        text("host", endpoint.host.to_string()),
        number("port", u64::from(endpoint.port.number())),
        flag("address", endpoint.host.is_address()),
        flag("metadata", endpoint.host.is_metadata()),
        text("method", asked.method.as_str()),
        text("path", asked.path.as_str()),
        text("phase", phase(asked.phase)),
        flag("websocket", asked.websocket),
        flag("own_credentials", asked.own_credentials),
    ];
    let credential = asked.credential.as_ref();
    context.extend(credential.map(|name| text("credential", name.as_str())));
    context.extend(asked.git.map(|git| text("git", git)));
    match &asked.content {
        Some(Content::Graphql(said)) => {
            context.push(set("graphql", said.iter().map(ToString::to_string)));
        }
        Some(Content::Jsonrpc(said)) => {
            let said = said.iter().map(|method| method.as_str().to_owned());
            context.push(set("jsonrpc", said));
        }
        Some(Content::Aws(call)) => {
            let said = call.actions.iter().map(|action| action.as_str().to_owned());
            context.push(set("aws", said));
        }
        Some(Content::Lfs(_)) | None => {}
    }
    let principal = uid(&names.session, asked.session.as_str());
    let resource = uid(&names.endpoint, &endpoint.to_string());
    question(principal, uid(&names.action, "request"), resource, context)
}

/// The question whether a tool may be used. `None` is undecidable.
pub(crate) fn tool(subject: Subject<'_>, facts: &ToolFacts) -> Option<Request> {
    let names = NAMES.as_ref()?;
    let principal = uid(&names.session, subject.session.as_str());
    let resource = uid(&names.tool, facts.tool.as_str());
    let context = vec![text("phase", phase(subject.phase))];
    question(principal, uid(&names.action, "tool"), resource, context)
}

/// The question whether a session may start. `None` is undecidable.
pub(super) fn start(grant: &Grant) -> Option<Request> {
    let names = NAMES.as_ref()?;
    let (sandbox, limits) = (&grant.sandbox, &grant.sandbox.limits);
    let isolation = match sandbox.isolation {
        Isolation::Strongest => "strongest",
        Isolation::Container => "container",
        Isolation::Gvisor => "gvisor",
        Isolation::Microvm => "microvm",
        Isolation::Vm => "vm",
    };
    let workspace = match sandbox.workspace {
        WorkspaceMode::Copy => "copy",
        WorkspaceMode::Bind => "bind",
        WorkspaceMode::None => "none",
    };
    let allowed = grant.allow.iter().map(|rule| host_text(&rule.host));
    let hosts = allowed.chain(grant.git.iter().map(|git| git.endpoint.host.to_string()));
    let secrets = grant
        .secrets
        .iter()
        .map(|secret| secret.credential.to_string());
    let git_secrets = grant
        .git
        .iter()
        .filter_map(|git| git.secret.as_ref().map(ToString::to_string));
    let image_digest = sandbox.image.digest().map_or("", |digest| digest.as_str());
    let context = vec![
        text("image", sandbox.image.spelling()),
        text("image_digest", image_digest),
        text("isolation", isolation),
        text("workspace", workspace),
        set("hosts", hosts),
        set("credentials", secrets.chain(git_secrets)),
        flag(
            "own_credentials",
            grant.allow.iter().any(|rule| rule.own_credentials),
        ),
        flag("host_directories", !sandbox.also.is_empty()),
        flag("install", grant.install.is_some()),
        flag("emulation", sandbox.emulation),
        number("wall_seconds", limits.wall_seconds),
        number("idle_seconds", limits.idle_seconds),
        number("cpu_milli", limits.cpu_milli),
        number("memory_bytes", limits.memory_bytes),
        number("pids", limits.pids),
        number("disk_bytes", limits.disk_bytes),
        number("egress_bytes", limits.egress_bytes),
        number("records", limits.records),
        number("ingress_bytes", limits.ingress_bytes),
        number("requests", limits.requests),
        number("rate", limits.rate),
        number("streams", limits.streams),
        number("host_requests", limits.each_host.requests),
        number("host_egress_bytes", limits.each_host.egress_bytes),
        number("host_ingress_bytes", limits.each_host.ingress_bytes),
        number("host_streams", limits.each_host.streams),
    ];
    let principal = uid(&names.session, "new");
    question(
        principal,
        uid(&names.action, "start"),
        uid(&names.sandbox, isolation),
        context,
    )
}

fn host_text(pattern: &HostPattern) -> String {
    match pattern {
        HostPattern::Exact(host) => host.to_string(),
        HostPattern::OneLabel(suffix) => format!("*.{suffix}"),
    }
}

fn question(
    principal: EntityUid,
    action: EntityUid,
    resource: EntityUid,
    context: Vec<(String, Expression)>,
) -> Option<Request> {
    let context = Context::from_pairs(context).ok()?;
    Request::new(principal, action, resource, context, None).ok()
}

fn uid(kind: &EntityTypeName, id: &str) -> EntityUid {
    EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(id))
}

fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Install => "install",
        Phase::Locked => "locked",
    }
}

fn text(key: &str, value: impl Into<String>) -> (String, Expression) {
    (key.to_owned(), Expression::new_string(value.into()))
}

fn flag(key: &str, value: bool) -> (String, Expression) {
    (key.to_owned(), Expression::new_bool(value))
}

/// Cedar counts in i64; what is above it is above every ceiling that a policy can state.
fn number(key: &str, value: u64) -> (String, Expression) {
    (
        key.to_owned(),
        Expression::new_long(i64::try_from(value).unwrap_or(i64::MAX)),
    )
}

fn set(key: &str, values: impl Iterator<Item = String>) -> (String, Expression) {
    (
        key.to_owned(),
        Expression::new_set(values.map(Expression::new_string)),
    )
}
