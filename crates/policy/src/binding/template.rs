// SPDX-License-Identifier: Apache-2.0
//! Provider templates: what a binding to a known provider looks like when nobody narrows it, and
//! above all what it denies – the endpoints that make further credentials or leave authority
//! behind. They are a list of what is known, no proof that nothing else mints.
//!
//! A template fills what was not said. It never widens: what is said must lie within it.

use super::{Denied, Mode, PathPattern, Slot};
use crate::names::{Host, Method};
use serde::Deserialize;
use std::sync::LazyLock;

const PROVIDERS: &str = include_str!("template/providers.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    template: Vec<Template>,
}

/// A provider's row of the table.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// Its name.
    pub name: String,
    host: String,
    /// The same interface is run by others too, under names of their own.
    #[serde(default)]
    elsewhere: bool,
    /// It runs models: what goes there are transcripts.
    #[serde(default)]
    transcripts: bool,
    slot: Slot,
    mode: Mode,
    methods: Vec<Method>,
    paths: Vec<String>,
    /// Methods, a path, and the provider's page that says what it does.
    denied: Vec<(String, String, String)>,
}

/// A template in the types of a binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filled {
    /// The provider's own host.
    pub host: Host,
    /// Whether the owner may name another host.
    pub elsewhere: bool,
    /// The slot.
    pub slot: Slot,
    /// The mode.
    pub mode: Mode,
    /// The widest methods.
    pub methods: Vec<Method>,
    /// The widest paths.
    pub paths: Vec<PathPattern>,
    /// What is denied.
    pub denied: Vec<Denied>,
}

/// Every template, by name.
#[must_use]
pub fn all() -> Vec<Template> {
    // INVARIANT: the table is part of the program and a test reads it; unread it would be empty,
    // and no template known.
    let table = toml::from_str::<Table>(PROVIDERS);
    table.map(|table| table.template).unwrap_or_default()
}

/// The template of this name.
#[must_use]
pub fn named(name: &str) -> Option<Template> {
    all().into_iter().find(|template| template.name == name)
}

/// Whether this is the host of a provider that runs models.
#[must_use]
pub fn takes_transcripts(host: &Host) -> bool {
    static HOSTS: LazyLock<Vec<Host>> = LazyLock::new(|| {
        let models = all().into_iter().filter(|template| template.transcripts);
        models.filter_map(|t| Host::parse(&t.host).ok()).collect()
    });
    HOSTS.contains(host)
}

impl Template {
    /// The template in the types of a binding. `None` would be a mistake in the table.
    #[must_use]
    pub fn fill(&self) -> Option<Filled> {
        let mut denied = Vec::new();
        for (words, path, _) in &self.denied {
            for path in expanded(path) {
                let (methods, path) = (methods(words)?, path?);
                denied.push(Denied { methods, path });
            }
        }
        let paths = self.paths.iter().flat_map(|path| expanded(path));
        Some(Filled {
            host: Host::parse(&self.host).ok()?,
            elsewhere: self.elsewhere,
            slot: self.slot.clone(),
            mode: self.mode,
            methods: self.methods.clone(),
            paths: paths.collect::<Option<_>>()?,
            denied,
        })
    }

    /// The provider's pages that its denied rows come from.
    pub fn pages(&self) -> impl Iterator<Item = &str> {
        self.denied.iter().map(|(_, _, page)| page.as_str())
    }
}

/// `*` is every method: an empty list.
fn methods(words: &str) -> Option<Vec<Method>> {
    if words == "*" {
        return Some(Vec::new());
    }
    words.split(' ').map(Method::parse).collect()
}

/// `:id` is a project or group, by number or by path: GitLab writes the slashes of a path encoded.
fn expanded(path: &str) -> Vec<Option<PathPattern>> {
    let ways: &[&str] = if path.contains(":id") {
        &["*", "*%2F*", "*%2F*%2F*"]
    } else {
        &[""]
    };
    let pattern = |way: &&str| PathPattern::parse(&path.replace(":id", way)).ok();
    ways.iter().map(pattern).collect()
}

#[cfg(test)]
mod tests;
