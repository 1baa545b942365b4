// SPDX-License-Identifier: Apache-2.0
//! Runs of messages, in order and out of it.

use super::*;
use bytes::Bytes;

fn frame(kind: u8, body: &[u8]) -> Frame {
    Frame {
        kind,
        body: Bytes::copy_from_slice(body),
    }
}

/// Lets a message through, as the relay does with what it allows.
fn take(turn: &mut Turn, kind: u8, body: &[u8]) -> Step {
    let frame = frame(kind, body);
    let step = turn.step(&frame).unwrap();
    match step {
        Step::Forward => turn.begin(&frame, None).unwrap(),
        Step::Judge(judged) => turn.begin(&frame, Some(judged)).unwrap(),
        Step::Hold | Step::Drop | Step::Terminate | Step::Refuse(_) => {}
    }
    step
}

fn goes(turn: &mut Turn, kind: u8, body: &[u8]) {
    let step = take(turn, kind, body);
    assert!(matches!(step, Step::Forward | Step::Judge(_)), "{step:?}");
}

#[test]
fn one_query_or_run_is_under_way_at_a_time() {
    let mut turn = Turn::new(false);
    goes(&mut turn, b'Q', b"select 1\0");
    assert_eq!(take(&mut turn, b'Q', b"select 2\0"), Step::Hold);
    turn.ready().unwrap();
    assert!(turn.is_idle());
    goes(&mut turn, b'P', b"\0select 1\0\0\0");
    goes(&mut turn, b'B', b"\0\0\0\0\0\0\0\0");
    goes(&mut turn, b'E', b"\0\0\0\0\0");
    assert!(turn.ready().is_err(), "a run is over when it is synced");
    goes(&mut turn, b'S', b"");
    assert_eq!(take(&mut turn, b'P', b"\0select 2\0\0\0"), Step::Hold);
    assert_eq!(take(&mut turn, b'X', b""), Step::Terminate);
    turn.ready().unwrap();
    assert!(turn.ready().is_err(), "nobody asked");
}

#[test]
fn data_is_copied_in_only_where_the_far_end_takes_it() {
    let mut turn = Turn::new(false);
    assert_eq!(take(&mut turn, b'd', b"x"), Step::Drop);
    assert!(turn.copy_in().is_err());
    goes(&mut turn, b'Q', b"copy t from stdin\0");
    assert_eq!(take(&mut turn, b'd', b"x"), Step::Hold);
    turn.copy_in().unwrap();
    goes(&mut turn, b'd', b"x");
    goes(&mut turn, b'c', b"");
    turn.ready().unwrap();
    // As libpq does it with the extended protocol: the first Sync is ignored.
    goes(&mut turn, b'E', b"\0\0\0\0\0");
    turn.copy_in().unwrap();
    assert_eq!(take(&mut turn, b'S', b""), Step::Drop);
    goes(&mut turn, b'c', b"");
    goes(&mut turn, b'S', b"");
    turn.ready().unwrap();
}

#[test]
fn a_refused_run_is_skipped_up_to_its_sync() {
    let mut turn = Turn::new(true);
    turn.skip();
    assert_eq!(take(&mut turn, b'E', b"\0\0\0\0\0"), Step::Drop);
    assert_eq!(take(&mut turn, b'Q', b"select 1\0"), Step::Drop);
    goes(&mut turn, b'S', b"");
    turn.ready().unwrap();
}

#[test]
fn what_follows_the_end_of_a_transaction_is_guarded_anew() {
    let mut turn = Turn::new(true);
    let step = take(&mut turn, b'Q', b"select f(); commit; select g()\0");
    assert!(matches!(step, Step::Refuse(_)), "{step:?}");
    goes(&mut turn, b'Q', b"commit\0");
    turn.ready().unwrap();
    goes(&mut turn, b'P', b"c\0commit\0\0\0");
    goes(&mut turn, b'B', b"p\0c\0\0\0\0\0\0\0");
    goes(&mut turn, b'B', b"\0\0\0\0\0\0\0\0");
    goes(&mut turn, b'E', b"p\0\0\0\0\0");
    let step = take(&mut turn, b'E', b"\0\0\0\0\0");
    assert!(matches!(step, Step::Refuse(_)), "{step:?}");
    // A second life of the name, and a run in which something was done before.
    goes(&mut turn, b'S', b"");
    turn.ready().unwrap();
    goes(&mut turn, b'B', b"\0\0\0\0\0\0\0\0");
    goes(&mut turn, b'E', b"\0\0\0\0\0");
    goes(&mut turn, b'B', b"p\0c\0\0\0\0\0\0\0");
    let step = take(&mut turn, b'E', b"p\0\0\0\0\0");
    assert!(matches!(step, Step::Refuse(_)), "{step:?}");
}

