// SPDX-License-Identifier: Apache-2.0
//! The ports of a pipeline under test: a clock that stands, a notary and a dialer that record what
//! they are asked.

use crate::{Answered, Ask, AtHand, Clock, Dial, Dialed, Granted, Pending, Unlocked};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tokio::net::TcpStream;
use torno_notary_protocol::gate::{Allowed, Injection, Keeping, Outcome, WireRefusal};
use torno_notary_protocol::receipt::{Receipt, ReceiptClaims, ReceiptKey, VALID_MS};
use torno_notary_protocol::transit::CredentialInTransit;
use torno_policy::binding::{Mode, Slot};
use torno_policy::facts::{RequestFacts, Unread};
use torno_policy::names::*;
use torno_policy::placeholder::Placeholder;
use torno_policy::tripwire::{Tripwire, Wire};
use torno_policy::{Layer, Reason, Refusal};
use zeroize::Zeroizing;

pub(in crate::pipeline::tests) const SECRET: &str = "ghp_CANARYcanary0123456789ABCDEF";

pub(in crate::pipeline::tests) fn placeholder() -> Placeholder {
    Placeholder::new("ghp_", [7; 16])
}

pub(in crate::pipeline::tests) fn tripwire() -> Tripwire {
    Tripwire::new(Wire::AwsCredentials, [9; 16])
}

/// The newest watch.
pub(in crate::pipeline::tests) const WATCH: u64 = 7;

#[derive(Debug)]
pub(in crate::pipeline::tests) struct Now;
impl Clock for Now {
    fn now(&self) -> SystemTime {
        // 2026-11-29, close enough to the certificates below, which never end.
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_910_400)
    }
}

type Decide = dyn Fn(&RequestFacts) -> Result<Yes, Refusal> + Send + Sync;

/// Decides by a function; remembers everything.
pub(in crate::pipeline::tests) struct Notary {
    pub(in crate::pipeline::tests) decide: Box<Decide>,
    pub(in crate::pipeline::tests) asked: Mutex<Vec<RequestFacts>>,
    pub(in crate::pipeline::tests) outcomes: Mutex<Vec<Outcome>>,
    pub(in crate::pipeline::tests) refused: Mutex<Vec<WireRefusal>>,
    pub(in crate::pipeline::tests) unlocks: Mutex<u32>,
    pub(in crate::pipeline::tests) secret: Mutex<String>,
    /// Another credential of the session: its placeholder and value.
    pub(in crate::pipeline::tests) watched: Mutex<Option<(String, String)>>,
    /// Whether the last yes puts a credential in.
    pub(in crate::pipeline::tests) injects: Mutex<bool>,
    /// It wants to read what was read.
    pub(in crate::pipeline::tests) reads_always: Mutex<bool>,
    /// The watch that each question said was taken up.
    pub(in crate::pipeline::tests) watches: Mutex<Vec<u64>>,
    /// What stands for minted values; each may be used.
    pub(in crate::pipeline::tests) minted: Mutex<Vec<Placeholder>>,
    /// It names no minted value.
    pub(in crate::pipeline::tests) mints_nothing: Mutex<bool>,
}

/// What a yes says.
#[derive(Clone, Default)]
pub(in crate::pipeline::tests) struct Yes {
    pub(in crate::pipeline::tests) slot: Option<Slot>,
    pub(in crate::pipeline::tests) own_credentials: bool,
    /// It wants to know something of the body first.
    pub(in crate::pipeline::tests) reads: Option<Unread>,
    /// When it is put in.
    pub(in crate::pipeline::tests) mode: Option<Mode>,
    /// A model runs there.
    pub(in crate::pipeline::tests) transcripts: bool,
    /// What is kept of the answer.
    pub(in crate::pipeline::tests) keeping: Option<Keeping>,
    /// It is for another credential than the one of the stage.
    pub(in crate::pipeline::tests) placeholder: Option<Placeholder>,
}

