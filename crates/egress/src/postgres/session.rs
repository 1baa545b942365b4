// SPDX-License-Identifier: Apache-2.0
//! One session, in order: the question, the client's proof, the far end verified and logged in to,
//! the greeting, the relay, the report.

use super::frame::{Lane, put};
use super::outbox::Outbox;
use super::relay::Relay;
use super::startup::Startup;
use super::{Around, Asking, Ended, Yes, answers, far_end, granted, is_proved, login};
use crate::accept::Draw;
use crate::inject::{revoked, undecidable, unlock_password};
use crate::refuse::{Fault, When};
use crate::report::Reporter;
use std::time::Duration;
use tokio::time::Instant;
use torno_policy::Reason;
use torno_policy::binding::Slot;
use torno_policy::postgres::Deed;

/// LIMIT: a receipt counts for two seconds; when the client's proof, or the connection to the far
/// end, took longer than this it is asked about again.
const FRESH: Duration = Duration::from_millis(500);

/// A session, from the question to its end. The client comes back to be told how it ended.
pub(super) async fn session(
    around: &Around<'_>,
    mut client: Lane,
    (asking, startup): (Asking<'_>, &Startup),
) -> (Lane, Option<Ended>, When) {
    let (mut yes, last) = match admitted(around, &mut client, asking).await {
        Ok(admitted) => admitted,
        Err(ended) => return (client, Some(ended), When::Login),
    };
    let draw = match around.usage.open(&asking.authority.host) {
        Ok(draw) => draw,
        Err(fault) => return (client, Some(told(yes.reporter, fault.into())), When::Login),
    };
    let opening = logged_in(around, &mut yes, asking, (startup, &draw));
    let opening = tokio::time::timeout(around.limits.connect_wait, opening).await;
    let slow = Err(Ended::Fault(Fault::new(
        Reason::UpstreamTimeout,
        "the far end did not open a session in time: try again later",
    )));
    let (session, outbox, slot) = match opening.unwrap_or(slow) {
        Ok(opened) => opened,
        Err(ended) => return (client, Some(told(yes.reporter, ended)), When::Login),
    };
    let Yes {
        granted,
        mut reporter,
        ..
    } = yes;
    let about = (asking.authority, asking.login);
    let issue = |far| around.cancels.issue(around.random, about, far);
    let issued = match session.key.map(issue).transpose() {
        Ok(issued) => issued,
        Err(fault) => return (client, Some(told(reporter, fault.into())), When::Login),
    };
    let mut greeting = Vec::new();
    login::authentication(12, &last, &mut greeting);
    login::authentication(0, &[], &mut greeting);
    let scrubber = around.released.scrubber();
    for frame in &session.welcome {
        let put = answers::put_scrubbed(frame, scrubber.as_ref(), &mut greeting);
        reporter.received.reflected += put.unwrap_or_default();
    }
    if let Some(issued) = &issued {
        put(b'K', &issued.key.bytes(), &mut greeting);
    }
    put(b'Z', b"I", &mut greeting);
    if client.send(&greeting).await.is_err() {
        return (client, None, When::Session);
    }
    let sides = (client, session.far);
    let mut relay = Relay::new((around, asking, &granted), sides, (outbox, &slot));
    let carried = relay.run(&mut reporter).await;
    around.live.unbind();
    match carried {
        Ok(()) => {
            reporter.carried();
            (relay.client, None, When::Session)
        }
        Err(ended) => (relay.client, Some(told(reporter, ended)), When::Session),
    }
}

/// How an allowed connection was refused after all; other ends the reporter tells by itself.
fn told(reporter: Reporter, ended: Ended) -> Ended {
    match ended {
        Ended::Fault(fault) => {
            let refusal = fault.refusal();
            reporter.refused(refusal.clone());
            Ended::Refused(refusal)
        }
        Ended::Refused(refusal) => {
            reporter.refused(refusal.clone());
            Ended::Refused(refusal)
        }
        ended @ (Ended::Gone | Ended::Told) => ended,
    }
}

/// The question, and the client's proof that it has the placeholder. Gives the last message of it.
async fn admitted(
    around: &Around<'_>,
    client: &mut Lane,
    asking: Asking<'_>,
) -> Result<(Yes, Vec<u8>), Ended> {
    let mut yes = ask_to_start(around, asking).await?;
    let asked = Instant::now();
    let injection = yes.granted.allowed.injection.as_ref();
    let injection = injection.ok_or_else(|| undecidable().refusal())?;
    let proving = login::authenticate(client, &injection.placeholder, around.random);
    let slow = Err(Ended::Fault(Fault::malformed(
        "send the proof of the password at once",
    )));
    let proved = tokio::time::timeout(around.limits.head_wait, proving).await;
    match proved.unwrap_or(slow) {
        Ok(last) => {
            if asked.elapsed() > FRESH {
                renew(around, asking, &mut yes).await?;
            }
            Ok((yes, last))
        }
        Err(ended) => Err(told(yes.reporter, ended)),
    }
}

async fn ask_to_start(around: &Around<'_>, asking: Asking<'_>) -> Result<Yes, Ended> {
    let place = (asking.entry, asking.authority);
    Ok(granted(around, place, (asking.login, Deed::Start)).await?)
}

/// Asks again, since what came meanwhile took long: the proof stays good for the same placeholder.
async fn renew(around: &Around<'_>, asking: Asking<'_>, yes: &mut Yes) -> Result<(), Ended> {
    let again = ask_to_start(around, asking).await?;
    if let Err(refusal) = is_proved(&again.granted, &yes.granted) {
        return Err(told(again.reporter, refusal.into()));
    }
    *yes = again;
    Ok(())
}

/// Looks at what the client brought, connects, verifies, unlocks and logs in.
async fn logged_in<'a>(
    around: &Around<'a>,
    yes: &mut Yes,
    asking: Asking<'_>,
    (startup, draw): (&Startup, &'a Draw),
) -> Result<(far_end::Session, Outbox<'a>, Slot), Ended> {
    let injection = yes.granted.allowed.injection.as_ref();
    let slot = injection.map(|injection| injection.slot.clone());
    let slot = slot.filter(|slot| matches!(slot, Slot::Postgres { .. }));
    let slot = slot.ok_or_else(|| undecidable().refusal())?;
    let mut outbox = Outbox::new(around, draw);
    outbox.put_start(startup, &far_end::ours(&slot))?;
    let began = Instant::now();
    let connecting = around.connect(&yes.granted, yes.epoch, &mut yes.reporter);
    let mut upstream = connecting.await?;
    if began.elapsed() > FRESH {
        renew(around, asking, yes).await?;
        yes.reporter.dialled(&upstream);
        // What the server is told of the session's rights was written by the first yes.
        let renewed = yes.granted.allowed.injection.as_ref();
        if renewed.is_none_or(|injection| injection.slot != slot) {
            return Err(revoked().into());
        }
    }
    let unlocking = unlock_password(around.ports, &yes.granted, &mut upstream, around.released);
    let password = unlocking.await?;
    let ends = (&mut outbox, &mut yes.reporter);
    let session = far_end::log_in(around, upstream, ends, (&slot, password)).await?;
    Ok((session, outbox, slot))
}
