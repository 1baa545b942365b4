// SPDX-License-Identifier: Apache-2.0
//! What was granted works: with a credential, without one, over a kept-alive connection.

use crate::stage::at_each_level_for_both;
use torno_stage::work;

#[test]
fn both_credentials_are_used_and_the_far_end_saw_the_real_ones() {
    at_each_level_for_both("both credentials are used", |stage, level| {
        for done in work::all(&stage.daemon, &stage.world, level).unwrap() {
            assert_eq!(done.result, Ok(()), "{}", done.name);
        }
    });
}

#[test]
fn many_requests_on_one_connection_are_each_decided_and_recorded() {
    at_each_level_for_both("many requests on one connection", |stage, level| {
        let urls = "https://api.torno.test/public ".repeat(5);
        let script = format!(
            "curl -sS -f {urls} -w '%{{num_connects}}\\n' -o /dev/null -o /dev/null \
             -o /dev/null -o /dev/null -o /dev/null"
        );
        let ran = stage.shell(level, &script).good();
        assert_eq!(
            ran.stdout.lines().collect::<Vec<_>>(),
            ["1", "0", "0", "0", "0"]
        );
        let seen = stage.world.api.journal.requests();
        assert_eq!(seen.iter().filter(|r| r.target == "/public").count(), 5);
    });
}

#[test]
fn large_bodies_pass_both_ways_unchanged() {
    at_each_level_for_both("large bodies pass", |stage, level| {
        let script = "head -c 5000000 /dev/urandom > body && sha256sum body \
            && curl -sS -f -o /dev/null -T body -X POST -H \"authorization: Bearer $API_TOKEN\" \
            https://api.torno.test/upload";
        let ran = stage.shell(level, script).good();
        let sum = ran.stdout.split(' ').next().unwrap().to_owned();
        let seen = stage.world.api.journal.requests();
        let upload = seen.iter().find(|r| r.target == "/upload").unwrap();
        assert_eq!(
            (upload.body_bytes, upload.body_sha256.as_ref()),
            (5_000_000, Some(&sum))
        );
    });
}
