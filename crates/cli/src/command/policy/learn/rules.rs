// SPDX-License-Identifier: Apache-2.0
//! Learnt requests → `[[allow]]` rules. A rule is methods × paths, so paths stand in one rule only
//! when exactly the same methods were seen at each: no pair is granted that was not seen. The one
//! exception is a star, which is said with the values that it stands for.

use super::observed::Learnt;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use torno_policy::names::{Endpoint, Method, Scheme};

/// LIMIT: values of a star that are named; the rest is a count.
const VALUES_SHOWN: usize = 4;

/// A pattern with the values of each of its stars.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Pattern {
    segments: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    Exact(String),
    Star(BTreeSet<String>),
}

/// A path, cut at its slashes.
type Segments = Vec<String>;
/// What was seen at each endpoint.
type Seen = BTreeMap<(Endpoint, Method), BTreeSet<Segments>>;
/// Patterns at each endpoint, with the methods that were seen at each.
type Patterns = BTreeMap<(Endpoint, Pattern), BTreeSet<Method>>;
/// Rules, each by its place and methods.
type Rules = BTreeMap<(Endpoint, BTreeSet<Method>), Vec<Pattern>>;

/// The rules, with a comment above each star.
pub(super) fn text(learnt: &[Learnt], stars: usize) -> String {
    let mut seen: Seen = BTreeMap::new();
    for one in learnt {
        let key = (one.endpoint.clone(), one.method.clone());
        let segments = one.path.path().split('/').skip(1);
        let paths = seen.entry(key).or_default();
        paths.insert(segments.map(str::to_owned).collect());
    }
    let mut granted: Patterns = BTreeMap::new();
    for ((endpoint, method), paths) in seen {
        for pattern in patterns(paths, stars) {
            let methods = granted.entry((endpoint.clone(), pattern)).or_default();
            methods.insert(method.clone());
        }
    }
    let mut rules: Rules = BTreeMap::new();
    for ((endpoint, pattern), methods) in granted {
        rules.entry((endpoint, methods)).or_default().push(pattern);
    }
    let mut text = String::new();
    for ((endpoint, methods), patterns) in rules {
        push_rule(&mut text, &endpoint, (&methods, &patterns));
    }
    text
}

/// Where enough values were seen at one place, with everything around it equal, it becomes a star.
fn patterns(paths: BTreeSet<Segments>, stars: usize) -> BTreeSet<Pattern> {
    let exact = |path: Segments| Pattern {
        segments: path.into_iter().map(Segment::Exact).collect(),
    };
    let mut patterns: BTreeSet<_> = paths.into_iter().map(exact).collect();
    if stars < 2 {
        return patterns;
    }
    let longest = patterns.iter().map(|p| p.segments.len()).max().unwrap_or(0);
    for at in 0..longest {
        let mut around: BTreeMap<Vec<Segment>, Vec<Pattern>> = BTreeMap::new();
        for pattern in patterns.iter().filter(|pattern| pattern.may_star(at)) {
            let mut rest = pattern.segments.clone();
            rest.remove(at);
            around.entry(rest).or_default().push(pattern.clone());
        }
        for group in around.into_values().filter(|group| group.len() >= stars) {
            let values = group.iter().filter_map(|pattern| pattern.exact(at));
            let star = Segment::Star(values.map(str::to_owned).collect());
            let Some(mut merged) = group.first().cloned() else {
                continue;
            };
            for pattern in &group {
                patterns.remove(pattern);
            }
            if let Some(segment) = merged.segments.get_mut(at) {
                *segment = star;
            }
            patterns.insert(merged);
        }
    }
    patterns
}

impl Pattern {
    fn exact(&self, at: usize) -> Option<&str> {
        match self.segments.get(at) {
            Some(Segment::Exact(text)) => Some(text),
            Some(Segment::Star(_)) | None => None,
        }
    }

    /// No star stands for an empty segment, or for one with an encoded slash.
    fn may_star(&self, at: usize) -> bool {
        self.exact(at)
            .is_some_and(|text| !text.is_empty() && !text.contains("%2F"))
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for segment in &self.segments {
            text.push('/');
            text.push_str(match segment {
                Segment::Exact(exact) => exact,
                Segment::Star(_) => "*",
            });
        }
        text
    }
}

