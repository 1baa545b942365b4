// SPDX-License-Identifier: Apache-2.0
//! What `torno run` says on standard error: what was granted, hidden and is absent at the start;
//! what was refused at the end, each with the line that would allow it.

use crate::context::{Context, note};
use crate::printable;
use crate::values::level_word;
use serde_json::json;
use torno_control_api::request::{Started, Summary};
use torno_policy::grant::Isolation;
use torno_policy::names::SessionId;

/// LIMIT: lines of one kind; a banner is read, a list is looked up (`torno session show`).
const LINES_MAX: usize = 8;

/// The session as it begins.
pub(crate) fn started(started: &Started, context: &Context) {
    if context.json {
        note_json(&json!({ "started": started }));
        return;
    }
    let level = level_word(started.isolation);
    let mut lines = vec![format!(
        "torno: session {} at {}",
        context.bold(started.session.as_str()),
        context.bold(level)
    )];
    let hidden: Vec<_> = started
        .hidden
        .iter()
        .map(|(place, shape)| format!("{place} ({shape})"))
        .collect();
    push(&mut lines, "granted", &started.granted);
    push(&mut lines, "hidden ", &hidden);
    if started.isolation == Isolation::Container {
        lines.push(
            "  container: the host's kernel is the boundary; a fault in it is a way out. \
             `gvisor` and above have their own"
                .to_owned(),
        );
    }
    push(&mut lines, "absent ", &started.absent);
    note(&format!("{}\n", lines.join("\n")));
}

/// The session as it ended. Nothing to say is not said.
pub(crate) fn ended(session: &SessionId, summary: &Summary, offered: bool, context: &Context) {
    if context.json {
        note_json(&json!({ "ended": summary }));
        return;
    }
    let mut text = String::new();
    if !summary.refused.is_empty() {
        let requests: u64 = summary.refused.iter().map(|(_, n, _)| u64::from(*n)).sum();
        text.push_str(&format!("torno: {requests} refused\n"));
    }
    for (target, count, refusal) in summary.refused.iter().take(LINES_MAX) {
        text.push_str(&format!(
            "  {count}× {}: {} ({})\n     {}\n",
            printable::line(target),
            refusal.reason.code(),
            printable::line(refusal.rule.as_str()),
            printable::line(&refusal.hint),
        ));
    }
    if let Some(more) = more(summary.refused.len()) {
        text.push_str(&format!("  {more}\n"));
    }
    if !summary.refused.is_empty() {
        text.push_str(&format!(
            "  `torno session logs {session}` shows their paths and refs\n"
        ));
    }
    if let Some(why) = &summary.left_inside {
        text.push_str(&format!(
            "torno: what it changed did not come out of its machine: {}\n",
            printable::line(why)
        ));
    }
    if summary.changed > 0 && !offered {
        let files = if summary.changed == 1 {
            "file"
        } else {
            "files"
        };
        text.push_str(&format!(
            "torno: {} {files} changed in the copied workspace; `torno session diff {session}` \
             shows them, `torno session apply {session}` brings them back\n",
            summary.changed
        ));
    }
    note(&text);
}

fn note_json(value: &serde_json::Value) {
    note(&format!("{}\n", printable::json(&value.to_string())));
}

fn push(lines: &mut Vec<String>, title: &str, items: &[String]) {
    for item in items.iter().take(LINES_MAX) {
        lines.push(format!("  {title}  {}", printable::line(item)));
    }
    if let Some(more) = more(items.len()) {
        lines.push(format!("  {title}  {more}"));
    }
}

fn more(items: usize) -> Option<String> {
    let more = items.checked_sub(LINES_MAX).filter(|more| *more > 0)?;
    Some(format!("… and {more} more"))
}
