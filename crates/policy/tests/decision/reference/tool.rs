// SPDX-License-Identifier: Apache-2.0
//! The tool layer once more, and what the test's organisation says of tools.

use super::Outcome;
use crate::faults::Fault;
use crate::world::World;
use torno_policy::Reason;
use torno_policy::facts::ToolFacts;
use torno_policy::grant::{ToolPattern, Verdict};

pub(super) fn judge(world: &World, facts: &ToolFacts, fault: Fault) -> Outcome {
    let name = facts.tool.as_str();
    let mut verdicts = Vec::new();
    for rule in &world.grant.tools {
        let named = match &rule.tool {
            ToolPattern::Exact(tool) => tool.as_str() == name,
            ToolPattern::Server(prefix) => name.starts_with(prefix.as_str()),
        };
        let mut holds = true;
        for (key, value) in &rule.when {
            holds &= facts
                .arguments
                .as_object()
                .is_some_and(|args| args.get(key) == Some(value));
        }
        if named && holds {
            verdicts.push(rule.verdict);
        }
    }
    if verdicts.is_empty() {
        verdicts.push(match name {
            "bash" | "read" => Verdict::Allow,
            "apply" => Verdict::Ask,
            _ => Verdict::Deny,
        });
    }
    let lowest = if verdicts.contains(&Verdict::Deny) {
        Verdict::Deny
    } else if verdicts.contains(&Verdict::Ask) {
        Verdict::Ask
    } else {
        Verdict::Allow
    };
    let chosen = if fault == Fault::LaterToolRuleWins {
        verdicts[verdicts.len() - 1]
    } else {
        lowest
    };
    match chosen {
        Verdict::Deny if fault == Fault::AskBeatsDeny && name == "mcp:ops/deploy" => Outcome::Ask,
        Verdict::Deny => Outcome::Deny(Reason::ToolNotGranted),
        Verdict::Allow if name != "mcp:ops/deploy" => Outcome::Allow(None, None),
        Verdict::Ask | Verdict::Allow => Outcome::Ask,
    }
}
