// SPDX-License-Identifier: Apache-2.0
//! The canonical grant: what one session may do. Made from a document by [`crate::document`],
//! fixed at the start, narrowed at most, gone at the end.

mod rules;

pub use rules::AllowRules;

use crate::binding::PathPattern;
use crate::facts::{AwsPattern, AwsProtocol, GraphqlOperation, RpcPattern};
use crate::names::{
    CredentialName, Endpoint, Host, ImageDigest, ImageName, Method, Port, RuleName, Scheme,
    ToolName,
};
use crate::registry::Protocol;
use crate::standing::Phase;
use serde::{Deserialize, Serialize};

/// What one session may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The sandbox's shape.
    pub sandbox: SandboxGrant,
    /// The install phase, when there is one.
    pub install: Option<InstallGrant>,
    /// Hosts that may be reached.
    pub allow: AllowRules,
    /// Credentials that may be used.
    pub secrets: Vec<SecretGrant>,
    /// Git repositories.
    pub git: Vec<GitGrant>,
    /// Tool rules beyond the shipped table.
    pub tools: Vec<ToolRule>,
}

/// Which boundary is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// The strongest that works here; never `container`.
    Strongest,
    /// The host's kernel; by name only.
    Container,
    /// A user-space kernel.
    Gvisor,
    /// Its own guest kernel on hardware virtualisation.
    Microvm,
    /// A full machine.
    Vm,
}

impl Isolation {
    /// A machine with a kernel of its own, which shares no directory with its host.
    #[must_use]
    pub const fn is_machine(self) -> bool {
        matches!(self, Self::Microvm | Self::Vm)
    }
}

/// LIMIT: directories of `also`. A caller hands each of them over, with workspace and output in one
/// packet.
pub const ALSO_MAX: usize = 12;

/// How the workspace comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceMode {
    /// A copy; results come back by `diff` and `apply`.
    Copy,
    /// The directory itself (labelled reduced).
    Bind,
    /// Empty.
    None,
}

/// The sandbox's shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxGrant {
    /// The boundary.
    pub isolation: Isolation,
    /// Further read-only host directories of image `host`, as the person wrote them (`~` expanded
    /// by the CLI).
    pub also: Vec<String>,
    /// How the workspace comes in.
    pub workspace: WorkspaceMode,
    /// File rules, relative to the workspace.
    pub files: FileRules,
    /// Environment variables set inside, besides the base ones.
    pub env: Vec<(String, String)>,
    /// Limits, held from outside.
    pub limits: Limits,
    /// Tripwires stand in it.
    pub tripwires: bool,
    /// The level may be emulated, which is no boundary.
    #[serde(default)]
    pub emulation: bool,
    /// What it is made of.
    #[serde(default)]
    pub image: Image,
}

/// What programs and libraries of a sandbox are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Image {
    /// The host's `/usr`.
    #[default]
    Host,
    /// An image of this machine by its name; at the start it becomes the digest that the name
    /// stands for then.
    Named {
        /// The name.
        name: ImageName,
        /// What it stands for, once a session begins.
        digest: Option<ImageDigest>,
    },
    /// An image by its digest, whatever it is called.
    Exact(ImageDigest),
}

impl Image {
    /// The digest, where it is known.
    #[must_use]
    pub fn digest(&self) -> Option<&ImageDigest> {
        match self {
            Self::Host => None,
            Self::Named { digest, .. } => digest.as_ref(),
            Self::Exact(digest) => Some(digest),
        }
    }

    /// As a document spells it.
    #[must_use]
    pub fn spelling(&self) -> &str {
        match self {
            Self::Host => "host",
            Self::Named { name, .. } => name.as_str(),
            Self::Exact(digest) => digest.as_str(),
        }
    }
}

/// File rules: exact paths or `dir/**`, relative, enforced by mounts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRules {
    /// Writable places; nothing listed means all of the workspace.
    pub write: Option<Vec<String>>,
    /// Hidden places.
    pub hide: Vec<String>,
}

/// Limits of one session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Wall time in seconds.
    pub wall_seconds: u64,
    /// Idle time in seconds.
    pub idle_seconds: u64,
    /// CPU share in thousandths of one CPU.
    pub cpu_milli: u64,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub pids: u64,
    /// Writable space in bytes.
    pub disk_bytes: u64,
    /// Bytes that may leave.
    pub egress_bytes: u64,
    /// Bytes that may come in.
    pub ingress_bytes: u64,
    /// Records the session may cause.
    pub records: u64,
    /// Requests it may make.
    pub requests: u64,
    /// Requests a second; as many at once.
    pub rate: u64,
    /// Connections and streams that are open at once.
    pub streams: u64,
    /// What one host may have of these.
    pub each_host: HostLimits,
}

