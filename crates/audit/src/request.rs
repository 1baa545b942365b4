// SPDX-License-Identifier: Apache-2.0
//! The events of one request, in the order of its life: refused on the wire or decided, credential
//! released, ended.

use crate::record::Verdict;
use crate::text::{List, LongText, ShortText};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use torno_policy::decision::{Decision, Layer, Reason};
use torno_policy::facts::{
    self, Content, GitFacts, GitOperation, GraphqlOperation, Location, RefChange, RequestFacts,
};
use torno_policy::names::{BindingId, CredentialName, Endpoint, Method, RecordSeq, RuleName};
use torno_policy::tripwire::Wire;

/// A request was judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestDecided {
    /// How it came in.
    pub entry: facts::Entry,
    /// Scheme, host and port.
    pub endpoint: Endpoint,
    /// The method.
    pub method: Method,
    /// The canonical path; `{credential}` where a credential goes or its placeholder stood.
    pub path: LongText,
    /// Bytes of the query, when there is one. Its text is never kept.
    pub query_bytes: Option<u64>,
    /// The answer.
    pub verdict: Verdict,
    /// The layer that decided.
    pub layer: Layer,
    /// The rule that decided.
    pub rule: ShortText,
    /// Why not.
    pub reason: Option<Reason>,
    /// The credential that the answer covers, by name.
    pub credential: Option<CredentialName>,
    /// The binding it is covered by. Without a credential: its cookies alone may go in.
    pub binding: Option<BindingId>,
    /// Git facts.
    pub git: Option<GitNote>,
    /// What it said, where a rule judged that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<ContentNote>,
}

impl RequestDecided {
    /// The record of an answer.
    #[must_use]
    pub fn of(facts: &RequestFacts, decision: &Decision) -> Self {
        let keeping = match decision {
            Decision::Allow(permit) => permit.keeping().filter(|keeping| keeping.cookies),
            Decision::Ask(_) | Decision::Deny(_) => None,
        };
        let earned = keeping.map(|keeping| keeping.binding.clone());
        let (verdict, layer, rule, reason, injection) = match decision {
            Decision::Allow(permit) => {
                let injection = permit.injection();
                (
                    Verdict::Allow,
                    permit.layer(),
                    permit.rule(),
                    None,
                    injection,
                )
            }
            Decision::Ask(asked) => (Verdict::Ask, asked.layer, &asked.rule, None, None),
            Decision::Deny(refusal) => {
                let reason = Some(refusal.reason);
                (Verdict::Deny, refusal.layer, &refusal.rule, reason, None)
            }
        };
        let path = match injection {
            Some(injection) => injection.slot.named(&facts.path),
            None => Cow::Borrowed(&facts.path),
        };
        let query_bytes = facts.path.query().map(|query| byte_count(query.len()));
        Self {
            entry: facts.entry,
            endpoint: facts.endpoint.clone(),
            method: facts.method.clone(),
            path: LongText::new(path.path()),
            query_bytes,
            verdict,
            layer,
            rule: rule_text(rule),
            reason,
            credential: injection.map(|injection| injection.credential.clone()),
            binding: injection
                .map(|injection| injection.binding.clone())
                .or(earned),
            git: facts.git.as_ref().map(GitNote::of),
            content: facts.content.as_ref().map(ContentNote::of),
        }
    }
}

/// What a request said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentNote {
    /// The types of GraphQL operations.
    Graphql(Vec<GraphqlOperation>),
    /// The methods of JSON-RPC.
    Jsonrpc(List<ShortText, REFERENCES_MAX>),
    /// Whether large files are brought, and for which reference.
    Lfs {
        /// Brought, or fetched.
        is_upload: bool,
        /// The reference, when the client said it.
        reference: Option<ShortText>,
    },
    /// The actions of AWS.
    Aws(List<ShortText, REFERENCES_MAX>),
}

impl ContentNote {
    /// The record of what was said.
    #[must_use]
    pub fn of(content: &Content) -> Self {
        match content {
            Content::Graphql(said) => Self::Graphql(said.clone()),
            Content::Jsonrpc(said) => {
                let said = said.iter().map(|method| ShortText::new(method.as_str()));
                Self::Jsonrpc(List::new(said))
            }
            Content::Lfs(batch) => Self::Lfs {
                is_upload: batch.is_upload,
                reference: batch.reference.as_deref().map(ShortText::new),
            },
            Content::Aws(call) => {
                let said = call.actions.iter();
                let said = said.map(|action| ShortText::new(action.as_str()));
                Self::Aws(List::new(said))
            }
        }
    }
}

/// What a git request wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GitNote {
    /// The operation.
    pub operation: GitVerb,
    /// The repository's path.
    pub repository: LongText,
    /// The references of a push.
    pub references: List<ReferenceNote, REFERENCES_MAX>,
}

