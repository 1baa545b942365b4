// SPDX-License-Identifier: Apache-2.0
//! Bindings that must not reach the vault.

mod signatures;
mod slots;

use super::*;
use crate::binding::Pointer;
use crate::binding::{Algorithm, Hash, Hmac, Jwt, KeyForm, Recipe, SignedField};
use crate::binding::{Answers, Mode, PathPattern};
use crate::names::{BindingId, CredentialName, Endpoint, Method, Port, TenantName};
use signatures::signed;

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
