// SPDX-License-Identifier: Apache-2.0
//! The two ends of a channel's streams inside the agent: an [`Inlet`] holds what the host sent
//! until its consumer takes it, an [`Outlet`] holds the credit that the host gave. Neither holds
//! more than one window.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use tokio::sync::Notify;
use torno_guest_protocol::{DATA_BYTES_MAX, FlowError, ReceiveWindow, SendWindow};

/// What an inlet gives its one consumer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// At most a data frame's length.
    Bytes(BytesMut),
    /// The host ended the stream.
    End,
    /// The host gave the request up.
    Cancelled,
}

/// Host to guest.
#[derive(Debug, Default)]
pub(crate) struct Inlet {
    state: Mutex<InletState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct InletState {
    // LIMIT: WINDOW_BYTES, by the window's own count.
    buffer: BytesMut,
    window: ReceiveWindow,
    is_cancelled: bool,
    /// Nothing more is taken; what is here is still given.
    is_cut: bool,
}

impl Inlet {
    /// Takes a data frame's bytes from the link.
    pub(crate) fn accept(&self, bytes: &[u8]) -> Result<(), FlowError> {
        let mut state = lock(&self.state);
        state.window.accept(bytes.len())?;
        if !state.is_cancelled && !state.is_cut {
            state.buffer.extend_from_slice(bytes);
        }
        self.changed.notify_one();
        Ok(())
    }

    /// Takes the end of the stream from the link.
    pub(crate) fn end(&self) -> Result<(), FlowError> {
        lock(&self.state).window.end()?;
        self.changed.notify_one();
        Ok(())
    }

    /// Takes nothing more: the consumer gets what came before, and then that nobody wants it.
    pub(crate) fn cut(&self) {
        lock(&self.state).is_cut = true;
        self.changed.notify_one();
    }

    /// Wakes the consumer for the last time.
    pub(crate) fn cancel(&self) {
        let mut state = lock(&self.state);
        state.is_cancelled = true;
        state.buffer = BytesMut::new();
        self.changed.notify_one();
    }

    /// Waits for bytes or the end.
    pub(crate) async fn next(&self) -> Arrival {
        loop {
            if let Some(arrival) = self.try_next() {
                return arrival;
            }
            self.changed.notified().await;
        }
    }

    /// Counts bytes as passed on; gives the credit that is now due to the host.
    pub(crate) fn consume(&self, bytes: usize) -> Option<u32> {
        lock(&self.state).window.consume(bytes)
    }

    fn try_next(&self) -> Option<Arrival> {
        let mut state = lock(&self.state);
        if state.is_cancelled {
            return Some(Arrival::Cancelled);
        }
        if !state.buffer.is_empty() {
            let bytes = state.buffer.len().min(DATA_BYTES_MAX);
            return Some(Arrival::Bytes(state.buffer.split_to(bytes)));
        }
        if state.is_cut {
            return Some(Arrival::Cancelled);
        }
        state.window.is_ended().then_some(Arrival::End)
    }
}

/// Guest to host.
#[derive(Debug, Default)]
pub(crate) struct Outlet {
    state: Mutex<OutletState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct OutletState {
    window: SendWindow,
    is_cancelled: bool,
}

impl Outlet {
    /// Adds the host's credit.
    pub(crate) fn grant(&self, bytes: u32) -> Result<(), FlowError> {
        lock(&self.state).window.grant(bytes)?;
        self.changed.notify_one();
        Ok(())
    }

    /// Wakes the producer for the last time.
    pub(crate) fn cancel(&self) {
        lock(&self.state).is_cancelled = true;
        self.changed.notify_one();
    }

    /// Waits until something may be sent, and says how much; `None` when nobody wants it any more.
    pub(crate) async fn room(&self) -> Option<usize> {
        loop {
            {
                let state = lock(&self.state);
                if state.is_cancelled {
                    return None;
                }
                if state.window.frame_bytes_max() > 0 {
                    return Some(state.window.frame_bytes_max());
                }
            }
            self.changed.notified().await;
        }
    }

    /// Waits until nobody wants it any more; for the one producer, when it has room.
    pub(crate) async fn cancelled(&self) {
        while !lock(&self.state).is_cancelled {
            self.changed.notified().await;
        }
    }

    /// Uses credit for bytes that are sent now; the caller had [`Outlet::room`] for them.
    pub(crate) fn take(&self, bytes: usize) {
        lock(&self.state).window.take(bytes);
    }
}

/// A panicked holder has left nothing half-done in these small states.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
