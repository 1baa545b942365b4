// SPDX-License-Identifier: Apache-2.0
//! `[secret.NAME]` and `[git."URL"]`: they select and narrow bindings of the vault; neither says
//! where a credential may go.

use super::fields::{Entry, Fields, Value, entries, fail, some_of, text, word};
use super::{DocumentError, files, rules};
use crate::grant::{GitGrant, SecretGrant};
use crate::names::{Authority, CredentialName, Endpoint, RequestPath, RuleName, Scheme};
use crate::postgres::Access;
use crate::standing::Phase;
use std::ops::Range;

pub(super) fn read(value: Option<&Value<'_>>) -> Result<Vec<SecretGrant>, DocumentError> {
    let mut secrets = Vec::new();
    for Entry {
        key: name,
        span,
        value,
    } in value.map(entries).transpose()?.unwrap_or_default()
    {
        let credential = credential(name, span)?;
        let fields = Fields::of(value, &["env", "narrow", "access", "phase"])?;
        let env = match fields.get("env") {
            Some(value) => Some(files::variable(text(value)?, value.span())?),
            None => None,
        };
        let narrow = match fields.get("narrow") {
            Some(value) => Some(Fields::of(value, &["methods", "paths"])?),
            None => None,
        };
        let narrow = narrow.as_ref();
        let methods = narrow
            .and_then(|narrow| narrow.get("methods"))
            .map(rules::methods);
        let paths = narrow
            .and_then(|narrow| narrow.get("paths"))
            .map(rules::paths);
        let phase = match fields.get("phase") {
            Some(value) => word(
                value,
                &[("locked", Phase::Locked), ("install", Phase::Install)],
            )?,
            None => Phase::Locked,
        };
        let (methods, paths) = (methods.transpose()?, paths.transpose()?);
        let methods = match fields.get("access") {
            Some(value) if narrow.is_some() => {
                return fail(value.span(), "say access of a database, or narrow of HTTP");
            }
            Some(value) => Some(access(value)?.methods()),
            None => methods,
        };
        secrets.push(SecretGrant {
            credential,
            env,
            methods,
            paths,
            phase,
        });
    }
    Ok(secrets)
}

/// How far a connection to a database may go.
fn access(value: &Value<'_>) -> Result<Access, DocumentError> {
    word(value, &[("read", Access::Read), ("write", Access::Write)])
}

fn credential(name: &str, span: Range<usize>) -> Result<CredentialName, DocumentError> {
    CredentialName::parse(name).or_else(|error| fail(span, error.to_string()))
}

/// No variable is set twice: the later value would hide the earlier one.
pub(super) fn check_variables(
    secrets: &[SecretGrant],
    env: &[(String, String)],
    place: Option<&Value<'_>>,
) -> Result<(), DocumentError> {
    let mut names: Vec<_> = secrets
        .iter()
        .filter_map(|secret| secret.env.as_deref())
        .collect();
    names.extend(env.iter().map(|(name, _)| name.as_str()));
    names.sort_unstable();
    let twice = names.windows(2).find_map(|pair| match pair {
        [first, second] if first == second => Some(*first),
        _ => None,
    });
    match twice {
        Some(name) => Err(DocumentError {
            message: format!("`{name}` is set twice; rename one"),
            span: place.map(|place| place.span()),
        }),
        None => Ok(()),
    }
}