fn key() -> ReceiptKey {
    ReceiptKey::new([9; 32])
}

pub(in crate::pipeline::tests) fn no(reason: Reason) -> Refusal {
    Refusal {
        reason,
        layer: Layer::Session,
        rule: RuleName::new("grant"),
        hint: "ask for <another> host".to_owned(),
    }
}

pub(in crate::pipeline::tests) fn bearer() -> Slot {
    Slot::Header {
        name: "authorization".to_owned(),
        scheme: Some("Bearer".to_owned()),
    }
}

impl Notary {
    pub(in crate::pipeline::tests) fn new(
        decide: impl Fn(&RequestFacts) -> Result<Yes, Refusal> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            decide: Box::new(decide),
            asked: Mutex::default(),
            outcomes: Mutex::default(),
            refused: Mutex::default(),
            unlocks: Mutex::default(),
            secret: Mutex::new(SECRET.to_owned()),
            watched: Mutex::default(),
            injects: Mutex::default(),
            reads_always: Mutex::default(),
            watches: Mutex::default(),
            minted: Mutex::default(),
            mints_nothing: Mutex::default(),
        })
    }

    pub(in crate::pipeline::tests) fn yes() -> Arc<Self> {
        Self::new(|_| Ok(Yes::default()))
    }

    pub(in crate::pipeline::tests) fn bearer() -> Arc<Self> {
        Self::new(|_| {
            Ok(Yes {
                slot: Some(bearer()),
                ..Yes::default()
            })
        })
    }

    pub(in crate::pipeline::tests) fn never() -> Arc<Self> {
        Self::new(|facts| panic!("must not be asked about {facts:?}"))
    }

    /// What stands for the minted value that a request presents.
    fn presented(&self, facts: &RequestFacts) -> Option<String> {
        let minted = self.minted.lock().unwrap();
        let is_there =
            |p: &&Placeholder| facts.presented.iter().any(|one| one.digest == p.digest());
        minted.iter().find(is_there).map(|p| p.as_str().to_owned())
    }

    fn credential(&self) -> CredentialInTransit {
        let secret = self.secret.lock().unwrap().clone();
        CredentialInTransit::new(Zeroizing::new(secret.into_bytes()))
    }
}

