// SPDX-License-Identifier: Apache-2.0
//! Directories of sessions that belong to nobody: no session lives in them, and none that ended has
//! its copy kept there.

use super::{Failed, Places, REMOVAL_WAIT};
use std::collections::BTreeSet;
use std::path::PathBuf;
use torno_control_api::request::LeftoverKind;
use torno_policy::names::SessionId;

/// How the directory of a tree that is being removed begins.
const REMOVED: &str = ".removed-";

impl Places {
    /// Those that lie about, while these sessions live.
    pub(in super::super) fn left(
        &self,
        living: &BTreeSet<SessionId>,
    ) -> anyhow::Result<Vec<(LeftoverKind, PathBuf)>> {
        let mut left = Vec::new();
        for entry in std::fs::read_dir(&self.directory)? {
            let entry = entry?;
            let (path, name) = (entry.path(), entry.file_name());
            let Some(name) = name.to_str() else { continue };
            let session = SessionId::parse(name).ok();
            let is_owned = |id: &SessionId| living.contains(id) || self.kept.contains(id);
            if name.starts_with(REMOVED) && !self.removals.contains(&path) {
                left.push((LeftoverKind::Removal, path));
            } else if session.is_some_and(|id| !is_owned(&id)) {
                left.push((LeftoverKind::Session, path));
            }
        }
        left.sort();
        Ok(left)
    }

    /// Sessions that ended and whose copy is there.
    pub(in super::super) fn kept_sessions(&self) -> BTreeSet<SessionId> {
        let is_there = |id: &&SessionId| self.directory.join(id.as_str()).exists();
        self.kept.iter().filter(is_there).cloned().collect()
    }

    /// Removes one of them.
    pub(in super::super) fn remove_left(
        &mut self,
        kind: LeftoverKind,
        path: PathBuf,
    ) -> Result<(), Failed> {
        let session = path.file_name().and_then(|name| name.to_str());
        let session = session.and_then(|name| SessionId::parse(name).ok());
        match (kind, session) {
            (LeftoverKind::Session, Some(session)) => self.remove(&session),
            _ => {
                let is_done = self
                    .removals
                    .begin(path, |path| super::remove_left(path, super::DYING_WAIT));
                // A large one is emptied while others are served.
                let _ = is_done.recv_timeout(REMOVAL_WAIT);
                Ok(())
            }
        }
    }
}
