// SPDX-License-Identifier: Apache-2.0
//! Credentials that a provider wants in the query or in the path, and templates that deny what
//! makes further credentials: real clients, with a placeholder where the value would stand.

use crate::stage::{Stage, at_each_level_with};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use torno_stage::world::authority::Authority;
use torno_stage::world::listen::{Listening, serve};
use torno_stage::world::places::{BOTS, HUB, MAPS, Places};

const POLICY: &str = r#"[sandbox]
env = { SSLKEYLOGFILE = "/workspace/.stage-keys" }

[secret.api]
env = "API_TOKEN"

[secret.git]
env = "BOT_TOKEN"

[[allow]]
host = "maps.torno.test"
paths = ["/free/**"]
"#;

/// The three APIs and the operator's pins for them, for the stories of every level.
struct Providers {
    places: Arc<Places>,
    far: Listening,
    directory: tempfile::TempDir,
    _runtime: tokio::runtime::Runtime,
}

impl Providers {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::new("Torno stage, the providers' authority").unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let places = Arc::new(Places::default());
        let tls = authority.server(&[MAPS, BOTS, HUB]).unwrap();
        let far = runtime.block_on(serve(tls, Arc::clone(&places))).unwrap();
        let made = Self {
            places,
            far,
            directory,
            _runtime: runtime,
        };
        std::fs::write(made.ca(), authority.pem()).unwrap();
        made
    }

    fn ca(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    fn pins(&self) -> String {
        let (address, ca) = (self.far.address, self.ca());
        let mut text = String::new();
        for host in [MAPS, BOTS, HUB] {
            let place = format!("host = \"{host}\"\nport = 443\naddress = \"{address}\"");
            let _ = write!(text, "[[pin]]\n{place}\nca = \"{}\"\n\n", ca.display());
        }
        text
    }

    /// The targets that came in so far.
    fn targets(&self) -> Vec<String> {
        let requests = self.far.journal.requests();
        requests.into_iter().map(|request| request.target).collect()
    }

    fn tell(&self, story: &str, tell: impl Fn(&Stage, &str)) {
        at_each_level_with(story, &self.pins(), |stage, level| {
            stage.daemon.write_workspace("torno.toml", POLICY).unwrap();
            stage.daemon.must(&["trust", "--yes"]).unwrap();
            tell(stage, level);
        });
    }
}

fn refused(stage: &Stage, level: &str, arguments: &str, code: &str) {
    let ran = stage.shell(
        level,
        &format!("curl -gsS -w ' %{{http_code}}' {arguments}"),
    );
    assert!(ran.stdout.contains(code), "{arguments}: {ran:?}");
    assert!(ran.stdout.ends_with(" 403"), "{arguments}: {ran:?}");
}

const PYTHON: &str = r#"/usr/bin/python3 - <<'EOF'
import os, urllib.request
key = os.environ['API_TOKEN']
print(urllib.request.urlopen('https://maps.torno.test/v1/geo?q=a+b&key=' + key, timeout=20).read().decode())
EOF"#;

