// SPDX-License-Identifier: Apache-2.0
//! The shipped table is small and says what it is for; the corpus shows the rules.

use super::*;

fn call(tool: &str, arguments: serde_json::Value) -> ToolFacts {
    ToolFacts {
        tool: ToolName::parse(tool).unwrap(),
        arguments,
    }
}

#[test]
fn the_shipped_table_allows_inside_and_asks_outside() {
    let of = |verdict| {
        SHIPPED
            .iter()
            .filter(move |row| row.1 == verdict)
            .map(|row| row.0)
    };
    let asked: Vec<_> = of(Verdict::Ask).collect();
    assert_eq!(asked, ["apply", "forward", "send", "publish"]);
    assert_eq!(of(Verdict::Deny).count(), 0);
    let mut names: Vec<_> = SHIPPED.iter().map(|row| row.0).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), SHIPPED.len());
}

// ATTACK: 200
#[test]
fn a_condition_is_on_the_exact_value_of_a_present_argument() {
    let when = vec![("sql".to_owned(), serde_json::json!("write"))];
    let tool = ToolPattern::Exact(ToolName::parse("mcp:db/query").unwrap());
    let rules = [ToolRule {
        tool,
        verdict: Verdict::Allow,
        when,
    }];
    let verdict = |arguments| judge(&rules, &call("mcp:db/query", arguments)).0;
    assert_eq!(
        verdict(serde_json::json!({ "sql": "write" })),
        Verdict::Allow
    );
    for other in [
        serde_json::json!({ "sql": "WRITE" }),
        serde_json::json!({ "SQL": "write" }),
        serde_json::json!({ "sql": ["write"] }),
        serde_json::json!({}),
        serde_json::json!(["sql", "write"]),
        serde_json::json!(null),
    ] {
        assert_eq!(verdict(other.clone()), Verdict::Deny, "{other}");
    }
}
