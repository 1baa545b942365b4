// SPDX-License-Identifier: Apache-2.0
//! Sessions, kill, doctor, the record.

use crate::fake::SESSION;
use crate::home::{Home, Ran};
use std::os::unix::fs::PermissionsExt;
use torno_audit::{Digest, Durability, Entry, Event, Opening, Recorder, Settings, SigningKey};

#[test]
fn sessions_are_listed_and_shown_inert() {
    let home = Home::served();
    let ran = home.torno(&["session", "list"]).expect(0);
    assert_eq!(
        ran.out,
        format!("{SESSION}  running     gvisor     1970-01-01T00:00:00Z  2 refused\n")
    );
    let ran = home.torno(&["session", "show", SESSION]).expect(0);
    assert!(ran.out.contains("runs     1: sh 'a\\u{d}b'"), "{}", ran.out);
    let ran = home.torno(&["session", "token", SESSION]).expect(0);
    assert_eq!(ran.out, "brain\n");
    home.torno(&["session", "show", "Not A Session"])
        .expect(125);
}

#[test]
fn a_session_is_paused_and_resumed_by_its_name() {
    let home = Home::served();
    for (command, word) in [("pause", "paused"), ("resume", "resumed")] {
        let ran = home.torno(&["session", command, SESSION]).expect(0);
        assert_eq!(ran.out, format!("{word} {SESSION}\n"));
    }
    home.seen().state = Some(("paused", None));
    let ran = home.torno(&["session", "list"]).expect(0);
    assert!(ran.out.contains("  paused "), "{}", ran.out);
}

// ATTACK: 184
#[test]
fn commits_need_a_repository_or_a_bundle_and_say_why_none_come() {
    let home = Home::served();
    let ran = home.torno(&["session", "commits", SESSION]).expect(125);
    assert!(ran.err.contains("is no git repository"), "{}", ran.err);
    assert!(ran.err.contains("--bundle FILE"), "{}", ran.err);
    let words = ["session", "commits", SESSION, "--bundle", "x.bundle"];
    let ran = home.torno(&words).expect(125);
    let says = "no commits come back: a\\u{1b}[2Jb";
    assert!(ran.err.contains(says), "{}", ran.err);
    assert!(!home.work("x.bundle").exists());
}

#[test]
fn checkpoints_are_made_listed_removed_and_begun_from() {
    let home = Home::served();
    let made = ["session", "checkpoint", SESSION, "--name", "before"];
    let ran = home.torno(&made).expect(0);
    assert_eq!(ran.out, "before\nleft out  .env\\u{1b}: dotenv\n");
    let ran = home.torno(&["session", "checkpoints"]).expect(0);
    assert!(ran.out.starts_with("before "), "{}", ran.out);
    assert!(
        ran.out.ends_with("12 bytes  taken while it ran\n"),
        "{}",
        ran.out
    );
    let ran = home
        .torno(&["session", "checkpoint", "rm", "before"])
        .expect(0);
    assert_eq!(ran.out, "removed before\n");
    home.torno(&["session", "checkpoint"]).expect(125);
    home.torno(&["session", "checkpoint", "rm", "../x"])
        .expect(125);
}

#[test]
fn what_lies_about_is_reported_and_removed_only_when_that_is_said() {
    let home = Home::served();
    let ran = home.torno(&["gc"]).expect(1);
    assert!(
        ran.out
            .contains("found    control group           /sys/fs/cgroup/torno-a\\u{d}\n"),
        "{}",
        ran.out
    );
    assert!(
        ran.out.ends_with("remove it with `torno gc --apply`\n"),
        "{}",
        ran.out
    );
    let ran = home.torno(&["gc", "--apply"]).expect(1);
    assert!(ran.out.starts_with("removed  control group"), "{}", ran.out);
    assert!(
        ran.out
            .contains("mount                   /s/b: stays: unmount it by hand\n"),
        "{}",
        ran.out
    );
    let ran = home.torno(&["doctor"]);
    assert!(
        ran.out
            .ends_with("leftovers  2: `torno gc` names each, `torno gc --apply` removes it\n"),
        "{}",
        ran.out
    );
}

#[test]
fn a_diff_is_byte_exact_for_a_file_and_apply_needs_a_yes() {
    let home = Home::served();
    let ran = home.torno(&["session", "diff", SESSION]).expect(0);
    assert_eq!(ran.raw_out, b"modified: a\n+\x1b[2Kx\xff\n");
    let ran = home.torno(&["session", "apply", SESSION]).expect(125);
    assert!(ran.err.contains("nothing was brought back"), "{}", ran.err);
    let ran = home
        .torno(&["session", "apply", SESSION, "--yes"])
        .expect(0);
    assert_eq!(
        ran.out,
        "wrote     src/a\nleft      .envrc: executes on a host; confirm it at a terminal\n\
         left      b: it changed here too; merge it by hand\n"
    );
}