#[test]
fn a_key_in_the_query_is_filled_in_its_place_alone_and_scrubbed_where_it_comes_back() {
    // ATTACK: 086, 099, 110
    let providers = Providers::new();
    providers.tell("a key in the query", |stage, level| {
        let token = stage.world.api_token.clone();
        providers.places.know(&token);
        stage
            .torno(&["secret", "bind", "api", "--host", MAPS, "--in", "query:key"])
            .good();
        let before = providers.targets().len();
        let url = "https://maps.torno.test";
        let asked = format!("curl -gsS '{url}/v1/geo?q=a%20b&&key='$API_TOKEN'&z={{1}}+2'");
        let ran = stage.shell(level, &asked).good();
        let echoed = "you asked /v1/geo?q=a%20b&&key=sk-live-TRNO";
        assert!(ran.stdout.starts_with(echoed), "{ran:?}");
        assert!(ran.stdout.ends_with("&z={1}+2\n"), "{ran:?}");
        let ran = stage.shell(level, PYTHON).good();
        assert!(
            ran.stdout
                .contains("you asked /v1/geo?q=a+b&key=sk-live-TRNO"),
            "{ran:?}"
        );
        // The redirect repeats the key: what the client follows has the placeholder again.
        let ran = stage
            .shell(level, &format!("curl -gsSiL '{url}/moved?key='$API_TOKEN"))
            .good();
        assert!(
            ran.stdout
                .contains("\r\nlocation: /v1/geo?key=sk-live-TRNO"),
            "{ran:?}"
        );
        assert!(
            ran.stdout.contains("you asked /v1/geo?key=sk-live-TRNO"),
            "{ran:?}"
        );
        let targets = providers.targets().split_off(before);
        let expected = [
            format!("/v1/geo?q=a%20b&&key={token}&z={{1}}+2"),
            format!("/v1/geo?q=a+b&key={token}"),
            format!("/moved?key={token}"),
            format!("/v1/geo?key={token}&from=moved"),
        ];
        assert_eq!(targets, expected);

        let before = providers.targets().len();
        for (query, code) in [
            ("key='$API_TOKEN'&key=mine", "placeholder_repeated"),
            ("key='$API_TOKEN'&KEY=mine", "placeholder_repeated"),
            ("key='$API_TOKEN'&k%65y=mine", "placeholder_repeated"),
            ("key='$API_TOKEN'&a=1;key=mine", "placeholder_repeated"),
            ("token='$API_TOKEN'", "credential_endpoint_mismatch"),
            ("key=Bearer+'$API_TOKEN'", "credential_endpoint_mismatch"),
            ("q=1", "placeholder_missing"),
        ] {
            refused(stage, level, &format!("'{url}/v1/geo?{query}'"), code);
        }
        let other = "https://other.torno.test/?key='$API_TOKEN";
        refused(stage, level, &format!("'{other}"), "host_not_granted");
        refused(
            stage,
            level,
            &format!("'{url}/free/x?key=mine'"),
            "own_credential",
        );
        assert_eq!(providers.targets().len(), before);
        no_value_in_the_record(stage, &token);
    });
}

/// The record has neither the value nor a placeholder, whatever the request's fate.
#[track_caller]
fn no_value_in_the_record(stage: &Stage, token: &str) -> String {
    let record = stage
        .torno(&["audit", "export", "--format", "jsonl"])
        .good()
        .stdout;
    assert!(!record.contains(token), "the value is in the record");
    assert!(!record.contains("TRNO"), "a placeholder is in the record");
    record
}

