// SPDX-License-Identifier: Apache-2.0
//! Git smart HTTP against the git grants of an endpoint.

use super::{Opinion, hint};
use crate::decision::{Layer, Reason};
use crate::facts::{
    Content, ContentKind, GitFacts, GitOperation, LfsBatch, RefChange, RefUpdate, RequestFacts,
};
use crate::grant::{GitGrant, Grant};
use crate::names::RuleName;
use crate::standing::Phase;

/// Whether the request is git smart HTTP, or looks like it without facts that say so.
pub(super) fn is_git(facts: &RequestFacts) -> bool {
    let decoded = facts.path.decoded();
    // ATTACK: 075 – a server that decodes slashes first sees git in `/app%2Fgit-receive-pack` too.
    let path = decoded.as_ref().unwrap_or(&facts.path).path();
    facts.git.is_some()
        || path.ends_with("/info/refs")
        || path.ends_with("/git-upload-pack")
        || path.ends_with("/git-receive-pack")
        // ATTACK: 078 – whatever its case: a wider rule brings no large file back.
        || path.to_ascii_lowercase().contains("/info/lfs/")
}

/// Whether git facts contradict the method and path they were read from: then nobody can say what
/// the far end would do.
pub(super) fn is_inconsistent(facts: &RequestFacts) -> bool {
    let Some(git) = &facts.git else {
        return false;
    };
    let (method, suffix, query) = match &git.operation {
        GitOperation::DiscoverFetch => ("GET", "/info/refs", Some("service=git-upload-pack")),
        GitOperation::DiscoverPush => ("GET", "/info/refs", Some("service=git-receive-pack")),
        GitOperation::Fetch => ("POST", "/git-upload-pack", None),
        GitOperation::Push(_) => ("POST", "/git-receive-pack", None),
        GitOperation::LfsBatch => ("POST", "/info/lfs/objects/batch", None),
        GitOperation::LfsVerifyLocks => ("POST", "/info/lfs/locks/verify", None),
        GitOperation::LfsDownload => ("GET", "/info/lfs/objects/", None),
        GitOperation::LfsUpload => ("PUT", "/info/lfs/objects/", None),
    };
    let path = facts.path.path();
    // The one ending that names something is a large file's: by the SHA-256 of it.
    let path = match path.rsplit_once('/') {
        Some((_, object)) if suffix.ends_with('/') => path.strip_suffix(object).unwrap_or(path),
        Some(_) | None => path,
    };
    let Some(place) = path.strip_suffix(suffix) else {
        return true;
    };
    let repository = place.strip_suffix(".git").unwrap_or(place);
    facts.method.as_str() != method
        || facts.path.query() != query
        || repository != git.repository
        || repository.is_empty()
}

/// The grants that cover the request, or why none does.
pub(super) fn covering<'a>(
    grants: &[&'a GitGrant],
    phase: Phase,
    facts: &RequestFacts,
) -> Result<Vec<&'a GitGrant>, Opinion> {
    let deny = |reason| {
        let rule = RuleName::new("grant.git");
        Err(Opinion::deny(
            Layer::Session,
            rule,
            reason,
            hint::uncovered(reason, facts),
        ))
    };
    let Some(git) = &facts.git else {
        return deny(Reason::GitNotGranted);
    };
    let batch = match (&git.operation, &facts.content) {
        (GitOperation::LfsBatch, Some(Content::Lfs(batch))) => Some(batch),
        (GitOperation::LfsBatch, _) => return deny(Reason::ContentUnread),
        _ => None,
    };
    let able = |grant: &&&GitGrant| {
        grant.repository == git.repository
            && match batch {
                Some(batch) if batch.is_upload => !grant.push_refs.is_empty(),
                Some(_) => grant.fetch,
                None => allows(grant, git),
            }
    };
    let able: Vec<_> = grants.iter().filter(able).copied().collect();
    let fit: Vec<_> = able
        .iter()
        .copied()
        .filter(|grant| refs_fit(grant, git) && batch.is_none_or(|batch| batch_fits(grant, batch)))
        .collect();
    match (able.is_empty(), fit.is_empty(), phase) {
        (true, _, _) => deny(Reason::GitNotGranted),
        (false, true, _) => deny(Reason::RefNotGranted),
        // Git grants belong to the locked phase; the install phase has its own allowlist.
        (false, false, Phase::Install) => deny(Reason::PhaseNotGranted),
        (false, false, Phase::Locked) => Ok(fit),
    }
}

fn allows(grant: &GitGrant, git: &GitFacts) -> bool {
    match git.operation {
        GitOperation::DiscoverFetch | GitOperation::Fetch | GitOperation::LfsDownload => {
            grant.fetch
        }
        GitOperation::DiscoverPush
        | GitOperation::Push(_)
        | GitOperation::LfsVerifyLocks
        | GitOperation::LfsUpload => !grant.push_refs.is_empty(),
        // Judged by its content.
        GitOperation::LfsBatch => false,
    }
}

/// An upload that says what it is for must be for a reference that may be pushed. One that does
/// not moves none: the push does, and is judged itself.
fn batch_fits(grant: &GitGrant, batch: &LfsBatch) -> bool {
    let named = |name: &String| {
        grant
            .push_refs
            .iter()
            .any(|pattern| ref_matches(pattern, name))
    };
    !batch.is_upload || batch.reference.as_ref().is_none_or(named)
}

/// An LFS batch at an endpoint of git grants is read before it is judged.
pub(super) fn unread(grant: &Grant, facts: &RequestFacts) -> Option<ContentKind> {
    let is_batch = facts
        .git
        .as_ref()
        .is_some_and(|git| git.operation == GitOperation::LfsBatch);
    let granted = grant.git.iter().any(|git| git.endpoint == facts.endpoint);
    (is_batch && granted && facts.content.is_none()).then_some(ContentKind::Lfs)
}

/// A push without commands (git's probe before a large one) moves nothing and fits.
fn refs_fit(grant: &GitGrant, git: &GitFacts) -> bool {
    match &git.operation {
        GitOperation::Push(updates) => updates.iter().all(|update| ref_fits(grant, update)),
        GitOperation::DiscoverFetch
        | GitOperation::Fetch
        | GitOperation::DiscoverPush
        | GitOperation::LfsBatch
        | GitOperation::LfsVerifyLocks
        | GitOperation::LfsDownload
        | GitOperation::LfsUpload => true,
    }
}

fn ref_fits(grant: &GitGrant, update: &RefUpdate) -> bool {
    let may_change = match update.change {
        RefChange::Create | RefChange::Update => true,
        RefChange::Delete => grant.delete,
    };
    may_change
        && grant
            .push_refs
            .iter()
            .any(|pattern| ref_matches(pattern, &update.name))
}

/// `*` is one segment of a reference's name and a last `**` one or more, as in path patterns.
fn ref_matches(pattern: &str, name: &str) -> bool {
    if name
        .split('/')
        .any(|segment| matches!(segment, "" | "." | ".."))
    {
        return false;
    }
    let mut given = name.split('/');
    let mut wanted = pattern.split('/').peekable();
    while let Some(segment) = wanted.next() {
        let last = wanted.peek().is_none();
        match (segment, given.next()) {
            ("**", Some(_)) if last => return true,
            ("*", Some(_)) => {}
            (exact, Some(segment)) if exact == segment => {}
            (_, Some(_) | None) => return false,
        }
    }
    given.next().is_none()
}
