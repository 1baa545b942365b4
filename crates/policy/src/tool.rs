// SPDX-License-Identifier: Apache-2.0
//! The tool layer: the shipped table, and rules of the grant that narrow it.
//!
//! What acts inside the sandbox alone is allowed: it can be thrown away. What reaches past it and
//! can't be undone asks each time; a rule of the grant may allow it, because a person accepted
//! that grant by its digest. A tool that neither the table nor a rule names is denied. Where
//! several rules match, deny beats ask beats allow, in any order.

use crate::facts::ToolFacts;
use crate::grant::{ToolPattern, ToolRule, Verdict};
use crate::names::{RuleName, ToolName};

/// The shipped table. MCP tools are not in it: each needs a rule of the grant.
pub const SHIPPED: &[(&str, Verdict)] = &[
    // They run or change things in the sandbox, which is made to be thrown away.
    ("bash", Verdict::Allow),
    ("exec", Verdict::Allow),
    ("write", Verdict::Allow),
    ("edit", Verdict::Allow),
    ("mkdir", Verdict::Allow),
    ("move", Verdict::Allow),
    ("remove", Verdict::Allow),
    // They read.
    ("read", Verdict::Allow),
    ("glob", Verdict::Allow),
    ("grep", Verdict::Allow),
    ("list", Verdict::Allow),
    ("stat", Verdict::Allow),
    // They reach past the sandbox: results onto the host, a port into it, a message to a person.
    ("apply", Verdict::Ask),
    ("forward", Verdict::Ask),
    ("send", Verdict::Ask),
    ("publish", Verdict::Ask),
];

/// What the tool layer says of a call, and by which rule.
#[must_use]
pub fn judge(rules: &[ToolRule], facts: &ToolFacts) -> (Verdict, RuleName) {
    let shipped = SHIPPED
        .iter()
        .find(|(name, _)| *name == facts.tool.as_str());
    let matching = rules
        .iter()
        .enumerate()
        .filter(|(_, rule)| is_match(rule, facts));
    let lowest = matching.map(|(at, rule)| (rule.verdict, at)).min();
    match (lowest, shipped) {
        (Some((verdict, at)), _) => (verdict, RuleName::new(format!("grant.tool[{at}]"))),
        (None, Some((name, verdict))) => (*verdict, RuleName::new(format!("tool.{name}"))),
        (None, None) => (Verdict::Deny, RuleName::new("tool.default")),
    }
}

fn is_match(rule: &ToolRule, facts: &ToolFacts) -> bool {
    let named = match &rule.tool {
        ToolPattern::Exact(tool) => *tool == facts.tool,
        ToolPattern::Server(prefix) => is_of_server(prefix, &facts.tool),
    };
    // A condition on an absent argument does not hold; arguments that are no object have none.
    named
        && rule
            .when
            .iter()
            .all(|(key, wanted)| facts.arguments.get(key) == Some(wanted))
}

/// `mcp:db/` means its tools, not itself.
fn is_of_server(prefix: &str, tool: &ToolName) -> bool {
    let rest = tool.as_str().strip_prefix(prefix);
    prefix.ends_with('/') && rest.is_some_and(|rest| !rest.is_empty())
}

#[cfg(test)]
mod tests;
