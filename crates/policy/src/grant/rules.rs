// SPDX-License-Identifier: Apache-2.0
//! The allow rules of a grant, with an index by endpoint and by how their paths begin: a decision
//! takes as long with a thousand rules as with one. The index only leaves out rules that can't
//! match; whether one does is for who asks.

use super::{AllowRule, Dialect, HostPattern};
use crate::names::{Endpoint, Host, Port, RequestPath, Scheme};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::ops::Deref;

/// Allow rules, in the order of the document.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "Vec<AllowRule>", into = "Vec<AllowRule>")]
pub struct AllowRules {
    rules: Vec<AllowRule>,
    places: HashMap<Place, AtPlace>,
    /// The ports and schemes don't matter here.
    hosts: HashSet<HostPattern>,
}

/// A place that rules name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Place {
    scheme: Scheme,
    port: Port,
    host: HostPattern,
}

/// The rules of one place, by their numbers.
#[derive(Debug, Clone, Default)]
struct AtPlace {
    all: Vec<usize>,
    /// Those with a dialect, whose paths are meant in more than one spelling.
    speaking: Vec<usize>,
    /// The others, by the text that one of their paths begins with.
    plain: HashMap<String, Vec<usize>>,
}

impl AllowRules {
    /// Rules that may be for this endpoint.
    pub(crate) fn at(&self, endpoint: &Endpoint) -> impl Iterator<Item = &AllowRule> {
        let places = self.places_of(endpoint);
        self.named(places.flat_map(|place| &place.all).copied().collect())
    }

    /// Rules with a dialect that may be for this endpoint.
    pub(crate) fn speaking_at(&self, endpoint: &Endpoint) -> impl Iterator<Item = &AllowRule> {
        let places = self.places_of(endpoint);
        self.named(places.flat_map(|place| &place.speaking).copied().collect())
    }

    /// Rules that may be for this endpoint and path.
    pub(crate) fn meaning(
        &self,
        endpoint: &Endpoint,
        path: &RequestPath,
    ) -> impl Iterator<Item = &AllowRule> {
        let path = path.path();
        let mut numbers = Vec::new();
        for place in self.places_of(endpoint) {
            numbers.extend(&place.speaking);
            if place.plain.is_empty() {
                continue;
            }
            // Every beginning that ends before a slash, and the whole.
            let slashes = path.match_indices('/').map(|(at, _)| at);
            for end in slashes.chain([path.len()]) {
                let beginning = path.get(..end).unwrap_or_default();
                numbers.extend(place.plain.get(beginning).into_iter().flatten());
            }
        }
        self.named(numbers)
    }

    /// Whether any rule names the host, at whatever port.
    pub(crate) fn names(&self, host: &Host) -> bool {
        patterns_of(host).any(|pattern| self.hosts.contains(&pattern))
    }

    fn places_of(&self, endpoint: &Endpoint) -> impl Iterator<Item = &AtPlace> {
        let (scheme, port) = (endpoint.scheme, endpoint.port);
        patterns_of(&endpoint.host).filter_map(move |host| {
            let place = Place { scheme, port, host };
            self.places.get(&place)
        })
    }

    /// In the order of the document, each once.
    fn named(&self, mut numbers: Vec<usize>) -> impl Iterator<Item = &AllowRule> {
        numbers.sort_unstable();
        numbers.dedup();
        numbers.into_iter().filter_map(|at| self.rules.get(at))
    }
}

/// The patterns that a host matches.
fn patterns_of(host: &Host) -> impl Iterator<Item = HostPattern> {
    let suffix = host.name().and_then(|name| name.split_once('.'));
    let suffix = suffix.map(|(_, rest)| Host::Name(rest.into()));
    let exact = HostPattern::Exact(host.clone());
    std::iter::once(exact).chain(suffix.map(HostPattern::OneLabel))
}

