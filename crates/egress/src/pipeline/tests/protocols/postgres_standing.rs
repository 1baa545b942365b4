// SPDX-License-Identifier: Apache-2.0
//! Connections to a database whose credential, or the yes for it, changes while they are open.

use super::postgres::{
    Client, Far, Told, far_end, log_in, log_in_as, message, messages, staged, text,
};
use super::stage::*;
use bytes::BytesMut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use torno_policy::binding::Slot;
use torno_policy::names::CredentialName;
use torno_policy::placeholder::Placeholder;
use torno_policy::postgres::Access;

fn other() -> Placeholder {
    Placeholder::new("", [8; 16])
}

/// A stage on which from the given question on (counted from 0) yeses are for another credential.
async fn changing_from(question: usize, far: Far) -> (Stage, Told) {
    let (origin, identity, told) = far_end(far).await;
    let asked = AtomicUsize::new(0);
    let notary = Notary::new(move |_| {
        let is_other = asked.fetch_add(1, Ordering::Relaxed) >= question;
        Ok(Yes {
            slot: Some(Slot::Postgres {
                access: Access::Write,
                role: None,
            }),
            placeholder: is_other.then(other),
            ..Yes::default()
        })
    });
    let limits = crate::Limits::default();
    let stage = stage_at(notary, (&identity, origin), fixed(""), limits).await;
    (stage, told)
}

async fn say(io: &mut TcpStream, statement: &str) {
    let query = [statement.as_bytes(), b"\0"].concat();
    io.write_all(&messages(&[(b'Q', &query)])).await.unwrap();
}

async fn rest(io: &mut TcpStream, read: &mut BytesMut) -> Vec<(u8, Vec<u8>)> {
    let mut heard = Vec::new();
    while let Some(one) = message(io, read).await {
        let is_ready = one.0 == b'Z';
        heard.push(one);
        if is_ready {
            break;
        }
    }
    heard
}

#[tokio::test]
async fn a_slow_proof_of_one_placeholder_opens_nothing_for_another() {
    let (stage, told) = changing_from(1, Far::Good).await;
    let client = Client {
        pause: Duration::from_millis(700),
        ..Client::default()
    };
    let (_, _, heard) = log_in_as(&stage, &client).await;
    assert!(
        text(&heard).contains("credential_revoked"),
        "{}",
        text(&heard)
    );
    assert_eq!(stage.notary.asked.lock().unwrap().len(), 2);
    assert_eq!(*stage.notary.unlocks.lock().unwrap(), 0);
    assert!(told.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_server_that_is_slow_to_open_is_logged_in_to_under_a_new_yes() {
    let (stage, _) = staged(Far::Slow, Access::Read).await;
    let (_, _, heard) = log_in(&stage, placeholder().as_str()).await;
    assert_eq!(heard.last().unwrap().0, b'Z', "{}", text(&heard));
    assert_eq!(stage.notary.asked.lock().unwrap().len(), 2);
    assert_eq!(*stage.notary.unlocks.lock().unwrap(), 1);
    assert_eq!(stage.dialer.dialled.lock().unwrap().len(), 1);

    let (stage, told) = changing_from(1, Far::Slow).await;
    let (_, _, heard) = log_in(&stage, placeholder().as_str()).await;
    let heard = text(&heard);
    assert!(heard.contains("credential_revoked"), "{heard}");
    assert_eq!(*stage.notary.unlocks.lock().unwrap(), 0);
    assert!(told.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_server_that_is_slow_to_open_is_not_told_more_than_the_new_yes_allows() {
    let (origin, identity, told) = far_end(Far::Slow).await;
    let asked = AtomicUsize::new(0);
    let notary = Notary::new(move |_| {
        let access = match asked.fetch_add(1, Ordering::Relaxed) {
            0 => Access::Write,
            _ => Access::Read,
        };
        Ok(Yes {
            slot: Some(Slot::Postgres { access, role: None }),
            ..Yes::default()
        })
    });
    let limits = crate::Limits::default();
    let stage = stage_at(notary, (&identity, origin), fixed(""), limits).await;
    let (_, _, heard) = log_in(&stage, placeholder().as_str()).await;
    let heard = text(&heard);
    assert!(heard.contains("credential_revoked"), "{heard}");
    assert_eq!(*stage.notary.unlocks.lock().unwrap(), 0);
    assert!(told.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_statement_is_not_sent_on_a_yes_for_another_credential() {
    let (stage, told) = changing_from(1, Far::Good).await;
    let (mut io, mut read, _) = log_in(&stage, placeholder().as_str()).await;
    for statement in ["select 1", "insert into t values (1)"] {
        say(&mut io, statement).await;
        let heard = text(&rest(&mut io, &mut read).await);
        assert!(heard.contains("credential_revoked"), "{heard}");
    }
    drop(io);
    assert_eq!(told.lock().unwrap().len(), 1, "the start alone");
}

#[tokio::test]
async fn nothing_is_said_to_a_database_once_its_credential_was_revoked() {
    // ATTACK: 101 – many times: which of two is heard first was left to chance.
    for _ in 0..12 {
        let (stage, told) = staged(Far::Good, Access::Write).await;
        let (mut io, mut read, _) = log_in(&stage, placeholder().as_str()).await;
        say(&mut io, "insert into t values (1)").await;
        stage
            .pipeline
            .revoke(CredentialName::parse("c1").ok().as_ref());
        let heard = text(&rest(&mut io, &mut read).await);
        assert!(heard.contains("57P01"), "{heard}");
        let told = told.lock().unwrap().concat();
        assert!(!told.contains("insert"), "{told}");
    }
}

#[tokio::test]
async fn a_connection_that_waits_for_its_server_is_cut_in_words() {
    let (stage, told) = staged(Far::Silent, Access::Read).await;
    let (mut io, mut read, _) = log_in(&stage, placeholder().as_str()).await;
    say(&mut io, "select 1").await;
    // The server was told that nothing is written, and does not answer.
    while told.lock().unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    stage.pipeline.revoke(None);
    let heard = text(&rest(&mut io, &mut read).await);
    assert!(heard.contains("57P01"), "{heard}");
    assert!(!told.lock().unwrap().concat().contains("select"));
}
