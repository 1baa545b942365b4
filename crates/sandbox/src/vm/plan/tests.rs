// SPDX-License-Identifier: Apache-2.0
//! Plans of machines, and what is refused.

use super::*;
use crate::plan::TreeStep;
use crate::plan::tests as oci;
use crate::vm::parts::{Acceleration, MachineParts};

pub(in crate::vm) fn parts() -> MachineParts {
    MachineParts {
        root: "/opt/machine".into(),
        version: "QEMU emulator version 7.2.22".into(),
        kernel: "/opt/machine/boot/vmlinuz-6.1.0-57-cloud-amd64".into(),
        modules: vec![("virtio.ko", b"MODULE".as_slice().into())],
        image_maker: "/opt/machine/usr/bin/mkfs.erofs".into(),
        image: Some("/opt/machine/images/usr-0.erofs".into()),
        etc: vec![TreeStep::Link(
            "etc/alternatives/awk".into(),
            "/usr/bin/mawk".into(),
        )],
        acceleration: Acceleration::Emulation,
        tsc_khz: 2_000_000,
    }
}

pub(in crate::vm) fn facts() -> HostFacts {
    HostFacts {
        root: vec![("bin", crate::facts::RootEntry::Link("usr/bin".into()))],
        machine: Some(parts()),
        ..oci::facts()
    }
}

pub(in crate::vm) fn spec(level: Level) -> SandboxSpec {
    SandboxSpec {
        level,
        also: vec![],
        workspace: Workspace::None,
        ..oci::spec(level)
    }
}
