// SPDX-License-Identifier: Apache-2.0
//! What rules with a dialect say, by the slow reference: the registries are written out for the few
//! paths that the worlds have.

use super::Judge;
use crate::faults::Fault;
use torno_policy::Reason;
use torno_policy::facts::Content;
use torno_policy::grant::{AllowRule, Dialect};
use torno_policy::registry::Protocol;

impl<'a> Judge<'a> {
    /// The rules with a dialect that mean this place, however it is spelled.
    pub(super) fn speaking(&self) -> Vec<&'a AllowRule> {
        let mut speaking = Vec::new();
        for rule in &self.world.grant.allow {
            let mut paths = vec![self.facts.path.path().to_owned()];
            for binding in &self.world.bindings {
                if self.usable(binding, |secret| self.in_phase(secret.phase)) {
                    paths.push(self.judged(binding));
                }
            }
            let mut spellings = Vec::new();
            for path in paths {
                for path in [path.replace("%2F", "/"), path] {
                    spellings.push(path.trim_end_matches('/').to_owned());
                    spellings.push(path);
                }
            }
            let named = rule.paths.iter().any(|pattern| {
                let pattern = pattern.to_string();
                spellings
                    .iter()
                    .any(|path| path.starts_with('/') && self.spelled(&pattern, path))
            });
            let place = self.misses(rule).is_some() && self.in_phase(rule.phase);
            if rule.dialect != Dialect::Plain && place && named {
                speaking.push(rule);
            }
        }
        speaking
    }

    fn spelled(&self, pattern: &str, path: &str) -> bool {
        let path: Vec<&str> = path.split('/').collect();
        super::segments_fit(&pattern.split('/').collect::<Vec<_>>(), &path)
    }

    pub(super) fn covered_by_dialect(
        &self,
        speaking: &[&'a AllowRule],
    ) -> Result<Vec<&'a AllowRule>, Reason> {
        let mut paths = false;
        let mut methods = false;
        let mut here = Vec::new();
        for rule in speaking {
            let misses = self.misses(rule).unwrap_or_default();
            paths |= !misses.contains(&Reason::PathNotGranted);
            methods |= !misses.contains(&Reason::MethodNotGranted);
            if misses.is_empty() {
                here.push(*rule);
            }
        }
        if here.is_empty() {
            return Err(match (paths, methods) {
                (false, true) => Reason::PathNotGranted,
                _ => Reason::MethodNotGranted,
            });
        }
        let said: Vec<_> = here.iter().map(|rule| self.says_too_much(rule)).collect();
        if !said.contains(&None) {
            let unread = said.contains(&Some(Reason::ContentUnread));
            return Err(if unread {
                Reason::ContentUnread
            } else {
                Reason::OperationNotGranted
            });
        }
        let fit = |rule: &&AllowRule| self.says_too_much(rule).is_none();
        Ok(here.into_iter().filter(fit).collect())
    }

    pub(super) fn has_path(&self, rule: &AllowRule) -> bool {
        match &rule.dialect {
            Dialect::Registry(registry) => {
                let start = format!("{}/", registry.under);
                self.facts.path.path().starts_with(&start)
            }
            _ => rule.paths.iter().any(|p| self.path_fits(&p.to_string())),
        }
    }

    /// Why the rule has no room for what is done or said, when it has none.
    pub(super) fn says_too_much(&self, rule: &AllowRule) -> Option<Reason> {
        if self.fault == Fault::DialectIgnored {
            return None;
        }
        let method = self.facts.method.as_str();
        let fits = match (&rule.dialect, &self.facts.content) {
            (Dialect::Plain, _) => true,
            (Dialect::Registry(registry), _) => {
                assert_eq!(
                    registry.protocol,
                    Protocol::Npm,
                    "the worlds have npm alone"
                );
                let path = self.facts.path.path();
                let below = path.strip_prefix(&registry.under).unwrap_or(path);
                let names: Vec<&str> = below.split('/').skip(1).collect();
                let plain = !below.contains(['%', '{']);
                let reads = (method == "GET" || method == "HEAD") && names.len() <= 2;
                let named = names.len() == 1 && names != [""];
                plain && (reads || (registry.publish && method == "PUT" && named))
            }
            (Dialect::Graphql(granted), Some(Content::Graphql(said))) => said.iter().all(|one| {
                let word = one.to_string();
                let listed = granted.iter().any(|granted| granted.to_string() == word);
                listed && (word == "query" || method == "POST")
            }),
            (Dialect::Jsonrpc(granted), Some(Content::Jsonrpc(said))) => {
                let named = said.iter().all(|one| {
                    granted.iter().any(|pattern| {
                        let pattern = pattern.to_string();
                        match pattern.strip_suffix('*') {
                            Some(start) => one.as_str().starts_with(start),
                            None => one.as_str() == pattern,
                        }
                    })
                });
                named && said.is_empty() == (method != "POST")
            }
            (Dialect::Aws(granted), Some(Content::Aws(call)))
                if call.protocol == granted.protocol =>
            {
                let listed = |name: &str| granted.actions.iter().any(|one| one.to_string() == name);
                let known = |name: &str| match name {
                    "GetObject" => listed("read") || listed(name),
                    "PutObject" => listed("write") || listed(name),
                    _ => listed(name),
                };
                let mut names = call.actions.iter().map(|action| action.as_str());
                !call.actions.is_empty() && names.all(known)
            }
            (Dialect::Graphql(_) | Dialect::Jsonrpc(_) | Dialect::Aws(_), _) => {
                return Some(Reason::ContentUnread);
            }
        };
        (!fits).then_some(Reason::OperationNotGranted)
    }
}
