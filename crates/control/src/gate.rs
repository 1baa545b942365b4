// SPDX-License-Identifier: Apache-2.0
//! The gate: one session's egress and its guest. It parses what a workload sends, so it holds as
//! little as can be: sockets that were handed to it, the session's CA, and the one credential in
//! use. It can make no socket and open no file; ending its process is cutting the session off.
//!
//! ```text
//!   started ── roots read, confined ──▶ made ahead ── Serve ──▶ one session's ──▶ ended
//!                                            └── supervisor gone ─────────────────▲
//! ```
//! Nothing of a session is in a gate made ahead: its keys are made after `Serve`.

mod courier;
mod dialer_port;
mod entries;
mod exec;
mod link;
mod notary_port;
mod transfer;

use crate::confine;
use crate::front_door::stream::StreamSearch;
use crate::orders::{
    FromSupervisor, GateEvent, GateRequest, SandboxReady, WorkspaceOrder, WorkspaceWay,
};
use crate::role_channel::{self, exactly, receive};
use crate::roles::Role;
use anyhow::{Context, bail};
use dialer_port::DialerPort;
use link::Link;
use notary_port::NotaryPort;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, watch};
use torno_control_api::channel::Channel;
use torno_egress::{Pipeline, Ports};
use torno_guest_protocol::{ExecId, FileFailure, HostMessage, RequestId, TerminalSize};
use torno_policy::grant::FileRules;

/// What the gate's tasks share.
struct Gate {
    desk: Arc<Channel>,
    pipeline: Arc<Pipeline>,
    link: watch::Receiver<Option<Arc<Link>>>,
    /// Running commands: where a client that joins is sent.
    joining: Mutex<BTreeMap<u64, mpsc::UnboundedSender<OwnedFd>>>,
}

/// Runs the role until the supervisor, the notary or the guest is gone.
pub(crate) async fn run(supervisor: Channel) -> anyhow::Result<()> {
    let (start, _) = receive(&supervisor).await?.context("no start")?;
    let FromSupervisor::Start(start) = start else {
        bail!("no start")
    };
    let trust = entries::Trust::load(&start.upstreams);
    confine::role(Role::Gate, &[])?;
    let Some((FromSupervisor::Serve, descriptors)) = receive(&supervisor).await? else {
        // The daemon ended before any session came.
        return Ok(());
    };
    let [notary, dialer, launcher, desk] = exactly(descriptors)?;
    let desk = Arc::new(Channel::new(desk)?);
    let (refusals, refused) = mpsc::unbounded_channel();
    let (notary, mut revocations) = NotaryPort::new(Channel::new(notary)?, refusals);
    let ports = Ports {
        ask: Arc::clone(&notary) as Arc<_>,
        dial: Arc::new(DialerPort::new(Channel::new(dialer)?)),
        clock: Arc::new(entries::SystemClock),
    };
    let pipeline = match configure(&desk, trust, ports).await {
        Ok(pipeline) => pipeline,
        Err(error) => {
            let event = GateEvent::Unusable {
                message: format!("{error:#}"),
            };
            return role_channel::send(&desk, &event, &[]).await;
        }
    };
    let ready = GateEvent::Ready {
        ca_pem: pipeline.ca_pem().to_owned(),
    };
    role_channel::send(&desk, &ready, &[]).await?;
    let (linked, link) = watch::channel(None);
    let gate = Arc::new(Gate {
        desk: Arc::clone(&desk),
        pipeline: Arc::clone(&pipeline),
        link,
        joining: Mutex::default(),
    });
    tokio::spawn(tell_refusals(Arc::clone(&desk), refused));
    let guest = serve_sandbox(
        Channel::new(launcher)?,
        Arc::clone(&pipeline),
        &gate,
        linked,
    );
    tokio::pin!(guest);
    loop {
        tokio::select! {
            request = receive::<GateRequest>(&desk) => match request? {
                Some((request, given)) => gate.obey(request, given).await?,
                None => bail!("the desk is gone"),
            },
            revoked = revocations.recv() => match revoked {
                Some(credential) => {
                    pipeline.revoke(credential.as_ref());
                    notary.tell_cut();
                }
                None => bail!("the notary is gone: nothing may leave"),
            },
            ended = &mut guest => return ended,
            gone = supervisor.receive() => {
                gone?;
                return Ok(());
            }
        }
    }
}

/// Waits for the session's limits and makes the pipeline with a CA of the session's own.
async fn configure(
    desk: &Channel,
    trust: anyhow::Result<entries::Trust>,
    ports: Ports,
) -> anyhow::Result<Arc<Pipeline>> {
    let (request, _) = receive::<GateRequest>(desk)
        .await?
        .context("the desk is gone")?;
    let GateRequest::Configure(configuration) = request else {
        bail!("no configuration")
    };
    entries::pipeline(&configuration, trust?, ports)
}

/// Tells the desk what was refused, for the summary at the session's end.
async fn tell_refusals(
    desk: Arc<Channel>,
    mut refused: mpsc::UnboundedReceiver<(String, torno_policy::Refusal)>,
) {
    while let Some((target, refusal)) = refused.recv().await {
        let target = target.chars().take(256).collect();
        if role_channel::send(&desk, &GateEvent::Refused { target, refusal }, &[])
            .await
            .is_err()
        {
            return;
        }
    }
}