#[test]
fn what_has_no_place_is_refused() {
    let turn = Turn::new(false);
    let step = turn.step(&frame(b'F', b"")).unwrap();
    assert!(matches!(step, Step::Refuse(_)));
    for (kind, body) in [
        (b'p', &b"password\0"[..]),
        (b'R', b""),
        (b'Q', b"no end"),
        (b'Q', b"select 1\0select 2\0"),
        (b'P', b"name"),
    ] {
        assert!(turn.step(&frame(kind, body)).is_err(), "{kind}");
    }
    let mut turn = Turn::new(false);
    goes(&mut turn, b'H', b"");
    assert!(turn.step(&frame(b'Q', b"select 1\0")).is_err(), "no Sync");
}

/// A Parse of a name that is taken fails at the server, and the statement of before stays.
#[test]
fn a_name_that_fails_to_be_prepared_again_still_ends_a_transaction() {
    let mut turn = Turn::new(true);
    goes(&mut turn, b'P', b"c\0commit\0\0\0");
    goes(&mut turn, b'S', b"");
    turn.ready().unwrap();
    goes(&mut turn, b'P', b"c\0select 1\0\0\0");
    goes(&mut turn, b'S', b"");
    turn.ready().unwrap();
    ends_behind_another(&mut turn, b"c");
}

/// PostgreSQL cuts the names of prepared statements and portals at 63 bytes.
#[test]
fn a_long_name_is_the_one_that_the_server_makes_of_it() {
    let name = |last: &str| format!("{}{last}", "n".repeat(63));
    let mut turn = Turn::new(true);
    let prepared = [name("1").as_bytes(), b"\0commit\0\0\0"].concat();
    if matches!(take(&mut turn, b'P', &prepared), Step::Refuse(_)) {
        return;
    }
    goes(&mut turn, b'S', b"");
    turn.ready().unwrap();
    ends_behind_another(&mut turn, name("2").as_bytes());
}

/// Within a transaction block a portal with a name outlives its Sync.
#[test]
fn a_portal_of_the_run_before_still_ends_a_transaction() {
    let mut turn = Turn::new(true);
    goes(&mut turn, b'Q', b"begin\0");
    turn.ready().unwrap();
    goes(&mut turn, b'P', b"c\0commit\0\0\0");
    goes(&mut turn, b'B', b"p\0c\0\0\0\0\0\0\0");
    goes(&mut turn, b'S', b"");
    turn.ready().unwrap();
    goes(&mut turn, b'P', b"\0select f()\0\0\0");
    goes(&mut turn, b'B', b"\0\0\0\0\0\0\0\0");
    goes(&mut turn, b'E', b"\0\0\0\0\0");
    let step = take(&mut turn, b'E', b"p\0\0\0\0\0");
    assert!(matches!(step, Step::Refuse(_)), "{step:?}");
}

fn ends_behind_another(turn: &mut Turn, name: &[u8]) {
    goes(turn, b'P', b"\0select f()\0\0\0");
    goes(turn, b'B', b"\0\0\0\0\0\0\0\0");
    goes(turn, b'E', b"\0\0\0\0\0");
    goes(turn, b'B', &[b"p\0", name, b"\0\0\0\0\0\0\0"].concat());
    let step = take(turn, b'E', b"p\0\0\0\0\0");
    assert!(matches!(step, Step::Refuse(_)), "{step:?}");
}

#[test]
fn the_names_that_are_kept_of_a_connection_are_short() {
    let mut turn = Turn::new(true);
    let mut kept = 0;
    for number in 0..64 {
        let name = format!("{number}{}", "n".repeat(1 << 16));
        let body = [name.as_bytes(), b"\0commit\0\0\0"].concat();
        let frame = frame(b'P', &body);
        if let Ok(Step::Judge(judged)) = turn.step(&frame) {
            turn.begin(&frame, Some(judged)).unwrap();
        }
        kept = turn.statements.bytes();
    }
    assert!(kept <= 64 * 64, "{kept} bytes of names");
}

