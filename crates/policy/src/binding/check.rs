// SPDX-License-Identifier: Apache-2.0
//! What a binding must be before the vault takes it.

use super::answers::is_bodiless;
use super::slot::fold;
use super::{Binding, Cookies, Hmac, Mode, PathPattern, Sigv4, Slot};
use crate::names::{CREDENTIAL_WORD, Host, Method, Scheme};
use crate::postgres::{Access, Login};

/// Why a binding is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BindingError {
    /// http without `plaintext`.
    #[error("a credential goes over https; to send it in the clear, say `--plaintext`")]
    Plaintext,
    /// `plaintext` on an https endpoint: a contradiction.
    #[error("`--plaintext` belongs to http endpoints; leave it out for https")]
    PlaintextOverTls,
    /// No method.
    #[error("a binding names at least one method, as in `--method GET`")]
    NoMethods,
    /// No path.
    #[error("a binding names at least one path; `/**` is all of them")]
    NoPaths,
    /// A header that frames, routes or authenticates the connection itself.
    #[error("`{0}` shapes the message or the connection, so no credential goes there")]
    StructuralHeader(String),
    /// A header name that is not a lower-case field name.
    #[error("a header name has lower-case letters, digits, `-` and `_`, and at most 64 of them")]
    HeaderName,
    /// A scheme word that is not one token.
    #[error("the word before the credential is one token, as in `Bearer`")]
    SchemeWord,
    /// A Basic user with a colon or a control character.
    #[error("the user of Basic has at most 128 printable characters and no colon")]
    BasicUser,
    /// A query parameter that has several spellings.
    #[error("a query parameter has letters, digits, `-`, `_` and `.`, at most 64 of them")]
    Parameter,
    /// A query parameter or field that frameworks take for the method.
    #[error("`_method` steers a server, so no credential goes there")]
    SteeringParameter,
    /// A field of a form, or a part of one, that has several spellings.
    #[error("a field or part has letters, digits, `-`, `_` and `.`, at most 64 of them")]
    Field,
    /// A body slot with methods that carry none.
    #[error("only POST, PUT, PATCH and DELETE have a body that a credential goes into")]
    BodilessMethod,
    /// A slot in a WebSocket with methods that open none.
    #[error("a WebSocket is opened with GET alone: bind `ws.json` to that method")]
    WebsocketMethod,
    /// A template without one place for the credential.
    #[error("a path slot has {CREDENTIAL_WORD} in one segment, as in `/bot{CREDENTIAL_WORD}/**`")]
    Template,
    /// A path that the template of the slot does not cover.
    #[error("`{0}` is no path of the slot's template, so nothing could be put there")]
    OutsideTemplate(String),
    /// The word where no slot is.
    #[error("`{0}` has {CREDENTIAL_WORD}, but the slot is not in the path: give it as the slot")]
    StrayWord(String),
    /// More denied patterns than a decision should walk.
    #[error("a binding denies at most 128 patterns")]
    Denied,
    /// A metadata service: it hands out credentials to whoever asks.
    #[error("`{0}` is a metadata service; no credential is bound there")]
    Metadata(Host),
    /// A database's binding that is not exactly one.
    #[error(
        "a binding for PostgreSQL has one user, one database and the methods of its access, and \
         its password is always put in"
    )]
    Postgres,
    /// An address that nothing outside this machine answers at.
    #[error("`{0}` is no destination: unspecified, multicast or broadcast")]
    NoDestination(Host),
    /// A key id that no signature names, or that of a temporary key.
    #[error(
        "an access key id has letters, digits, `-` and `_`, 3 to 128 of them; a temporary one \
         (`ASIA…`) needs a session token, which can't be bound"
    )]
    KeyId,
    /// A region or service that no signature names.
    #[error("region and service are written as in a signature, as `eu-central-1` and `s3`")]
    Scope,
    /// Answers of what is no HTTP, or no answer.
    #[error("a database or a WebSocket's message has no cookies and no token endpoint")]
    NoAnswers,
    /// A token endpoint of a binding that signs.
    #[error("what is signed has no token endpoint: bind the token endpoint's credential apart")]
    SignedTokens,
    /// A token endpoint that is not one path of the binding.
    #[error("`{0}` is no token endpoint here: name one exact path that the binding has with POST")]
    TokenEndpoint(String),
    /// More of them than a provider has.
    #[error("a binding has at most 8 token endpoints")]
    TokenEndpoints,
    /// A signature where the client made none.
    #[error("what a client signed is signed anew, so its mode is `placeholder`")]
    SignedAlways,
    /// A signature that can't be made or can't be checked.
    #[error(
        "a signature covers something of the request, goes out once, and every time that it covers \
         goes out beside it; the fields that go out are at most 4 and differ"
    )]
    Hmac,
    /// Claims that are no printable text, or for too long.
    #[error("claims have 1 to 256 visible characters, and a token is good for 2 to 10 minutes")]
    Claims,
}