/// Waits for the sandbox, then serves its way out and its guest until the link ends.
async fn serve_sandbox(
    launcher: Channel,
    pipeline: Arc<Pipeline>,
    gate: &Gate,
    linked: watch::Sender<Option<Arc<Link>>>,
) -> anyhow::Result<()> {
    let (link, couriered) = match receive(&launcher).await? {
        Some((SandboxReady::Sockets, given)) => {
            let [tcp_v4, tcp_v6, dns_udp, dns_tcp, proxy, link] = exactly(given)?;
            let way_out = entries::WayOut {
                tcp_v4,
                tcp_v6,
                dns_udp,
                dns_tcp,
                proxy,
            };
            entries::serve(way_out, pipeline)?;
            (link, None)
        }
        Some((SandboxReady::Link, given)) => {
            let [link] = exactly(given)?;
            let entries = entries::Entries::new(pipeline);
            let serve: courier::Serve = Box::new(move |stream, entry| entries.serve(stream, entry));
            (link, Some(serve))
        }
        None => bail!("the launcher is gone"),
    };
    let opened = link::open(link, couriered).await;
    if let Err(error) = &opened {
        let event = GateEvent::Unusable {
            message: format!("{error:#}"),
        };
        role_channel::send(&gate.desk, &event, &[]).await?;
    }
    let (link, reader) = opened?;
    linked.send_replace(Some(link));
    role_channel::send(&gate.desk, &GateEvent::GuestReady, &[]).await?;
    reader.await.context("the link")
}

impl Gate {
    /// What the desk wants.
    async fn obey(
        self: &Arc<Self>,
        request: GateRequest,
        given: Vec<OwnedFd>,
    ) -> anyhow::Result<()> {
        if matches!(request, GateRequest::CloseWayOut) {
            let [] = exactly(given)?;
            self.close_way_out();
            return Ok(());
        }
        let [stream] = exactly(given)?;
        match request {
            GateRequest::Configure(_) | GateRequest::CloseWayOut => {
                bail!("a second configuration")
            }
            GateRequest::JoinExec { exec } => {
                if let Some(joining) = self.joining().get(&exec) {
                    // A command that ended meanwhile closes the stream.
                    let _ = joining.send(stream);
                }
            }
            GateRequest::MoveWorkspace(order) => {
                let gate = Arc::clone(self);
                tokio::spawn(async move {
                    let transfer = order.transfer;
                    let failure = gate.move_workspace(order, stream).await.err();
                    let moved = GateEvent::WorkspaceMoved { transfer, failure };
                    // A desk that is gone ends this gate.
                    let _ = role_channel::send(&gate.desk, &moved, &[]).await;
                });
            }
            GateRequest::StartExec(order) => {
                let (join, joining) = mpsc::unbounded_channel();
                self.joining().insert(order.exec, join);
                let gate = Arc::clone(self);
                tokio::spawn(async move {
                    let exec = order.exec;
                    let mut order = *order;
                    let fingerprints = std::mem::take(&mut order.fingerprints);
                    let search = StreamSearch::new(fingerprints);
                    let status = match gate.start_exec(order).await {
                        Ok((link, handle)) => {
                            exec::run(link, handle, (stream, joining), search).await
                        }
                        Err(error) => {
                            exec::fail(stream, "failed", &format!("{error:#}")).await;
                            125
                        }
                    };
                    gate.joining().remove(&exec);
                    // A desk that is gone ends this gate.
                    let ended = GateEvent::ExecEnded { exec, status };
                    let _ = role_channel::send(&gate.desk, &ended, &[]).await;
                });
            }
        }
        Ok(())
    }

    async fn start_exec(
        &self,
        order: crate::orders::ExecOrder,
    ) -> anyhow::Result<(Arc<Link>, link::ExecHandle)> {
        let link = self
            .link
            .borrow()
            .clone()
            .context("the guest agent is not up")?;
        let exec = ExecId(u32::try_from(order.exec).context("too many commands")?);
        let handle = link.enter(exec)?;
        let size = |t: torno_control_api::request::TerminalSize| TerminalSize {
            rows: t.rows,
            columns: t.columns,
        };
        link.say(&HostMessage::StartProcess {
            exec,
            argv: order.argv,
            env: order.env,
            cwd: order.cwd,
            tty: order.terminal.map(size),
        })
        .await?;
        Ok((link, handle))
    }

    /// The session is over but for its files: nothing leaves any more.
    fn close_way_out(&self) {
        if let Some(link) = &*self.link.borrow() {
            link.close_way_out();
        }
        self.pipeline.close();
    }

    async fn move_workspace(
        &self,
        order: WorkspaceOrder,
        stream: OwnedFd,
    ) -> Result<(), FileFailure> {
        let link = self.link.borrow().clone().ok_or(FileFailure::Failed)?;
        let transfer = u32::try_from(order.transfer).map_err(|_| FileFailure::Failed)?;
        let request = RequestId(transfer);
        match order.way {
            WorkspaceWay::In { files } => {
                let FileRules { write, hide } = files;
                let order = HostMessage::FillWorkspace {
                    request,
                    write,
                    hide,
                };
                transfer::fill(link, &order, request, stream).await
            }
            WorkspaceWay::Show { inside, bytes_max } => {
                let order = HostMessage::ShowDirectory {
                    request,
                    path: inside,
                    bytes_max,
                };
                transfer::fill(link, &order, request, stream).await
            }
            WorkspaceWay::Out { bytes_max, last } => {
                if last {
                    // The session is over but for its files: nothing leaves while they come out.
                    self.close_way_out();
                }
                let order = HostMessage::PackWorkspace {
                    request,
                    bytes_max,
                    last,
                };
                transfer::pack(link, &order, (request, bytes_max), stream).await
            }
        }
    }

    fn joining(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, mpsc::UnboundedSender<OwnedFd>>> {
        // The table is consistent after every statement, so a poisoned lock is still good.
        self.joining.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
