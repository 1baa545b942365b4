// SPDX-License-Identifier: Apache-2.0
//! The table of sessions, as people see them.
//!
//! ```text
//!  Starting ──▶ Running ──▶ Ending ──▶ Over(ended | killed)
//!      └──────────────────────▲
//! ```
//! One task brings a session over: whoever moves it to Ending first.

use super::gates::Gate;
use super::sync::Bound;
use super::transfer::Carried;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use torno_control_api::channel::{Channel, Peer};
use torno_control_api::request::{CommandRow, KilledSession, SessionRow, Summary};
use torno_notary_protocol::desk::EndCause;
use torno_policy::grant::{Isolation, WorkspaceMode};
use torno_policy::names::SessionId;
use torno_policy::{Reason, Refusal};

/// LIMIT: different refused targets kept for the summary; further ones only count.
const REFUSED_MAX: usize = 200;
/// LIMIT: sessions that are over and still listed.
const OVER_MAX: usize = 200;
/// LIMIT: two ways of one kill are further apart only where the machine is stuck.
const LATELY: Duration = Duration::from_secs(2);

/// Where a session is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    Starting,
    Running,
    Ending,
    Ended(EndCause),
    Killed,
}

impl Life {
    pub(super) fn is_over(self) -> bool {
        matches!(self, Self::Ended(_) | Self::Killed)
    }
}

/// A session's row.
pub(super) struct Session {
    pub(super) life: Life,
    /// A kill has begun: no porter starts any more.
    pub(super) is_killed: bool,
    pub(super) isolation: Isolation,
    pub(super) workspace: WorkspaceMode,
    pub(super) began_at: u64,
    /// Who began it: its porters run as that user.
    pub(super) owner: Peer,
    /// Since when no command runs; nothing while one does.
    idle_since: Option<Instant>,
    /// Files that differ from what was copied in, counted at the end.
    pub(super) files_changed: u32,
    pub(super) gate: Option<Rc<Gate>>,
    /// What every command's environment starts from.
    pub(super) environment: Vec<(String, String)>,
    /// Its sandbox has ended by itself.
    sandbox_ended: bool,
    /// Held from a number's taking until the gate has it: the guest takes them in order.
    pub(super) in_order: Rc<tokio::sync::Mutex<()>>,
    /// How its workspace is carried, where it lies in a machine's memory.
    pub(super) carried: Option<Carried>,
    /// Its workspace is bound.
    pub(super) bound: Option<Bound>,
    /// Somebody looks at what came out of its machine.
    pub(super) is_seen: bool,
    /// Why what it changed is lost with its machine.
    pub(super) left_inside: Option<String>,
    /// Running commands.
    commands: BTreeMap<u64, Vec<String>>,
    next_exec: u64,
    refused: BTreeMap<(String, String), (u32, Refusal)>,
    refused_total: u64,
    /// A tripwire of it was seen: it may nothing any more.
    pub(super) is_frozen: bool,
    /// A person holds it still.
    pub(super) is_paused: bool,
    /// It is held still while its workspace is copied for a checkpoint.
    pub(super) is_copied: bool,
    /// Held while it is paused or resumed: one at a time.
    pub(super) pausing: Rc<tokio::sync::Mutex<()>>,
    /// What its kill cut, once it was killed, and when that was.
    pub(super) receipt: Option<(Instant, KilledSession)>,
    changed: Rc<Notify>,
}

/// Every session.
#[derive(Default)]
pub(super) struct Sessions {
    rows: RefCell<BTreeMap<SessionId, Session>>,
    /// Gates that are expected: the supervisor brings their channels.
    expected: RefCell<BTreeMap<SessionId, mpsc::UnboundedSender<Rc<Gate>>>>,
}

/// A session's beginning facts.
pub(super) struct Beginning {
    pub(super) isolation: Isolation,
    pub(super) workspace: WorkspaceMode,
    pub(super) began_at: u64,
    pub(super) owner: Peer,
}

impl Sessions {
    /// Enters a session that starts.
    pub(super) fn begin(&self, id: &SessionId, beginning: &Beginning) {
        let row = Session {
            life: Life::Starting,
            is_killed: false,
            isolation: beginning.isolation,
            workspace: beginning.workspace,
            began_at: beginning.began_at,
            owner: beginning.owner,
            idle_since: Some(Instant::now()),
            files_changed: 0,
            gate: None,
            environment: Vec::new(),
            sandbox_ended: false,
            in_order: Rc::default(),
            carried: None,
            bound: None,
            is_seen: false,
            left_inside: None,
            commands: BTreeMap::new(),
            next_exec: 1,
            refused: BTreeMap::new(),
            refused_total: 0,
            is_frozen: false,
            is_paused: false,
            is_copied: false,
            pausing: Rc::default(),
            receipt: None,
            changed: Rc::default(),
        };
        let mut rows = self.rows.borrow_mut();
        rows.insert(id.clone(), row);
        let over = rows.iter().filter(|(_, row)| row.life.is_over());
        let mut over: Vec<_> = over.map(|(id, row)| (row.began_at, id.clone())).collect();
        over.sort();
        for (_, id) in over.iter().take(over.len().saturating_sub(OVER_MAX)) {
            rows.remove(id);
        }
    }

