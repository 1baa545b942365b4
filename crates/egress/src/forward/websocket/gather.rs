// SPDX-License-Identifier: Apache-2.0
//! Text messages of a WebSocket into which a credential goes: each is gathered whole, judged, and
//! sent as one frame. What does not fit ends the WebSocket with 1008.

use super::message::Kind;
use super::relay::Ending;
use crate::inject::MessageSlot;
use crate::pipeline::room;
use crate::refuse::Fault;
use crate::wire::PIECE_BYTES;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use torno_policy::Reason;
use zeroize::Zeroizing;

/// LIMIT: a message that is held whole; those that log in have a few hundred bytes.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// The message that is not over.
pub(super) struct Gather {
    slot: MessageSlot,
    message: Vec<u8>,
    ahead: Arc<Semaphore>,
    /// The right to hold more than one piece.
    room: Option<OwnedSemaphorePermit>,
}

impl Gather {
    pub(super) fn new(slot: MessageSlot, ahead: &Arc<Semaphore>) -> Self {
        Self {
            slot,
            message: Vec::new(),
            ahead: Arc::clone(ahead),
            room: None,
        }
    }

    /// Whether messages of this kind are gathered; those that are not pass as they come.
    pub(super) fn takes(&self, kind: Kind) -> Result<bool, Ending> {
        match kind {
            Kind::Text => Ok(true),
            Kind::Binary if self.slot.passes_binary => Ok(false),
            Kind::Binary => Err(Ending::not_said(Fault::malformed(
                "send texts alone where a credential goes into a message",
            ))),
        }
    }

    /// Adds a piece of a text; gives the message to send when it is whole.
    pub(super) async fn take(
        &mut self,
        is_last: bool,
        piece: &[u8],
    ) -> Result<Option<Zeroizing<Vec<u8>>>, Ending> {
        let size = self.message.len() + piece.len();
        if size > MESSAGE_BYTES_MAX {
            return Err(Ending::not_said(Fault::new(
                Reason::TooLarge,
                "send messages of at most 1 MiB where a credential goes into one",
            )));
        }
        if size > PIECE_BYTES && self.room.is_none() {
            self.room = Some(room(&self.ahead).await.map_err(Ending::not_said)?);
        }
        self.message.extend_from_slice(piece);
        if !is_last {
            return Ok(None);
        }
        self.room = None;
        let whole = self.slot.take(std::mem::take(&mut self.message));
        whole.map(Some).map_err(Ending::not_said)
    }
}
