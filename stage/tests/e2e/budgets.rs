// SPDX-License-Identifier: Apache-2.0
//! What a session may use, and what of it at one host: bytes stop in their midst, requests are
//! refused with the key of their limit, and another host is served.

use crate::stage::{Stage, at_each_level};
use torno_stage::daemon::POLICY;

/// Sends and gets 200,000 bytes, as often as is said; and asks another host once.
const SCRIPT: &str = "head -c 200000 /dev/zero > /tmp/body; \
    for n in $(seq $1); do curl -sS $2 -o /tmp/back --data-binary @/tmp/body \
    -w '%{http_code} %{size_download}\\n' https://api.torno.test/public/back || true; done; \
    curl -sS $2 -o /dev/null -w 'other %{http_code}\\n' https://other.torno.test/x || true";

/// Records of a limit that was reached.
fn reached(stage: &Stage) -> usize {
    let records = stage.daemon.records().unwrap();
    let reached = records
        .iter()
        .filter(|r| r["event"]["reason"] == "limit_reached");
    reached.count()
}

fn told(stage: &Stage, level: &str, (limits, times, protocol): (&str, &str, &str)) -> Vec<String> {
    let policy = POLICY.replace("limits = {", &format!("limits = {{ {limits},"));
    stage.daemon.write_workspace("torno.toml", &policy).unwrap();
    stage.torno(&["trust", "--yes"]).good();
    let command = ["/bin/sh", "-c", SCRIPT, "sh", times, protocol];
    let ran = stage.run(level, &command).good();
    ran.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn what_is_spent_ends_in_its_midst_and_another_host_is_served() {
    // ATTACK: 163
    at_each_level("budgets", |stage, level| {
        let mut before = 0;
        for protocol in ["--http1.1", "--http2"] {
            // The other host is served: it asks for a token. The last budget is the whole
            // session's: whether anything of it is left for another host is by chance.
            for (limits, times, whole, is_of_host) in [
                ("each_host = { egress = \"300KiB\" }", "2", 1, true),
                ("each_host = { ingress = \"300KiB\" }", "2", 1, true),
                ("each_host = { requests = 3 }", "5", 3, true),
                ("ingress = \"300KiB\"", "2", 1, false),
            ] {
                let said = told(stage, level, (limits, times, protocol));
                let came = said.iter().filter(|line| *line == "200 200000").count();
                assert_eq!(came, whole, "{limits} {protocol}: {said:#?}");
                let is_served = said.last().is_some_and(|last| last == "other 401");
                assert!(is_served || !is_of_host, "{limits} {protocol}: {said:#?}");
                let now = reached(stage);
                assert!(now > before, "{limits} {protocol}: {said:#?}");
                before = now;
            }
        }
    });
}
