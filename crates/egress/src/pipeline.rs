// SPDX-License-Identifier: Apache-2.0
//! One request, in order. The phases stand in [`exchange`] as they happen, one file each:
//!
//! ```text
//! accept ▶ identify ▶ terminate ▶ normalize ▶ ask (hold) ▶ connect ▶ inject ▶ forward ▶ scrub ▶
//! report
//!                                     └── refuse: the one exit ──┘        revoke: cuts from
//!   outside
//! ```
//!
//! Three entries meet here: a captured dial, CONNECT, and absolute-form on the loopback proxy.
//! They differ in what was asked for and in nothing else.

mod ahead;
mod client;
mod entry;
mod guard;
mod making;
mod streams;

use crate::accept::{Draw, Limits, Usage};
use crate::connect::{Connector, PinnedRoots, Pool, Upstream};
use crate::forward::{ClientSide, Forwarded, Stop, Surroundings, Upload, forward, lost};
use crate::head::{Framing, Head};
use crate::identify::{Arrival, AskedDestination};
use crate::inject::{inject, revoked, undecidable};
use crate::normalize::{RawRequest, Request, Tripwires, normalize, readable_target};
use crate::ports::{AtHand, Ports};
use crate::postgres::{Around, Cancels};
use crate::refuse::{Fault, Refusals};
use crate::report::Reporter;
use crate::revoke::{Live, Revocations};
use crate::scrub::Released;
use crate::terminate::{AuthorityFault, SessionAuthority};
use crate::wire::Peer;
use ahead::Asked;
pub(crate) use ahead::room;
use client::{Client, Next};
use guard::unwound;
use making::{MAKING_MAX, is_aged};
use rustls::RootCertStore;
use rustls::crypto::SecureRandom;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::Semaphore;
use torno_policy::names::CredentialName;
use torno_policy::tripwire::Tripwire;

/// What a pipeline is made of, beside its ports.
#[derive(Debug, Clone)]
pub struct SessionConfig {
    /// The authorities that far ends are verified against: the system's and the operator's. The
    /// session's own CA is never among them.
    pub upstream_roots: Arc<RootCertStore>,
    /// Upstreams with authorities of their own.
    pub pinned: Vec<PinnedRoots>,
    /// What the session may use.
    pub limits: Limits,
    /// What stands in its sandbox to be stolen.
    pub tripwires: Vec<Tripwire>,
}

/// Why a pipeline can't be made. The session does not start then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineError {
    /// The session's CA.
    #[error("the session's certificate authority could not be made: start a new session")]
    Authority(#[source] AuthorityFault),
    /// The verification of far ends.
    #[error("verification of far ends could not be set up: check the configured authorities")]
    Upstream(#[source] rustls::Error),
}

/// One session's way out.
pub struct Pipeline {
    ports: Ports,
    limits: Limits,
    usage: Arc<Usage>,
    authority: SessionAuthority,
    connector: Connector,
    pool: Pool,
    released: Released,
    revocations: Arc<Revocations>,
    refusals: Refusals,
    random: &'static dyn SecureRandom,
    ahead: Arc<Semaphore>,
    /// Places of requests whose connection is not made yet.
    making: Semaphore,
    tripwires: Tripwires,
    cancels: Arc<Cancels>,
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline").finish_non_exhaustive()
    }
}

