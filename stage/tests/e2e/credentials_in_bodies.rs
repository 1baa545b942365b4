// SPDX-License-Identifier: Apache-2.0
//! Credentials that a provider wants in the body: a client secret at a token endpoint, a token in
//! JSON and in a part of a form. Real clients, with a placeholder where the value would stand.

use crate::stage::{Ran, Stage, at_each_level_with};
use std::path::PathBuf;
use std::sync::Arc;
use torno_stage::unwalled::PYTHON;
use torno_stage::world::authority::Authority;
use torno_stage::world::bodies::{Bodies, LOGIN};
use torno_stage::world::listen::{Listening, serve};

const POLICY: &str = r#"[sandbox]
env = { SSLKEYLOGFILE = "/workspace/.stage-keys" }

[secret.api]
env = "API_TOKEN"

[[allow]]
host = "login.torno.test"
methods = ["POST"]
paths = ["/free/**"]
"#;

/// The API and the operator's pin for it, for the stories of every level.
struct Login {
    bodies: Arc<Bodies>,
    far: Listening,
    directory: tempfile::TempDir,
    _runtime: tokio::runtime::Runtime,
}

impl Login {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::new("Torno stage, the login's authority").unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let bodies = Arc::new(Bodies::default());
        let tls = authority.server(&[LOGIN]).unwrap();
        let far = runtime.block_on(serve(tls, Arc::clone(&bodies))).unwrap();
        let made = Self {
            bodies,
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

    fn tell(&self, story: &str, tell: impl Fn(&Stage, &str, &str)) {
        let (address, ca) = (self.far.address, self.ca());
        let place = format!("host = \"{LOGIN}\"\nport = 443\naddress = \"{address}\"");
        let pin = format!("[[pin]]\n{place}\nca = \"{}\"\n\n", ca.display());
        at_each_level_with(story, &pin, |stage, level| {
            let token = stage.world.api_token.clone();
            self.bodies.know(&token);
            self.bodies.take();
            for (id, path, place) in [
                ("form", "/oauth/token", "form:client_secret"),
                ("json", "/v1/login", "json:/d/token"),
                ("parts", "/v1/upload", "multipart:token"),
            ] {
                let bind = ["secret", "bind", "api", "--id", id, "--host", LOGIN];
                let place = ["--path", path, "--slot", place];
                stage.torno(&[&bind[..], &place[..]].concat()).good();
            }
            stage.daemon.write_workspace("torno.toml", POLICY).unwrap();
            stage.daemon.must(&["trust", "--yes"]).unwrap();
            tell(stage, level, &token);
        });
    }
}

/// What came back: the value was in its place, and is not here.
#[track_caller]
fn welcomed(ran: &Ran, times: usize) {
    let welcome = "welcome, sk-live-TRNO";
    assert_eq!(ran.stdout.matches(welcome).count(), times, "{ran:#?}");
}

const CURL: &str = r#"set -e
url=https://login.torno.test
curl -gsS --data-urlencode grant_type=client_credentials -d client_id=a+b -d client_secret=$API_TOKEN \
    -d scope=read%20write $url/oauth/token
curl -gsS --http2 -d "grant_type=refresh_token&refresh_token=old&client_secret=$API_TOKEN" $url/oauth/token
curl -gsS -H 'Transfer-Encoding: chunked' -d "client_secret=$API_TOKEN&a=1" $url/oauth/token
curl -gsS -H 'Content-Type: application/json' -d '{"op":2, "d":{"token":"'$API_TOKEN'","n":1.0}}' $url/v1/login
printf 'one\r\ntwo' > file.txt
curl -gsS -F kind=note -F token=$API_TOKEN -F file=@file.txt $url/v1/upload
curl -gsS --http2 -F token=$API_TOKEN -F 'file=@file.txt;type=text/plain' $url/v1/upload
"#;

const CLIENTS: &str = r#"
import io, os, requests
token, url = os.environ['API_TOKEN'], 'https://login.torno.test'
session = requests.Session()
data = {'grant_type': 'client_credentials', 'client_id': 'me', 'client_secret': token, 'scope': 'a b'}
print(session.post(url + '/oauth/token', data=data, timeout=20).text, end='')
data = {'grant_type': 'refresh_token', 'refresh_token': 'r/1+2', 'client_secret': token}
print(session.post(url + '/oauth/token', data=data, timeout=20).text, end='')
body = {'op': 2, 'd': {'token': token, 'properties': {'os': 'linux', 'text': '\u00b5 "x"'}}}
print(session.post(url + '/v1/login', json=body, timeout=20).text, end='')
files = {'token': (None, token), 'file': ('notes.txt', io.BytesIO(b'\x00\xff\r\n--not a boundary'), 'text/plain')}
print(session.post(url + '/v1/upload', files=files, timeout=20).text, end='')
"#;

// ATTACK: 086, 105, 110
#[test]
fn real_clients_log_in_with_a_placeholder_in_the_body() {
    let login = Login::new();
    login.tell("a credential in the body", |stage, level, token| {
        let ran = stage.shell(level, CURL).good();
        welcomed(&ran, 6);
        let bodies = login.bodies.take();
        assert_eq!(bodies.len(), 6, "{bodies:#?}");
        let first = "grant_type=client_credentials&client_id=a+b&client_secret=";
        assert_eq!(bodies[0], format!("{first}{token}&scope=read%20write"));
        assert_eq!(bodies[2], format!("client_secret={token}&a=1"));
        let json = format!("{{\"op\":2, \"d\":{{\"token\":\"{token}\",\"n\":1.0}}}}");
        assert_eq!(bodies[3], json);
        assert!(
            bodies[4].contains("\r\n\r\none\r\ntwo\r\n--"),
            "{}",
            bodies[4]
        );
        let ran = stage.run(level, &[PYTHON, "-c", CLIENTS]).good();
        welcomed(&ran, 4);
        assert_eq!(login.bodies.take().len(), 4);

        let record = stage
            .torno(&["audit", "export", "--format", "jsonl"])
            .good()
            .stdout;
        assert!(!record.contains(token), "the value is in the record");
        assert!(!record.contains("TRNO"), "a placeholder is in the record");
        for slot in ["form:client_secret", "json:/d/token", "multipart:token"] {
            assert!(
                record.contains(&format!("\"slot\":\"{slot}\"")),
                "{slot}: {record}"
            );
        }
        let url = format!("https://{LOGIN}/oauth/token");
        let tried = stage.torno(&["policy", "simulate", "--with", "api", "POST", &url]);
        assert!(tried.stdout.contains("allow"), "{tried:?}");
    });
}

// ATTACK: 083, 086, 093
#[test]
fn a_body_that_could_be_read_otherwise_or_is_the_clients_own_is_not_sent() {
    let login = Login::new();
    login.tell("bodies that are refused", |stage, level, token| {
        let large = "head -c 1200000 /dev/zero | tr '\\0' x | curl -gsS -w ' %{http_code}' -d @- ";
        let curl = "curl -gsS -w ' %{http_code}' ";
        let url = format!("https://{LOGIN}");
        let form = format!("{url}/oauth/token");
        for (command, code, status) in [
            (format!("{curl} -d client_secret=mine {form}"), "placeholder_missing", 403),
            (format!("{curl} -d client_secret=$API_TOKEN -d client_secret=x {form}"), "placeholder_repeated", 403),
            (format!("{curl} -d client_secret=$API_TOKEN -d Client_Secret=x {form}"), "placeholder_repeated", 403),
            (format!("{curl} -d client_secret=$API_TOKEN -d _method=PUT {form}"), "malformed_request", 400),
            (format!("{curl} -d scope=all {form}"), "placeholder_missing", 403),
            (format!("echo client_secret=$API_TOKEN | gzip | {curl} -H 'content-encoding: gzip' --data-binary @- {form}"), "malformed_request", 400),
            (format!("{curl} -H 'content-type: text/plain' -d client_secret=$API_TOKEN {form}"), "malformed_request", 400),
            (format!("{large} {form}"), "too_large", 413),
            (format!("{curl} --http2 -d client_secret=mine {form}"), "placeholder_missing", 403),
            (format!("{curl} -H 'content-type: application/json' -d '{{\"d\":{{\"token\":\"'$API_TOKEN'\",\"TOKEN\":1}}}}' {url}/v1/login"), "placeholder_repeated", 403),
            (format!("{curl} -F token=$API_TOKEN -F token=mine {url}/v1/upload"), "placeholder_repeated", 403),
            (format!("echo mine > f; {curl} -F token=@f {url}/v1/upload"), "placeholder_missing", 403),
        ] {
            let ran = stage.shell(level, &command);
            assert!(ran.stdout.contains(code), "{command}: {ran:?}");
            assert!(ran.stdout.ends_with(&format!(" {status}")), "{command}: {ran:?}");
        }
        assert!(login.bodies.take().is_empty());
        // Where no slot is, a body streams, whatever is in it.
        let free = format!("{curl} -d note=$API_TOKEN {url}/free/x");
        let ran = stage.shell(level, &free).good();
        assert!(ran.stdout.ends_with("bytes\n 200"), "{ran:?}");
        let bodies = login.bodies.take();
        assert!(bodies[0].starts_with("note=sk-live-TRNO"), "{bodies:?}");
        assert!(!bodies[0].contains(token));
    });
}
