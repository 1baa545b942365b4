// SPDX-License-Identifier: Apache-2.0
//! `--template`: what was said must lie within the provider's template, which fills the rest.

use crate::stop::{Outcome, Stop};
use torno_policy::binding::PathPattern;
use torno_policy::binding::template::{self, Filled, Template};
use torno_policy::names::{Host, Method};

/// What the command line says beside the template.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) host: Option<&'a Host>,
    pub(super) methods: &'a [Method],
    pub(super) paths: &'a [PathPattern],
    pub(super) minting: Minting,
}

/// Whether what mints credentials stays denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Minting {
    Denied,
    Allowed,
}

/// The template of this name.
pub(super) fn named(name: &str) -> Result<Template, String> {
    template::named(name).ok_or_else(|| {
        let names = template::all().into_iter().map(|template| template.name);
        let names: Vec<_> = names.collect();
        format!("there are templates for {}", names.join(", "))
    })
}

/// The template, narrowed to what was asked for.
pub(super) fn narrowed(template: &Template, asked: Asked<'_>) -> Outcome<Filled> {
    let name = &template.name;
    let filled = template.fill();
    let mut filled = filled.ok_or_else(|| Stop::new(format!("the template {name} is broken")))?;
    if let Some(host) = asked.host
        && *host != filled.host
    {
        if !filled.elsewhere {
            return Err(outside(name, &format!("the host {host}")));
        }
        filled.host = host.clone();
    }
    if let Some(method) = asked.methods.iter().find(|m| !filled.methods.contains(m)) {
        return Err(outside(name, &format!("the method {method}")));
    }
    let covered = |path: &PathPattern| filled.paths.iter().any(|wide| wide.covers(path));
    if let Some(path) = asked.paths.iter().find(|path| !covered(path)) {
        return Err(outside(name, &format!("the path `{path}`")));
    }
    if !asked.methods.is_empty() {
        filled.methods = asked.methods.to_vec();
    }
    if !asked.paths.is_empty() {
        filled.paths = asked.paths.to_vec();
    }
    if asked.minting == Minting::Allowed {
        filled.denied = Vec::new();
    }
    Ok(filled)
}

fn outside(name: &str, what: &str) -> Stop {
    Stop::new(format!(
        "the template {name} does not have {what}, and nothing widens a template"
    ))
    .next("narrow it further, or bind without a template, which denies nothing by itself")
}
