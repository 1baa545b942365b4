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
