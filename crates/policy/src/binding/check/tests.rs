// SPDX-License-Identifier: Apache-2.0
//! Bindings that must not reach the vault.

use super::*;
use crate::binding::Pointer;
use crate::binding::{Algorithm, Hash, Hmac, Jwt, KeyForm, Recipe, SignedField};
use crate::binding::{Answers, Mode, PathPattern};
use crate::names::{BindingId, CredentialName, Endpoint, Method, Port, TenantName};

fn sample() -> Binding {
    Binding {
        id: BindingId::parse("b1").unwrap(),
        tenant: TenantName::parse("local").unwrap(),
        credential: CredentialName::parse("c1").unwrap(),
        endpoint: Endpoint {
            scheme: Scheme::Https,
            host: Host::parse("allow.test").unwrap(),
            port: Port::HTTPS,
        },
        plaintext: false,
        methods: vec![Method::parse("GET").unwrap()],
        paths: vec![PathPattern::parse("/**").unwrap()],
        denied: Vec::new(),
        answers: Answers::default(),
        slot: Slot::Header {
            name: "authorization".to_owned(),
            scheme: Some("Bearer".to_owned()),
        },
        mode: Mode::Placeholder,
        expires_at: None,
        revision: 1,
    }
}

fn header(name: &str, scheme: Option<&str>) -> Binding {
    let slot = Slot::Header {
        name: name.to_owned(),
        scheme: scheme.map(str::to_owned),
    };
    Binding { slot, ..sample() }
}

fn host(text: &str) -> Binding {
    let endpoint = Endpoint {
        host: Host::parse(text).unwrap(),
        ..sample().endpoint
    };
    Binding {
        endpoint,
        ..sample()
    }
}

#[test]
fn a_plain_binding_is_taken() {
    assert_eq!(sample().check(), Ok(()));
    assert_eq!(header("x-api-key", None).check(), Ok(()));
    assert_eq!(host("10.1.2.3").check(), Ok(()));
}

// ATTACK: 098
#[test]
fn a_credential_over_plain_http_must_be_said_aloud() {
    let mut binding = sample();
    binding.endpoint.scheme = Scheme::Http;
    assert_eq!(binding.check(), Err(BindingError::Plaintext));
    binding.plaintext = true;
    assert_eq!(binding.check(), Ok(()));
    binding.endpoint.scheme = Scheme::Https;
    assert_eq!(binding.check(), Err(BindingError::PlaintextOverTls));
}

#[test]
fn empty_methods_and_paths_are_refused() {
    assert_eq!(
        Binding {
            methods: vec![],
            ..sample()
        }
        .check(),
        Err(BindingError::NoMethods)
    );
    assert_eq!(
        Binding {
            paths: vec![],
            ..sample()
        }
        .check(),
        Err(BindingError::NoPaths)
    );
}

// ATTACK: 096
#[test]
fn structural_headers_are_refused_in_any_spelling() {
    for name in [
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "upgrade",
        "te",
        "trailer",
        "cookie",
        "proxy-authorization",
        "proxy-connection",
        ":authority",
        ":path",
        "Host",
        "content_length",
        "TRANSFER_ENCODING",
        "keep-alive",
        "expect",
        "http2-settings",
        "sec-websocket-key",
    ] {
        let got = header(name, None).check();
        assert!(
            matches!(got, Err(BindingError::StructuralHeader(_))),
            "{name} {got:?}"
        );
    }
}

#[test]
fn header_names_scheme_words_and_users_are_one_token() {
    for name in ["", "Authorization", "a b", "a:b", "a\r\nb", "é"] {
        assert_eq!(
            header(name, None).check(),
            Err(BindingError::HeaderName),
            "{name}"
        );
    }
    for word in ["", "a b", "Bearer ", "a\n", "Bearer:"] {
        assert_eq!(
            header("authorization", Some(word)).check(),
            Err(BindingError::SchemeWord)
        );
    }
    for user in ["a:b", "a\nb", "a\0", &"a".repeat(129)] {
        let binding = Binding {
            slot: Slot::Basic {
                user: user.to_owned(),
            },
            ..sample()
        };
        assert_eq!(binding.check(), Err(BindingError::BasicUser));
    }
}

