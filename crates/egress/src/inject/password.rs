// SPDX-License-Identifier: Apache-2.0
//! The password of a database: unlocked by receipt, and never written. What leaves is a proof that
//! the gate knows it (SCRAM).

use super::{missing, take_up, usable};
use crate::connect::{Upstream, receipt};
use crate::ports::{Granted, Ports};
use crate::postgres::Salted;
use crate::scrub::Released;
use torno_notary_protocol::transit::CredentialInTransit;
use torno_policy::Refusal;

/// A password that proves and is not said.
pub(crate) struct Password(CredentialInTransit);

impl Password {
    /// What proofs are made from.
    pub(crate) fn salted(&self, salt: &[u8], iterations: u32) -> Result<Salted, Refusal> {
        Ok(Salted::new(usable(&self.0)?, salt, iterations))
    }
}

/// Unlocks what the answer names. `_verified` is the evidence that the far end is the one that was
/// allowed.
pub(crate) async fn unlock_password(
    ports: &Ports,
    granted: &Granted,
    _verified: &mut Upstream,
    released: &Released,
) -> Result<Password, Refusal> {
    let allowed = &granted.allowed;
    let unlocked = ports.ask.unlock(receipt(allowed)?).await?;
    take_up(&unlocked.watched, released)?;
    let (Some(injection), Some(credential)) = (&allowed.injection, unlocked.injected) else {
        return Err(missing());
    };
    released.remember(injection, &allowed.endpoint, usable(&credential)?)?;
    released.take_up(unlocked.watch);
    Ok(Password(credential))
}
