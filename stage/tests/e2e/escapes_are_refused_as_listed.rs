// SPDX-License-Identifier: Apache-2.0
//! Attempts to leave that public lists of attacks name: each reaches what it wants with its wall
//! off, and meets what is listed for each level. What the host is like afterwards is shown by
//! `cargo xtask campaign escape`, which has a host to itself.

use crate::stage::{Stage, at_each_level, at_machine};
use torno_stage::escape::{Control, Inside, Judge};

#[test]
fn every_escape_succeeds_without_its_wall() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP: every escape without its wall: not root");
        return;
    }
    let stage = Stage::new();
    let mut judge = Judge::new(&stage.world, &stage.daemon, "").unwrap();
    let controls = judge.controls().unwrap();
    let failed = controls
        .iter()
        .filter(|(_, control)| matches!(control, Control::Failed(_)));
    let failed: Vec<_> = failed.collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let succeeded = controls
        .iter()
        .filter(|(_, control)| *control == Control::Succeeded);
    assert!(succeeded.count() >= 70);
}

// ATTACK: 119
// ATTACK: 121
// ATTACK: 124
// ATTACK: 133
// ATTACK: 134
// ATTACK: 136
// ATTACK: 137
// ATTACK: 139
// ATTACK: 141
// ATTACK: 142
// ATTACK: 144
// ATTACK: 145
// ATTACK: 147
// ATTACK: 161
#[test]
fn every_escape_is_refused_as_listed() {
    at_each_level("escapes", escapes_are_refused);
}

// ATTACK: 136
// ATTACK: 144
// ATTACK: 145
#[test]
fn every_escape_is_refused_as_listed_in_a_machine() {
    // Level `vm` boots the same kernel with the same agent; the campaign tells it too.
    at_machine("escapes", &["microvm"], escapes_are_refused);
}

fn escapes_are_refused(stage: &Stage, level: &str) {
    stage.is_not_seen_whole("without a workspace there is nowhere to export keys to");
    let mut judge = Judge::new(&stage.world, &stage.daemon, "").unwrap();
    let inside = Inside::start(&stage.daemon, level).unwrap();
    let rows = judge.at(level, &inside);
    inside.end().unwrap();
    let mut failed = Vec::new();
    for row in rows {
        stage.heard.borrow_mut().extend_from_slice(&row.output);
        if let Some(problem) = row.problem {
            let output = String::from_utf8_lossy(&row.output).into_owned();
            failed.push(format!("{}: {problem}\n{output}", row.name));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n---\n"));
}
