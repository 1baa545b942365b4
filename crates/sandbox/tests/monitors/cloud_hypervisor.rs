// SPDX-License-Identifier: Apache-2.0
//! Cloud Hypervisor's interface: `vmm/src/api/openapi/cloud-hypervisor.yaml`, version 0.3.0 of the
//! interface (commit 00f68228812d), as far as a machine takes it that is made and started. Devices
//! that no machine of ours has are not listed, and so refused.

use super::schema::{COUNT, Field, Kind, POSITIVE, check, optional, required};
use super::{Machine, Peer, Reply, Request, text};
use serde_json::{Value, json};

const SEGMENT: Kind = Kind::Integer(0..=0xffff);
const DEVICE: Kind = Kind::Integer(0..=0xff);
const AFFINITY: &[Field] = &[
    required("vcpu", COUNT),
    required("host_cpus", Kind::List(&COUNT)),
];
const TOPOLOGY: &[Field] = &[
    optional("threads_per_core", COUNT),
    optional("cores_per_die", COUNT),
    optional("dies_per_package", COUNT),
    optional("packages", COUNT),
];
const CPUS: &[Field] = &[
    required("boot_vcpus", POSITIVE),
    required("max_vcpus", POSITIVE),
    optional("topology", Kind::Object(TOPOLOGY)),
    optional("kvm_hyperv", Kind::Flag),
    optional("max_phys_bits", COUNT),
    optional("nested", Kind::Flag),
    optional("affinity", Kind::List(&Kind::Object(AFFINITY))),
    optional("features", Kind::Object(&[optional("amx", Kind::Flag)])),
    optional("core_scheduling", Kind::OneOf(&["Vm", "Vcpu", "Off"])),
];
const MEMORY: &[Field] = &[
    required("size", POSITIVE),
    optional("hotplug_size", COUNT),
    optional("hotplugged_size", COUNT),
    optional("mergeable", Kind::Flag),
    optional("hotplug_method", Kind::Text),
    optional("shared", Kind::Flag),
    optional("hugepages", Kind::Flag),
    optional("hugepage_size", COUNT),
    optional("prefault", Kind::Flag),
    optional("reserve", Kind::Flag),
    optional("thp", Kind::Flag),
];
const PAYLOAD: &[Field] = &[
    optional("firmware", Kind::Text),
    optional("kernel", Kind::Text),
    optional("cmdline", Kind::Text),
    optional("initramfs", Kind::Text),
    optional("igvm", Kind::Text),
    optional("host_data", Kind::Text),
];
const DISK: &[Field] = &[
    optional("path", Kind::Text),
    optional("readonly", Kind::Flag),
    optional("direct", Kind::Flag),
    optional("iommu", Kind::Flag),
    optional("num_queues", COUNT),
    optional("queue_size", COUNT),
    optional("vhost_user", Kind::Flag),
    optional("vhost_socket", Kind::Text),
    optional("pci_segment", SEGMENT),
    optional("pci_device_id", DEVICE),
    optional("id", Kind::Text),
    optional("serial", Kind::Text),
    optional("rate_limit_group", Kind::Text),
    optional("backing_files", Kind::Flag),
    optional("sparse", Kind::Flag),
    optional(
        "image_type",
        Kind::OneOf(&["FlatVmdk", "FixedVhd", "Qcow2", "Raw", "Vhdx", "Unknown"]),
    ),
    optional("lock_granularity", Kind::OneOf(&["ByteRange", "Full"])),
];
const MODE: Kind = Kind::OneOf(&["Off", "Pty", "Tty", "File", "Socket", "Null"]);
const SERIAL: &[Field] = &[
    required("mode", MODE),
    optional("file", Kind::Text),
    optional("socket", Kind::Text),
];
const CONSOLE: &[Field] = &[
    required("mode", MODE),
    optional("file", Kind::Text),
    optional("socket", Kind::Text),
    optional("iommu", Kind::Flag),
    optional("id", Kind::Text),
    optional("pci_segment", SEGMENT),
    optional("pci_device_id", DEVICE),
];
const RNG: &[Field] = &[
    required("src", Kind::Text),
    optional("iommu", Kind::Flag),
    optional("id", Kind::Text),
    optional("pci_segment", SEGMENT),
    optional("pci_device_id", DEVICE),
];
const VSOCK: &[Field] = &[
    required("cid", Kind::Integer(3..=0xffff_ffff)),
    required("socket", Kind::Text),
    optional("iommu", Kind::Flag),
    optional("id", Kind::Text),
    optional("pci_segment", SEGMENT),
    optional("pci_device_id", DEVICE),
];
const MACHINE: &[Field] = &[
    optional("cpus", Kind::Object(CPUS)),
    optional("memory", Kind::Object(MEMORY)),
    required("payload", Kind::Object(PAYLOAD)),
    optional("disks", Kind::List(&Kind::Object(DISK))),
    optional("rng", Kind::Object(RNG)),
    optional("serial", Kind::Object(SERIAL)),
    optional("console", Kind::Object(CONSOLE)),
    optional("vsock", Kind::Object(VSOCK)),
    optional("iommu", Kind::Flag),
    optional("watchdog", Kind::Flag),
    optional("pvpanic", Kind::Flag),
    optional("landlock_enable", Kind::Flag),
];

/// A Cloud Hypervisor that makes no machine.
#[derive(Debug, Default)]
pub(crate) struct CloudHypervisor {
    machine: Option<Machine>,
    is_booted: bool,
}

impl Peer for CloudHypervisor {
    fn answer(&mut self, request: &Request) -> Reply {
        match self.take(request) {
            Ok(reply) => reply,
            Err((status, fault)) => Reply {
                status,
                body: Some(json!(["Error from API", fault])),
            },
        }
    }

    fn machine(&self) -> Option<&Machine> {
        self.machine.as_ref().filter(|_| self.is_booted)
    }
}

impl CloudHypervisor {
    fn take(&mut self, request: &Request) -> Result<Reply, (u16, String)> {
        let Request { method, path, body } = request;
        let refused = |status, fault: &str| (status, fault.to_owned());
        match (method.as_str(), path.as_str(), body) {
            ("GET", "/api/v1/vmm.ping", None) => Ok(Reply {
                status: 200,
                body: Some(json!({ "version": "v48.0.0" })),
            }),
            ("PUT", "/api/v1/vm.create", Some(body)) => {
                check(MACHINE, body).map_err(|error| (400, error))?;
                if self.machine.is_some() {
                    return Err(refused(500, "VM is already created"));
                }
                self.machine = Some(read(body));
                Ok(Reply::done())
            }
            ("PUT", "/api/v1/vm.boot", None) => {
                if self.machine.is_none() {
                    return Err(refused(404, "VM is not created"));
                }
                if self.is_booted {
                    return Err(refused(500, "VM is already running"));
                }
                self.is_booted = true;
                Ok(Reply::done())
            }
            ("PUT", "/api/v1/vm.create" | "/api/v1/vm.boot", _) => {
                Err(refused(400, "a body is missing, or has no use"))
            }
            ("GET" | "PUT", _, _) => Err(refused(404, "no such call")),
            _ => Err(refused(400, "no such method")),
        }
    }
}

fn read(body: &Value) -> Machine {
    let bytes = body.pointer("/memory/size").and_then(Value::as_u64);
    let files = ["/payload/kernel", "/payload/initramfs", "/disks/0/path"];
    Machine {
        socket: text(body, "/vsock/socket"),
        files: files.map(|place| text(body, place)).to_vec(),
        memory_mib: bytes.unwrap_or_default() >> 20,
        kernel_words: text(body, "/payload/cmdline"),
    }
}
