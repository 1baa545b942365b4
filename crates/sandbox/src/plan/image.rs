// SPDX-License-Identifier: Apache-2.0
//! Programs and libraries of an image instead of the host's. What of it is shown is chosen here: a
//! place that the plan itself makes is never the image's, and no later step writes below one that
//! is. Its root directory is read-only, and its devices, state and homes stay out.

use super::{PlanError, TreeStep};
use crate::spec::{ImagePart, ImageTree, SandboxSpec};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// Names in `/` that are the sandbox's own, or the state of a machine that nobody boots.
const OWN: [&str; 15] = [
    "etc",
    "proc",
    "dev",
    "sys",
    "tmp",
    "run",
    "home",
    "workspace",
    "var",
    "mnt",
    "media",
    "boot",
    "root",
    "lost+found",
    ".torno",
];
/// Names in `/` that may be links, into `/usr`, as distributions have them.
const LINKS: [&str; 6] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// What packages know of themselves; the rest of `/var` is state.
const STATE: &str = "var/lib";

/// The image's top directory.
pub(super) fn system(image: &ImageTree) -> Vec<TreeStep> {
    let mut steps = Vec::new();
    for (path, part) in &image.parts {
        let Some(&[name]) = names(path).as_deref() else {
            continue;
        };
        match part {
            ImagePart::Directory if !OWN.contains(&name) => {
                steps.push(TreeStep::Directory(path.clone()));
                steps.push(bind(image, path));
            }
            ImagePart::Link(target) if LINKS.contains(&name) => {
                let target = target.trim_start_matches('/');
                if target.starts_with("usr/") && plain(Path::new(target)) {
                    steps.push(TreeStep::Link(path.clone(), target.to_owned()));
                }
            }
            ImagePart::Directory | ImagePart::File | ImagePart::Link(_) => {}
        }
    }
    steps
}

/// The image's `/etc` besides what the plan says there, and [`STATE`]. `made` are the steps so far.
pub(super) fn configuration(image: &ImageTree, made: &[TreeStep]) -> Vec<TreeStep> {
    let ours: BTreeSet<&str> = made
        .iter()
        .filter_map(place)
        .filter_map(|path| path.strip_prefix("etc").ok()?.iter().next()?.to_str())
        .collect();
    let mut steps = Vec::new();
    for (path, part) in &image.parts {
        let is_ours = match names(path).as_deref() {
            Some(["etc", name]) => ours.contains(name),
            Some(["var", "lib"]) => *part != ImagePart::Directory,
            _ => true,
        };
        if is_ours {
            continue;
        }
        match part {
            ImagePart::Directory | ImagePart::File => steps.push(bind(image, path)),
            ImagePart::Link(target) => {
                steps.push(TreeStep::Link(path.clone(), target.clone()));
            }
        }
    }
    steps
}

/// An image has its own `/opt` and `/srv`, where nothing of the host fits in.
pub(crate) fn check(spec: &SandboxSpec) -> Result<(), PlanError> {
    if spec.image.is_none() {
        return Ok(());
    }
    let mut also = spec.also.iter();
    match also.find(|also| !also.inside.starts_with(super::oci::HOME)) {
        Some(also) => Err(PlanError::NotInImage(also.host.clone())),
        None => Ok(()),
    }
}

fn place(step: &TreeStep) -> Option<&Path> {
    match step {
        TreeStep::Directory(path)
        | TreeStep::File(path, _)
        | TreeStep::Link(path, _)
        | TreeStep::Cover(path)
        | TreeStep::Program(path, _)
        | TreeStep::HomeFile(path, _)
        | TreeStep::Home(path, ..)
        | TreeStep::Workspace(path) => Some(path),
        TreeStep::Bind { inside, .. } => Some(inside),
        // A monitor's, and it has no image.
        TreeStep::Kvm => None,
    }
}

/// One or two plain names; a part of another shape is in no plan.
fn names(path: &Path) -> Option<Vec<&str>> {
    let names: Vec<&str> = path.iter().filter_map(|name| name.to_str()).collect();
    (plain(path) && names.len() <= STATE.split('/').count()).then_some(names)
}

fn plain(path: &Path) -> bool {
    path.components()
        .all(|part| matches!(part, Component::Normal(_)))
}

fn bind(image: &ImageTree, path: &Path) -> TreeStep {
    TreeStep::Bind {
        host: image.root.join(path),
        inside: PathBuf::from(path),
    }
}

#[cfg(test)]
mod tests;
