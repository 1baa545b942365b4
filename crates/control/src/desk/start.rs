// SPDX-License-Identifier: Apache-2.0
//! A session's start, in order: search what would enter, begin (recorded), gate, workspace,
//! sandbox, guest. Whatever fails undoes what was done.

use super::session::{Beginning, Life};
use super::{Desk, finish, porters};
use crate::front_door;
use crate::orders::{
    GateConfiguration, GateRequest, LauncherReply, LauncherRequest, Order, PorterJob, PorterReply,
    ProbeResult, SandboxOrder,
};
use anyhow::{Context, anyhow};
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use torno_control_api::channel::Peer;
use torno_control_api::request::{Failure, StartSession, Started};
use torno_notary_protocol::desk::{
    Begin, Begun, Choice, DeskMessage, DeskReply, EndCause, Fingerprint, SessionNote,
};
use torno_policy::document;
use torno_policy::grant::{Isolation, WorkspaceMode};
use torno_policy::names::{SessionId, TenantName};

/// LIMIT: what a workspace copy may hold beside the grant's disk limit is nothing.
const TENANT: &str = "local";

/// Starts a session, or leaves nothing of it.
pub(super) async fn start(
    desk: &Rc<Desk>,
    caller: Peer,
    wanted: StartSession,
    workspace: Option<OwnedFd>,
) -> Result<Started, Failure> {
    let fingerprints = fingerprints(desk).await?;
    front_door::check_strings("environment", env_texts(&wanted.env), &fingerprints)?;
    let level = choose_level(desk, &wanted).await?;
    let session = new_id()?;
    let begun = begin(desk, &session, &wanted, &level).await?;
    let beginning = Beginning {
        isolation: level.isolation,
        workspace: begun.grant.sandbox.workspace,
        began_at: unix_seconds(),
    };
    let gate = desk.sessions.begin(&session, &beginning);
    let attempt = Attempt {
        desk,
        caller,
        session: &session,
        begun: &begun,
        wanted: &wanted,
    };
    match attempt
        .build(gate, workspace, &fingerprints, level.isolation)
        .await
    {
        Ok(hidden) => {
            desk.sessions.with(&session, |row| {
                if row.life == Life::Starting {
                    row.life = Life::Running;
                }
            });
            watch_wall_time(desk, &session, begun.grant.sandbox.limits.wall_seconds);
            Ok(Started {
                session,
                isolation: level.isolation,
                granted: document::describe(&begun.grant),
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

/// Asks for the vault's fingerprints. A sealed vault has none, and nothing to search for.
async fn fingerprints(desk: &Desk) -> Result<Vec<Fingerprint>, Failure> {
    match desk
        .notary
        .ask(|ticket| DeskMessage::Fingerprints { ticket })
        .await
    {
        Ok(DeskReply::FingerprintSet { fingerprints, .. }) => Ok(fingerprints),
        Ok(DeskReply::Refused { refusal, .. }) => Err(of_refusal(&refusal)),
        Ok(_) => Err(internal(&anyhow!("the notary answered something else"))),
        Err(error) => Err(internal(&error)),
    }
}

fn env_texts(env: &[(String, String)]) -> impl Iterator<Item = (String, &str)> {
    env.iter()
        .map(|(name, value)| (format!("variable {name}"), value.as_str()))
}

/// The level that will be used: what was asked for, or a refusal.
async fn choose_level(desk: &Desk, wanted: &StartSession) -> Result<ProbeResult, Failure> {
    let presets = document::Presets::default();
    let grant = document::parse(&wanted.document, &presets).map_err(|error| Failure {
        code: "document_invalid".to_owned(),
        message: document::render(&error, &wanted.document),
        hint: "mend the policy file; `torno policy check` shows the place".to_owned(),
    })?;
    let asked = wanted.isolation.unwrap_or(grant.sandbox.isolation);
    let (reply, _) = desk
        .launcher
        .ask(&LauncherRequest::Probe, &[])
        .await
        .map_err(|e| internal(&e))?;
    let LauncherReply::Probed(levels) = reply else {
        return Err(internal(&anyhow!("the launcher answered something else")));
    };
    let works = |level: &&ProbeResult| level.works;
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
            hint: level.fix.unwrap_or_else(|| "run `torno doctor`".to_owned()),
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
        .and_then(|l| l.fix.clone());
    Failure {
        code: "isolation_unavailable".to_owned(),
        message: "no isolation level above `container` works on this machine".to_owned(),
        hint: fix.unwrap_or_else(|| {
            "run `torno doctor`, or say `--isolation container` and accept what it gives up"
                .to_owned()
        }),
    }
}

async fn begin(
    desk: &Desk,
    session: &SessionId,
    wanted: &StartSession,
    level: &ProbeResult,
) -> Result<Begun, Failure> {
    let tenant = TenantName::parse(TENANT).map_err(|e| internal(&e.into()))?;
    let begin = |ticket| {
        DeskMessage::Begin(Box::new(Begin {
            ticket,
            session: session.clone(),
            tenant,
            document: wanted.document.clone(),
            choice: Choice {
                isolation: wanted.isolation,
                workspace: wanted.workspace,
                wall_seconds: wanted.wall_seconds,
            },
            effective_isolation: level.isolation,
            guarantees: level
                .absent
                .iter()
                .map(|wall| format!("absent: {wall}"))
                .collect(),
        }))
    };
    match desk.notary.ask(begin).await {
        Ok(DeskReply::Begun(begun)) => Ok(*begun),
        Ok(DeskReply::Refused { refusal, .. }) => Err(of_refusal(&refusal)),
        Ok(_) => Err(internal(&anyhow!("the notary answered something else"))),
        Err(error) => Err(internal(&error)),
    }
}

/// One start under way.
struct Attempt<'a> {
    desk: &'a Rc<Desk>,
    caller: Peer,
    session: &'a SessionId,
    begun: &'a Begun,
    wanted: &'a StartSession,
}

impl Attempt<'_> {
    /// Gate, workspace, sandbox, guest. Returns what was hidden.
    async fn build(
        &self,
        mut gate: tokio::sync::mpsc::UnboundedReceiver<Rc<super::gates::Gate>>,
        workspace: Option<OwnedFd>,
        fingerprints: &[Fingerprint],
        isolation: Isolation,
    ) -> Result<Vec<(String, String)>, Failure> {
        let order = Order::SpawnGate {
            session: self.session.clone(),
            generation: self.begun.generation,
        };
        self.desk.order(&order).await.map_err(|e| internal(&e))?;
        let joined = tokio::time::timeout(Duration::from_secs(10), gate.recv()).await;
        let gate = joined
            .ok()
            .flatten()
            .ok_or_else(|| internal(&anyhow!("no gate came up")))?;
        let (desk, id, follow) = (Rc::clone(self.desk), self.session.clone(), Rc::clone(&gate));
        tokio::task::spawn_local(async move { desk.sessions.follow(&id, &follow).await });
        let configure = GateRequest::Configure(Box::new(GateConfiguration {
            limits: self.begun.grant.sandbox.limits.clone(),
            placeholders: BTreeMap::from_iter(self.begun.placeholders.iter().cloned()),
        }));
        gate.tell(&configure, &[]).await.map_err(|e| internal(&e))?;
        let ca_pem = gate.ca_pem().await.map_err(|e| internal(&e))?;
        let (hidden, bound) = self.workspace(workspace, fingerprints).await?;
        self.note_hidden(&hidden).await?;
        self.sandbox(isolation, ca_pem, bound).await?;
        gate.guest().await.map_err(|e| internal(&e))?;
        Ok(hidden)
    }

    /// Fills the workspace. Returns what was hidden, and the directory to bind, if it is bound.
    async fn workspace(
        &self,
        workspace: Option<OwnedFd>,
        fingerprints: &[Fingerprint],
    ) -> Result<(Vec<(String, String)>, Option<OwnedFd>), Failure> {
        let prepare = LauncherRequest::Prepare {
            session: self.session.clone(),
            owner: self.caller.uid,
        };
        let (reply, given) = self.launcher(&prepare, None).await?;
        let target = match reply {
            LauncherReply::Prepared => given.into_iter().next(),
            _ => None,
        };
        let target = target.ok_or_else(|| internal(&anyhow!("no workspace directory came")))?;
        let mode = self.begun.grant.sandbox.workspace;
        let source = match (mode, workspace) {
            (WorkspaceMode::None, _) => return Ok((Vec::new(), None)),
            (_, Some(source)) => source,
            (_, None) => {
                return Err(Failure {
                    code: "workspace_missing".to_owned(),
                    message: "the policy wants a workspace and none was given".to_owned(),
                    hint: "run in the directory, or say `--workspace none`".to_owned(),
                });
            }
        };
        let fingerprints = fingerprints.to_vec();
        let reply = if mode == WorkspaceMode::Bind {
            let job = PorterJob::Search { fingerprints };
            porters::run(self.desk, self.caller, &job, &[source.as_fd()]).await
        } else {
            let baseline = self
                .desk
                .baseline(self.session, true)
                .map_err(|e| internal(&e))?;
            let bytes_max = self.begun.grant.sandbox.limits.disk_bytes;
            let job = PorterJob::CopyIn {
                fingerprints,
                bytes_max,
            };
            let give = [source.as_fd(), target.as_fd(), baseline.as_fd()];
            porters::run(self.desk, self.caller, &job, &give).await
        };
        match reply.map_err(|e| internal(&e))? {
            PorterReply::Copied {
                mut hidden,
                left_out,
            } => {
                let left = |place| (place, "special file, left out".to_owned());
                hidden.extend(left_out.into_iter().map(left));
                let bound = (mode == WorkspaceMode::Bind).then_some(source);
                Ok((hidden, bound))
            }
            PorterReply::VaultValue { place, credential } => {
                Err(front_door::vault_value(&place, &credential))
            }
            PorterReply::Failed { message } => Err(Failure {
                code: "workspace_unusable".to_owned(),
                message,
                hint: "mend the workspace, or say `--workspace none`".to_owned(),
            }),
            PorterReply::Done { .. } => Err(internal(&anyhow!("the porter did something else"))),
        }
    }

    async fn note_hidden(&self, hidden: &[(String, String)]) -> Result<(), Failure> {
        for (place, shape) in hidden {
            let note = SessionNote::Hidden {
                place: place.clone(),
                shape: shape.clone(),
            };
            let message = DeskMessage::Note {
                session: self.session.clone(),
                note,
            };
            self.desk
                .notary
                .tell(&message)
                .await
                .map_err(|e| internal(&e))?;
        }
        Ok(())
    }

    async fn sandbox(
        &self,
        isolation: Isolation,
        ca_pem: String,
        bound: Option<OwnedFd>,
    ) -> Result<(), Failure> {
        let shape = &self.begun.grant.sandbox;
        let mut env = shape.env.clone();
        env.extend(self.wanted.env.iter().cloned());
        env.extend(self.begun.placeholders.iter().cloned());
        let git_hosts = self
            .begun
            .grant
            .git
            .iter()
            .map(|git| git.endpoint.host.to_string());
        let order = LauncherRequest::Start(Box::new(SandboxOrder {
            session: self.session.clone(),
            isolation,
            also: also_directories(&shape.also, &self.wanted.also)?,
            workspace: shape.workspace,
            files: shape.files.clone(),
            env,
            limits: shape.limits.clone(),
            ca_pem,
            git_hosts: git_hosts.collect(),
        }));
        match self.launcher(&order, bound).await?.0 {
            LauncherReply::Started { environment } => {
                self.desk
                    .sessions
                    .with(self.session, |row| row.environment = environment);
                Ok(())
            }
            _ => Err(internal(&anyhow!("the launcher answered something else"))),
        }
    }

    async fn launcher(
        &self,
        request: &LauncherRequest,
        give: Option<OwnedFd>,
    ) -> Result<(LauncherReply, Vec<OwnedFd>), Failure> {
        let give: Vec<_> = give.iter().map(AsFd::as_fd).collect();
        let (reply, given) = self
            .desk
            .launcher
            .ask(request, &give)
            .await
            .map_err(|e| internal(&e))?;
        match reply {
            LauncherReply::Failed {
                code,
                message,
                hint,
            } => Err(Failure {
                code,
                message,
                hint,
            }),
            reply => Ok((reply, given)),
        }
    }
}

/// Pairs the grant's directories, as the person wrote them, with their places on the host: what
/// lay under `~` lies under the sandbox's home, everything else where it was.
fn also_directories(
    written: &[String],
    expanded: &[String],
) -> Result<Vec<(PathBuf, PathBuf)>, Failure> {
    let mismatch = || Failure {
        code: "also_mismatch".to_owned(),
        message: "the directories of `also` differ from the accepted policy's".to_owned(),
        hint: "run the torno and tornod of one release".to_owned(),
    };
    if written.len() != expanded.len() {
        return Err(mismatch());
    }
    let pair = |(written, host): (&String, &String)| match written.strip_prefix("~/") {
        Some(below) if host.ends_with(&format!("/{below}")) => {
            Ok((PathBuf::from(host), Path::new("/home/agent").join(below)))
        }
        None if written == host => Ok((PathBuf::from(host), PathBuf::from(host))),
        _ => Err(mismatch()),
    };
    written.iter().zip(expanded).map(pair).collect()
}

impl Desk {
    /// The file of a workspace copy's baseline: for writing it anew, or for reading.
    pub(super) fn baseline(&self, session: &SessionId, fresh: bool) -> anyhow::Result<OwnedFd> {
        let path = self.directory.join(format!("{session}.baseline"));
        let flags = OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let flags = flags
            | if fresh {
                OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC
            } else {
                OFlags::RDONLY
            };
        rustix::fs::open(&path, flags, Mode::from_raw_mode(0o600))
            .with_context(|| format!("can't open `{}`", path.display()))
    }
}

/// Ends the session when its wall time is over.
fn watch_wall_time(desk: &Rc<Desk>, session: &SessionId, seconds: u64) {
    let (desk, session) = (Rc::clone(desk), session.clone());
    tokio::task::spawn_local(async move {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(seconds)) => {
                finish::end_if_running(&desk, &session, EndCause::TimeLimit).await;
            }
            () = desk.sessions.wait_over(&session) => {}
        }
    });
}

/// 128 random bits in lower-case base32.
fn new_id() -> Result<SessionId, Failure> {
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

/// A failure of ours: a role is gone or answered out of turn.
pub(super) fn internal(error: &anyhow::Error) -> Failure {
    Failure {
        code: "role_unavailable".to_owned(),
        message: format!("{error:#}"),
        hint: "look into tornod's log; if it goes on, start tornod again".to_owned(),
    }
}

/// A policy refusal, as the API shows it.
pub(super) fn of_refusal(refusal: &torno_policy::Refusal) -> Failure {
    Failure {
        code: refusal.reason.code().to_owned(),
        message: format!("refused by `{}`", refusal.rule),
        hint: refusal.hint.clone(),
    }
}
