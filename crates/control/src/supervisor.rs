// SPDX-License-Identifier: Apache-2.0
//! The supervisor: opens sockets and directories, starts the roles, hands them their descriptors,
//! and notices every death. It parses nothing but packets of fixed size ([`Order`]).
//!
//! A standing role's death ends the daemon: notary or dialer gone, nothing may leave; desk gone,
//! nobody can stop a session; launcher gone, its keepers kill the sandboxes. Ending closes every
//! channel, each role sees that and exits, and the next start finds no orphan.

mod gates;
mod places;
mod porters;
mod spare;

use crate::orders::{FromSupervisor, Keeping, Order, Start};
use crate::role_channel::send;
use crate::roles::{Role, uids};
use crate::settings::Settings;
use crate::spawn::{Spawned, User, spawn};
use crate::upstreams::{Upstreams, read_bounded};
use anyhow::{Context, bail};
use gates::Gates;
use porters::Porters;
use spare::Spare;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use torno_control_api::channel::{self, Channel, Listener, Packet};
use torno_control_api::kill_only;
use torno_control_api::paths::Paths;
use torno_policy::names::SessionId;

/// LIMIT: how long the roles get to end by themselves after their channels closed.
const END_WAIT: Duration = Duration::from_secs(5);

/// A standing role.
struct Standing {
    role: Role,
    child: Child,
    channel: Channel,
}

/// Everything the supervisor holds.
struct Supervisor {
    standing: Vec<Standing>,
    gates: Gates,
    spare: Spare,
    porters: Porters,
    root: bool,
    log: String,
    upstreams: Upstreams,
    settings: Settings,
}

/// What woke the supervisor up.
enum Event {
    Order(Packet),
    KillOnly(Channel),
    ChildEnded,
    /// The notary has lost a gate.
    Lost(Packet),
    SpareDue,
    Terminate,
    DeskGone,
}

/// Runs the daemon until a signal, or until a standing role dies.
pub(crate) async fn run(paths: &Paths, log: String) -> anyhow::Result<()> {
    let root = rustix::process::geteuid().is_root();
    places::make(paths, root)?;
    let _lock = places::lock(paths)?;
    places::outlive_earlier_roles(paths).await?;
    let upstreams = Upstreams::load(&paths.upstreams())?;
    let settings = Settings::load(&paths.settings())?;
    let token = places::operator_token(paths)?;
    let kill = Listener::new(places::listen(&paths.kill_socket())?)?;
    let mut child_ended = signal(SignalKind::child())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut supervisor = Supervisor {
        standing: Vec::new(),
        gates: Gates::default(),
        spare: Spare::default(),
        porters: Porters::default(),
        root,
        log,
        upstreams,
        settings,
    };
    supervisor.start_standing(paths, token).await?;
    sd_ready();
    loop {
        let desk = supervisor.channel(Role::Desk)?;
        let notary = supervisor.channel(Role::Notary)?;
        let event = tokio::select! {
            // A notary that is gone is collected like each role.
            Ok(Some(packet)) = notary.receive() => Event::Lost(packet),
            packet = desk.receive() => match packet {
                Ok(Some(packet)) => Event::Order(packet),
                Ok(None) | Err(_) => Event::DeskGone,
            },
            accepted = kill.accept() => match accepted {
                Ok((caller, _)) => Event::KillOnly(caller),
                Err(_) => continue,
            },
            _ = child_ended.recv() => Event::ChildEnded,
            () = tokio::time::sleep_until(supervisor.spare.due()) => Event::SpareDue,
            _ = terminate.recv() => Event::Terminate,
            _ = interrupt.recv() => Event::Terminate,
        };
        match event {
            Event::Order(packet) => supervisor.obey(packet).await?,
            Event::Lost(packet) => {
                let order = Order::decode(&packet.bytes).context("the notary sent no order")?;
                supervisor.end_lost(order).await?;
            }
            Event::KillOnly(caller) => supervisor.kill_only(&caller).await?,
            Event::ChildEnded => {
                if let Some(role) = supervisor.reap().await? {
                    supervisor.end().await;
                    bail!("the {role} died; everything was ended, start tornod again");
                }
            }
            Event::SpareDue => supervisor.renew_spare().await,
            Event::DeskGone => {
                supervisor.end().await;
                bail!("the desk died; everything was ended, start tornod again");
            }
            Event::Terminate => {
                supervisor.end().await;
                return Ok(());
            }
        }
    }
}