#[test]
fn no_credential_is_bound_to_a_metadata_service_or_to_nowhere() {
    for text in [
        "169.254.169.254",
        "169.254.170.2",
        "[fd00:ec2::254]",
        "[::ffff:169.254.169.254]",
        "metadata.google.internal",
        "metadata",
        "100.100.100.200",
        "instance-data.ec2.internal",
    ] {
        assert!(
            matches!(host(text).check(), Err(BindingError::Metadata(_))),
            "{text}"
        );
    }
    for text in [
        "0.0.0.0",
        "255.255.255.255",
        "224.0.0.1",
        "[::]",
        "[ff02::1]",
    ] {
        assert!(
            matches!(host(text).check(), Err(BindingError::NoDestination(_))),
            "{text}"
        );
    }
}

fn query(parameter: &str) -> Binding {
    let parameter = parameter.to_owned();
    let slot = Slot::Query { parameter };
    Binding { slot, ..sample() }
}

fn path(template: &str, paths: &[&str]) -> Binding {
    let pattern = |text: &str| PathPattern::parse(text).unwrap();
    let template = pattern(template);
    Binding {
        paths: paths.iter().map(|text| pattern(text)).collect(),
        slot: Slot::Path { template },
        ..sample()
    }
}

// ATTACK: 080
#[test]
fn a_query_slot_has_one_plain_name_that_steers_nothing() {
    for good in ["key", "api_key", "api-key", "X.Y", "access_token"] {
        assert_eq!(query(good).check(), Ok(()), "{good}");
    }
    for bad in [
        "",
        "a b",
        "a%41",
        "a[]",
        "a&b",
        "a=b",
        "a;b",
        "k\u{e9}y",
        &"a".repeat(65),
    ] {
        assert_eq!(query(bad).check(), Err(BindingError::Parameter), "{bad}");
    }
    for bad in ["_method", "_METHOD", "-method", ".method"] {
        assert_eq!(
            query(bad).check(),
            Err(BindingError::SteeringParameter),
            "{bad}"
        );
    }
}

#[test]
fn a_path_slot_has_one_place_and_every_path_of_the_binding_has_it() {
    assert_eq!(
        path("/bot{credential}/**", &["/bot{credential}/getMe"]).check(),
        Ok(())
    );
    assert_eq!(
        path("/a/*/x-{credential}.json", &["/a/*/x-{credential}.json"]).check(),
        Ok(())
    );
    for none in [
        "/bot/**",
        "/**",
        "/{credential}/{credential}",
        "/{credential}{credential}",
    ] {
        assert_eq!(
            path(none, &[none]).check(),
            Err(BindingError::Template),
            "{none}"
        );
    }
    let hidden = path("/a%2F{credential}", &["/a%2F{credential}"]);
    assert_eq!(hidden.check(), Err(BindingError::Template));
    for outside in ["/**", "/other", "/bot/getMe", "/bot*/getMe"] {
        let Ok(pattern) = PathPattern::parse(outside) else {
            continue;
        };
        let mut binding = path("/bot{credential}/**", &[]);
        binding.paths = vec![pattern];
        let refused = Err(BindingError::OutsideTemplate(outside.to_owned()));
        assert_eq!(binding.check(), refused, "{outside}");
    }
    let stray = Binding {
        paths: vec![PathPattern::parse("/bot{credential}/x").unwrap()],
        ..sample()
    };
    assert!(matches!(stray.check(), Err(BindingError::StrayWord(_))));
}

#[test]
fn a_list_of_denied_patterns_is_bounded() {
    let denied = crate::binding::Denied {
        methods: Vec::new(),
        path: PathPattern::parse("/keys/**").unwrap(),
    };
    let with = |count| Binding {
        denied: vec![denied.clone(); count],
        ..sample()
    };
    assert_eq!(with(128).check(), Ok(()));
    assert_eq!(with(129).check(), Err(BindingError::Denied));
}

// ATTACK: 096
#[test]
fn what_is_segment_safe_has_one_reading_everywhere() {
    for safe in ["sk-live-0123abc", "123456:ABC-DEF_1.2~3"] {
        assert!(is_segment_safe(safe.as_bytes()), "{safe}");
    }
    for unsafe_value in [
        "", "a/b", "a%2Fb", "a b", "a?b", "a#b", "a;b", "a+b", "a\\b", "\u{e9}",
    ] {
        assert!(!is_segment_safe(unsafe_value.as_bytes()), "{unsafe_value}");
    }
}

