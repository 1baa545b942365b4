// SPDX-License-Identifier: Apache-2.0
//! The gates' processes. Ending one is cutting its session off: its sockets die with it.

use super::Supervisor;
use crate::orders::{FromSupervisor, Start};
use crate::role_channel::send;
use crate::roles::{Role, uids};
use crate::spawn::{Spawned, User, spawn};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;
use torno_control_api::channel::{self, Channel};
use torno_policy::names::{Generation, SessionId};

/// Every live gate.
#[derive(Default)]
pub(super) struct Gates {
    live: BTreeMap<SessionId, Gate>,
    started: u32,
}

/// One gate's process.
pub(super) struct Gate {
    child: Child,
    /// Kept open: a gate exits when it closes.
    channel: Channel,
}

impl Gate {
    /// SIGKILL and wait: when this returns the process and its sockets are gone.
    pub(super) fn end(&mut self) {
        // Killing a child that has ended by itself fails, and waiting collects it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Whether its process has ended; one that has is collected.
    pub(super) fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }
}

impl Gates {
    /// Ends a session's gate; false when it had none.
    pub(super) fn end(&mut self, session: &SessionId) -> bool {
        let Some(mut gate) = self.live.remove(session) else {
            return false;
        };
        gate.end();
        true
    }

    /// [`Self::end`] for all: first the signals, then the waiting.
    pub(super) fn end_all(&mut self) {
        for gate in self.live.values_mut() {
            let _ = gate.child.kill();
        }
        for gate in self.live.values_mut() {
            let _ = gate.child.wait();
        }
    }

    /// Removes ended gates and names their sessions.
    pub(super) fn reap(&mut self) -> Vec<SessionId> {
        let gone: Vec<_> = self
            .live
            .iter_mut()
            .filter_map(|(session, gate)| gate.has_ended().then(|| session.clone()))
            .collect();
        for session in &gone {
            self.live.remove(session);
        }
        gone
    }
}

impl Supervisor {
    /// Gives a session its gate, the one made ahead or a new one, and hands notary, dialer,
    /// launcher and desk their ends. Only now does anybody know which session that gate serves.
    pub(super) async fn spawn_gate(
        &mut self,
        session: SessionId,
        generation: Generation,
    ) -> anyhow::Result<()> {
        anyhow::ensure!(
            !self.gates.live.contains_key(&session),
            "it has one already"
        );
        let mut ends = Vec::new();
        let mut joining = Vec::new();
        for role in [Role::Notary, Role::Dialer, Role::Launcher, Role::Desk] {
            let (ours, theirs) = channel::pair()?;
            ends.push(ours);
            joining.push((role, theirs));
        }
        let gate = self.serving(&ends).await?;
        for (role, theirs) in joining {
            let joined = FromSupervisor::GateJoined {
                session: session.clone(),
                generation,
            };
            send(self.channel(role)?, &joined, &[theirs.as_fd()]).await?;
        }
        self.gates.live.insert(session, gate);
        Ok(())
    }

    /// A gate that has taken these ends.
    async fn serving(&mut self, ends: &[OwnedFd]) -> anyhow::Result<Gate> {
        let give: Vec<_> = ends.iter().map(AsFd::as_fd).collect();
        if let Some(mut gate) = self.spare.take() {
            match send(&gate.channel, &FromSupervisor::Serve, &give).await {
                Ok(()) => return Ok(gate),
                // It died a moment ago: the session gets a new one and doesn't notice.
                Err(error) => tracing::warn!("the gate made ahead: {error:#}"),
            }
            gate.end();
        }
        let gate = self.make_gate().await?;
        send(&gate.channel, &FromSupervisor::Serve, &give).await?;
        Ok(gate)
    }

    /// Starts a gate's process, which serves nobody yet.
    pub(super) async fn make_gate(&mut self) -> anyhow::Result<Gate> {
        let id = uids::gate(self.gates.started);
        self.gates.started = self.gates.started.wrapping_add(1);
        let user = self.root.then_some(User { uid: id, gid: id });
        let Spawned { child, channel } = spawn(Role::Gate, user, &self.log)?;
        let gate = Gate {
            child,
            channel: Channel::new(channel)?,
        };
        let start = FromSupervisor::Start(Box::new(Start {
            directory: "/".into(),
            organisation: None,
            upstreams: self.upstreams.clone(),
            root: self.root,
            operator_digest: None,
            guest: "/".into(),
            receipt_key: None,
            pool: 0,
            kvm: false,
            templates: 0,
            owner_uid: 0,
            images: "/".into(),
        }));
        send(&gate.channel, &start, &[]).await?;
        Ok(gate)
    }
}
