// SPDX-License-Identifier: Apache-2.0
//! What lies about and belongs to nobody: the launcher's part, and the desk's own, which are
//! baselines of workspace copies that are gone. Checkpoints go by the desk, which records that.

use super::start::{internal, out_of_turn};
use super::{Desk, checkpoints};
use crate::orders::{LauncherReply, LauncherRequest};
use anyhow::Context;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use torno_control_api::request::{Failure, Leftover, LeftoverKind};
use torno_policy::names::{CheckpointName, SessionId};

/// LIMIT: baselines that are named in one packet; what is more is found by the next request.
const FOUND_MAX: usize = 100;
/// How a baseline's file ends, after its session's name.
const BASELINE: &str = ".baseline";

/// Finds it, and removes it where that is wanted.
pub(super) async fn leftovers(desk: &Desk, remove: bool) -> Result<Vec<Leftover>, Failure> {
    let living = desk.sessions.live();
    let request = LauncherRequest::Leftovers {
        living: living.clone(),
        remove,
    };
    let (mut found, kept) = match desk.launcher.ask_for(&request, &[]).await?.0 {
        LauncherReply::Leftovers { found, kept } => (found, kept),
        _ => return Err(out_of_turn("launcher")),
    };
    for one in &mut found {
        if remove && one.kind == LeftoverKind::Checkpoint {
            let removed = forget(desk, &one.place).await;
            one.gone = removed.is_ok();
            one.why = removed.err().map(|failure| failure.message);
        }
    }
    // Whoever has begun since is owned too.
    let owned: BTreeSet<SessionId> = living
        .into_iter()
        .chain(kept)
        .chain(desk.sessions.live())
        .collect();
    let stale = stale(&desk.directory, &owned).map_err(|e| internal(&e))?;
    let stale = stale.into_iter().take(FOUND_MAX);
    found.extend(stale.map(|path| baseline(&path, remove)));
    Ok(found)
}

/// Old copies make room for new ones: what lay in their workspaces goes too.
pub(super) fn forget_baselines(
    desk: &Desk,
    (kept, living): (BTreeSet<SessionId>, BTreeSet<SessionId>),
) {
    let now = desk.sessions.live();
    let owned = kept.into_iter().chain(living).chain(now).collect();
    let forgotten = stale(&desk.directory, &owned).and_then(|stale| {
        stale
            .into_iter()
            .try_for_each(|path| Ok(std::fs::remove_file(path)?))
    });
    if let Err(error) = forgotten {
        tracing::warn!("baselines: {error:#}; `torno gc` removes them");
    }
}

/// At the start nobody's copy is there any more: the launcher has removed them all.
pub(super) fn reconcile(directory: &Path) -> anyhow::Result<()> {
    for path in stale(directory, &BTreeSet::new())? {
        std::fs::remove_file(&path).with_context(|| format!("`{}`", path.display()))?;
    }
    Ok(())
}

async fn forget(desk: &Desk, name: &str) -> Result<(), Failure> {
    let name = CheckpointName::parse(name).map_err(|e| internal(&e.into()))?;
    checkpoints::remove(desk, name).await
}

/// The baselines of sessions that nobody has.
fn stale(directory: &Path, owned: &BTreeSet<SessionId>) -> anyhow::Result<Vec<PathBuf>> {
    let mut stale = Vec::new();
    for entry in std::fs::read_dir(directory).context("the desk's directory")? {
        let entry = entry?;
        let name = entry.file_name();
        let session = name.to_str().and_then(|name| name.strip_suffix(BASELINE));
        let session = session.and_then(|name| SessionId::parse(name).ok());
        if session.is_some_and(|session| !owned.contains(&session)) {
            stale.push(entry.path());
        }
    }
    stale.sort();
    Ok(stale)
}

fn baseline(path: &Path, remove: bool) -> Leftover {
    let removed = remove.then(|| std::fs::remove_file(path));
    Leftover {
        kind: LeftoverKind::Baseline,
        place: path.display().to_string(),
        gone: matches!(removed, Some(Ok(()))),
        why: match removed {
            Some(Err(error)) => Some(error.to_string()),
            Some(Ok(())) | None => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_baselines_of_sessions_that_nobody_has_lie_about_and_a_start_leaves_none() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["s1.baseline", "s2.baseline", "other", "Not One.baseline"] {
            std::fs::write(dir.path().join(name), "{}").unwrap();
        }
        let owned = BTreeSet::from([SessionId::parse("s1").unwrap()]);
        let left = stale(dir.path(), &owned).unwrap();
        assert_eq!(left, [dir.path().join("s2.baseline")]);
        assert!(!baseline(&left[0], false).gone && left[0].exists());
        assert!(baseline(&left[0], true).gone && !left[0].exists());
        reconcile(dir.path()).unwrap();
        let names = std::fs::read_dir(dir.path()).unwrap().flatten();
        let mut names: Vec<_> = names.map(|entry| entry.file_name()).collect();
        names.sort();
        assert_eq!(names, ["Not One.baseline", "other"]);
    }
}