impl Pipeline {
    /// Makes a session's pipeline, with a fresh CA.
    ///
    /// # Errors
    /// See [`PipelineError`].
    pub fn new(config: &SessionConfig, ports: Ports) -> Result<Arc<Self>, PipelineError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let authority = SessionAuthority::new(ports.clock.as_ref(), Arc::clone(&provider))
            .map_err(PipelineError::Authority)?;
        let connector = Connector::new(
            &config.upstream_roots,
            &config.pinned,
            &provider,
            (&ports.clock, &config.limits),
        )
        .map_err(PipelineError::Upstream)?;
        Ok(Arc::new(Self {
            limits: config.limits.clone(),
            usage: Arc::new(Usage::new(&config.limits)),
            authority,
            connector,
            pool: Pool::default(),
            released: Released::default(),
            revocations: Arc::default(),
            refusals: Refusals::new(Arc::clone(&ports.ask)),
            random: provider.secure_random,
            ahead: Arc::new(Semaphore::new(ahead::AHEAD_MAX)),
            making: Semaphore::new(MAKING_MAX),
            tripwires: Tripwires::new(&config.tripwires),
            cancels: Arc::default(),
            ports,
        }))
    }

    /// The certificate that programs of the sandbox must trust, in PEM.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        self.authority.ca_pem()
    }

    /// Serves a connection that the sandbox's network caught, until it ends.
    pub async fn serve_captured<P: Peer>(self: &Arc<Self>, peer: P, asked: AskedDestination) {
        entry::serve(self, Box::new(peer), entry::Way::Captured(asked)).await;
    }

    /// Serves a connection to the loopback proxy, until it ends.
    pub async fn serve_proxy<P: Peer>(self: &Arc<Self>, peer: P) {
        entry::serve(self, Box::new(peer), entry::Way::Proxy).await;
    }

    /// The session is over but for its files: what it has is cut, and nothing more is served.
    pub fn close(&self) {
        self.revoke(None);
        self.revocations.close();
    }

    /// Cuts every live stream that uses the credential; `None` cuts all of the session's.
    pub fn revoke(&self, credential: Option<&CredentialName>) {
        self.revocations.revoke(credential);
        self.pool.forget(credential);
        self.released.forget_cookies(credential);
    }

    /// Serves requests one by one: a pipelined one waits in the buffer for its turn.
    async fn serve_requests(&self, client: &mut Client, arrival: &Arrival) {
        while self.serve_next(client, arrival).await == Next::Request {}
    }

    /// Reads a head and serves its request.
    async fn serve_next(&self, client: &mut Client, arrival: &Arrival) -> Next {
        match client.read_head(&self.limits).await {
            Ok(Some(head)) => self.serve_request(client, arrival, head).await,
            Ok(None) => Next::Close,
            Err(fault) => {
                let target = arrival.asked.to_string();
                self.refuse_fault(client, &fault, (&target, false)).await
            }
        }
    }

    /// One request, from its head to what follows it. A panic ends this request alone.
    async fn serve_request(&self, client: &mut Client, arrival: &Arrival, head: Head) -> Next {
        client.started.store(false, Ordering::Relaxed);
        let target = readable_target(&head, arrival);
        let is_head = head.first().starts_with(b"HEAD ");
        let mut request = match normalize(RawRequest { arrival, head }) {
            Ok(request) => request,
            Err(fault) => return self.refuse_fault(client, &fault, (&target, is_head)).await,
        };
        self.tripwires.present(&mut request);
        let upload = match self.read_first(client, &mut request).await {
            Ok(upload) => upload,
            Err(fault) => return self.refuse_fault(client, &fault, (&target, is_head)).await,
        };
        let exchanged = unwound(pin!(self.exchange_or_retry(client, &mut request, upload))).await;
        client.live.unbind();
        let is_unwound = exchanged.is_none();
        let refusal = match exchanged {
            Some(Ok(next)) => {
                if next == Next::Close && may_go_on_sending(&request) {
                    client.drain().await;
                }
                return next;
            }
            Some(Err(Stop::Refuse(refusal))) => refusal,
            Some(Err(Stop::ClientGone)) => return Next::Close,
            Some(Err(Stop::Gone | Stop::Stale | Stop::Aged)) => lost().refusal(),
            None => self.refusals.record(&undecidable(), &target),
        };
        if client.started.load(Ordering::Relaxed) {
            if request.websocket.is_some() {
                client.drain().await;
            }
            return Next::Close;
        }
        let close = is_unwound || request.framing != Framing::Empty || !request.keep_alive;
        let form = client.form_for(&request);
        client.answer_as(form, &refusal, (is_head, close)).await
    }

    /// A connection that had been waiting may be closed by the far end at any time. Then a request
    /// without effect is asked about and sent once more, on a new one. One that took long to make
    /// is kept, and asked about again: the yes that it was made for has become too old.
    async fn exchange_or_retry(
        &self,
        client: &mut Client,
        request: &mut Request,
        mut upload: Upload,
    ) -> Result<Next, Stop> {
        let mut idle = self.pool.take(&request.facts.endpoint, request.protocol);
        let (mut may_repeat, mut may_renew) = (request.is_repeatable(), true);
        loop {
            match self.exchange(client, request, &mut upload, idle).await {
                Err(Stop::Stale) if may_repeat => {
                    // The one that is made now may take long as well.
                    (may_repeat, may_renew) = (false, true);
                    upload = Upload::new(request.framing);
                    idle = None;
                }
                Err(Stop::Aged) if may_renew => {
                    may_renew = false;
                    idle = self.pool.take(&request.facts.endpoint, request.protocol);
                }
                other => return other,
            }
        }
    }

    /// The phases from the question on.
    async fn exchange(
        &self,
        client: &mut Client,
        request: &mut Request,
        upload: &mut Upload,
        idle: Option<Upstream>,
    ) -> Result<Next, Stop> {
        let asking = self.asked(client, request, upload, idle);
        let Asked {
            epoch,
            granted,
            idle,
            place,
            asked,
        } = asking.await?;
        let request = &*request;

        let record = granted.allowed.record;
        let transcripts = granted.allowed.transcripts;
        let mut reporter = Reporter::new(Arc::clone(&self.ports.ask), record, &client.started);
        let carrying = async {
            let draw = self.usage.open(&request.facts.endpoint.host)?;
            let at_hand = (idle, &self.pool);
            let connecting =
                self.connector
                    .connect(&self.ports, (&granted.allowed, request.protocol), at_hand);
            let mut upstream = connecting.await?;
            reporter.dialled(&upstream);
            if granted.allowed.unlock && !upstream.is_reused && is_aged(asked) {
                self.pool.put(upstream);
                return Err(Stop::Aged);
            }

            let credential = upstream.credential.as_ref();
            let bound = self
                .revocations
                .bind(&client.live, epoch, credential, &upstream.cut);
            bound.map_err(|_| revoked())?;

            let body = (request, &mut *upload);
            let injected =
                inject(&self.ports, granted, body, &mut upstream, &self.released).await?;
            drop(place);

            let side = ClientSide {
                io: &mut client.io,
                buffer: &mut client.buffer,
            };
            let body = std::mem::replace(upload, Upload::new(Framing::Empty));
            let sending = (request, injected, body);
            let around = self.surroundings((&client.live, &draw), transcripts);
            let forwarding = forward(&around, side, &mut upstream, sending, &mut reporter);
            let forwarded = forwarding.await?;
            Ok((forwarded, upstream))
        };
        let carried: Result<(Forwarded, Upstream), Stop> = carrying.await;

        self.ended(reporter, carried)
    }

    /// Reports how an exchange ended, and keeps what can be used again.
    fn ended(
        &self,
        reporter: Reporter,
        carried: Result<(Forwarded, Upstream), Stop>,
    ) -> Result<Next, Stop> {
        match carried {
            Ok((forwarded, upstream)) => {
                if forwarded.keep_upstream {
                    self.pool.put(upstream);
                }
                reporter.completed(forwarded.status);
                Ok(if forwarded.keep_client {
                    Next::Request
                } else {
                    Next::Close
                })
            }
            Err(Stop::Refuse(refusal)) => {
                reporter.refused(refusal.clone());
                Err(Stop::Refuse(refusal))
            }
            // The reporter tells on its own that it was aborted.
            Err(stop) => Err(stop),
        }
    }

    fn at_hand(&self, idle: Option<&Upstream>) -> AtHand {
        AtHand {
            pooled: idle.is_some(),
            serves: idle.and_then(|idle| idle.credential.clone()),
            watch: self.released.watch(),
        }
    }

    fn surroundings<'a>(
        &'a self,
        (live, draw): (&'a Live, &'a Draw),
        transcripts: bool,
    ) -> Surroundings<'a> {
        Surroundings {
            limits: &self.limits,
            draw,
            released: &self.released,
            live,
            random: self.random,
            tripwires: &self.tripwires,
            transcripts,
            clock: self.ports.clock.as_ref(),
            ahead: &self.ahead,
        }
    }

    fn around_postgres<'a>(&'a self, live: &'a Live) -> Around<'a> {
        Around {
            ports: &self.ports,
            limits: &self.limits,
            usage: &self.usage,
            authority: &self.authority,
            connector: &self.connector,
            pool: &self.pool,
            released: &self.released,
            revocations: &self.revocations,
            refusals: &self.refusals,
            random: self.random,
            cancels: &self.cancels,
            tripwires: &self.tripwires,
            live,
        }
    }

    /// Records what no question was asked for, and answers it. The connection ends: where the
    /// next request would start is not known, or what was asked for is in doubt.
    async fn refuse_fault(
        &self,
        client: &mut Client,
        fault: &Fault,
        (target, is_head): (&str, bool),
    ) -> Next {
        let refusal = self.refusals.record(fault, target);
        client.answer(&refusal, (is_head, true)).await
    }
}

/// The client may still be sending when the exchange is over.
fn may_go_on_sending(request: &Request) -> bool {
    request.framing != Framing::Empty || request.websocket.is_some()
}

#[cfg(test)]
mod tests;
