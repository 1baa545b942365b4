// SPDX-License-Identifier: Apache-2.0
//! A grant in a few plain lines, as it is shown before the start.

use crate::grant::{
    AllowRule, Dialect, GitGrant, Grant, HostPattern, Image, Isolation, SecretGrant, ToolPattern,
    ToolRule, Verdict, WorkspaceMode,
};
use crate::standing::Phase;
use std::fmt::Display;

/// What is granted, one line each.
#[must_use]
pub fn describe(grant: &Grant) -> Vec<String> {
    let sandbox = &grant.sandbox;
    let mut lines = vec![format!(
        "sandbox: {} isolation, workspace {}",
        isolation(sandbox.isolation),
        workspace(sandbox.workspace)
    )];
    if sandbox.image != Image::Host {
        lines.push(format!("is made of image {}", sandbox.image.spelling()));
    }
    if !sandbox.also.is_empty() {
        lines.push(format!("shows of the host: {}", sandbox.also.join(", ")));
    }
    if let Some(write) = &sandbox.files.write {
        lines.push(format!("writes only: {}", write.join(", ")));
    }
    if !sandbox.files.hide.is_empty() {
        lines.push(format!("hides: {}", sandbox.files.hide.join(", ")));
    }
    if !sandbox.env.is_empty() {
        let names: Vec<_> = sandbox.env.iter().map(|(name, _)| name.as_str()).collect();
        lines.push(format!("sets: {}", names.join(", ")));
    }
    if !sandbox.tripwires {
        lines.push("stands without tripwires".to_owned());
    }
    if sandbox.emulation {
        lines.push("may be emulated, which is no boundary".to_owned());
    }
    if let Some(install) = &grant.install {
        let commands: Vec<_> = install
            .run
            .iter()
            .map(|command| command.join(" "))
            .collect();
        lines.push(format!("installs with: {}", escaped(&commands.join("; "))));
        lines.push("keeps of installing: what lies in the workspace; home starts anew".to_owned());
    }
    lines.extend(grant.allow.iter().map(allow));
    lines.extend(grant.secrets.iter().map(secret));
    lines.extend(grant.git.iter().map(git));
    lines.extend(grant.tools.iter().map(tool));
    if grant.allow.is_empty() && grant.secrets.is_empty() && grant.git.is_empty() {
        lines.push("reaches nothing outside".to_owned());
    }
    lines
}

pub(super) fn isolation(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::Strongest => "strongest",
        Isolation::Container => "container",
        Isolation::Gvisor => "gvisor",
        Isolation::Microvm => "microvm",
        Isolation::Vm => "vm",
    }
}

pub(super) fn workspace(mode: WorkspaceMode) -> &'static str {
    match mode {
        WorkspaceMode::Copy => "copied",
        WorkspaceMode::Bind => "bound: kept in step with the directory",
        WorkspaceMode::None => "empty",
    }
}

pub(super) fn allow(rule: &AllowRule) -> String {
    let own = if rule.own_credentials {
        ", with the client's own credentials"
    } else {
        ""
    };
    let websocket = if rule.websocket {
        ", WebSocket too"
    } else {
        ""
    };
    let when = if rule.phase == Phase::Install {
        " while installing"
    } else {
        ""
    };
    let preset = match rule.name.as_str().strip_prefix("preset.") {
        Some(name) => format!(" (preset {})", name.split('[').next().unwrap_or(name)),
        None => String::new(),
    };
    let place = place(rule);
    let what = match &rule.dialect {
        Dialect::Plain => {
            let (methods, paths) = (join(&rule.methods), join(&rule.paths));
            format!("reaches {place}: {methods} {paths}")
        }
        Dialect::Registry(registry) => {
            let (under, protocol) = (&registry.under, registry.protocol.as_str());
            let may = if registry.publish {
                "reads and publishes"
            } else {
                "reads"
            };
            format!("uses {place}{under} as {protocol} registry: {may}")
        }
        Dialect::Graphql(granted) => {
            let (paths, granted) = (join(&rule.paths), join(granted));
            format!("asks {place} in GraphQL at {paths}: {granted}")
        }
        Dialect::Jsonrpc(granted) => {
            let (methods, paths) = (join(&rule.methods), join(&rule.paths));
            let granted = join(granted);
            format!("calls {place} in JSON-RPC at {methods} {paths}: {granted}")
        }
        Dialect::Aws(granted) => {
            let (paths, service) = (join(&rule.paths), &granted.service);
            let actions = join(&granted.actions);
            format!("uses {place} as {service} of AWS at {paths}: {actions}")
        }
    };
    let transcripts = if rule.transcripts {
        ", transcripts that quote tripwires too"
    } else {
        ""
    };
    format!("{what}{websocket}{own}{transcripts}{when}{preset}")
}

/// `https://docs.example.org`, with the port where it is not the scheme's.
pub(super) fn place(rule: &AllowRule) -> String {
    let host = match &rule.host {
        HostPattern::Exact(host) => host.to_string(),
        HostPattern::OneLabel(suffix) => format!("*.{suffix}"),
    };
    let scheme = rule.scheme.word();
    if rule.port == rule.scheme.default_port() {
        format!("{scheme}://{host}")
    } else {
        format!("{scheme}://{host}:{}", rule.port)
    }
}

pub(super) fn secret(secret: &SecretGrant) -> String {
    let env = secret
        .env
        .as_ref()
        .map(|env| format!(" (placeholder in {env})"))
        .unwrap_or_default();
    let methods = secret
        .methods
        .as_deref()
        .map_or_else(|| "any method".to_owned(), join);
    let paths = secret
        .paths
        .as_deref()
        .map_or_else(|| "any path".to_owned(), join);
    let when = if secret.phase == Phase::Install {
        " while installing"
    } else {
        ""
    };
    format!(
        "uses {}{env} where it is bound: {methods}, {paths}{when}",
        secret.credential
    )
}

pub(super) fn git(git: &GitGrant) -> String {
    let mut may = Vec::new();
    if git.fetch {
        may.push("fetch".to_owned());
    }
    if !git.push_refs.is_empty() {
        may.push(format!("push {}", git.push_refs.join(", ")));
    }
    if git.delete {
        may.push("delete those".to_owned());
    }
    let with = git
        .secret
        .as_ref()
        .map(|name| format!(" with {name}"))
        .unwrap_or_default();
    format!(
        "git {}{}: {}{with}",
        git.endpoint,
        git.repository,
        may.join(", ")
    )
}

pub(super) fn tool(rule: &ToolRule) -> String {
    let name = match &rule.tool {
        ToolPattern::Exact(tool) => tool.to_string(),
        ToolPattern::Server(server) => format!("{server}*"),
    };
    let verdict = match rule.verdict {
        Verdict::Deny => "denied",
        Verdict::Ask => "asked about",
        Verdict::Allow => "allowed",
    };
    let when = if rule.when.is_empty() {
        ""
    } else {
        " for some arguments"
    };
    format!("tool {name}: {verdict}{when}")
}

pub(super) fn join<T: Display>(items: &[T]) -> String {
    items
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Commands are free text: what would move a terminal is shown as an escape.
pub(super) fn escaped(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_ascii_graphic() || c == ' ' {
                c.to_string()
            } else {
                c.escape_unicode().to_string()
            }
        })
        .collect()
}
