// SPDX-License-Identifier: Apache-2.0
//! One start under way: a gate, a sandbox beside it, the guest's first word. The install phase
//! goes through the same steps with a gate and a sandbox of its own.

use super::super::Desk;
use super::super::checkpoints::{self, Origin};
use super::super::gates::Gate;
use super::super::session::Life;
use super::super::transfer::{self, Carried};
use super::files::Hidden;
use super::tripwires;
use super::{Given, internal, out_of_turn};
use crate::orders::{
    GateConfiguration, GateRequest, LauncherReply, LauncherRequest, Order, SandboxOrder,
};
use anyhow::anyhow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use torno_control_api::channel::Peer;
use torno_control_api::request::{Failure, StartSession};
use torno_notary_protocol::desk::{Begun, DeskMessage, Fingerprint, SessionNote};
use torno_policy::grant::Isolation;
use torno_policy::names::SessionId;
use torno_policy::standing::Phase;

/// LIMIT: a process start and four messages; a loaded machine needs a second.
const GATE_WAIT: Duration = Duration::from_secs(10);

/// One start under way.
pub(super) struct Attempt<'a> {
    pub(super) desk: &'a Rc<Desk>,
    pub(super) caller: Peer,
    pub(super) session: &'a SessionId,
    pub(super) begun: &'a Begun,
    pub(super) wanted: &'a StartSession,
    pub(super) isolation: Isolation,
}

