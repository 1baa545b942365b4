// SPDX-License-Identifier: Apache-2.0
//! What a new grant gives beyond an old one: the lines that `torno trust` shows. Conservative: a
//! change that can't be told to narrow is shown.

use super::describe;
use crate::binding::PathPattern;
use crate::facts::AwsPattern;
use crate::grant::{
    AllowRule, Dialect, GitGrant, Grant, HostPattern, Limits, SandboxGrant, SecretGrant, ToolRule,
    Verdict, WorkspaceMode,
};
use crate::names::Method;
use std::collections::BTreeSet;

/// One line for each thing that `new` gives and `old` did not.
#[must_use]
pub fn widens(old: &Grant, new: &Grant) -> Vec<String> {
    let mut lines = sandbox(&old.sandbox, &new.sandbox);
    if new.install != old.install
        && let Some(install) = &new.install
    {
        let commands: Vec<_> = install
            .run
            .iter()
            .map(|command| command.join(" "))
            .collect();
        let commands = describe::escaped(&commands.join("; "));
        lines.push(format!(
            "installs with: {commands}, seeing: {}",
            install.see.join(", ")
        ));
    }
    let wider = new.allow.iter().filter(|rule| !covers(&old.allow, rule));
    lines.extend(wider.map(describe::allow));
    let wider = new
        .secrets
        .iter()
        .filter(|secret| !has_secret(&old.secrets, secret));
    lines.extend(wider.map(describe::secret));
    let wider = new.git.iter().filter(|git| !has_git(&old.git, git));
    lines.extend(wider.map(describe::git));
    // Git requests at an endpoint fall back to its other rules when its last git grant goes.
    let dropped = |git: &&GitGrant| !new.git.iter().any(|other| other.endpoint == git.endpoint);
    let still = |git: &&GitGrant| {
        !new.secrets.is_empty()
            || new.allow.iter().any(|rule| {
                matches_host(&rule.host, &HostPattern::Exact(git.endpoint.host.clone()))
            })
    };
    let loose = old.git.iter().filter(dropped).filter(still);
    lines.extend(loose.map(|git| format!("no longer limits git at {}", git.endpoint)));
    lines.extend(no_longer_judged(old, new));
    lines.extend(own_credentials(old, new));
    lines.extend(tools(&old.tools, &new.tools));
    lines
}

/// What goes to the place of a rule with a dialect falls back to other rules, and to bindings, when
/// the last such rule there goes.
fn no_longer_judged(old: &Grant, new: &Grant) -> Vec<String> {
    let judged = |rule: &&AllowRule| rule.dialect != Dialect::Plain;
    let kept = |rule: &&AllowRule| {
        rule.paths.iter().all(|path| {
            new.allow.iter().filter(judged).any(|other| {
                other.phase == rule.phase
                    && other.scheme == rule.scheme
                    && other.port == rule.port
                    && matches_host(&other.host, &rule.host)
                    && other.paths.iter().any(|wide| wide.covers(path))
            })
        })
    };
    let gone = old.allow.iter().filter(judged).filter(|rule| !kept(rule));
    gone.map(|rule| format!("no longer limited to: {}", describe::allow(rule)))
        .collect()
}

/// A credential of the session keeps the client's own off the hosts that it is bound to. When it
/// goes, a rule with `own_credentials` may begin to count there.
fn own_credentials(old: &Grant, new: &Grant) -> Vec<String> {
    let names = |grant: &Grant| {
        let secrets = grant.secrets.iter().map(|secret| secret.credential.clone());
        let git = grant.git.iter().filter_map(|git| git.secret.clone());
        secrets.chain(git).collect::<BTreeSet<_>>()
    };
    if !new.allow.iter().any(|rule| rule.own_credentials) {
        return Vec::new();
    }
    let dropped = names(old)
        .into_iter()
        .filter(|name| !names(new).contains(name));
    let line = |name| format!("the client's own credentials may go where {name} is bound");
    dropped.map(line).collect()
}

