// SPDX-License-Identifier: Apache-2.0
//! A binding → the one request that probes it: the narrowest that it covers, with a canary where
//! the credential would stand.

use serde_json::{Value, json};
use std::fmt::Write as _;
use torno_policy::binding::{Binding, PathPattern, Slot};
use torno_policy::names::{CREDENTIAL_WORD, Method, RequestPath, Scheme};

/// What stands for a star of a path.
const SEGMENT: &str = "torno-probe";
/// A canary has no line of its own in it.
const BOUNDARY: &str = "torno-probe-7Q2fP0vWk4ZsX1";

/// One request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Probed<'b> {
    binding: &'b Binding,
    method: &'b Method,
    /// With the canary, where the slot is in it.
    target: String,
    /// The path alone, as a rule names it.
    path: String,
    fields: Vec<(String, String)>,
    body: Option<String>,
}

impl<'b> Probed<'b> {
    /// The request; nothing where the slot is in none of HTTP, or all is denied.
    pub(super) fn of(binding: &'b Binding, canary: &str) -> Option<Self> {
        // The methods with the least effect first.
        let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
        let has_place = |method: &&Method| !binding.has_no_place(method);
        let methods = binding.methods.iter().filter(has_place);
        let method = methods.min_by_key(|method| {
            let at = known.iter().position(|known| *known == method.as_str());
            at.unwrap_or(known.len())
        })?;
        let path = binding.paths.iter().map(concrete).find(|path| {
            let named = RequestPath::parse_named(path);
            named.is_ok_and(|path| !binding.denies(method, &path))
        })?;
        let path = path.replace(CREDENTIAL_WORD, canary);
        let mut made = Self {
            binding,
            method,
            target: path.clone(),
            path,
            fields: Vec::new(),
            body: None,
        };
        made.put(canary).then_some(made)
    }

    /// Puts the canary into the slot's place.
    fn put(&mut self, canary: &str) -> bool {
        let kind = |kind: &str| ("Content-Type".to_owned(), kind.to_owned());
        match &self.binding.slot {
            Slot::Header { name, scheme } => {
                let word = scheme.as_ref().map(|word| format!("{word} "));
                let value = format!("{}{canary}", word.unwrap_or_default());
                self.fields.push((name.clone(), value));
            }
            Slot::Basic { user } => {
                let pair = data_encoding::BASE64.encode(format!("{user}:{canary}").as_bytes());
                let value = format!("Basic {pair}");
                self.fields.push(("Authorization".to_owned(), value));
            }
            Slot::Query { parameter } => {
                self.target = format!("{}?{parameter}={canary}", self.path)
            }
            Slot::Path { .. } => {}
            Slot::Form { field } => {
                self.fields.push(kind("application/x-www-form-urlencoded"));
                self.body = Some(format!("{field}={canary}"));
            }
            Slot::Json { pointer } => {
                self.fields.push(kind("application/json"));
                let names = pointer.names().iter().rev();
                let value =
                    names.fold(json!(canary), |value, name| json!({ name.as_str(): value }));
                self.body = Some(value.to_string());
            }
            Slot::Multipart { part } => {
                self.fields
                    .push(kind(&format!("multipart/form-data; boundary={BOUNDARY}")));
                self.body = Some(format!(
                    "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{part}\"\r\n\r\n\
                     {canary}\r\n--{BOUNDARY}--\r\n"
                ));
            }
            Slot::WebsocketJson { .. } | Slot::Postgres { .. } => return false,
            // The value itself is never sent.
            Slot::Sigv4(_) | Slot::Hmac(_) | Slot::Jwt(_) => return false,
        }
        true
    }

    /// The one rule of the probe's session. A canary is a credential of the client's own there.
    pub(super) fn rule(&self) -> String {
        let endpoint = &self.binding.endpoint;
        let mut text = format!("\n[[allow]]\nhost = \"{}\"\n", endpoint.host);
        // Writing to a String can't fail.
        if endpoint.scheme == Scheme::Http {
            let _ = writeln!(text, "scheme = \"http\"");
        }
        if endpoint.port != endpoint.scheme.default_port() {
            let _ = writeln!(text, "port = {}", endpoint.port);
        }
        let (method, path) = (self.method, &self.path);
        let _ = writeln!(text, "methods = [\"{method}\"]\npaths = [\"{path}\"]");
        text.push_str("own_credentials = true\n");
        text
    }

