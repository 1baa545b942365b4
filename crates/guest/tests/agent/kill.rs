// SPDX-License-Identifier: Apache-2.0
//! Kills reach everything an exec began, and nothing else.

use torno_guest_protocol::{GuestMessage, ProcessFailure, ProcessStatus, Signal};

use crate::rig::{Rig, is_alive, wait_until};

/// Starts a daemon by double fork in a session of its own, with its pid in a file.
const DAEMON: &str =
    "(setsid sh -c '(echo $$ > child; exec sleep 300) & echo $! > daemon' &) ; sleep 0.2";

fn pid_in(rig: &Rig, name: &str) -> i32 {
    let path = rig.workspace.path().join(name);
    wait_until("the pid file", || {
        std::fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n'))
    });
    std::fs::read_to_string(path)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

fn parent(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let mut fields = stat.rsplit(')').next().unwrap().split_whitespace();
    fields.nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_kill_reaches_daemons_in_their_own_sessions() {
    // ATTACK: 151, 153
    let mut rig = Rig::start();
    let (bystander, other) = rig.begin_started(&["sleep", "60"]);
    let (exec, main) = rig.begin_started(&["sh", "-c", &format!("{DAEMON}; exec sleep 60")]);
    let daemon = pid_in(&rig, "daemon");
    assert!(is_alive(daemon) && is_alive(main));
    rig.signal(exec, Signal::Kill);
    match rig.finish(exec).end {
        GuestMessage::ProcessEnded {
            status: ProcessStatus::Signaled(9),
            ..
        } => {}
        end => panic!("{end:?}"),
    }
    wait_until("the daemon is dead", || !is_alive(daemon));
    assert!(is_alive(other), "a kill hit another exec");
    rig.signal(bystander, Signal::Kill);
    rig.finish(bystander);
}

#[test]
fn what_a_program_left_behind_can_be_killed_after_its_end() {
    // ATTACK: 153
    let mut rig = Rig::start();
    let exec = rig.begin(&["sh", "-c", DAEMON], None);
    assert_eq!(rig.finish(exec).code(), 0);
    let daemon = pid_in(&rig, "daemon");
    assert!(is_alive(daemon));
    rig.signal(exec, Signal::Kill);
    wait_until("the daemon is dead", || !is_alive(daemon));
    assert_eq!(rig.shell("echo alive").stdout, "alive\n");
}

#[test]
fn the_end_of_the_link_kills_everything() {
    // ATTACK: 155
    let mut rig = Rig::start();
    let (_, main) = rig.begin_started(&["sh", "-c", &format!("{DAEMON}; exec sleep 60")]);
    let daemon = pid_in(&rig, "daemon");
    rig.link.shutdown(std::net::Shutdown::Both).unwrap();
    assert!(rig.agent.wait().unwrap().success());
    wait_until("all are dead", || !is_alive(daemon) && !is_alive(main));
}

#[test]
fn the_death_of_the_agent_kills_everything() {
    let mut rig = Rig::start();
    let (_, main) = rig.begin_started(&["sh", "-c", &format!("{DAEMON}; exec sleep 60")]);
    let daemon = pid_in(&rig, "daemon");
    rig.agent.kill().unwrap();
    wait_until("all are dead", || !is_alive(daemon) && !is_alive(main));
}

#[test]
fn a_killed_keeper_takes_its_family_along_and_no_other() {
    let mut rig = Rig::start();
    let (_, other) = rig.begin_started(&["sleep", "60"]);
    let (exec, main) = rig.begin_started(&["sh", "-c", &format!("{DAEMON}; exec sleep 60")]);
    let daemon = pid_in(&rig, "daemon");
    let keeper = parent(main);
    assert_eq!(rig.shell(&format!("kill -9 {keeper}")).code(), 0);
    match rig.finish(exec).end {
        GuestMessage::ProcessFailed {
            code: ProcessFailure::KeeperLost,
            ..
        } => {}
        end => panic!("{end:?}"),
    }
    wait_until("the family is dead", || {
        !is_alive(daemon) && !is_alive(main)
    });
    assert!(is_alive(other), "the sweep hit another exec");
    assert_eq!(rig.shell("echo alive").stdout, "alive\n");
}

#[test]
fn a_keeper_killed_after_its_programs_end_takes_along_what_was_left_behind() {
    // ATTACK: 151, 153
    let mut rig = Rig::start();
    // What is left behind has no output of the exec's: the end is told before the keeper dies.
    let quiet = format!("exec >/dev/null 2>&1; {DAEMON}");
    let left = rig.begin(&["sh", "-c", &quiet], None);
    assert_eq!(rig.finish(left).code(), 0);
    let daemon = pid_in(&rig, "daemon");
    assert_eq!(rig.shell(&format!("kill -9 {}", parent(daemon))).code(), 0);
    wait_until("the daemon is dead", || !is_alive(daemon));
    // What is left behind holds the output open: the end comes although its keeper can't tell more.
    std::fs::remove_file(rig.workspace.path().join("daemon")).unwrap();
    let (loud, _) = rig.begin_started(&["sh", "-c", DAEMON]);
    let daemon = pid_in(&rig, "daemon");
    std::thread::sleep(std::time::Duration::from_millis(400));
    assert_eq!(rig.shell(&format!("kill -9 {}", parent(daemon))).code(), 0);
    assert_eq!(rig.finish(loud).code(), 0);
    wait_until("what held it open is dead", || !is_alive(daemon));
    assert_eq!(rig.shell("echo alive").stdout, "alive\n");
}

#[test]
fn two_thousand_orphans_are_reaped() {
    // ATTACK: 156
    let mut rig = Rig::start();
    let script = "i=0; while [ $i -lt 2000 ]; do (true &) ; i=$((i+1)); done; echo made";
    let outcome = rig.shell(script);
    assert_eq!(outcome.stdout, "made\n");
    let (exec, pid) = rig.begin_started(&["sleep", "60"]);
    let zombies = || {
        let family = std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| std::fs::read_to_string(entry.unwrap().path().join("stat")).ok());
        let agent = rig.agent.id().to_string();
        family
            .filter(|stat| {
                let mut fields = stat.rsplit(')').next().unwrap().split_whitespace();
                fields.next() == Some("Z") && fields.next() == Some(&agent)
            })
            .count()
    };
    wait_until("no zombie is left", || zombies() == 0);
    assert!(is_alive(pid));
    rig.signal(exec, Signal::Kill);
    rig.finish(exec);
}

#[test]
fn a_fork_bomb_dies_with_its_exec() {
    // ATTACK: 156
    let mut rig = Rig::start();
    // Each of the two forks forever, 40 living at most by their own count.
    let script = "echo set; forever() { sh -c 'sleep 0.01' & sh -c 'sleep 0.01'; }; \
        (while :; do forever; done) & (setsid sh -c 'while :; do sleep 0.01 & wait; done') & wait";
    let exec = rig.begin(&["sh", "-c", script], None);
    rig.wait_for_output(exec, "set");
    rig.signal(exec, Signal::Kill);
    match rig.finish(exec).end {
        GuestMessage::ProcessEnded {
            status: ProcessStatus::Signaled(9),
            ..
        } => {}
        end => panic!("{end:?}"),
    }
    let workspace = rig.workspace.path().to_path_buf();
    wait_until("nobody works in the workspace", || {
        !std::fs::read_dir("/proc").unwrap().any(|entry| {
            std::fs::read_link(entry.unwrap().path().join("cwd")).is_ok_and(|cwd| cwd == workspace)
        })
    });
}

#[test]
fn a_command_runs_though_the_keeper_that_was_started_ahead_is_gone() {
    let mut rig = Rig::start();
    let tasks = format!("/proc/{}/task", rig.agent.id());
    let children = || -> Vec<i32> {
        let tasks = std::fs::read_dir(&tasks).unwrap().flatten();
        let lists = tasks.map(|task| std::fs::read_to_string(task.path().join("children")));
        let text: String = lists.map(Result::unwrap_or_default).collect();
        text.split_whitespace()
            .map(|pid| pid.parse().unwrap())
            .collect()
    };
    wait_until("a keeper is started ahead", || !children().is_empty());
    for keeper in children() {
        let keeper = rustix::process::Pid::from_raw(keeper).unwrap();
        rustix::process::kill_process(keeper, rustix::process::Signal::KILL).unwrap();
    }
    wait_until("the keeper is gone", || children().is_empty());
    assert_eq!(rig.shell("echo alive").stdout, "alive\n");
}
