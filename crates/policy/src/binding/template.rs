// SPDX-License-Identifier: Apache-2.0
//! Provider templates: what a binding to a known provider looks like when nobody narrows it, and
//! above all what it denies – the endpoints that make further credentials or leave authority
//! behind. They are a list of what is known, no proof that nothing else mints.
//!
//! A template fills what was not said. It never widens: what is said must lie within it.

use super::{Denied, Mode, PathPattern, Slot};
use crate::names::{Host, Method};

mod table;

/// A provider's row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Template {
    /// Its name.
    pub name: &'static str,
    host: &'static str,
    /// The same interface is run by others too, under names of their own.
    elsewhere: bool,
    slot: Place,
    mode: Mode,
    methods: &'static str,
    paths: &'static [&'static str],
    denied: &'static [Row],
}

/// Where the credential goes.
#[derive(Debug, Clone, Copy)]
enum Place {
    Bearer,
    Header(&'static str),
    Basic(&'static str),
    Path(&'static str),
}

/// Methods, a path, and the provider's page that says what it does.
#[derive(Debug, Clone, Copy)]
struct Row {
    methods: &'static str,
    path: &'static str,
    page: &'static str,
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
pub fn all() -> impl Iterator<Item = &'static Template> {
    table::TEMPLATES.iter()
}

/// The template of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Template> {
    all().find(|template| template.name == name)
}

impl Template {
    /// The template in the types of a binding. `None` would be a mistake in the table.
    #[must_use]
    pub fn fill(&self) -> Option<Filled> {
        let denied = self.denied.iter().flat_map(|row| {
            let patterns = expanded(row.path).into_iter();
            patterns.map(|path| {
                let (methods, path) = (methods(row.methods)?, path?);
                Some(Denied { methods, path })
            })
        });
        let paths = self.paths.iter().flat_map(|path| expanded(path));
        Some(Filled {
            host: Host::parse(self.host).ok()?,
            elsewhere: self.elsewhere,
            slot: self.slot.slot()?,
            mode: self.mode,
            methods: methods(self.methods)?,
            paths: paths.collect::<Option<_>>()?,
            denied: denied.collect::<Option<_>>()?,
        })
    }

    /// The provider's pages that its denied rows come from.
    pub fn pages(&self) -> impl Iterator<Item = &'static str> {
        self.denied.iter().map(|row| row.page)
    }
}

impl Place {
    fn slot(self) -> Option<Slot> {
        Some(match self {
            Self::Bearer => Slot::Header {
                name: "authorization".to_owned(),
                scheme: Some("Bearer".to_owned()),
            },
            Self::Header(name) => Slot::Header {
                name: name.to_owned(),
                scheme: None,
            },
            Self::Basic(user) => Slot::Basic {
                user: user.to_owned(),
            },
            Self::Path(template) => Slot::Path {
                template: PathPattern::parse(template).ok()?,
            },
        })
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
