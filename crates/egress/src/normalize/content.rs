// SPDX-License-Identifier: Apache-2.0
//! What a request says, read before it is judged: a GraphQL or JSON-RPC body, single or batch, the
//! query of a GraphQL GET, an LFS batch. Whatever a server could read in another way is refused.

use super::graphql;
use super::json::{self, Value};
use super::target::percent_decoded;
use super::{Request, aws, git};
use crate::head::{Framing, list_members};
use crate::refuse::Fault;
use std::collections::BTreeSet;
use torno_policy::Reason;
use torno_policy::facts::{Content, ContentKind, GraphqlOperation, LfsBatch, Location, RpcMethod};

/// LIMIT: 1 MiB of body is read and judged; queries are text that people write.
pub(crate) const CONTENT_BYTES_MAX: usize = 1 << 20;
/// LIMIT: members of a batch, each judged.
const BATCH_MAX: usize = 64;

type Members = Vec<(String, Value)>;

/// Checks what the head says of the body. True when there is a body to read.
pub(super) fn head(request: &Request, kind: ContentKind) -> Result<bool, Fault> {
    if let ContentKind::Aws(protocol) = kind
        && !aws::head(request, protocol)?
    {
        return Ok(false);
    }
    let posted = request.facts.method.as_str() == "POST";
    if !posted {
        return match request.framing {
            Framing::Empty => Ok(false),
            Framing::Length(_) | Framing::Chunked => {
                Err(Fault::malformed("send a body with POST only"))
            }
        };
    }
    let codings = list_members(request.head.values("content-encoding"));
    if codings.into_iter().any(|coding| coding != "identity") {
        return Err(Fault::malformed("send this body not encoded"));
    }
    let wanted = match kind {
        ContentKind::Graphql | ContentKind::Jsonrpc => "application/json",
        ContentKind::Lfs => "application/vnd.git-lfs+json",
        ContentKind::Aws(_) => "application/x-www-form-urlencoded",
    };
    media_type(
        request,
        wanted,
        "send one Content-Type: application/json for GraphQL and JSON-RPC, that of git-lfs for LFS",
    )?;
    match request.framing {
        Framing::Length(length) if usize::try_from(length).is_ok_and(|l| l > CONTENT_BYTES_MAX) => {
            Err(too_large())
        }
        Framing::Empty => Err(Fault::malformed("send a body")),
        Framing::Length(_) | Framing::Chunked => Ok(true),
    }
}

pub(crate) fn too_large() -> Fault {
    // ATTACK: 202
    Fault::new(
        Reason::TooLarge,
        "send at most 1 MiB where a rule judges what the body says",
    )
    .at(Location::Body)
}

/// Checks that a body can be read whole for the digest in a signature.
pub(super) fn payload(request: &Request) -> Result<(), Fault> {
    match request.framing {
        Framing::Length(length)
            if usize::try_from(length).is_ok_and(|l| l <= CONTENT_BYTES_MAX) =>
        {
            Ok(())
        }
        Framing::Empty | Framing::Chunked => Ok(()),
        Framing::Length(_) => Err(payload_too_large()),
    }
}

pub(super) fn payload_too_large() -> Fault {
    Fault::new(
        Reason::TooLarge,
        "declare the body's SHA-256 in X-Amz-Content-Sha256: only 1 MiB is read for a signature",
    )
    .at(Location::Body)
}

/// One content type, this one, in UTF-8.
pub(super) fn media_type(request: &Request, wanted: &str, hint: &'static str) -> Result<(), Fault> {
    let fault = Fault::malformed(hint);
    let given = request.head.single("content-type");
    let given = given.ok().flatten().ok_or_else(|| fault.clone())?;
    let given = std::str::from_utf8(given).map_err(|_| fault.clone())?;
    let given = given.to_ascii_lowercase();
    let mut parts = given.split(';').map(str::trim);
    let charset = |part: &str| matches!(part, "charset=utf-8" | "charset=\"utf-8\"");
    if parts.next() == Some(wanted) && parts.all(charset) {
        Ok(())
    } else {
        Err(fault)
    }
}

