// SPDX-License-Identifier: Apache-2.0
//! The real pipeline with ports of the campaign: a notary that allows what lies below `/ok/` and
//! keeps what it allowed, and a dialer that leads everywhere to the far end under trial.

use anyhow::{Context, Result};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use tokio::net::TcpStream;
use torno_egress::{
    Answered, Ask, AtHand, Clock, Dial, Dialed, Granted, Limits, Pending, PinnedRoots, Pipeline,
    Ports, SessionConfig, Unlocked,
};
use torno_notary_protocol::gate::{Allowed, Outcome, WireRefusal};
use torno_notary_protocol::receipt::{Receipt, ReceiptClaims, ReceiptKey, VALID_MS};
use torno_policy::facts::RequestFacts;
use torno_policy::names::{Generation, Host, RecordSeq, RuleName, Scheme, SessionId};
use torno_policy::{Layer, Reason, Refusal};
use torno_stage::smuggle::Judged;

/// What was asked, and what came of it.
#[derive(Default)]
pub(crate) struct Notary {
    judged: Mutex<Vec<Judged>>,
    refused: Mutex<BTreeMap<String, usize>>,
}

impl Notary {
    /// What was allowed so far.
    pub(crate) fn judged(&self) -> Vec<Judged> {
        locked(&self.judged).clone()
    }

    /// What was refused so far, by reason.
    pub(crate) fn refused(&self) -> BTreeMap<String, usize> {
        locked(&self.refused).clone()
    }

    fn refuse(&self, reason: Reason, count: u32) {
        let count = usize::try_from(count).unwrap_or_default();
        *locked(&self.refused)
            .entry(reason.code().to_owned())
            .or_default() += count;
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key() -> ReceiptKey {
    ReceiptKey::new([9; 32])
}

fn refusal(reason: Reason) -> Refusal {
    Refusal {
        reason,
        layer: Layer::Session,
        rule: RuleName::new("campaign"),
        hint: "ask for what lies below /ok/".to_owned(),
    }
}

impl Ask for Notary {
    fn ask<'a>(
        &'a self,
        facts: &'a RequestFacts,
        _at_hand: AtHand,
    ) -> Pending<'a, Result<Answered, Refusal>> {
        Box::pin(async move {
            if !facts.path.path().starts_with("/ok/") {
                self.refuse(Reason::PathNotGranted, 1);
                return Err(refusal(Reason::PathNotGranted));
            }
            let session = SessionId::parse("s1").map_err(|_| refusal(Reason::Undecidable))?;
            let record = {
                let mut judged = locked(&self.judged);
                let (method, target) = (facts.method.to_string(), facts.path.to_string());
                judged.push((method, target, facts.endpoint.host.to_string()));
                RecordSeq(u64::try_from(judged.len()).unwrap_or_default())
            };
            let receipt = key().seal(&ReceiptClaims {
                session,
                generation: Generation(1),
                endpoint: facts.endpoint.clone(),
                record,
                issued_ms: 0,
            });
            let receipt = receipt.map_err(|_| refusal(Reason::Undecidable))?;
            let allowed = Box::new(Allowed {
                record,
                receipt: Some(receipt),
                endpoint: facts.endpoint.clone(),
                strip: Vec::new(),
                injection: None,
                own_credentials: true,
                unlock: false,
                transcripts: false,
                minted: false,
                keeping: None,
            });
            Ok(Answered::Granted(Granted {
                allowed,
                credential: None,
            }))
        })
    }

    fn unlock<'a>(&'a self, _receipt: &'a Receipt) -> Pending<'a, Result<Unlocked, Refusal>> {
        // No yes of this notary needs it.
        Box::pin(async { Err(refusal(Reason::Undecidable)) })
    }

    fn mint(&self, _record: RecordSeq, _count: u32) -> Pending<'_, Result<Vec<String>, Refusal>> {
        // Nothing is sent with a credential, so nothing is made with one.
        Box::pin(async { Err(refusal(Reason::Undecidable)) })
    }

    fn report(&self, _outcome: Outcome) {}

    fn refused(&self, refused: WireRefusal) {
        self.refuse(refused.refusal.reason, refused.count);
    }
}

/// Dials the far end: plain, or the end of TLS before it.
struct Dialer {
    plain: SocketAddr,
    tls: SocketAddr,
}

impl Dial for Dialer {
    fn dial<'a>(&'a self, receipt: &'a Receipt) -> Pending<'a, Result<Dialed, Refusal>> {
        Box::pin(async move {
            let lost = |_| refusal(Reason::ConnectFailed);
            let opened = key().open(receipt, VALID_MS);
            let claims = opened.map_err(|_| refusal(Reason::Undecidable))?;
            let address = match claims.endpoint.scheme {
                Scheme::Http | Scheme::Postgres => self.plain,
                Scheme::Https => self.tls,
            };
            Ok(Dialed {
                stream: TcpStream::connect(address).await.map_err(lost)?,
                address: address.to_string(),
                resolved_by_proxy: false,
            })
        })
    }
}

/// The system's clock.
#[derive(Debug)]
struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "certificates need the time")]
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// A session's pipeline towards one far end.
pub(crate) fn pipeline(
    host: &str,
    ca_pem: &str,
    (plain, tls): (SocketAddr, SocketAddr),
) -> Result<(Arc<Pipeline>, Arc<Notary>)> {
    let ca = CertificateDer::from_pem_slice(ca_pem.as_bytes()).context("no CA")?;
    let mut roots = RootCertStore::empty();
    roots.add(ca).context("no CA")?;
    let host = Host::parse(host).map_err(|_| anyhow::anyhow!("not a name"))?;
    let config = SessionConfig {
        upstream_roots: Arc::new(RootCertStore::empty()),
        pinned: vec![PinnedRoots {
            host,
            roots: Arc::new(roots),
        }],
        limits: Limits::default(),
        tripwires: Vec::new(),
    };
    let notary = Arc::new(Notary::default());
    let ports = Ports {
        ask: notary.clone(),
        dial: Arc::new(Dialer { plain, tls }),
        clock: Arc::new(SystemClock),
    };
    let pipeline = Pipeline::new(&config, ports).context("no pipeline")?;
    Ok((pipeline, notary))
}