impl Binding {
    /// Checks what the types alone don't hold. The vault calls it before a row is written.
    ///
    /// # Errors
    /// The first rule that the binding breaks.
    pub fn check(&self) -> Result<(), BindingError> {
        match (self.endpoint.scheme, self.plaintext) {
            (Scheme::Http, false) => return Err(BindingError::Plaintext),
            (Scheme::Https | Scheme::Postgres, true) => return Err(BindingError::PlaintextOverTls),
            (Scheme::Http, true) | (Scheme::Https | Scheme::Postgres, false) => {}
        }
        if self.methods.is_empty() {
            return Err(BindingError::NoMethods);
        }
        if self.paths.is_empty() {
            return Err(BindingError::NoPaths);
        }
        check_host(&self.endpoint.host)?;
        if self.denied.len() > DENIED_MAX {
            return Err(BindingError::Denied);
        }
        self.answers.check(self)?;
        let is_database = matches!(self.slot, Slot::Postgres { .. });
        if is_database != (self.endpoint.scheme == Scheme::Postgres) {
            return Err(BindingError::Postgres);
        }
        match &self.slot {
            Slot::Header { name, scheme } => check_header(name, scheme.as_deref())?,
            Slot::Basic { user } => check_basic_user(user)?,
            Slot::Query { parameter } => check_parameter(parameter)?,
            Slot::Path { template } => return self.check_template(template),
            Slot::Form { field: name } | Slot::Multipart { part: name } => check_field(name)?,
            Slot::Json { .. } | Slot::WebsocketJson { .. } => {}
            Slot::Postgres { access, .. } => return self.check_database(*access),
            Slot::Sigv4(scope) => check_sigv4(scope, self.mode)?,
            Slot::Hmac(hmac) => check_hmac(hmac)?,
            Slot::Jwt(jwt) if jwt.is_plain() => {}
            Slot::Jwt(_) => return Err(BindingError::Claims),
        }
        self.check_slot_methods()?;
        let mut all = self.paths.iter().chain(self.denied.iter().map(|d| &d.path));
        match all.find(|pattern| pattern.has_word()) {
            Some(stray) => Err(BindingError::StrayWord(stray.to_string())),
            None => Ok(()),
        }
    }

    fn check_slot_methods(&self) -> Result<(), BindingError> {
        let all = |known: &[&str]| self.methods.iter().all(|m| known.contains(&m.as_str()));
        // What has no body may still go with the cookies that a body earned.
        let brokers = self.answers.cookies == Cookies::Broker;
        let has_body = |m: &Method| ["POST", "PUT", "PATCH", "DELETE"].contains(&m.as_str());
        let fits = |m: &Method| has_body(m) || (brokers && is_bodiless(m));
        let is_usable = self.methods.iter().all(fits) && self.methods.iter().any(has_body);
        if self.slot.is_in_body() && !is_usable {
            return Err(BindingError::BodilessMethod);
        }
        if self.slot.is_in_websocket() && !all(&["GET"]) {
            return Err(BindingError::WebsocketMethod);
        }
        Ok(())
    }

    /// The methods say what the slot says, and the path is one login.
    fn check_database(&self, access: Access) -> Result<(), BindingError> {
        let login = match self.paths.as_slice() {
            [path] => Login::of_pattern(path),
            _ => None,
        };
        let is_exact = login.is_some()
            && self.methods == access.methods()
            && self.mode == Mode::Inject
            && self.denied.is_empty();
        if is_exact {
            Ok(())
        } else {
            Err(BindingError::Postgres)
        }
    }

    fn check_template(&self, template: &PathPattern) -> Result<(), BindingError> {
        if template.credential().is_none() {
            return Err(BindingError::Template);
        }
        match self.paths.iter().find(|path| !template.covers(path)) {
            Some(outside) => Err(BindingError::OutsideTemplate(outside.to_string())),
            None => Ok(()),
        }
    }
}

