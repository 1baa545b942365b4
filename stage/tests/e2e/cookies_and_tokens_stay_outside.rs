// SPDX-License-Identifier: Apache-2.0
//! A shop that logs people in with a form and a cookie, and a token endpoint that renews what it
//! makes: real clients go on as ever, and neither cookie nor token is ever inside.

use crate::stage::{Ran, Stage, at_each_level_with};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::sync::{Arc, Mutex};
use torno_stage::world::authority::Authority;
use torno_stage::world::listen::{Answer, Listening, Origin, Visit, answer, serve, with};

const HOST: &str = "shop.torno.test";
/// What every cookie and token of the far end has in it.
const MADE: &str = "7Q2fP0vWk4ZsX1";

const POLICY: &str = r#"[sandbox]
env = { SSLKEYLOGFILE = "/workspace/.stage-keys" }

[secret.api]
env = "API_TOKEN"

[[allow]]
host = "shop.torno.test"
methods = ["GET", "POST"]
"#;

/// The far end: who is logged in, and which tokens count.
#[derive(Default)]
struct Shop {
    secret: Mutex<String>,
    made: Mutex<Made>,
}

#[derive(Default)]
struct Made {
    count: u32,
    cookie: Option<String>,
    access: Option<String>,
    refresh: Option<String>,
}

impl Made {
    fn next(&mut self, kind: &str) -> String {
        self.count += 1;
        format!("{kind}~{MADE}/{:04}", self.count)
    }
}

fn json(status: u16, body: impl Into<bytes::Bytes>) -> Answer {
    with(answer(status, body), "content-type", "application/json")
}

impl Shop {
    fn route(&self, visit: &Visit, body: &[u8]) -> Answer {
        let form: Vec<(String, String)> = form_urlencoded(body);
        let field = |name: &str| {
            let found = form.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.clone()).unwrap_or_default()
        };
        let cookie = visit.header("cookie").map(str::to_owned);
        let made = &mut self.made.lock().unwrap();
        let known = made.cookie.as_ref().map(|value| format!("session={value}"));
        let is_known = cookie.is_some() && cookie == known;
        match visit.request.uri().path() {
            "/login" if field("password") == *self.secret.lock().unwrap() => {
                let value = made.next("cookie");
                let set = format!("session={value}; Path=/; Secure; HttpOnly; SameSite=Lax");
                made.cookie = Some(value);
                let found = with(answer(303, "welcome"), "location", "/account");
                with(found, "set-cookie", &set)
            }
            "/account" if is_known => answer(200, format!("orders of {}\n", cookie.unwrap())),
            "/account/rename" if is_known => answer(200, format!("now {}\n", field("name"))),
            "/account/logout" if is_known => {
                made.cookie = None;
                with(answer(204, ""), "set-cookie", "session=; Path=/; Max-Age=0")
            }
            "/oauth/token" => self.token(visit, made, (body, field("refresh_token"))),
            "/api/me" => {
                let sent = visit.header("authorization").unwrap_or_default();
                let known = made.access.as_ref().map(|one| format!("Bearer {one}"));
                if Some(sent) == known.as_deref() {
                    answer(200, format!("you are known by {sent}\n"))
                } else {
                    answer(401, "no such token\n")
                }
            }
            _ => answer(401, "who are you?\n"),
        }
    }

    /// Strict: a client that is known, one refresh token, which counts once.
    fn token(&self, visit: &Visit, made: &mut Made, (body, field): (&[u8], String)) -> Answer {
        let pair = format!("client:{}", self.secret.lock().unwrap());
        let known = format!("Basic {}", STANDARD.encode(pair));
        if visit.header("authorization") != Some(known.as_str()) {
            return json(401, r#"{"error":"invalid_client"}"#);
        }
        let is_json = visit.header("content-type") == Some("application/json");
        let said: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        let (grant, refresh) = if is_json {
            let text = |name: &str| said[name].as_str().unwrap_or_default().to_owned();
            (text("grant_type"), text("refresh_token"))
        } else {
            let first = form_urlencoded(body).into_iter();
            let mut grants = first.filter(|(name, _)| name == "grant_type");
            (grants.next().unwrap_or_default().1, field)
        };
        let is_due = grant == "refresh_token" && Some(refresh) == made.refresh;
        if grant != "client_credentials" && !is_due {
            return json(400, r#"{"error":"invalid_grant"}"#);
        }
        let (access, refresh) = (made.next("access"), made.next("refresh"));
        made.access = Some(access.clone());
        made.refresh = Some(refresh.clone());
        match visit.request.uri().query() {
            Some("as=text") => with(answer(200, access), "content-type", "text/plain"),
            Some("as=form") => {
                let body = format!("access_token={access}&token_type=bearer&scope=");
                let kind = "application/x-www-form-urlencoded";
                with(answer(200, body), "content-type", kind)
            }
            _ => json(
                200,
                format!(
                    "{{\"access_token\":\"{access}\",\"token_type\":\"Bearer\",\
                     \"expires_in\":60,\"refresh_token\":\"{refresh}\"}}"
                ),
            ),
        }
    }
}

fn form_urlencoded(body: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(body).into_owned();
    let decoded = |text: &str| {
        let text = text.replace('+', " ");
        let mut parts = text.split('%');
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let byte = u8::from_str_radix(&part[..2], 16).unwrap();
            out.push(char::from(byte));
            out.push_str(&part[2..]);
        }
        out
    };
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(k, v)| (decoded(k), decoded(v))).collect()
}

