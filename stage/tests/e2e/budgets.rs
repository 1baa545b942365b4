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
        for protocol in ["--http1.1", "--http2"] {
            for (limits, times, whole, other, rule) in [
                (
                    "each_host = { egress = \"300KiB\" }",
                    "2",
                    1,
                    "200",
                    "each_host.egress",
                ),
                (
                    "each_host = { ingress = \"300KiB\" }",
                    "2",
                    1,
                    "200",
                    "each_host.ingress",
                ),
                ("ingress = \"300KiB\"", "2", 1, "429", "ingress"),
                (
                    "each_host = { requests = 3 }",
                    "5",
                    3,
                    "200",
                    "each_host.requests",
                ),
            ] {
                let said = told(stage, level, (limits, times, protocol));
                let came = said.iter().filter(|line| *line == "200 200000").count();
                assert_eq!(came, whole, "{limits} {protocol}: {said:#?}");
                let last = said.last().unwrap();
                // Where the whole session's is spent, a small answer may still fit.
                let fits = last == &format!("other {other}") || rule == "ingress";
                assert!(fits, "{limits} {protocol}: {said:#?}");
                let records = stage.daemon.records().unwrap();
                let rule = format!("limits.{rule}");
                let named = records
                    .iter()
                    .any(|r| r["event"].to_string().contains(&rule));
                assert!(named, "{rule} {protocol}: {said:#?}");
            }
        }
    });
}