    /// What yields the session's next gate: the supervisor brings its channel.
    pub(super) fn expect_gate(&self, id: &SessionId) -> mpsc::UnboundedReceiver<Rc<Gate>> {
        let (sender, gate) = mpsc::unbounded_channel();
        self.expected.borrow_mut().insert(id.clone(), sender);
        gate
    }

    /// The supervisor brought a gate's channel: hand it to the start that waits for it, and read
    /// its events from now on.
    pub(super) fn gate_joined(&self, id: &SessionId, channel: Channel) {
        let Some(waiting) = self.expected.borrow_mut().remove(id) else {
            return;
        };
        let gate = Rc::new(Gate::new(channel));
        if let Some(row) = self.rows.borrow_mut().get_mut(id) {
            row.gate = Some(Rc::clone(&gate));
        }
        // A start that no longer waits has been undone.
        let _ = waiting.send(gate);
    }

    /// A gate's process ended. While a session starts that is its start's to judge: the install
    /// phase's gate ends in good order.
    pub(super) fn gate_left(&self, id: &SessionId) -> Option<Life> {
        self.with(id, |row| {
            if row.life != Life::Starting {
                row.gate = None;
            }
            row.life
        })
    }

    /// Works on one row.
    pub(super) fn with<T>(&self, id: &SessionId, f: impl FnOnce(&mut Session) -> T) -> Option<T> {
        self.rows.borrow_mut().get_mut(id).map(f)
    }

    /// Moves a session towards its end; false when somebody else did, or there is no such session.
    pub(super) fn begin_ending(&self, id: &SessionId) -> bool {
        let claim = |row: &mut Session| {
            let live = matches!(row.life, Life::Starting | Life::Running);
            if live {
                row.life = Life::Ending;
            }
            live
        };
        self.with(id, claim).unwrap_or(false)
    }

    /// The sandbox has ended by itself; true when that is the session's end. While a session
    /// starts, [`Self::started`] judges.
    pub(super) fn sandbox_ended(&self, id: &SessionId) -> bool {
        let end = |row: &mut Session| {
            row.sandbox_ended = true;
            row.life == Life::Running
        };
        self.with(id, end).unwrap_or(false)
    }

    /// The start is done; false when the session was ended or killed meanwhile, or has lost its
    /// sandbox or its gate.
    pub(super) fn started(&self, id: &SessionId) -> bool {
        let start = |row: &mut Session| {
            let has_gate = row.gate.as_ref().is_some_and(|gate| !gate.is_gone());
            let is_whole = has_gate && !row.sandbox_ended;
            let is_starting = row.life == Life::Starting && is_whole;
            if is_starting {
                row.life = Life::Running;
                // Nobody could use it before, however long its start took.
                row.idle_since = Some(Instant::now());
            }
            is_starting
        };
        self.with(id, start).unwrap_or(false)
    }

    /// The end.
    pub(super) fn over(&self, id: &SessionId, life: Life) {
        self.with(id, |row| {
            row.life = life;
            row.gate = None;
            // With the descriptor of its copy.
            row.carried = None;
            row.bound = None;
            row.commands.clear();
            row.changed.notify_waiters();
        });
    }

    /// Waits until a session that is ending is over.
    pub(super) async fn wait_over(&self, id: &SessionId) {
        loop {
            let waiting = self.with(id, |row| {
                (!row.life.is_over()).then(|| Rc::clone(&row.changed))
            });
            let Some(Some(changed)) = waiting else { return };
            changed.notified().await;
        }
    }

    /// Receipts that a kill of this session, or of all, repeats: a kill goes to desk and supervisor
    /// at once, and what one of them has finished is not alive any more when the other begins.
    pub(super) fn receipts(&self, only: Option<&SessionId>) -> Vec<KilledSession> {
        let rows = self.rows.borrow();
        let told = |(id, row): (&SessionId, &Session)| {
            let (at, receipt) = row.receipt.as_ref()?;
            let is_wanted = only.map_or_else(|| at.elapsed() < LATELY, |only| only == id);
            is_wanted.then(|| receipt.clone())
        };
        rows.iter().filter_map(told).collect()
    }