/// PostgreSQL runs a statement of the protocol by `EXECUTE` too, whatever it is.
#[test]
fn what_ends_a_transaction_ends_it_by_execute_too() {
    let mut turn = Turn::new(true);
    goes(&mut turn, b'P', b"c\0commit\0\0\0");
    goes(&mut turn, b'S', b"");
    turn.ready().unwrap();
    goes(&mut turn, b'Q', b"begin\0");
    turn.ready().unwrap();
    let step = take(&mut turn, b'Q', b"select f(); execute c; select g()\0");
    assert!(matches!(step, Step::Refuse(_)), "{step:?}");
}

/// What comes in one run with the begin of a transaction is in that transaction: drivers send both
/// together.
#[test]
fn a_transaction_is_begun_together_with_its_first_statement() {
    let mut turn = Turn::new(true);
    goes(&mut turn, b'P', b"S_1\0BEGIN\0\0\0");
    goes(&mut turn, b'B', b"\0S_1\0\0\0\0\0\0\0");
    goes(&mut turn, b'E', b"\0\0\0\0\0");
    goes(&mut turn, b'P', b"\0select 1\0\0\0");
    goes(&mut turn, b'B', b"\0\0\0\0\0\0\0\0");
    goes(&mut turn, b'E', b"\0\0\0\0\0");
    goes(&mut turn, b'S', b"");
    turn.ready().unwrap();
    // The end of it is prepared under a name and goes by that name ever after.
    for _ in 0..3 {
        goes(&mut turn, b'P', b"\0commit\0\0\0");
        goes(&mut turn, b'B', b"\0\0\0\0\0\0\0\0");
        goes(&mut turn, b'E', b"\0\0\0\0\0");
        goes(&mut turn, b'S', b"");
        turn.ready().unwrap();
        turn.transaction_over();
    }
    goes(&mut turn, b'P', b"\0select 1\0\0\0");
    for _ in 0..2 {
        goes(&mut turn, b'B', b"\0\0\0\0\0\0\0\0");
        goes(&mut turn, b'E', b"\0\0\0\0\0");
    }
}

/// A statement is planned when it is bound, and some functions are run by that.
#[test]
fn nothing_is_bound_behind_the_end_of_a_transaction() {
    let mut turn = Turn::new(true);
    goes(&mut turn, b'P', b"\0commit\0\0\0");
    goes(&mut turn, b'B', b"\0\0\0\0\0\0\0\0");
    goes(&mut turn, b'E', b"\0\0\0\0\0");
    let step = take(&mut turn, b'B', b"p\0s\0\0\0\0\0\0\0");
    assert!(matches!(step, Step::Refuse(_)), "{step:?}");
}

/// An unnamed statement that was not looked at leaves the one of before.
#[test]
fn a_run_that_failed_leaves_the_statements_of_before() {
    let mut turn = Turn::new(true);
    goes(&mut turn, b'P', b"\0commit\0\0\0");
    goes(&mut turn, b'S', b"");
    turn.ready().unwrap();
    goes(&mut turn, b'D', b"Snobody\0");
    goes(&mut turn, b'P', b"\0select 1\0\0\0");
    goes(&mut turn, b'S', b"");
    turn.failed();
    turn.ready().unwrap();
    ends_behind(&mut turn, |turn| {
        goes(turn, b'P', b"s\0select f()\0\0\0");
        goes(turn, b'B', b"q\0s\0\0\0\0\0\0\0");
        goes(turn, b'E', b"q\0\0\0\0\0");
        goes(turn, b'B', b"p\0\0\0\0\0\0\0\0");
    });
}

fn ends_behind(turn: &mut Turn, run: impl Fn(&mut Turn)) {
    run(turn);
    let step = take(turn, b'E', b"p\0\0\0\0\0");
    assert!(matches!(step, Step::Refuse(_)), "{step:?}");
}

/// What is bound first could have turned `standard_conforming_strings` off.
#[test]
fn a_text_is_not_read_behind_what_may_change_how_it_is_read() {
    let text = br"select '\' as a, pg_switch_wal() --'";
    let parse = [b"\0", &text[..], b"\0\0\0"].concat();
    let mut turn = Turn::new(true);
    goes(&mut turn, b'P', &parse);
    goes(&mut turn, b'B', b"\0\0\0\0\0\0\0\0");
    let step = take(&mut turn, b'P', &parse);
    assert!(matches!(step, Step::Refuse(_)), "{step:?}");
    goes(&mut turn, b'S', b"");
    turn.ready().unwrap();
    goes(&mut turn, b'P', &parse);
}
