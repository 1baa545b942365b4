// SPDX-License-Identifier: Apache-2.0
//! The daemon is started on demand, with little of our environment, and its failure is told.

use crate::home::{Home, Ran};
use std::time::Duration;

#[test]
fn a_daemon_that_ends_at_once_is_told_with_the_end_of_its_log() {
    let home = Home::alone();
    let torno = home.beside_script("printf 'no cgroup\\033[2K here\\n' >&2; exit 3");
    let mut command = home.program(&torno, &["doctor"]);
    let ran = Ran::of(&command.env_remove("TORNO_NO_START").output().unwrap()).expect(125);
    assert!(ran.err.contains("tornod ended at once"), "{}", ran.err);
    assert!(ran.err.contains("no cgroup\\u{1b}[2K here"), "{}", ran.err);
    assert!(ran.err.contains("next: read `"), "{}", ran.err);
}

#[test]
fn a_started_daemon_is_waited_for_and_gets_no_secret_of_ours() {
    let mut home = Home::alone();
    let torno = home.beside_script("env; pwd; exec sleep 5");
    let mut command = home.program(&torno, &["session", "list"]);
    command
        .env_remove("TORNO_NO_START")
        .env("API_TOKEN", "canary")
        .env("LANG", "C");
    let child = command.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(400));
    home.serve();
    Ran::of(&child.wait_with_output().unwrap()).expect(0);
    let log = std::fs::read_to_string(home.directory().join("home/state/tornod.log")).unwrap();
    assert!(
        log.contains("LANG=C\n") && log.contains("TORNO_HOME="),
        "{log}"
    );
    assert!(log.lines().any(|line| line == "/"), "{log}");
    assert!(!log.contains("canary"), "{log}");
}

#[test]
fn the_argument_and_the_variable_both_forbid_a_start() {
    let home = Home::alone();
    let torno = home.beside_script("touch \"$TORNO_HOME/started\"");
    Ran::of(&home.program(&torno, &["doctor"]).output().unwrap()).expect(125);
    let mut command = home.program(&torno, &["--no-start", "doctor"]);
    Ran::of(&command.env_remove("TORNO_NO_START").output().unwrap()).expect(125);
    assert!(!home.directory().join("home/started").exists());
}

#[test]
fn no_log_is_opened_through_a_link_or_in_a_place_that_others_may_write_to() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    for case in ["fine", "log", "state", "open"] {
        let home = Home::alone();
        let torno = home.beside_script("echo started >&2; exit 3");
        let place = home.directory().join("home");
        let outside = home.directory().join("outside");
        std::fs::create_dir_all(&place).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("kept"), "kept").unwrap();
        match case {
            "log" => {
                std::fs::create_dir_all(place.join("state")).unwrap();
                symlink(outside.join("kept"), place.join("state/tornod.log")).unwrap();
            }
            "state" => symlink(&outside, place.join("state")).unwrap(),
            "open" => {
                let open = std::fs::Permissions::from_mode(0o777);
                std::fs::set_permissions(&place, open).unwrap();
            }
            _ => {}
        }
        let mut command = home.program(&torno, &["doctor"]);
        let ran = Ran::of(&command.env_remove("TORNO_NO_START").output().unwrap()).expect(125);
        let started = ran.err.contains("tornod ended at once");
        assert_eq!(started, case == "fine", "{case}: {}", ran.err);
        assert_eq!(ran.err.contains("can't be the daemon's log"), !started);
        assert_eq!(
            place.join("state/tornod.log").is_file(),
            case != "state" && case != "open"
        );
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1, "{case}");
        let kept = std::fs::read_to_string(outside.join("kept")).unwrap();
        assert_eq!(kept, "kept", "{case}");
    }
}