#[test]
fn kill_goes_through_desk_and_supervisor_at_once() {
    let home = Home::served();
    let ran = home.torno(&["kill", SESSION]).expect(0);
    assert!(
        ran.out
            .starts_with(&format!("killed {SESSION} in 9 ms: 3 processes, 0 left")),
        "{}",
        ran.out
    );
    let packet = home.seen().kill_packets[0].clone();
    assert_eq!(packet, SESSION.as_bytes());
    home.torno(&["kill", "--all"]).expect(0);
    home.torno(&["kill"]).expect(125);
    home.torno(&["kill", "--all", SESSION]).expect(125);
}

#[test]
fn kill_does_its_work_when_the_desk_refuses_and_starts_no_daemon() {
    let home = Home::served();
    home.seen().desk_refuses = true;
    let ran = home.torno(&["kill", "--all"]).expect(1);
    assert!(
        ran.err.contains("the supervisor has cut every gate"),
        "{}",
        ran.err
    );
    let ran = Home::alone().torno(&["kill", "--all"]).expect(125);
    assert!(
        ran.err.contains("not running, so no session is"),
        "{}",
        ran.err
    );
}

#[test]
fn a_kill_of_a_session_that_is_not_there_says_so_once() {
    let ran = Home::served().torno(&["kill", "nosuch"]).expect(125);
    assert_eq!(
        ran.err,
        "torno: there is no session `nosuch`\nnext: give its whole name, as `torno session list` shows it\n"
    );
}

#[test]
fn doctor_names_the_one_fix_and_fails_when_only_container_works() {
    let ran = Home::served().torno(&["doctor"]).expect(1);
    assert!(ran.out.contains("gvisor     does not work"), "{}", ran.out);
    assert!(ran.out.contains("fix: apt-get install it"), "{}", ran.out);
}

#[test]
fn demo_becomes_the_program_beside_us_or_says_that_it_is_absent() {
    let home = Home::alone();
    let torno = home.beside_script("exit 1");
    let ran = Ran::of(&home.program(&torno, &["demo"]).output().unwrap()).expect(125);
    assert!(
        ran.err.contains("`torno-demo` is not beside"),
        "{}",
        ran.err
    );
    let demo = torno.with_file_name("torno-demo");
    std::fs::write(&demo, "#!/bin/sh\nexit \"$1\"\n").unwrap();
    std::fs::set_permissions(&demo, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = home.program(&torno, &["demo", "--", "7"]);
    Ran::of(&command.output().unwrap()).expect(7);
}

#[test]
fn the_record_is_verified_from_files_and_key_alone_and_a_changed_byte_is_found() {
    let home = Home::alone();
    let dir = home.work("record");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o700)).unwrap();
    let key = record(&dir);
    let key = home.write("record.pub", &format!("{key}\n"));
    let (dir, key) = (dir.to_str().unwrap(), key.to_str().unwrap());
    let verify = ["audit", "verify", "--dir", dir, "--key", key];
    let ran = home.torno(&verify).expect(0);
    assert!(ran.out.starts_with("verified: "), "{}", ran.out);
    let ran = home.torno(&["audit", "tail", "--dir", dir]).expect(0);
    assert!(ran.out.contains("document_accepted digest="), "{}", ran.out);
    let ran = home
        .torno(&["audit", "export", "--format", "jsonl", "--dir", dir])
        .expect(0);
    assert!(
        ran.out
            .lines()
            .all(|l| serde_json::from_str::<serde_json::Value>(l).is_ok())
    );
    let segment = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    let segment = segment
        .into_iter()
        .find(|p| p.extension().is_some_and(|e| e == "jsonl"))
        .unwrap();
    let text = std::fs::read_to_string(&segment).unwrap();
    let digest = |of: &[u8]| Digest::of(of).to_string();
    let changed = text.replacen(&digest(b"document"), &digest(b"another"), 1);
    assert_ne!(text, changed);
    std::fs::write(&segment, changed).unwrap();
    let ran = home.torno(&verify).expect(1);
    assert!(
        ran.err.contains("the record does not verify"),
        "{}",
        ran.err
    );
}

/// A record with one event; its public key.
fn record(dir: &std::path::Path) -> String {
    let opening = Opening {
        at_ms: 4,
        software: "test".into(),
    };
    let settings = Settings {
        segment_bytes: 1 << 20,
        reserve_bytes: 4096,
    };
    let key = SigningKey::from_seed(&[7; 32]);
    let mut recorder = Recorder::open_with(dir, key, opening, settings).unwrap();
    let entry = Entry {
        at_ms: 5,
        session: None,
        event: Event::DocumentAccepted {
            digest: Digest::of(b"document"),
        },
    };
    recorder
        .append(vec![(entry, ())], Durability::Synced)
        .unwrap();
    recorder.checkpoint().unwrap();
    recorder.public_key().to_string()
}
