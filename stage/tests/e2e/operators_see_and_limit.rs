// SPDX-License-Identifier: Apache-2.0
//! What an operator sees of a session and learns from it, and how it is slowed down.

use crate::stage::at_each_level;
use serde_json::Value;
use std::process::Stdio;
use torno_stage::daemon::POLICY;

#[test]
fn a_watch_shows_a_session_and_ends_with_it() {
    at_each_level("a watch", |stage, level| {
        let script = "curl -sS -o /dev/null https://api.torno.test/public/x; \
                      curl -sS -o /dev/null https://evil.torno.test/y; true";
        stage.shell(level, script).good();
        let records = stage.daemon.records().unwrap();
        let session = records.iter().find_map(|r| r["session"].as_str()).unwrap();
        let seen = stage.torno(&["session", "watch", session]).good().stdout;
        let allowed = "allow  200  GET https://api.torno.test/public/x  0 up, ";
        assert!(seen.contains(allowed), "{seen}");
        let refused = "deny   GET https://evil.torno.test/y  host_not_granted  (grant.default)\n";
        assert!(seen.contains(refused), "{seen}");
        assert!(
            seen.contains("add [[allow]] host = \"evil.torno.test\""),
            "{seen}"
        );
        assert!(seen.ends_with("the session ended\n"), "{seen}");
        let json = stage.torno(&["--output", "json", "session", "watch", session]);
        for line in json.good().stdout.lines() {
            serde_json::from_str::<Value>(line).unwrap();
        }
    });
}

#[test]
fn what_was_learnt_from_a_session_lets_the_next_one_work() {
    at_each_level("learnt rules", |stage, level| {
        let script = "curl -sS -o /dev/null https://evil.torno.test/y; \
                      curl -sS -o /dev/null https://other.torno.test/x; \
                      curl -sS -o /dev/null -H \"authorization: Bearer $API_TOKEN\" \
                      https://api.torno.test/v1/me; true";
        stage.shell(level, script).good();
        let records = stage.daemon.records().unwrap();
        let session = records.iter().find_map(|r| r["session"].as_str()).unwrap();
        let learnt = stage.torno(&["policy", "learn", session]).good().stdout;
        for line in [
            "host = \"evil.torno.test\"\nmethods = [\"GET\"]\npaths = [\"/y\"]\n",
            "host = \"other.torno.test\"\nmethods = [\"GET\"]\npaths = [\"/x\"]\n",
            "# not learnt, it used api",
            "torno secret bind api --host api.torno.test",
        ] {
            assert!(learnt.contains(line), "`{line}` is missing: {learnt}");
        }
        let keys = "[sandbox]\nenv = { SSLKEYLOGFILE = \"/workspace/.stage-keys\" }\n\n";
        let document = format!("{keys}{learnt}");
        stage
            .daemon
            .write_workspace("torno.toml", &document)
            .unwrap();
        stage.torno(&["trust", "--yes"]).good();
        let script = "curl -sS https://other.torno.test/x -o /dev/null -w '%{http_code}\\n'; \
                      curl -sS https://other.torno.test/z -o /dev/null -w '%{http_code}\\n'";
        let ran = stage.shell(level, script).good();
        let codes: Vec<&str> = ran.stdout.lines().collect();
        assert_ne!(codes[0], "403", "{ran:?}");
        assert_eq!(codes[1], "403", "{ran:?}");
    });
}

/// As fast as it can, for as long as its neighbour works.
const FLOOD: &str = "touch /tmp/go; while [ -e /tmp/go ]; do \
    curl -sS --parallel -o /dev/null -w '%{http_code} %header{retry-after}\\n' \
    'https://api.torno.test/public/flood?[1-40]'; done";
const PROBES: &str = "for n in 1 2 3 4 5 6 7 8 9 10; do \
    curl -sS -f -o /dev/null https://api.torno.test/public/probe || echo refused; done; echo over";

#[test]
fn a_flooding_session_is_slowed_and_its_neighbour_is_served() {
    at_each_level("a flooding session", |stage, level| {
        let slow = POLICY.replace("limits = {", "limits = { rate = \"2/s\",");
        stage.daemon.write_workspace("torno.toml", &slow).unwrap();
        stage.torno(&["trust", "--yes"]).good();
        let mut flood = stage.daemon.run_command(level, &["/bin/sh", "-c", FLOOD]);
        let flood = flood.stdout(Stdio::piped()).spawn().unwrap();
        let began = std::time::Instant::now();
        // It runs once its first request arrived.
        let arrived = |target: &str| {
            let seen = stage.world.api.journal.requests();
            seen.iter().filter(|r| r.target.starts_with(target)).count()
        };
        while arrived("/public/flood") < 2 {
            assert!(began.elapsed().as_secs() < 60, "no flood");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        stage.daemon.write_workspace("torno.toml", POLICY).unwrap();
        let ran = stage.shell(level, PROBES).good();
        assert_eq!(ran.stdout, "over\n", "{ran:?}");
        stage.torno(&["kill", "--all"]).good();
        let said = flood.wait_with_output().unwrap().stdout;
        let said = String::from_utf8_lossy(&said);
        let allowed = usize::try_from(began.elapsed().as_secs() * 2 + 3).unwrap();
        assert_eq!(arrived("/public/probe"), 10);
        assert!(arrived("/public/flood") <= allowed, "{said}");
        assert!(said.lines().any(|line| line == "429 1"), "{said}");
    });
}