/// Whether a value can be a part of a path segment as it is: unreserved characters and `:`, which
/// every server reads in one way there (a bot's token has one).
#[must_use]
pub fn is_segment_safe(value: &[u8]) -> bool {
    let known = |b: &u8| b.is_ascii_alphanumeric() || b"-._~:".contains(b);
    !value.is_empty() && value.iter().all(known)
}

fn check_host(host: &Host) -> Result<(), BindingError> {
    if host.is_metadata() {
        return Err(BindingError::Metadata(host.clone()));
    }
    let nowhere = match host {
        Host::Name(_) => false,
        Host::V4(v4) => v4.is_unspecified() || v4.is_multicast() || v4.is_broadcast(),
        Host::V6(v6) => v6.is_unspecified() || v6.is_multicast(),
    };
    if nowhere {
        Err(BindingError::NoDestination(host.clone()))
    } else {
        Ok(())
    }
}

/// LIMIT: the longest template has about 40; a request is held against each.
const DENIED_MAX: usize = 128;
/// LIMIT: parameters of real providers have at most about 20 bytes.
const PARAMETER_BYTES_MAX: usize = 64;
/// LIMIT: header names of real providers have at most about 30 bytes.
const HEADER_NAME_BYTES_MAX: usize = 64;
/// LIMIT: scheme words of RFC 9110 are shorter than 20 bytes.
const SCHEME_WORD_BYTES_MAX: usize = 32;
/// LIMIT: `x-access-token` and mail addresses fit; a head line stays small.
const BASIC_USER_BYTES_MAX: usize = 128;

fn check_header(name: &str, scheme: Option<&str>) -> Result<(), BindingError> {
    if is_structural(name) {
        return Err(BindingError::StructuralHeader(name.to_ascii_lowercase()));
    }
    let known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_');
    let fits = (1..=HEADER_NAME_BYTES_MAX).contains(&name.len());
    if !fits || !name.bytes().all(known) {
        return Err(BindingError::HeaderName);
    }
    let word = |word: &str| {
        (1..=SCHEME_WORD_BYTES_MAX).contains(&word.len())
            && word
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
    };
    if scheme.is_none_or(word) {
        Ok(())
    } else {
        Err(BindingError::SchemeWord)
    }
}

/// Header fields that frame the message, route it, or speak for the connection, in any case and
/// with `_` for `-` (some servers fold them).
fn is_structural(name: &str) -> bool {
    let folded = name.to_ascii_lowercase().replace('_', "-");
    folded.starts_with(':')
        || folded.starts_with("proxy-")
        || folded.starts_with("sec-")
        || STRUCTURAL.contains(&folded.as_str())
}

const STRUCTURAL: [&str; 24] = [
    "accept-encoding",
    "alt-svc",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "cookie",
    "cookie2",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "if-range",
    "keep-alive",
    "range",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
];

fn is_plain_word(name: &str) -> bool {
    let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    (1..=PARAMETER_BYTES_MAX).contains(&name.len()) && name.bytes().all(known)
}

fn check_field(name: &str) -> Result<(), BindingError> {
    match check_parameter(name) {
        Err(BindingError::Parameter) => Err(BindingError::Field),
        other => other,
    }
}

fn check_parameter(name: &str) -> Result<(), BindingError> {
    if !is_plain_word(name) {
        return Err(BindingError::Parameter);
    }
    if fold(name) == b"_method" {
        return Err(BindingError::SteeringParameter);
    }
    Ok(())
}

fn check_basic_user(user: &str) -> Result<(), BindingError> {
    let printable = |c: char| c != ':' && !c.is_control();
    let fits = user.len() <= BASIC_USER_BYTES_MAX && user.chars().all(printable);
    if fits {
        Ok(())
    } else {
        Err(BindingError::BasicUser)
    }
}

fn check_sigv4(scope: &Sigv4, mode: Mode) -> Result<(), BindingError> {
    if !scope.has_lasting_key() {
        Err(BindingError::KeyId)
    } else if !scope.has_plain_scope() {
        Err(BindingError::Scope)
    } else if mode == Mode::Placeholder {
        Ok(())
    } else {
        Err(BindingError::SignedAlways)
    }
}

fn check_hmac(hmac: &Hmac) -> Result<(), BindingError> {
    for field in &hmac.fields {
        check_header(&field.name, None)?;
    }
    if hmac.is_whole() {
        Ok(())
    } else {
        Err(BindingError::Hmac)
    }
}

#[cfg(test)]
mod tests;