impl Origin for Shop {
    async fn answer(self: Arc<Self>, mut visit: Visit) -> Answer {
        let body = visit.body().await.unwrap_or_default();
        self.route(&visit, &body)
    }
}

/// The far end, and the operator's pin for it.
struct FarEnd {
    shop: Arc<Shop>,
    listening: Listening,
    directory: tempfile::TempDir,
    _runtime: tokio::runtime::Runtime,
}

impl FarEnd {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::new("Torno stage, the shop's authority").unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let shop = Arc::new(Shop::default());
        let tls = authority.server(&[HOST]).unwrap();
        let listening = runtime.block_on(serve(tls, Arc::clone(&shop))).unwrap();
        std::fs::write(directory.path().join("ca.pem"), authority.pem()).unwrap();
        Self {
            shop,
            listening,
            directory,
            _runtime: runtime,
        }
    }

    fn tell(&self, story: &str, tell: impl Fn(&Stage, &str)) {
        let address = self.listening.address;
        let ca = self.directory.path().join("ca.pem");
        let place = format!("host = \"{HOST}\"\nport = 443\naddress = \"{address}\"");
        let pin = format!("[[pin]]\n{place}\nca = \"{}\"\n\n", ca.display());
        at_each_level_with(story, &pin, |stage, level| {
            *self.shop.made.lock().unwrap() = Made::default();
            stage
                .world
                .api_token
                .clone_into(&mut self.shop.secret.lock().unwrap());
            for row in BINDINGS {
                let row = row.split_whitespace();
                let bind = ["secret", "bind", "api", "--host", HOST];
                let all: Vec<&str> = bind.into_iter().chain(row).collect();
                stage.torno(&all).good();
            }
            stage.daemon.write_workspace("torno.toml", POLICY).unwrap();
            stage.daemon.must(&["trust", "--yes"]).unwrap();
            tell(stage, level);
            let heard = String::from_utf8_lossy(&stage.heard.borrow()).into_owned();
            assert!(!heard.contains(MADE), "{heard}");
            let files = String::from_utf8_lossy(&stage.files.borrow()).into_owned();
            assert!(!files.contains(MADE));
            assert!(!record(stage).contains(MADE));
        });
    }
}

const BINDINGS: [&str; 2] = [
    "--id shop --in form:password --cookies broker --method POST --method GET \
     --path /login --path /account --path /account/**",
    "--id token --basic client --mode placeholder --method POST --method GET \
     --path /oauth/token --path /api/** --token-endpoint /oauth/token",
];

fn record(stage: &Stage) -> String {
    let export = ["audit", "export", "--format", "jsonl"];
    stage.torno(&export).good().stdout
}

#[track_caller]
fn says(ran: &Ran, lines: &[&str]) {
    for line in lines {
        assert!(
            ran.stdout.lines().any(|one| one == *line),
            "{line}: {ran:#?}"
        );
    }
}

const BROWSING: &str = r#"/usr/bin/python3 - <<'EOF'
import os, requests
url, session = 'https://shop.torno.test', requests.Session()
def say(what, answer):
    print(what, answer.status_code, answer.text.strip(), session.cookies.get('session'))
