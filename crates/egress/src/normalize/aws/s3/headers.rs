// SPDX-License-Identifier: Apache-2.0
//! What the headers of a request ask of S3 beside its method, path and query. One of Amazon's that
//! is in no row makes the request an unknown one, as a parameter does.

/// How a header begins, and the actions that it needs. The first row that fits counts.
const TABLE: [(&str, &str); 9] = [
    // What is copied is read at a place that no path of a rule speaks of.
    ("x-amz-copy-source", "CopyObject"),
    ("x-amz-acl", "PutObjectAcl"),
    ("x-amz-grant-", "PutObjectAcl"),
    ("x-amz-tagging-directive", ""),
    ("x-amz-tagging", "PutObjectTagging"),
    (
        "x-amz-bypass-governance-retention",
        "BypassGovernanceRetention",
    ),
    ("x-amz-object-lock-mode", "PutObjectRetention"),
    ("x-amz-object-lock-retain-until-date", "PutObjectRetention"),
    ("x-amz-object-lock-legal-hold", "PutObjectLegalHold"),
];

/// How headers begin that ask for nothing.
const PLAIN: [&str; 24] = [
    "x-amz-api-version",
    "x-amz-checksum-",
    "x-amz-content-sha256",
    "x-amz-date",
    "x-amz-decoded-content-length",
    "x-amz-expected-bucket-owner",
    "x-amz-if-match-",
    "x-amz-max-parts",
    "x-amz-meta-",
    "x-amz-metadata-directive",
    "x-amz-mp-object-size",
    "x-amz-object-attributes",
    "x-amz-optional-object-attributes",
    "x-amz-part-number-marker",
    "x-amz-request-payer",
    "x-amz-sdk-checksum-algorithm",
    "x-amz-security-token",
    "x-amz-server-side-encryption",
    "x-amz-source-expected-bucket-owner",
    "x-amz-storage-class",
    "x-amz-te",
    "x-amz-trailer",
    "x-amz-user-agent",
    "x-amz-website-redirect-location",
];

/// The actions that a header asks for, with spaces between; nothing where it is not known.
pub(super) fn asks_for(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let starts = |front: &str| name.starts_with(front);
    if !starts("x-amz-") {
        return Some("");
    }
    let row = TABLE.iter().find(|(front, _)| starts(front));
    let plain = || PLAIN.iter().any(|front| starts(front)).then_some("");
    row.map(|(_, actions)| *actions).or_else(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_asks_for_more_needs_more_and_an_unknown_one_is_not_judged() {
        for (name, actions) in [
            ("X-Amz-Copy-Source", Some("CopyObject")),
            ("x-amz-copy-source-if-match", Some("CopyObject")),
            ("x-amz-acl", Some("PutObjectAcl")),
            ("x-amz-grant-read", Some("PutObjectAcl")),
            ("X-Amz-Tagging", Some("PutObjectTagging")),
            ("x-amz-tagging-directive", Some("")),
            (
                "x-amz-bypass-governance-retention",
                Some("BypassGovernanceRetention"),
            ),
            ("x-amz-object-lock-mode", Some("PutObjectRetention")),
            ("x-amz-object-lock-legal-hold", Some("PutObjectLegalHold")),
            ("x-amz-meta-acl", Some("")),
            ("x-amz-content-sha256", Some("")),
            ("content-type", Some("")),
            // Of buckets, and whatever comes.
            ("x-amz-bucket-object-lock-enabled", None),
            ("x-amz-object-ownership", None),
            ("x-amz-mfa", None),
            ("x-amz-rename-source", None),
        ] {
            assert_eq!(asks_for(name), actions, "{name}");
        }
    }
}
