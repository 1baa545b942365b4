// SPDX-License-Identifier: Apache-2.0
//! What lies in a machine's memory when its kernel starts: the agent, the kernel's modules, the
//! root directory without `/usr`, and the list by which the agent makes a sandbox of it. It is made
//! of the same steps as the root directory of the other levels. Nothing of a session is in it.

use super::archive::Archive;
use super::parts::{MachineParts, Module};
use super::renewal::MACHINE_ID;
use crate::facts::HostFacts;
use crate::network::{self, CAPTURE_PORT, PROXY_PORT, RULESET};
use crate::plan::rules::WorkspaceRules;
use crate::plan::{PlanError, TreeStep, oci, relative, tree};
use crate::spec::{SandboxSpec, Workspace};
use serde_json::Value;
use std::path::Path;
use torno_guest_protocol::{
    MACHINE_INIT, MACHINE_MODULES, MACHINE_SETUP_PATH, MACHINE_TREE, MachineEnd, MachineLink,
    MachineMount, MachineNetwork, MachineSetup,
};

/// The same machine before it is anybody's.
pub(super) fn nobodys(spec: &SandboxSpec) -> SandboxSpec {
    SandboxSpec {
        env: Vec::new(),
        git_hosts: Vec::new(),
        ca_pem: String::new(),
        home: Vec::new(),
        ..spec.clone()
    }
}

/// The archive.
pub(super) fn archive(
    spec: &SandboxSpec,
    facts: &HostFacts,
    parts: &MachineParts,
    ends: (MachineLink, MachineEnd),
) -> Result<Vec<u8>, PlanError> {
    let spec = &nobodys(spec);
    let mut archive = Archive::default();
    let at = |path: &str| relative(Path::new(path));
    for directory in ["dev", "proc", MACHINE_MODULES, MACHINE_TREE] {
        archive.directory(&at(directory));
    }
    // Without it the agent could not even say that something is wrong.
    archive.device(Path::new("dev/null"), (1, 3));
    archive.file(&at(MACHINE_INIT), 0o755, &spec.guest.bytes());
    let modules = modules(parts, ends.0);
    for (name, bytes) in &modules {
        archive.file(&at(MACHINE_MODULES).join(name), 0o644, bytes);
    }
    root(&mut archive, &at(MACHINE_TREE), spec, facts, parts)?;
    let names = modules.iter().map(|(name, _)| (*name).to_owned()).collect();
    let setup = setup((spec, facts), names, ends)?;
    archive.file(&at(MACHINE_SETUP_PATH), 0o600, &setup.text());
    Ok(archive.finish())
}

/// The root directory; what belongs on top of a mount comes with the session.
fn root(
    archive: &mut Archive,
    root: &Path,
    spec: &SandboxSpec,
    facts: &HostFacts,
    parts: &MachineParts,
) -> Result<(), PlanError> {
    let home = relative(Path::new(oci::HOME));
    for step in tree(spec, facts)?.iter().chain(&parts.etc) {
        match step {
            TreeStep::Directory(path) if path.starts_with(&home) && *path != home => {}
            TreeStep::Directory(path) => archive.directory(&root.join(path)),
            TreeStep::File(path, content) => archive.file(&root.join(path), 0o644, content),
            TreeStep::Link(path, target) => archive.link(&root.join(path), target),
            TreeStep::Bind { host, .. } => check_bind(host)?,
            // The agent is the init already; `/usr/local` isn't in the image; the agent makes home
            // and workspace.
            TreeStep::Program(..)
            | TreeStep::Cover(_)
            | TreeStep::Home(..)
            | TreeStep::HomeFile(..)
            | TreeStep::Workspace(_)
            | TreeStep::Kvm => {}
        }
    }
    archive.file(&root.join(MACHINE_ID), 0o644, b"");
    devices(archive, &root.join("dev"));
    Ok(())
}

