// SPDX-License-Identifier: Apache-2.0
//! Presets: hosts that the operator confirmed for a client, by name. None is shipped: what a
//! client asks for is learnt on the machine where it is used. A preset's text is `[[allow]]` rules
//! in a document's own grammar, kept in one canonical spelling, which the accepted digest of every
//! document covers that names it.

use super::fields::{Fields, Value, list};
use super::{DocumentDigest, DocumentError, TEXT_BYTES_MAX, digest, one_line, rules};
use crate::binding::PathPattern;
use crate::grant::{AllowRule, Dialect, HostPattern};
use crate::names::{Method, Port, PresetName, RuleName, Scheme};
use crate::standing::Phase;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// One host of a preset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresetHost {
    /// The host.
    pub host: HostPattern,
    /// The scheme.
    pub scheme: Scheme,
    /// The port.
    pub port: Port,
    /// Methods; never empty.
    pub methods: Vec<Method>,
    /// Paths; never empty.
    pub paths: Vec<PathPattern>,
}

/// The hosts of one preset; never none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preset(Vec<PresetHost>);

/// LIMIT: hosts of one preset. A client asks a handful; a person reads each before confirming.
const HOSTS_MAX: usize = 32;

impl Preset {
    /// Reads a preset: `[[allow]]` rules without `own_credentials`, `websocket` and further
    /// presets.
    ///
    /// # Errors
    /// The first thing that is wrong with it, with its place.
    pub fn parse(text: &str) -> Result<Self, DocumentError> {
        let at_all = |message: String| DocumentError {
            message,
            span: None,
        };
        if text.len() > TEXT_BYTES_MAX {
            return Err(at_all(format!(
                "a preset has at most {TEXT_BYTES_MAX} bytes"
            )));
        }
        super::refuse_invisible(text)?;
        let root = toml::de::DeTable::parse(text).map_err(|error| DocumentError {
            message: one_line(error.message()),
            span: error.span(),
        })?;
        let root = Fields::of_table(root.get_ref(), 0..0, &["allow"])?;
        let allowed = rules::read(root.get("allow"), "preset", &Presets::shipped())?;
        if allowed.iter().any(|rule| rule.own_credentials) {
            return Err(at_all(
                "a preset lets no credential of the client's own through".to_owned(),
            ));
        }
        if allowed.iter().any(|rule| rule.websocket) {
            return Err(at_all(
                "a preset opens no WebSocket; give this host a rule of its own".to_owned(),
            ));
        }
        if allowed.iter().any(|rule| rule.dialect != Dialect::Plain) {
            return Err(at_all(
                "a preset judges methods and paths alone; give `registry`, `graphql` and \
                 `jsonrpc` a rule of their own"
                    .to_owned(),
            ));
        }
        let hosts = allowed.into_iter().map(|rule| PresetHost {
            host: rule.host,
            scheme: rule.scheme,
            port: rule.port,
            methods: rule.methods,
            paths: rule.paths,
        });
        Self::of(hosts.collect())
    }

    /// A preset of these hosts.
    ///
    /// # Errors
    /// When there is none, or too many.
    pub fn of(hosts: Vec<PresetHost>) -> Result<Self, DocumentError> {
        if (1..=HOSTS_MAX).contains(&hosts.len()) {
            return Ok(Self(hosts));
        }
        Err(DocumentError {
            message: format!("a preset names 1 to {HOSTS_MAX} hosts under [[allow]]"),
            span: None,
        })
    }

    /// Its hosts.
    #[must_use]
    pub fn hosts(&self) -> &[PresetHost] {
        &self.0
    }

    /// Its one spelling: what is stored, shown and covered by digests.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for host in &self.0 {
            let name = match &host.host {
                HostPattern::Exact(host) => host.to_string(),
                HostPattern::OneLabel(suffix) => format!("*.{suffix}"),
            };
            let _ = writeln!(text, "[[allow]]\nhost = \"{name}\"");
            if host.scheme == Scheme::Http {
                let _ = writeln!(text, "scheme = \"http\"");
            }
            if host.port != host.scheme.default_port() {
                let _ = writeln!(text, "port = {}", host.port);
            }
            // INVARIANT: canonical methods and paths hold neither quotes nor backslashes.
            let _ = writeln!(text, "methods = [{}]", quoted(&host.methods));
            let _ = writeln!(text, "paths = [{}]", quoted(&host.paths));
        }
        text
    }

    /// What it allows, one line each, as a grant is described.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let plain = |host| rule(host, RuleName::new("allow"), Phase::Locked);
        self.0
            .iter()
            .map(plain)
            .map(|rule| super::describe::allow(&rule))
            .collect()
    }

    /// The rules that it stands for.
    pub(super) fn rules(&self, name: &PresetName, phase: Phase) -> Vec<AllowRule> {
        let named = |(at, host)| rule(host, RuleName::new(format!("preset.{name}[{at}]")), phase);
        self.0.iter().enumerate().map(named).collect()
    }
}

