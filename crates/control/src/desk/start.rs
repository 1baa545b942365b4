// SPDX-License-Identifier: Apache-2.0
//! A session's start, in order: search what would enter, begin (recorded), the install phase if
//! the grant has one, then gate, workspace, sandbox, guest. Whatever fails undoes what was done.

mod attempt;
mod files;
mod image;
mod install;
mod level;
mod shown;
mod tripwires;

use super::session::Beginning;
use super::{Desk, checkpoints, finish, sync};
use crate::front_door;
use crate::orders::ProbeResult;
use anyhow::anyhow;
use attempt::Attempt;
pub(super) use level::{probed, workspace_mode};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;
use torno_control_api::channel::Peer;
use torno_control_api::request::{Failure, StartSession, Started};
use torno_notary_protocol::desk::{
    Begin, Begun, Choice, DeskMessage, DeskReply, EndCause, Fingerprint,
};
use torno_policy::decision::{Reason, Refusal};
use torno_policy::document;
use torno_policy::grant::Limits;
use torno_policy::names::{ImageDigest, SessionId, TenantName};

/// The one tenant of a daemon that is a single person's or machine's.
const TENANT: &str = "local";

/// What came with the request.
pub(super) struct Given {
    pub(super) workspace: Option<OwnedFd>,
    /// The directories of `also`, where the client handed them over.
    pub(super) also: Vec<OwnedFd>,
    /// Where the output of the install phase goes.
    pub(super) install_output: Option<OwnedFd>,
}

/// Starts a session, or leaves nothing of it.
pub(super) async fn start(
    desk: &Rc<Desk>,
    caller: Peer,
    wanted: StartSession,
    given: Given,
) -> Result<Started, Failure> {
    let fingerprints = fingerprints(desk).await?;
    let env = wanted
        .env
        .iter()
        .map(|(k, v)| (format!("variable {k}"), v.as_str()));
    front_door::check_strings("environment", env, &fingerprints)?;
    let level = level::choose(desk, &wanted).await?;
    level::check_workspace(&wanted, level.isolation)?;
    let image = image::find(desk, &wanted, level.isolation).await?;
    let origin = checkpoints::origin(desk, caller, &wanted).await?;
    let session = new_id()?;
    let begun = begin(desk, &session, &wanted, (&level, image)).await?;
    let beginning = Beginning {
        isolation: level.isolation,
        workspace: begun.grant.sandbox.workspace,
        began_at: unix_seconds(),
        owner: caller,
    };
    desk.sessions.begin(&session, &beginning);
    let isolation = level.isolation;
    let attempt = Attempt {
        desk,
        caller,
        session: &session,
        begun: &begun,
        wanted: &wanted,
        isolation,
    };
    match attempt.build(given, origin, &fingerprints).await {
        Ok(hidden) => {
            if !desk.sessions.started(&session) {
                finish::undo(desk, &session).await;
                return Err(attempt::ended_meanwhile());
            }
            watch_time(desk, &session, &begun.grant.sandbox.limits);
            sync::begin(desk, &session);
            let granted = document::describe(&begun.grant);
            Ok(Started {
                session,
                isolation,
                granted,
                hidden,
                absent: level.absent,
            })
        }
        Err(failure) => {
            finish::undo(desk, &session).await;
            Err(failure)
        }
    }
}

/// Asks for the vault's fingerprints. A sealed vault that holds credentials has none to give, so
/// nothing may enter.
pub(super) async fn fingerprints(desk: &Desk) -> Result<Vec<Fingerprint>, Failure> {
    let reply = desk
        .notary
        .ask(|ticket| DeskMessage::Fingerprints { ticket })
        .await;
    match reply.map_err(|e| internal(&e))? {
        DeskReply::FingerprintSet { fingerprints, .. } => Ok(fingerprints),
        DeskReply::Refused { refusal, .. } if refusal.reason == Reason::VaultSealed => {
            Err(sealed(&refusal))
        }
        DeskReply::Refused { refusal, .. } => Err(of_refusal(&refusal)),
        _ => Err(out_of_turn("notary")),
    }
}

