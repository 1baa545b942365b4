// SPDX-License-Identifier: Apache-2.0
//! What lies about and belongs to nobody: the launcher's part, and the desk's own, which are
//! baselines of workspace copies that are gone. Checkpoints go by the desk, which records that.

use super::start::{internal, out_of_turn};
use super::{Desk, checkpoints};
use crate::found::Found;
use crate::orders::{LauncherReply, LauncherRequest};
use anyhow::Context;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use torno_control_api::request::{Failure, Leftover, LeftoverKind};
use torno_policy::names::SessionId;

/// LIMIT: baselines that are named in one packet; what is more is found by the next request.
const FOUND_MAX: usize = 100;
/// How a baseline's file ends, after its session's name.
pub(super) const BASELINE: &str = ".baseline";
/// How one ends that is written beside the last.
pub(super) const NEXT_BASELINE: &str = ".baseline.next";

/// Finds it, and removes it where that is wanted.
pub(super) async fn leftovers(desk: &Desk, remove: bool) -> Result<Vec<Leftover>, Failure> {
    let living = desk.sessions.live();
    let request = LauncherRequest::Leftovers {
        living: living.clone(),
        remove,
    };
    let (mut found, forgotten, kept) = match desk.launcher.ask_for(&request, &[]).await?.0 {
        LauncherReply::Leftovers {
            found,
            forgotten,
            kept,
        } => (found, forgotten, kept),
        _ => return Err(out_of_turn("launcher")),
    };
    let checkpoints = found
        .iter_mut()
        .filter(|one| remove && one.kind == LeftoverKind::Checkpoint);
    // They come in one order.
    for (one, checkpoint) in checkpoints.zip(forgotten) {
        let removed = checkpoints::remove_found(desk, checkpoint).await;
        one.gone = removed.is_ok();
        one.why = removed.err().map(|failure| failure.message);
    }
    // Whoever has begun since is owned too.
    let owned: BTreeSet<SessionId> = living
        .into_iter()
        .chain(kept)
        .chain(desk.sessions.live())
        .collect();
    let stale = stale(&desk.directory, &owned).map_err(|e| internal(&e))?;
    let stale = stale.into_iter().take(FOUND_MAX);
    // All are looked at before any goes.
    let mut left = Vec::new();
    for path in stale {
        left.extend(Found::at(path).map_err(|e| internal(&e))?);
    }
    found.extend(left.into_iter().map(|found| baseline(found, remove)));
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

/// The baselines of sessions that nobody has.
fn stale(directory: &Path, owned: &BTreeSet<SessionId>) -> anyhow::Result<Vec<PathBuf>> {
    let mut stale = Vec::new();
    for entry in std::fs::read_dir(directory).context("the desk's directory")? {
        let entry = entry?;
        let name = entry.file_name();
        let session = name.to_str().and_then(|name| {
            let endings = [NEXT_BASELINE, BASELINE];
            endings.iter().find_map(|ending| name.strip_suffix(ending))
        });
        let session = session.and_then(|name| SessionId::parse(name).ok());
        if session.is_some_and(|session| !owned.contains(&session)) {
            stale.push(entry.path());
        }
    }
    stale.sort();
    Ok(stale)
}

fn baseline(found: Found, remove: bool) -> Leftover {
    let place = found.to_string();
    let go = || Ok(std::fs::remove_file(found.still()?)?);
    let removed: Option<anyhow::Result<()>> = remove.then(go);
    Leftover {
        kind: LeftoverKind::Baseline,
        place,
        gone: matches!(removed, Some(Ok(()))),
        why: match removed {
            Some(Err(error)) => Some(format!("{error:#}")),
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
        let names = [
            "s1.baseline",
            "s2.baseline",
            "s1.baseline.next",
            "other",
            "Not One.baseline",
        ];
        for name in names {
            std::fs::write(dir.path().join(name), "{}").unwrap();
        }
        let owned = BTreeSet::from([SessionId::parse("s1").unwrap()]);
        let left = stale(dir.path(), &owned).unwrap();
        assert_eq!(left, [dir.path().join("s2.baseline")]);
        let found = || Found::at(left[0].clone()).unwrap().unwrap();
        assert!(!baseline(found(), false).gone && left[0].exists());
        let before = found();
        std::thread::sleep(std::time::Duration::from_millis(20));
        std::fs::write(dir.path().join("new"), "{}").unwrap();
        std::fs::rename(dir.path().join("new"), &left[0]).unwrap();
        let told = baseline(before, true);
        assert!(!told.gone && left[0].exists(), "{told:?}");
        assert!(told.why.unwrap().contains("not what was found"));
        assert!(baseline(found(), true).gone && !left[0].exists());
        reconcile(dir.path()).unwrap();
        let names = std::fs::read_dir(dir.path()).unwrap().flatten();
        let mut names: Vec<_> = names.map(|entry| entry.file_name()).collect();
        names.sort();
        assert_eq!(names, ["Not One.baseline", "other"]);
    }
}
