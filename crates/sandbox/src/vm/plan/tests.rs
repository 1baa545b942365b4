// SPDX-License-Identifier: Apache-2.0
//! Plans of machines, and what is refused.

use super::*;
use crate::plan::TreeStep;
use crate::plan::tests as oci;
use crate::vm::monitor::Kvm;
use crate::vm::parts::{Acceleration, MachineParts};
use crate::vm::tool::tests::tool;

pub(in crate::vm) fn parts() -> MachineParts {
    MachineParts {
        root: "/opt/machine".into(),
        version: "QEMU emulator version 7.2.22".into(),
        kernel: "/opt/machine/boot/vmlinuz-6.1.0-57-cloud-amd64".into(),
        modules: vec![("virtio.ko", b"MODULE".as_slice().into())],
        image_maker: "/opt/machine/usr/bin/mkfs.erofs".into(),
        nft: Some(tool()),
        image: Some("/opt/machine/images/usr-0.erofs".into()),
        etc: vec![TreeStep::Link(
            "etc/alternatives/awk".into(),
            "/usr/bin/mawk".into(),
        )],
        acceleration: Acceleration::Emulation,
        tsc_khz: 2_000_000,
        kvm: Kvm::default(),
    }
}

pub(crate) fn facts() -> HostFacts {
    HostFacts {
        root: vec![("bin", crate::facts::RootEntry::Link("usr/bin".into()))],
        machine: Some(parts()),
        ..oci::facts()
    }
}

pub(crate) fn spec(level: Level) -> SandboxSpec {
    SandboxSpec {
        level,
        also: vec![],
        workspace: Workspace::None,
        ..oci::spec(level)
    }
}

#[test]
fn the_plans_of_machines_are_the_golden_ones() {
    for level in [Level::Microvm, Level::Vm] {
        let plan = crate::plan(&spec(level), &facts()).unwrap();
        oci::check_golden(&format!("{}.txt", level.name()), &oci::printed(&plan));
    }
}

fn refused(change: impl FnOnce(&mut SandboxSpec, &mut HostFacts)) -> PlanError {
    let (mut spec, mut facts) = (spec(Level::Microvm), facts());
    change(&mut spec, &mut facts);
    crate::plan(&spec, &facts).unwrap_err()
}

#[test]
fn what_a_machine_can_not_hold_is_refused_before_anything_is_made() {
    use crate::spec::AlsoDirectory;
    assert_eq!(
        refused(|spec, _| spec.limits.memory_bytes = 64 << 20),
        PlanError::Limit("memory")
    );
    let listed = |host: &str, inside: &str| {
        refused(|spec, _| {
            spec.also = vec![AlsoDirectory {
                host: host.into(),
                inside: inside.into(),
            }];
        })
    };
    for (host, inside) in [("/etc/ssl", "/opt/ssl"), ("/opt/tools", "/usr/tools")] {
        assert_eq!(listed(host, inside), PlanError::Also(host.into()));
    }
    let image = refused(|_, facts| facts.machine.as_mut().unwrap().image = None);
    assert_eq!(image, PlanError::DiskMissing);
    assert_eq!(
        refused(|_, facts| facts.machine = None),
        PlanError::MachineMissing
    );
    let nft = refused(|_, facts| facts.machine.as_mut().unwrap().nft = None);
    assert_eq!(nft, PlanError::NftMissing);
}

#[test]
fn qemu_has_no_network_no_place_to_write_and_nothing_but_what_it_boots() {
    let plan = crate::plan(&spec(Level::Microvm), &facts()).unwrap();
    assert_eq!(plan.network, Network::Machine);
    assert!(plan.config.contains("\"readonly\":true"));
    let config: serde_json::Value = serde_json::from_str(&plan.config).unwrap();
    let mounts: Vec<&str> = config["mounts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mount| mount["destination"].as_str().unwrap())
        .collect();
    assert_eq!(mounts, ["/proc", "/dev"]);
    assert_eq!(config["process"]["noNewPrivileges"], true);
    let capabilities = config["process"]["capabilities"].as_object().unwrap();
    assert!(
        capabilities
            .values()
            .all(|set| set.as_array().unwrap().is_empty())
    );
    let binds = plan.tree.iter().filter_map(|step| match step {
        TreeStep::Bind { host, .. } => Some(host.to_str().unwrap()),
        _ => None,
    });
    let binds: Vec<&str> = binds.collect();
    assert_eq!(
        binds,
        [
            "/usr",
            "/etc/ld.so.cache",
            "/opt/machine",
            "/opt/machine/boot/vmlinuz-6.1.0-57-cloud-amd64",
            "/opt/machine/images/usr-0.erofs",
        ]
    );
}
