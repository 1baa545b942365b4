// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL, in the same order as a request over HTTP (decision 0027):
//!
//! ```text
//! first packet ▶ TLS ▶ ask (START) ▶ client proves its placeholder ▶ connect, verify ▶ unlock ▶
//! log in ▶ relay: ask (READ, WRITE) once each, search what comes back ▶ report
//! ```
//!
//! A connection is for one user of one database; what it may do was said when it was opened, and
//! the server is told so before its first statement.

mod answers;
mod cancel;
mod channel;
mod far_end;
pub(crate) mod frame;
mod guard;
pub(crate) mod lexer;
mod login;
mod names;
mod outbox;
mod relay;
mod scram;
mod session;
pub(crate) mod startup;
pub(crate) mod statement;
mod turn;

pub(crate) use cancel::Cancels;
pub(crate) use frame::put;
pub(crate) use scram::Salted;

use crate::accept::{Limits, Usage};
use crate::connect::{Connector, Pool, Upstream};
use crate::identify::Asked;
use crate::inject::{revoked, undecidable};
use crate::normalize::{Protocol, Tripwires};
use crate::ports::{Answered, AtHand, Granted, Ports};
use crate::refuse::{Fault, Refusals, When, error_response};
use crate::report::Reporter;
use crate::revoke::{Epoch, Live, Revocations};
use crate::scrub::Released;
use crate::terminate::{SessionAuthority, Spoken, terminate};
use crate::wire::{Duplex, ReadBuffer, StreamError};
use frame::{FROM_CLIENT_MAX, Lane, malformed};
use rustls::crypto::SecureRandom;
use session::session;
use startup::First;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use torno_policy::facts::Entry;
use torno_policy::names::Authority;
use torno_policy::postgres::{Deed, Login, facts};
use torno_policy::{Reason, Refusal};

/// What a connection needs of its session.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    pub(crate) ports: &'a Ports,
    pub(crate) limits: &'a Limits,
    pub(crate) usage: &'a Arc<Usage>,
    pub(crate) authority: &'a SessionAuthority,
    pub(crate) connector: &'a Connector,
    pub(crate) pool: &'a Pool,
    pub(crate) released: &'a Released,
    pub(crate) revocations: &'a Revocations,
    pub(crate) refusals: &'a Refusals,
    pub(crate) random: &'static dyn SecureRandom,
    pub(crate) cancels: &'a Arc<Cancels>,
    pub(crate) tripwires: &'a Tripwires,
    pub(crate) live: &'a Live,
}

/// Why a connection is over before its time.
pub(crate) enum Ended {
    /// Refused by the gate itself: not recorded yet.
    Fault(Fault),
    /// Refused and recorded.
    Refused(Refusal),
    /// Nobody is there to be told.
    Gone,
    /// Everybody was told.
    Told,
}

impl From<Fault> for Ended {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Refusal> for Ended {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<StreamError> for Ended {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Fault(fault) => Self::Fault(fault),
            StreamError::Gone | StreamError::Late => Self::Gone,
        }
    }
}

/// What one connection asks about.
#[derive(Clone, Copy)]
pub(crate) struct Asking<'a> {
    entry: Entry,
    authority: &'a Authority,
    login: &'a Login,
    /// For the record of what the gate refuses by itself.
    target: &'a str,
}

impl Asking<'_> {
    /// Asks about one more deed of the connection, whose client proved this yes's placeholder; the
    /// yes holds for it.
    async fn ask(
        &self,
        around: &Around<'_>,
        (deed, proved): (Deed, &Granted),
    ) -> Result<(), Refusal> {
        let asked = (self.entry, self.authority);
        let allowed = granted(around, asked, (self.login, deed)).await?;
        if let Err(refusal) = is_proved(&allowed.granted, proved) {
            allowed.reporter.refused(refusal.clone());
            return Err(refusal);
        }
        allowed.reporter.carried();
        Ok(())
    }
}

/// A later yes is for the credential whose placeholder was proved, or for none of the client's.
fn is_proved(later: &Granted, proved: &Granted) -> Result<(), Refusal> {
    let placeholder = |granted: &Granted| {
        let injection = granted.allowed.injection.as_ref();
        injection.map(|injection| injection.placeholder.clone())
    };
    match (placeholder(later), placeholder(proved)) {
        (Some(later), Some(proved)) if later == proved => Ok(()),
        _ => Err(revoked()),
    }
}

/// LIMIT: what a client still says after its refusal is waited for no longer.
const CLOSE_WAIT: Duration = Duration::from_secs(2);

