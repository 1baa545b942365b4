// SPDX-License-Identifier: Apache-2.0
//! Sandboxes: spec and host facts → plan (pure) → a running sandbox, and its end.
//!
//! **Purpose.** Make a sealed place for hostile code at a named isolation level, or refuse.
//!
//! **Trust.** Fed by the launcher role with specs made from accepted grants. It reaches namespaces,
//! cgroups and runtimes of the host; it knows nothing of credentials or session data, and opens no
//! path that a workload named.
//!
//! **Invariants.** The level is the one asked for (I11). Inside there is no interface but
//! loopback and
//! no descriptor but the link (I2). A limit that can't be held refuses the start. A failed start
//! and a
//! removed sandbox leave no process, cgroup, mount, namespace or file (I10). `unsafe` is in `sys`.
//!
//! **Not here.** What a dial may reach (`torno-egress`), what the first process says
//! (`torno-guest-protocol`), copying of workspaces (the porter).
//!
//! **Start reading at** [`plan()`], then [`start()`].

mod cgroup;
mod facts;
mod faults;
mod guarantees;
mod handle;
mod keeper;
mod network;
mod plan;
mod probe;
mod rights;
mod rootless;
mod runtime;
mod seccomp;
mod spec;
mod stage;
mod start;
#[expect(
    unsafe_code,
    reason = "the one module with system calls that have no safe binding"
)]
mod sys;
mod vm;

pub use cgroup::{Census, Cgroup, CgroupError, CgroupHost, CgroupValues, Reach, end_group, sweep};
pub use facts::{HostFacts, Paths, RootEntry};
pub use faults::{FAULTS, Fault, Version, faults_of, version_of};
pub use guarantees::{Guarantees, Wall, guarantees};
pub use handle::Handle;
pub use keeper::keeper_main;
pub use network::{CAPTURE_PORT, NetworkError, PROXY_PORT, RULESET, SealedNetwork};
pub use plan::{Plan, PlanError, environment, plan, trust_environment};
pub use probe::{Missing, probe};
pub use rights::{Refusal, Rights, SubordinateIds};
pub use rootless::enter_user_namespace;
pub use runtime::{Runtime, RuntimeKind};
pub use spec::{
    AlsoDirectory, GUEST_PATH, GuestError, HomeFile, INSIDE_UID, ImagePart, ImageTree, Level,
    SandboxId, SandboxIdError, SandboxSpec, UID_RANGE, VerifiedGuest, Workspace, agent_arguments,
};
pub use start::{ClaimError, Spare};
pub use sys::close_inherited;

pub use start::{
    Entrances, Sockets, StartError, StartInputs, StartStep, Started, Unwatched, Watch,
    adopt_orphans, start, start_watched,
};
pub use vm::{
    Acceleration, BootProbe, CallError, ImageError, KernelError, Kvm, LinkError, MachineParts,
    Monitor, MonitorError, MonitorProgram, boot_probe, host_image, plain_kernel,
};
pub use vm::{DiskError, DiskSource, disk_digest, make_disk};
pub use vm::{Fresh, QmpError, RenewError, Renewal, Template, TemplateError, rehearse};
