// SPDX-License-Identifier: Apache-2.0
//! What a session brings to a sandbox that was made ahead of it: what its own files say. All else
//! that a start does must be in both plans alike, or that sandbox is not the session's. Pure.

use super::{Plan, TreeStep};
use crate::plan::rules::WorkspaceRules;
use crate::spec::Workspace;
use std::path::Path;

/// A file of the root directory, and what it has to say from the claim on.
pub(crate) type Brought<'a> = (&'a Path, &'a [u8]);

impl Plan {
    /// Whether a sandbox can be made by this plan before its session is there: no place of the
    /// workspace is in it that must be there to be a mount.
    #[must_use]
    pub fn can_be_made_ahead(&self) -> bool {
        match self.workspace {
            Workspace::None => true,
            Workspace::Copy | Workspace::Shared => self.rules == WorkspaceRules::default(),
        }
    }

    /// What a session's plan brings to a sandbox that was made by this one; nothing when the two
    /// differ in anything else.
    pub(crate) fn brought<'a>(&self, wanted: &'a Self) -> Option<Vec<Brought<'a>>> {
        // Without `..`: what a plan gains is compared here, or said not to matter.
        let Self {
            id,
            level,
            runtime,
            tree,
            config,
            cgroup,
            workspace,
            rules,
            ids,
            network,
            keeper,
            cgroups,
            monitor,
            machine,
        } = wanted;
        let machines_are_alike = match (machine, &self.machine) {
            (Some(wanted), Some(made)) => made.is_like(wanted),
            (None, None) => true,
            _ => false,
        };
        let is_alike = *id == self.id
            && *level == self.level
            && *runtime == self.runtime
            && *config == self.config
            && *cgroup == self.cgroup
            && *workspace == self.workspace
            && *rules == self.rules
            && *ids == self.ids
            && *network == self.network
            && *keeper == self.keeper
            && *cgroups == self.cgroups
            && *monitor == self.monitor
            && machines_are_alike
            && tree.len() == self.tree.len();
        if !is_alike {
            return None;
        }
        let mut brought = Vec::new();
        for (made, wanted) in self.tree.iter().zip(tree) {
            match (made, wanted) {
                (TreeStep::File(at, made), TreeStep::File(path, content))
                | (TreeStep::HomeFile(at, made), TreeStep::HomeFile(path, content))
                    if at == path =>
                {
                    if made != content {
                        brought.push((path.as_path(), &**content));
                    }
                }
                (made, wanted) if made == wanted => {}
                _ => return None,
            }
        }
        Some(brought)
    }
}

#[cfg(test)]
mod tests;