/// Tells systemd, when it started us (sd_notify(3)), that the roles are up.
fn sd_ready() {
    let Some(address) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    if let Ok(socket) = std::os::unix::net::UnixDatagram::unbound() {
        // A failed notice is systemd's to notice: it times the start out.
        let _ = socket.send_to(b"READY=1", address);
    }
}

impl Supervisor {
    fn channel(&self, role: Role) -> anyhow::Result<&Channel> {
        let found = self.standing.iter().find(|s| s.role == role);
        found
            .map(|s| &s.channel)
            .with_context(|| format!("no {role}"))
    }

    /// Starts the four standing roles and hands each its start.
    async fn start_standing(&mut self, paths: &Paths, token: [u8; 32]) -> anyhow::Result<()> {
        let api = places::listen(&paths.desk_socket())?;
        let operators = places::listen(&paths.notary_socket())?;
        let (desk_notary, notary_desk) = channel::pair()?;
        let (desk_launcher, launcher_desk) = channel::pair()?;
        let (notary_dialer, dialer_notary) = channel::pair()?;
        let mut receipt_key = [0_u8; 32];
        getrandom::fill(&mut receipt_key).context("no random bytes")?;
        let start = || Start {
            directory: paths.state().to_path_buf(),
            organisation: None,
            upstreams: Upstreams::default(),
            root: self.root,
            operator_digest: None,
            guest: places::guest(),
            receipt_key: None,
            pool: 0,
            kvm: false,
            templates: 0,
            owner_uid: rustix::process::geteuid().as_raw(),
            images: paths.images(),
            checkpoints: Keeping::default(),
        };
        let notary = Start {
            directory: paths.notary_state(),
            organisation: read_bounded(&paths.organisation())?,
            receipt_key: Some(receipt_key),
            ..start()
        };
        let dialer = Start {
            upstreams: self.upstreams.clone(),
            receipt_key: Some(receipt_key),
            ..start()
        };
        let launcher = Start {
            directory: paths.sandboxes(),
            pool: self.settings.pool,
            kvm: self.settings.kvm,
            templates: self.settings.templates,
            checkpoints: Keeping {
                directory: paths.checkpoints(),
                most: self.settings.checkpoints,
                bytes: self.settings.checkpoint_mib.saturating_mul(1 << 20),
                age: self.settings.checkpoint_days.saturating_mul(24 * 60 * 60),
            },
            ..start()
        };
        let desk = Start {
            directory: places::desk_state(paths),
            operator_digest: Some(token),
            ..start()
        };
        let alive = || places::roles_lock_share(paths);
        let give = vec![operators, notary_desk, notary_dialer, alive()?];
        self.start(Role::Notary, notary, give).await?;
        let give = vec![dialer_notary, alive()?];
        self.start(Role::Dialer, dialer, give).await?;
        let give = vec![launcher_desk, alive()?];
        self.start(Role::Launcher, launcher, give).await?;
        let give = vec![api, desk_notary, desk_launcher, alive()?];
        self.start(Role::Desk, desk, give).await
    }

    async fn start(&mut self, role: Role, start: Start, give: Vec<OwnedFd>) -> anyhow::Result<()> {
        let Spawned { child, channel } = spawn(role, self.user(role), &self.log)?;
        let channel = Channel::new(channel)?;
        let give: Vec<_> = give.iter().map(AsFd::as_fd).collect();
        send(&channel, &FromSupervisor::Start(Box::new(start)), &give).await?;
        self.standing.push(Standing {
            role,
            child,
            channel,
        });
        Ok(())
    }

    /// The user of a standing role: its own where there is root, but for the launcher.
    fn user(&self, role: Role) -> Option<User> {
        let id = match role {
            Role::Desk => uids::DESK,
            Role::Notary => uids::NOTARY,
            Role::Dialer => uids::DIALER,
            Role::Launcher | Role::Gate | Role::Porter => return None,
        };
        self.root.then_some(User { uid: id, gid: id })
    }

