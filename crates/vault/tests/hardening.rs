// SPDX-License-Identifier: Apache-2.0
//! In its own process, because what it does can't be undone.

use rustix::process::{DumpableBehavior, Resource, dumpable_behavior, getrlimit};

// ATTACK: 111
#[test]
fn a_hardened_process_leaves_no_core() {
    torno_vault::harden_process().unwrap();
    assert!(matches!(
        dumpable_behavior().unwrap(),
        DumpableBehavior::NotDumpable
    ));
    let core = getrlimit(Resource::Core);
    assert_eq!((core.current, core.maximum), (Some(0), Some(0)));
}
