// SPDX-License-Identifier: Apache-2.0
//! What a request says beyond its head, as far as a rule judges it: the operations of GraphQL, the
//! methods of JSON-RPC, the direction of a git LFS batch, the actions of AWS.

use super::aws::{AwsCall, AwsProtocol};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The languages in which a request's content can be read before it is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentKind {
    /// GraphQL over HTTP: a JSON body, or the query of a GET.
    Graphql,
    /// JSON-RPC 2.0.
    Jsonrpc,
    /// A batch request of git LFS.
    Lfs,
    /// A request to AWS.
    Aws(AwsProtocol),
}

/// What was read: of a batch each thing once, in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// The types of the operations that would run.
    Graphql(Vec<GraphqlOperation>),
    /// The methods; none for a request without a body.
    Jsonrpc(Vec<RpcMethod>),
    /// What an LFS batch is for.
    Lfs(LfsBatch),
    /// What is done at AWS.
    Aws(Box<AwsCall>),
}

impl Content {
    /// The language it was read in.
    #[must_use]
    pub fn kind(&self) -> ContentKind {
        match self {
            Self::Graphql(_) => ContentKind::Graphql,
            Self::Jsonrpc(_) => ContentKind::Jsonrpc,
            Self::Lfs(_) => ContentKind::Lfs,
            Self::Aws(call) => ContentKind::Aws(call.protocol),
        }
    }
}

/// The type of a GraphQL operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GraphqlOperation {
    /// It reads.
    Query,
    /// It changes something.
    Mutation,
    /// It stays and is told of changes.
    Subscription,
}

impl GraphqlOperation {
    /// The word of the language, and of a rule.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Mutation => "mutation",
            Self::Subscription => "subscription",
        }
    }
}

impl fmt::Display for GraphqlOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The method of a JSON-RPC request or notification.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RpcMethod(String);

/// LIMIT: 128 characters; methods are words like `textDocument/didChangeConfiguration`.
const RPC_METHOD_BYTES_MAX: usize = 128;

impl RpcMethod {
    /// 1 to 128 visible ASCII characters, without `*`, quotes and backslash.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let fits = |b: u8| b.is_ascii_graphic() && !matches!(b, b'*' | b'"' | b'\\');
        let whole = (1..=RPC_METHOD_BYTES_MAX).contains(&text.len()) && text.bytes().all(fits);
        whole.then(|| Self(text.to_owned()))
    }

    /// The method's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for RpcMethod {
    type Error = &'static str;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("a method is 1 to 128 visible ASCII characters, without `*`")
    }
}

impl From<RpcMethod> for String {
    fn from(method: RpcMethod) -> Self {
        method.0
    }
}

/// Which JSON-RPC methods a rule means: one, or all that begin alike (`tools/*`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RpcPattern {
    start: String,
    is_open: bool,
}

impl RpcPattern {
    /// A method, or the start of some and a final `*`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (start, is_open) = match text.strip_suffix('*') {
            Some(start) => (start, true),
            None => (text, false),
        };
        let fits = (start.is_empty() && is_open) || RpcMethod::parse(start).is_some();
        fits.then(|| Self {
            start: start.to_owned(),
            is_open,
        })
    }

    /// Whether it means this method.
    #[must_use]
    pub fn is_match(&self, method: &RpcMethod) -> bool {
        if self.is_open {
            method.0.starts_with(&self.start)
        } else {
            method.0 == self.start
        }
    }

    /// Whether it means every method that the other one means.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        if self.is_open {
            other.start.starts_with(&self.start)
        } else {
            self == other
        }
    }
}

impl fmt::Display for RpcPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.is_open { "*" } else { "" };
        write!(f, "{}{end}", self.start)
    }
}

impl TryFrom<String> for RpcPattern {
    type Error = &'static str;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("a pattern is a method, or the start of some and a final `*`")
    }
}

impl From<RpcPattern> for String {
    fn from(pattern: RpcPattern) -> Self {
        pattern.to_string()
    }
}

/// What a batch request of git LFS says.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LfsBatch {
    /// Objects are brought in, or fetched.
    pub is_upload: bool,
    /// The full name of the reference that the objects are for, when the client says it.
    pub reference: Option<String>,
}
