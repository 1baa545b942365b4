// SPDX-License-Identifier: Apache-2.0
//! What holds for every world and every text.

use crate::world::{self, Dice, World};
use proptest::prelude::*;
use torno_policy::Decision;
use torno_policy::binding::PathPattern;
use torno_policy::decide::decide;
use torno_policy::decision::Asked;
use torno_policy::facts::{Act, Entry};
use torno_policy::grant::{AllowRule, Dialect, ToolPattern, ToolRule, Verdict};
use torno_policy::names::{Authority, Host, RequestPath, Scheme};
use torno_policy::organisation::{Organisation, SHIPPED};

fn verdict(world: &World, organisation: &Organisation, act: &Act) -> Verdict {
    match decide(&world.layers(organisation), act) {
        Decision::Allow(_) => Verdict::Allow,
        Decision::Ask(_) => Verdict::Ask,
        Decision::Deny(_) => Verdict::Deny,
    }
}

fn shuffled(dice: &mut Dice, world: &World) -> World {
    let mut other = world.clone();
    dice.shuffle(&mut other.grant.allow);
    dice.shuffle(&mut other.grant.secrets);
    dice.shuffle(&mut other.grant.git);
    dice.shuffle(&mut other.grant.tools);
    dice.shuffle(&mut other.bindings);
    for rule in &mut other.grant.allow {
        dice.shuffle(&mut rule.methods);
        dice.shuffle(&mut rule.paths);
    }
    other
}

#[test]
fn the_order_of_rules_never_matters() {
    let organisation = world::organisation();
    for seed in 0..5000 {
        let mut dice = Dice::new(seed);
        let world = world::world(&mut dice);
        let act = world::act(&mut dice, &world);
        let other = shuffled(&mut dice, &world);
        let (a, b) = (
            decide(&world.layers(&organisation), &act),
            decide(&other.layers(&organisation), &act),
        );
        match (&a, &b) {
            (Decision::Allow(a), Decision::Allow(b)) => {
                assert_eq!(
                    (a.injection(), a.endpoint()),
                    (b.injection(), b.endpoint()),
                    "seed {seed}"
                );
            }
            (Decision::Ask(a), Decision::Ask(b)) => assert_eq!(a.digest, b.digest),
            (Decision::Deny(a), Decision::Deny(b)) => assert_eq!(a.reason, b.reason, "seed {seed}"),
            _ => panic!("seed {seed}: {a:?} and {b:?}"),
        }
    }
}

#[test]
fn a_deny_more_never_widens_and_always_beats_what_allows() {
    let organisation = world::organisation();
    let more = r#"@id("more")
        forbid (principal, action in [Action::"request", Action::"tool"], resource)
        when { context.phase == "locked" };"#;
    let stricter = Organisation::parse(&format!("{SHIPPED}{more}")).unwrap();
    let shipped = Organisation::shipped();
    for seed in 0..3000 {
        let mut dice = Dice::new(seed);
        let mut world = world::world(&mut dice);
        let act = world::act(&mut dice, &world);
        assert!(
            verdict(&world, &stricter, &act) <= verdict(&world, &shipped, &act),
            "seed {seed}"
        );
        let before = verdict(&world, &organisation, &act);
        let Act::Tool(facts) = &act else {
            continue;
        };
        let tool = ToolPattern::Exact(facts.tool.clone());
        let rule = ToolRule {
            tool,
            verdict: Verdict::Deny,
            when: Vec::new(),
        };
        let at = dice.below(world.grant.tools.len() + 1);
        world.grant.tools.insert(at, rule);
        assert_eq!(
            verdict(&world, &organisation, &act),
            Verdict::Deny,
            "seed {seed}: {before:?}"
        );
    }
}

#[test]
fn a_grant_that_loses_a_rule_never_allows_more_without_a_credential() {
    let organisation = world::organisation();
    for seed in 0..5000 {
        let mut dice = Dice::new(seed);
        let mut world = world::world(&mut dice);
        // Git grants, bindings and rules with a dialect narrow what stands beside them, so they are
        // left out here.
        world.grant.git.clear();
        world.bindings.clear();
        let is_plain = |rule: &AllowRule| rule.dialect == Dialect::Plain;
        world.grant.allow.retain(is_plain);
        let act = world::act(&mut dice, &world);
        let before = verdict(&world, &organisation, &act);
        world.grant.allow.pop();
        world
            .grant
            .tools
            .retain(|rule| rule.verdict == Verdict::Deny);
        if let Act::Request(_) = act {
            assert!(
                verdict(&world, &organisation, &act) <= before,
                "seed {seed}"
            );
        }
    }
}

