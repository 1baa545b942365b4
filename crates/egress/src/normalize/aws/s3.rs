// SPDX-License-Identifier: Apache-2.0
//! S3 by method, path and query: a table of what is known. A parameter that is in no row makes the
//! request an unknown one, since S3 picks what it does by them.

use super::super::Request;
use torno_policy::facts::AwsProtocol;

mod headers;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Account,
    Bucket,
    Object,
}

/// Parameters that choose no other action.
const PLAIN: [&str; 22] = [
    "continuation-token",
    "delimiter",
    "encoding-type",
    "fetch-owner",
    "key-marker",
    "list-type",
    "marker",
    "max-keys",
    "max-parts",
    "max-uploads",
    "part-number-marker",
    "prefix",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
    "start-after",
    "upload-id-marker",
    "version-id-marker",
    "x-id",
];

/// Level, methods, the parameters that choose it, and the actions by their permissions' names.
const TABLE: [(Level, &str, &[&str], &str); 35] = [
    (Level::Account, "GET", &[], "ListAllMyBuckets"),
    (Level::Bucket, "GET HEAD", &[], "ListBucket"),
    (Level::Bucket, "GET", &["versions"], "ListBucketVersions"),
    (
        Level::Bucket,
        "GET",
        &["uploads"],
        "ListBucketMultipartUploads",
    ),
    (Level::Bucket, "GET", &["location"], "GetBucketLocation"),
    (Level::Bucket, "GET", &["versioning"], "GetBucketVersioning"),
    (Level::Bucket, "GET", &["acl"], "GetBucketAcl"),
    (Level::Bucket, "GET", &["policy"], "GetBucketPolicy"),
    (
        Level::Bucket,
        "GET",
        &["policyStatus"],
        "GetBucketPolicyStatus",
    ),
    (Level::Bucket, "GET", &["tagging"], "GetBucketTagging"),
    (Level::Bucket, "GET", &["cors"], "GetBucketCORS"),
    (
        Level::Bucket,
        "GET",
        &["lifecycle"],
        "GetLifecycleConfiguration",
    ),
    (
        Level::Bucket,
        "GET",
        &["encryption"],
        "GetEncryptionConfiguration",
    ),
    // Its body may name versions, which are then gone for good.
    (
        Level::Bucket,
        "POST",
        &["delete"],
        "DeleteObject DeleteObjectVersion",
    ),
    (Level::Bucket, "PUT", &[], "CreateBucket"),
    (Level::Bucket, "PUT", &["acl"], "PutBucketAcl"),
    (Level::Bucket, "PUT", &["policy"], "PutBucketPolicy"),
    (Level::Bucket, "PUT", &["tagging"], "PutBucketTagging"),
    (Level::Bucket, "DELETE", &[], "DeleteBucket"),
    (Level::Object, "GET HEAD", &[], "GetObject"),
    (Level::Object, "GET HEAD", &["partNumber"], "GetObject"),
    (
        Level::Object,
        "GET HEAD",
        &["versionId"],
        "GetObjectVersion",
    ),
    (Level::Object, "GET", &["acl"], "GetObjectAcl"),
    (Level::Object, "GET", &["attributes"], "GetObjectAttributes"),
    (Level::Object, "GET", &["tagging"], "GetObjectTagging"),
    (
        Level::Object,
        "GET",
        &["uploadId"],
        "ListMultipartUploadParts",
    ),
    (Level::Object, "PUT", &[], "PutObject"),
    (
        Level::Object,
        "PUT",
        &["partNumber", "uploadId"],
        "PutObject",
    ),
    (Level::Object, "POST", &["uploads"], "PutObject"),
    (Level::Object, "POST", &["uploadId"], "PutObject"),
    (Level::Object, "PUT", &["tagging"], "PutObjectTagging"),
    (Level::Object, "PUT", &["acl"], "PutObjectAcl"),
    (Level::Object, "DELETE", &[], "DeleteObject"),
    (
        Level::Object,
        "DELETE",
        &["uploadId"],
        "AbortMultipartUpload",
    ),
    (
        Level::Object,
        "DELETE",
        &["versionId"],
        "DeleteObjectVersion",
    ),
];

/// Every action that the request needs; none when it is not known.
pub(super) fn actions(request: &Request, protocol: AwsProtocol) -> Vec<&'static str> {
    let facts = &request.facts;
    let query = facts.path.query().unwrap_or_default();
    let action = level(facts.path.path(), protocol)
        .and_then(|level| action(level, facts.method.as_str(), query));
    let Some(action) = action else {
        return Vec::new();
    };
    let mut actions: Vec<&'static str> = action.split(' ').collect();
    for field in request.head.fields() {
        match headers::asks_for(field.name) {
            Some(further) => actions.extend(further.split_terminator(' ')),
            None => return Vec::new(),
        }
    }
    actions.sort_unstable();
    actions.dedup();
    actions
}

/// What a path names. A bucket's name has no escape; a server that decodes slashes first would
/// see another.
fn level(path: &str, protocol: AwsProtocol) -> Option<Level> {
    let rest = path.strip_prefix('/')?;
    if protocol == AwsProtocol::S3Host {
        return Some(if rest.is_empty() {
            Level::Bucket
        } else {
            Level::Object
        });
    }
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    match (bucket, key) {
        (bucket, _) if bucket.contains('%') => None,
        ("", _) => Some(Level::Account),
        (_, "") => Some(Level::Bucket),
        _ => Some(Level::Object),
    }
}

fn action(level: Level, method: &str, query: &str) -> Option<&'static str> {
    // Some servers split there too.
    if query.contains(';') {
        return None;
    }
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let mut names: Vec<&str> = pairs
        .map(|pair| pair.split('=').next().unwrap_or_default())
        .filter(|name| !PLAIN.contains(name))
        .collect();
    names.sort_unstable();
    let row = TABLE.iter().find(|(at, methods, chosen, _)| {
        let mut methods = methods.split(' ');
        *at == level && methods.any(|one| one == method) && *chosen == names.as_slice()
    });
    row.map(|(_, _, _, action)| *action)
}

#[cfg(test)]
pub(super) fn action_of(protocol: AwsProtocol, method: &str, path: &str) -> Option<&'static str> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    level(path, protocol).and_then(|level| action(level, method, query))
}
