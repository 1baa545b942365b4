// SPDX-License-Identifier: Apache-2.0
//! The bundle that a raw runtime is given: Torno's own configuration for that runtime, as its plan
//! prints it, with `true` in place of the agent, an empty network namespace, and the host's `/usr`
//! as mounts, which Torno makes itself before it calls the runtime.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use torno_policy::grant::{FileRules, HostLimits, Limits};
use torno_sandbox::{
    HostFacts, Level, Paths, RootEntry, Runtime, RuntimeKind, SandboxId, SandboxSpec,
    VerifiedGuest, Workspace, agent_arguments, plan,
};
use torno_stage::daemon::binaries;

/// The variable through which `cargo xtask` names the guest that belongs to this build.
const GUEST_DIGEST: &str = "TORNO_GUEST_SHA256";
/// As the range of a first sandbox.
const UID_BASE: u32 = 0x7000_0000;

/// Limits of a `torno run` without any document.
const LIMITS: Limits = Limits {
    wall_seconds: 3600,
    idle_seconds: 900,
    cpu_milli: 2000,
    memory_bytes: 2 << 30,
    pids: 512,
    disk_bytes: 4 << 30,
    egress_bytes: 1 << 30,
    records: 100_000,
    requests: 1,
    rate: 1,
    ingress_bytes: 0,
    streams: 1,
    each_host: HostLimits {
        requests: 1,
        egress_bytes: 0,
        ingress_bytes: 0,
        streams: 1,
    },
};

/// What the host has, with the directories of `PATH` searched as tornod does.
#[must_use]
pub fn host() -> HostFacts {
    let mut paths = Paths::default();
    if let Some(path) = std::env::var_os("PATH") {
        let directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
        paths.search = directories.into_iter().chain(paths.search).collect();
    }
    HostFacts::gather(&paths)
}

/// The same with what machines are made of, as tornod finds it beside its guest agent.
///
/// # Errors
/// When there is no QEMU, or no image.
pub fn host_of_machines() -> Result<HostFacts> {
    let mut facts = host();
    let mut paths = Paths::default();
    paths
        .machines
        .insert(0, binaries()?.join("runtimes/machine"));
    facts.find_machine(&paths);
    let parts = facts.machine.as_mut().context("no parts of machines")?;
    let images = parts.root.join("images");
    let image = torno_sandbox::host_image(parts, &images, || {}).context("no image")?;
    parts.image = Some(image);
    Ok(facts)
}

/// Which network a raw runtime starts the sandbox in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// An empty namespace of its own.
    Own,
    /// The one that it is started in, as Torno has it: gVisor then uses the host's stack.
    Callers,
}

/// Makes a bundle for this runtime below `directory`, and returns its path.
///
/// # Errors
/// When the plan is refused or a file can't be written.
pub fn make(
    directory: &Path,
    facts: &HostFacts,
    runtime: &Runtime,
    network: Network,
) -> Result<PathBuf> {
    let level = match runtime.kind {
        RuntimeKind::Crun | RuntimeKind::Runc => Level::Container,
        RuntimeKind::Runsc => Level::Gvisor,
    };
    let mut facts = facts.clone();
    match level {
        Level::Gvisor => facts.gvisor_runtime = Some(runtime.clone()),
        _ => facts.container_runtime = Some(runtime.clone()),
    }
    let spec = spec(level)?;
    let plan = plan(&spec, &facts).context("no plan")?;
    let config: Value = serde_json::from_str(plan.config()).context("configuration")?;
    let bundle = directory.join(format!("{}-{network:?}", runtime.kind.name()));
    let root = bundle.join("rootfs");
    std::fs::create_dir_all(&root).context("no bundle")?;
    let mut config = adapted(config, &root, &facts, runtime.kind)?;
    if let (Network::Own, Some(all)) = (network, config.pointer_mut("/linux/namespaces")) {
        let all = all.as_array_mut().context("no namespaces")?;
        all.insert(0, json!({ "type": "network" }));
    }
    std::fs::write(bundle.join("config.json"), config.to_string()).context("no configuration")?;
    Ok(bundle)
}

/// The sandbox of a `torno run` without any document, at a level.
///
/// # Errors
/// When there is no guest agent of this build.
pub fn spec(level: Level) -> Result<SandboxSpec> {
    let digest = std::env::var(GUEST_DIGEST).context("no TORNO_GUEST_SHA256")?;
    let guest = VerifiedGuest::load(&binaries()?.join("torno-guest"), &digest).context("guest")?;
    Ok(SandboxSpec {
        id: SandboxId::parse(&"a".repeat(26)).context("id")?,
        level,
        also: Vec::new(),
        workspace: Workspace::None,
        files: FileRules::default(),
        env: Vec::new(),
        git_hosts: Vec::new(),
        home: Vec::new(),
        limits: LIMITS,
        ca_pem: String::new(),
        uid_base: UID_BASE,
        guest,
        guest_arguments: agent_arguments(level),
        image: None,
    })
}

/// The same configuration with what Torno does around the runtime done by the runtime.
fn adapted(mut config: Value, root: &Path, facts: &HostFacts, kind: RuntimeKind) -> Result<Value> {
    let mut binds = Vec::new();
    let mut directories = vec![
        "proc",
        "dev",
        "sys",
        "tmp",
        "run",
        "home/agent",
        "workspace",
    ];
    directories.extend(["usr", "etc"]);
    for name in directories {
        std::fs::create_dir_all(root.join(name)).context("no root directory")?;
    }
    binds.push(bind("/usr"));
    for (name, entry) in &facts.root {
        match entry {
            RootEntry::Link(target) => std::os::unix::fs::symlink(target, root.join(name)),
            RootEntry::Directory => {
                binds.push(bind(&format!("/{name}")));
                std::fs::create_dir_all(root.join(name))
            }
        }
        .context("no root directory")?;
    }
    let mut set = |pointer: &str, value: Value| match config.pointer_mut(pointer) {
        Some(place) => {
            *place = value;
            Ok(())
        }
        None => bail!("the configuration has no {pointer}"),
    };
    set("/process/args", json!(["/usr/bin/true"]))?;
    set("/root/path", json!(root))?;
    let add = |config: &mut Value, pointer: &str, values: Vec<Value>| -> Result<()> {
        let list = config.pointer_mut(pointer).and_then(Value::as_array_mut);
        list.with_context(|| format!("no {pointer}"))?
            .splice(0..0, values);
        Ok(())
    };
    add(&mut config, "/mounts", binds)?;
    if kind == RuntimeKind::Runc {
        // crun and runsc are told to leave cgroups alone, as Torno tells them.
        let limits = json!({
            "memory": { "limit": LIMITS.memory_bytes },
            "pids": { "limit": LIMITS.pids },
        });
        if let Some(linux) = config.pointer_mut("/linux").and_then(Value::as_object_mut) {
            linux.insert("resources".to_owned(), limits);
        }
    }
    Ok(config)
}

fn bind(path: &str) -> Value {
    json!({
        "destination": path, "type": "bind", "source": path,
        "options": ["bind", "ro", "nosuid", "nodev"],
    })
}
