// SPDX-License-Identifier: Apache-2.0
//! The three answers, and the closed register of reasons.

use crate::binding::{Mode, Slot};
use crate::names::{BindingId, CredentialName, Endpoint, Generation, RuleName, SessionId};
use serde::{Deserialize, Serialize};

/// What may happen with an act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It may happen as described by the permit.
    Allow(Permit),
    /// A person must say so first.
    Ask(Asked),
    /// It may not happen.
    Deny(Refusal),
}

/// The evidence of one decision that said yes. Only [`crate::decide()`] makes one.
///
/// ```compile_fail,E0451
/// # use torno_policy::{Layer, Permit};
/// # use torno_policy::names::{Generation, RuleName, SessionId};
/// let forged = Permit {
///     session: SessionId::parse("s1").unwrap(),
///     generation: Generation(1),
///     endpoint: None,
///     injection: None,
///     keeping: None,
///     watched: Vec::new(),
///     transcripts: false,
///     rule: RuleName::new("mine"),
///     layer: Layer::Session,
/// };
/// ```
///
/// It can't be read from the wire either:
///
/// ```compile_fail,E0277
/// let forged: torno_policy::Permit = serde_json::from_str("{}").unwrap();
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permit {
    pub(crate) session: SessionId,
    pub(crate) generation: Generation,
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) injection: Option<PermittedInjection>,
    pub(crate) keeping: Option<Box<PermittedKeeping>>,
    pub(crate) watched: Vec<CredentialName>,
    pub(crate) transcripts: bool,
    pub(crate) rule: RuleName,
    pub(crate) layer: Layer,
}

/// The one credential that a permit covers, and how it goes in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermittedInjection {
    /// The binding that matched.
    pub binding: BindingId,
    /// Its revision at the time.
    pub revision: u64,
    /// The credential.
    pub credential: CredentialName,
    /// The place it goes to.
    pub slot: Slot,
    /// The mode that held.
    pub mode: Mode,
}

/// What the gate keeps of the answer, for the binding that covers the request, whether its
/// credential goes in or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermittedKeeping {
    /// The binding.
    pub binding: BindingId,
    /// Its credential: what is kept goes where that may go, and ends with it.
    pub credential: CredentialName,
    /// The host's cookies are kept, and those that are go into the request.
    pub cookies: bool,
    /// The answer is a token endpoint's.
    pub tokens: bool,
}

impl Permit {
    /// Whose act it is.
    #[must_use]
    pub fn session(&self) -> &SessionId {
        &self.session
    }
    /// The session's generation when it was judged.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.generation
    }
    /// Where the request may go; nothing for a tool call.
    #[must_use]
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.endpoint.as_ref()
    }
    /// The credential it covers.
    #[must_use]
    pub fn injection(&self) -> Option<&PermittedInjection> {
        self.injection.as_ref()
    }
    /// What is kept of its answer.
    #[must_use]
    pub fn keeping(&self) -> Option<&PermittedKeeping> {
        self.keeping.as_deref()
    }
    /// The credential whose authority goes out: itself, or by the cookies that it earned.
    #[must_use]
    pub fn credential(&self) -> Option<&CredentialName> {
        let injected = self
            .injection
            .as_ref()
            .map(|injection| &injection.credential);
        injected.or_else(|| self.keeping.as_ref().map(|keeping| &keeping.credential))
    }
    /// The session's other credentials: none goes out with the request, and its answer must be
    /// searched for each of them, since a far end may have kept one from an earlier session.
    #[must_use]
    pub fn watched(&self) -> &[CredentialName] {
        &self.watched
    }
    /// The far end runs a model: its bodies are transcripts, which may quote tripwires.
    #[must_use]
    pub fn transcripts(&self) -> bool {
        self.transcripts
    }
    /// The rule that allowed it.
    #[must_use]
    pub fn rule(&self) -> &RuleName {
        &self.rule
    }
    /// The layer of that rule.
    #[must_use]
    pub fn layer(&self) -> Layer {
        self.layer
    }
}

/// A question for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The layer that asks.
    pub layer: Layer,
    /// The rule that asks.
    pub rule: RuleName,
    /// SHA-256 of the canonical act: the approval is bound to it.
    pub digest: [u8; 32],
}

/// Why an act may not happen: enough for a model to act on, nothing of the request in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// The stable code.
    #[serde(rename = "code")]
    pub reason: Reason,
    /// The layer that decided.
    pub layer: Layer,
    /// The rule that decided.
    pub rule: RuleName,
    /// What to do next, in one sentence.
    pub hint: String,
}

/// Who said it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// The bytes themselves were refused before any rule was looked at.
    Wire,
    /// The session is not running (killed, ended, fenced, unknown).
    Standing,
    /// The organisation's policy.
    Organisation,
    /// The session's grant.
    Session,
    /// The tool table.
    Tool,
    /// The vault's bindings.
    Vault,
    /// The record could not be written.
    Record,
    /// The far end could not be reached or verified.
    Connect,
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $status:literal;)*) => {
        /// Every reason there is. Codes are stable; statuses are those of DESIGN §5.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Reason { $($(#[$doc])* $name,)* }

        impl Reason {
            /// Every reason, for tables and tests.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
            /// The stable code.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }
            /// The HTTP status a refused request is answered with.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }
        }
    };
}

