// SPDX-License-Identifier: Apache-2.0
//! The slot: the one place of a request that a credential is put into, and what the client has
//! there. Decision and gate read it by this one code, so that what was judged is what is filled.

use super::PathPattern;
use crate::names::{CREDENTIAL_WORD, RequestPath};
use crate::postgres::{Access, Name};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

mod hmac;
mod jwt;
mod pointer;
mod query;
mod recipe;
mod segment;
mod sigv4;

pub use hmac::{Hash, Hmac, KeyForm, SignedField};
pub use jwt::{Algorithm, Jwt};
pub use pointer::Pointer;
pub(super) use query::fold;
pub use query::{Parameter, may_mean, parameter};
pub use recipe::{Part, Recipe};
pub use sigv4::Sigv4;

/// The one place of a request that the credential is put into.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Slot {
    /// A header field, with an optional scheme word before the value: `Authorization: Bearer …`.
    Header {
        /// Lower-case field name; structural fields are refused.
        name: String,
        /// `Bearer`, `token`, or nothing.
        scheme: Option<String>,
    },
    /// `Authorization: Basic base64(user:credential)`.
    Basic {
        /// The user name sent with it; no colon.
        user: String,
    },
    /// The value of one parameter of the query, percent-encoded: `?key=…`.
    Query {
        /// The parameter's name, in the one spelling that is taken.
        parameter: String,
    },
    /// One segment of the path, or the middle of one: `/bot…/sendMessage`.
    Path {
        /// A pattern in which one segment holds `{credential}`, as in `/bot{credential}/**`.
        template: PathPattern,
    },
    /// The value of one field of a form (`application/x-www-form-urlencoded`), percent-encoded.
    Form {
        /// The field's name, in the one spelling that is taken.
        field: String,
    },
    /// One text in a body of JSON.
    Json {
        /// Where in the document.
        pointer: Pointer,
    },
    /// The content of one part of a form (`multipart/form-data`).
    Multipart {
        /// The part's name, in the one spelling that is taken.
        part: String,
    },
    /// One text in a text message of a WebSocket: the first message that has the placeholder there.
    WebsocketJson {
        /// Where in the message.
        pointer: Pointer,
        /// Messages that are no text pass, unread.
        #[serde(default)]
        binary: bool,
    },
    /// The password of a PostgreSQL user: whose, and of which database, is the binding's one path.
    Postgres {
        /// How far a connection may go.
        access: Access,
        /// The role that it takes before the client's first statement.
        role: Option<Name>,
    },
    /// The signature of AWS in `Authorization`: the client signs with the placeholder as its key
    /// id, and what goes out is signed anew with the credential.
    Sigv4(Sigv4),
    /// A signature with a shared key, in a header field: what goes out is signed by the gate.
    Hmac(Box<Hmac>),
    /// Claims that the gate signs, as `Authorization: Bearer …`.
    Jwt(Box<Jwt>),
}

/// What a client has in a slot of the query, the path or the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// Nothing: the parameter or the segment is not there, or empty.
    Nothing,
    /// One placeholder and nothing else.
    Placeholder,
    /// Something of its own.
    Own,
    /// The place is there twice, or in a spelling that only some servers read as this one.
    Twice,
    /// There is no place for it: the body, or the object that would hold it, is not there.
    Nowhere,
}

/// What goes on the wire around the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filling {
    /// Everything of the target before it.
    pub before: String,
    /// Everything of the target after it.
    pub after: String,
}

impl Slot {
    /// The lower-case name of the header field that the slot fills, when it fills one: a client's
    /// placeholder stands there.
    #[must_use]
    pub fn header_name(&self) -> Option<&str> {
        match self {
            Self::Header { name, .. } => Some(name),
            Self::Basic { .. } | Self::Sigv4(_) | Self::Jwt(_) => Some("authorization"),
            Self::Hmac(hmac) => hmac.signature_field(),
            Self::Query { .. } | Self::Path { .. } | Self::Postgres { .. } => None,
            Self::Form { .. } | Self::Json { .. } | Self::Multipart { .. } => None,
            Self::WebsocketJson { .. } => None,
        }
    }

    /// Whether the slot writes this header field: none of the client's goes out beside it.
    #[must_use]
    pub fn writes(&self, field: &str) -> bool {
        self.fields().contains(&field)
    }

    /// Every header field that the slot writes.
    #[must_use]
    pub fn fields(&self) -> Vec<&str> {
        if let Self::Hmac(hmac) = self {
            hmac.fields.iter().map(|f| f.name.as_str()).collect()
        } else {
            self.header_name().into_iter().collect()
        }
    }

    /// Whether the body must be read before the request is judged: the value goes into it, or it is
    /// signed.
    #[must_use]
    pub fn reads_body(&self) -> bool {
        let signs = matches!(self, Self::Hmac(hmac) if hmac.text.reads_body());
        signs || self.is_in_body()
    }

    /// Whether the value goes into the body.
    #[must_use]
    pub fn is_in_body(&self) -> bool {
        match self {
            Self::Form { .. } | Self::Json { .. } | Self::Multipart { .. } => true,
            Self::Header { .. } | Self::Basic { .. } | Self::Query { .. } | Self::Path { .. } => {
                false
            }
            Self::WebsocketJson { .. } | Self::Postgres { .. } | Self::Sigv4(_) => false,
            Self::Hmac(_) | Self::Jwt(_) => false,
        }
    }