// ATTACK: 015
#[test]
fn the_entry_of_a_request_never_changes_its_verdict() {
    let organisation = world::organisation();
    for seed in 0..2000 {
        let mut dice = Dice::new(seed);
        let world = world::world(&mut dice);
        let Act::Request(mut facts) = world::act(&mut dice, &world) else {
            continue;
        };
        let mut outcomes = Vec::new();
        for entry in [Entry::Captured, Entry::Connect, Entry::AbsoluteForm] {
            facts.entry = entry;
            let decision = decide(&world.layers(&organisation), &Act::Request(facts.clone()));
            outcomes.push(match decision {
                Decision::Ask(asked) => Decision::Ask(Asked {
                    digest: [0; 32],
                    ..asked
                }),
                Decision::Allow(_) | Decision::Deny(_) => decision,
            });
        }
        outcomes.dedup();
        assert_eq!(outcomes.len(), 1, "seed {seed}: {outcomes:?}");
    }
}

#[test]
fn facts_and_grants_survive_their_wire_form() {
    for seed in 0..500 {
        let mut dice = Dice::new(seed);
        let world = world::world(&mut dice);
        let act = world::act(&mut dice, &world);
        let again: Act = serde_json::from_str(&serde_json::to_string(&act).unwrap()).unwrap();
        assert_eq!(again, act);
        let grant = serde_json::to_string(&world.grant).unwrap();
        assert_eq!(
            serde_json::from_str::<torno_policy::grant::Grant>(&grant).unwrap(),
            world.grant
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    // ATTACK: 073, 075
    #[test]
    fn a_canonical_path_is_its_own_canonical_form(
        target in "((/|%2[fF])[a-zA-Z0-9._~%;:@!*2fF5cC\\\\ -]{0,8}){0,6}(\\?[ -~]{0,8})?"
    ) {
        if let Ok(path) = RequestPath::parse(&target) {
            let again = RequestPath::parse(&path.to_string());
            prop_assert_eq!(again.as_ref(), Ok(&path));
            let decoded = path.decoded();
            let decoded = decoded.as_ref().unwrap_or(&path);
            // Both readings are paths, and the one with slashes is final.
            let again = RequestPath::parse(&decoded.to_string());
            prop_assert_eq!(again.as_ref(), Ok(decoded));
            prop_assert!(decoded.decoded().is_none());
            for segment in decoded.path().split('/') {
                prop_assert!(segment != "." && segment != "..");
            }
            let lower = decoded.path().to_ascii_lowercase();
            for hidden in ["%2f", "%5c", "%00", "%2e", "%3b", "//", "\\", ";"] {
                prop_assert!(!lower.contains(hidden));
            }
        }
    }

    // ATTACK: 075
    #[test]
    fn equal_escapes_of_a_path_are_equal_paths(
        name in "[a-zA-Z0-9._~-]{1,12}",
        mask in any::<u16>(),
    ) {
        let escaped: String = name.char_indices().map(|(at, c)| match mask >> (at % 16) & 1 {
            1 => format!("%{:02x}", u32::from(c)),
            _ => c.to_string(),
        }).collect();
        let (plain, escaped) = (format!("/{name}"), format!("/{escaped}"));
        prop_assert_eq!(RequestPath::parse(&plain), RequestPath::parse(&escaped));
    }

    #[test]
    fn any_bytes_are_parsed_or_refused_without_panic(text in any::<String>()) {
        let host = Host::parse(&text);
        if let Ok(host) = &host {
            prop_assert_eq!(Host::parse(&host.to_string()), Ok(host.clone()));
            prop_assert!(host.to_string().is_ascii());
        }
        let _ = Authority::parse(&text, Scheme::Https);
        let _ = RequestPath::parse(&format!("/{text}"));
        let _ = PathPattern::parse(&format!("/{text}"));
        let _ = torno_policy::placeholder::Placeholder::find_hidden(text.as_bytes());
        let _ = Organisation::parse(&text);
    }

    #[test]
    fn host_likes_are_folded_to_one_spelling(text in "[a-zA-Z0-9xX.-]{1,20}") {
        if let Ok(host) = Host::parse(&text) {
            prop_assert_eq!(Host::parse(&text.to_ascii_uppercase()), Ok(host.clone()));
            let folded = text.to_ascii_lowercase();
            prop_assert_eq!(host.to_string(), folded.trim_end_matches('.'));
        }
    }

    #[test]
    fn patterns_print_as_they_were_read(text in "(/(\\*|\\*\\*|[a-z0-9.%]{1,4})){1,4}/?") {
        if let Ok(pattern) = PathPattern::parse(&text) {
            prop_assert_eq!(pattern.to_string(), text);
        }
    }

    #[test]
    fn policy_texts_are_read_or_refused_without_panic(text in "[\\[\\]{}=\"a-z0-9.*\n /_-]{0,80}") {
        let presets = torno_policy::document::Presets::shipped();
        if let Err(error) = torno_policy::document::parse(&text, &presets) {
            let shown = torno_policy::document::render(&error, &text);
            prop_assert!(shown.contains(&error.message));
        }
    }
}
