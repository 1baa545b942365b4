// SPDX-License-Identifier: Apache-2.0
//! Verified connections that wait for another request. One pool per session, and a connection
//! serves one credential (or none) in all its life: nothing is shared across either.

use super::Upstream;
use crate::normalize::Protocol;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::Instant;
use torno_policy::names::{CredentialName, Endpoint};

/// LIMIT: connections that wait: as many as a session has from its sandbox, so that each client
/// finds one again; the one that waited longest goes first.
const IDLE_MAX: usize = 512;
/// LIMIT: servers close after 5 s at the earliest (Node's default); ours must be gone before.
const IDLE_TIME: Duration = Duration::from_secs(4);

/// The waiting connections.
#[derive(Default)]
pub(crate) struct Pool {
    idle: Mutex<Vec<(Instant, Upstream)>>,
}

impl Pool {
    /// The connection to this endpoint that was used last, if it is still alive.
    pub(crate) fn take(&self, endpoint: &Endpoint, protocol: Protocol) -> Option<Upstream> {
        let fits = |(_, u): &(Instant, Upstream)| u.endpoint == *endpoint && u.protocol == protocol;
        loop {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            let at = idle.iter().rposition(fits)?;
            let (since, mut upstream) = idle.remove(at);
            drop(idle);
            if since.elapsed() < IDLE_TIME && is_quiet(&mut upstream) {
                return Some(upstream);
            }
        }
    }

    /// Keeps a connection whose last exchange was completed.
    pub(crate) fn put(&self, mut upstream: Upstream) {
        upstream.is_reused = true;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(since, _)| since.elapsed() < IDLE_TIME);
        if idle.len() >= IDLE_MAX {
            idle.remove(0);
        }
        idle.push((Instant::now(), upstream));
    }

    /// Drops what a revocation covers.
    pub(crate) fn forget(&self, credential: Option<&CredentialName>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(_, u)| credential.is_some() && u.credential.as_ref() != credential);
    }
}

/// ATTACK: 057 – a far end that closed, or said something unasked, is not used again.
fn is_quiet(upstream: &mut Upstream) -> bool {
    let mut byte = [0];
    let mut buf = ReadBuf::new(&mut byte);
    let mut cx = Context::from_waker(Waker::noop());
    let read = Pin::new(&mut upstream.io).poll_read(&mut cx, &mut buf);
    read.is_pending() && upstream.buffer.unread().is_empty()
}
