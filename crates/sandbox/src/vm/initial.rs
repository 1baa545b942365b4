// SPDX-License-Identifier: Apache-2.0
//! What lies in a machine's memory when its kernel starts: the agent, the kernel's modules, the
//! root directory without what comes from the disk, and the list by which the agent makes a sandbox
//! of it. It is made of the same steps as the root directory of the other levels, so an image shows
//! the same places. Nothing of a session is in it.

use super::archive::Archive;
use super::parts::{MachineParts, Module};
use super::renewal::MACHINE_ID;
use super::tool::Tool;
use crate::facts::HostFacts;
use crate::network::{self, CAPTURE_PORT, PROXY_PORT, RULESET};
use crate::plan::{PlanError, TreeStep, oci, relative, tree};
use crate::spec::{ImagePart, SandboxSpec, Workspace};
use serde_json::Value;
use std::path::{Path, PathBuf};
use torno_guest_protocol::{
    MACHINE_DISK, MACHINE_INIT, MACHINE_MODULES, MACHINE_SETUP_PATH, MACHINE_TREE, MachineEnd,
    MachineLink, MachineMount, MachineNetwork, MachinePlace, MachineSetup,
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
    for directory in ["dev", "proc", MACHINE_MODULES, MACHINE_TREE, MACHINE_DISK] {
        archive.directory(&at(directory));
    }
    // Without it the agent could not even say that something is wrong.
    archive.device(Path::new("dev/null"), (1, 3));
    archive.file(&at(MACHINE_INIT), 0o755, &spec.guest.bytes());
    let modules = modules(parts, ends.0);
    for (name, bytes) in &modules {
        archive.file(&at(MACHINE_MODULES).join(name), 0o644, bytes);
    }
    let nft = parts.nft.as_ref().ok_or(PlanError::NftMissing)?;
    nft.pack(&mut archive);
    let disk = root(&mut archive, &at(MACHINE_TREE), spec, facts, parts)?;
    let names = modules.iter().map(|(name, _)| (*name).to_owned()).collect();
    let setup = setup((spec, nft), names, disk, ends);
    archive.file(&at(MACHINE_SETUP_PATH), 0o600, &setup.text());
    Ok(archive.finish())
}

