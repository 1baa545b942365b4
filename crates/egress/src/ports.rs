// SPDX-License-Identifier: Apache-2.0
//! What the pipeline needs from others: an answer, a connected socket, the time. The gate role
//! implements these over its sockets; tests implement them in memory.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::net::TcpStream;
use torno_notary_protocol::gate::{Allowed, Outcome, WireRefusal};
use torno_notary_protocol::receipt::Receipt;
use torno_notary_protocol::transit::CredentialInTransit;
use torno_policy::Refusal;
use torno_policy::facts::{RequestFacts, Unread};
use torno_policy::names::{CredentialName, RecordSeq};

/// What a port's call gives back.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The notary, as one session's gate sees it.
pub trait Ask: Send + Sync {
    /// May this request leave?
    fn ask<'a>(
        &'a self,
        facts: &'a RequestFacts,
        at_hand: AtHand,
    ) -> Pending<'a, Result<Answered, Refusal>>;

    /// The peer that the receipt names is verified: hand over its credential, and those to search
    /// its answer for. Answered once.
    fn unlock<'a>(&'a self, receipt: &'a Receipt) -> Pending<'a, Result<Unlocked, Refusal>>;

    /// The answer to this request holds so many values that were made with its credential: what
    /// stands for them in the sandbox, in the same order.
    fn mint(&self, record: RecordSeq, count: u32) -> Pending<'_, Result<Vec<String>, Refusal>>;

    /// How an allowed request ended. Must not block; called once for each answer that said yes.
    fn report(&self, outcome: Outcome);

    /// A request that was refused before it could be asked about. Must not block.
    fn refused(&self, refusal: WireRefusal);
}

/// What this side has when it asks.
#[derive(Debug, Clone)]
pub struct AtHand {
    /// A connection to the endpoint, whose peer is verified.
    pub pooled: bool,
    /// The credential that it was used with: that one may come with the answer.
    pub serves: Option<CredentialName>,
    /// The watch that was taken up whole; 0 for none.
    pub watch: u64,
}

/// What a receipt was redeemed for.
#[expect(missing_debug_implementations, reason = "it holds secrets")]
pub struct Unlocked {
    /// Credentials to search answers for, each with what stands for it in the sandbox.
    pub watched: Vec<(String, CredentialInTransit)>,
    /// The one to put in, when there is one.
    pub injected: Option<CredentialInTransit>,
    /// With these the watch of this number is taken up whole; 0 for no news.
    pub watch: u64,
}

/// The notary's answer, where it is no refusal.
#[expect(missing_debug_implementations, reason = "it may hold a secret")]
pub enum Answered {
    /// Yes.
    Granted(Granted),
    /// A rule judges what the request says, or a binding fills a place of its body: read that and
    /// ask again.
    Read(Unread),
}

/// The notary's yes. The credential is there only when the question said `pooled`.
#[expect(missing_debug_implementations, reason = "it may hold a secret")]
pub struct Granted {
    /// What is allowed, and how.
    pub allowed: Box<Allowed>,
    /// The credential, when it came with the answer.
    pub credential: Option<CredentialInTransit>,
}

/// The dialer: resolves, checks the addresses, connects.
pub trait Dial: Send + Sync {
    /// A socket that is connected to the endpoint which the receipt names, and to nothing else.
    fn dial<'a>(&'a self, receipt: &'a Receipt) -> Pending<'a, Result<Dialed, Refusal>>;
}

/// A connected socket.
#[derive(Debug)]
pub struct Dialed {
    /// The socket.
    pub stream: TcpStream,
    /// The address that was checked and dialled, `ip:port`.
    pub address: String,
    /// Set when a company proxy stands between and resolved the name.
    pub resolved_by_proxy: bool,
}

/// The wall clock, for certificates.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The time now.
    fn now(&self) -> SystemTime;
}

/// The three ports of one session.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "ports need not have Debug")]
pub struct Ports {
    /// The notary.
    pub ask: Arc<dyn Ask>,
    /// The dialer.
    pub dial: Arc<dyn Dial>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}
