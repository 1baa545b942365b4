// SPDX-License-Identifier: Apache-2.0
//! `torno secret bind`: arguments → one row of the vault.

mod claims;
mod database;
mod kept;
mod keyed;
mod signed;
mod template;

use crate::stop::{Outcome, Stop};
use crate::values;
use claims::Claims;
use database::Database;
use kept::Kept;
use keyed::Keyed;
use signed::Signed;
use template::{Asked, Minting};
use torno_policy::binding::template::Template;
use torno_policy::binding::{Binding, Mode, PathPattern, Pointer, Slot};
use torno_policy::names::{
    BindingId, CredentialName, Endpoint, Host, Method, Port, Scheme, TenantName,
};

/// LIMIT: an identifier has at most 64 characters.
const ID_BYTES_MAX: usize = 64;

/// Say where a credential may go: one exact host, and how it is put into a request
///
/// Without more, it goes over https to port 443 of the host, with GET, at every path, as
/// `Authorization: Bearer …`, where the program presented its placeholder. With a template it is
/// what the provider's template says, and what makes further credentials there is denied.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  torno secret bind api --host api.example.org --method GET --method POST --path '/v1/**'
  torno secret bind key --host api.example.org --header x-api-key --mode inject
  torno secret bind github --template github --path '/repos/acme/app/**'
  torno secret bind maps --host maps.example.org --in query:key
  torno secret bind bot --host bots.example.org --in 'path:/bot{credential}/**'
  torno secret bind app --host login.example.org --path /oauth/token --in form:client_secret
  torno secret bind bot --host gateway.example.org --in ws.json:/d/token
  torno secret bind shop --host shop.example.org --in form:password --cookies broker \
      --method POST --method GET --path /login --path '/account/**'
  torno secret bind app --host login.example.org --basic client --mode placeholder \
      --method POST --path /oauth/token --token-endpoint /oauth/token
  torno secret bind s3 --host s3.eu-central-1.amazonaws.com --path '/bucket/**' \
      --sigv4 AKIAIOSFODNN7EXAMPLE --region eu-central-1 --service s3
  torno secret bind hook --host hooks.example.org --path /hook \
      --hmac 'v0:{timestamp}:{body}' --sends 'X-Request-Timestamp: {timestamp}' \
      --sends 'X-Signature: v0={hex}'
  torno secret bind app --host api.github.com --path /app --jwt RS256 --issuer 123456
  torno secret bind git --host git.example.org --basic x-access-token --method GET --method POST
  torno secret bind db --host db.example.org --postgres --user app --database shop --access read")]
