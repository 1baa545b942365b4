// SPDX-License-Identifier: Apache-2.0
//! A sandbox is booted ahead of the session that gets it. It holds nothing of any session before,
//! has all of its own session's things and walls, serves that one alone, and nothing of it outlives
//! a session, a kill or the daemon.

use crate::ahead::{CLAIMED, groups, journal, members, unclaimed, until, until_waiting, waiting};
use crate::hostile_attempts_fail::attempts_fail;
use crate::roles::below;
use crate::stage::{Stage, at_each_level, at_each_level_for_both, at_level};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use torno_stage::daemon::POLICY;

/// What is a session's own, as a program in it finds it: a line each. Then the way out with the
/// session's credential, through its own authority.
const OWN: &str = "sha256sum /etc/ssl/certs/torno-session-ca.pem
tail -n 12 /etc/ssl/certs/ca-certificates.crt | sha256sum
sha256sum ~/.netrc
sha256sum ~/.ssh/id_ed25519
echo $API_TOKEN
cat /proc/sys/kernel/random/uuid 2>/dev/null || cat /proc/sys/kernel/random/boot_id
python3 -c 'import os; print(os.urandom(16).hex())'";
/// In each of them.
const COMMON: &str =
    "; grep -q TRNO ~/.netrc && grep -q 'insteadOf = git@git.torno.test:' /etc/gitconfig &&
tail -n 1 /etc/ssl/certs/ca-certificates.crt | grep -q 'END CERTIFICATE' &&
! tr '\\0' '\\n' < /proc/1/environ | grep -q -e TOKEN -e KEY= &&
curl -sS -m 20 -o /dev/null -w '%{http_code}\\n' -H \"authorization: Bearer $API_TOKEN\" \
https://api.torno.test/public/ahead";

/// Why the search can't read some of what gates were asked.
const KEYS_GO: &str = "without a workspace the keys are in memory and go with it";

/// Runs `true`, so that one of its kind is made.
#[track_caller]
fn prepare(stage: &Stage, level: &str, workspace: &str) -> BTreeSet<String> {
    run(stage, level, workspace, "true").good();
    until_waiting(stage, 1)
}

fn run(stage: &Stage, level: &str, workspace: &str, script: &str) -> crate::stage::Ran {
    let run = ["run", "--quiet", "--isolation", level, "--workspace"];
    let command = [workspace, "--", "/bin/sh", "-c", script];
    let words: Vec<&str> = run.into_iter().chain(command).collect();
    stage.torno(&words)
}

/// A session that goes on, not yet started.
fn start(stage: &Stage, level: &str) -> Command {
    let run = ["run", "--quiet", "--isolation", level, "--workspace"];
    let run: Vec<_> = run.into_iter().chain(["none", "--detach"]).collect();
    stage.daemon.torno(&run)
}

fn detached(stage: &Stage, level: &str) -> String {
    let output = start(stage, level).output().unwrap();
    stage.hear(&output).good().stdout.trim().to_owned()
}

#[test]
fn each_has_its_own_sessions_things_and_no_others() {
    at_each_level_for_both("things of a session in one made ahead", |stage, level| {
        stage.is_not_seen_whole(KEYS_GO);
        for workspace in ["none", "copy"] {
            prepare(stage, level, workspace);
            let mut seen: Vec<BTreeSet<String>> = Vec::new();
            for _ in 0..2 {
                let script = format!("{CLAIMED}{OWN}{COMMON}");
                let ran = run(stage, level, workspace, &script).good();
                let mut lines: Vec<_> = ran.stdout.lines().map(str::to_owned).collect();
                assert_eq!(lines.pop().unwrap(), "200", "{ran:?}");
                assert_eq!(lines.len(), 7, "{ran:?}");
                for earlier in &seen {
                    let both: Vec<_> = lines
                        .iter()
                        .filter(|line| earlier.contains(*line))
                        .collect();
                    assert!(both.is_empty(), "two sessions share {both:?}");
                }
                seen.push(lines.into_iter().collect());
                until_waiting(stage, 1);
            }
            stage.torno(&["kill", "--all"]).good();
        }
    });
}

