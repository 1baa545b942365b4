// SPDX-License-Identifier: Apache-2.0
//! Hierarchies as hosts show them.

use super::*;

const V2: &str = "24 23 0:22 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
const HYBRID: &str = "\
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";

#[test]
fn a_unified_host_has_one_hierarchy_and_hides_none() {
    let host = CgroupHost::parse(V2, "0::/system.slice/tornod.service\n");
    assert_eq!(
        host.unified,
        Some("/sys/fs/cgroup/system.slice/tornod.service".into())
    );
    assert_eq!(host.hybrid_mount, None);
    assert!(host.v1.is_empty());
}

#[test]
fn a_hybrid_host_has_its_own_place_in_each_hierarchy() {
    let own = "4:cpu,cpuacct:/a\n3:memory:/b/c\n2:pids:/\n1:name=systemd:/s\n0::/u\n";
    let host = CgroupHost::parse(HYBRID, own);
    assert_eq!(host.unified, Some("/sys/fs/cgroup/unified/u".into()));
    assert_eq!(host.hybrid_mount, Some("/sys/fs/cgroup/unified".into()));
    let directory = |name: &str| {
        host.v1
            .iter()
            .find(|(found, _)| found == name)
            .map(|(_, path)| path.clone())
    };
    assert_eq!(
        directory("memory"),
        Some("/sys/fs/cgroup/memory/b/c".into())
    );
    assert_eq!(directory("pids"), Some("/sys/fs/cgroup/pids".into()));
    assert_eq!(
        directory("cpu"),
        Some("/sys/fs/cgroup/cpu,cpuacct/a".into())
    );
    assert_eq!(
        directory("name=systemd"),
        Some("/sys/fs/cgroup/systemd/s".into())
    );
}

#[test]
fn a_mount_that_shows_another_part_of_the_tree_is_not_ours() {
    let mounts = "24 23 0:22 /elsewhere /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    assert_eq!(CgroupHost::parse(mounts, "0::/here\n").unified, None);
}

// ATTACK: 159
#[test]
fn a_limit_without_its_controller_refuses() {
    let directory = tempfile::tempdir().unwrap();
    let parent = directory.path().join("parent");
    fs::create_dir(&parent).unwrap();
    let host = CgroupHost {
        unified: None,
        hybrid_mount: None,
        v1: vec![("memory".into(), parent)],
    };
    let values = CgroupValues {
        memory_bytes: 1 << 30,
        pids: 10,
        cpu_quota_us: 1,
        cpu_period_us: 1,
    };
    let error = host.make("torno-x", values, Reach::Limits).unwrap_err();
    // A plain directory takes the memory limit as a file; pids has no place at all.
    assert!(
        matches!(error, CgroupError::NoController("pids")),
        "{error}"
    );
}

#[test]
fn a_limit_that_the_kernel_does_not_hold_refuses() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("limit");
    assert!(hold(&file, 4096).is_ok());
    let deaf = Path::new("/dev/null");
    assert!(matches!(hold(deaf, 4096), Err(CgroupError::NotHeld(_))));
}