fn sandbox(old: &SandboxGrant, new: &SandboxGrant) -> Vec<String> {
    let mut lines = Vec::new();
    if new.isolation != old.isolation {
        let (was, is) = (
            describe::isolation(old.isolation),
            describe::isolation(new.isolation),
        );
        lines.push(format!("isolation changes from {was} to {is}"));
    }
    if new.image != old.image {
        lines.push(format!(
            "image changes from {} to {}",
            old.image.spelling(),
            new.image.spelling()
        ));
    }
    if new.emulation && !old.emulation {
        lines.push("may be emulated, which is no boundary".to_owned());
    }
    if new.workspace != old.workspace && new.workspace != WorkspaceMode::None {
        lines.push(format!(
            "workspace is {}",
            describe::workspace(new.workspace)
        ));
    }
    let also = new
        .also
        .iter()
        .filter(|directory| !old.also.contains(directory));
    lines.extend(also.map(|directory| format!("shows of the host: {directory}")));
    match (&old.files.write, &new.files.write) {
        (_, None) if old.files.write.is_none() => {}
        (Some(_), None) => lines.push("writes everywhere in the workspace".to_owned()),
        (old, Some(new)) => {
            let old = old.as_deref();
            let wider = new
                .iter()
                .filter(|rule| !old.is_none_or(|old| covers_file(old, rule)));
            lines.extend(wider.map(|rule| format!("writes {rule}")));
        }
        (None, None) => {}
    }
    let shown = old
        .files
        .hide
        .iter()
        .filter(|rule| !covers_file(&new.files.hide, rule));
    lines.extend(shown.map(|rule| format!("no longer hides {rule}")));
    let set = new
        .env
        .iter()
        .filter(|variable| !old.env.contains(variable));
    lines.extend(set.map(|(name, _)| format!("sets {name}")));
    if old.tripwires && !new.tripwires {
        lines.push("stands without tripwires".to_owned());
    }
    lines.extend(limits(&old.limits, &new.limits));
    lines
}

fn limits(old: &Limits, new: &Limits) -> Vec<String> {
    let (was, is) = (&old.each_host, &new.each_host);
    let pairs = [
        ("wall time", old.wall_seconds, new.wall_seconds, "s"),
        ("idle time", old.idle_seconds, new.idle_seconds, "s"),
        ("CPU", old.cpu_milli, new.cpu_milli, "/1000"),
        ("memory", old.memory_bytes, new.memory_bytes, " bytes"),
        ("processes", old.pids, new.pids, ""),
        ("disk", old.disk_bytes, new.disk_bytes, " bytes"),
        ("egress", old.egress_bytes, new.egress_bytes, " bytes"),
        ("records", old.records, new.records, ""),
        ("requests", old.requests, new.requests, ""),
        ("rate", old.rate, new.rate, "/s"),
        ("ingress", old.ingress_bytes, new.ingress_bytes, " bytes"),
        ("streams", old.streams, new.streams, ""),
        ("requests to one host", was.requests, is.requests, ""),
        (
            "egress to one host",
            was.egress_bytes,
            is.egress_bytes,
            " bytes",
        ),
        (
            "ingress from one host",
            was.ingress_bytes,
            is.ingress_bytes,
            " bytes",
        ),
        ("streams to one host", was.streams, is.streams, ""),
    ];
    let raised = pairs.into_iter().filter(|(_, old, new, _)| new > old);
    raised
        .map(|(name, old, new, unit)| format!("{name} from {old} to {new}{unit}"))
        .collect()
}

fn covers_file(rules: &[String], wanted: &str) -> bool {
    let below = |rule: &str, path: &str| {
        rule.strip_suffix("**")
            .is_some_and(|directory| path.starts_with(directory))
    };
    rules
        .iter()
        .any(|rule| rule == wanted || below(rule, wanted))
}