    /// Whether it is in what a WebSocket says.
    #[must_use]
    pub fn is_in_websocket(&self) -> bool {
        matches!(self, Self::WebsocketJson { .. })
    }

    /// What the client has there; nothing for a header, which is judged by its fields, for a path
    /// that is none of the template's, and for what is not in the head. Of a signature it is what a
    /// presigned URL has.
    #[must_use]
    pub fn held(&self, path: &RequestPath) -> Option<Held> {
        match self {
            Self::Header { .. } | Self::Basic { .. } | Self::WebsocketJson { .. } => None,
            Self::Form { .. } | Self::Json { .. } | Self::Multipart { .. } => None,
            Self::Postgres { .. } | Self::Hmac(_) | Self::Jwt(_) => None,
            Self::Query { parameter } => Some(query::held(path.query(), parameter)),
            Self::Path { template } => segment::held(template, path),
            Self::Sigv4(_) => sigv4::held(path.query()),
        }
    }

    /// The target with `{credential}` where this slot is a segment of it.
    #[must_use]
    pub fn named<'a>(&self, path: &'a RequestPath) -> Cow<'a, RequestPath> {
        match self {
            Self::Header { .. } | Self::Basic { .. } | Self::Query { .. } => Cow::Borrowed(path),
            Self::Form { .. } | Self::Json { .. } | Self::Multipart { .. } => Cow::Borrowed(path),
            Self::WebsocketJson { .. } | Self::Postgres { .. } => Cow::Borrowed(path),
            Self::Sigv4(_) | Self::Hmac(_) | Self::Jwt(_) => Cow::Borrowed(path),
            Self::Path { template } => match segment::place(template, path) {
                Some(place) => Cow::Owned(path.replaced(place, CREDENTIAL_WORD)),
                None => Cow::Borrowed(path),
            },
        }
    }

    /// How the target is filled: what stands in the slot goes, every other byte stays. Nothing when
    /// the slot is not in the target, is there twice, or a placeholder stands elsewhere too.
    #[must_use]
    pub fn fill(&self, path: &RequestPath) -> Option<Filling> {
        let filling = match self {
            Self::Header { .. } | Self::Basic { .. } | Self::WebsocketJson { .. } => None,
            Self::Form { .. } | Self::Json { .. } | Self::Multipart { .. } => None,
            Self::Postgres { .. } | Self::Sigv4(_) | Self::Hmac(_) | Self::Jwt(_) => None,
            Self::Query { parameter } => {
                let (before, after) = query::fill(path.query(), parameter)?;
                let before = format!("{}?{before}", path.path());
                Some(Filling { before, after })
            }
            Self::Path { template } => {
                let place = segment::place(template, path)?;
                let before = path.path().get(..place.start)?.to_owned();
                let mut after = path.path().get(place.end..)?.to_owned();
                if let Some(query) = path.query() {
                    after.push('?');
                    after.push_str(query);
                }
                Some(Filling { before, after })
            }
        };
        let named = |text: &str| text.contains(CREDENTIAL_WORD);
        filling.filter(|filling| !named(&filling.before) && !named(&filling.after))
    }

    /// Whether both fill the same place, or may: a request can't carry both then.
    #[must_use]
    pub fn contests(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Query { parameter }, Self::Query { parameter: other }) => {
                fold(parameter) == fold(other)
            }
            (Self::Path { .. }, Self::Path { .. })
            | (Self::Postgres { .. }, Self::Postgres { .. }) => true,
            (Self::WebsocketJson { .. }, Self::WebsocketJson { .. }) => true,
            // A body is read for one slot.
            _ if self.is_in_body() && other.is_in_body() => true,
            _ => self.fields().into_iter().any(|field| other.writes(field)),
        }
    }
}

/// `header:authorization`, `basic:git`, `query:key`, `path:/bot{credential}/**`, `form:secret`,
/// `json:/d/token`, `multipart:token`, `ws.json:/d/token`, `postgres`, `sigv4:eu-central-1/s3`,
/// `hmac:x-hub-signature-256`, `jwt:RS256`: for the record.
impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header { name, .. } => write!(f, "header:{name}"),
            Self::Basic { user } => write!(f, "basic:{user}"),
            Self::Query { parameter } => write!(f, "query:{parameter}"),
            Self::Path { template } => write!(f, "path:{template}"),
            Self::Form { field } => write!(f, "form:{field}"),
            Self::Json { pointer } => write!(f, "json:{pointer}"),
            Self::Multipart { part } => write!(f, "multipart:{part}"),
            Self::WebsocketJson { pointer, .. } => write!(f, "ws.json:{pointer}"),
            Self::Postgres { .. } => f.write_str("postgres"),
            Self::Sigv4(scope) => write!(f, "sigv4:{scope}"),
            Self::Hmac(hmac) => write!(f, "hmac:{hmac}"),
            Self::Jwt(jwt) => write!(f, "jwt:{jwt}"),
        }
    }
}

#[cfg(test)]
mod tests;