pub(super) fn read_git(value: Option<&Value<'_>>) -> Result<Vec<GitGrant>, DocumentError> {
    let mut grants: Vec<GitGrant> = Vec::new();
    for Entry {
        key: url,
        span,
        value,
    } in value.map(entries).transpose()?.unwrap_or_default()
    {
        let (endpoint, repository) = repository(url, span.clone())?;
        let same = |grant: &GitGrant| grant.endpoint == endpoint && grant.repository == repository;
        if grants.iter().any(same) {
            return fail(span, "this repository has a section already; merge them");
        }
        let fields = Fields::of(value, &["secret", "fetch", "push"])?;
        let secret = match fields.get("secret") {
            Some(value) => Some(credential(text(value)?, value.span())?),
            None => None,
        };
        let fetch = fields.allows("fetch")?;
        let (push_refs, delete) = fields
            .get("push")
            .map(push)
            .transpose()?
            .unwrap_or_default();
        if !fetch && push_refs.is_empty() {
            return fail(
                span,
                "this section allows nothing; say fetch = \"allow\" or push = { refs = […] }",
            );
        }
        let name = RuleName::new(format!(
            "git.\"https://{}{repository}\"",
            authority(&endpoint)
        ));
        grants.push(GitGrant {
            name,
            endpoint,
            repository,
            secret,
            fetch,
            push_refs,
            delete,
        });
    }
    Ok(grants)
}

fn authority(endpoint: &Endpoint) -> String {
    if endpoint.port == endpoint.scheme.default_port() {
        endpoint.host.to_string()
    } else {
        format!("{}:{}", endpoint.host, endpoint.port)
    }
}

// ATTACK: 019
fn repository(url: &str, span: Range<usize>) -> Result<(Endpoint, String), DocumentError> {
    let rule = "a repository is `https://host/owner/name`, without user, query or final slash";
    let parts = url
        .strip_prefix("https://")
        .and_then(|rest| rest.find('/').map(|at| rest.split_at(at)));
    let Some((authority, path)) = parts else {
        return fail(span, rule);
    };
    let authority = match Authority::parse(authority, Scheme::Https) {
        Ok(authority) => authority,
        Err(error) => return fail(span, error.to_string()),
    };
    let path = match RequestPath::parse(path) {
        Ok(path)
            if path.query().is_none()
                && path.decoded().is_none()
                && !path.path().ends_with('/') =>
        {
            path
        }
        Ok(_) => return fail(span, rule),
        Err(error) => return fail(span, error.to_string()),
    };
    let repository = path
        .path()
        .strip_suffix(".git")
        .unwrap_or_else(|| path.path());
    if repository.is_empty() || repository.ends_with('/') {
        return fail(span, rule);
    }
    let (host, port) = authority.into_parts();
    Ok((
        Endpoint {
            scheme: Scheme::Https,
            host,
            port,
        },
        repository.to_owned(),
    ))
}

fn push(value: &Value<'_>) -> Result<(Vec<String>, bool), DocumentError> {
    if let Some(force) = entries(value)?
        .into_iter()
        .find(|entry| entry.key == "force")
    {
        let rule = "`force` can't be kept: whether an update is a fast-forward is not visible on \
                    the wire; protect the branch at the server, or list other refs";
        return fail(force.span, rule);
    }
    let fields = Fields::of(value, &["refs", "delete"])?;
    let refs = some_of(fields.require("refs")?, reference)?;
    Ok((refs, fields.allows("delete")?))
}

/// `refs/heads/agent/*`: `*` is one segment, a last `**` the rest.
fn reference(value: &Value<'_>) -> Result<String, DocumentError> {
    let given = text(value)?;
    let segments: Vec<_> = given.split('/').collect();
    let known =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | '@' | '#');
    let fits = |(at, segment): (usize, &&str)| match *segment {
        "*" => true,
        "**" => at + 1 == segments.len(),
        "" | "." | ".." => false,
        exact => exact.chars().all(known),
    };
    let begins = segments.first() == Some(&"refs") && segments.len() > 2;
    // LIMIT: git itself refuses names near PATH_MAX; 255 is more than any branch has.
    if given.len() > 255 || !begins || !segments.iter().enumerate().all(fits) {
        let rule =
            "a reference is a full name such as `refs/heads/agent/*`; `*` is one whole segment";
        return fail(value.span(), rule);
    }
    if matches!(segments.get(1), Some(&("*" | "**"))) {
        return fail(
            value.span(),
            "name the kind of reference, as in `refs/heads/…` or `refs/tags/…`",
        );
    }
    Ok(given.to_owned())
}