/// The image has `/usr`, and what is needed of `/etc` comes as files.
fn check_bind(host: &Path) -> Result<(), PlanError> {
    if host == Path::new("/usr") || host.starts_with("/etc") {
        Ok(())
    } else {
        Err(PlanError::NotInMachine(host.to_owned()))
    }
}

/// The device nodes of a container (runtime-spec, "Default devices").
fn devices(archive: &mut Archive, at: &Path) {
    let nodes = [
        ("null", (1, 3)),
        ("zero", (1, 5)),
        ("full", (1, 7)),
        ("random", (1, 8)),
        ("urandom", (1, 9)),
        ("tty", (5, 0)),
    ];
    for (name, numbers) in nodes {
        archive.device(&at.join(name), numbers);
    }
    for directory in ["pts", "shm"] {
        archive.directory(&at.join(directory));
    }
    let links = [
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ];
    for (name, target) in links {
        archive.link(&at.join(name), target);
    }
}

/// What the kernel is given; a link by vsock takes modules that no other machine gets.
fn modules(parts: &MachineParts, link: MachineLink) -> Vec<Module> {
    let mut modules = parts.modules.clone();
    if let MachineLink::Vsock { .. } = link {
        modules.extend(parts.kvm.link_modules.iter().cloned());
    }
    modules
}

fn setup(
    (spec, facts): (&SandboxSpec, &HostFacts),
    modules: Vec<String>,
    (link, end): (MachineLink, MachineEnd),
) -> Result<MachineSetup, PlanError> {
    let nft = facts.nft.as_deref().filter(|nft| nft.starts_with("/usr"));
    let nft = nft.ok_or(PlanError::NftMissing)?;
    // However it is filled, the workspace lies in the machine's memory.
    let in_memory = SandboxSpec {
        workspace: Workspace::None,
        ..spec.clone()
    };
    let mounts = oci::places(&in_memory, crate::runtime::RuntimeKind::Crun);
    let mut arguments = spec.guest_arguments.clone();
    let ahead = MADE_AHEAD.to_owned();
    // Every machine waits for its session.
    if !arguments.contains(&ahead) {
        arguments.push(ahead);
    }
    Ok(MachineSetup {
        arguments,
        modules,
        mounts: mounts.iter().filter_map(mount).collect(),
        kernel: vec![
            // Nobody inside becomes root of a namespace, as at the other levels.
            ("user/max_user_namespaces".to_owned(), "0".to_owned()),
        ],
        processes: spec.limits.pids,
        hostname: "sandbox".to_owned(),
        network: Some(MachineNetwork {
            routes: network::catch_all_messages(),
            nft: nft.display().to_string(),
            rules: RULESET.to_owned(),
            capture_port: CAPTURE_PORT,
            proxy_port: PROXY_PORT,
        }),
        link,
        end,
    })
}

/// The agent's word for a sandbox that is there before its session.
const MADE_AHEAD: &str = "--made-ahead";

/// A place, as the agent reads it; `/dev` is part of the tree.
fn mount(place: &Value) -> Option<MachineMount> {
    let text = |key: &str| Some(place.get(key)?.as_str()?.to_owned());
    let options = place.get("options")?.as_array()?;
    let destination = text("destination").filter(|path| path != "/dev")?;
    Some(MachineMount {
        destination,
        kind: text("type")?,
        options: options
            .iter()
            .filter_map(|word| Some(word.as_str()?.to_owned()))
            .collect(),
    })
}

/// Whether the workload's directory is one that this level can make.
pub(super) fn check_workspace(spec: &SandboxSpec) -> Result<(), PlanError> {
    match spec.workspace {
        // A copy is carried in over the link, and its rules with it.
        Workspace::None | Workspace::Copy => Ok(WorkspaceRules::parse(&spec.files).map(drop)?),
        Workspace::Bind => Err(PlanError::BindUnavailable(spec.level.name())),
    }
}
