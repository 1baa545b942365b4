// SPDX-License-Identifier: Apache-2.0
//! Finds and kills whole families of processes by who begot whom.
//! Sessions, process groups and double forks don't hide a process: an orphan belongs to its nearest
//! subreaper, which is the exec's keeper, and after the keeper's death the agent.

use std::collections::HashSet;
use std::io;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// One process as /proc shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pid: Pid,
    parent: i32,
    is_dead: bool,
}

/// Kills all living descendants of `ancestor`, but for the `spared` and theirs. First all are
/// stopped, so that none can multiply while the others die. True when none is left.
pub(crate) fn kill_descendants(ancestor: Pid, spared: &HashSet<Pid>) -> io::Result<bool> {
    let mut stopped = HashSet::new();
    for round in 0..KILL_ROUNDS_MAX {
        let living = living_descendants(&processes()?, ancestor, spared);
        if living.is_empty() {
            return Ok(true);
        }
        let mut any_fresh = false;
        if round < STOP_ROUNDS_MAX {
            for &pid in &living {
                if stopped.insert(pid) {
                    any_fresh = true;
                    signal(pid, Signal::STOP);
                }
            }
        }
        if !any_fresh {
            for &pid in &living {
                signal(pid, Signal::KILL);
            }
            std::thread::sleep(ROUND_PAUSE);
        }
    }
    Ok(false)
}

/// A process that is gone by now is what was wanted; one that may not be signalled shows up again
/// in the next round and in the result.
fn signal(pid: Pid, signal: Signal) {
    let _gone_or_refused = kill_process(pid, signal);
}

fn living_descendants(all: &[Process], ancestor: Pid, spared: &HashSet<Pid>) -> Vec<Pid> {
    let mut family = HashSet::from([ancestor.as_raw_nonzero().get()]);
    let mut found = Vec::new();
    // Each pass adds a generation; /proc is ordered by pid, so one or two passes are the rule.
    loop {
        let before = family.len();
        for process in all {
            let pid = process.pid.as_raw_nonzero().get();
            if family.contains(&process.parent)
                && !spared.contains(&process.pid)
                && family.insert(pid)
                && !process.is_dead
            {
                found.push(process.pid);
            }
        }
        if family.len() == before {
            return found;
        }
    }
}

fn processes() -> io::Result<Vec<Process>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name
            .to_str()
            .and_then(|name| name.parse().ok())
            .and_then(Pid::from_raw)
        else {
            continue;
        };
        // A process that ended since the directory was read has no file any more.
        let Ok(stat) = std::fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())) else {
            continue;
        };
        if let Some((state, parent)) = parse_stat(&stat) {
            all.push(Process {
                pid,
                parent,
                is_dead: matches!(state, b'Z' | b'X'),
            });
        }
    }
    Ok(all)
}

/// State and parent. The name in front is the process's own choice and may hold anything, `)` too.
fn parse_stat(stat: &[u8]) -> Option<(u8, i32)> {
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(stat.get(name_end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    Some((state, fields.next()?.parse().ok()?))
}

// LIMIT: with the pause about two seconds; a family that still lives then can't be signalled at
// all.
const KILL_ROUNDS_MAX: u32 = 1_000;
// LIMIT: a bomb under a pids limit stands still within a few passes; after these it is killed
// moving.
const STOP_ROUNDS_MAX: u32 = 50;
const ROUND_PAUSE: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_fool_the_parser() {
        assert_eq!(parse_stat(b"7 (sh) S 3 7 7 0"), Some((b'S', 3)));
        assert_eq!(parse_stat(b"7 (x) S 99 (y) Z 3 7"), Some((b'Z', 3)));
        assert_eq!(parse_stat(b"7 (\xff\xfe) R 1 0"), Some((b'R', 1)));
        assert_eq!(parse_stat(b"7 sh S 3"), None);
        assert_eq!(parse_stat(b"7 (sh)"), None);
    }

    #[test]
    fn a_family_is_found_across_generations_without_the_spared_and_the_dead() {
        let pid = |number| Pid::from_raw(number).unwrap();
        let process = |number, parent, is_dead| Process {
            pid: pid(number),
            parent,
            is_dead,
        };
        let all = [
            process(2, 9, false),
            process(3, 2, true),
            process(4, 3, false),
            process(5, 1, false),
            process(6, 5, false),
            process(9, 1, false),
            process(10, 99, false),
        ];
        assert_eq!(
            living_descendants(&all, pid(9), &HashSet::new()),
            [pid(2), pid(4)]
        );
        let spared = HashSet::from([pid(9)]);
        assert_eq!(living_descendants(&all, pid(1), &spared), [pid(5), pid(6)]);
    }
}
