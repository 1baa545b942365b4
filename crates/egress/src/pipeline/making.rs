// SPDX-License-Identifier: Apache-2.0
//! Connections that are being made: so many at a time, and each for a yes that is still good when
//! the far end is verified.

use super::Pipeline;
use crate::forward::Stop;
use crate::normalize::Request;
use crate::refuse::Fault;
use std::time::Duration;
use tokio::sync::SemaphorePermit;
use tokio::time::{Instant, timeout};
use torno_notary_protocol::receipt::VALID_MS;
use torno_policy::Reason;

/// LIMIT: connections to far ends that a session makes at once. Making one takes a core about a
/// millisecond, so that each is made long before its receipt is too old.
pub(super) const MAKING_MAX: usize = 64;
/// LIMIT: half of a receipt's time. A connection that took longer, to a far end behind a slow line
/// or on a busy host, is made all the same: then one more question is asked about it.
const AGED: Duration = Duration::from_millis(VALID_MS / 2);
/// LIMIT: six times what the way to a slow far end takes at most. A request that waits holds a
/// connection of its session, which has few, and is in nobody else's way.
const TURN_WAIT: Duration = Duration::from_secs(60);

/// The yes to a question of that time may be too old for the credential by the time that it is
/// asked for.
pub(super) fn is_aged(asked: Instant) -> bool {
    asked.elapsed() > AGED
}

impl Pipeline {
    /// A yes is good for seconds: who needs a new connection asks when one can be made at once, so
    /// that of a burst each waits for its turn and none for a yes that has become too old.
    pub(super) async fn place_to_connect(
        &self,
        request: &Request,
    ) -> Result<SemaphorePermit<'_>, Stop> {
        let place = timeout(TURN_WAIT, self.making.acquire()).await;
        match place {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) | Err(_) => {
                let hint = "too many connections are being made at once: try again in a while";
                let fault = Fault::new(Reason::LimitReached, hint);
                let target = format!("{} {}", request.facts.endpoint, request.facts.path.path());
                Err(self.refusals.record(&fault, &target).into())
            }
        }
    }
}