fn rule(host: &PresetHost, name: RuleName, phase: Phase) -> AllowRule {
    AllowRule {
        name,
        host: host.host.clone(),
        scheme: host.scheme,
        port: host.port,
        methods: host.methods.clone(),
        paths: host.paths.clone(),
        own_credentials: false,
        websocket: false,
        phase,
        dialect: Dialect::Plain,
        transcripts: false,
    }
}

fn quoted<T: ToString>(items: &[T]) -> String {
    let items: Vec<_> = items
        .iter()
        .map(|i| format!("\"{}\"", i.to_string()))
        .collect();
    items.join(", ")
}

/// The presets that a document may name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Presets {
    known: BTreeMap<PresetName, Preset>,
    /// Names count without being looked up.
    unread: bool,
}

impl Presets {
    /// The shipped presets: none.
    #[must_use]
    pub fn shipped() -> Self {
        Self::default()
    }

    /// For who reads the rest of a document and leaves its presets to the notary: every name is
    /// taken, and none gives anything.
    #[must_use]
    pub fn unread() -> Self {
        Self {
            unread: true,
            ..Self::default()
        }
    }

    /// Adds what the operator confirmed, in place of an earlier one of that name.
    #[must_use]
    pub fn with(mut self, name: PresetName, preset: Preset) -> Self {
        self.known.insert(name, preset);
        self
    }

    /// Takes one out.
    #[must_use]
    pub fn without(mut self, name: &PresetName) -> Self {
        self.known.remove(name);
        self
    }

    /// The preset of this name.
    #[must_use]
    pub fn preset(&self, name: &PresetName) -> Option<&Preset> {
        self.known.get(name)
    }

    /// All of them, by name.
    pub fn all(&self) -> impl Iterator<Item = (&PresetName, &Preset)> {
        self.known.iter()
    }

    /// The rules of one; `None` where nobody confirmed it.
    pub(super) fn rules(&self, name: &PresetName, phase: Phase) -> Option<Vec<AllowRule>> {
        match self.known.get(name) {
            Some(preset) => Some(preset.rules(name, phase)),
            None => self.unread.then(Vec::new),
        }
    }
}

/// The presets that a document names. Of a text that is no document: none.
#[must_use]
pub fn presets_named(text: &str) -> BTreeSet<PresetName> {
    let mut names = BTreeSet::new();
    let Ok(root) = toml::de::DeTable::parse(text) else {
        return names;
    };
    let root = root.get_ref();
    let install = root.get("install").and_then(|v| v.get_ref().as_table());
    let lists = [
        root.get("allow"),
        install.and_then(|install| install.get("allow")),
    ];
    for value in lists.into_iter().flatten() {
        names.extend(list(value).into_iter().flatten().filter_map(named));
    }
    names
}

fn named(rule: &Value<'_>) -> Option<PresetName> {
    let preset = rule.get_ref().as_table()?.get("preset")?;
    PresetName::parse(preset.get_ref().as_str()?).ok()
}

/// The digest that `torno trust` accepts: of a document's bytes, and of every preset that it names
/// as that stands now. So a preset that changes later widens nothing that was accepted: the digest
/// is another one, and nobody accepted it.
#[must_use]
pub fn digest_with(text: &str, presets: &Presets) -> DocumentDigest {
    let names = presets_named(text);
    if names.is_empty() {
        return digest(text);
    }
    let mut hash = Sha256::new();
    hash.update(b"torno document with presets\0");
    hash.update(digest(text).0);
    for name in &names {
        // Digests and names without NUL: no two lists give the same bytes.
        let preset = presets.preset(name).map(Preset::text).unwrap_or_default();
        hash.update(name.as_str().as_bytes());
        hash.update(b"\0");
        hash.update(digest(&preset).0);
    }
    DocumentDigest(hash.finalize().into())
}