    /// Carries out an order of the desk. A packet that is no order ends the daemon: the desk is
    /// broken.
    async fn obey(&mut self, packet: Packet) -> anyhow::Result<()> {
        match Order::decode(&packet.bytes).context("the desk sent no order")? {
            Order::SpawnGate {
                session,
                generation,
            } => {
                let number = self.gates.number();
                let joined = self.spawn_gate(session.clone(), generation, number).await;
                if let Err(error) = joined {
                    tracing::error!("gate of {session}: {error:#}");
                    self.gate_left(session, number).await?;
                }
            }
            Order::EndGate { session } => {
                if let Some(number) = self.gates.end(&session) {
                    self.gate_left(session, number).await?;
                }
            }
            lost @ Order::EndLostGate { .. } => self.end_lost(lost).await?,
            Order::SpawnPorter { session, uid, gid } => {
                let user = self.root.then_some(User { uid, gid });
                // The desk hears of one that can't be made: its end of the channel closes.
                if let Err(error) = self.spawn_porter(session, user, &packet.descriptors) {
                    tracing::error!("no porter: {error:#}");
                }
            }
            Order::EndPorters { session } => self.porters.end(Some(&session)),
        }
        Ok(())
    }

    fn spawn_porter(
        &mut self,
        session: SessionId,
        user: Option<User>,
        give: &[OwnedFd],
    ) -> anyhow::Result<()> {
        let mut porter = spawn(Role::Porter, user, &self.log)?;
        let give: Vec<_> = give.iter().map(AsFd::as_fd).collect();
        let given = channel::send_packet(porter.channel.as_fd(), b"{}", &give);
        if given.is_err() {
            // It would wait for its job; what is dead already can't be killed.
            let _ = porter.child.kill();
        }
        self.porters.add(session, porter);
        Ok(given?)
    }

    /// Serves one caller of the kill-only socket. The caller gets one byte when every gate's
    /// process is gone and the rest of the kill is under way.
    async fn kill_only(&mut self, caller: &Channel) -> anyhow::Result<()> {
        let packet = tokio::time::timeout(Duration::from_millis(500), caller.receive()).await;
        let Ok(Ok(Some(packet))) = packet else {
            return Ok(());
        };
        if let Some(session) = kill_only::decode(&packet.bytes) {
            self.kill(session.as_ref()).await?;
            // The caller may have gone away; the kill stands.
            let _ = caller.send(&[1], &[]).await;
        }
        Ok(())
    }

    /// Ends the processes of gates, tells who keeps standing, sandboxes and sessions, and then
    /// ends those of porters.
    async fn kill(&mut self, session: Option<&SessionId>) -> anyhow::Result<()> {
        match session {
            Some(session) => {
                self.gates.end(session);
            }
            None => self.gates.end_all(),
        }
        let order = FromSupervisor::Kill {
            session: session.cloned(),
        };
        for role in [Role::Notary, Role::Dialer, Role::Launcher, Role::Desk] {
            send(self.channel(role)?, &order, &[]).await?;
        }
        // After the desk was told: a start whose porter dies before would end as a failure, and
        // whoever kills would hear that no session was running.
        self.porters.end(session);
        Ok(())
    }

    /// Collects ended children. Returns a standing role that died.
    async fn reap(&mut self) -> anyhow::Result<Option<Role>> {
        self.porters.reap();
        self.spare.reap();
        for (session, number) in self.gates.reap() {
            self.gate_left(session, number).await?;
        }
        for standing in &mut self.standing {
            if let Ok(Some(status)) = standing.child.try_wait() {
                tracing::error!("the {} ended with {status}", standing.role);
                return Ok(Some(standing.role));
            }
        }
        Ok(None)
    }

    /// Ends everything: gates first, then sandboxes, then the roles by closing their channels.
    async fn end(&mut self) {
        self.spare.end();
        self.gates.end_all();
        if let Ok(launcher) = self.channel(Role::Launcher) {
            // A launcher that is gone has keepers that do its work.
            let _ = send(launcher, &FromSupervisor::Kill { session: None }, &[]).await;
        }
        self.porters.end(None);
        let mut children: Vec<Child> = self.standing.drain(..).map(|s| s.child).collect();
        let end = tokio::time::Instant::now() + END_WAIT;
        while tokio::time::Instant::now() < end {
            children.retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
            if children.is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for child in &mut children {
            // It may have ended since; either way it is gone.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
