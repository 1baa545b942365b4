// SPDX-License-Identifier: Apache-2.0
//! Which action a request asks for, and what asks for none.

use super::*;
use proptest::prelude::*;
use s3::action_of;

#[test]
fn an_action_of_s3_is_told_by_method_path_and_query_in_either_style() {
    use AwsProtocol::{S3Host, S3Path};
    for (style, request, action) in [
        (S3Path, "GET /", "ListAllMyBuckets"),
        (S3Path, "GET /b", "ListBucket"),
        (
            S3Path,
            "GET /b/?list-type=2&prefix=a%2F&x-id=ListObjectsV2",
            "ListBucket",
        ),
        (S3Path, "HEAD /b", "ListBucket"),
        (S3Path, "GET /b/k", "GetObject"),
        (
            S3Path,
            "GET /b/k%2Fl?partNumber=1&response-expires=x",
            "GetObject",
        ),
        (S3Path, "GET /b/k?versionId=1", "GetObjectVersion"),
        (S3Path, "GET /b/k?acl", "GetObjectAcl"),
        (S3Path, "PUT /b/k", "PutObject"),
        (S3Path, "PUT /b/k?uploadId=x&partNumber=1", "PutObject"),
        (S3Path, "POST /b/k?uploads", "PutObject"),
        (S3Path, "DELETE /b/k", "DeleteObject"),
        (S3Path, "POST /b?delete", "DeleteObject DeleteObjectVersion"),
        (S3Path, "PUT /b?policy", "PutBucketPolicy"),
        (S3Path, "DELETE /b", "DeleteBucket"),
        (S3Host, "GET /", "ListBucket"),
        (S3Host, "GET /b", "GetObject"),
        (S3Host, "DELETE /b", "DeleteObject"),
        (S3Host, "PUT /", "CreateBucket"),
    ] {
        let (method, path) = request.split_once(' ').unwrap();
        assert_eq!(action_of(style, method, path), Some(action), "{request}");
    }
    for request in [
        "GET /b/k?torrent",
        "GET /b/k?a%63l",
        "GET /b/k?ACL",
        "GET /b/k?acl&tagging",
        "GET /b/k?acl&acl",
        "GET /b?prefix=a;acl",
        "GET /b%2Fk",
        "GET /b%2Fk/l",
        "POST /b",
        "POST /b/k?select&select-type=2",
        "PUT /",
        "DELETE /b?policy",
        "PATCH /b/k",
        "GET /b/k?X-Amz-Signature=0",
        "PUT /b/k?partNumber=1",
    ] {
        let (method, path) = request.split_once(' ').unwrap();
        assert_eq!(action_of(S3Path, method, path), None, "{request}");
    }
}

#[test]
fn a_form_has_one_action_in_one_spelling() {
    let read = |text: &str| form(text.as_bytes());
    assert_eq!(
        read("Version=1&Action=GetCallerIdentity").unwrap(),
        "GetCallerIdentity"
    );
    for bad in [
        "",
        "Version=1",
        "Action=A&Action=B",
        "Action=A&action=B",
        "Action=A&%41ction=B",
        "Action=A&Action%20=B",
        "Action=A&+Action=B",
        "ACTION=A",
        "Action",
        "Action=",
        "Action=A;Action=B",
    ] {
        assert!(read(bad).is_err(), "{bad}");
    }
    assert!(form(b"Action=A&x=\xff").is_err());
    assert!(read(&format!("{}Action=A", "a=b&".repeat(PAIRS_MAX))).is_err());
}

proptest! {
    #[test]
    fn what_is_read_of_a_form_is_all_that_names_an_action(text in "(Action|action|A|%41ction|&|=|x){0,12}") {
        if let Ok(action) = form(text.as_bytes()) {
            let lower = text.to_ascii_lowercase().replace("%41", "a");
            let names = lower.split('&').filter(|pair| pair.split('=').next() == Some("action"));
            prop_assert_eq!(names.count(), 1);
            prop_assert!(text.contains(&action), "{}", text);
        }
    }
}

/// Its body may name versions, which are then gone for good (`s3:DeleteObjectVersion`).
#[test]
fn a_batch_that_may_delete_versions_is_no_mere_deletion() {
    use AwsProtocol::{S3Host, S3Path};
    for (style, path) in [(S3Path, "/b?delete"), (S3Host, "/?delete")] {
        assert_ne!(
            action_of(style, "POST", path),
            Some("DeleteObject"),
            "{path}"
        );
    }
}