/// Also sessions that use no credential are refused: what enters is searched for all values.
fn sealed(refusal: &Refusal) -> Failure {
    Failure {
        message: "the vault is sealed, so no session and no command starts, not even one that \
                  uses no credential: what enters could not be searched for the vault's values"
            .to_owned(),
        hint: "torno vault unseal".to_owned(),
        ..of_refusal(refusal)
    }
}

/// Registers the session with the notary: from here on it is in the record.
async fn begin(
    desk: &Desk,
    session: &SessionId,
    wanted: &StartSession,
    (level, image): (&ProbeResult, Option<ImageDigest>),
) -> Result<Begun, Failure> {
    let tenant = tenant()?;
    let choice = Choice {
        isolation: wanted.isolation,
        workspace: wanted.workspace,
        wall_seconds: wanted.wall_seconds,
        emulation: wanted.emulation,
    };
    let begin = |ticket| {
        DeskMessage::Begin(Box::new(Begin {
            ticket,
            session: session.clone(),
            tenant,
            document: wanted.document.clone(),
            choice,
            effective_isolation: level.isolation,
            emulated: level.emulated,
            guarantees: level
                .absent
                .iter()
                .map(|wall| format!("absent: {wall}"))
                .collect(),
            image,
        }))
    };
    match desk.notary.ask(begin).await.map_err(|e| internal(&e))? {
        DeskReply::Begun(begun) => Ok(*begun),
        DeskReply::Refused { refusal, .. } => Err(of_refusal(&refusal)),
        _ => Err(out_of_turn("notary")),
    }
}

/// Whose sessions these are.
fn tenant() -> Result<TenantName, Failure> {
    TenantName::parse(TENANT).map_err(|e| internal(&e.into()))
}

/// Ends the session when its wall time is over, or when it was idle too long. Idle means that no
/// command runs: a working job is never killed for being quiet, nor is one that is paused. Wall
/// time goes on in a pause: nothing holds a machine's memory for longer than its grant says.
fn watch_time(desk: &Rc<Desk>, session: &SessionId, limits: &Limits) {
    let (desk, session) = (Rc::clone(desk), session.clone());
    let wall = Duration::from_secs(limits.wall_seconds);
    let idle = Duration::from_secs(limits.idle_seconds);
    tokio::task::spawn_local(async move {
        tokio::select! {
            () = tokio::time::sleep(wall) => {}
            () = idle_longer_than(&desk, &session, idle) => {}
            () = desk.sessions.wait_over(&session) => return,
        }
        finish::end(&desk, &session, EndCause::TimeLimit).await;
    });
}

/// Waits until no command has run for that long.
async fn idle_longer_than(desk: &Desk, session: &SessionId, idle: Duration) {
    loop {
        let since = desk.sessions.with(session, |row| row.idle_since());
        let since = since.flatten();
        let left = since.map_or(idle, |since| idle.saturating_sub(since.elapsed()));
        if left.is_zero() {
            return;
        }
        // While a command runs its end is looked for again after the whole time: never too early.
        tokio::time::sleep(left).await;
    }
}

/// 128 random bits in lower-case base32.
pub(super) fn new_id() -> Result<SessionId, Failure> {
    let mut random = [0_u8; 16];
    getrandom::fill(&mut random).map_err(|e| internal(&e.into()))?;
    let text = data_encoding::BASE32_NOPAD
        .encode(&random)
        .to_ascii_lowercase();
    SessionId::parse(&text).map_err(|e| internal(&e.into()))
}

/// Unix seconds, for what people are shown. Nothing is decided by it.
pub(super) fn unix_seconds() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    u64::try_from(now.tv_sec).unwrap_or_default()
}

/// A failure of ours: a role is gone or does not work.
pub(super) fn internal(error: &anyhow::Error) -> Failure {
    Failure {
        code: "role_unavailable".to_owned(),
        message: format!("{error:#}"),
        hint: "look into tornod's log; if it goes on, start tornod again".to_owned(),
    }
}

/// A role answered what was not asked.
pub(super) fn out_of_turn(role: &str) -> Failure {
    internal(&anyhow!("the {role} answered something else"))
}

/// A policy refusal, as the API shows it.
pub(super) fn of_refusal(refusal: &Refusal) -> Failure {
    Failure {
        code: refusal.reason.code().to_owned(),
        message: format!("refused by `{}`", refusal.rule),
        hint: refusal.hint.clone(),
    }
}
