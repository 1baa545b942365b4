// SPDX-License-Identifier: Apache-2.0
//! What is said once a connection is there.

use super::postgres::*;
use super::stage::*;
use tokio::io::AsyncWriteExt;
use torno_notary_protocol::gate::End;
use torno_policy::Reason;
use torno_policy::names::Method;
use torno_policy::postgres::Access;

#[tokio::test]
async fn a_session_is_told_to_read_is_searched_and_refused_in_step() {
    let (stage, told) = staged(Far::Good, Access::Read).await;
    let (mut io, mut read, heard) = log_in(&stage, placeholder().as_str()).await;
    assert_eq!(heard.last().unwrap().0, b'Z', "{}", text(&heard));
    let key = heard.iter().find(|(kind, _)| *kind == b'K').unwrap();
    assert_ne!(key.1, b"\0\0\0\x07\0\0\0\x09", "the far end's own key");
    let mut answers = Vec::new();
    for statement in ["select 1", "insert into t values (1)", "select 2"] {
        let query = [statement.as_bytes(), b"\0"].concat();
        io.write_all(&messages(&[(b'Q', &query)])).await.unwrap();
        while let Some((kind, body)) = message(&mut io, &mut read).await {
            answers.push((kind, body));
            if kind == b'Z' {
                break;
            }
        }
    }
    let kinds: Vec<u8> = answers.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, b"DCZEZDCZ");
    assert!(!text(&answers).contains(SECRET));
    assert!(text(&answers).contains(placeholder().as_str()));
    assert!(text(&answers).contains("42501"));
    drop(io);
    let told = told.lock().unwrap().clone();
    assert!(
        told[0].contains("default_transaction_read_only on"),
        "{told:?}"
    );
    let guards = told
        .iter()
        .filter(|t| t.starts_with("SET SESSION CHARACTERISTICS"));
    assert_eq!(guards.count(), 2, "{told:?}");
    assert!(!told.iter().any(|t| t.contains("insert")), "{told:?}");
    let asked = stage.notary.asked.lock().unwrap();
    let methods: Vec<&str> = asked
        .iter()
        .map(|facts| Method::as_str(&facts.method))
        .collect();
    assert_eq!(methods, ["START", "READ", "WRITE"]);
    assert_eq!(asked[0].path.path(), "/shop/app");
}

#[tokio::test]
async fn a_session_of_a_database_has_its_budgets_too() {
    let host = crate::HostLimits::default;
    for (limits, rule) in [
        (
            crate::HostLimits {
                egress_bytes_max: 600,
                ..host()
            },
            "limits.each_host.egress",
        ),
        (
            crate::HostLimits {
                ingress_bytes_max: 600,
                ..host()
            },
            "limits.each_host.ingress",
        ),
        (
            crate::HostLimits {
                streams_max: 0,
                ..host()
            },
            "limits.each_host.streams",
        ),
    ] {
        let limits = crate::Limits {
            each_host: limits,
            ..crate::Limits::default()
        };
        let (stage, _told) = staged_with(Far::Good, Access::Write, limits).await;
        let (mut io, mut read, mut heard) = log_in(&stage, placeholder().as_str()).await;
        for _ in 0..50 {
            let query = messages(&[(b'Q', b"select 1\0")]);
            if io.write_all(&query).await.is_err() {
                break;
            }
            while let Some((kind, body)) = message(&mut io, &mut read).await {
                heard.push((kind, body));
                if kind == b'Z' {
                    break;
                }
            }
        }
        let told = heard.iter().rev().find(|(kind, _)| *kind == b'E').unwrap();
        let told = String::from_utf8_lossy(&told.1).into_owned();
        assert!(
            told.contains("53400") && told.contains(rule),
            "{rule}: {told}"
        );
        let outcomes = stage.notary.outcomes.lock().unwrap();
        let by = |outcome: &torno_notary_protocol::gate::Outcome| match &outcome.end {
            torno_notary_protocol::gate::End::Refused(refusal) => refusal.rule.as_str() == rule,
            _ => false,
        };
        assert!(outcomes.iter().any(by), "{rule}: {outcomes:?}");
    }
}

#[tokio::test]
async fn a_tripwire_in_what_is_said_to_a_database_never_reaches_it() {
    let value = tripwire().value;
    let hex = data_encoding::HEXLOWER.encode(value.as_bytes());
    for said in [&value, &hex] {
        let (stage, told) = staged(Far::Good, Access::Read).await;
        let (mut io, mut read, _) = log_in(&stage, placeholder().as_str()).await;
        let query = format!("select '{said}'\0");
        io.write_all(&messages(&[(b'Q', query.as_bytes())]))
            .await
            .unwrap();
        let mut heard = Vec::new();
        while let Some(one) = message(&mut io, &mut read).await {
            let is_ready = one.0 == b'Z';
            heard.push(one);
            if is_ready {
                break;
            }
        }
        assert!(text(&heard).contains("tripwire"), "{}", text(&heard));
        drop(io);
        assert!(!told.lock().unwrap().concat().contains(said.as_str()));
        let outcomes = stage.notary.outcomes.lock().unwrap();
        let tripped = |end: &End| matches!(end, End::Refused(r) if r.reason == Reason::Tripwire);
        assert!(outcomes.iter().any(|outcome| tripped(&outcome.end)));
    }
}

#[tokio::test]
async fn a_role_of_a_writing_connection_is_not_put_off_by_a_text_that_is_unclear() {
    let (stage, told) = staged(Far::Good, Access::Write).await;
    let (mut io, mut read, _) = log_in(&stage, placeholder().as_str()).await;
    for statement in [
        "create role spy login superuser password U&'x'",
        "reset role; delete from t where a = U&'x'",
        "copy (select 1) to program U&'id'",
    ] {
        let query = [statement.as_bytes(), b"\0"].concat();
        io.write_all(&messages(&[(b'Q', &query)])).await.unwrap();
        while let Some((kind, _)) = message(&mut io, &mut read).await {
            if kind == b'Z' {
                break;
            }
        }
    }
    drop(io);
    let told = told.lock().unwrap().clone();
    assert!(!told.iter().any(|t| t.contains("U&'")), "{told:?}");
}
