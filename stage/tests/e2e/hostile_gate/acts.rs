// SPDX-License-Identifier: Apache-2.0
//! What the stories of a hostile gate are told with: an act that is refused, and its control, the
//! same act done rightfully.

use super::taken_over::{Reply, TakenOver};
use crate::ledger::reason;
use crate::stage::{Stage, at_level};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use torno_notary_protocol::receipt::{Receipt, VALID_MS};
use torno_policy::decision::Reason;

/// Tells a story once: the level is not what it is about. As root, since only root may take
/// another process's descriptors.
pub(super) fn with_gates<const N: usize>(story: &str, tell: impl Fn(&Stage, [TakenOver; N])) {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP: {story}: not root, so no gate's descriptors can be taken");
        return;
    }
    at_level(story, "container", |stage| {
        stage.is_not_seen_whole("the test speaks in a gate's place");
        tell(stage, std::array::from_fn(|_| TakenOver::begin(stage)));
        for session in stage.daemon.sessions().unwrap() {
            stage.torno(&["session", "stop", &session]).good();
        }
    });
}

/// How often each far end was reached.
pub(super) fn connections(stage: &Stage) -> [usize; 4] {
    let world = &stage.world;
    [&world.api, &world.other, &world.git, &world.evil].map(|far| far.journal.mark())
}

/// An act is refused for this reason, says so once in the record, and reaches nobody.
#[track_caller]
pub(super) fn refused(
    stage: &Stage,
    gate: &TakenOver,
    (case, why): (&str, Reason),
    act: impl FnOnce() -> Reply,
) {
    let (mark, reached) = (gate.ledger.mark(), connections(stage));
    let said = act().refused();
    assert_eq!(said, why, "{case}");
    assert_eq!(reason(&gate.ledger.one(mark)), Some(why), "{case}");
    assert_eq!(connections(stage), reached, "{case}");
}

/// No byte of a credential came but what was rightfully unlocked, so often.
#[track_caller]
pub(super) fn heard_no_more(stage: &Stage, gate: &TakenOver) {
    let heard = gate.heard();
    let count = |token: &str| memchr::memmem::find_iter(&heard, token).count();
    assert_eq!(count(&stage.world.api_token), gate.unlocked());
    assert_eq!(count(&stage.world.git_token), 0);
}

/// Asks for the API and gets a receipt.
#[track_caller]
pub(super) fn receipt(gate: &TakenOver) -> Receipt {
    let allowed = gate.ask(gate.api("/v1/me"), false).allowed();
    allowed.receipt.unwrap()
}

/// What the rightful gate gets: the credential once, and one connection to its far end.
#[track_caller]
pub(super) fn served(stage: &Stage, gate: &TakenOver) {
    let mark = stage.world.api.journal.mark();
    // Two seconds may be too few on a machine under load: then it asks anew, as a gate does.
    for _ in 0..5 {
        let began = Instant::now();
        let receipt = receipt(gate);
        let (dialed, unlocked) = (gate.dial(&receipt), gate.unlock(&receipt));
        let (Reply::Dialed(socket), Reply::Unlocked(bytes)) = (&dialed, &unlocked) else {
            let late = began.elapsed() > Duration::from_millis(VALID_MS / 2);
            assert!(late, "{dialed:?} {unlocked:?}");
            continue;
        };
        assert_eq!(*bytes, stage.world.api_token.len());
        let far = TcpStream::from(socket.try_clone().unwrap()).peer_addr();
        assert_eq!(far.unwrap(), stage.world.api.address);
        let end = Instant::now() + Duration::from_secs(20);
        while stage.world.api.journal.mark() == mark {
            assert!(Instant::now() < end, "nobody came to the far end");
            std::thread::sleep(Duration::from_millis(10));
        }
        return;
    }
    panic!("no receipt was used in time");
}
