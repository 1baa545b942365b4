// SPDX-License-Identifier: Apache-2.0
//! Ends a panic at the future that it came from, so that one request takes nothing else with it.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

/// Runs the future, which stays where it is: one of a request has kilobytes. `None` when it
/// panicked. What it borrowed may be half-changed: the caller ends the connection that it worked
/// on.
pub(super) async fn unwound<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    std::future::poll_fn(
        |cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Ready(output)) => Poll::Ready(Some(output)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(_) => Poll::Ready(None),
        },
    )
    .await
}