reasons! {
    /// The request is not well-formed HTTP.
    MalformedRequest = "malformed_request", 400;
    /// The authority is not one canonical host.
    BadHost = "bad_host", 400;
    /// The port is malformed.
    BadPort = "bad_port", 400;
    /// The path is ambiguous.
    BadPath = "bad_path", 400;
    /// The method is not one that is spoken here.
    BadMethod = "bad_method", 400;
    /// Asked host, SNI and Host header differ.
    NamesDisagree = "names_disagree", 421;
    /// Head, trailer or body over a limit.
    TooLarge = "too_large", 413;
    /// Neither TLS nor HTTP on a captured connection.
    UnknownProtocol = "unknown_protocol", 400;
    /// A dial to an address that no name was asked for.
    RawAddress = "raw_address", 403;
    /// The session was killed.
    SessionKilled = "session_killed", 403;
    /// The session ended.
    SessionEnded = "session_ended", 403;
    /// The asker belongs to an earlier generation.
    SessionFenced = "session_fenced", 403;
    /// No such session.
    SessionUnknown = "session_unknown", 403;
    /// The organisation forbids it.
    OrganisationForbids = "organisation_forbids", 403;
    /// No rule of the grant names the host.
    HostNotGranted = "host_not_granted", 403;
    /// The host is granted, but not on this port or scheme.
    PortNotGranted = "port_not_granted", 403;
    /// The host is granted, but not with this method.
    MethodNotGranted = "method_not_granted", 403;
    /// The host is granted, but not at this path.
    PathNotGranted = "path_not_granted", 403;
    /// The host is granted, but no WebSocket to it.
    WebsocketNotGranted = "websocket_not_granted", 403;
    /// The git operation or repository is not granted.
    GitNotGranted = "git_not_granted", 403;
    /// The reference of a push is not granted.
    RefNotGranted = "ref_not_granted", 403;
    /// What the request does at a registry, or says in GraphQL or JSON-RPC, is not granted.
    OperationNotGranted = "operation_not_granted", 403;
    /// A rule judges what the request says, and that was not read.
    ContentUnread = "content_unread", 403;
    /// The request belongs to another phase (install or locked).
    PhaseNotGranted = "phase_not_granted", 403;
    /// The tool is not in the table, or denied by it.
    ToolNotGranted = "tool_not_granted", 403;
    /// A placeholder stands where its binding does not put it, or goes elsewhere.
    CredentialEndpointMismatch = "credential_endpoint_mismatch", 403;
    /// A placeholder of another session, or a dead one.
    PlaceholderUnknown = "placeholder_unknown", 403;
    /// The binding wants its placeholder and the request has none.
    PlaceholderMissing = "placeholder_missing", 403;
    /// The same slot was filled twice.
    PlaceholderRepeated = "placeholder_repeated", 403;
    /// A credential of the client's own, where the grant does not allow one.
    OwnCredential = "own_credential", 403;
    /// More than one binding matches.
    BindingAmbiguous = "binding_ambiguous", 403;
    /// The endpoint has a binding of the session, but not for this method or path.
    BindingNotGranted = "binding_not_granted", 403;
    /// The binding denies this method and path: it would mint credentials or leave authority.
    BindingDenies = "binding_denies", 403;
    /// The binding's time is over.
    BindingExpired = "binding_expired", 403;
    /// The credential was revoked or does not exist.
    CredentialRevoked = "credential_revoked", 403;
    /// A person must approve, and nobody can be asked yet.
    ApprovalUnavailable = "approval_unavailable", 403;
    /// Too large to be shown for approval.
    TooLargeToAsk = "too_large_to_ask", 403;
    /// The vault is sealed.
    VaultSealed = "vault_sealed", 503;
    /// The record can't be written.
    RecordUnavailable = "record_unavailable", 503;
    /// The notary or the dialer does not answer.
    RoleUnavailable = "role_unavailable", 503;
    /// We could not decide.
    Undecidable = "undecidable", 403;
    /// The name has no address.
    NameUnresolved = "name_unresolved", 502;
    /// An address of the name is internal or special.
    AddressRefused = "address_refused", 403;
    /// The far end did not accept the connection.
    ConnectFailed = "connect_failed", 502;
    /// The far end's certificate does not verify against the bound name.
    UpstreamTls = "upstream_tls", 502;
    /// The far end's answer is not well-formed, or can't be scrubbed.
    UpstreamResponse = "upstream_response", 502;
    /// The far end did not answer in time.
    UpstreamTimeout = "upstream_timeout", 504;
    /// A limit of the session is spent.
    LimitReached = "limit_reached", 429;
    /// A receipt that is unknown, used or too old.
    ReceiptInvalid = "receipt_invalid", 403;
    /// A tripwire of the session is on its way out.
    Tripwire = "tripwire", 403;
    /// The session is frozen: a tripwire of its own was seen.
    SessionFrozen = "session_frozen", 403;
    /// The session is paused: a person holds it still.
    SessionPaused = "session_paused", 503;
}
