// SPDX-License-Identifier: Apache-2.0
//! `torno secret bind`: arguments → one row of the vault.

use crate::stop::{Outcome, Stop};
use crate::values;
use torno_policy::binding::{Binding, Mode, PathPattern, Slot};
use torno_policy::names::{
    BindingId, CredentialName, Endpoint, Host, Method, Port, Scheme, TenantName,
};

/// LIMIT: an identifier has at most 64 characters.
const ID_BYTES_MAX: usize = 64;

/// Say where a credential may go: one exact host, and how it is put into a request
///
/// Without more, it goes over https to port 443 of the host, with GET, at every path, as
/// `Authorization: Bearer …`, where the program presented its placeholder.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  torno secret bind api --host api.example.org --method GET --method POST --path '/v1/**'
  torno secret bind key --host api.example.org --header x-api-key --mode inject
  torno secret bind git --host git.example.org --basic x-access-token --method GET --method POST")]
pub(crate) struct Bind {
    /// The credential
    #[arg(value_parser = values::credential)]
    name: CredentialName,
    /// The exact host
    #[arg(long, value_parser = host)]
    host: Host,
    /// The port; 443, or 80 with --plaintext, when left out
    #[arg(long, value_parser = values::port)]
    port: Option<Port>,
    /// A method it may be used with, again for more; GET when left out
    #[arg(long = "method", value_name = "METHOD", value_parser = values::method)]
    methods: Vec<Method>,
    /// A path it may be used at (`/v1/**`), again for more; every path when left out
    #[arg(long = "path", value_name = "PATTERN", value_parser = values::path)]
    paths: Vec<PathPattern>,
    /// The header field it goes into; `authorization` when left out
    #[arg(long, value_name = "FIELD", conflicts_with = "basic")]
    header: Option<String>,
    /// The word before it in the header; `Bearer` in `authorization`, nothing in other fields
    #[arg(long, value_name = "WORD", conflicts_with = "basic")]
    scheme: Option<String>,
    /// It is the password of this user, as `Authorization: Basic …` (git over https)
    #[arg(long, value_name = "USER")]
    basic: Option<String>,
    /// When it is put in; `placeholder_or_inject` with --basic, else `placeholder`
    #[arg(long, value_enum)]
    mode: Option<When>,
    /// The endpoint is http: the credential crosses the network in the clear
    #[arg(long)]
    plaintext: bool,
    /// The binding stops counting after this time, as in 30d
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    expires: Option<u64>,
    /// The binding's own name; the same name replaces it
    #[arg(long, value_parser = values::binding)]
    id: Option<BindingId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
enum When {
    /// Only where the program presented the placeholder
    Placeholder,
    /// Where it presented the placeholder or nothing
    PlaceholderOrInject,
    /// Always
    Inject,
}

impl Bind {
    /// The row. Its revision is the vault's to set.
    pub(super) fn binding(&self, now: u64) -> Outcome<Binding> {
        let scheme = if self.plaintext {
            Scheme::Http
        } else {
            Scheme::Https
        };
        let slot = match &self.basic {
            Some(user) => Slot::Basic { user: user.clone() },
            None => self.header_slot(),
        };
        let mode = match (self.mode, &slot) {
            (Some(When::Placeholder), _) | (None, Slot::Header { .. }) => Mode::Placeholder,
            (Some(When::PlaceholderOrInject), _) | (None, Slot::Basic { .. }) => {
                Mode::PlaceholderOrInject
            }
            (Some(When::Inject), _) => Mode::Inject,
        };
        let binding = Binding {
            id: self.id.clone().map_or_else(|| self.derived_id(), Ok)?,
            // An embedded vault has the one tenant.
            tenant: TenantName::parse("local")
                .map_err(|error| Stop::new("no tenant").because(&error))?,
            credential: self.name.clone(),
            endpoint: Endpoint {
                scheme,
                host: self.host.clone(),
                port: self.port.unwrap_or_else(|| scheme.default_port()),
            },
            plaintext: self.plaintext,
            methods: or_default(&self.methods, || Method::parse("GET")),
            paths: or_default(&self.paths, || PathPattern::parse("/**").ok()),
            slot,
            mode,
            expires_at: self.expires.map(|seconds| now.saturating_add(seconds)),
            revision: 0,
        };
        binding.check().map_err(|error| {
            Stop::new("no credential can be bound like this")
                .because(&error)
                .next("see `torno secret bind --help`")
        })?;
        Ok(binding)
    }

    fn header_slot(&self) -> Slot {
        let name = self.header.as_deref().unwrap_or("authorization");
        let bearer = (name == "authorization").then(|| "Bearer".to_owned());
        Slot::Header {
            name: name.to_owned(),
            scheme: self.scheme.clone().or(bearer),
        }
    }

    /// `api-api.example.org`: the same credential at the same host is the same binding.
    fn derived_id(&self) -> Outcome<BindingId> {
        let text = format!("{}-{}", self.name, self.host).replace(['[', ']', ':'], "-");
        BindingId::parse(&text).map_err(|error| {
            Stop::new(format!(
                "a binding's name has at most {ID_BYTES_MAX} characters"
            ))
            .because(&error)
            .next("give it one with `--id`")
        })
    }
}

fn or_default<T: Clone>(given: &[T], default: impl Fn() -> Option<T>) -> Vec<T> {
    if given.is_empty() {
        default().into_iter().collect()
    } else {
        given.to_vec()
    }
}

fn host(text: &str) -> Result<Host, String> {
    let host = Host::parse(text).map_err(|error| error.to_string())?;
    if host.to_string() == text {
        Ok(host)
    } else {
        Err(format!("write it as `{host}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        bind: Bind,
    }

    fn bind(arguments: &[&str]) -> Outcome<Binding> {
        let all = ["torno", "api", "--host", "api.example.org"];
        let line = Line::try_parse_from(all.iter().chain(arguments)).unwrap();
        line.bind.binding(1_000)
    }

    #[test]
    fn the_defaults_are_the_narrow_ones_that_help_names() {
        let row = bind(&[]).unwrap();
        assert_eq!(row.id.as_str(), "api-api.example.org");
        assert_eq!(row.endpoint.to_string(), "https://api.example.org:443");
        assert_eq!(row.methods, [Method::parse("GET").unwrap()]);
        assert_eq!(row.paths, [PathPattern::parse("/**").unwrap()]);
        let scheme = Some("Bearer".to_owned());
        let name = "authorization".to_owned();
        assert_eq!(row.slot, Slot::Header { name, scheme });
        assert_eq!((row.mode, row.expires_at), (Mode::Placeholder, None));
    }

    #[test]
    fn basic_is_for_git_and_another_header_has_no_word() {
        let row = bind(&["--basic", "x-access-token", "--expires", "1h"]).unwrap();
        assert_eq!(row.mode, Mode::PlaceholderOrInject);
        assert_eq!(row.expires_at, Some(4_600));
        let row = bind(&["--header", "x-api-key", "--mode", "inject"]).unwrap();
        let name = "x-api-key".to_owned();
        assert_eq!(row.slot, Slot::Header { name, scheme: None });
        assert_eq!(row.mode, Mode::Inject);
    }

    #[test]
    fn what_the_vault_would_refuse_is_refused_here() {
        assert!(bind(&["--header", "host"]).is_err());
        assert!(bind(&["--basic", "a:b"]).is_err());
        let row = bind(&["--plaintext"]).unwrap();
        assert_eq!(row.endpoint.to_string(), "http://api.example.org:80");
    }
}
