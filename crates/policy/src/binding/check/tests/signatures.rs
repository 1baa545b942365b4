// SPDX-License-Identifier: Apache-2.0
//! Credentials that sign instead of being sent.

use super::*;

#[test]
fn a_signature_has_a_lasting_key_one_scope_and_a_client_that_signed() {
    let signed = |key_id: &str, region: &str, service: &str| Binding {
        slot: Slot::Sigv4(Sigv4 {
            key_id: key_id.to_owned(),
            region: region.to_owned(),
            service: service.to_owned(),
        }),
        ..sample()
    };
    let good = signed("AKIAIOSFODNN7EXAMPLE", "eu-central-1", "s3");
    assert_eq!(good.check(), Ok(()));
    for id in [
        "",
        "AK",
        "AKIA/EXAMPLE",
        "AKIA, EXAMPLE",
        "ASIAIOSFODNN7EXAMPLE",
    ] {
        let check = signed(id, "eu-central-1", "s3").check();
        assert_eq!(check, Err(BindingError::KeyId), "{id}");
    }
    for (region, service) in [("", "s3"), ("eu/1", "s3"), ("eu-1", "S3"), ("eu-1", "a b")] {
        let check = signed("AKIAIOSFODNN7EXAMPLE", region, service).check();
        assert_eq!(check, Err(BindingError::Scope), "{region} {service}");
    }
    for mode in [Mode::Inject, Mode::PlaceholderOrInject] {
        let always = Binding {
            mode,
            ..good.clone()
        };
        assert_eq!(always.check(), Err(BindingError::SignedAlways));
    }
}

pub(super) fn signed(text: &str, fields: &[(&str, &str)]) -> Binding {
    let field = |(name, value): &(&str, &str)| SignedField {
        name: (*name).to_owned(),
        value: Recipe::parse(value).unwrap(),
    };
    Binding {
        slot: Slot::Hmac(Box::new(Hmac {
            hash: Hash::Sha256,
            key: KeyForm::Text,
            text: Recipe::parse(text).unwrap(),
            fields: fields.iter().map(field).collect(),
        })),
        ..sample()
    }
}

#[test]
fn a_recipe_signs_once_over_the_request_and_tells_its_time() {
    let sent: &[(&str, &str)] = &[
        ("x-id", "me"),
        ("x-time", "{timestamp}"),
        ("x-s", "v1={hex}"),
    ];
    for text in [
        "{timestamp}{body}",
        "{method}",
        "{header:date}",
        "a{lf}{body_sha256}",
    ] {
        assert_eq!(signed(text, sent).check(), Ok(()), "{text}");
    }
    let wrong: &[(&str, &[(&str, &str)])] = &[
        // No signature goes out, or two do.
        ("{body}", &[]),
        ("{body}", &[("x-s", "v1")]),
        ("{body}", &[("x-s", "{hex}{base64}")]),
        ("{body}", &[("x-s", "{hex}"), ("x-t", "{hex}")]),
        // The same field twice, or more of them than anybody needs.
        ("{body}", &[("x-s", "{hex}"), ("x-s", "a")]),
        (
            "{body}",
            &[
                ("x-s", "{hex}"),
                ("a", "a"),
                ("b", "b"),
                ("c", "c"),
                ("d", "d"),
            ],
        ),
        // Nothing of the request is signed, or a time that nobody is told.
        ("fixed", sent),
        ("{timestamp}", sent),
        ("{timestamp_ms}{body}", sent),
        ("{timestamp}{body}", &[("x-s", "{hex}")]),
        // It covers itself, or what goes out has more than it may.
        ("{body}{hex}", sent),
        ("{header:x-s}{body}", sent),
        ("{header:x-time}{body}", sent),
        ("{body}", &[("x-s", "{hex}{body}")]),
        ("{body}", &[("x-s", "{hex}{lf}")]),
        ("{body}", &[("x-s", "{hex}{header:date}")]),
    ];
    for (text, fields) in wrong {
        let check = signed(text, fields).check();
        assert_eq!(check, Err(BindingError::Hmac), "{text} {fields:?}");
    }
    for name in ["host", "content-length", "cookie", "X-S", "x s", ""] {
        assert!(
            signed("{body}", &[(name, "{hex}")]).check().is_err(),
            "{name}"
        );
    }
}

#[test]
fn claims_are_visible_texts_for_ten_minutes_at_most() {
    let claims = |issuer: &str, audience: Option<&str>, lifetime_seconds: u16| Binding {
        slot: Slot::Jwt(Box::new(Jwt {
            algorithm: Algorithm::ES256,
            issuer: issuer.to_owned(),
            subject: None,
            audience: audience.map(str::to_owned),
            key_id: None,
            lifetime_seconds,
        })),
        ..sample()
    };
    assert_eq!(claims("1", Some("https://far.test/"), 600).check(), Ok(()));
    let long = "a".repeat(257);
    for (issuer, audience, lifetime) in [
        ("", None, 600),
        (long.as_str(), None, 600),
        ("a b", None, 600),
        ("a", Some(""), 600),
        ("a", Some("a\n"), 600),
        ("a", None, 601),
        ("a", None, 119),
    ] {
        let check = claims(issuer, audience, lifetime).check();
        assert_eq!(
            check,
            Err(BindingError::Claims),
            "{issuer} {audience:?} {lifetime}"
        );
    }
}
