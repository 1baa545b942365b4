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
use torno_policy::facts::RequestFacts;

/// What a port's call gives back.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The notary, as one session's gate sees it.
pub trait Ask: Send + Sync {
    /// May this request leave? `pooled` says that a connection to its endpoint, whose peer is
    /// verified, is in hand, so that the credential may come with the answer.
    fn ask<'a>(
        &'a self,
        facts: &'a RequestFacts,
        pooled: bool,
    ) -> Pending<'a, Result<Granted, Refusal>>;

    /// The peer that the receipt names is verified: hand over its credential. Answered once.
    fn unlock<'a>(
        &'a self,
        receipt: &'a Receipt,
    ) -> Pending<'a, Result<CredentialInTransit, Refusal>>;

    /// How an allowed request ended. Must not block; called once for each answer that said yes.
    fn report(&self, outcome: Outcome);

    /// A request that was refused before it could be asked about. Must not block.
    fn refused(&self, refusal: WireRefusal);
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
