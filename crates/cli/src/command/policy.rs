// SPDX-License-Identifier: Apache-2.0
//! `torno policy`: check documents here, show the organisation's policy, and ask which layer and
//! rule would decide a request: in a running session, or tried out on a document.

use crate::context::{Context, say};
use crate::document::{self, Document};
use crate::printable;
use crate::stop::{FOUND_WANTING, Outcome, Stop};
use explain::Explain;
use learn::Learn;
use simulate::Simulate;
use std::path::{Path, PathBuf};
use torno_policy::decision::{Layer, Refusal};
use torno_policy::facts::{Entry, GitFacts, GitOperation, RequestFacts};
use torno_policy::names::{Authority, Endpoint, Method, RequestPath, Scheme};
use torno_policy::organisation::{Organisation, SCHEMA, SHIPPED};

mod explain;
mod learn;
mod simulate;

/// Check documents, show the organisation's policy, and ask which rule would decide
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Policy {
    /// Check a torno.toml, without the daemon; a mistake is shown with its line
    #[command(after_help = "Examples:
  torno policy check
  torno policy check --organisation organisation.cedar")]
    Check {
        /// The file; `torno.toml` of the working directory when left out
        file: Option<PathBuf>,
        /// It is an organisation's policy, in Cedar
        #[arg(long, requires = "file")]
        organisation: bool,
    },
    /// Print the organisation's policy in force, or the schema that it is written against
    #[command(after_help = "Example: torno policy show --schema")]
    Show {
        /// The schema instead
        #[arg(long)]
        schema: bool,
    },
    Explain(Explain),
    Simulate(Simulate),
    Learn(Learn),
}

/// Where a request would go.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    endpoint: Endpoint,
    path: RequestPath,
    websocket: bool,
}

impl Target {
    /// The facts of a plain request to it: no placeholder, no credential of its own; of git what
    /// method and URL say alone.
    fn facts(&self, method: &Method) -> RequestFacts {
        RequestFacts {
            entry: Entry::Captured,
            endpoint: self.endpoint.clone(),
            method: method.clone(),
            path: self.path.clone(),
            websocket: self.websocket,
            presented: Vec::new(),
            own_credentials: Vec::new(),
            git: self.git(method),
            content: None,
            body: None,
        }
    }

    /// What git would do there. A push's references are in its body: `--acts` has them.
    fn git(&self, method: &Method) -> Option<GitFacts> {
        let path = self.path.path();
        let (place, operation) = match (method.as_str(), self.path.query()) {
            ("GET", Some("service=git-upload-pack")) => (
                path.strip_suffix("/info/refs")?,
                GitOperation::DiscoverFetch,
            ),
            ("GET", Some("service=git-receive-pack")) => {
                (path.strip_suffix("/info/refs")?, GitOperation::DiscoverPush)
            }
            ("POST", None) => (path.strip_suffix("/git-upload-pack")?, GitOperation::Fetch),
            _ => return None,
        };
        Some(GitFacts {
            repository: place.strip_suffix(".git").unwrap_or(place).to_owned(),
            operation,
        })
    }
}

/// Runs it.
pub(crate) async fn run(command: &Policy, context: &Context) -> Outcome<u8> {
    match command {
        Policy::Check { file, organisation } => {
            let file = document::named(context, file.as_deref());
            if *organisation {
                check_organisation(&file, context)
            } else {
                check(&file, context)
            }
        }
        Policy::Show { schema: true } => say(SCHEMA).map(|()| 0),
        Policy::Show { schema: false } => say(&printable::lines(&in_force(context)?)).map(|()| 0),
        Policy::Explain(command) => explain::run(command, context).await,
        Policy::Simulate(command) => simulate::run(command, context).await,
        Policy::Learn(command) => learn::run(command, context),
    }
}

fn check(file: &Path, context: &Context) -> Outcome<u8> {
    let document = Document::read(file).map_err(wanting)?;
    let lines = document.lines();
    let mut human: String = lines.iter().map(|line| format!("  {line}\n")).collect();
    let unchecked: Vec<_> = document.presets.iter().map(|(name, _)| name).collect();
    if !unchecked.is_empty() {
        let names: Vec<_> = unchecked.iter().map(|name| format!("`{name}`")).collect();
        human.push_str(&format!(
            "not checked here: preset {}; `torno trust` refuses one that is not confirmed\n",
            names.join(", ")
        ));
    }
    let value =
        serde_json::json!({ "valid": true, "grants": lines, "presets_unchecked": unchecked });
    context.show(&value, &format!("valid; it grants:\n{human}"))?;
    Ok(0)
}

