// SPDX-License-Identifier: Apache-2.0
//! A gate that was taken over: the running gate of a real session is stopped, and this test speaks
//! on its very sockets, which say to notary, dialer and desk whose gate it is.

use super::socket::{Heard, Socket};
use crate::ledger::Ledger;
use crate::roles::{self, Process};
use crate::stage::Stage;
use rustix::net::SocketType;
use std::cell::Cell;
use std::os::fd::OwnedFd;
use torno_notary_protocol::dial::{Dial, DialReply};
use torno_notary_protocol::gate::{Allowed, Answer, GateMessage, NotaryMessage, Question, Ticket};
use torno_notary_protocol::receipt::Receipt;
use torno_notary_protocol::transit;
use torno_policy::decision::{Reason, Refusal};
use torno_policy::facts::{Entry, Location, Presented, RequestFacts};
use torno_policy::names::{CredentialName, Endpoint, Host, Method, Port, RequestPath, Scheme};
use torno_policy::placeholder::Placeholder;

/// What the roles answered.
#[derive(Debug)]
pub(crate) enum Reply {
    Allowed(Box<Allowed>),
    /// A credential came, so many bytes.
    Unlocked(usize),
    /// A connected socket came.
    Dialed(OwnedFd),
    Refused(Refusal),
    Closed,
}