impl Attempt<'_> {
    /// Brings the session up. Returns what was hidden from it.
    pub(super) async fn build(
        &self,
        mut given: Given,
        origin: Option<Origin>,
        fingerprints: &[Fingerprint],
    ) -> Result<Vec<(String, String)>, Failure> {
        let origin = match origin {
            Some(Origin { about, tree }) => {
                given.workspace = Some(tree);
                let (checkpoint, of) = (about.name.clone(), about.session.clone());
                self.note(SessionNote::Forked { checkpoint, of }).await?;
                Some(about)
            }
            None => None,
        };
        let also = given.also;
        if self.begun.phase == Phase::Install {
            let source = given.workspace.as_ref();
            self.install((source, &also), given.install_output, fingerprints)
                .await?;
        }
        let gate = self.gate().await?;
        let ca_pem = gate.ca_pem().await.map_err(|e| internal(&e))?;
        self.still_starting()?;
        let (mut hidden, copy) = self.workspace(given.workspace, fingerprints).await?;
        if let Some(origin) = &origin {
            checkpoints::bring_baseline(self.desk, self.session, origin).await?;
        }
        self.note_hidden(&hidden).await?;
        self.sandbox(Phase::Locked, ca_pem, &also).await?;
        gate.guest().await.map_err(|e| internal(&e))?;
        let carried = (Phase::Locked, copy);
        let of_also = self.carry_in(&gate, carried, &also, fingerprints).await?;
        self.note_hidden(&of_also).await?;
        hidden.extend(of_also);
        Ok(hidden)
    }

    /// Where the sandbox is a machine, its directories go in over the link. Returns what was hidden
    /// of those that are listed under `also`.
    pub(super) async fn carry_in(
        &self,
        gate: &Gate,
        (phase, copy): (Phase, Option<OwnedFd>),
        also: &[OwnedFd],
        fingerprints: &[Fingerprint],
    ) -> Result<Hidden, Failure> {
        let (hidden, shown_bytes) = self.show(gate, also, fingerprints).await?;
        let shape = &self.begun.grant.sandbox;
        let carried = Carried::of(shape, (self.isolation, phase), copy, shown_bytes);
        if let Some(carried) = carried {
            self.still_starting()?;
            transfer::fill(self.desk, self.session, self.caller, (gate, carried)).await?;
        }
        Ok(hidden)
    }

    async fn note_hidden(&self, hidden: &Hidden) -> Result<(), Failure> {
        for (place, shape) in hidden {
            let (place, shape) = (place.clone(), shape.clone());
            self.note(SessionNote::Hidden { place, shape }).await?;
        }
        Ok(())
    }

    /// Has something of the start written down.
    async fn note(&self, note: SessionNote) -> Result<(), Failure> {
        let session = self.session.clone();
        let message = DeskMessage::Note { session, note };
        let told = self.desk.notary.tell(&message).await;
        told.map_err(|e| internal(&e))
    }

    /// A fresh gate for this session, with a CA of its own.
    pub(super) async fn gate(&self) -> Result<Rc<Gate>, Failure> {
        self.still_starting()?;
        let mut coming = self.desk.sessions.expect_gate(self.session);
        let (session, generation) = (self.session.clone(), self.begun.generation);
        let order = Order::SpawnGate {
            session,
            generation,
        };
        self.desk.order(&order).await.map_err(|e| internal(&e))?;
        let joined = tokio::time::timeout(GATE_WAIT, coming.recv()).await;
        let gate = joined
            .ok()
            .flatten()
            .ok_or_else(|| internal(&anyhow!("no gate came up")))?;
        let (desk, id, follow) = (Rc::clone(self.desk), self.session.clone(), Rc::clone(&gate));
        tokio::task::spawn_local(async move { desk.follow(&id, &follow).await });
        let limits = self.begun.grant.sandbox.limits.clone();
        let tripwires = self.begun.tripwires.clone();
        let configure = GateRequest::Configure(Box::new(GateConfiguration { limits, tripwires }));
        gate.tell(&configure, &[]).await.map_err(|e| internal(&e))?;
        Ok(gate)
    }

    /// Starts the sandbox of a phase and keeps the environment that its commands start from.
    pub(super) async fn sandbox(
        &self,
        phase: Phase,
        ca_pem: String,
        also: &[OwnedFd],
    ) -> Result<(), Failure> {
        self.still_starting()?;
        let shape = &self.begun.grant.sandbox;
        let mut env = shape.env.clone();
        env.extend(self.wanted.env.iter().cloned());
        env.extend(self.placeholders(phase));
        let wires = &self.begun.tripwires;
        env.extend(tripwires::variable(wires, &env));
        let git_hosts = self
            .begun
            .grant
            .git
            .iter()
            .map(|git| git.endpoint.host.to_string());
        let order = LauncherRequest::Start(Box::new(SandboxOrder {
            session: self.session.clone(),
            phase,
            tenant: super::tenant()?,
            isolation: self.isolation,
            also: self.listed(also)?,
            workspace: shape.workspace,
            files: shape.files.clone(),
            env,
            limits: shape.limits.clone(),
            ca_pem,
            git_hosts: git_hosts.collect(),
            home: tripwires::files(wires),
            image: shape.image.digest().cloned(),
        }));
        let give: Vec<_> = also.iter().map(AsFd::as_fd).collect();
        match self.launcher(&order, &give).await?.0 {
            LauncherReply::Started {
                environment,
                claimed,
            } => {
                if shape.image.digest().is_some() {
                    // Its maker's variables enter like a person's.
                    let known = super::fingerprints(self.desk).await?;
                    let texts = environment.iter().map(|(name, text)| {
                        (format!("the image's variable {name}"), text.as_str())
                    });
                    crate::front_door::check_strings("image", texts, &known)?;
                }
                self.desk
                    .sessions
                    .with(self.session, |row| row.environment = environment);
                match claimed {
                    Some(sandbox) => self.note(SessionNote::SandboxClaimed { sandbox }).await,
                    None => Ok(()),
                }
            }
            _ => Err(out_of_turn("launcher")),
        }
    }

    /// The directories of `also`, each of which the caller handed over.
    fn listed(&self, handed: &[OwnedFd]) -> Result<Vec<(PathBuf, PathBuf)>, Failure> {
        let places = also_directories(&self.begun.grant.sandbox.also, &self.wanted.also)?;
        if places.len() == handed.len() {
            return Ok(places);
        }
        Err(Failure {
            code: "also_mismatch".to_owned(),
            message: "the directories of `also` were not all handed over".to_owned(),
            hint: "run the torno and tornod of one release".to_owned(),
        })
    }

    /// The variables with placeholders of the credentials that belong to a phase.
    fn placeholders(&self, phase: Phase) -> impl Iterator<Item = (String, String)> {
        let of_phase = move |name: &String| {
            let secrets = self.begun.grant.secrets.iter();
            secrets
                .filter(|s| s.phase == phase)
                .any(|s| s.env.as_ref() == Some(name))
        };
        let all = self.begun.placeholders.iter();
        all.filter(move |(name, _)| of_phase(name)).cloned()
    }

    /// A kill may come at any moment of a start; what it claimed must not go on.
    pub(super) fn still_starting(&self) -> Result<(), Failure> {
        match self.desk.sessions.with(self.session, |row| row.life) {
            Some(Life::Starting) => Ok(()),
            _ => Err(ended_meanwhile()),
        }
    }

    /// Asks the launcher; its failure is the start's.
    pub(super) async fn launcher(
        &self,
        request: &LauncherRequest,
        give: &[BorrowedFd<'_>],
    ) -> Result<(LauncherReply, Vec<OwnedFd>), Failure> {
        self.desk.launcher.ask_for(request, give).await
    }
}

/// The start's end when somebody ended the session first.
pub(super) fn ended_meanwhile() -> Failure {
    Failure {
        code: "session_ended".to_owned(),
        message: "the session was ended or killed while it started".to_owned(),
        hint: "start another one".to_owned(),
    }
}

/// Pairs the grant's directories, as the person wrote them, with their places on the host: what
/// lay under `~` lies under the sandbox's home, everything else where it was.
pub(super) fn also_directories(
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