fn check_organisation(file: &Path, context: &Context) -> Outcome<u8> {
    let text = document::read_text(file)?;
    let organisation = Organisation::parse(&text)
        .map_err(|error| wanting(document::invalid(file, &text, &error)))?;
    let rules = organisation.rules();
    let word = |verdict| match verdict {
        torno_policy::grant::Verdict::Allow => "permits",
        torno_policy::grant::Verdict::Ask => "asks",
        torno_policy::grant::Verdict::Deny => "forbids",
    };
    let human: String = rules
        .iter()
        .map(|(name, verdict)| {
            format!(
                "  {:8} {}\n",
                word(*verdict),
                printable::line(name.as_str())
            )
        })
        .collect();
    let value = serde_json::json!({ "valid": true, "rules": rules });
    context.show(&value, &format!("valid; its rules:\n{human}"))?;
    Ok(0)
}

/// A document that was checked and is wrong is a finding, not a failure of ours.
fn wanting(stop: Stop) -> Stop {
    if stop.code.as_deref() == Some("document_invalid") {
        stop.exit(FOUND_WANTING)
    } else {
        stop
    }
}

/// The organisation's own policy, else the shipped one.
fn in_force(context: &Context) -> Outcome<String> {
    let file = context.paths.organisation();
    match file.symlink_metadata() {
        Ok(_) => document::read_text(&file),
        Err(_) => Ok(SHIPPED.to_owned()),
    }
}

/// Layer by layer, then the verdict. The same form for `explain` and `simulate`.
fn show_explanation(
    verdict: &str,
    layers: &[(Layer, String, String)],
    refusal: Option<&Refusal>,
    context: &Context,
) -> Outcome<u8> {
    let mut human = String::new();
    for (layer, said, rule) in layers {
        human.push_str(&format!(
            "{:12}  {:5}  {}\n",
            layer_word(*layer),
            printable::line(said),
            printable::line(rule)
        ));
    }
    human.push_str(&format!("{:12}  {}\n", "verdict", printable::line(verdict)));
    if let Some(refusal) = refusal {
        human.push_str(&format!(
            "{:12}  {}\n{:12}  {}\n",
            "code",
            refusal.reason.code(),
            "next",
            printable::line(&refusal.hint)
        ));
    }
    let value = serde_json::json!({ "verdict": verdict, "layers": layers, "refusal": refusal });
    context.show(&value, &human)?;
    Ok(0)
}

fn layer_word(layer: Layer) -> &'static str {
    match layer {
        Layer::Wire => "wire",
        Layer::Standing => "standing",
        Layer::Organisation => "organisation",
        Layer::Session => "session",
        Layer::Tool => "tool",
        Layer::Vault => "vault",
        Layer::Record => "record",
        Layer::Connect => "connect",
    }
}

/// `http(s)://host[:port][/path][?query]`, `ws(s)://` for a WebSocket, or
/// `postgres://host[:port]/database/user`, by the parsers that the gate itself uses.
fn target(text: &str) -> Result<Target, String> {
    let (scheme, rest) = text.split_once("://").ok_or("a URL begins with https://")?;
    let (scheme, websocket) = match scheme {
        "https" => (Scheme::Https, false),
        "http" => (Scheme::Http, false),
        "wss" => (Scheme::Https, true),
        "ws" => (Scheme::Http, true),
        "postgres" => (Scheme::Postgres, false),
        _ => {
            let rule = "a URL begins with https://, http://, wss://, ws:// or postgres://";
            return Err(rule.to_owned());
        }
    };
    let (authority, path) = match rest.find(['/', '?']) {
        Some(at) => rest.split_at_checked(at).unwrap_or((rest, "")),
        None => (rest, ""),
    };
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    let authority = Authority::parse(authority, scheme).map_err(|error| error.to_string())?;
    let (host, port) = authority.into_parts();
    Ok(Target {
        endpoint: Endpoint { scheme, host, port },
        path: RequestPath::parse_named(&path).map_err(|error| error.to_string())?,
        websocket,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_by_the_gates_own_parsers() {
        let read = |text: &str| target(text).unwrap();
        assert_eq!(read("https://a.example").path.path(), "/");
        assert_eq!(read("http://a.example/x").endpoint.port.number(), 80);
        let socket = read("wss://a.example/x");
        assert_eq!(socket.endpoint.to_string(), "https://a.example:443");
        assert!(socket.websocket && read("ws://a.example").websocket);
        assert!(!read("https://a.example/x").websocket);
        let read = read("https://a.example:8443?q=1");
        assert_eq!(read.endpoint.to_string(), "https://a.example:8443");
        assert_eq!(read.path.query(), Some("q=1"));
        for wrong in [
            "a.example",
            "ftp://a.example",
            "https://u@a.example",
            "https://a.example/../x",
        ] {
            assert!(target(wrong).is_err(), "{wrong}");
        }
    }
}