impl Ask for Notary {
    fn ask<'a>(
        &'a self,
        facts: &'a RequestFacts,
        at_hand: AtHand,
    ) -> Pending<'a, Result<Answered, Refusal>> {
        Box::pin(async move {
            let mut asked = self.asked.lock().unwrap();
            asked.push(facts.clone());
            let record = RecordSeq(asked.len() as u64);
            drop(asked);
            let yes = (self.decide)(facts)?;
            let always = *self.reads_always.lock().unwrap();
            let is_read = match &yes.reads {
                Some(Unread::Slot(_)) => facts.body.is_some(),
                Some(Unread::Content(_)) | None => facts.content.is_some(),
            };
            if let (Some(unread), true) = (yes.reads, always || !is_read) {
                return Ok(Answered::Read(unread));
            }
            let receipt = key()
                .seal(&ReceiptClaims {
                    session: SessionId::parse("s1").unwrap(),
                    generation: Generation(1),
                    endpoint: facts.endpoint.clone(),
                    record,
                    issued_ms: 0,
                })
                .unwrap();
            self.watches.lock().unwrap().push(at_hand.watch);
            let watches = self.watched.lock().unwrap().is_some() && at_hand.watch != WATCH;
            let minted = self.presented(facts);
            let is_minted = minted.is_some();
            let unlock = (yes.slot.is_some() && !is_minted) || watches;
            let c1 = CredentialName::parse("c1");
            let pooled = at_hand.pooled && at_hand.serves == c1.ok() && !watches && !is_minted;
            *self.injects.lock().unwrap() = yes.slot.is_some() && !is_minted;
            let credential = (pooled && yes.slot.is_some()).then(|| self.credential());
            let allowed = Box::new(Allowed {
                record,
                receipt: credential.is_none().then_some(receipt),
                endpoint: facts.endpoint.clone(),
                strip: yes
                    .slot
                    .iter()
                    .flat_map(|s| {
                        s.fields()
                            .into_iter()
                            .map(str::to_owned)
                            .collect::<Vec<_>>()
                    })
                    .collect(),
                injection: yes.slot.map(|slot| Injection {
                    binding: BindingId::parse("b1").unwrap(),
                    credential: CredentialName::parse("c1").unwrap(),
                    slot,
                    mode: yes.mode.unwrap_or(Mode::PlaceholderOrInject),
                    placeholder: minted.unwrap_or_else(|| {
                        let of_another = yes.placeholder.unwrap_or_else(placeholder);
                        of_another.as_str().to_owned()
                    }),
                }),
                minted: is_minted,
                keeping: yes.keeping,
                own_credentials: yes.own_credentials,
                unlock,
                transcripts: yes.transcripts,
            });
            Ok(Answered::Granted(Granted {
                allowed,
                credential,
            }))
        })
    }

    fn unlock<'a>(&'a self, receipt: &'a Receipt) -> Pending<'a, Result<Unlocked, Refusal>> {
        Box::pin(async move {
            assert!(key().open(receipt, VALID_MS).is_ok());
            *self.unlocks.lock().unwrap() += 1;
            let watched = self.watched.lock().unwrap().clone();
            let transit = |value: String| CredentialInTransit::new(value.into_bytes().into());
            let injects = *self.injects.lock().unwrap();
            Ok(Unlocked {
                watch: if watched.is_some() { WATCH } else { 0 },
                watched: watched
                    .into_iter()
                    .map(|(placeholder, value)| (placeholder, transit(value)))
                    .collect(),
                injected: injects.then(|| self.credential()),
            })
        })
    }

    fn mint(&self, _: RecordSeq, count: u32) -> Pending<'_, Result<Vec<String>, Refusal>> {
        Box::pin(async move {
            if *self.mints_nothing.lock().unwrap() {
                return Err(no(Reason::LimitReached));
            }
            let mut minted = self.minted.lock().unwrap();
            let first = u8::try_from(100 + minted.len()).unwrap();
            let numbers = (first..).take(usize::try_from(count).unwrap());
            let made: Vec<_> = numbers.map(|n| Placeholder::new("", [n; 16])).collect();
            minted.extend(made.iter().cloned());
            Ok(made.iter().map(|p| p.as_str().to_owned()).collect())
        })
    }

    fn report(&self, outcome: Outcome) {
        self.outcomes.lock().unwrap().push(outcome);
    }

    fn refused(&self, refusal: WireRefusal) {
        self.refused.lock().unwrap().push(refusal);
    }
}

/// Dials the origin that a receipt's host stands for.
#[derive(Default)]
pub(in crate::pipeline::tests) struct Dialer {
    pub(in crate::pipeline::tests) hosts: Mutex<HashMap<String, SocketAddr>>,
    pub(in crate::pipeline::tests) dialled: Mutex<Vec<Endpoint>>,
}

impl Dial for Dialer {
    fn dial<'a>(&'a self, receipt: &'a Receipt) -> Pending<'a, Result<Dialed, Refusal>> {
        Box::pin(async move {
            let claims = key().open(receipt, VALID_MS).unwrap();
            self.dialled.lock().unwrap().push(claims.endpoint.clone());
            let host = claims.endpoint.host.name().unwrap().to_owned();
            let address = *self
                .hosts
                .lock()
                .unwrap()
                .get(&host)
                .expect("must not be dialled");
            Ok(Dialed {
                stream: TcpStream::connect(address).await.unwrap(),
                address: address.to_string(),
                resolved_by_proxy: false,
            })
        })
    }
}
