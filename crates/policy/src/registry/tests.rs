// SPDX-License-Identifier: Apache-2.0

use super::*;
use proptest::prelude::*;

fn does(protocol: Protocol, request: &str) -> Operation {
    let (method, target) = request.split_once(' ').unwrap();
    let method = Method::parse(method).unwrap();
    operation(protocol, "", &method, &RequestPath::parse(target).unwrap())
}

/// Every request that the clients make, and what it does.
const TABLE: &[(Protocol, Operation, &[&str])] = &[
    (
        Protocol::Npm,
        Operation::Read,
        &[
            "GET /left-pad",
            "GET /left-pad/1.3.0",
            "GET /left-pad/-/left-pad-1.3.0.tgz",
            "GET /@types%2Festree",
            "GET /%40types%2festree",
            "GET /@types/estree",
            "GET /@types/estree/-/estree-1.0.8.tgz",
            "HEAD /left-pad",
            "GET /-/ping",
            "GET /-/whoami",
            "GET /-/v1/search?text=x",
            "GET /-/package/left-pad/dist-tags",
            "GET /-/npm/v1/keys",
            "POST /-/npm/v1/security/audits/quick",
            "POST /-/npm/v1/security/advisories/bulk",
            "GET /-/npm/v1/attestations/sigstore@3.0.0",
            "GET /",
        ],
    ),
    (
        Protocol::Npm,
        Operation::Publish,
        &["PUT /left-pad", "PUT /@types%2Festree"],
    ),
    (
        Protocol::Npm,
        Operation::Unpublish,
        &[
            "DELETE /left-pad/-rev/3-a",
            "DELETE /@a%2Fb/-/b-1.0.0.tgz/-rev/3-a",
            "DELETE /left-pad",
        ],
    ),
    (
        Protocol::Npm,
        Operation::Owners,
        &[
            "PUT /left-pad/-rev/3-a",
            "POST /-/package/left-pad/access",
            "PUT /-/team/a/b/user",
            "PUT /-/org/a/user",
        ],
    ),
    (
        Protocol::Npm,
        Operation::Tag,
        &[
            "PUT /-/package/left-pad/dist-tags/latest",
            "DELETE /-/package/@a%2Fb/dist-tags/old",
            "POST /-/package/left-pad/dist-tags",
        ],
    ),
    (
        Protocol::Npm,
        Operation::Account,
        &[
            "PUT /-/user/org.couchdb.user:me",
            "GET /-/npm/v1/tokens",
            "POST /-/npm/v1/tokens",
            "DELETE /-/npm/v1/tokens/token/x",
            "POST /-/npm/v1/user",
            "POST /-/v1/login",
            "DELETE /-/user/token/x",
        ],
    ),
    (
        Protocol::Npm,
        Operation::Hook,
        &["POST /-/npm/v1/hooks/hook", "GET /-/npm/v1/hooks"],
    ),
    (
        Protocol::Npm,
        Operation::Unknown,
        &[
            "POST /left-pad",
            "PATCH /left-pad",
            "PUT /left-pad/1.0.0",
            "PUT /left-pad%2F-rev%2F1",
            "GET /a%2Fb",
            "GET /@a%2Fb%2Fc",
            "PUT /-/whoami",
            "POST /-/ping",
            "GET /-/all",
            "POST /",
            "GET /left-pad/-/x/y",
            "OPTIONS /left-pad",
            "PUT /@a",
            "PUT /.hidden",
        ],
    ),
    (
        Protocol::Pypi,
        Operation::Read,
        &[
            "GET /simple/",
            "GET /simple/six/",
            "HEAD /simple/six/",
            "GET /pypi/six/json",
            "GET /packages/b7/ce/six-1.17.0-py2.py3-none-any.whl",
        ],
    ),
    (
        Protocol::Pypi,
        Operation::Publish,
        &["POST /legacy/", "POST /legacy"],
    ),
    (
        Protocol::Pypi,
        Operation::Account,
        &["GET /manage/account/", "POST /_/oidc/mint-token"],
    ),
    (
        Protocol::Pypi,
        Operation::Unknown,
        &[
            "POST /simple/",
            "POST /pypi",
            "PUT /simple/six/",
            "GET /legacy/",
            "POST /pypi/six/json",
            "DELETE /packages/x",
            "GET /",
        ],
    ),
    (
        Protocol::Crates,
        Operation::Read,
        &[
            "GET /config.json",
            "GET /se/rd/serde",
            "GET /crates/serde/serde-1.0.0.crate",
            "GET /api/v1/crates/serde/1.0.0/download",
            "GET /api/v1/crates?q=x",
            "GET /api/v1/crates/serde/owners",
        ],
    ),
    (
        Protocol::Crates,
        Operation::Publish,
        &["PUT /api/v1/crates/new"],
    ),
    (
        Protocol::Crates,
        Operation::Yank,
        &[
            "DELETE /api/v1/crates/serde/1.0.0/yank",
            "PUT /api/v1/crates/serde/1.0.0/unyank",
        ],
    ),
    (
        Protocol::Crates,
        Operation::Owners,
        &[
            "PUT /api/v1/crates/serde/owners",
            "DELETE /api/v1/crates/serde/owners",
        ],
    ),
    (
        Protocol::Crates,
        Operation::Unpublish,
        &["DELETE /api/v1/crates/serde"],
    ),
    (
        Protocol::Crates,
        Operation::Account,
        &[
            "GET /api/v1/me",
            "PUT /api/v1/me/tokens",
            "POST /api/v1/trusted_publishing/tokens",
        ],
    ),
    (
        Protocol::Crates,
        Operation::Unknown,
        &[
            "PUT /se/rd/serde",
            "POST /api/v1/crates/new",
            "GET /me",
            "GET /api/v2/x",
            "PUT /api/v1/crates%2Fnew",
            "PUT /api/v1/crates/new/",
        ],
    ),
    (
        Protocol::Oci,
        Operation::Read,
        &[
            "GET /v2/",
            "GET /v2",
            "GET /v2/library/alpine/manifests/latest",
            "HEAD /v2/library/alpine/blobs/sha256:00",
            "GET /v2/a/tags/list",
            "GET /v2/a/referrers/sha256:00",
            "GET /v2/a/manifests/uploads",
            "GET /token?service=registry&scope=repository%3Alibrary%2Falpine%3Apull",
            "GET /token?scope=repository:library/alpine:pull",
        ],
    ),
    (
        Protocol::Oci,
        Operation::Publish,
        &[
            "POST /v2/a/b/blobs/uploads/",
            "POST /v2/a/blobs/uploads/?mount=x&from=y",
            "PATCH /v2/a/blobs/uploads/5b",
            "PUT /v2/a/blobs/uploads/5b?digest=sha256:0",
            "PUT /v2/a/manifests/latest",
            "POST /v2/a/blobs/uploads",
            "GET /v2/a/blobs/uploads/5b",
        ],
    ),
    (
        Protocol::Oci,
        Operation::Unpublish,
        &[
            "DELETE /v2/a/manifests/latest",
            "DELETE /v2/a/blobs/sha256:00",
        ],
    ),
    (
        Protocol::Oci,
        Operation::Account,
        &[
            "GET /token",
            "GET /token?scope=repository:a:pull,push",
            "GET /token?scope=repository:a:pull&scope=repository:b:push",
            "GET /token?scope=repository:a:push%2C:pull",
            "GET /token?sco%70e=x&scope=registry:catalog:*",
            "GET /token?scope=repository:a:pull&sco%70e=repository:a:push",
            "GET /token?service=x&scope=repository:a:pull&offline_token=true",
            "GET /token?scope=repository:a:pull&access_type=offline",
            "GET /token?scope=repository:a:pull;scope=repository:a:push",
            "GET /token?scope=repository:a:pull+repository:b:push+repository:c:pull",
        ],
    ),
    (
        Protocol::Oci,
        Operation::Unknown,
        &[
            "POST /token",
            "POST /v2/a/manifests/latest",
            "GET /v2/blobs/x",
            "PUT /v2/a/tags/list",
            "GET /v1/x",
            "GET /v2/a%2Fmanifests%2Fx",
            "PATCH /v2/a/manifests/x",
        ],
    ),
];

