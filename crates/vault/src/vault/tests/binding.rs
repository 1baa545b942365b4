// SPDX-License-Identifier: Apache-2.0
//! Which bindings are taken.

use super::*;

#[test]
fn bindings_that_one_request_could_match_twice_are_refused() {
    let mut fixture = filled();
    fixture.put("t1", "other", b"other-0123456789").unwrap();
    let overlapping = fixture.bind(binding("b2", "other"));
    assert!(matches!(overlapping, Err(ChangeError::Overlap(id)) if id.as_str() == "b1"));

    let apart = Binding {
        paths: vec![PathPattern::parse("/v2/**").unwrap()],
        ..binding("b2", "other")
    };
    fixture.bind(apart).unwrap();
    let other_slot = Binding {
        slot: Slot::Header {
            name: "x-api-key".to_owned(),
            scheme: None,
        },
        ..binding("b3", "other")
    };
    fixture.bind(other_slot.clone()).unwrap();
    let same_credential = Binding {
        id: BindingId::parse("b4").unwrap(),
        ..other_slot
    };
    let refused = fixture.bind(same_credential);
    assert!(matches!(refused, Err(ChangeError::Overlap(_))));
    // Its own older self is no rival.
    fixture.bind(binding("b1", "token")).unwrap();
}

fn in_path(id: &str, name: &str) -> Binding {
    let template = PathPattern::parse("/bot{credential}/**").unwrap();
    Binding {
        paths: vec![template.clone()],
        slot: Slot::Path { template },
        ..binding(id, name)
    }
}

// ATTACK: 096
#[test]
fn a_value_that_no_path_can_hold_is_neither_bound_nor_rotated_into_one() {
    let mut fixture = filled();
    let unsafe_value = b"slash/0123456789";
    fixture.put("t1", "slashed", unsafe_value).unwrap();
    let refused = fixture.bind(in_path("b2", "slashed"));
    assert!(matches!(refused, Err(ChangeError::SegmentUnsafe(name)) if name.as_str() == "slashed"));
    fixture.put("t1", "bot", b"123456:ABC-0123456789").unwrap();
    fixture.bind(in_path("b3", "bot")).unwrap();
    let (owner, name) = (tenant("t1"), credential("bot"));
    let rotated = fixture
        .vault
        .rotate((&owner, &name), unsafe_value, 6, &mut SystemEntropy);
    assert!(matches!(rotated, Err(ChangeError::SegmentUnsafe(_))));
    // A header takes it.
    let mut header = binding("b4", "slashed");
    header.paths = vec![PathPattern::parse("/v3/**").unwrap()];
    fixture.bind(header).unwrap();
}

#[test]
fn two_credentials_for_one_parameter_or_two_paths_are_refused() {
    let mut fixture = filled();
    fixture.put("t1", "other", b"other-0123456789").unwrap();
    let query = |id: &str, name: &str, parameter: &str| Binding {
        slot: Slot::Query {
            parameter: parameter.to_owned(),
        },
        ..binding(id, name)
    };
    fixture.unbind("b1");
    fixture.bind(query("b2", "token", "key")).unwrap();
    let rival = fixture.bind(query("b3", "other", "KEY"));
    assert!(matches!(rival, Err(ChangeError::Overlap(id)) if id.as_str() == "b2"));
    fixture.bind(query("b3", "other", "sig")).unwrap();
    fixture.bind(in_path("b4", "token")).unwrap();
    let rival = fixture.bind(in_path("b5", "other"));
    assert!(matches!(rival, Err(ChangeError::Overlap(id)) if id.as_str() == "b4"));
}

// ATTACK: 098
#[test]
fn a_binding_is_checked_before_it_is_taken() {
    let mut fixture = filled();
    let mut plain = binding("b2", "token");
    plain.endpoint.scheme = Scheme::Http;
    assert!(matches!(
        fixture.bind(plain),
        Err(ChangeError::Binding(BindingError::Plaintext))
    ));
    let nobody = fixture.bind(binding("b2", "absent"));
    assert!(matches!(nobody, Err(ChangeError::NoCredential(_))));
    let over = Binding {
        expires_at: Some(5),
        ..binding("b1", "token")
    };
    assert!(matches!(fixture.bind(over), Err(ChangeError::Expired)));
}
