// SPDX-License-Identifier: Apache-2.0
//! Fuzz targets of what is signed in the manner of AWS.

use super::understood;
use crate::head::HeadScan;
use crate::normalize::aws_form;
use torno_policy::placeholder::Placeholder;

/// What follows a placeholder in a signature of AWS: what is taken names one plain scope and plain
/// fields, and neither the client's date nor its token goes out.
pub fn fuzz_signature(data: &[u8]) {
    const FRONT: &[u8] =
        b"GET /b/k HTTP/1.1\r\nHost: allow.test\r\nX-Amz-Date: 20150830T123600Z\r\n\
        X-Amz-Security-Token: t\r\nAuthorization: AWS4-HMAC-SHA256 Credential=";
    let id = Placeholder::new("AKIA", [1; 16]);
    let head = [FRONT, id.as_str().as_bytes(), data, b"\r\n\r\n"].concat();
    if HeadScan::default().end(&head) != Ok(Some(head.len())) {
        return;
    }
    let Some(request) = understood(&head) else {
        return;
    };
    let signed = request.signed.as_ref();
    assert!(signed.is_some(), "a signature was let through unread");
    let Some(signed) = signed else {
        return;
    };
    let odd = ['/', ',', '='];
    assert!(
        !signed.region.contains(odd) && !signed.service.contains(odd),
        "an odd scope"
    );
    assert!(
        !signed.fields.iter().any(|name| name.contains(odd)),
        "an odd field"
    );
    assert!(
        request.facts.own_credentials.is_empty(),
        "a token of its own"
    );
}

/// A form of AWS that is taken names one action, and says no other in any spelling.
pub fn fuzz_aws_form(data: &[u8]) {
    let Ok(action) = aws_form(data) else {
        return;
    };
    let text = String::from_utf8_lossy(data);
    let mut named = text
        .split('&')
        .filter_map(|pair| pair.strip_prefix("Action="));
    assert_eq!(named.next(), Some(action.as_str()), "another action");
    let lower = text.to_ascii_lowercase();
    let alike = lower.split('&').filter(|pair| pair.starts_with("action="));
    assert_eq!(alike.count(), 1, "two actions");
}
