// SPDX-License-Identifier: Apache-2.0
//! Further read-only host directories: which may be listed, and where they appear.

use super::{PlanError, TreeStep, relative};
use crate::spec::{AlsoDirectory, is_plain_absolute};
use std::path::Path;

/// Places whose entries are secrets, state or devices: never listed, wherever they'd appear.
const NEVER_LISTED: [&str; 8] = [
    "/etc",
    "/proc",
    "/sys",
    "/dev",
    "/run",
    "/var",
    "/boot",
    "/root/.ssh",
];
/// Directory names that hold credentials.
const CREDENTIAL_NAMES: [&str; 9] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".config",
    ".password-store",
    "keyrings",
];
const ALSO_INSIDE: [&str; 3] = ["/home/agent", "/opt", "/srv"];

/// Mounts one of them, or refuses it.
pub(super) fn steps(also: &AlsoDirectory) -> Result<Vec<TreeStep>, PlanError> {
    let refused = || PlanError::Also(also.host.clone());
    let plain = is_plain_absolute(&also.host) && is_plain_absolute(&also.inside);
    let named = |path: &Path| {
        path.components().any(|part| {
            CREDENTIAL_NAMES
                .iter()
                .any(|name| part.as_os_str() == *name)
        })
    };
    let under = |path: &Path, roots: &[&str]| roots.iter().any(|root| path.starts_with(root));
    let is_root = ALSO_INSIDE
        .iter()
        .chain(&["/", "/home"])
        .any(|root| also.inside == Path::new(root));
    let is_top = also.host.components().count() < 3;
    if !plain || is_top || named(&also.host) || under(&also.host, &NEVER_LISTED) {
        return Err(refused());
    }
    if is_root || !under(&also.inside, &ALSO_INSIDE) {
        return Err(refused());
    }
    let inside = relative(&also.inside);
    let mut steps: Vec<TreeStep> = inside
        .ancestors()
        .filter(|path| path.components().count() > 1)
        .map(|path| TreeStep::Directory(path.to_owned()))
        .collect();
    steps.reverse();
    steps.push(TreeStep::Bind {
        host: also.host.clone(),
        inside,
    });
    Ok(steps)
}
