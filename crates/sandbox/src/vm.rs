// SPDX-License-Identifier: Apache-2.0
//! Levels `microvm` and `vm`: a machine with a kernel of its own, made by QEMU. QEMU itself is what
//! the host has to be kept from, so it is a sandbox of level `container` with nothing in it but
//! what it reads: same walls, same start, same end. What the workload sees is made inside, by the
//! guest agent as the machine's init.
//!
//! ```text
//!   launcher ── crun ── QEMU (own ids, no network, read-only root) ── kernel ── agent ── workload
//!   gate ════════ link: socket pair ═══ virtio-serial port ═══════════════════════╯
//! ```

mod archive;
mod boot;
mod command;
mod disk;
mod image;
mod initial;
mod jail;
mod kernel;
mod machine;
mod monitor;
mod parts;
mod plan;
mod probe;
mod qmp;
mod renewal;
mod template;
mod tool;
mod walls;

pub use boot::{BootProbe, boot_probe};
pub use disk::{DiskError, DiskSource, disk_digest, make_disk};
pub use image::{ImageError, host_image};
pub use kernel::{KernelError, plain_kernel};
pub(crate) use machine::Machine;
pub use monitor::{CallError, Kvm, LinkError, Monitor, MonitorError, MonitorProgram};
pub(crate) use monitor::{Orders, make};
pub use parts::{Acceleration, MachineParts};
pub(crate) use plan::plan;
pub(crate) use probe::probe;
pub use qmp::QmpError;
pub use renewal::{Fresh, RenewError, Renewal, rehearse};
pub use template::{Template, TemplateError};
pub(crate) use walls::guarantees;

#[cfg(test)]
pub(crate) use archive::tests::listed;
#[cfg(test)]
pub(crate) use plan::tests;