impl From<Vec<AllowRule>> for AllowRules {
    fn from(rules: Vec<AllowRule>) -> Self {
        let mut places: HashMap<Place, AtPlace> = HashMap::new();
        let mut hosts = HashSet::new();
        for (at, rule) in rules.iter().enumerate() {
            hosts.insert(rule.host.clone());
            let place = Place {
                scheme: rule.scheme,
                port: rule.port,
                host: rule.host.clone(),
            };
            let place = places.entry(place).or_default();
            place.all.push(at);
            if rule.dialect == Dialect::Plain {
                for pattern in &rule.paths {
                    let begun = place.plain.entry(pattern.beginning()).or_default();
                    if begun.last() != Some(&at) {
                        begun.push(at);
                    }
                }
            } else {
                place.speaking.push(at);
            }
        }
        Self {
            rules,
            places,
            hosts,
        }
    }
}

impl FromIterator<AllowRule> for AllowRules {
    fn from_iter<I: IntoIterator<Item = AllowRule>>(rules: I) -> Self {
        Self::from(Vec::from_iter(rules))
    }
}

impl<'a> IntoIterator for &'a AllowRules {
    type Item = &'a AllowRule;
    type IntoIter = std::slice::Iter<'a, AllowRule>;
    fn into_iter(self) -> Self::IntoIter {
        self.rules.iter()
    }
}

impl From<AllowRules> for Vec<AllowRule> {
    fn from(rules: AllowRules) -> Self {
        rules.rules
    }
}

impl Deref for AllowRules {
    type Target = [AllowRule];
    fn deref(&self) -> &[AllowRule] {
        &self.rules
    }
}

impl PartialEq for AllowRules {
    fn eq(&self, other: &Self) -> bool {
        self.rules == other.rules
    }
}

impl Eq for AllowRules {}

#[cfg(test)]
mod tests {
    use crate::document::{Presets, parse};
    use crate::names::{Endpoint, Host, Port, RequestPath, Scheme};

    fn endpoint(host: &str) -> Endpoint {
        Endpoint {
            scheme: Scheme::Https,
            host: Host::parse(host).unwrap(),
            port: Port::HTTPS,
        }
    }

    #[test]
    fn of_a_thousand_rules_only_those_are_looked_at_that_can_match() {
        let mut text = String::new();
        for n in 0..500 {
            text +=
                &format!("[[allow]]\nhost = \"h{n}.example.org\"\npaths = [\"/a\", \"/b/**\"]\n");
            text += &format!(
                "[[allow]]\nhost = \"one.example.org\"\npaths = [\"/repos/acme/app{n}/**\"]\n"
            );
        }
        let rules = parse(&text, &Presets::shipped()).unwrap().allow;
        assert_eq!(rules.len(), 1_000);
        let count = |host: &str, path: &str| {
            let path = RequestPath::parse(path).unwrap();
            rules.meaning(&endpoint(host), &path).count()
        };
        assert_eq!(count("h7.example.org", "/a"), 1);
        assert_eq!(count("h7.example.org", "/b/c/d"), 1);
        assert_eq!(count("h7.example.org", "/c"), 0);
        assert_eq!(count("one.example.org", "/repos/acme/app499/issues/1"), 1);
        assert_eq!(count("one.example.org", "/repos/acme"), 0);
        assert_eq!(count("two.example.org", "/a"), 0);
        assert!(rules.names(&Host::parse("h499.example.org").unwrap()));
        assert!(!rules.names(&Host::parse("h500.example.org").unwrap()));
    }

    #[test]
    fn a_path_is_found_by_every_beginning_a_pattern_may_have() {
        let text = "[[allow]]\nhost = \"*.example.org\"\n\
                    paths = [\"/\", \"/v1/**\", \"/*/x\", \"/a/\", \"/p/*%2Fq\"]\n\
                    [[allow]]\nhost = \"h.example.org\"\n";
        let rules = parse(text, &Presets::shipped()).unwrap().allow;
        for path in ["/", "/v1", "/v1/", "/v1/y/z", "/any/x", "/a/", "/p/o%2Fq"] {
            let path = RequestPath::parse(path).unwrap();
            assert_eq!(rules.meaning(&endpoint("h.example.org"), &path).count(), 2);
            assert_eq!(rules.meaning(&endpoint("g.example.org"), &path).count(), 1);
            assert_eq!(rules.meaning(&endpoint("example.org"), &path).count(), 0);
        }
    }
}