impl GitNote {
    /// The record of git facts.
    #[must_use]
    pub fn of(facts: &GitFacts) -> Self {
        let (operation, updates) = match &facts.operation {
            GitOperation::DiscoverFetch => (GitVerb::DiscoverFetch, &[][..]),
            GitOperation::Fetch => (GitVerb::Fetch, &[][..]),
            GitOperation::DiscoverPush => (GitVerb::DiscoverPush, &[][..]),
            GitOperation::Push(updates) => (GitVerb::Push, updates.as_slice()),
            GitOperation::LfsBatch => (GitVerb::LfsBatch, &[][..]),
            GitOperation::LfsVerifyLocks => (GitVerb::LfsVerifyLocks, &[][..]),
            GitOperation::LfsDownload => (GitVerb::LfsDownload, &[][..]),
            GitOperation::LfsUpload => (GitVerb::LfsUpload, &[][..]),
        };
        let references = updates.iter().map(|update| ReferenceNote {
            name: ShortText::new(&update.name),
            change: update.change,
        });
        Self {
            operation,
            repository: LongText::new(&facts.repository),
            references: List::new(references),
        }
    }
}

/// One reference of a push.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReferenceNote {
    /// Its full name.
    pub name: ShortText,
    /// What would happen to it.
    pub change: RefChange,
}

/// A git operation, without its references.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GitVerb {
    /// Which references are there to fetch?
    DiscoverFetch,
    /// Fetch.
    Fetch,
    /// Which references are there to push to?
    DiscoverPush,
    /// Push.
    Push,
    /// Where large files are fetched or brought.
    LfsBatch,
    /// Which files are locked?
    LfsVerifyLocks,
    /// Fetch of a large file.
    LfsDownload,
    /// Push of a large file.
    LfsUpload,
}

/// A credential leaves the vault for one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialReleased {
    /// The decision it belongs to. In one batch with it: see [`crate::Recorder::next_seq`].
    pub decision: RecordSeq,
    /// Which one, by name.
    pub credential: CredentialName,
    /// Which version of it.
    pub version: u32,
    /// The binding that covers it.
    pub binding: BindingId,
    /// Where it goes.
    pub endpoint: Endpoint,
}

/// A credential leaves the vault so that answers can be searched for it; it goes nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialWatched {
    /// The decision it belongs to. In one batch with it: see [`crate::Recorder::next_seq`].
    pub decision: RecordSeq,
    /// Which one, by name.
    pub credential: CredentialName,
    /// Which version of it.
    pub version: u32,
}

/// How an allowed request ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestEnded {
    /// The decision it belongs to.
    pub decision: RecordSeq,
    /// How.
    pub outcome: Outcome,
    /// The HTTP status, when one was seen.
    pub status: Option<u16>,
    /// Why it was refused, when it was.
    pub reason: Option<Reason>,
    /// Bytes of request body sent.
    pub sent: u64,
    /// Bytes of response body received.
    pub received: u64,
    /// Places where a released secret stood in the answer.
    pub reflected: u32,
    /// Placeholders that were carried inert in the request body.
    pub carried: u32,
    /// The address that was dialled.
    pub address: Option<ShortText>,
    /// Set when a company proxy resolved the name.
    pub resolved_by_proxy: bool,
}

/// The ways a request ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The exchange was completed.
    Completed,
    /// It failed on our side or the far end's.
    Refused,
    /// The client or the far end went away in the middle.
    Aborted,
}

/// Requests that were refused before they could be judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestRefused {
    /// Why.
    pub reason: Reason,
    /// The layer that refused.
    pub layer: Layer,
    /// The rule that refused.
    pub rule: ShortText,
    /// What was asked for, as far as it could be read.
    pub target: ShortText,
    /// How many equal ones this stands for.
    pub count: u32,
}

/// A tripwire was on its way out. Where it stood and where it was going; never its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TripwireSeen {
    /// Which.
    pub wire: Wire,
    /// The part of the request that held it: `header:authorization`, `query`, `body`.
    pub location: ShortText,
    /// Where it was going.
    pub endpoint: Endpoint,
    /// With which method.
    pub method: Method,
}

impl TripwireSeen {
    /// The record of a find.
    #[must_use]
    pub fn new(wire: Wire, location: &Location, to: (&Endpoint, &Method)) -> Self {
        let location = match location {
            Location::Header(name) => ShortText::new(format!("header:{name}")),
            Location::Trailer => ShortText::new("trailer"),
            Location::Path => ShortText::new("path"),
            Location::Query => ShortText::new("query"),
            Location::Method => ShortText::new("method"),
            Location::Body | Location::Slot => ShortText::new("body"),
        };
        let (endpoint, method) = to;
        Self {
            wire,
            location,
            endpoint: endpoint.clone(),
            method: method.clone(),
        }
    }
}

/// LIMIT: a push of more references, or a batch of more methods, is judged whole; the record keeps
/// 32 and the count.
pub const REFERENCES_MAX: usize = 32;

fn rule_text(rule: &RuleName) -> ShortText {
    rule.into()
}

fn byte_count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
