// SPDX-License-Identifier: Apache-2.0
//! The home directory where the launcher makes it, and files that lie in it from the start. What a
//! person lists under `also` has its place first: where such a directory lies, or lies below, no
//! file is made.

use super::{PlanError, TreeStep, oci, relative};
use crate::spec::{HomeFile, SandboxSpec};
use std::path::{Component, Path};

/// LIMIT: the home directory and one below it: `.ssh/id_ed25519`.
const PARTS_MAX: usize = 2;

/// The directory in memory, before anything is mounted or made below.
pub(super) fn directory(spec: &SandboxSpec) -> Option<TreeStep> {
    let bytes = spec.limits.disk_bytes / 3;
    oci::home_is_staged(spec).then(|| {
        let home = relative(Path::new(oci::HOME));
        TreeStep::Home(home, bytes, bytes / oci::BYTES_PER_INODE)
    })
}

/// The steps, after what is listed under `also`.
pub(super) fn files(spec: &SandboxSpec) -> Result<Vec<TreeStep>, PlanError> {
    let mut steps = Vec::new();
    for file in &spec.home {
        check(file)?;
        let inside = Path::new(oci::HOME).join(&file.below);
        let directory = inside.parent().unwrap_or(&inside);
        let taken = |also: &Path| also.starts_with(directory) || inside.starts_with(also);
        let in_subdirectory = directory != Path::new(oci::HOME);
        if in_subdirectory && spec.also.iter().any(|also| taken(&also.inside)) {
            continue;
        }
        if in_subdirectory {
            steps.push(TreeStep::Directory(relative(directory)));
        }
        steps.push(TreeStep::HomeFile(
            relative(&inside),
            file.text.as_bytes().into(),
        ));
    }
    Ok(steps)
}

fn check(file: &HomeFile) -> Result<(), PlanError> {
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    let parts = file.below.components().count();
    if (1..=PARTS_MAX).contains(&parts) && file.below.components().all(plain) {
        Ok(())
    } else {
        Err(PlanError::HomeFile(file.below.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::spec;
    use super::*;
    use crate::spec::{AlsoDirectory, Level};

    fn laid(below: &str, also: &[&str]) -> Result<Vec<TreeStep>, PlanError> {
        let mut spec = spec(Level::Gvisor);
        spec.home = vec![HomeFile {
            below: below.into(),
            text: "x".to_owned(),
        }];
        let directory = |inside: &&str| AlsoDirectory {
            host: "/opt/tools".into(),
            inside: inside.into(),
        };
        spec.also = also.iter().map(directory).collect();
        files(&spec)
    }

    #[test]
    fn a_file_of_home_is_laid_where_nothing_else_stands() {
        let steps = laid(".ssh/id_ed25519", &["/home/agent/.config/tool"]).unwrap();
        let directory = TreeStep::Directory("home/agent/.ssh".into());
        let content = b"x".as_slice().into();
        let file = TreeStep::HomeFile("home/agent/.ssh/id_ed25519".into(), content);
        assert_eq!(steps, [directory, file]);
        for taken in ["/home/agent/.ssh", "/home/agent/.ssh/keys"] {
            assert_eq!(laid(".ssh/id_ed25519", &[taken]).unwrap(), []);
        }
        assert_eq!(laid(".netrc", &["/home/agent/.ssh"]).unwrap().len(), 1);
    }

    #[test]
    fn a_file_of_home_lies_nowhere_else() {
        for bad in ["", "/etc/passwd", "../x", "a/../../x", "a/b/c"] {
            let refused = laid(bad, &[]);
            assert!(matches!(refused, Err(PlanError::HomeFile(_))), "{bad}");
        }
    }
}
