// SPDX-License-Identifier: Apache-2.0
//! `torno secret probe`: a far end that repeats what it gets is found with a canary, before a
//! credential ever went there.

use crate::stage::at_each_level_with;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::sync::Arc;
use torno_stage::world::authority::Authority;
use torno_stage::world::listen::{Answer, Origin, Visit, answer, serve, with};

const HOST: &str = "echo.torno.test";

/// Repeats what it is sent below `/echo`, says nothing elsewhere.
struct Echo;

impl Origin for Echo {
    async fn answer(self: Arc<Self>, mut visit: Visit) -> Answer {
        let body = visit.body().await.unwrap_or_default();
        let sent = visit.header("authorization").unwrap_or_default().to_owned();
        match visit.request.uri().path() {
            path if path.starts_with("/echo") => {
                let text = format!("you sent {}\n", STANDARD.encode(&sent));
                with(answer(302, text), "location", &format!("/next?of={sent}"))
            }
            "/form" => answer(401, String::from_utf8_lossy(&body).to_uppercase()),
            _ => answer(401, "who are you?\n"),
        }
    }
}

#[test]
fn an_echo_is_found_with_a_canary_and_the_credential_goes_nowhere() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new("Torno stage, the echo's authority").unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let tls = authority.server(&[HOST]).unwrap();
    let far = runtime.block_on(serve(tls, Arc::new(Echo))).unwrap();
    let ca = directory.path().join("ca.pem");
    std::fs::write(&ca, authority.pem()).unwrap();
    let place = format!(
        "host = \"{HOST}\"\nport = 443\naddress = \"{}\"",
        far.address
    );
    let pin = format!("[[pin]]\n{place}\nca = \"{}\"\n\n", ca.display());
    at_each_level_with("a probe", &pin, |stage, level| {
        // The probe's own client exports no keys.
        stage.is_not_seen_whole("the probe's client exports no keys of TLS");
        for row in [
            "--id quiet --path /quiet",
            "--id echo --path /echo/** --method GET --method POST",
            "--id form --path /form --in form:secret",
        ] {
            let bind = ["secret", "bind", "api", "--host", HOST];
            let all: Vec<&str> = bind.into_iter().chain(row.split(' ')).collect();
            stage.torno(&all).good();
        }
        let before = far.journal.requests().len();
        let probe = ["secret", "probe", "api", "--isolation", level];
        let one = |id| stage.torno(&[&probe[..], &["--binding", id]].concat());
        let quiet = one("quiet").good();
        assert!(
            quiet.stdout.contains("  answered 401\n  no echo\n"),
            "{quiet:#?}"
        );
        assert!(one("form").good().stdout.contains("no echo"));
        let echo = one("echo");
        assert_eq!(echo.code, Some(1), "{echo:#?}");
        for line in [
            "  answered 302\n",
            "  ECHO in header location, as it is\n",
            "  ECHO in the body, in base64\n",
            "Narrow `--path`",
        ] {
            assert!(echo.stdout.contains(line), "{line}: {echo:#?}");
        }
        let requests = far.journal.requests().split_off(before);
        assert_eq!(requests.len(), 3);
        let token = &stage.world.api_token;
        for request in &requests {
            let sent = request.header("authorization").unwrap_or_default();
            assert!(!sent.contains(token.as_str()), "{request:?}");
        }
        let canary = requests[0].header("authorization").unwrap();
        assert!(canary.starts_with("Bearer sk-live-"), "{canary}");
        let export = ["audit", "export", "--format", "jsonl"];
        let record = stage.torno(&export).good().stdout;
        assert!(record.contains("\"path\":\"/echo\""), "{record}");
        assert!(!record.contains("credential_released"), "{record}");

        let gone = one("nowhere");
        assert_eq!(gone.code, Some(125), "{gone:#?}");
    });
}
