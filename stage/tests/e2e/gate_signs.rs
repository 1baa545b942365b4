// SPDX-License-Identifier: Apache-2.0
//! Requests that the gate signs: with a key that both sides have, as services document it, and as
//! claims of an app or a robot. The far end checks them with Python's own `hmac` and with PyJWT.

mod far_end;

use crate::stage::{Stage, at_each_level_with};
use far_end::{FarEnd, HOST};

/// One line for each thing that is asked: what it was, the status, and what came.
const CLIENT: &str = r#"
import os, urllib.error, urllib.request
def ask(name, path, body=b'', method='POST', **fields):
    fields = {key.replace('_', '-'): value for key, value in fields.items()}
    request = urllib.request.Request('https://far.torno.test' + path, method=method,
                                     data=body if method == 'POST' else None, headers=fields)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            print(name, answer.status, answer.read().decode())
    except urllib.error.HTTPError as refused:
        print(name, refused.code, (refused.headers['x-torno-reason'] or refused.read().decode()))
"#;

const POLICY: &str = r#"[sandbox]
env = { SSLKEYLOGFILE = "/workspace/.stage-keys" }

[secret.api]

[secret.app]
env = "APP"

[secret.robot]
"#;

fn python(stage: &Stage, level: &str, script: &str) -> Vec<String> {
    let script = format!("{CLIENT}{script}");
    let ran = stage
        .run(level, &["/usr/bin/python3", "-c", &script])
        .good();
    ran.stdout.lines().map(str::to_owned).collect()
}

fn tell(story: &str, tell: impl Fn(&Stage, &str)) {
    let far = FarEnd::start();
    at_each_level_with(story, &far.pin(), |stage, level| {
        far.know(&stage.world.api_token);
        stage.daemon.put("app", "", &far.keys.app).unwrap();
        stage.daemon.put("robot", "", &far.keys.robot).unwrap();
        let bind = |credential: &str, id: &str, path: &str, more: &[&str]| {
            let bind = ["secret", "bind", credential, "--id", id, "--host", HOST];
            stage
                .torno(&[&bind[..], &["--path", path], more].concat())
                .good();
        };
        let hub = [
            "--hmac",
            "{body}",
            "--sends",
            "X-Hub-Signature-256: sha256={hex}",
        ];
        bind("api", "hub", "/hub", &hub);
        let slack = [
            "--hmac",
            "v0:{timestamp}:{body}",
            "--sends",
            "X-Slack-Request-Timestamp: {timestamp}",
            "--sends",
            "X-Slack-Signature: v0={hex}",
        ];
        bind("api", "slack", "/slack", &slack);
        let stripe = [
            "--hmac",
            "{timestamp}.{body}",
            "--sends",
            "Stripe-Signature: t={timestamp},v1={hex}",
        ];
        bind("api", "stripe", "/stripe", &stripe);
        let exchange = [
            "--hmac",
            "{timestamp}{method}{target}{body}",
            "--hash",
            "sha512",
            "--sends",
            "X-Access-Timestamp: {timestamp}",
            "--sends",
            "X-Access-Sign: {base64}",
            "--method",
            "GET",
            "--method",
            "POST",
        ];
        bind("api", "exchange", "/exchange/**", &exchange);
        bind(
            "app",
            "app",
            "/app/**",
            &["--jwt", "RS256", "--issuer", "12345"],
        );
        let claims = [
            "--jwt",
            "ES256",
            "--issuer",
            "robot@far.torno.test",
            "--subject",
            "robot@far.torno.test",
            "--audience",
            "https://far.torno.test/",
            "--key-id",
            "k1",
            "--lifetime",
            "2m",
            "--mode",
            "inject",
        ];
        bind("robot", "robot", "/robot", &claims);
        stage.daemon.write_workspace("torno.toml", POLICY).unwrap();
        stage.torno(&["trust", "--yes"]).good();
        tell(stage, level);
    });
}

#[test]
fn services_take_what_the_gate_signs_and_the_key_stays_outside() {
    // ATTACK: 083, 202
    tell("signatures by recipe", |stage, level| {
        let said = python(
            stage,
            level,
            "
ask('hub', '/hub', b'{\"zen\": 1}')
ask('hub own', '/hub', b'x', X_Hub_Signature_256='sha256=00')
ask('slack', '/slack', b'token=x&text=%2F', X_Slack_Request_Timestamp='1')
ask('stripe', '/stripe', b'\\x00\\xff\\n')
ask('post', '/exchange/orders?side=buy&x=%2f', b'{\"size\": 1}')
ask('get', '/exchange/orders?side=sell', method='GET')
ask('large', '/hub', b'x' * (1 << 20))
ask('too large', '/hub', b'x' * ((1 << 20) + 1))
ask('elsewhere', '/hub/other', b'x')
ask('echo', '/exchange/echo', b'x')
",
        );
        assert_eq!(
            said[..7],
            [
                "hub 200 ok",
                "hub own 200 ok",
                "slack 200 ok",
                "stripe 200 ok",
                "post 200 ok",
                "get 200 ok",
                "large 200 ok",
            ],
            "{said:#?}"
        );
        assert!(said[7].starts_with("too large 413"), "{said:#?}");
        assert!(said[8].starts_with("elsewhere 403"), "{said:#?}");
        // The far end has the key and shows it.
        assert!(said[9].starts_with("echo 200 key "), "{said:#?}");
        assert!(!said[9].contains(&stage.world.api_token), "{said:#?}");
    });
}

#[test]
fn a_library_takes_the_claims_and_a_program_chooses_none() {
    // ATTACK: 083, 099
    tell("claims of an app", |stage, level| {
        let said = python(
            stage,
            level,
            "
import json
mine = 'Bearer ' + os.environ['APP']
ask('app', '/app', method='GET', Authorization=mine)
ask('robot', '/robot', method='GET')
ask('forged', '/app', method='GET', Authorization='Bearer eyJhbGciOiJub25lIn0.e30.')
ask('bare', '/app', method='GET')
ask('robot own', '/robot', method='GET', Authorization='Bearer eyJhbGciOiJub25lIn0.e30.')
ask(mine[7:], '/app/echo', method='GET', Authorization=mine)
",
        );
        let claims = |line: &str| -> serde_json::Value {
            serde_json::from_str(line.split_once(" 200 ").expect("no answer").1).unwrap()
        };
        let app = claims(&said[0]);
        assert_eq!(
            (&app["iss"], &app["alg"]),
            (&"12345".into(), &"RS256".into())
        );
        let lasts = |claims: &serde_json::Value| {
            claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap()
        };
        assert_eq!(lasts(&app), 600);
        let robot = claims(&said[1]);
        assert_eq!((&robot["kid"], lasts(&robot)), (&"k1".into(), 120));
        assert!(said[2].starts_with("forged 403"), "{said:#?}");
        assert!(said[3].starts_with("bare 403"), "{said:#?}");
        assert_eq!(claims(&said[4])["iss"], "robot@far.torno.test");
        // The token that the far end got stays outside: its signature is a placeholder here.
        let (placeholder, shown) = said[5].split_once(" 200 Bearer ").unwrap();
        assert!(shown.ends_with(&format!(".{placeholder}")), "{said:#?}");
    });
}
