// SPDX-License-Identifier: Apache-2.0
//! The gates' processes. Ending one is cutting its session off: its sockets die with it.

use super::Supervisor;
use crate::orders::{FromSupervisor, Start};
use crate::role_channel::send;
use crate::roles::{Role, uids};
use crate::spawn::{Spawned, User, spawn};
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::process::Child;
use torno_control_api::channel::{self, Channel};
use torno_policy::names::{Generation, SessionId};

/// Every live gate.
#[derive(Default)]
pub(super) struct Gates {
    live: BTreeMap<SessionId, Gate>,
    started: u32,
}

struct Gate {
    child: Child,
    /// Kept open: a gate exits when it closes.
    _channel: Channel,
}

impl Gates {
    /// SIGKILL and wait: when this returns the process and its sockets are gone. False when the
    /// session had no gate.
    pub(super) fn end(&mut self, session: &SessionId) -> bool {
        let Some(mut gate) = self.live.remove(session) else {
            return false;
        };
        // Killing a child that has ended by itself fails, and waiting collects it.
        let _ = gate.child.kill();
        let _ = gate.child.wait();
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
        let ended = |gate: &mut Gate| matches!(gate.child.try_wait(), Ok(Some(_)));
        let gone: Vec<_> = self
            .live
            .iter_mut()
            .filter_map(|(session, gate)| ended(gate).then(|| session.clone()))
            .collect();
        for session in &gone {
            self.live.remove(session);
        }
        gone
    }
}

impl Supervisor {
    /// Starts a session's gate and hands notary, dialer, launcher and desk their ends.
    pub(super) async fn spawn_gate(
        &mut self,
        session: SessionId,
        generation: Generation,
    ) -> anyhow::Result<()> {
        anyhow::ensure!(
            !self.gates.live.contains_key(&session),
            "it has one already"
        );
        let id = uids::gate(self.gates.started);
        self.gates.started = self.gates.started.wrapping_add(1);
        let user = self.root.then_some(User { uid: id, gid: id });
        let Spawned { child, channel } = spawn(Role::Gate, user, &self.log)?;
        let channel = Channel::new(channel)?;
        let mut ends = Vec::new();
        for role in [Role::Notary, Role::Dialer, Role::Launcher, Role::Desk] {
            let (ours, theirs) = channel::pair()?;
            ends.push(ours);
            let joined = FromSupervisor::GateJoined {
                session: session.clone(),
                generation,
            };
            send(self.channel(role)?, &joined, &[theirs.as_fd()]).await?;
        }
        let start = FromSupervisor::Start(Box::new(Start {
            directory: "/".into(),
            organisation: None,
            upstreams: self.upstreams.clone(),
            root: self.root,
            session: Some(session.clone()),
            operator_digest: None,
            guest: "/".into(),
            receipt_key: None,
            owner_uid: 0,
        }));
        let give: Vec<_> = ends.iter().map(AsFd::as_fd).collect();
        send(&channel, &start, &give).await?;
        self.gates.live.insert(
            session,
            Gate {
                child,
                _channel: channel,
            },
        );
        Ok(())
    }
}
