// SPDX-License-Identifier: Apache-2.0
//! Waits for the store's own thread. The notary does one thing at a time, and `SQLite` lies on a
//! thread that needs no runtime, so parking is all it takes; it works inside any runtime too.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end on this thread.
pub(super) fn wait<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            // A wake before this line leaves a token, and park returns at once.
            Poll::Pending => thread::park(),
        }
    }
}
