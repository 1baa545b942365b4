// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::record::Event;
use crate::record::samples::{entry, numbered, session};

fn of(session_name: &str, event: Event) -> Entry {
    Entry {
        session: Some(session(session_name)),
        ..entry(event)
    }
}

fn small() -> Budget {
    Budget::new(Allowance {
        records: 10,
        bytes: 1 << 20,
    })
}

// ATTACK: 216
#[test]
fn a_flood_freezes_its_own_session_alone_and_its_end_still_passes() {
    let mut budget = small();
    for number in 0..10 {
        budget.spend(&numbered(number)).unwrap();
    }
    let first = SpendError::Frozen {
        first: true,
        records: 10,
    };
    assert_eq!(budget.spend(&numbered(10)), Err(first));
    for number in 11..100_000 {
        let again = SpendError::Frozen {
            first: false,
            records: 10,
        };
        assert_eq!(budget.spend(&numbered(number)), Err(again));
    }
    assert!(budget.is_frozen(&session("s1")));
    budget.spend(&of("s2", Event::SessionLocked)).unwrap();
    assert!(!budget.is_frozen(&session("s2")));
    budget
        .spend(&entry(Event::BudgetFrozen { records: 10 }))
        .unwrap();
    budget.spend(&entry(Event::SessionKilled)).unwrap();
    assert!(budget.spend(&entry(Event::SessionLocked)).is_err());
}

#[test]
fn bytes_count_like_records() {
    let mut budget = Budget::new(Allowance {
        records: 1000,
        bytes: 1000,
    });
    let fitted = (0..1000)
        .take_while(|number| budget.spend(&numbered(*number)).is_ok())
        .count();
    assert!((4..12).contains(&fitted), "{fitted}");
}

#[test]
fn records_of_no_session_have_no_budget_and_a_forgotten_session_none_left() {
    let mut budget = small();
    let global = Entry {
        session: None,
        ..entry(Event::VaultUnsealed)
    };
    for _ in 0..100 {
        budget.spend(&global).unwrap();
    }
    for number in 0..100 {
        budget.recount(&numbered(number));
    }
    assert!(budget.is_frozen(&session("s1")));
    budget.forget(&session("s1"));
    assert!(!budget.is_frozen(&session("s1")));
}
