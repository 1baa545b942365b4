// SPDX-License-Identifier: Apache-2.0
//! Ends a panic at the future that it came from, so that one request takes nothing else with it.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// Runs the future; `None` when it panicked. What it borrowed may be half-changed: the caller
/// ends the connection that it worked on.
pub(super) async fn unwound<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    std::future::poll_fn(
        |cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Ready(output)) => Poll::Ready(Some(output)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(_) => Poll::Ready(None),
        },
    )
    .await
}
