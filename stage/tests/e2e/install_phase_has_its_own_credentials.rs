// SPDX-License-Identifier: Apache-2.0
//! A credential of the install phase works there, is dead once the session is locked, and is
//! searched for in the answers of both phases.

use crate::stage::{Stage, at_each_level_for_both};

const POLICY: &str = r#"[install]
see = ["fetch.sh"]
run = [["sh", "fetch.sh"]]

[secret.api]
env = "API_TOKEN"
phase = "install"

[[allow]]
host = "api.torno.test"
paths = ["/public/**"]
"#;

/// The API keeps what it was sent, for the other phase to find.
const FETCH: &str = r#"
api=https://api.torno.test
curl -sS -H "authorization: Bearer $API_TOKEN" "$api/v1/me" > me.txt
curl -sS -H "authorization: Bearer $API_TOKEN" "$api/echo?as=raw" > echo.txt
curl -sS -X POST -d kept -H "authorization: Bearer $API_TOKEN" "$api/store"
echo "$API_TOKEN" > placeholder.txt
"#;

const LOCKED: &str = r#"
cat me.txt echo.txt
echo "token: ${API_TOKEN:-unset}"
echo "kept: $(curl -sS https://api.torno.test/public/kept)"
curl -sS -H "authorization: Bearer $(cat placeholder.txt)" https://api.torno.test/v1/me
"#;

// ATTACK: 105
#[test]
fn a_credential_of_the_install_phase_works_there_and_is_dead_afterwards() {
    at_each_level_for_both("credential of the install phase", |stage, level| {
        stage.is_not_seen_whole("an install phase exports no keys");
        stage.daemon.write_workspace("torno.toml", POLICY).unwrap();
        stage.daemon.write_workspace("fetch.sh", FETCH).unwrap();
        stage.daemon.must(&["trust", "--yes"]).unwrap();
        let ran = stage.shell(level, LOCKED).good();
        assert!(ran.stdout.contains(r#""plan":"demo""#), "{ran:#?}");
        assert!(ran.stdout.contains("token: unset"), "{ran:#?}");
        assert!(ran.stdout.contains("kept: Bearer sk-"), "{ran:#?}");
        assert!(ran.stdout.contains("phase_not_granted"), "{ran:#?}");
        both_phases_watched(stage);
    });
}

/// Three releases before the lock and none after it; the locked phase got it to search for.
#[track_caller]
fn both_phases_watched(stage: &Stage) {
    let records = stage.daemon.records().unwrap();
    let kinds: Vec<&str> = records
        .iter()
        .filter_map(|record| record["event"]["kind"].as_str())
        .collect();
    let lock = kinds.iter().position(|kind| *kind == "session_locked");
    let (before, after) = kinds.split_at(lock.unwrap());
    let count = |part: &[&str], kind: &str| part.iter().filter(|k| **k == kind).count();
    assert_eq!(count(before, "credential_released"), 3, "{kinds:?}");
    assert_eq!(count(after, "credential_released"), 0, "{kinds:?}");
    assert_eq!(count(after, "credential_watched"), 1, "{kinds:?}");
}