say('before', session.get(url + '/account', timeout=20))
data = {'user': 'me', 'password': os.environ['API_TOKEN']}
answer = session.post(url + '/login', data=data, timeout=20)
print('login', answer.history[0].status_code)
say('account', answer)
say('rename', session.post(url + '/account/rename', data={'name': 'x'}, timeout=20))
session.cookies.set('session', 'mine')
print('mine', session.get(url + '/account', cookies={'other': '1'}, timeout=20).status_code)
session.cookies.clear()
say('none', session.get(url + '/account', timeout=20))
say('elsewhere', session.get(url + '/other', timeout=20))
say('logout', session.post(url + '/account/logout', timeout=20))
say('after', session.get(url + '/account', timeout=20))
EOF"#;

const CURL: &str = r#"set -e
url=https://shop.torno.test
curl -gsS --http2 -L -c cookies -b cookies -d user=me -d password=$API_TOKEN $url/login
curl -gsS --http2 -b cookies $url/account
grep -c kept-by-torno cookies
"#;

#[test]
fn a_client_logs_in_with_a_form_and_its_cookie_stays_outside() {
    let far = FarEnd::new();
    far.tell("a shop with cookies", |stage, level| {
        let ran = stage.shell(level, BROWSING).good();
        let marker = "kept-by-torno";
        says(
            &ran,
            &[
                "before 401 who are you? None",
                "login 303",
                &format!("account 200 orders of session={marker} {marker}"),
                &format!("rename 200 now x {marker}"),
                "mine 200",
                &format!("none 200 orders of session={marker} None"),
                "elsewhere 401 who are you? None",
                "logout 204  None",
                "after 401 who are you? None",
            ],
        );
        let said = record(stage);
        let kept = "\"kind\":\"cookies_kept\"";
        assert_eq!(said.matches(kept).count(), 1, "{said}");
        assert!(said.contains("\"session\""), "{said}");
        assert_eq!(said.matches("\"kind\":\"credential_released\"").count(), 1);

        let ran = stage.shell(level, CURL).good();
        let orders = format!("orders of session={marker}\n");
        assert_eq!(ran.stdout.matches(&orders).count(), 2, "{ran:#?}");
        // Another session begins with an empty jar, though the far end knows the cookie still.
        let again =
            "curl -gsS -H \"cookie: session=kept-by-torno\" https://shop.torno.test/account";
        let ran = stage.shell(level, again).good();
        assert_eq!(ran.stdout, "who are you?\n");
    });
}

const RENEWING: &str = r#"/usr/bin/python3 - <<'EOF'
import os, requests
url, auth = 'https://shop.torno.test', ('client', os.environ['API_TOKEN'])
def token(query='', **data):
    return requests.post(url + '/oauth/token' + query, data=data, auth=auth, timeout=20)
def use(token):
    headers = {'Authorization': 'Bearer ' + token['access_token']}
    return requests.get(url + '/api/me', headers=headers, timeout=20)
first = token(grant_type='client_credentials').json()
print('first', use(first).status_code, sorted(first), use(first).text.strip())
second = token(grant_type='refresh_token', refresh_token=first['refresh_token']).json()
print('second', use(second).status_code, use(first).status_code)
body = {'grant_type': 'refresh_token', 'refresh_token': second['refresh_token']}
third = requests.post(url + '/oauth/token', json=body, auth=auth, timeout=20).json()
print('third', use(third).status_code)
used = token(grant_type='refresh_token', refresh_token=first['refresh_token'])
print('used', used.status_code, used.json()['error'])
fourth = token('?as=form', grant_type='client_credentials').text
fourth = dict(pair.split('=') for pair in fourth.split('&'))
print('fourth', use(fourth).status_code, fourth['token_type'])
text = token('?as=text', grant_type='client_credentials')
print('text', text.status_code, 'neither JSON nor a form' in text.text)
EOF"#;

#[test]
fn a_client_renews_a_token_with_a_placeholder_and_sees_none() {
    let far = FarEnd::new();
    far.tell("a token endpoint that renews", |stage, level| {
        let ran = stage.shell(level, RENEWING).good();
        let first = ran.stdout.lines().next().unwrap();
        let members = "['access_token', 'expires_in', 'refresh_token', 'token_type']";
        let known = format!("first 200 {members} you are known by Bearer TRNO");
        assert!(first.starts_with(&known), "{ran:#?}");
        says(
            &ran,
            &[
                "second 200 401",
                "third 200",
                "used 400 invalid_grant",
                "fourth 200 bearer",
                "text 502 True",
            ],
        );
        let said = record(stage);
        let minted = "\"kind\":\"credential_minted\"";
        assert_eq!(said.matches(minted).count(), 4, "{said}");
    });
}