    /// What the script is told.
    pub(super) fn argument(&self, canary: &str) -> Value {
        let endpoint = &self.binding.endpoint;
        let fields = self.fields.iter();
        let fields = fields.map(|(name, value)| (name.clone(), json!(value)));
        json!({
            "scheme": endpoint.scheme,
            "host": endpoint.host.to_string(),
            "port": endpoint.port.number(),
            "method": self.method.as_str(),
            "target": self.target,
            "fields": fields.collect::<serde_json::Map<_, _>>(),
            "body": self.body,
            "canary": canary,
        })
    }
}

/// The shortest path of a pattern.
fn concrete(pattern: &PathPattern) -> String {
    let text = pattern.to_string();
    let text = match text.strip_suffix("/**") {
        Some("") => "/",
        Some(front) => front,
        None => &text,
    };
    let segments = text.split('/');
    let segments = segments.map(|segment| if segment == "*" { SEGMENT } else { segment });
    segments.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use torno_policy::binding::{Answers, Denied, Mode, Pointer};
    use torno_policy::names::{BindingId, CredentialName, Endpoint, Host, Port, TenantName};

    fn binding(slot: Slot, method: &str, path: &str) -> Binding {
        Binding {
            id: BindingId::parse("b1").unwrap(),
            tenant: TenantName::parse("local").unwrap(),
            credential: CredentialName::parse("c1").unwrap(),
            endpoint: Endpoint {
                scheme: Scheme::Https,
                host: Host::parse("api.test").unwrap(),
                port: Port::new(8443).unwrap(),
            },
            plaintext: false,
            methods: vec![
                Method::parse("DELETE").unwrap(),
                Method::parse(method).unwrap(),
            ],
            paths: vec![PathPattern::parse(path).unwrap()],
            denied: Vec::new(),
            answers: Answers::default(),
            slot,
            mode: Mode::Placeholder,
            expires_at: None,
            revision: 1,
        }
    }

    fn header() -> Slot {
        Slot::Header {
            name: "x-api-key".to_owned(),
            scheme: None,
        }
    }

    #[test]
    fn each_slot_has_the_canary_in_its_place_once() {
        let pointer = Pointer::parse("/d/token").unwrap();
        let template = PathPattern::parse("/bot{credential}/**").unwrap();
        for (slot, method, path, wanted) in [
            (header(), "GET", "/v1/**", "CANARY"),
            (
                Slot::Basic {
                    user: "u".to_owned(),
                },
                "GET",
                "/*/x",
                "Basic dTpDQU5BUlk=",
            ),
            (
                Slot::Query {
                    parameter: "key".to_owned(),
                },
                "GET",
                "/**",
                "/?key=CANARY",
            ),
            (
                Slot::Path { template },
                "GET",
                "/bot{credential}/**",
                "/botCANARY",
            ),
            (
                Slot::Form {
                    field: "secret".to_owned(),
                },
                "POST",
                "/token",
                "secret=CANARY",
            ),
            (
                Slot::Json { pointer },
                "POST",
                "/login",
                "{\\\"d\\\":{\\\"token\\\":\\\"CANARY\\\"}}",
            ),
            (
                Slot::Multipart {
                    part: "token".to_owned(),
                },
                "POST",
                "/up",
                "name=\\\"token\\\"\\r\\n\\r\\nCANARY\\r\\n",
            ),
        ] {
            let binding = binding(slot, method, path);
            let probed = Probed::of(&binding, "CANARY").unwrap();
            let told = probed.argument("not told").to_string();
            assert!(told.contains(wanted), "{told}");
            assert!(told.contains(&format!("\"method\":\"{method}\"")), "{told}");
            let grant = crate::document::parse(&probed.rule());
            let grant = grant.unwrap_or_else(|error| panic!("{}\n{error}", probed.rule()));
            assert!(grant.secrets.is_empty());
            assert_eq!(grant.allow.len(), 1);
            assert_eq!(grant.allow[0].port.number(), 8443);
            assert!(grant.allow[0].own_credentials);
        }
    }

    #[test]
    fn what_is_denied_or_no_http_is_not_probed() {
        let mut all = binding(header(), "GET", "/keys");
        all.denied = vec![Denied {
            methods: Vec::new(),
            path: PathPattern::parse("/keys").unwrap(),
        }];
        assert_eq!(Probed::of(&all, "CANARY"), None);
        all.paths.push(PathPattern::parse("/other/*").unwrap());
        let probed = Probed::of(&all, "CANARY").unwrap();
        assert_eq!(probed.target, "/other/torno-probe");
        let pointer = Pointer::parse("/token").unwrap();
        let socket = Slot::WebsocketJson {
            pointer,
            binary: false,
        };
        assert_eq!(Probed::of(&binding(socket, "GET", "/**"), "CANARY"), None);
    }
}
