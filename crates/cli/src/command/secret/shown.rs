// SPDX-License-Identifier: Apache-2.0
//! What the vault has, for a person: credentials by name and bindings in full, never a value.

use crate::clock;
use crate::context::{Context, say};
use crate::notary::{Notary, unexpected};
use crate::stop::{Outcome, Stop};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use torno_notary_protocol::operator::{CredentialRow, OperatorReply, OperatorRequest};
use torno_policy::binding::{Answers, Binding, Cookies, Hash, Hmac, Jwt, Slot};
use torno_policy::names::CredentialName;

pub(super) async fn listed(context: &Context) -> Outcome<(Vec<CredentialRow>, Vec<Binding>)> {
    rows(&Notary::open(context).await?).await
}

async fn rows(notary: &Notary) -> Outcome<(Vec<CredentialRow>, Vec<Binding>)> {
    match notary.ask(&OperatorRequest::List).await? {
        OperatorReply::Listed {
            credentials,
            bindings,
        } => Ok((credentials, bindings)),
        _ => Err(unexpected()),
    }
}

/// Where each of these may go, a line for each binding; or why one goes nowhere.
pub(crate) async fn places(
    names: &BTreeSet<CredentialName>,
    notary: &Notary,
) -> Outcome<Vec<String>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let (credentials, bindings) = rows(notary).await?;
    let mut lines = Vec::new();
    for name in names {
        let own: Vec<_> = bindings.iter().filter(|b| b.credential == *name).collect();
        if !credentials.iter().any(|row| row.name == *name) {
            lines.push(format!(
                "{name} is not in the vault: `torno secret put {name}`"
            ));
        } else if own.is_empty() {
            lines.push(format!(
                "{name} is bound nowhere: `torno secret bind {name} --host HOST`"
            ));
        }
        lines.extend(own.into_iter().map(line));
    }
    Ok(lines)
}

/// `torno secret show`.
pub(super) async fn show(name: &CredentialName, context: &Context) -> Outcome {
    let (credentials, mut bindings) = listed(context).await?;
    let row = credentials.into_iter().find(|row| row.name == *name);
    let row = row.ok_or_else(|| {
        Stop::new(format!("there is no credential `{name}`"))
            .next("see `torno secret list` for those there are")
    })?;
    bindings.retain(|binding| binding.credential == *name);
    if context.json {
        let value = serde_json::json!({ "credential": row, "bindings": bindings });
        return context.show(&value, "");
    }
    let mut text = format!("{name}  version {}\n", row.version);
    for binding in &bindings {
        let _ = writeln!(text, "  {}", line(binding));
        for denied in &binding.denied {
            let denied = crate::printable::line(&denied.to_string());
            let _ = writeln!(text, "    denied: {denied}");
        }
    }
    say(&text)
}

pub(super) async fn list(context: &Context) -> Outcome {
    let (credentials, bindings) = listed(context).await?;
    if context.json {
        let value = serde_json::json!({ "credentials": credentials, "bindings": bindings });
        return context.show(&value, "");
    }
    let mut text = String::new();
    for row in &credentials {
        let revoked = if row.revoked { "  revoked" } else { "" };
        text.push_str(&format!(
            "{}  version {}  {}{revoked}\n",
            row.name,
            row.version,
            clock::seconds(row.changed_at)
        ));
        let own = bindings
            .iter()
            .filter(|binding| binding.credential == row.name);
        for binding in own {
            text.push_str(&format!("  {}\n", line(binding)));
        }
    }
    if credentials.is_empty() {
        text.push_str("the vault holds nothing; `torno secret put NAME` stores a credential\n");
    }
    say(&text)
}

/// What is signed, and what goes out for it.
fn signing(hmac: &Hmac) -> String {
    let hash = match hmac.hash {
        Hash::Sha256 => "SHA-256",
        Hash::Sha512 => "SHA-512",
    };
    let fields = hmac.fields.iter();
    let fields: Vec<_> = fields.map(|f| format!("{}: {}", f.name, f.value)).collect();
    let text = &hmac.text;
    format!("signing {text} by HMAC-{hash} in {}", fields.join(", "))
}

/// What is claimed.
fn claiming(jwt: &Jwt) -> String {
    let claims = [
        ("sub", &jwt.subject),
        ("aud", &jwt.audience),
        ("kid", &jwt.key_id),
    ];
    let claims = claims
        .iter()
        .filter_map(|(name, claim)| Some((name, claim.as_ref()?)));
    let claims: String = claims
        .map(|(name, claim)| format!(" {name}={claim}"))
        .collect();
    let (issuer, seconds) = (&jwt.issuer, jwt.lifetime_seconds);
    format!("signing a JWT by {jwt} for {seconds} s: iss={issuer}{claims}")
}

/// A binding in one line.
pub(super) fn line(binding: &Binding) -> String {
    let words = |items: Vec<String>| items.join(" ");
    let place = match &binding.slot {
        Slot::Header { name, scheme } => match scheme {
            Some(scheme) => format!("in {name}: {scheme} …"),
            None => format!("in {name}: …"),
        },
        Slot::Basic { user } => format!("as Basic of {user}"),
        Slot::Query { parameter } => format!("in the query: {parameter}=…"),
        Slot::Path { template } => format!("in the path: {template}"),
        Slot::Form { field } => format!("in a form: {field}=…"),
        Slot::Json { pointer } => format!("in JSON: {pointer}"),
        Slot::Multipart { part } => format!("in a form's part: {part}"),
        Slot::WebsocketJson { pointer, binary } => {
            let more = if *binary {
                ", binary passes unread"
            } else {
                ""
            };
            format!("in a WebSocket's JSON: {pointer}{more}")
        }
        Slot::Postgres { role, .. } => match role {
            Some(role) => format!("as password, with role {role}"),
            None => "as password".to_owned(),
        },
        Slot::Sigv4(scope) => format!("signing as {} for {scope}", scope.key_id),
        Slot::Hmac(hmac) => signing(hmac),
        Slot::Jwt(jwt) => claiming(jwt),
    };
    let denied = match binding.denied.len() {
        0 => String::new(),
        count => format!(
            ", {count} denied (`torno secret show {}`)",
            binding.credential
        ),
    };
    let kept = kept(&binding.answers);
    let until = binding.expires_at.map(clock::seconds);
    crate::printable::line(&format!(
        "{}: {} {} {} {place}{}{kept}{denied}",
        binding.id,
        binding.endpoint,
        words(binding.methods.iter().map(ToString::to_string).collect()),
        words(binding.paths.iter().map(ToString::to_string).collect()),
        until
            .map(|until| format!(" until {until}"))
            .unwrap_or_default()
    ))
}

/// What stays outside of its answers.
fn kept(answers: &Answers) -> String {
    let mut text = String::new();
    if answers.cookies == Cookies::Broker {
        text.push_str(", cookies kept");
    }
    for path in &answers.token_endpoints {
        let _ = write!(text, ", tokens at {path}");
    }
    text
}
