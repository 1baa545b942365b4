// SPDX-License-Identifier: Apache-2.0
//! The install phase: dependencies are fetched before anything of the agent runs. It has a gate
//! and a sandbox of its own, sees only the files that the grant lists, and is recorded like
//! everything else. Then it is locked, one-way: its gate's process and every process of its
//! sandbox end, and only files cross.

use super::super::{porters, transfer};
use super::attempt::Attempt;
use super::files::workspace_missing;
use super::{internal, of_refusal, out_of_turn};
use crate::orders::{
    ExecOrder, GateRequest, LauncherReply, LauncherRequest, Order, PorterJob, PorterReply,
};
use anyhow::anyhow;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
use torno_control_api::request::Failure;
use torno_notary_protocol::desk::{DeskMessage, DeskReply, Fingerprint, SessionNote};
use torno_policy::grant::{InstallGrant, WorkspaceMode};
use torno_policy::standing::Phase;

impl Attempt<'_> {
    /// Runs the phase and locks the session.
    pub(super) async fn install(
        &self,
        (source, also): (Option<&OwnedFd>, &[OwnedFd]),
        output: Option<OwnedFd>,
        fingerprints: &[Fingerprint],
    ) -> Result<(), Failure> {
        let Some(install) = &self.begun.grant.install else {
            return Err(out_of_turn("notary"));
        };
        if self.begun.grant.sandbox.workspace != WorkspaceMode::Copy {
            return Err(Failure {
                code: "install_needs_copy".to_owned(),
                message: "an install phase works on a copy of the workspace".to_owned(),
                hint: "say `workspace = { mode = \"copy\" }`, or take [install] out".to_owned(),
            });
        }
        let gate = self.gate().await?;
        let ca_pem = gate.ca_pem().await.map_err(|e| internal(&e))?;
        let target = self.prepare(Phase::Install).await?;
        let source = source.ok_or_else(workspace_missing)?;
        self.copy_in(source, &target, Some(install.see.clone()), fingerprints)
            .await?;
        self.sandbox(Phase::Install, ca_pem, also).await?;
        gate.guest().await.map_err(|e| internal(&e))?;
        let carried = (Phase::Install, Some(target));
        // What is hidden of `also` is told of the phase that follows.
        self.carry_in(&gate, carried, also, fingerprints).await?;
        self.run_commands(install, &gate, output.as_ref()).await?;
        // Only files cross, and they lie in the machine's memory.
        let brought = transfer::bring_last(self.desk, self.session).await;
        brought.map_err(|e| transfer::not_brought(self.session, &format!("{e:#}")))?;
        self.lock().await
    }

    async fn run_commands(
        &self,
        install: &InstallGrant,
        gate: &super::super::gates::Gate,
        output: Option<&OwnedFd>,
    ) -> Result<(), Failure> {
        let wait = Duration::from_secs(self.begun.grant.sandbox.limits.wall_seconds);
        let end = tokio::time::Instant::now() + wait;
        for argv in &install.run {
            self.still_starting()?;
            let entered = self.desk.sessions.with(self.session, |row| {
                (row.add_command(argv.clone()), row.environment.clone())
            });
            let (exec, env) = entered.ok_or_else(|| internal(&anyhow!("the session is gone")))?;
            let note = SessionNote::CommandStarted {
                exec,
                argv: argv.clone(),
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
            let (argv, cwd) = (argv.clone(), "/workspace".to_owned());
            let order = ExecOrder {
                // Nobody types into an install step.
                fingerprints: Vec::new(),
                exec,
                argv,
                env,
                cwd,
                terminal: None,
            };
            let stream = output_stream(output)?;
            let request = GateRequest::StartExec(Box::new(order));
            gate.tell(&request, &[stream.as_fd()])
                .await
                .map_err(|e| internal(&e))?;
            let ended = tokio::time::timeout_at(end, gate.exec_ended(exec)).await;
            match ended {
                Ok(Some(0)) => {}
                Ok(Some(status)) => return Err(failed(exec, &format!("ended with {status}"))),
                Ok(None) => return Err(failed(exec, "was lost with its gate")),
                Err(_) => return Err(failed(exec, "ran out of the session's wall time")),
            }
        }
        Ok(())
    }

    /// One-way: the gate's process ends and with it every stream, every process of the sandbox is
    /// killed, and the notary is told that nothing of the phase's rules counts any more.
    async fn lock(&self) -> Result<(), Failure> {
        let session = self.session;
        self.desk
            .order(&Order::EndGate {
                session: session.clone(),
            })
            .await
            .map_err(|e| internal(&e))?;
        match self
            .launcher(
                &LauncherRequest::Kill {
                    session: session.clone(),
                },
                &[],
            )
            .await?
            .0
        {
            LauncherReply::Killed { after: 0, .. } => {}
            _ => {
                return Err(internal(&anyhow!(
                    "a process of the install phase is still alive"
                )));
            }
        }
        let leave = LauncherRequest::LeaveInstall {
            session: session.clone(),
        };
        self.launcher(&leave, &[]).await?;
        let lock = |ticket| DeskMessage::Lock {
            ticket,
            session: session.clone(),
        };
        match self.desk.notary.ask(lock).await.map_err(|e| internal(&e))? {
            DeskReply::Done { .. } => Ok(()),
            DeskReply::Refused { refusal, .. } => Err(of_refusal(&refusal)),
            _ => Err(out_of_turn("notary")),
        }
    }

    /// Moves the phase's new files into the workspace and notes them as what lay there.
    pub(super) async fn bring_install_results(&self, target: &OwnedFd) -> Result<(), Failure> {
        let (session, owner) = (self.session.clone(), self.caller.uid);
        let merge = LauncherRequest::MergeInstall { session, owner };
        self.launcher(&merge, &[]).await?;
        let baseline = self
            .desk
            .baseline(self.session, true)
            .map_err(|e| internal(&e))?;
        let give = [target.as_fd(), baseline.as_fd()];
        let reply = porters::run(
            self.desk,
            self.session,
            self.caller,
            &PorterJob::Note,
            &give,
        )
        .await;
        match reply.map_err(|e| internal(&e))? {
            PorterReply::Done { .. } => Ok(()),
            PorterReply::Failed { message } => Err(internal(&anyhow!(message))),
            _ => Err(out_of_turn("porter")),
        }
    }
}

/// The client's stream again, or one whose other end is closed: then output is dropped.
fn output_stream(output: Option<&OwnedFd>) -> Result<OwnedFd, Failure> {
    let stream = match output {
        Some(output) => output.try_clone().map_err(anyhow::Error::from),
        None => std::os::unix::net::UnixStream::pair()
            .map(|(ours, _)| ours.into())
            .map_err(anyhow::Error::from),
    };
    stream.map_err(|e| internal(&e))
}

fn failed(exec: u64, what: &str) -> Failure {
    Failure {
        code: "install_failed".to_owned(),
        message: format!("command {exec} of the install phase {what}"),
        hint: "its output is above; what it was refused is in `torno audit tail`".to_owned(),
    }
}
