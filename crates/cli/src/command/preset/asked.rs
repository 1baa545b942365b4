// SPDX-License-Identifier: Apache-2.0
//! What a client asked for and was refused → the rules that would allow it, no wider than said.

use torno_audit::RequestDecided;
use torno_policy::Reason;
use torno_policy::binding::PathPattern;
use torno_policy::document::{DocumentError, Preset, PresetHost};
use torno_policy::grant::HostPattern;
use torno_policy::names::{Endpoint, Method};

/// A slash inside a segment, as canonical paths spell it.
const ENCODED_SLASH: &str = "%2F";

/// One request that nobody granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    endpoint: Endpoint,
    method: Method,
    path: String,
}

impl Asked {
    /// A refused request that a rule could allow; `None` for what no rule of a preset can.
    pub(super) fn of(decided: &RequestDecided) -> Option<Self> {
        let grantable = matches!(
            decided.reason,
            Some(
                Reason::HostNotGranted
                    | Reason::PortNotGranted
                    | Reason::MethodNotGranted
                    | Reason::PathNotGranted
            )
        );
        let path = decided.path.as_str().to_owned();
        // A path that is too long for the record, or has a literal star, is no pattern.
        (grantable && PathPattern::parse(&path).is_ok()).then(|| Self {
            endpoint: decided.endpoint.clone(),
            method: decided.method.clone(),
            path,
        })
    }
}

/// A refused request in one line.
pub(super) fn shown(decided: &RequestDecided) -> String {
    let reason = decided.reason.map_or("", |reason| reason.code());
    let (method, endpoint) = (&decided.method, &decided.endpoint);
    format!("{method} {endpoint}{} ({reason})", decided.path.as_str())
}

/// What was confirmed, and beside it what was asked for. Reading and each other method have rules
/// of their own, so that a POST to one place does not become a POST to every place that was read;
/// a whole host is for reading only.
pub(super) fn proposal(
    confirmed: Option<&Preset>,
    asked: &[Asked],
    whole_hosts: bool,
) -> Result<Preset, DocumentError> {
    let mut hosts = confirmed.map_or_else(Vec::new, |preset| preset.hosts().to_vec());
    for one in asked {
        let methods = methods_with(&one.method);
        let same = |host: &&mut PresetHost| {
            host.host == HostPattern::Exact(one.endpoint.host.clone())
                && (host.scheme, host.port) == (one.endpoint.scheme, one.endpoint.port)
                && host.methods == methods
        };
        let patterns = patterns(&one.path, whole_hosts && methods.len() > 1);
        match hosts.iter_mut().find(same) {
            Some(host) => patterns.into_iter().for_each(|p| add(&mut host.paths, p)),
            None => {
                let mut paths = Vec::new();
                patterns.into_iter().for_each(|p| add(&mut paths, p));
                hosts.push(PresetHost {
                    host: HostPattern::Exact(one.endpoint.host.clone()),
                    scheme: one.endpoint.scheme,
                    port: one.endpoint.port,
                    methods,
                    paths,
                });
            }
        }
    }
    Preset::of(hosts)
}

fn methods_with(method: &Method) -> Vec<Method> {
    let reading: Vec<_> = ["GET", "HEAD"]
        .into_iter()
        .filter_map(Method::parse)
        .collect();
    if reading.contains(method) {
        reading
    } else {
        vec![method.clone()]
    }
}

fn add(paths: &mut Vec<PathPattern>, pattern: PathPattern) {
    if !paths.iter().any(|known| known.covers(&pattern)) {
        paths.retain(|known| !pattern.covers(known));
        paths.push(pattern);
    }
}