/// gVisor's kernel keeps what it once saw of a file or directory, and reads files itself or, with
/// file rules, through its file server.
#[test]
fn what_is_written_at_the_claim_is_what_programs_read() {
    at_each_level("reading what was written at the claim", |stage, level| {
        std::fs::create_dir_all(stage.daemon.workspace().join("dir/below")).unwrap();
        stage
            .daemon
            .write_workspace("dir/file", "copied\n")
            .unwrap();
        prepare(stage, level, "copy");
        let script = format!(
            "{CLAIMED}cd /workspace && cat dir/file && ls -A dir && stat -c '%h %a %U' . &&
            test $(find . -type d | wc -l) = 3 && mkdir made && stat -c %h ."
        );
        let ran = run(stage, level, "copy", &script).good();
        assert_eq!(ran.stdout, "copied\nbelow\nfile\n3 700 agent\n4\n");
        stage.torno(&["kill", "--all"]).good();

        let rules = POLICY.replace("[sandbox]", "[sandbox]\nfiles = { hide = [\".env\"] }");
        stage.daemon.write_workspace("torno.toml", &rules).unwrap();
        stage.torno(&["trust", "--yes"]).good();
        stage.is_not_seen_whole(KEYS_GO);
        prepare(stage, level, "none");
        let script = format!("{CLAIMED}ls -l /etc/gitconfig ~/.netrc{COMMON}");
        let ran = run(stage, level, "none", &script).good();
        assert!(ran.stdout.ends_with("200\n"), "{ran:?}");
        // Rules for a copy name places that are not there before it.
        run(stage, level, "copy", "true").good();
        let one = run(stage, level, "copy", CLAIMED);
        assert_eq!(one.code, Some(77), "{one:?}");
    });
}

#[test]
fn every_attempt_fails_in_one_that_was_made_ahead() {
    at_each_level("hostile attempts in one made ahead", |stage, level| {
        prepare(stage, level, "copy");
        attempts_fail(stage, level, |_| {
            until_waiting(stage, 1);
            Some(CLAIMED)
        });
    });
}

#[test]
fn two_sessions_get_two_and_none_comes_a_second_time() {
    at_each_level(
        "each sandbox made ahead serves one session",
        |stage, level| {
            let mut ever = prepare(stage, level, "none");
            for _ in 0..2 {
                let starts = [(); 2].map(|()| start(stage, level).stdout(Stdio::piped()).spawn());
                let both = starts.map(|start| {
                    let output = start.unwrap().wait_with_output().unwrap();
                    stage.hear(&output).good().stdout.trim().to_owned()
                });
                let taken: Vec<_> = journal(stage)
                    .into_iter()
                    .filter_map(|(id, session)| Some((id, session?)))
                    .collect();
                let sessions: BTreeSet<_> = taken.iter().map(|(_, session)| session).collect();
                assert_eq!(
                    sessions.len(),
                    taken.len(),
                    "one session has two: {taken:?}"
                );
                assert!(!taken.is_empty(), "no session got one that was made ahead");
                let next = until_waiting(stage, 1);
                assert!(ever.is_disjoint(&next), "{next:?} comes a second time");
                assert!(taken.iter().all(|(id, _)| !next.contains(id)), "{next:?}");
                ever.extend(next);
                for session in &both {
                    stage.torno(&["session", "stop", session]).good();
                }
                for (id, _) in &taken {
                    assert!(members(id).is_empty() && groups(id).is_empty(), "{id}");
                }
            }
        },
    );
}

#[test]
fn one_that_died_is_nobodys_and_the_next_start_does_not_notice() {
    at_each_level("a dead sandbox made ahead", |stage, level| {
        let dead = prepare(stage, level, "none");
        let dead = dead.first().unwrap();
        for number in members(dead) {
            let _died_with_another = kill_process(Pid::from_raw(number).unwrap(), Signal::KILL);
        }
        until("it lives", || members(dead).is_empty());
        run(stage, level, "none", "true").good();
        until("it is still there", || !unclaimed(stage).contains(dead));
        assert_eq!(groups(dead), Vec::<std::path::PathBuf>::new());
        // Without a start in between as well.
        let dead = until_waiting(stage, 1);
        let dead = dead.first().unwrap();
        for number in members(dead) {
            let _died_with_another = kill_process(Pid::from_raw(number).unwrap(), Signal::KILL);
        }
        until("it is not replaced", || {
            let next = unclaimed(stage);
            next.len() == 1 && !next.contains(dead)
        });
    });
}