pub(crate) struct Bind {
    /// The credential
    #[arg(value_parser = values::credential)]
    name: CredentialName,
    /// The exact host; the template's when left out
    #[arg(long, value_parser = host, required_unless_present = "template")]
    host: Option<Host>,
    /// A provider: anthropic, github, gitlab, npm, openai, pypi, slack, stripe or telegram
    ///
    /// It fills host, place, methods and paths, and denies what mints credentials there or leaves
    /// authority behind. Methods and paths that are given narrow it.
    #[arg(
        long, value_name = "PROVIDER", value_parser = template::named,
        conflicts_with_all = ["header", "scheme", "basic", "place", "mode", "plaintext"],
    )]
    template: Option<Template>,
    /// Let the credential be used for what the template denies, too
    #[arg(long, requires = "template")]
    allow_minting: bool,
    #[command(flatten)]
    database: Database,
    /// The port; 443, 80 with --plaintext, or 5432 with --postgres, when left out
    #[arg(long, value_parser = values::port)]
    port: Option<Port>,
    /// A method it may be used with, again for more; GET when left out, POST for a body
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
    /// It goes elsewhere: `query:PARAMETER`, `path:TEMPLATE`, `form:FIELD`, `json:POINTER`,
    /// `multipart:PART`, `ws.json:POINTER`
    ///
    /// A template is a path pattern with `{credential}` in one segment: `/bot{credential}/**`. A
    /// pointer names the members on the way: `/d/token`. A body is read for it before it is sent,
    /// so it has at most 1 MiB and is of that kind alone.
    #[arg(
        long = "in", visible_alias = "slot", value_name = "PLACE", value_parser = place,
        conflicts_with_all = ["header", "scheme", "basic"],
    )]
    place: Option<Slot>,
    /// Binary messages of a WebSocket that has the credential in its JSON pass, unread
    #[arg(long, requires = "place")]
    allow_binary: bool,
    #[command(flatten)]
    signed: Signed,
    #[command(flatten)]
    keyed: Keyed,
    #[command(flatten)]
    claims: Claims,
    #[command(flatten)]
    kept: Kept,
    /// When it is put in; `placeholder_or_inject` with --basic, `inject` with --hmac, else
    /// `placeholder`
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
        let binding = match &self.template {
            Some(template) => self.by_template(template, now)?,
            None if self.database.postgres => {
                let row = self.row(self.exact_host()?, Scheme::Postgres, now)?;
                self.database.binding(row)?
            }
            None => self.plain(now)?,
        };
        binding.check().map_err(|error| {
            Stop::new("no credential can be bound like this")
                .because(&error)
                .next("see `torno secret bind --help`")
        })?;
        Ok(binding)
    }

    fn by_template(&self, template: &Template, now: u64) -> Outcome<Binding> {
        let asked = Asked {
            host: self.host.as_ref(),
            methods: &self.methods,
            paths: &self.paths,
            minting: if self.allow_minting {
                Minting::Allowed
            } else {
                Minting::Denied
            },
        };
        let filled = template::narrowed(template, asked)?;
        let row = self.row(filled.host, Scheme::Https, now)?;
        Ok(Binding {
            methods: filled.methods,
            paths: filled.paths,
            denied: filled.denied,
            slot: filled.slot,
            mode: filled.mode,
            ..row
        })
    }

    fn plain(&self, now: u64) -> Outcome<Binding> {
        let scheme = if self.plaintext {
            Scheme::Http
        } else {
            Scheme::Https
        };
        let slot = self.slot();
        if self.allow_binary && !slot.is_in_websocket() {
            return Err(Stop::new("only a WebSocket has binary messages")
                .next("leave `--allow-binary` out, or bind to `ws.json:POINTER`"));
        }
        let mode = match (self.mode, &slot) {
            (Some(When::PlaceholderOrInject), _) | (None, Slot::Basic { .. }) => {
                Mode::PlaceholderOrInject
            }
            (Some(When::Inject), _) | (None, Slot::Hmac(_)) => Mode::Inject,
            (Some(When::Placeholder), _) | (None, _) => Mode::Placeholder,
        };
        let host = self.exact_host()?;
        let every = || match &slot {
            Slot::Path { template } => Some(template.clone()),
            Slot::Header { .. } | Slot::Basic { .. } | Slot::Query { .. } | Slot::Sigv4(_) => {
                PathPattern::parse("/**").ok()
            }
            Slot::Form { .. } | Slot::Json { .. } | Slot::Multipart { .. } => {
                PathPattern::parse("/**").ok()
            }
            Slot::WebsocketJson { .. } | Slot::Hmac(_) | Slot::Jwt(_) => {
                PathPattern::parse("/**").ok()
            }
            // `database.rs` makes those.
            Slot::Postgres { .. } => None,
        };
        let method = if slot.reads_body() { "POST" } else { "GET" };
        let row = self.row(host, scheme, now)?;
        Ok(Binding {
            methods: or_default(&self.methods, || Method::parse(method)),
            paths: or_default(&self.paths, every),
            slot,
            mode,
            ..row
        })
    }

    fn exact_host(&self) -> Outcome<Host> {
        let host = self.host.clone();
        host.ok_or_else(|| Stop::new("a binding names one exact host"))
    }

    /// What every binding has, with the narrowest of the rest.
    fn row(&self, host: Host, scheme: Scheme, now: u64) -> Outcome<Binding> {
        let id = match &self.id {
            Some(id) => id.clone(),
            None => self.derived_id(&host)?,
        };
        Ok(Binding {
            id,
            // An embedded vault has the one tenant.
            tenant: TenantName::parse("local")
                .map_err(|error| Stop::new("no tenant").because(&error))?,
            credential: self.name.clone(),
            endpoint: Endpoint {
                scheme,
                host,
                port: self.port.unwrap_or_else(|| scheme.default_port()),
            },
            plaintext: self.plaintext,
            methods: or_default(&self.methods, || Method::parse("GET")),
            paths: Vec::new(),
            denied: Vec::new(),
            answers: self.kept.answers(),
            slot: self.header_slot(),
            mode: Mode::Placeholder,
            expires_at: self.expires.map(|seconds| now.saturating_add(seconds)),
            revision: 0,
        })
    }

    fn slot(&self) -> Slot {
        let made = self.signed.slot().or_else(|| self.keyed.slot());
        if let Some(slot) = made.or_else(|| self.claims.slot()) {
            return slot;
        }
        match (&self.place, &self.basic) {
            (Some(Slot::WebsocketJson { pointer, .. }), _) => Slot::WebsocketJson {
                pointer: pointer.clone(),
                binary: self.allow_binary,
            },
            (Some(place), _) => place.clone(),
            (None, Some(user)) => Slot::Basic { user: user.clone() },
            (None, None) => self.header_slot(),
        }
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
    fn derived_id(&self, host: &Host) -> Outcome<BindingId> {
        let text = format!("{}-{host}", self.name).replace(['[', ']', ':'], "-");
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

/// `query:key`, `path:/bot{credential}/**`, `form:secret`, `json:/d/token` …
fn place(text: &str) -> Result<Slot, String> {
    match text.split_once(':') {
        Some(("query", parameter)) => Ok(Slot::Query {
            parameter: parameter.to_owned(),
        }),
        Some(("path", template)) => Ok(Slot::Path {
            template: values::path(template)?,
        }),
        Some(("form", field)) => Ok(Slot::Form {
            field: field.to_owned(),
        }),
        Some(("json", at)) => pointer(at).map(|pointer| Slot::Json { pointer }),
        Some(("multipart", part)) => Ok(Slot::Multipart {
            part: part.to_owned(),
        }),
        Some(("ws.json", at)) => {
            let binary = false;
            pointer(at).map(|pointer| Slot::WebsocketJson { pointer, binary })
        }
        _ => Err(
            "write `query:PARAMETER`, `path:TEMPLATE`, `form:FIELD`, `json:POINTER`, \
                  `multipart:PART` or `ws.json:POINTER`; headers have `--header`"
                .to_owned(),
        ),
    }
}

fn pointer(text: &str) -> Result<Pointer, String> {
    Pointer::try_from(text.to_owned()).map_err(str::to_owned)
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
mod tests;
