// SPDX-License-Identifier: Apache-2.0
//! The isolation level of a start: what was asked for, or a refusal. Never weaker in silence (I11).

use super::super::Desk;
use super::{internal, out_of_turn};
use crate::orders::{LauncherReply, LauncherRequest, ProbeResult};
use std::time::Duration;
use torno_control_api::request::{Failure, StartSession};
use torno_policy::document;
use torno_policy::grant::{Grant, Isolation, WorkspaceMode};

/// Whether `strongest` may be a machine. Not before a machine can have what a session may be
/// granted: by now it has no workspace.
const MACHINES_UNNAMED: bool = false;
/// LIMIT: between two looks at a level whose image is being made.
const COMING_STEP: Duration = Duration::from_millis(200);

/// Boot probes of one level, or of all, once what they take is there.
pub(in crate::desk) async fn probed(
    desk: &Desk,
    only: Option<Isolation>,
) -> Result<Vec<ProbeResult>, Failure> {
    loop {
        let asked = desk
            .launcher
            .ask(&LauncherRequest::Probe { only }, &[])
            .await;
        let (reply, _) = asked.map_err(|e| internal(&e))?;
        let LauncherReply::Probed(levels) = reply else {
            return Err(out_of_turn("launcher"));
        };
        if !levels.iter().any(|level| level.coming) {
            return Ok(levels);
        }
        tokio::time::sleep(COMING_STEP).await;
    }
}

/// What the document says of the sandbox.
pub(super) fn grant(wanted: &StartSession) -> Result<Grant, Failure> {
    // What the presets give is the notary's to read; the sandbox does not depend on it.
    let presets = document::Presets::unread();
    document::parse(&wanted.document, &presets).map_err(|error| Failure {
        code: "document_invalid".to_owned(),
        message: document::render(&error, &wanted.document),
        hint: "mend the policy file; `torno policy check` shows the place".to_owned(),
    })
}

/// How the session has its workspace: as the person says, else as the document does.
pub(in crate::desk) fn workspace_mode(wanted: &StartSession) -> Result<WorkspaceMode, Failure> {
    let granted = grant(wanted)?.sandbox.workspace;
    Ok(wanted.workspace.unwrap_or(granted))
}

/// Whether the level has the workspace that is wanted.
pub(super) fn check_workspace(wanted: &StartSession, isolation: Isolation) -> Result<(), Failure> {
    if isolation.is_machine() && workspace_mode(wanted)? == WorkspaceMode::Bind {
        return Err(Failure {
            code: "bind_unavailable".to_owned(),
            message: "a machine shares no directory with its host, so none is bound to it"
                .to_owned(),
            hint: "say `workspace = { mode = \"copy\" }` and bring changes back with `torno \
                   session apply`, or choose gvisor or container"
                .to_owned(),
        });
    }
    Ok(())
}

/// The level that will be used: what was asked for, or a refusal.
pub(super) async fn choose(desk: &Desk, wanted: &StartSession) -> Result<ProbeResult, Failure> {
    let grant = grant(wanted)?;
    let asked = wanted.isolation.unwrap_or(grant.sandbox.isolation);
    let levels = probed(
        desk,
        Some(asked).filter(|level| *level != Isolation::Strongest),
    )
    .await?;
    let works = |level: &&ProbeResult| {
        let is_machine = matches!(level.isolation, Isolation::Microvm | Isolation::Vm);
        level.works && !level.emulated && (MACHINES_UNNAMED || !is_machine)
    };
    if asked == Isolation::Strongest {
        // Strongest first; `container` is by name only.
        let order = [Isolation::Vm, Isolation::Microvm, Isolation::Gvisor];
        let found = order.iter().find_map(|isolation| {
            levels
                .iter()
                .filter(works)
                .find(|level| level.isolation == *isolation)
        });
        return found.cloned().ok_or_else(|| no_level(&levels));
    }
    let level = levels.into_iter().find(|level| level.isolation == asked);
    match level {
        Some(level) if level.works => Ok(level),
        Some(level) => Err(Failure {
            code: "isolation_unavailable".to_owned(),
            message: level.lines.join("; "),
            hint: level
                .fix
                .filter(|fix| !fix.is_empty())
                .unwrap_or_else(|| "look at `torno doctor`, or choose another level".to_owned()),
        }),
        None => Err(Failure {
            code: "isolation_unavailable".to_owned(),
            message: "this version has no driver for that level".to_owned(),
            hint: "choose gvisor, or container by name; `torno doctor` lists the levels".to_owned(),
        }),
    }
}

fn no_level(levels: &[ProbeResult]) -> Failure {
    let fix = levels
        .iter()
        .find(|l| l.isolation == Isolation::Gvisor)
        .and_then(|l| l.fix.clone())
        .filter(|fix| !fix.is_empty());
    Failure {
        code: "isolation_unavailable".to_owned(),
        message: "no isolation level above `container` works on this machine".to_owned(),
        hint: fix.unwrap_or_else(|| {
            "run `torno doctor`, or say `--isolation container` and accept what it gives up"
                .to_owned()
        }),
    }
}