#[test]
fn the_limits_of_the_session_hold_in_it() {
    at_each_level("limits in one made ahead", |stage, level| {
        let count =
            "i=0; while [ $i -lt 300 ]; do sleep 5 & i=$((i+1)); done 2>&1; jobs -p | wc -l";
        let limited = |pids: &str| POLICY.replace("pids = 256", &format!("pids = {pids}"));
        for (pids, other) in [("96", "128"), ("128", "96")] {
            stage
                .daemon
                .write_workspace("torno.toml", &limited(pids))
                .unwrap();
            stage.torno(&["trust", "--yes"]).good();
            // One of the other shape may wait; it is not this session's.
            let first = run(stage, level, "none", CLAIMED);
            assert_eq!(first.code, Some(77), "{first:?}");
            until("none is made", || waiting(stage) >= 1);
            let session = {
                until("none of the shape", || {
                    let one = detached(stage, level);
                    let is_claimed = journal(stage).iter().any(|(_, s)| s.as_ref() == Some(&one));
                    if !is_claimed {
                        stage.torno(&["session", "stop", &one]).good();
                    }
                    is_claimed
                });
                stage.daemon.sessions().unwrap().pop().unwrap()
            };
            let (id, _) = journal(stage)
                .into_iter()
                .find(|(_, s)| s.as_ref() == Some(&session))
                .unwrap();
            let held: BTreeSet<_> = groups(&id)
                .iter()
                .filter_map(|group| std::fs::read_to_string(group.join("pids.max")).ok())
                .map(|text| text.trim().to_owned())
                .collect();
            assert!(held.contains(pids) && !held.contains(other), "{held:?}");
            if level == "container" {
                let exec = ["session", "exec", &session, "--", "/bin/sh", "-c", count];
                let ran = stage.torno(&exec);
                assert!(
                    ran.code != Some(0) || !ran.stdout.trim().ends_with("300"),
                    "{ran:?}"
                );
            }
            stage.torno(&["session", "stop", &session]).good();
        }
    });
}

#[test]
fn nothing_of_one_outlives_a_kill_of_all_its_launcher_or_its_daemon() {
    at_each_level_for_both("the end of one made ahead", |stage, level| {
        let gone = |id: &String| members(id).is_empty() && groups(id).is_empty();
        let ahead = prepare(stage, level, "copy");
        stage.torno(&["kill", "--all"]).good();
        until("it outlives a kill of all", || ahead.iter().all(gone));
        until("its entry stays", || journal(stage).is_empty());
        assert_eq!(waiting(stage), 0);
    });
    for end in ["launcher", "supervisor", "in good order"] {
        at_each_level("the end of the daemon of one made ahead", |_, level| {
            let mut stage = Stage::new();
            let ahead = prepare(&stage, level, "copy");
            let supervisor = stage.daemon.pid().unwrap();
            match end {
                "launcher" => below(supervisor, &["launcher"])[0].signal(Signal::KILL),
                "supervisor" => {
                    let pid = Pid::from_raw(supervisor.try_into().unwrap()).unwrap();
                    kill_process(pid, Signal::KILL).unwrap();
                }
                _ => stage.daemon.down(),
            }
            let gone = |id: &String| members(id).is_empty() && groups(id).is_empty();
            until(&format!("{ahead:?} outlives {end}"), || {
                ahead.iter().all(gone)
            });
            stage
                .daemon
                .wait_for_end(std::time::Duration::from_secs(30))
                .unwrap();
            stage.daemon.up().unwrap();
            // The sockets answer before the launcher has tidied up.
            until("an entry stays", || journal(&stage).is_empty());
            let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
            assert!(ahead.iter().all(|id| !mounts.contains(&**id)));
        });
    }
}

#[test]
fn with_a_pool_of_zero_none_is_made_and_of_two_two() {
    at_level("the size of the pool", "container", |stage| {
        prepare(stage, "container", "none");
        let mut stage = Stage::new();
        for (pool, wanted) in [(0, 0), (2, 2)] {
            stage.daemon.down();
            stage
                .daemon
                .write_settings(&format!("pool = {pool}\n"))
                .unwrap();
            stage.daemon.up().unwrap();
            let key = stage.daemon.key_file();
            stage
                .torno(&["vault", "unseal", "--key-file", key.to_str().unwrap()])
                .good();
            for _ in 0..2 {
                run(&stage, "container", "none", "true").good();
            }
            if wanted == 0 {
                std::thread::sleep(std::time::Duration::from_secs(2));
                assert_eq!(journal(&stage), []);
            }
            until_waiting(&stage, wanted);
            let claimed = run(&stage, "container", "none", CLAIMED);
            let expected = if wanted == 0 { 77 } else { 0 };
            assert_eq!(claimed.code, Some(expected), "{claimed:?}");
        }
    });
}
