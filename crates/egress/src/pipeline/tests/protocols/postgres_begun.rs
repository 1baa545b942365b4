// SPDX-License-Identifier: Apache-2.0
//! Who may log in, and with what.

use super::postgres::*;
use super::stage::*;
use torno_notary_protocol::gate::End;
use torno_policy::Reason;
use torno_policy::binding::Slot;
use torno_policy::postgres::Access;

#[tokio::test]
async fn a_far_end_that_proves_nothing_gets_no_password() {
    for (kind, reason, unlocked) in [
        (Far::NoTls, Reason::UpstreamTls, 0),
        (Far::Unverified, Reason::UpstreamTls, 0),
        (Far::Trusting, Reason::UpstreamResponse, 1),
        (Far::Md5, Reason::UpstreamResponse, 1),
        (Far::Impostor, Reason::UpstreamResponse, 1),
    ] {
        let (stage, told) = staged(kind, Access::Read).await;
        let (_, _, heard) = log_in(&stage, placeholder().as_str()).await;
        assert!(
            text(&heard).contains(reason.code()),
            "{kind:?}: {}",
            text(&heard)
        );
        // No password and no proof of it before the far end is verified (I5).
        assert_eq!(*stage.notary.unlocks.lock().unwrap(), unlocked, "{kind:?}");
        let said = told.lock().unwrap().concat();
        assert!(!said.contains(SECRET), "{kind:?}");
        let outcomes = stage.notary.outcomes.lock().unwrap();
        assert!(
            matches!(&outcomes[0].end, End::Refused(r) if r.reason == reason),
            "{kind:?}"
        );
    }
}

#[tokio::test]
async fn whoever_does_not_know_the_placeholder_reaches_nobody() {
    let (stage, told) = staged(Far::Good, Access::Read).await;
    for wrong in ["", SECRET, "TRNOwrong"] {
        let (_, _, heard) = log_in(&stage, wrong).await;
        assert!(text(&heard).contains("28P01"), "{}", text(&heard));
    }
    assert!(stage.dialer.dialled.lock().unwrap().is_empty());
    assert!(told.lock().unwrap().is_empty());
    assert_eq!(*stage.notary.unlocks.lock().unwrap(), 0);
}

#[tokio::test]
async fn a_tripwire_in_the_start_of_a_connection_never_reaches_the_database() {
    let value = tripwire().value;
    let hex = data_encoding::HEXLOWER.encode(value.as_bytes());
    for said in [&value, &hex] {
        let (stage, told) = staged(Far::Good, Access::Read).await;
        let client = Client {
            settings: format!("application_name\0{said}\0"),
            ..Client::default()
        };
        let (_, _, heard) = log_in_as(&stage, &client).await;
        let told = told.lock().unwrap().concat();
        assert!(!told.contains(said.as_str()), "it left: {told}");
        assert!(text(&heard).contains("tripwire"), "{}", text(&heard));
    }
}

#[tokio::test]
async fn what_a_client_brings_is_counted_from_its_start_on() {
    let (origin, identity, told) = far_end(Far::Good).await;
    let notary = Notary::new(|_| {
        Ok(Yes {
            slot: Some(Slot::Postgres {
                access: Access::Write,
                role: None,
            }),
            ..Yes::default()
        })
    });
    let limits = crate::Limits {
        egress_bytes_max: 100,
        ..crate::Limits::default()
    };
    let stage = stage_at(notary, (&identity, origin), fixed(""), limits).await;
    let client = Client {
        settings: format!("application_name\0{}\0", "a".repeat(100)),
        ..Client::default()
    };
    let (_, _, heard) = log_in_as(&stage, &client).await;
    assert!(text(&heard).contains("limit_reached"), "{}", text(&heard));
    assert!(told.lock().unwrap().is_empty());
    assert!(stage.dialer.dialled.lock().unwrap().is_empty());
}