/// Whether each pair of method and path of the rule is in some old rule: pairs, never the product.
fn covers(old: &[AllowRule], rule: &AllowRule) -> bool {
    let has = |method: &Method, path: &PathPattern| {
        old.iter().any(|old| {
            old.phase == rule.phase
                && old.scheme == rule.scheme
                && old.port == rule.port
                && matches_host(&old.host, &rule.host)
                && (old.own_credentials || !rule.own_credentials)
                && (old.websocket || !rule.websocket)
                && (old.transcripts || !rule.transcripts)
                && old.methods.contains(method)
                && speaks(&old.dialect, &rule.dialect)
                && old.paths.iter().any(|wide| wide.covers(path))
        })
    };
    rule.methods
        .iter()
        .all(|method| rule.paths.iter().all(|path| has(method, path)))
}

/// Whether a rule of the old dialect lets everything through that one of the new does.
fn speaks(old: &Dialect, new: &Dialect) -> bool {
    match (old, new) {
        (Dialect::Plain, _) => true,
        (Dialect::Registry(old), Dialect::Registry(new)) => {
            old.protocol == new.protocol && old.under == new.under && (old.publish || !new.publish)
        }
        (Dialect::Graphql(old), Dialect::Graphql(new)) => {
            new.iter().all(|operation| old.contains(operation))
        }
        (Dialect::Jsonrpc(old), Dialect::Jsonrpc(new)) => new
            .iter()
            .all(|pattern| old.iter().any(|old| old.covers(pattern))),
        (Dialect::Aws(old), Dialect::Aws(new)) => {
            let covered = |one: &AwsPattern| old.actions.iter().any(|wide| wide.covers(one));
            (&old.service, old.protocol) == (&new.service, new.protocol)
                && new.actions.iter().all(covered)
        }
        (Dialect::Registry(_) | Dialect::Graphql(_) | Dialect::Jsonrpc(_) | Dialect::Aws(_), _) => {
            false
        }
    }
}

fn matches_host(wide: &HostPattern, narrow: &HostPattern) -> bool {
    match (wide, narrow) {
        (HostPattern::OneLabel(suffix), HostPattern::Exact(host)) => {
            let rest = host
                .name()
                .and_then(|name| name.split_once('.'))
                .map(|(_, rest)| rest);
            rest.is_some() && rest == suffix.name()
        }
        (HostPattern::Exact(_), _) | (HostPattern::OneLabel(_), HostPattern::OneLabel(_)) => {
            wide == narrow
        }
    }
}

fn has_secret(old: &[SecretGrant], secret: &SecretGrant) -> bool {
    let methods = |old: &SecretGrant| match (&old.methods, &secret.methods) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(old), Some(new)) => new.iter().all(|method| old.contains(method)),
    };
    let paths = |old: &SecretGrant| match (&old.paths, &secret.paths) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(old), Some(new)) => new
            .iter()
            .all(|path| old.iter().any(|old| old.covers(path))),
    };
    old.iter().any(|old| {
        old.credential == secret.credential
            && old.phase == secret.phase
            && methods(old)
            && paths(old)
    })
}

fn has_git(old: &[GitGrant], git: &GitGrant) -> bool {
    old.iter().any(|old| {
        old.endpoint == git.endpoint
            && old.repository == git.repository
            && old.secret == git.secret
            && (old.fetch || !git.fetch)
            && (old.delete || !git.delete)
            && git
                .push_refs
                .iter()
                .all(|name| old.push_refs.contains(name))
    })
}

fn tools(old: &[ToolRule], new: &[ToolRule]) -> Vec<String> {
    let same = |a: &ToolRule, b: &ToolRule| a.tool == b.tool && a.when == b.when;
    let has = |old: &ToolRule, rule: &ToolRule| same(old, rule) && old.verdict >= rule.verdict;
    let given = new.iter().filter(|rule| rule.verdict != Verdict::Deny);
    let given = given.filter(|rule| !old.iter().any(|old| has(old, rule)));
    let mut lines: Vec<_> = given.map(describe::tool).collect();
    let gone = old.iter().filter(|rule| rule.verdict != Verdict::Allow);
    let gone = gone.filter(|rule| !new.iter().any(|new| same(new, rule)));
    lines.extend(gone.map(|rule| format!("no longer: {}", describe::tool(rule))));
    lines
}