#[test]
fn every_known_request_is_what_it_does_and_what_is_not_known_does_not_read() {
    for (protocol, expected, requests) in TABLE {
        for request in *requests {
            assert_eq!(
                does(*protocol, request),
                *expected,
                "{protocol:?} {request}"
            );
        }
    }
}

#[test]
fn a_registry_below_a_path_is_judged_there_and_nowhere_else() {
    let ask = |request: &str| {
        let (method, target) = request.split_once(' ').unwrap();
        let method = Method::parse(method).unwrap();
        let path = RequestPath::parse(target).unwrap();
        operation(Protocol::Npm, "/api/npm/main", &method, &path)
    };
    assert_eq!(ask("GET /api/npm/main/left-pad"), Operation::Read);
    assert_eq!(ask("PUT /api/npm/main/left-pad"), Operation::Publish);
    assert_eq!(ask("GET /left-pad"), Operation::Unknown);
    assert_eq!(ask("GET /api/npm/mainly/left-pad"), Operation::Unknown);
    assert_eq!(ask("GET /api/npm/main"), Operation::Unknown);
}

proptest! {
    /// Whatever the path: nothing but GET and HEAD reads, but for npm's audits.
    #[test]
    fn only_get_and_head_read_but_for_the_audits(
        parts in prop::collection::vec("(-|v2|api|v1|crates|new|@a%2Fb|simple|[a-z]{1,4}|[!-~]{1,6})", 1..6),
        method in "(POST|PUT|PATCH|DELETE|OPTIONS|QUERY)",
    ) {
        let target = format!("/{}", parts.join("/"));
        let Ok(path) = RequestPath::parse(&target) else { return Ok(()); };
        let method = Method::parse(&method).unwrap();
        for (_, protocol) in Protocol::ALL {
            prop_assert_ne!(operation(protocol, "", &method, &path), Operation::Read);
        }
    }

    /// A reader of whole paths and one that takes encoded slashes for data agree on what reads.
    #[test]
    fn the_spelling_of_a_scopes_slash_never_changes_what_a_request_does(
        scope in "@[a-z]{1,5}", name in "[a-z]{1,5}",
        rest in r"(|/-rev/1|/1\.0\.0|/-/x\.tgz)", method in "(GET|PUT|DELETE|POST)",
    ) {
        let plain = does(Protocol::Npm, &format!("{method} /{scope}/{name}{rest}"));
        let encoded = does(Protocol::Npm, &format!("{method} /{scope}%2f{name}{rest}"));
        prop_assert_eq!(plain, encoded);
    }
}