/// Serves a connection whose first bytes are PostgreSQL's.
pub(crate) async fn serve(
    around: &Around<'_>,
    (io, buffer): (Box<dyn Duplex>, ReadBuffer),
    (entry, asked): (Entry, &Asked),
) {
    let target = format!("postgres://{asked}");
    let wait = around.limits.head_wait;
    let opening = tokio::time::timeout(wait, open(around, io, buffer, asked)).await;
    let slow = Err(Ended::Fault(Fault::malformed(
        "send the start of a connection at once",
    )));
    let (mut client, first) = match opening.unwrap_or(slow) {
        Ok(Some(opened)) => opened,
        Ok(None) => return,
        Err(ended) => {
            // There is no client to tell, or not in words.
            if let Ended::Fault(fault) = ended {
                around.refusals.record(&fault, &target);
            }
            return;
        }
    };
    let served = match (&asked, first) {
        (Asked::Name(authority), Ok(First::Start(startup))) => {
            let asking = Asking {
                entry,
                authority,
                login: &startup.login,
                target: &target,
            };
            session(around, client, (asking, &startup)).await
        }
        (Asked::Name(authority), Ok(First::Cancel(key))) => {
            let cancelling = cancel::cancel(around, key, (entry, authority));
            (client, cancelling.await.err(), When::Login)
        }
        (_, Err(fault)) => (client, Some(fault.into()), When::Login),
        (Asked::Address(_) | Asked::Proxy, Ok(_)) => {
            let fault = Fault::new(
                Reason::RawAddress,
                "reach the database by the name that its credential is bound to",
            );
            (client, Some(fault.into()), When::Login)
        }
        (Asked::Name(_), Ok(First::Tls | First::Gss)) => {
            (client, Some(malformed().into()), When::Login)
        }
    };
    let (left, ended, when) = served;
    client = left;
    let refusal = match ended {
        Some(Ended::Fault(fault)) => around.refusals.record(&fault, &target),
        Some(Ended::Refused(refusal)) => refusal,
        Some(Ended::Gone | Ended::Told) | None => return,
    };
    if client.send(&error_response(&refusal, when)).await.is_ok() {
        client.close(CLOSE_WAIT).await;
    }
}

/// Reads up to the packet that says what the connection is for. TLS and GSSAPI may each be asked
/// for once before; the gate ends TLS, and says no to the other.
async fn open(
    around: &Around<'_>,
    mut io: Box<dyn Duplex>,
    mut buffer: ReadBuffer,
    asked: &Asked,
) -> Result<Option<(Lane, Result<First, Fault>)>, Ended> {
    let (mut may_tls, mut may_gss) = (true, true);
    loop {
        let first = match startup::read(buffer.unread()) {
            Ok(Some((first, length))) => {
                buffer.consume(length);
                Ok(first)
            }
            Ok(None) => match buffer.fill(&mut io).await {
                Ok(0) | Err(_) => return Ok(None),
                Ok(_) => continue,
            },
            Err(fault) => Err(fault),
        };
        match first {
            // What came in clear before TLS is never read as if it came inside.
            Ok(First::Tls | First::Gss) if !buffer.unread().is_empty() => {
                return Err(malformed().into());
            }
            Ok(First::Gss) if may_gss => {
                may_gss = false;
                say(&mut io, b"N").await?;
            }
            Ok(First::Tls) if may_tls => {
                may_tls = false;
                say(&mut io, b"S").await?;
                let spoken = (asked, Spoken::Postgres);
                let ended = terminate(io, &mut buffer, spoken, around.authority).await?;
                // The destination is the dial's; a hello without a name disagrees with nothing.
                if let Some(fault) = ended.disagreement.filter(|_| ended.is_named) {
                    return Err(fault.into());
                }
                io = ended.io;
            }
            first => {
                let wait = around.limits.body_wait;
                let lane = Lane::new(io, buffer.unread(), FROM_CLIENT_MAX, wait);
                return Ok(Some((lane, first)));
            }
        }
    }
}

async fn say(io: &mut Box<dyn Duplex>, byte: &[u8]) -> Result<(), Ended> {
    io.write_all(byte).await.map_err(|_| Ended::Gone)?;
    io.flush().await.map_err(|_| Ended::Gone)
}

/// A yes, and what goes with it.
pub(crate) struct Yes {
    granted: Granted,
    reporter: Reporter,
    epoch: Epoch,
}

/// Asks about one deed.
async fn granted(
    around: &Around<'_>,
    (entry, authority): (Entry, &Authority),
    (login, deed): (&Login, Deed),
) -> Result<Yes, Refusal> {
    let epoch = around.revocations.epoch();
    let facts = facts(entry, authority, (login, deed)).ok_or_else(|| undecidable().refusal())?;
    let at_hand = AtHand {
        pooled: false,
        serves: None,
        watch: around.released.watch(),
    };
    match around.ports.ask.ask(&facts, at_hand).await? {
        Answered::Granted(granted) if granted.allowed.endpoint == facts.endpoint => {
            let ask = Arc::clone(&around.ports.ask);
            Ok(Yes {
                reporter: Reporter::new(ask, granted.allowed.record, &Arc::default()),
                granted,
                epoch,
            })
        }
        Answered::Granted(_) | Answered::Read(_) => Err(undecidable().refusal()),
    }
}

impl Around<'_> {
    /// A verified connection to what was allowed, if that was not revoked meanwhile.
    async fn connect(
        &self,
        granted: &Granted,
        epoch: Epoch,
        reporter: &mut Reporter,
    ) -> Result<Upstream, Refusal> {
        let allowed = (&*granted.allowed, Protocol::Http1);
        let connecting = self
            .connector
            .connect(self.ports, allowed, (None, self.pool));
        let upstream = connecting.await?;
        reporter.dialled(&upstream);
        let credential = upstream.credential.as_ref();
        let bound = self
            .revocations
            .bind(self.live, epoch, credential, &upstream.cut);
        bound.map_err(|_| revoked())?;
        Ok(upstream)
    }
}
