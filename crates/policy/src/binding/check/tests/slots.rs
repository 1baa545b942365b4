// SPDX-License-Identifier: Apache-2.0
//! Slots in the query, the path and the body.

use super::*;

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
