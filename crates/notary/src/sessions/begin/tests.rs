// SPDX-License-Identifier: Apache-2.0
//! The choice narrows, and the level is the one that was asked for.

use super::*;
use torno_policy::document::{Presets, parse};

fn sandbox(text: &str) -> SandboxGrant {
    parse(text, &Presets::shipped()).unwrap().sandbox
}

fn level(level: Isolation) -> Choice {
    Choice {
        isolation: Some(level),
        ..Choice::default()
    }
}

#[test]
fn a_choice_names_a_level_and_never_weakens_one_that_is_named() {
    let mut open = sandbox("");
    narrow(&mut open, &level(Isolation::Container)).unwrap();
    assert_eq!(open.isolation, Isolation::Container);

    let mut named = sandbox("[sandbox]\nisolation = \"microvm\"\n");
    assert!(narrow(&mut named, &level(Isolation::Gvisor)).is_err());
    assert!(narrow(&mut named, &level(Isolation::Container)).is_err());
    assert!(narrow(&mut named, &level(Isolation::Strongest)).is_err());
    narrow(&mut named, &level(Isolation::Vm)).unwrap();
    assert_eq!(named.isolation, Isolation::Vm);
}

#[test]
fn an_emulated_level_is_used_only_where_it_is_named_and_said() {
    let said = Choice {
        emulation: true,
        ..Choice::default()
    };
    let named = "[sandbox]\nisolation = \"microvm\"\n";
    assert!(check_emulation(&sandbox(named), false).is_ok());
    assert!(check_emulation(&sandbox(named), true).is_err());
    let granted = sandbox(&format!("{named}emulation = true\n"));
    assert!(check_emulation(&granted, true).is_ok());
    // The strongest level is never an emulated one, whatever is said.
    assert!(check_emulation(&sandbox("[sandbox]\nemulation = true\n"), true).is_err());
    // A person may say it beside a level of their own choice, not against a document's.
    let mut open = sandbox("");
    narrow(
        &mut open,
        &Choice {
            isolation: Some(Isolation::Microvm),
            ..said
        },
    )
    .unwrap();
    assert!(check_emulation(&open, true).is_ok());
    assert!(narrow(&mut sandbox(named), &said).is_err());
    let mut granted = granted;
    narrow(&mut granted, &said).unwrap();
}

#[test]
fn workspace_and_wall_time_only_narrow() {
    let bind = Choice {
        workspace: Some(WorkspaceMode::Bind),
        ..Choice::default()
    };
    assert!(narrow(&mut sandbox(""), &bind).is_err());
    for (seconds, fits) in [(0, false), (60, true), (1_000_000, false)] {
        let wall = Choice {
            wall_seconds: Some(seconds),
            ..Choice::default()
        };
        assert_eq!(narrow(&mut sandbox(""), &wall).is_ok(), fits, "{seconds}");
    }
}

#[test]
fn container_is_used_by_name_only() {
    use Isolation::{Container, Gvisor, Microvm, Strongest};
    for (asked, used, fits) in [
        (Strongest, Gvisor, true),
        (Strongest, Container, false),
        (Strongest, Strongest, false),
        (Container, Container, true),
        (Microvm, Gvisor, false),
        (Gvisor, Microvm, false),
    ] {
        assert_eq!(check_level(asked, used).is_ok(), fits, "{asked:?} {used:?}");
    }
}

#[test]
fn the_image_is_the_one_that_the_document_names() {
    let digest = |digit: &str| {
        let text = format!("sha256:{}", digit.repeat(64));
        torno_policy::names::ImageDigest::parse(&text).unwrap()
    };
    let image = |text: &str| sandbox(&format!("[sandbox]\nimage = \"{text}\"\n")).image;
    let (one, other) = (digest("a"), digest("b"));
    assert!(pin(&mut image("host"), None).is_ok());
    assert!(pin(&mut image("host"), Some(&one)).is_err());
    let mut named = image("tools");
    assert!(pin(&mut named, None).is_err());
    pin(&mut named, Some(&one)).unwrap();
    assert_eq!(named.digest(), Some(&one));
    let mut exact = image(one.as_str());
    assert!(pin(&mut exact, Some(&one)).is_ok());
    assert!(pin(&mut exact, Some(&other)).is_err());
    assert!(pin(&mut exact, None).is_err());
}