fn push_rule(
    text: &mut String,
    endpoint: &Endpoint,
    (methods, patterns): (&BTreeSet<Method>, &[Pattern]),
) {
    let stars = patterns.iter().flat_map(|pattern| {
        let stars = pattern.segments.iter().filter_map(|segment| match segment {
            Segment::Star(values) => Some(values),
            Segment::Exact(_) => None,
        });
        stars.map(|values| (pattern.text(), values))
    });
    // Writing to a String can't fail.
    for (pattern, values) in stars {
        let shown: Vec<_> = values
            .iter()
            .take(VALUES_SHOWN)
            .map(String::as_str)
            .collect();
        let _ = writeln!(
            text,
            "# `*` of {pattern} stands for {} values: {}{}",
            values.len(),
            shown.join(", "),
            if values.len() > VALUES_SHOWN {
                " …"
            } else {
                ""
            }
        );
    }
    let _ = writeln!(text, "[[allow]]\nhost = \"{}\"", endpoint.host);
    if endpoint.scheme == Scheme::Http {
        let _ = writeln!(text, "scheme = \"http\"");
    }
    if endpoint.port != endpoint.scheme.default_port() {
        let _ = writeln!(text, "port = {}", endpoint.port);
    }
    // INVARIANT: canonical methods and paths hold neither quotes nor backslashes.
    let quoted = |items: &mut dyn Iterator<Item = String>| {
        items
            .map(|item| format!("\"{item}\""))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let _ = writeln!(
        text,
        "methods = [{}]",
        quoted(&mut methods.iter().map(ToString::to_string))
    );
    let paths = quoted(&mut patterns.iter().map(Pattern::text));
    let _ = writeln!(text, "paths = [{paths}]\n");
}

#[cfg(test)]
mod tests {
    use super::super::observed::{Observed, tests::decided};
    use super::*;
    use torno_policy::Decision;
    use torno_policy::decide::{Layers, decide};
    use torno_policy::document::{self, Presets};
    use torno_policy::facts::Act;
    use torno_policy::names::{Generation, SessionId};
    use torno_policy::organisation::Organisation;
    use torno_policy::standing::{Phase, Standing, State};

    fn observed(requests: &[(&str, &str, &str)]) -> Vec<Learnt> {
        let mut observed = Observed::default();
        for request in requests {
            observed.take(&decided(*request, (Some("host_not_granted"), None)));
        }
        observed.learnt
    }

    fn allows(text: &str, one: &Learnt) -> bool {
        let grant = document::parse(text, &Presets::shipped()).unwrap();
        let standing = Standing {
            session: SessionId::parse("s").unwrap(),
            generation: Generation(1),
            state: State::Running,
            phase: Phase::Locked,
        };
        let layers = Layers {
            standing: Some(&standing),
            asker: Generation(1),
            organisation: &Organisation::shipped(),
            grant: &grant,
            bindings: &[],
            placeholders: &[],
            tripwires: &[],
            now: 0,
        };
        matches!(
            decide(&layers, &Act::Request(one.facts())),
            Decision::Allow(_)
        )
    }

    #[test]
    fn ids_become_a_star_only_when_enough_were_seen_and_that_is_said() {
        let paths: Vec<_> = (0..5).map(|n| format!("/items/{n}/notes")).collect();
        let mut requests: Vec<_> = paths
            .iter()
            .map(|p| ("a.test", "GET", p.as_str()))
            .collect();
        requests.push(("a.test", "POST", "/items/1/notes"));
        let learnt = observed(&requests);
        let text = text(&learnt, 5);
        let expected = "\
            # `*` of /items/*/notes stands for 5 values: 0, 1, 2, 3 …\n\
            [[allow]]\nhost = \"a.test\"\nmethods = [\"GET\"]\npaths = [\"/items/*/notes\"]\n\n\
            [[allow]]\nhost = \"a.test\"\nmethods = [\"POST\"]\npaths = [\"/items/1/notes\"]\n\n";
        assert_eq!(text, expected);
        assert!(!super::text(&learnt, 6).contains('*'));
    }

    #[test]
    fn paths_stand_together_only_with_the_same_methods() {
        let learnt = observed(&[
            ("a.test", "GET", "/x"),
            ("a.test", "GET", "/y"),
            ("a.test", "POST", "/y"),
            ("a.test", "GET", "/z"),
        ]);
        let text = text(&learnt, 5);
        assert!(
            text.contains("methods = [\"GET\"]\npaths = [\"/x\", \"/z\"]"),
            "{text}"
        );
        assert!(
            text.contains("methods = [\"GET\", \"POST\"]\npaths = [\"/y\"]"),
            "{text}"
        );
    }

    /// Reproducible choices (xorshift).
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % bound
        }

        fn request(&mut self, hosts: u64) -> (&'static str, &'static str, String) {
            const HOSTS: [&str; 4] = ["a.test", "b.test", "c.a.test", "never.test"];
            const METHODS: [&str; 3] = ["GET", "POST", "PUT"];
            let host = HOSTS[usize::try_from(self.below(hosts)).unwrap()];
            let method = METHODS[usize::try_from(self.below(3)).unwrap()];
            let parts = 1 + self.below(3);
            let path = (0..parts).map(|_| format!("/{}", self.below(9))).collect();
            (host, method, path)
        }
    }

    #[test]
    fn learnt_rules_allow_what_was_learnt_and_without_a_star_nothing_else() {
        for seed in 1..40 {
            let mut dice = Dice(seed);
            let asked: Vec<_> = (0..40).map(|_| dice.request(3)).collect();
            let asked = asked.iter().map(|(h, m, p)| (*h, *m, p.as_str()));
            let learnt = observed(&asked.collect::<Vec<_>>());
            let (exact, starred) = (text(&learnt, 0), text(&learnt, 3));
            for one in &learnt {
                assert!(allows(&exact, one), "{exact}\n{one}");
                assert!(allows(&starred, one), "{starred}\n{one}");
            }
            for _ in 0..20 {
                let (host, method, path) = dice.request(4);
                let other = observed(&[(host, method, path.as_str())]).remove(0);
                assert_eq!(allows(&exact, &other), learnt.contains(&other), "{exact}");
                assert!(host != "never.test" || !allows(&starred, &other));
            }
        }
    }
}
