// SPDX-License-Identifier: Apache-2.0
//! Credit, walked by hand and at random.

use proptest::prelude::*;

use super::*;

#[test]
fn a_sender_stops_at_the_window() {
    let mut window = SendWindow::new();
    let mut sent = 0;
    while window.frame_bytes_max() > 0 {
        sent += window.take(usize::MAX);
    }
    assert_eq!(sent, WINDOW_BYTES as usize);
    assert_eq!(window.take(1), 0);
}

#[test]
fn a_peer_that_overruns_its_credit_is_refused() {
    let mut window = ReceiveWindow::new();
    window.accept(WINDOW_BYTES as usize).unwrap();
    assert_eq!(
        window.accept(1),
        Err(FlowError::Overrun {
            bytes: 1,
            allowed: 0
        })
    );
    assert_eq!(window.consume(WINDOW_BYTES as usize), Some(WINDOW_BYTES));
    window.accept(WINDOW_BYTES as usize).unwrap();
}

#[test]
fn credit_that_was_never_used_cannot_be_granted() {
    let mut window = SendWindow::new();
    assert_eq!(
        window.grant(1),
        Err(FlowError::CreditBeyondWindow { bytes: 1 })
    );
    assert_eq!(window.take(10), 10);
    window.grant(10).unwrap();
    assert_eq!(
        window.grant(u32::MAX),
        Err(FlowError::CreditBeyondWindow { bytes: u32::MAX })
    );
}

#[test]
fn nothing_comes_after_the_end() {
    let mut window = ReceiveWindow::new();
    window.end().unwrap();
    assert_eq!(window.accept(1), Err(FlowError::AfterEnd));
    assert_eq!(window.end(), Err(FlowError::AfterEnd));
}

#[test]
fn consuming_more_than_came_frees_no_more_than_came() {
    let mut window = ReceiveWindow::new();
    window.accept(10).unwrap();
    assert_eq!(window.consume(usize::MAX), None);
    assert_eq!(window.due, 10);
}

proptest! {
    /// Two honest ends never break a rule, never hold more than a window, and never get stuck.
    #[test]
    fn honest_ends_never_stall_nor_overrun(steps in prop::collection::vec((0usize..100_000, 0usize..100_000), 1..200)) {
        let mut sender = SendWindow::new();
        let mut receiver = ReceiveWindow::new();
        let mut held = 0usize;
        for (produce, drain) in steps {
            let taken = sender.take(produce);
            if taken > 0 {
                receiver.accept(taken).unwrap();
            }
            held += taken;
            prop_assert!(held <= WINDOW_BYTES as usize);
            let drained = drain.min(held);
            held -= drained;
            if let Some(credit) = receiver.consume(drained) {
                sender.grant(credit).unwrap();
            }
            if held == 0 {
                prop_assert!(sender.frame_bytes_max() > 0, "everything was read, yet no credit");
            }
        }
    }
}
