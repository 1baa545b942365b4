// SPDX-License-Identifier: Apache-2.0
//! kill -9 of each role in the middle of work: after the restart the record verifies, every
//! credential that the far end saw has its record, and nothing of the sandbox lives on. The long
//! form is `cargo xtask campaign crash`.

use crate::ahead::until;
use crate::stage::{Stage, at_each_level_as};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Signal, kill_process};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use torno_stage::account::Who;
use torno_stage::crash::{Blow, ROLES, Step, Struck, furnish, process, strike};
use torno_stage::daemon::Daemon;

#[test]
fn each_role_may_die_in_the_middle_of_work() {
    at_each_level_as(&Who::ALL, "each role may die", |who, stage, level| {
        // The story's own stage stays whole; the blows fall on another daemon of the same world.
        let mut daemon = Daemon::start_as(who, &stage.world).unwrap();
        furnish(&daemon).unwrap();
        for role in ROLES {
            // A porter lives for one job alone, and not long.
            let (step, after) = match role {
                "porter" => (Step::Applying, Duration::ZERO),
                _ => (Step::Working, Duration::from_millis(50)),
            };
            let blow = Blow { role, step, after };
            let struck = strike(&mut daemon, &stage.world, level, blow);
            match struck {
                Ok(Struck::Killed(judged)) => assert!(judged.credentials > 0, "{role}"),
                Ok(Struck::Missed(_)) => assert_eq!(role, "porter"),
                Err(error) => panic!("{role}: {error:#}\n{}", daemon.log_text()),
            }
        }
    });
}

#[test]
fn a_daemon_that_is_ended_in_good_order_leaves_a_record_that_verifies() {
    let mut stage = Stage::new();
    stage.daemon.down();
    stage.daemon.up().unwrap();
    stage.torno(&["audit", "verify"]).good();
    stage.end();
}

/// A role that lost its supervisor clears up; the next daemon would find its work half done.
#[test]
fn a_daemon_waits_for_the_roles_of_the_one_before() {
    let mut stage = Stage::new();
    let lock = std::fs::File::open(stage.daemon.state().join("roles.lock")).unwrap();
    let is_free = || flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
    assert!(!is_free(), "no role holds it");
    let supervisor = process(&stage.daemon, "supervisor").unwrap().unwrap();
    kill_process(supervisor, Signal::KILL).unwrap();
    stage.daemon.wait_for_end(Duration::from_secs(10)).unwrap();
    until("a role lives on", is_free);
    // As one does that has much to clear up.
    flock(&lock, FlockOperation::LockShared).unwrap();
    let may_end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(500));
            may_end.store(true, Ordering::SeqCst);
            flock(&lock, FlockOperation::Unlock).unwrap();
        });
        stage.daemon.up().unwrap();
        assert!(may_end.load(Ordering::SeqCst), "beside the earlier one's");
    });
    stage.end();
}
