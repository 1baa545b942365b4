// SPDX-License-Identifier: Apache-2.0
//! The gates' processes. Ending one is cutting its session off: its sockets die with it.

use super::Supervisor;
use crate::orders::{FromSupervisor, GateNumber, Keeping, Order, Start};
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
    /// How many were given to sessions.
    given: u64,
}

/// One gate's process.
pub(super) struct Gate {
    child: Child,
    /// Its own; one that waits has none yet.
    number: GateNumber,
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
    /// The number of the next gate that a session gets.
    pub(super) fn number(&mut self) -> GateNumber {
        self.given += 1;
        GateNumber(self.given)
    }

    /// Ends a session's gate; its number, if it had one.
    pub(super) fn end(&mut self, session: &SessionId) -> Option<GateNumber> {
        let mut gate = self.live.remove(session)?;
        gate.end();
        Some(gate.number)
    }

    /// Ends this very gate of a session; false when it is gone, whichever the session has now.
    pub(super) fn end_lost(&mut self, session: &SessionId, number: GateNumber) -> bool {
        let live = self.live.get(session);
        live.is_some_and(|gate| gate.number == number) && self.end(session).is_some()
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

    /// Removes ended gates and names them.
    pub(super) fn reap(&mut self) -> Vec<(SessionId, GateNumber)> {
        let live = self.live.iter_mut();
        let gone: Vec<_> = live
            .filter_map(|(session, gate)| {
                let name = (session.clone(), gate.number);
                gate.has_ended().then_some(name)
            })
            .collect();
        for (session, _) in &gone {
            self.live.remove(session);
        }
        gone
    }
}

impl Supervisor {
    /// A gate that has no notary any more, by its own doing or the notary's. What it was released
    /// ends with its process.
    pub(super) async fn end_lost(&mut self, order: Order) -> anyhow::Result<()> {
        let Order::EndLostGate { session, number } = order else {
            anyhow::bail!("the notary orders nothing but the end of what it lost");
        };
        if self.gates.end_lost(&session, number) {
            return self.gate_left(session, number).await;
        }
        // It ended before its notary saw that it had left: who waits for it hears so again.
        let left = FromSupervisor::GateLeft { session, number };
        send(self.channel(Role::Notary)?, &left, &[]).await
    }

    /// Tells who holds something for a gate that it ended.
    pub(super) async fn gate_left(
        &self,
        session: SessionId,
        number: GateNumber,
    ) -> anyhow::Result<()> {
        let left = FromSupervisor::GateLeft { session, number };
        // The desk first: a sandbox whose gate is gone ends too, and would be the cause.
        for role in [Role::Desk, Role::Notary, Role::Dialer] {
            send(self.channel(role)?, &left, &[]).await?;
        }
        Ok(())
    }

    /// Gives a session its gate, the one made ahead or a new one, and hands notary, dialer,
    /// launcher and desk their ends. Only now does anybody know which session that gate serves.
    pub(super) async fn spawn_gate(
        &mut self,
        session: SessionId,
        generation: Generation,
        number: GateNumber,
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
        let mut gate = self.serving(&ends).await?;
        gate.number = number;
        for (role, theirs) in joining {
            let joined = FromSupervisor::GateJoined {
                session: session.clone(),
                generation,
                number,
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
            number: GateNumber(0),
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
            checkpoints: Keeping::default(),
            images: "/".into(),
        }));
        send(&gate.channel, &start, &[]).await?;
        Ok(gate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// A session whose install phase is over has its second gate while its notary still finds that
    /// the first is lost.
    #[tokio::test]
    async fn a_lost_gate_takes_no_other_of_its_session_along() {
        // ATTACK: 101
        let session = SessionId::parse("abcdefghijklmnopqrstuvwxyz").unwrap();
        let mut gates = Gates::default();
        let (first, second) = (gates.number(), gates.number());
        let (ours, _theirs) = channel::pair().unwrap();
        let gate = Gate {
            child: Command::new("sleep").arg("60").spawn().unwrap(),
            number: second,
            channel: Channel::new(ours).unwrap(),
        };
        gates.live.insert(session.clone(), gate);
        assert!(!gates.end_lost(&session, first));
        assert!(gates.reap().is_empty());
        assert!(gates.end_lost(&session, second));
        assert!(!gates.end_lost(&session, second));
    }
}
