// SPDX-License-Identifier: Apache-2.0
//! What is known of an act when it is judged. Facts are canonical: they were parsed once, by
//! `normalize` in the gate or by the desk, and each type refuses a second spelling.

mod aws;
mod content;

pub use aws::{AwsAction, AwsCall, AwsPattern, AwsProtocol};
pub use content::{Content, ContentKind, GraphqlOperation, LfsBatch, RpcMethod, RpcPattern};

use crate::binding::{Held, Slot};
use crate::names::{Endpoint, Method, RequestPath, ToolName};
use crate::placeholder::PlaceholderDigest;
use serde::{Deserialize, Serialize};

/// How the bytes of a request came in. It never changes a verdict; the record keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// A dial that the sandbox's network caught, whatever name or address it was for.
    Captured,
    /// An HTTP CONNECT to the loopback proxy.
    Connect,
    /// An absolute-form request to the loopback proxy.
    AbsoluteForm,
}

/// The part of a request in which something was found.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Location {
    /// A header field, by its lower-case name. For `Authorization: Basic` the decoded pair was
    /// searched.
    Header(String),
    /// The trailer section.
    Trailer,
    /// The path.
    Path,
    /// The query.
    Query,
    /// The method.
    Method,
    /// The body.
    Body,
    /// The slot of the body that was read for it.
    Slot,
}

/// What the client has in the slot of a body, read before the request is asked about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BodySlot {
    /// The slot that was read.
    pub slot: Slot,
    /// What is there.
    pub held: Held,
}

/// What of a body is read before the request can be judged.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unread {
    /// What it says, in this language.
    Content(ContentKind),
    /// What stands in the slot of a binding.
    Slot(Slot),
}

/// A placeholder that the request carries.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Presented {
    /// Where it stands.
    pub location: Location,
    /// Which one: SHA-256 of its text.
    pub digest: PlaceholderDigest,
}

/// One reference of a push.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefUpdate {
    /// The full name, `refs/heads/...`.
    pub name: String,
    /// What would happen to it.
    pub change: RefChange,
}

/// What a push does to a reference, as far as the protocol shows it: whether an update is a
/// fast-forward can't be seen without the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefChange {
    /// The reference does not exist yet.
    Create,
    /// It moves to another object.
    Update,
    /// It is removed.
    Delete,
}

/// What a git smart-HTTP request wants (gitprotocol-http).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GitOperation {
    /// `GET …/info/refs?service=git-upload-pack`
    DiscoverFetch,
    /// `POST …/git-upload-pack`
    Fetch,
    /// `GET …/info/refs?service=git-receive-pack`
    DiscoverPush,
    /// `POST …/git-receive-pack`, with the commands before the first flush packet.
    Push(Vec<RefUpdate>),
    /// `POST …/info/lfs/objects/batch`: where large files are brought or fetched. Which of both is
    /// in the content.
    LfsBatch,
    /// `POST …/info/lfs/locks/verify`: a push asks which files are locked.
    LfsVerifyLocks,
    /// `GET …/info/lfs/objects/OID`
    LfsDownload,
    /// `PUT …/info/lfs/objects/OID`
    LfsUpload,
}

/// Git facts of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GitFacts {
    /// The repository's canonical path, as in the URL, without `.git` and trailing slash.
    pub repository: String,
    /// What is wanted of it.
    pub operation: GitOperation,
}

/// A request that wants to leave.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestFacts {
    /// How it came in.
    pub entry: Entry,
    /// Where to.
    pub endpoint: Endpoint,
    /// The method.
    pub method: Method,
    /// Path and query. A plain placeholder in them is written `{credential}`.
    pub path: RequestPath,
    /// It asks to become a WebSocket (RFC 6455).
    pub websocket: bool,
    /// Placeholders found before the request was asked about: outside the body, and in it where it
    /// was read.
    pub presented: Vec<Presented>,
    /// The names, lower case, of credential-like header fields whose value is no placeholder.
    pub own_credentials: Vec<String>,
    /// Set when the request is git smart HTTP.
    pub git: Option<GitFacts>,
    /// What it says, read before it is asked about when a rule at its place judges that.
    pub content: Option<Content>,
    /// What stands in the slot of its body, read when a binding at its place fills one.
    pub body: Option<Box<BodySlot>>,
}

/// A call of a tool by the brain.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolFacts {
    /// Which tool.
    pub tool: ToolName,
    /// The canonical arguments (a JSON object), for conditions and for the approval's digest.
    pub arguments: serde_json::Value,
}

/// Everything that can be judged.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// A request that wants to leave the sandbox.
    Request(RequestFacts),
    /// A tool call that wants to enter it.
    Tool(ToolFacts),
}