/// Reads it. `body` is whole; empty for a request without.
pub(super) fn read(request: &Request, kind: ContentKind, body: &[u8]) -> Result<Content, Fault> {
    let query = request.facts.path.query();
    let posted = request.facts.method.as_str() == "POST";
    match (kind, posted) {
        (ContentKind::Graphql, true) => {
            // Servers look into the URL first.
            if query.is_some() {
                return Err(
                    Fault::malformed("POST GraphQL to a URL without a query").at(Location::Query)
                );
            }
            graphql_body(body)
        }
        (ContentKind::Graphql, false) => graphql_query(query.unwrap_or_default()),
        (ContentKind::Jsonrpc, true) => {
            refuse_calls_in_query(query.unwrap_or_default())?;
            jsonrpc(body)
        }
        (ContentKind::Jsonrpc, false) => {
            refuse_calls_in_query(query.unwrap_or_default())?;
            Ok(Content::Jsonrpc(Vec::new()))
        }
        (ContentKind::Lfs, _) => lfs_batch(body),
        (ContentKind::Aws(protocol), _) => {
            let call = aws::read(request, protocol, body)?;
            Ok(Content::Aws(Box::new(call)))
        }
    }
}

/// The members of a batch, or the one request.
fn requests(body: &[u8]) -> Result<Vec<Members>, Fault> {
    let one = |value| match value {
        Value::Object(members) => Ok(members),
        _ => Err(Fault::malformed("send a JSON object, or a list of such")),
    };
    match json::read(body)? {
        Value::Array(values) if (1..=BATCH_MAX).contains(&values.len()) => {
            values.into_iter().map(one).collect()
        }
        Value::Array(_) => Err(Fault::malformed("send 1 to 64 requests in a batch")),
        value => Ok(vec![one(value)?]),
    }
}

/// ATTACK: 200 – a member in another case, or one that nobody knows, may mean something to a
/// server.
fn only(members: &Members, known: &[&str], hint: &'static str) -> Result<(), Fault> {
    if members
        .iter()
        .all(|(name, _)| known.contains(&name.as_str()))
    {
        Ok(())
    } else {
        Err(Fault::malformed(hint))
    }
}

fn member<'a>(members: &'a Members, name: &str) -> Option<&'a Value> {
    let found = members.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value)
}

/// GraphQL over HTTP, by POST.
pub(crate) fn graphql_body(body: &[u8]) -> Result<Content, Fault> {
    let said = requests(body)?;
    let said: Result<BTreeSet<_>, _> = said.iter().map(graphql_request).collect();
    Ok(Content::Graphql(said?.into_iter().collect()))
}

fn graphql_request(members: &Members) -> Result<GraphqlOperation, Fault> {
    only(
        members,
        &["query", "operationName", "variables", "extensions"],
        "send GraphQL with its text: `query`, `operationName`, `variables`, `extensions` alone",
    )?;
    let Some(Value::Text(document)) = member(members, "query") else {
        return Err(without_text());
    };
    let name = match member(members, "operationName") {
        None | Some(Value::Null) => None,
        Some(Value::Text(name)) => Some(name.as_str()),
        Some(_) => return Err(Fault::malformed("give `operationName` as a text")),
    };
    match member(members, "extensions") {
        None | Some(Value::Null) => {}
        Some(Value::Object(extensions)) => {
            // A server may take a hash for the text, and ignore what stands beside it.
            let persisted = |name: &str| name.to_ascii_lowercase().contains("persisted");
            if extensions.iter().any(|(name, _)| persisted(name)) {
                return Err(without_text());
            }
        }
        Some(_) => return Err(Fault::malformed("give `extensions` as an object")),
    }
    match member(members, "variables") {
        None | Some(Value::Null | Value::Object(_)) => {}
        Some(_) => return Err(Fault::malformed("give `variables` as an object")),
    }
    graphql::operation(document, name)
}