/// The place that a path belongs to: everything below its first segment, or the path itself where
/// it has one segment only. A segment with an encoded slash is spelled out, since no `**` means it.
/// Of a whole host: every path, and as many encoded slashes in the same places.
fn patterns(path: &str, whole_host: bool) -> Vec<PathPattern> {
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let encoded = segments.iter().rposition(|s| s.contains(ENCODED_SLASH));
    let texts = if whole_host {
        let any = |segment: &&str| {
            let parts = segment.split(ENCODED_SLASH).map(|_| "*");
            parts.collect::<Vec<_>>().join(ENCODED_SLASH)
        };
        let upto = encoded.and_then(|at| segments.get(..=at));
        let longer = upto.map(|segments| {
            let segments: Vec<_> = segments.iter().map(any).collect();
            format!("/{}/**", segments.join("/"))
        });
        std::iter::once("/**".to_owned()).chain(longer).collect()
    } else {
        let kept = encoded.unwrap_or(0) + 1;
        match segments.get(..kept) {
            Some(front) if kept < segments.len() => vec![format!("/{}/**", front.join("/"))],
            _ => vec![path.to_owned()],
        }
    };
    let parsed = texts.iter().map(|text| PathPattern::parse(text));
    parsed.filter_map(Result::ok).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use torno_policy::names::{Host, Port, Scheme};

    fn asked(method: &str, host: &str, path: &str) -> Asked {
        Asked {
            endpoint: Endpoint {
                scheme: Scheme::Https,
                host: Host::parse(host).unwrap(),
                port: Port::HTTPS,
            },
            method: Method::parse(method).unwrap(),
            path: path.to_owned(),
        }
    }

    fn paths(asked: &[Asked], whole_hosts: bool) -> Vec<String> {
        let preset = proposal(None, asked, whole_hosts).unwrap();
        let hosts = preset.hosts().iter();
        hosts
            .flat_map(|host| host.paths.iter().map(ToString::to_string))
            .collect()
    }

    #[test]
    fn a_proposal_names_places_and_no_more() {
        let seen = [
            asked("GET", "index.example.org", "/simple/six/"),
            asked("GET", "index.example.org", "/simple/idna/"),
            asked("GET", "index.example.org", "/config.json"),
            asked("GET", "index.example.org", "/@types%2Fnode"),
            asked("GET", "index.example.org", "/x/a%2Fb/c"),
        ];
        let expected = [
            "/simple/**",
            "/config.json",
            "/@types%2Fnode",
            "/x/a%2Fb/**",
        ];
        assert_eq!(paths(&seen, false), expected);
        assert_eq!(paths(&seen, true), ["/**", "/*%2F*/**", "/*/*%2F*/**"]);
        assert_eq!(paths(&[asked("GET", "a.test", "/")], false), ["/"]);
    }

    #[test]
    fn a_write_is_a_rule_of_its_own_and_what_was_confirmed_stays() {
        let text = "[[allow]]\nhost = \"a.test\"\npaths = [\"/simple/**\"]\n";
        let confirmed = Preset::parse(text).unwrap();
        let seen = [
            asked("GET", "a.test", "/packages/x/y"),
            asked("POST", "a.test", "/audit/quick"),
            asked("GET", "b.test", "/z"),
        ];
        let preset = proposal(Some(&confirmed), &seen, false).unwrap();
        let [read, write, other] = preset.hosts() else {
            panic!("{preset:?}")
        };
        let shown = |host: &PresetHost| {
            let paths: Vec<_> = host.paths.iter().map(ToString::to_string).collect();
            (host.methods.len(), paths.join(" "))
        };
        assert_eq!(shown(read), (2, "/simple/** /packages/**".to_owned()));
        assert_eq!(shown(write), (1, "/audit/**".to_owned()));
        assert_eq!(shown(other), (2, "/z".to_owned()));
        let whole = proposal(None, &seen, true).unwrap();
        let [read, write, _] = whole.hosts() else {
            panic!("{whole:?}")
        };
        assert_eq!(shown(read), (2, "/**".to_owned()));
        assert_eq!(shown(write), (1, "/audit/**".to_owned()));
    }
}
