// SPDX-License-Identifier: Apache-2.0
//! Cancels. A client is given a key of the gate's own making, which counts in its session alone
//! and while its connection lives; the far end's key never comes inside.

use super::frame::FROM_FAR_END_MAX;
use super::outbox::{Far, Outbox};
use super::startup::CancelKey;
use super::{Around, Ended, granted};
use crate::refuse::Fault;
use rustls::crypto::SecureRandom;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use subtle::ConstantTimeEq;
use torno_policy::Reason;
use torno_policy::facts::Entry;
use torno_policy::names::Authority;
use torno_policy::postgres::{Deed, Login};

/// LIMIT: a server ends the connection of a cancel at once.
const END_WAIT: Duration = Duration::from_secs(5);

/// The connections of a session that can be cancelled in. As many as there are connections.
#[derive(Debug, Default)]
pub(crate) struct Cancels {
    by_process: Mutex<HashMap<u32, Target>>,
}

#[derive(Debug, Clone)]
struct Target {
    secret: u32,
    authority: Authority,
    login: Login,
    far: CancelKey,
}

/// A key that counts until it is dropped.
#[derive(Debug)]
pub(super) struct Issued {
    cancels: Arc<Cancels>,
    pub(super) key: CancelKey,
}

impl Drop for Issued {
    fn drop(&mut self) {
        let by_process = self.cancels.by_process.lock();
        let mut by_process = by_process.unwrap_or_else(PoisonError::into_inner);
        by_process.remove(&self.key.process);
    }
}

impl Cancels {
    /// Makes a key for a connection.
    pub(super) fn issue(
        self: &Arc<Self>,
        random: &dyn SecureRandom,
        (authority, login): (&Authority, &Login),
        far: CancelKey,
    ) -> Result<Issued, Fault> {
        let fault = || Fault::new(Reason::RoleUnavailable, "no random source: try again");
        let mut by_process = self
            .by_process
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        loop {
            let mut bytes = [0; 8];
            random.fill(&mut bytes).map_err(|_| fault())?;
            let key = CancelKey::read(&bytes).map_err(|_| fault())?;
            if key.process == 0 || by_process.contains_key(&key.process) {
                continue;
            }
            let target = Target {
                secret: key.secret,
                authority: authority.clone(),
                login: login.clone(),
                far,
            };
            by_process.insert(key.process, target);
            let cancels = Arc::clone(self);
            return Ok(Issued { cancels, key });
        }
    }

    /// What a key stands for at this far end.
    fn target(&self, key: CancelKey, authority: &Authority) -> Option<Target> {
        let by_process = self.by_process.lock();
        let by_process = by_process.unwrap_or_else(PoisonError::into_inner);
        let target = by_process.get(&key.process)?;
        let is_right: bool = target.secret.ct_eq(&key.secret).into();
        (is_right && target.authority == *authority).then(|| target.clone())
    }
}

/// Cancels at the far end, over a connection of its own that is decided, recorded and verified like
/// any. The client is told nothing, as PostgreSQL has it.
pub(super) async fn cancel(
    around: &Around<'_>,
    key: CancelKey,
    (entry, authority): (Entry, &Authority),
) -> Result<(), Ended> {
    let Some(target) = around.cancels.target(key, authority) else {
        return Err(Ended::from(Fault::new(
            Reason::OperationNotGranted,
            "cancel with the key of an open connection of this session",
        )));
    };
    let asked = (entry, authority);
    let allowed = granted(around, asked, (&target.login, Deed::Cancel)).await?;
    let (granted, mut reporter) = (allowed.granted, allowed.reporter);
    let draw = around.usage.open(&authority.host);
    let connected = match draw {
        Ok(draw) => {
            let connecting = around.connect(&granted, allowed.epoch, &mut reporter);
            connecting.await.map(|upstream| (upstream, draw))
        }
        Err(fault) => Err(fault.refusal()),
    };
    let (upstream, draw) = match connected {
        Ok(connected) => connected,
        Err(refusal) => {
            reporter.refused(refusal);
            return Err(Ended::Told);
        }
    };
    let mut far = Far::new(upstream.io, FROM_FAR_END_MAX, around.limits.body_wait);
    let mut outbox = Outbox::new(around, &draw);
    outbox.put_own(&target.far.packet())?;
    outbox.send(&mut far, &mut reporter).await?;
    far.close(END_WAIT).await;
    reporter.carried();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use torno_policy::postgres::Name;

    #[test]
    fn a_key_counts_for_its_far_end_and_while_its_connection_lives() {
        let random = rustls::crypto::aws_lc_rs::default_provider().secure_random;
        let cancels = Arc::new(Cancels::default());
        let authority = |text| Authority::parse_with_port(text).unwrap();
        let (here, there) = (authority("db.test:5432"), authority("db.test:5433"));
        let name = Name::parse("app").unwrap();
        let login = Login {
            database: name.clone(),
            user: name,
        };
        let far = CancelKey {
            process: 1,
            secret: 2,
        };
        let issued = cancels.issue(random, (&here, &login), far).unwrap();
        let key = issued.key;
        assert_ne!(key, far);
        assert_eq!(cancels.target(key, &here).unwrap().far, far);
        assert!(cancels.target(key, &there).is_none());
        assert!(cancels.target(far, &here).is_none());
        let wrong = CancelKey {
            secret: !key.secret,
            ..key
        };
        assert!(cancels.target(wrong, &here).is_none());
        drop(issued);
        assert!(cancels.target(key, &here).is_none());
    }
}