fn without_text() -> Fault {
    Fault::malformed("send the text of a GraphQL query: one by its hash or id can't be judged")
}

/// GraphQL over HTTP, by GET.
pub(crate) fn graphql_query(query: &str) -> Result<Content, Fault> {
    let fault = Fault::malformed(
        "GET GraphQL with `query`, `operationName` and `variables`, each once and in UTF-8",
    )
    .at(Location::Query);
    // Some servers split at it too.
    if query.contains(';') {
        return Err(fault);
    }
    let (mut document, mut name, mut variables) = (None, None, None);
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').ok_or_else(|| fault.clone())?;
        let place = match key {
            "query" => &mut document,
            "operationName" => &mut name,
            "variables" => &mut variables,
            _ => return Err(fault),
        };
        let value = percent_decoded(&value.replace('+', " "));
        let value = String::from_utf8(value).map_err(|_| fault.clone())?;
        if place.replace(value).is_some() {
            return Err(fault);
        }
    }
    let document = document.ok_or(fault)?;
    Ok(Content::Graphql(vec![graphql::operation(
        &document,
        name.as_deref(),
    )?]))
}

/// JSON-RPC 2.0: requests and notifications. What answers a server's own request is not taken.
pub(crate) fn jsonrpc(body: &[u8]) -> Result<Content, Fault> {
    let said = requests(body)?;
    let said: Result<BTreeSet<_>, _> = said.iter().map(jsonrpc_request).collect();
    Ok(Content::Jsonrpc(said?.into_iter().collect()))
}

fn jsonrpc_request(members: &Members) -> Result<RpcMethod, Fault> {
    let hint = "send JSON-RPC 2.0 requests: `jsonrpc`, `method`, `params` and `id` alone";
    only(members, &["jsonrpc", "method", "params", "id"], hint)?;
    if member(members, "jsonrpc") != Some(&Value::Text("2.0".to_owned())) {
        return Err(Fault::malformed(hint));
    }
    match member(members, "method") {
        Some(Value::Text(method)) => RpcMethod::parse(method).ok_or(Fault::malformed(
            "name the method in 1 to 128 visible ASCII characters, without `*`",
        )),
        _ => Err(Fault::malformed(hint)),
    }
}

/// Drafts of JSON-RPC over HTTP, and many frameworks, take a call from the URL.
fn refuse_calls_in_query(query: &str) -> Result<(), Fault> {
    let calls = |pair: &str| {
        let (name, _) = pair.split_once('=').unwrap_or((pair, ""));
        let name = percent_decoded(name).to_ascii_lowercase();
        matches!(name.as_slice(), b"method" | b"params" | b"jsonrpc")
    };
    if query.split(['&', ';']).any(calls) {
        Err(Fault::malformed("call JSON-RPC in the body, not in the URL").at(Location::Query))
    } else {
        Ok(())
    }
}

/// The batch API of git LFS.
pub(crate) fn lfs_batch(body: &[u8]) -> Result<Content, Fault> {
    let hint = "send an LFS batch as git-lfs does, with one `operation`: download or upload";
    let Value::Object(members) = json::read(body)? else {
        return Err(Fault::malformed(hint));
    };
    let known = ["operation", "transfers", "ref", "objects", "hash_algo"];
    only(&members, &known, hint)?;
    let is_upload = match member(&members, "operation") {
        Some(Value::Text(word)) if word == "upload" => true,
        Some(Value::Text(word)) if word == "download" => false,
        _ => return Err(Fault::malformed(hint)),
    };
    let reference = match member(&members, "ref") {
        None | Some(Value::Null) => None,
        Some(Value::Object(named)) => {
            only(named, &["name"], hint)?;
            match member(named, "name") {
                Some(Value::Text(name)) if git::is_ref_name(name) => Some(name.clone()),
                _ => return Err(Fault::malformed(hint)),
            }
        }
        Some(_) => return Err(Fault::malformed(hint)),
    };
    Ok(Content::Lfs(LfsBatch {
        is_upload,
        reference,
    }))
}

#[cfg(test)]
mod tests;