/// Limits of one session at each host alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostLimits {
    /// Requests to it.
    pub requests: u64,
    /// Bytes that may go there.
    pub egress_bytes: u64,
    /// Bytes that may come from there.
    pub ingress_bytes: u64,
    /// Requests to it that are open at once.
    pub streams: u64,
}

/// A path given to a matcher of requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowRule {
    /// Its name: `grant.allow[0]`, or `preset.pip[1]`.
    pub name: RuleName,
    /// The hosts.
    pub host: HostPattern,
    /// The scheme; https unless the document says otherwise.
    pub scheme: Scheme,
    /// The port.
    pub port: Port,
    /// Methods; never empty.
    pub methods: Vec<Method>,
    /// Paths; never empty (`/**` is all).
    pub paths: Vec<PathPattern>,
    /// The client's own credentials may go there.
    pub own_credentials: bool,
    /// A WebSocket may be opened there.
    pub websocket: bool,
    /// The phase it belongs to.
    pub phase: Phase,
    /// What is judged there beyond method and path.
    pub dialect: Dialect,
    /// A model runs there: bodies are transcripts, which may quote tripwires.
    pub transcripts: bool,
}

/// What a rule judges of a request beyond its method and path. Where a rule with a dialect names
/// the place, such rules alone cover what goes there: neither a wider rule nor a binding brings
/// back what they leave out.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// Nothing.
    Plain,
    /// The operation at a package registry.
    Registry(RegistryGrant),
    /// The types of GraphQL operations; never empty.
    Graphql(Vec<GraphqlOperation>),
    /// The methods of JSON-RPC; never empty.
    Jsonrpc(Vec<RpcPattern>),
    /// The actions at a service of AWS.
    Aws(AwsGrant),
}

/// What may be done at a service of AWS, or of a store that speaks like one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AwsGrant {
    /// The service by its signing name.
    pub service: String,
    /// How it is told what to do.
    pub protocol: AwsProtocol,
    /// The actions; never empty.
    pub actions: Vec<AwsPattern>,
}

/// What may be done at a package registry: reading, always.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegistryGrant {
    /// Whose protocol is spoken.
    pub protocol: Protocol,
    /// The path below which the registry lies, without final slash; empty at a host of its own.
    pub under: String,
    /// Whether new versions may be published.
    pub publish: bool,
}

/// Which hosts a rule means.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostPattern {
    /// This one.
    Exact(Host),
    /// `*.suffix`: exactly one label before the suffix; carries no credential; the suffix is never
    /// a public suffix.
    OneLabel(Host),
}

/// A credential of the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretGrant {
    /// Its name in the vault.
    pub credential: CredentialName,
    /// The variable that holds the placeholder inside.
    pub env: Option<String>,
    /// Narrower methods than the binding's.
    pub methods: Option<Vec<Method>>,
    /// Narrower paths than the binding's.
    pub paths: Option<Vec<PathPattern>>,
    /// The phase in which it may be used; `locked` unless the document binds it to the install
    /// phase.
    pub phase: Phase,
}

/// A git repository over HTTPS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GitGrant {
    /// Its name: `git."https://host/owner/repo"`.
    pub name: RuleName,
    /// Where.
    pub endpoint: Endpoint,
    /// The repository's canonical path, `/acme/app`.
    pub repository: String,
    /// The credential to use, when there is one.
    pub secret: Option<CredentialName>,
    /// Whether fetch is allowed.
    pub fetch: bool,
    /// Patterns of references that may be pushed (`refs/heads/agent/*`); empty means none.
    pub push_refs: Vec<String>,
    /// Whether a matching reference may be deleted.
    pub delete: bool,
}

/// The install phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstallGrant {
    /// Workspace files that are visible in it.
    pub see: Vec<String>,
    /// The commands, as argument vectors.
    pub run: Vec<Vec<String>>,
}

/// What the tool layer says of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No.
    Deny,
    /// A person first.
    Ask,
    /// Yes.
    Allow,
}

/// A rule of the tool layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolRule {
    /// A tool, or `mcp:db/*`.
    pub tool: ToolPattern,
    /// What holds when it matches.
    pub verdict: Verdict,
    /// Conditions on arguments: name → exact value; all must hold.
    pub when: Vec<(String, serde_json::Value)>,
}

/// Which tools a rule means.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolPattern {
    /// This one.
    Exact(ToolName),
    /// Every tool whose name starts with this, up to and including the `/`.
    Server(String),
}