#[test]
fn a_bot_token_in_the_path_is_filled_by_template_and_recorded_by_its_name() {
    // ATTACK: 110
    let providers = Providers::new();
    providers.tell("a token in the path", |stage, level| {
        let token = stage.world.git_token.clone();
        providers.places.know(&token);
        stage
            .torno(&["secret", "bind", "git", "--template", "telegram"])
            .good();
        let before = providers.targets().len();
        let url = format!("https://{BOTS}");
        let bot = format!("{url}/bot'$BOT_TOKEN'");
        let ran = stage
            .shell(level, &format!("curl -gsSi '{bot}/getMe?a=b'"))
            .good();
        assert!(ran.stdout.ends_with("did getMe?a=b\n"), "{ran:?}");
        assert!(ran.stdout.contains("x-target: /botghp_TRNO"), "{ran:?}");
        let script = "/usr/bin/python3 -c \"import os, urllib.request as u; \
            print(u.urlopen('https://api.telegram.org/bot' + os.environ['BOT_TOKEN'] \
            + '/sendMessage', data=b'text=hello', timeout=20).read().decode())\"";
        let ran = stage.shell(level, script).good();
        assert!(ran.stdout.contains("did sendMessage"), "{ran:?}");
        let targets = providers.targets().split_off(before);
        let expected = [
            format!("/bot{token}/getMe?a=b"),
            format!("/bot{token}/sendMessage"),
        ];
        assert_eq!(targets, expected);

        let before = providers.targets().len();
        for (arguments, code) in [
            (
                format!("'{bot}/setWebhook?url=https://evil.torno.test/'"),
                "binding_denies",
            ),
            (format!("-X POST '{bot}/SETWEBHOOK'"), "binding_denies"),
            (format!("'{bot}/a/b'"), "binding_not_granted"),
            (format!("'{url}/getMe/'$BOT_TOKEN"), "binding_not_granted"),
            (format!("'{url}/bot1:mine/getMe'"), "binding_not_granted"),
            (
                format!("'{bot}/getMe?again='$BOT_TOKEN"),
                "credential_endpoint_mismatch",
            ),
            (
                format!("-H \"authorization: Bearer $BOT_TOKEN\" '{bot}/getMe'"),
                "credential_endpoint_mismatch",
            ),
        ] {
            refused(stage, level, &arguments, code);
        }
        assert_eq!(providers.targets().len(), before);
        let record = no_value_in_the_record(stage, &token);
        assert!(
            record.contains(r#""path":"/bot{credential}/getMe""#),
            "{record}"
        );
        assert!(
            record.contains(r#""slot":"path:/bot{credential}/*""#),
            "{record}"
        );
    });
}

#[test]
fn where_the_binding_fills_the_path_itself_what_the_client_had_there_is_not_recorded() {
    // ATTACK: 110
    let providers = Providers::new();
    providers.tell("a path that is filled always", |stage, level| {
        let token = stage.world.git_token.clone();
        providers.places.know(&token);
        let place = "path:/bot{credential}/getMe";
        let bind = [
            "secret", "bind", "git", "--host", BOTS, "--mode", "inject", "--in", place,
        ];
        stage.torno(&bind).good();
        // The command is recorded too, so the text is put together inside.
        let asked = format!("own=own; curl -gsS https://{BOTS}/bot99:clients$own/getMe");
        let ran = stage.shell(level, &asked).good();
        assert_eq!(ran.stdout, "did getMe\n");
        let record = no_value_in_the_record(stage, &token);
        assert!(!record.contains("clientsown"), "{record}");
        assert!(
            record.contains(r#""path":"/bot{credential}/getMe""#),
            "{record}"
        );
    });
}

#[test]
fn a_template_denies_what_makes_credentials_until_its_owner_lifts_it() {
    let providers = Providers::new();
    providers.tell("a template", |stage, level| {
        let token = stage.world.api_token.clone();
        providers.places.know(&token);
        let bind = ["secret", "bind", "api", "--template", "github"];
        let narrowed = [&bind[..], &["--path", "/repos/x/**"]].concat();
        let said = stage.torno(&narrowed).good().stdout;
        assert!(said.contains("denied (`torno secret show api`)"), "{said}");
        let shown = stage.torno(&["secret", "show", "api"]).good().stdout;
        assert!(
            shown.contains("denied: POST,PUT,PATCH /repos/*/*/keys/**\n"),
            "{shown}"
        );
        let bearer = "-H \"authorization: Bearer $API_TOKEN\"";
        let url = format!("https://{HUB}");
        let ask = format!("curl -gsS {bearer}");
        let ran = stage.shell(level, &format!("{ask} {url}/repos/x/y")).good();
        assert_eq!(ran.stdout, "GET /repos/x/y\n");
        let ran = stage
            .shell(level, &format!("{ask} -d '{{}}' {url}/repos/x/y/issues"))
            .good();
        assert_eq!(ran.stdout, "POST /repos/x/y/issues\n");
        let before = providers.targets().len();
        for (path, code) in [
            ("/repos/x/y/keys", "binding_denies"),
            ("/repos/x/y/Keys.json", "binding_denies"),
            ("/repos/x/y/hooks", "binding_denies"),
            (
                "/repos/x/y/actions/runners/registration-token",
                "binding_denies",
            ),
            ("/repos/other/y/issues", "binding_not_granted"),
            ("/user/keys", "binding_not_granted"),
            ("/graphql", "binding_not_granted"),
        ] {
            refused(
                stage,
                level,
                &format!("{bearer} -d '{{}}' {url}{path}"),
                code,
            );
        }
        assert_eq!(providers.targets().len(), before);
        let wide = stage.torno(&[&bind[..], &["--path", "/graphql"]].concat());
        assert_ne!(wide.code, Some(0), "{wide:?}");
        stage
            .torno(&[&narrowed[..], &["--allow-minting"]].concat())
            .good();
        let ran = stage
            .shell(level, &format!("{ask} -d '{{}}' {url}/repos/x/y/keys"))
            .good();
        assert_eq!(ran.stdout, "POST /repos/x/y/keys\n");
    });
}