    /// Sessions that live.
    pub(super) fn live(&self) -> BTreeSet<SessionId> {
        let rows = self.rows.borrow();
        rows.iter()
            .filter(|(_, row)| !row.life.is_over())
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// Rows to show, in the order of their starts.
    pub(super) fn rows(&self, only: Option<&SessionId>) -> Vec<SessionRow> {
        let rows = self.rows.borrow();
        let wanted = |id: &&SessionId| only.is_none_or(|only| only == *id);
        let shown = rows.iter().filter(|(id, _)| wanted(id));
        let mut shown: Vec<_> = shown.map(|(id, row)| row.shown(id)).collect();
        shown.sort_by_key(|row| row.began_at);
        shown
    }
}

impl Session {
    /// Takes the next number of the session's link: commands and transfers are one row.
    pub(super) fn take_number(&mut self) -> u64 {
        let number = self.next_exec;
        self.next_exec += 1;
        number
    }

    /// Takes the next command's number.
    pub(super) fn add_command(&mut self, argv: Vec<String>) -> u64 {
        let exec = self.take_number();
        self.commands.insert(exec, argv);
        self.idle_since = None;
        exec
    }

    /// Where commands start that name no directory.
    pub(super) fn default_directory(&self) -> &'static str {
        match self.workspace {
            WorkspaceMode::Copy | WorkspaceMode::Bind => "/workspace",
            WorkspaceMode::None => "/home/agent",
        }
    }

    /// Forgets a command that ended or did not start.
    pub(super) fn drop_command(&mut self, exec: u64) {
        self.commands.remove(&exec);
        if let Some(bound) = &self.bound {
            bound.command_ended();
        }
        if self.commands.is_empty() {
            self.idle_since = Some(Instant::now());
        }
    }

    /// Since when it is idle: no command runs in it, and nobody holds it still.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        self.idle_since.filter(|_| !self.is_paused)
    }

    /// It goes on, and whatever it was idle before is forgotten.
    pub(super) fn resumed(&mut self) {
        self.is_paused = false;
        if self.commands.is_empty() {
            self.idle_since = Some(Instant::now());
        }
    }

    pub(super) fn has_command(&self, exec: u64) -> bool {
        self.commands.contains_key(&exec)
    }

    pub(super) fn note_refused(&mut self, target: String, refusal: Refusal) {
        self.refused_total += 1;
        self.is_frozen |= matches!(refusal.reason, Reason::Tripwire | Reason::SessionFrozen);
        let key = (target, refusal.reason.code().to_owned());
        if let Some((count, _)) = self.refused.get_mut(&key) {
            *count = count.saturating_add(1);
        } else if self.refused.len() < REFUSED_MAX {
            self.refused.insert(key, (1, refusal));
        }
    }

    /// The refused requests, grouped.
    pub(super) fn summary(&self) -> Summary {
        let refused = self
            .refused
            .iter()
            .map(|((target, _), (count, refusal))| (target.clone(), *count, refusal.clone()))
            .collect();
        Summary {
            refused,
            changed: self.files_changed,
            left_inside: self.left_inside.clone(),
        }
    }

    fn shown(&self, id: &SessionId) -> SessionRow {
        let (state, cause) = match self.life {
            Life::Starting => ("starting", None),
            Life::Running if self.is_frozen => ("frozen", None),
            Life::Running if self.is_paused => ("paused", None),
            Life::Running | Life::Ending => ("running", None),
            Life::Ended(cause) => ("ended", Some(cause_name(cause))),
            Life::Killed => ("killed", None),
        };
        let command = |(exec, argv): (&u64, &Vec<String>)| CommandRow {
            exec: *exec,
            argv: argv.clone(),
        };
        SessionRow {
            session: id.clone(),
            state: state.to_owned(),
            paused: self.is_paused && !self.life.is_over(),
            cause: cause.map(str::to_owned),
            isolation: self.isolation,
            began_at: self.began_at,
            commands: self.commands.iter().map(command).collect(),
            refused: self.refused_total,
        }
    }
}

/// The word for a cause, as in the record.
fn cause_name(cause: EndCause) -> &'static str {
    match cause {
        EndCause::Exited => "exited",
        EndCause::Stopped => "stopped",
        EndCause::TimeLimit => "time_limit",
        EndCause::DiskLimit => "disk_limit",
        EndCause::DiskFull => "disk_full",
        EndCause::StartFailed => "start_failed",
        EndCause::RoleDied => "role_died",
    }
}
