// SPDX-License-Identifier: Apache-2.0
//! Machines from one template, compared: nothing that has to be unique is the same in two.

use anyhow::Result;
use torno_stage::daemon::Daemon;
use torno_stage::world::World;

/// So many machines from one template.
pub(super) fn run(count: usize, level: &str) -> Result<bool> {
    let world = World::start()?;
    let mut daemon = Daemon::start(&world)?;
    daemon.set_again("pool = 0\n")?;
    let found = torno_stage::clones::look(&daemon, level, count)?;
    println!("{} machines, {} restored", found.looked_at, found.restored);
    println!(
        "{} values, each compared with all of its kind",
        found.values
    );
    println!("clocks at most {:.3} s off", found.clock_off);
    for fault in &found.faults {
        println!("failed: {fault}");
    }
    println!("{} passed, {} failed", found.looked_at, found.faults.len());
    Ok(found.faults.is_empty())
}