#[test]
fn a_row_without_denied_patterns_is_written_as_before_there_were_any() {
    let text = serde_json::to_string(&sample()).unwrap();
    assert!(!text.contains("denied"), "{text}");
    assert_eq!(serde_json::from_str::<Binding>(&text).unwrap(), sample());
}

fn in_body(slot: Slot, method: &str) -> Result<(), BindingError> {
    Binding {
        methods: vec![Method::parse(method).unwrap()],
        slot,
        ..query("key")
    }
    .check()
}

#[test]
fn a_slot_in_a_body_has_one_plain_name_and_a_method_with_a_body() {
    let form = |field: &str| Slot::Form {
        field: field.to_owned(),
    };
    let part = |part: &str| Slot::Multipart {
        part: part.to_owned(),
    };
    let pointer = Pointer::parse("/d/token").unwrap();
    let json = Slot::Json {
        pointer: pointer.clone(),
    };
    let binary = false;
    let message = Slot::WebsocketJson { pointer, binary };
    for good in [form("client_secret"), part("api-key"), json] {
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            assert_eq!(in_body(good.clone(), method), Ok(()), "{good}");
        }
        assert_eq!(
            in_body(good.clone(), "GET"),
            Err(BindingError::BodilessMethod),
            "{good}"
        );
    }
    for bad in ["", "a b", "a%41", "a[]", "a=b", "a\"b", "k\u{e9}y"] {
        assert_eq!(
            in_body(form(bad), "POST"),
            Err(BindingError::Field),
            "{bad}"
        );
        assert_eq!(
            in_body(part(bad), "POST"),
            Err(BindingError::Field),
            "{bad}"
        );
    }
    let steers = Err(BindingError::SteeringParameter);
    assert_eq!(in_body(form("_method"), "POST"), steers);
    assert_eq!(in_body(message.clone(), "GET"), Ok(()));
    let opened = Err(BindingError::WebsocketMethod);
    assert_eq!(in_body(message, "POST"), opened);
}

#[test]
fn a_database_is_bound_for_one_login_and_the_methods_of_its_access() {
    use crate::postgres::Access;
    let database = |access: Access, path: &str| Binding {
        endpoint: Endpoint {
            scheme: Scheme::Postgres,
            ..sample().endpoint
        },
        methods: access.methods(),
        paths: vec![PathPattern::parse(path).unwrap()],
        slot: Slot::Postgres { access, role: None },
        mode: Mode::Inject,
        ..sample()
    };
    let good = database(Access::Read, "/shop/app");
    assert_eq!(good.check(), Ok(()));
    assert_eq!(database(Access::Write, "/shop/app").check(), Ok(()));
    for path in ["/**", "/shop/*", "/shop", "/shop/app/x", "/shop/"] {
        let wide = database(Access::Read, path);
        assert_eq!(wide.check(), Err(BindingError::Postgres), "{path}");
    }
    let writes = Access::Write.methods();
    for wrong in [
        Binding {
            methods: writes,
            ..good.clone()
        },
        Binding {
            mode: Mode::Placeholder,
            ..good.clone()
        },
        Binding {
            slot: sample().slot,
            ..good.clone()
        },
        Binding {
            endpoint: sample().endpoint,
            ..good.clone()
        },
    ] {
        assert_eq!(wrong.check(), Err(BindingError::Postgres), "{wrong:?}");
    }
    let clear = Binding {
        plaintext: true,
        ..good
    };
    assert_eq!(clear.check(), Err(BindingError::PlaintextOverTls));
}

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

fn signed(text: &str, fields: &[(&str, &str)]) -> Binding {
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

#[test]
fn two_bindings_that_write_one_field_contest_it() {
    let slot = |name: &str| signed("{body}", &[("x-time", "a"), (name, "{hex}")]).slot;
    let header = |name: &str| Slot::Header {
        name: name.to_owned(),
        scheme: None,
    };
    assert!(slot("x-s").contests(&slot("x-other")));
    assert!(slot("x-s").contests(&header("x-time")));
    assert!(header("x-time").contests(&slot("x-s")));
    assert!(!slot("x-s").contests(&header("x-other")));
}