/// The root directory, and which places of the disk belong in it; what belongs on top of a mount
/// comes with the session.
fn root(
    archive: &mut Archive,
    root: &Path,
    spec: &SandboxSpec,
    facts: &HostFacts,
    parts: &MachineParts,
) -> Result<Vec<MachinePlace>, PlanError> {
    let home = relative(Path::new(oci::HOME));
    let mut places = Vec::new();
    let of_host = parts.etc.iter().filter(|_| spec.image.is_none());
    for step in tree(spec, facts)?.iter().chain(of_host) {
        match step {
            TreeStep::Directory(path) if path.starts_with(&home) && *path != home => {}
            // The session's is written there.
            TreeStep::Bind { inside: path, .. } | TreeStep::Link(path, _)
                if path == Path::new(MACHINE_ID) => {}
            TreeStep::Directory(path) => archive.directory(&root.join(path)),
            TreeStep::File(path, content) => archive.file(&root.join(path), 0o644, content),
            TreeStep::Link(path, target) => archive.link(&root.join(path), target),
            // It is sent when the machine is a session's: there is but the place where it appears.
            TreeStep::Bind { host, inside } if is_listed(spec, host, inside) => {}
            TreeStep::Bind { host, inside } => {
                let Some((of, kind)) = on_disk(spec, host)? else {
                    continue;
                };
                match kind {
                    ImagePart::File => archive.file(&root.join(inside), 0o644, b""),
                    ImagePart::Directory | ImagePart::Link(_) => {
                        archive.directory(&root.join(inside));
                    }
                }
                places.push(MachinePlace {
                    of: text(&of)?,
                    at: text(inside)?,
                });
            }
            // The agent is the init already; `/usr/local` isn't on the disk; the agent makes home
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
    Ok(places)
}

/// Whether it is a directory of `also`.
fn is_listed(spec: &SandboxSpec, host: &Path, inside: &Path) -> bool {
    let mut also = spec.also.iter();
    also.any(|also| also.host == host && relative(&also.inside) == inside)
}

/// Where the disk has what lies there on the host, and what it is. The host's own disk has `/usr`,
/// and what is needed of its `/etc` comes as files; an image's has all of it.
fn on_disk(spec: &SandboxSpec, host: &Path) -> Result<Option<(PathBuf, ImagePart)>, PlanError> {
    let elsewhere = || PlanError::NotInMachine(host.to_owned());
    match &spec.image {
        None if host == Path::new("/usr") => Ok(Some((PathBuf::new(), ImagePart::Directory))),
        None if host.starts_with("/etc") => Ok(None),
        None => Err(elsewhere()),
        Some(image) => {
            let of = host.strip_prefix(&image.root).map_err(|_| elsewhere())?;
            let part = image.parts.iter().find(|(path, _)| path == of);
            let (path, kind) = part.ok_or_else(elsewhere)?;
            Ok(Some((path.clone(), kind.clone())))
        }
    }
}

/// Names of an image that are no text are in no plan.
fn text(path: &Path) -> Result<String, PlanError> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| PlanError::NotInMachine(path.to_owned()))
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
    (spec, nft): (&SandboxSpec, &Tool),
    modules: Vec<String>,
    disk: Vec<MachinePlace>,
    (link, end): (MachineLink, MachineEnd),
) -> MachineSetup {
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
    MachineSetup {
        arguments,
        modules,
        disk,
        mounts: mounts.iter().filter_map(mount).collect(),
        kernel: vec![
            // Nobody inside becomes root of a namespace, as at the other levels.
            ("user/max_user_namespaces".to_owned(), "0".to_owned()),
        ],
        processes: spec.limits.pids,
        hostname: "sandbox".to_owned(),
        network: Some(MachineNetwork {
            routes: network::catch_all_messages(),
            nft: nft.words(),
            rules: RULESET.to_owned(),
            capture_port: CAPTURE_PORT,
            proxy_port: PROXY_PORT,
        }),
        link,
        end,
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{AlsoDirectory, ImageTree, Level};
    use crate::vm::archive::tests::listed;
    use crate::vm::plan::tests::{facts, spec};
    use std::collections::BTreeSet;

    fn part(path: &str, kind: ImagePart) -> (PathBuf, ImagePart) {
        (path.into(), kind)
    }

    /// An ordinary image, with what a hostile one would have besides.
    fn image() -> ImageTree {
        let link = |target: &str| ImagePart::Link(target.to_owned());
        ImageTree {
            root: "/images/abc/root".into(),
            parts: vec![
                part("usr", ImagePart::Directory),
                part("opt", ImagePart::Directory),
                part("bin", link("usr/bin")),
                part("lib", link("usr/../tmp/probe")),
                part("srv", link("/tmp/probe")),
                part("etc", ImagePart::Directory),
                part("etc/python3", ImagePart::Directory),
                part("etc/os-release", ImagePart::File),
                part("etc/alternatives", link("../usr/alternatives")),
                part("etc/passwd", link("/tmp/probe")),
                part("etc/ssl", ImagePart::Directory),
                part("etc/machine-id", link("/tmp/probe")),
                part("var", ImagePart::Directory),
                part("var/lib", ImagePart::Directory),
                part("var/run", link("/tmp/probe")),
                part("proc", ImagePart::Directory),
                part("home", link("/tmp/probe")),
                part("../tmp/probe", ImagePart::Directory),
            ],
            env: Vec::new(),
            disk: Some("/images/abc/disk-0.erofs".into()),
        }
    }

    fn with_image(level: Level) -> SandboxSpec {
        SandboxSpec {
            image: Some(image()),
            ..spec(level)
        }
    }

    /// What of the disk is shown, and what the archive has below the root directory.
    fn rooted(spec: &SandboxSpec) -> (Vec<(String, String)>, Vec<String>) {
        let facts = facts();
        let parts = facts.machine.as_ref().unwrap();
        let mut archive = Archive::default();
        let places = root(&mut archive, Path::new("tree"), spec, &facts, parts).unwrap();
        let places = places.into_iter().map(|place| (place.of, place.at));
        (places.collect(), listed(&archive.finish()))
    }

    #[test]
    fn the_hosts_disk_is_usr_and_an_images_is_the_places_that_other_levels_show() {
        let (places, _) = rooted(&spec(Level::Microvm));
        assert_eq!(places, [(String::new(), "usr".to_owned())]);
        let tree = crate::plan(&with_image(Level::Container), &facts()).unwrap();
        let elsewhere = tree.tree.iter().filter_map(|step| match step {
            TreeStep::Bind { host, inside } => {
                let of = host.strip_prefix("/images/abc/root").ok()?;
                Some((text(of).unwrap(), text(inside).unwrap()))
            }
            _ => None,
        });
        let elsewhere: BTreeSet<_> = elsewhere.collect();
        for level in [Level::Microvm, Level::Vm] {
            let (places, listed) = rooted(&with_image(level));
            let places: BTreeSet<_> = places.into_iter().collect();
            assert_eq!(places, elsewhere);
            assert_eq!(places.len(), 5, "{places:?}");
            let has = |line: &str| listed.iter().any(|listed| listed.ends_with(line));
            for line in [
                "040755 0 tree/usr",
                "040755 0 tree/etc/python3",
                "100644 0 tree/etc/os-release",
                "tree/bin \"usr/bin\"",
                "tree/etc/alternatives \"../usr/alternatives\"",
            ] {
                assert!(has(line), "{line}: {listed:#?}");
            }
        }
    }

    // ATTACK: 141
    #[test]
    fn nothing_that_an_image_links_or_names_is_in_a_machines_memory_or_stands_for_its_id() {
        let (places, listed) = rooted(&with_image(Level::Microvm));
        let said = format!("{places:?}{listed:?}");
        assert!(!said.contains("probe"), "{said}");
        // The host's own entries of /etc go with its /usr.
        assert!(!said.contains("mawk"), "{said}");
        let id = "100644 0 tree/etc/machine-id";
        let ids = listed.iter().filter(|line| line.contains("machine-id"));
        assert!(ids.eq([&format!("  {id}")]), "{listed:#?}");
    }

    #[test]
    fn of_a_directory_that_is_listed_a_machine_that_is_nobodys_has_the_place_alone() {
        let listed_at = |host: &str, inside: &str| AlsoDirectory {
            host: host.into(),
            inside: inside.into(),
        };
        let mut spec = spec(Level::Microvm);
        spec.also = vec![
            listed_at("/opt/probe/tools", "/opt/probe/tools"),
            listed_at("/people/probe/.cargo/bin", "/home/agent/.cargo/bin"),
        ];
        let (places, listed) = rooted(&spec);
        assert_eq!(places.len(), 1, "{places:?}");
        let named = |line: &&String| line.contains("probe") || line.contains("cargo");
        let named: Vec<_> = listed.iter().filter(named).collect();
        assert_eq!(named.len(), 2, "{named:?}");
        assert!(
            named[1].ends_with("040755 0 tree/opt/probe/tools"),
            "{named:?}"
        );
        // QEMU is not given it either.
        let plan = crate::plan(&spec, &facts()).unwrap();
        assert!(!format!("{:?}", plan.tree).contains("/people/probe"));
        assert!(!plan.config.contains("probe"), "{}", plan.config);
        spec.image = Some(image());
        let refused = crate::plan(&spec, &facts()).unwrap_err();
        assert_eq!(refused, PlanError::NotInImage("/opt/probe/tools".into()));
    }

    #[test]
    fn an_image_without_its_disk_or_a_directory_of_the_host_is_no_machine() {
        let mut none = with_image(Level::Vm);
        none.image.as_mut().unwrap().disk = None;
        let refused = crate::plan(&none, &facts()).unwrap_err();
        assert_eq!(refused, PlanError::DiskMissing);
        let plan = crate::plan(&with_image(Level::Vm), &facts()).unwrap();
        let said = format!("{:?}", plan.tree);
        assert!(said.contains("/images/abc/disk-0.erofs"), "{said}");
        assert!(!said.contains("usr-0.erofs"), "{said}");
    }
}
