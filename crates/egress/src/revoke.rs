// SPDX-License-Identifier: Apache-2.0
//! Cuts live streams when standing, grant or policy change. A cut connection's task is dropped
//! with its streams, and both ends see a reset.
//!
//! Revocations are numbered. An exchange notes the number before it asks; when it is about to use
//! a credential it is refused if that credential was revoked since.

use crate::forward::websocket::GOODBYE_WAIT;
use crate::wire::CutFlag;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;
use torno_policy::names::CredentialName;

/// One client connection, as far as a revocation needs it.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) client_cut: CutFlag,
    cut: Notify,
    /// A WebSocket is carried, which may say why it ends.
    is_relaying: AtomicBool,
    goodbye: Notify,
    now: Mutex<Now>,
}

#[derive(Debug, Default)]
struct Now {
    credential: Option<CredentialName>,
    upstream_cut: Option<CutFlag>,
}

impl Live {
    /// Ends when the connection was cut; with a WebSocket, when it had time to say goodbye.
    pub(crate) async fn until_cut(&self) {
        self.cut.notified().await;
        if self.is_relaying.load(Ordering::Acquire) {
            tokio::time::sleep(GOODBYE_WAIT).await;
        }
    }

    /// Ends when the connection was cut, for the WebSocket that it carries.
    pub(crate) async fn until_goodbye(&self) {
        self.goodbye.notified().await;
    }

    /// Whether the connection was cut.
    pub(crate) fn is_cut(&self) -> bool {
        self.client_cut.load(Ordering::Acquire)
    }

    /// The connection carries a WebSocket until the result is dropped.
    pub(crate) fn relaying(&self) -> Relaying<'_> {
        self.is_relaying.store(true, Ordering::Release);
        Relaying(self)
    }

    /// The exchange with this far end is over.
    pub(crate) fn unbind(&self) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = Now::default();
    }

    fn cut(&self) {
        self.client_cut.store(true, Ordering::Release);
        let now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(upstream) = &now.upstream_cut {
            upstream.store(true, Ordering::Release);
        }
        drop(now);
        self.goodbye.notify_one();
        self.cut.notify_one();
    }
}

/// A WebSocket is carried.
#[derive(Debug)]
pub(crate) struct Relaying<'a>(&'a Live);

impl Drop for Relaying<'_> {
    fn drop(&mut self) {
        self.0.is_relaying.store(false, Ordering::Release);
    }
}

/// The number of the last revocation that an exchange knows of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Epoch(u64);

/// It was revoked in the meantime.
#[derive(Debug)]
pub(crate) struct Revoked;

/// Every live connection of the session, and what was revoked in it.
#[derive(Debug, Default)]
pub(crate) struct Revocations {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    number: u64,
    everything: u64,
    credentials: HashMap<CredentialName, u64>,
    live: HashMap<u64, Arc<Live>>,
    next: u64,
    /// Whoever comes now is cut before anything of it is asked.
    is_closed: bool,
}

impl Revocations {
    pub(crate) fn epoch(&self) -> Epoch {
        Epoch(self.lock().number)
    }

    /// Registers a connection; it is forgotten when the result is dropped.
    pub(crate) fn register(self: &Arc<Self>) -> Registered {
        let live = Arc::new(Live::default());
        let mut inner = self.lock();
        let key = inner.next;
        inner.next += 1;
        inner.live.insert(key, Arc::clone(&live));
        if inner.is_closed {
            live.cut();
        }
        drop(inner);
        Registered {
            revocations: Arc::clone(self),
            key,
            live,
        }
    }

    /// The connection is about to use this credential and this far end.
    pub(crate) fn bind(
        &self,
        live: &Live,
        since: Epoch,
        credential: Option<&CredentialName>,
        upstream_cut: &CutFlag,
    ) -> Result<(), Revoked> {
        let inner = self.lock();
        if inner.is_closed {
            return Err(Revoked);
        }
        let of_credential = credential.and_then(|name| inner.credentials.get(name));
        let last = inner.everything.max(of_credential.copied().unwrap_or(0));
        if last > since.0 {
            return Err(Revoked);
        }
        // Under the lock: a revocation comes wholly before or after this.
        *live.now.lock().unwrap_or_else(PoisonError::into_inner) = Now {
            credential: credential.cloned(),
            upstream_cut: Some(Arc::clone(upstream_cut)),
        };
        Ok(())
    }

    /// Cuts every connection, and each that is still on its way here.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.revoke(None);
    }

    /// Cuts every connection that uses the credential; `None` cuts all.
    pub(crate) fn revoke(&self, credential: Option<&CredentialName>) {
        let mut inner = self.lock();
        inner.number += 1;
        let number = inner.number;
        match credential {
            None => inner.everything = number,
            Some(name) => {
                inner.credentials.insert(name.clone(), number);
            }
        }
        for live in inner.live.values() {
            let now = live.now.lock().unwrap_or_else(PoisonError::into_inner);
            let covered = credential.is_none() || now.credential.as_ref() == credential;
            drop(now);
            if covered {
                live.cut();
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A registered connection.
#[derive(Debug)]
pub(crate) struct Registered {
    revocations: Arc<Revocations>,
    key: u64,
    pub(crate) live: Arc<Live>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.revocations.lock().live.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_that_was_revoked_after_the_question_is_not_used() {
        let revocations = Arc::new(Revocations::default());
        let registered = revocations.register();
        let name = CredentialName::parse("c1").unwrap();
        let other = CredentialName::parse("c2").unwrap();
        let flag = CutFlag::default();
        let asked = revocations.epoch();
        revocations.revoke(Some(&name));
        let bind = |since, name| revocations.bind(&registered.live, since, Some(name), &flag);
        assert!(bind(asked, &name).is_err());
        assert!(bind(asked, &other).is_ok());
        assert!(bind(revocations.epoch(), &name).is_ok());
    }

    #[test]
    fn only_streams_of_the_revoked_credential_are_cut() {
        let revocations = Arc::new(Revocations::default());
        let (one, two) = (revocations.register(), revocations.register());
        let (flag, epoch) = (CutFlag::default(), revocations.epoch());
        let name = CredentialName::parse("c1").unwrap();
        revocations
            .bind(&one.live, epoch, Some(&name), &flag)
            .unwrap();
        revocations
            .bind(&two.live, epoch, None, &CutFlag::default())
            .unwrap();
        revocations.revoke(Some(&name));
        assert!(flag.load(Ordering::Acquire));
        assert!(one.live.client_cut.load(Ordering::Acquire));
        assert!(!two.live.client_cut.load(Ordering::Acquire));
        revocations.revoke(None);
        assert!(two.live.client_cut.load(Ordering::Acquire));
    }

    #[test]
    fn after_the_end_who_was_on_the_way_is_cut_and_binds_nothing() {
        let revocations = Arc::new(Revocations::default());
        let before = revocations.register();
        revocations.close();
        let late = revocations.register();
        for registered in [&before, &late] {
            assert!(registered.live.client_cut.load(Ordering::Acquire));
            let epoch = revocations.epoch();
            let bound = revocations.bind(&registered.live, epoch, None, &CutFlag::default());
            assert!(bound.is_err());
        }
    }
}
