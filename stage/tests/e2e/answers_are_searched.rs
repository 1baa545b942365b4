// SPDX-License-Identifier: Apache-2.0
//! Answers that a far end packs although nobody asked it to, and a token endpoint: what it makes
//! stays outside, and what stands for it inside works.

use crate::stage::{Stage, at_each_level_with};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use torno_stage::world::authority::Authority;
use torno_stage::world::listen::{Answer, Listening, Origin, Visit, answer, serve, with};

const HOST: &str = "answers.torno.test";
/// What the token endpoint makes.
const TOKEN: &str = "opaque.7Q2fP0vWk4ZsX1/minted+here";

const POLICY: &str = r#"[sandbox]
env = { SSLKEYLOGFILE = "/workspace/.stage-keys" }

[secret.api]
env = "API_TOKEN"
"#;

/// A far end with answers of every kind.
#[derive(Default)]
struct Answers {
    secret: Mutex<String>,
}

impl Answers {
    fn route(&self, visit: &Visit) -> Answer {
        let secret = self.secret.lock().unwrap().clone();
        let path = visit.request.uri().path().to_owned();
        let sent = visit.header("authorization").unwrap_or_default();
        let basic = format!("Basic {}", STANDARD.encode(format!("client:{secret}")));
        if let Some(coding) = path.strip_prefix("/packed/") {
            let text = format!("{}you sent {secret}\n", "a line of text\n".repeat(5_000));
            let packed = pack(coding, text.as_bytes());
            return with(answer(200, packed), "content-encoding", coding);
        }
        match path.as_str() {
            "/oauth/token" if sent == basic => {
                let token = TOKEN.replace('/', "\\/");
                let body = format!(
                    "{{\"access_token\":\"{token}\",\"token_type\":\"Bearer\",\"expires_in\":3600}}"
                );
                with(answer(200, body), "content-type", "application/json")
            }
            "/api/me" if sent == format!("Bearer {TOKEN}") => {
                answer(200, format!("you are known by {TOKEN}\n"))
            }
            _ => answer(401, "who are you?\n"),
        }
    }
}

impl Origin for Answers {
    async fn answer(self: Arc<Self>, mut visit: Visit) -> Answer {
        let _broken = visit.drain().await;
        self.route(&visit)
    }
}

fn pack(coding: &str, text: &[u8]) -> Vec<u8> {
    match coding {
        "gzip" => {
            let level = flate2::Compression::default();
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), level);
            packed.write_all(text).unwrap();
            packed.finish().unwrap()
        }
        "br" => {
            const PACK: &str = "const z = require('zlib'), f = require('fs'); \
                f.writeSync(1, z.brotliCompressSync(f.readFileSync(0)))";
            let mut node = Command::new("node");
            let node = node.args(["-e", PACK]).stdin(Stdio::piped());
            let mut node = node.stdout(Stdio::piped()).spawn().unwrap();
            node.stdin.take().unwrap().write_all(text).unwrap();
            node.wait_with_output().unwrap().stdout
        }
        "zstd" => {
            let level = ruzstd::encoding::CompressionLevel::Fastest;
            ruzstd::encoding::compress_to_vec(text, level)
        }
        _ => text.to_vec(),
    }
}

/// The far end, and the operator's pin for it.
struct FarEnd {
    answers: Arc<Answers>,
    listening: Listening,
    directory: tempfile::TempDir,
    _runtime: tokio::runtime::Runtime,
}

impl FarEnd {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::new("Torno stage, the authority of answers").unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let answers = Arc::new(Answers::default());
        let tls = authority.server(&[HOST]).unwrap();
        let serving = serve(tls, Arc::clone(&answers));
        let listening = runtime.block_on(serving).unwrap();
        std::fs::write(directory.path().join("ca.pem"), authority.pem()).unwrap();
        Self {
            answers,
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
            stage.daemon.write_workspace("torno.toml", POLICY).unwrap();
            stage.daemon.must(&["trust", "--yes"]).unwrap();
            stage
                .world
                .api_token
                .clone_into(&mut self.answers.secret.lock().unwrap());
            tell(stage, level);
        });
    }
}

#[test]
fn an_answer_that_is_packed_unasked_is_searched_and_arrives_unpacked() {
    // ATTACK: 106
    let far = FarEnd::new();
    far.tell("packed answers", |stage, level| {
        stage
            .torno(&["secret", "bind", "api", "--host", HOST])
            .good();
        let url = format!("https://{HOST}/packed");
        for coding in ["gzip", "br", "zstd"] {
            let bearer = "-H \"authorization: Bearer $API_TOKEN\"";
            let ran = stage.shell(level, &format!("curl -sSi {bearer} {url}/{coding}"));
            let ran = ran.good();
            assert!(
                ran.stdout.contains("you sent sk-live-TRNO"),
                "{coding}: {ran:?}"
            );
            assert!(
                !ran.stdout.contains("content-encoding"),
                "{coding}: {ran:?}"
            );
            let lines = ran.stdout.matches("a line of text\n").count();
            assert_eq!(lines, 5_000, "{coding}");
        }
        let refused = stage.shell(
            level,
            &format!("curl -sS -H \"authorization: Bearer $API_TOKEN\" {url}/unheard-of"),
        );
        assert!(refused.stdout.contains("encoding"), "{refused:?}");
    });
}

const CLIENT: &str = r#"/usr/bin/python3 - <<'EOF'
import base64, json, os, urllib.request as u
url = 'https://answers.torno.test'
pair = base64.b64encode(('client:' + os.environ['API_TOKEN']).encode()).decode()
ask = u.Request(url + '/oauth/token', data=b'grant_type=client_credentials',
                headers={'Authorization': 'Basic ' + pair})
said = json.load(u.urlopen(ask, timeout=20))
print('token', said['access_token'], said['token_type'], said['expires_in'])
use = u.Request(url + '/api/me', headers={'Authorization': 'Bearer ' + said['access_token']})
print(u.urlopen(use, timeout=20).read().decode())
EOF"#;

#[test]
fn a_token_that_is_made_stays_outside_and_its_placeholder_works() {
    let far = FarEnd::new();
    far.tell("a token endpoint", |stage, level| {
        let bind = ["secret", "bind", "api", "--host", HOST, "--basic", "client"];
        let places = [
            "--mode",
            "placeholder",
            "--method",
            "GET",
            "--method",
            "POST",
        ];
        let paths = ["--path", "/oauth/token", "--path", "/api/**"];
        stage.torno(&[&bind[..], &places, &paths].concat()).good();
        let before = far.listening.journal.requests().len();
        let ran = stage.shell(level, CLIENT).good();
        let token = ran.stdout.strip_prefix("token TRNO").unwrap();
        assert!(token.contains(" Bearer 3600\n"), "{ran:?}");
        assert!(token.contains("you are known by TRNO"), "{ran:?}");
        let requests = far.listening.journal.requests().split_off(before);
        let used = requests[1].header("authorization");
        assert_eq!(used, Some(format!("Bearer {TOKEN}")));
        let record = stage
            .torno(&["audit", "export", "--format", "jsonl"])
            .good()
            .stdout;
        assert!(
            record.contains("\"kind\":\"credential_minted\""),
            "{record}"
        );
        assert_eq!(
            record.matches("\"kind\":\"credential_released\"").count(),
            1,
            "{record}"
        );
        for said in [&ran.stdout, &ran.stderr, &record] {
            assert!(!said.contains("7Q2fP0vWk4ZsX1"), "{said}");
        }
    });
}
