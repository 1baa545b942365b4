// SPDX-License-Identifier: Apache-2.0
//! Plans of machines that Firecracker and Cloud Hypervisor make, and who may make one.

use super::call::Call;
use super::*;
use crate::facts::HostFacts;
use crate::plan::tests as oci;
use crate::plan::{Plan, PlanError, TreeStep};
use crate::vm::tests as machine;
use serde_json::Value;

mod interface;

const BOTH: [Monitor; 2] = [Monitor::Firecracker, Monitor::CloudHypervisor];

/// Facts of a host where this monitor has booted a machine by KVM.
fn facts(monitor: Monitor) -> HostFacts {
    let mut facts = machine::facts();
    let parts = facts.machine.as_mut().unwrap();
    let programs = BOTH.map(|monitor| MonitorProgram {
        monitor,
        path: "/opt/monitors/program".into(),
        version: monitor.name().to_owned() + " v1.14.1",
        is_dynamic: monitor == Monitor::CloudHypervisor,
    });
    parts.kvm = Kvm {
        is_there: true,
        programs: programs.to_vec(),
        kernel: Some("/opt/machine/images/vmlinux-0".into()),
        link_modules: vec![("vsock.ko", b"MODULE".as_slice().into())],
        proven: vec![(Level::Microvm, monitor)],
    };
    facts
}

fn plan(monitor: Monitor) -> Plan {
    crate::plan(&machine::spec(Level::Microvm), &facts(monitor)).unwrap()
}

fn calls(monitor: Monitor) -> Vec<Call> {
    plan(monitor).monitor.unwrap().calls
}

#[test]
fn the_plans_of_machines_by_kvm_are_the_golden_ones() {
    for (monitor, name) in BOTH.into_iter().zip(["firecracker", "cloud_hypervisor"]) {
        let plan = plan(monitor);
        let mut text = oci::printed(&plan);
        for call in plan.monitor.unwrap().calls {
            text += &format!("{} {} → {}\n", call.method.name(), call.path, call.status);
            if let Some(body) = call.body {
                text += &serde_json::to_string_pretty(&body).unwrap();
                text.push('\n');
            }
        }
        oci::check_golden(&format!("{name}.txt"), &text);
    }
}

#[test]
fn a_monitor_has_no_network_one_device_and_one_place_for_its_sockets() {
    for monitor in BOTH {
        let plan = plan(monitor);
        assert_eq!(plan.network, crate::plan::Network::Machine);
        let config: Value = serde_json::from_str(&plan.config).unwrap();
        let mounts = config["mounts"].as_array().unwrap();
        let places: Vec<&str> = mounts
            .iter()
            .map(|m| m["destination"].as_str().unwrap())
            .collect();
        assert_eq!(places, ["/proc", "/dev", "/dev/kvm"]);
        assert_eq!(config["root"]["readonly"], true);
        assert_eq!(config["process"]["noNewPrivileges"], true);
        let capabilities = config["process"]["capabilities"].as_object().unwrap();
        assert!(
            capabilities
                .values()
                .all(|set| set.as_array().unwrap().is_empty())
        );
        let homes = plan
            .tree
            .iter()
            .filter(|step| matches!(step, TreeStep::Home(..)));
        assert_eq!(homes.count(), 1);
        let binds = plan.tree.iter().filter_map(|step| match step {
            TreeStep::Bind { host, .. } => Some(host.to_str().unwrap()),
            _ => None,
        });
        let binds: Vec<&str> = binds.collect();
        let booted = [
            "/opt/monitors/program",
            "/opt/machine/images/vmlinux-0",
            "/opt/machine/images/usr-0.erofs",
        ];
        match monitor {
            Monitor::Firecracker => assert_eq!(binds, booted),
            // It was not linked for itself alone.
            _ => assert_eq!(binds.get(binds.len() - 3..), Some(&booted[..])),
        }
    }
}

#[test]
fn what_was_not_proven_is_not_used_and_what_is_missing_is_refused() {
    let spec = machine::spec(Level::Microvm);
    let mut facts = facts(Monitor::Firecracker);
    let kvm = |facts: &mut HostFacts, change: fn(&mut Kvm)| {
        change(&mut facts.machine.as_mut().unwrap().kvm);
    };
    let vm = crate::plan(&machine::spec(Level::Vm), &facts).unwrap();
    assert!(
        vm.monitor.is_none() && vm.config.contains("tcg"),
        "another level"
    );
    kvm(&mut facts, |kvm| kvm.kernel = None);
    let refused = crate::plan(&spec, &facts).unwrap_err();
    assert_eq!(refused, PlanError::DiskMissing);
    kvm(&mut facts, |kvm| kvm.programs.clear());
    let refused = crate::plan(&spec, &facts).unwrap_err();
    assert_eq!(refused, PlanError::MachineMissing);
    kvm(&mut facts, |kvm| kvm.proven.clear());
    let plan = crate::plan(&spec, &facts).unwrap();
    assert!(plan.monitor.is_none() && plan.config.contains("tcg"));
    assert!(
        !plan.tree.contains(&TreeStep::Kvm),
        "an emulated machine has no device"
    );
    kvm(&mut facts, |kvm| {
        kvm.proven.push((Level::Microvm, Monitor::Qemu))
    });
    let plan = crate::plan(&spec, &facts).unwrap();
    assert!(plan.monitor.is_none() && plan.tree.contains(&TreeStep::Kvm));
    assert!(!plan.config.contains("tcg") && plan.config.contains("/dev/kvm"));
}

#[test]
fn an_older_monitor_is_none_and_a_version_has_two_numbers() {
    assert_eq!(number("Firecracker v1.14.1"), Some([1, 14]));
    assert_eq!(number("cloud-hypervisor v48.0-dirty"), Some([48, 0]));
    assert_eq!(number("Firecracker 1.14"), None);
    assert_eq!(number("v1."), None);
    let directory = tempfile::tempdir().unwrap();
    let paths = Paths {
        search: vec![directory.path().to_owned()],
        ..Paths::default()
    };
    for (version, is_found) in [("v1.8.0", true), ("v1.7.9", false), ("", false)] {
        let path = directory.path().join("firecracker");
        std::fs::write(&path, format!("#!/bin/sh\necho Firecracker {version}\n")).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, executable).unwrap();
        let found = MonitorProgram::find(&paths, Monitor::Firecracker);
        assert_eq!(found.is_some(), is_found, "{version}");
    }
    assert!(has_interpreter(Path::new("/bin/sh")));
}

#[test]
fn what_speeds_emulation_up_is_not_in_what_a_monitor_is_told() {
    let emulated = crate::vm::tests::facts();
    let parts = emulated.machine.unwrap();
    let fast = crate::vm::command::fast(&parts);
    assert!(fast.len() > 3);
    for monitor in BOTH {
        let text: Vec<String> = calls(monitor)
            .iter()
            .filter_map(|call| Some(call.body.as_ref()?.to_string()))
            .collect();
        let text = text.join(" ");
        assert!(text.contains("tsc_early_khz="), "{text}");
        for word in &fast {
            assert!(!text.contains(word), "{monitor:?} says {word}");
        }
    }
}