impl Reply {
    #[track_caller]
    pub(crate) fn allowed(self) -> Box<Allowed> {
        match self {
            Self::Allowed(allowed) => allowed,
            other => panic!("not allowed: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn refused(self) -> Reason {
        match self {
            Self::Refused(refusal) => refusal.reason,
            other => panic!("not refused: {other:?}"),
        }
    }
}

/// The sockets of one session's gate.
#[derive(Debug)]
pub(crate) struct TakenOver {
    pub(crate) session: String,
    pub(crate) notary: Socket,
    pub(crate) dialer: Socket,
    pub(crate) desk: Socket,
    pub(crate) ledger: Ledger,
    api: Placeholder,
    next: Cell<u64>,
    unlocked: Cell<usize>,
}

impl TakenOver {
    /// Begins a session as a person does, and takes its gate over.
    pub(crate) fn begin(stage: &Stage) -> Self {
        let before = roles::gates(stage);
        let run = ["run", "--quiet", "--isolation", "container", "--detach"];
        let session = stage.torno(&run).good().stdout.trim().to_owned();
        let print = ["session", "exec", &session, "--", "printenv", "API_TOKEN"];
        let printed = stage.torno(&print).good().stdout;
        let api = Placeholder::find_all(printed.as_bytes()).remove(0).1;
        let mut gates = roles::gates(stage);
        gates.retain(|gate| !before.contains(gate));
        let [process] = <[Process; 1]>::try_from(gates).unwrap();
        let [notary, dialer, desk] = sockets(&process);
        let ledger = Ledger::new(stage.daemon.record(), &session);
        Self {
            session,
            notary,
            dialer,
            desk,
            ledger,
            api,
            next: Cell::new(1 << 40),
            unlocked: Cell::new(0),
        }
    }

    /// The facts of a request to the API, with this session's own placeholder.
    pub(crate) fn api(&self, target: &str) -> RequestFacts {
        with_placeholder(facts("api.torno.test", target), &self.api)
    }

    /// This session's placeholder, put into other facts.
    pub(crate) fn presenting(&self, facts: RequestFacts) -> RequestFacts {
        with_placeholder(facts, &self.api)
    }

    pub(crate) fn ticket(&self) -> Ticket {
        self.next.set(self.next.get() + 1);
        Ticket(self.next.get())
    }

    /// Asks the notary.
    #[track_caller]
    pub(crate) fn ask(&self, facts: RequestFacts, pooled: bool) -> Reply {
        let question = Question {
            ticket: self.ticket(),
            facts,
            pooled,
            // It says that it watches for everything already: it wants the credential at once.
            serves: CredentialName::parse("api").ok(),
            watch: u64::MAX,
        };
        self.to_notary(&GateMessage::Ask(vec![question]))
    }

    /// Redeems a receipt at the notary.
    #[track_caller]
    pub(crate) fn unlock(&self, receipt: &Receipt) -> Reply {
        let (ticket, receipt) = (self.ticket(), receipt.clone());
        self.to_notary(&GateMessage::Unlock { ticket, receipt })
    }

    /// Redeems a receipt at the dialer.
    #[track_caller]
    pub(crate) fn dial(&self, receipt: &Receipt) -> Reply {
        let (ticket, receipt) = (self.ticket(), receipt.clone());
        if !self
            .dialer
            .say(&serde_json::to_vec(&Dial { ticket, receipt }).unwrap(), &[])
        {
            return Reply::Closed;
        }
        let Heard::Packet(bytes, given) = self.dialer.hear() else {
            return Reply::Closed;
        };
        match serde_json::from_slice(&bytes).unwrap() {
            DialReply::Dialed { .. } => Reply::Dialed(given.into_iter().next().unwrap()),
            DialReply::DialRefused { refusal, .. } => Reply::Refused(refusal),
        }
    }

    #[track_caller]
    fn to_notary(&self, message: &GateMessage) -> Reply {
        let reply = to_notary(&self.notary, message);
        if let Reply::Unlocked(_) = reply {
            self.unlocked.set(self.unlocked.get() + 1);
        }
        reply
    }

    /// How often it got a credential by receipt.
    pub(crate) fn unlocked(&self) -> usize {
        self.unlocked.get()
    }

    /// Every byte that the roles ever said to this gate.
    pub(crate) fn heard(&self) -> Vec<u8> {
        [&self.notary, &self.dialer, &self.desk]
            .map(Socket::heard)
            .concat()
    }
}

/// Says a message to the notary and hears the answer.
#[track_caller]
pub(crate) fn to_notary(notary: &Socket, message: &GateMessage) -> Reply {
    if !notary.say(&transit::encode_compact(message, &[]).unwrap(), &[]) {
        return Reply::Closed;
    }
    loop {
        let Heard::Packet(bytes, _) = notary.hear() else {
            return Reply::Closed;
        };
        let (message, attached) = transit::decode_compact::<NotaryMessage>(&bytes).unwrap();
        let credential = attached.first();
        return match message {
            // Said unasked, at a kill.
            NotaryMessage::Revoke { .. }
            | NotaryMessage::Minted { .. }
            | NotaryMessage::MintRefused { .. } => continue,
            NotaryMessage::Unlocked { .. } => Reply::Unlocked(credential.unwrap().byte_count()),
            NotaryMessage::UnlockRefused { refusal, .. } => Reply::Refused(refusal),
            NotaryMessage::Answers(mut answers) => match answers.remove(0).answer {
                Answer::Allowed(allowed) => Reply::Allowed(allowed),
                Answer::Refused(refusal) => Reply::Refused(refusal),
                Answer::Read(kind) => panic!("nothing here is judged by what it says: {kind:?}"),
            },
        };
    }
}

/// The gate's sockets to notary, dialer and desk. It got them in one message, in the order notary,
/// dialer, launcher, desk, after its channel to the supervisor.
fn sockets(gate: &Process) -> [Socket; 3] {
    gate.stop();
    let mut packets = Vec::new();
    for (number, target) in gate.descriptors() {
        if !target.starts_with("socket:") {
            continue;
        }
        let socket = gate.descriptor(number);
        if rustix::net::sockopt::socket_type(&socket).unwrap() == SocketType::SEQPACKET {
            packets.push(Socket::new(socket));
        }
    }
    let all = <[Socket; 5]>::try_from(packets).unwrap();
    let [_supervisor, notary, dialer, _launcher, desk] = all;
    [notary, dialer, desk]
}

pub(crate) fn endpoint(scheme: Scheme, host: &str, port: u16) -> Endpoint {
    Endpoint {
        scheme,
        host: Host::parse(host).unwrap(),
        port: Port::new(port).unwrap(),
    }
}

/// The facts of a plain GET over TLS.
pub(crate) fn facts(host: &str, target: &str) -> RequestFacts {
    RequestFacts {
        entry: Entry::Captured,
        endpoint: endpoint(Scheme::Https, host, 443),
        method: Method::parse("GET").unwrap(),
        path: RequestPath::parse(target).unwrap(),
        websocket: false,
        presented: Vec::new(),
        own_credentials: Vec::new(),
        git: None,
        content: None,
        body: None,
    }
}

fn with_placeholder(mut facts: RequestFacts, placeholder: &Placeholder) -> RequestFacts {
    facts.presented = vec![Presented {
        location: Location::Header("authorization".to_owned()),
        digest: placeholder.digest(),
    }];
    facts
}
