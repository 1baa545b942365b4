// SPDX-License-Identifier: Apache-2.0
//! WebSockets of unmodified clients inside, to a real server outside: opened where a rule says so,
//! with the credential in the handshake and nowhere else, and cut when it is revoked.

mod far_end;

use crate::stage::{Ran, Stage, cannot};
use far_end::{FarEnd, HOST};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::{Duration, Instant};
use torno_stage::account::Who;
use torno_stage::daemon::POLICY;
use torno_stage::daemon::level::told;
use torno_stage::unwalled::PYTHON;

const RULES: &str = r#"
[[allow]]
host = "ws.torno.test"
paths = ["/socket/**"]
websocket = true

[[allow]]
host = "ws.torno.test"
paths = ["/plain/**"]
"#;

/// The `websockets` package as a client: every kind of message, and what comes back of a secret.
const CLIENT: &str = r#"
import asyncio, os, websockets
token = os.environ['API_TOKEN']
def open(name, **more):
    return websockets.connect('wss://ws.torno.test/' + name, max_size=2**24,
        extra_headers={'authorization': 'Bearer ' + token}, **more)
async def main():
    async with open('socket/echo', subprotocols=['chat', 'unknown']) as s:
        print('protocol', s.subprotocol, len(s.extensions), s.response_headers['x-server'])
        await s.send('hello')
        print('echo', await s.recv())
        await s.send(['in ', 'three ', 'parts'])
        print('echo', await s.recv())
        for message in ['\u00b5\u20ac\U0001f600' * 200_000, os.urandom(3 << 20), b'', 'x' * 126]:
            await s.send(message)
            print('large', await s.recv() == message)
        await asyncio.wait_for(await s.ping(b'beat'), 10)
        await s.send(token)
        print('placeholder', await s.recv() == token)
        await s.close(3001, 'bye')
        print('closed', s.close_code)
    async with open('socket/leak') as s:
        async for message in s:
            print('leak', message.replace(token, 'TOKEN'))
        print('leak closed', s.close_code, repr(s.close_reason))
    for name in ['binary', 'ping', 'close']:
        async with open('socket/' + name) as s:
            try:
                print(name, 'heard', await s.recv())
            except websockets.ConnectionClosed:
                print(name, 'closed', s.close_code)
    try:
        async with open('plain/x'):
            print('plain opened')
    except websockets.InvalidStatusCode as refused:
        print('plain', refused.status_code)
asyncio.run(main())
"#;

/// Another implementation, with a language of its own.
const NODE: &str = r"
const headers = { authorization: 'Bearer ' + process.env.API_TOKEN };
const s = new WebSocket('wss://ws.torno.test/socket/echo', { protocols: ['chat'], headers });
s.binaryType = 'arraybuffer';
const large = 'node '.repeat(100000);
s.onopen = () => { s.send('hello'); s.send(new Uint8Array(70000)); s.send(large); };
let heard = 0;
s.onmessage = ({ data }) => {
  heard += 1;
  console.log(typeof data === 'string' ? data === large ? 'large' : data : data.byteLength);
  if (heard === 3) s.close(3002, 'bye');
};
s.onclose = ({ code }) => { console.log('closed', code, s.protocol); process.exit(0); };
s.onerror = (e) => { console.log('failed', e.message, e.error); };
";

const TICKS: &str = r"
import asyncio, os, websockets
async def main():
    headers = {'authorization': 'Bearer ' + os.environ['API_TOKEN']}
    async with websockets.connect('wss://ws.torno.test/socket/ticks', extra_headers=headers) as s:
        try:
            while True:
                print(await s.recv(), flush=True)
        except websockets.ConnectionClosed:
            print('cut', s.close_code, flush=True)
asyncio.run(main())
";

const CURL: &str = "curl -sS --http1.1 -m 20 -w ' %{http_code}' -H 'connection: Upgrade' \
    -H 'upgrade: websocket' -H 'sec-websocket-version: 13' \
    -H 'sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==' https://ws.torno.test/";

/// A stage whose world has a WebSocket server, and a policy that knows it.
struct Sockets {
    stage: Stage,
    far: FarEnd,
    level: &'static str,
}

impl Sockets {
    fn new(level: &'static str) -> Self {
        let mut stage = Stage::new();
        let far = FarEnd::start(&stage.daemon.home().join("outside"));
        stage.daemon.down();
        let upstreams = format!("{}{}", stage.world.upstreams(), far.pin());
        let file = stage.daemon.home().join("config/upstreams.toml");
        std::fs::write(file, upstreams).unwrap();
        stage.daemon.up().unwrap();
        let key = stage.daemon.key_file();
        let key = key.to_str().unwrap();
        stage.torno(&["vault", "unseal", "--key-file", key]).good();
        let bind = ["secret", "bind", "api", "--host", HOST, "--path", "/**"];
        stage.torno(&bind).good();
        let policy = format!("{POLICY}{RULES}");
        stage.daemon.write_workspace("torno.toml", &policy).unwrap();
        stage.torno(&["trust", "--yes"]).good();
        Self { stage, far, level }
    }

    fn run(&self, command: &[&str]) -> Ran {
        self.stage.run(self.level, command)
    }

    /// How the far end noted connections to a path.
    fn noted(&self, path: &str) -> Vec<Value> {
        let of_path = |line: &Value| line.get("path") == Some(&path.into());
        self.far.journal().into_iter().filter(of_path).collect()
    }

    fn end(self) {
        let level = self.level;
        self.stage.end_at(level);
    }
}

fn at_each_level(story: &str, tell: impl Fn(&Sockets)) {
    for &level in told() {
        if let Some(why) = cannot(Who::Caller, story, level) {
            println!("SKIP: {story} at {level}: {why}");
            continue;
        }
        println!("{story}: {level}");
        let sockets = Sockets::new(level);
        tell(&sockets);
        sockets.end();
    }
}

// ATTACK: 062, 063
#[test]
fn a_real_client_talks_over_a_websocket_and_no_secret_comes_back() {
    at_each_level("websockets", |sockets| {
        let ran = sockets.run(&[PYTHON, "-c", CLIENT]).good();
        let said: Vec<&str> = ran.stdout.lines().collect();
        let expected = [
            "protocol chat 0 websockets",
            "echo hello",
            "echo in three parts",
            "large True",
            "large True",
            "large True",
            "large True",
            "placeholder True",
            "closed 3001",
            "leak whole TOKEN",
            "leak cut TOKEN!",
        ];
        assert_eq!(said.get(..expected.len()), Some(&expected[..]), "{ran:#?}");
        let json: Value = serde_json::from_str(&said[11]["leak ".len()..]).unwrap();
        assert_eq!(json["token"], "TOKEN");
        assert_eq!(json["also"], "[redacted]");
        let rest = [
            "leak closed 1000 ''",
            "binary closed 1008",
            "ping closed 1008",
            "close closed 4001",
            "plain 403",
        ];
        assert_eq!(said.get(12..), Some(&rest[..]), "{ran:#?}");

        let stage = &sockets.stage;
        let echo = sockets.noted("/socket/echo");
        let fields = echo[0]["headers"].as_array().unwrap();
        let values = |name: &str| -> Vec<&str> {
            let named = fields
                .iter()
                .filter(|f| f[0].as_str().unwrap().eq_ignore_ascii_case(name));
            named.map(|f| f[1].as_str().unwrap()).collect()
        };
        let real = format!("Bearer {}", stage.world.api_token);
        assert_eq!(values("authorization"), [real.as_str()]);
        assert!(values("sec-websocket-extensions").is_empty());
        assert_eq!(echo[1]["code"], 3001);
        assert!(sockets.noted("/plain/x").is_empty(), "it was not granted");
        let ended: Vec<Value> = stage
            .daemon
            .records()
            .unwrap()
            .into_iter()
            .filter(|record| record.pointer("/event/kind") == Some(&"request_ended".into()))
            .collect();
        let first = &ended[0]["event"];
        let text = first.to_string();
        assert!(text.contains("101") && text.contains("completed"), "{text}");
        assert_eq!(ended.len(), 5, "{ended:#?}");
    });
}

#[test]
fn another_client_works_unmodified() {
    if !std::path::Path::new("/usr/bin/node").exists() {
        println!("SKIP: websockets of node: node is not installed");
        return;
    }
    at_each_level("websockets of node", |sockets| {
        let ran = sockets
            .run(&[
                "/usr/bin/node",
                "--experimental-websocket",
                "--no-warnings",
                "--tls-keylog=/workspace/.stage-keys",
                "-e",
                NODE,
            ])
            .good();
        let said: Vec<&str> = ran.stdout.lines().collect();
        assert_eq!(
            said,
            ["hello", "70000", "large", "closed 3002 chat"],
            "{ran:#?}"
        );
        assert_eq!(sockets.noted("/socket/echo")[1]["code"], 3002);
    });
}

// ATTACK: 059, 060, 062
#[test]
fn without_a_rule_that_says_so_the_handshake_is_refused_with_the_line_to_add() {
    at_each_level("websockets that are not granted", |sockets| {
        let ran = sockets
            .run(&["/bin/sh", "-c", &format!("{CURL}plain/x")])
            .good();
        assert!(ran.stdout.ends_with(" 403"), "{ran:?}");
        for word in ["websocket_not_granted", "websocket = true", HOST] {
            assert!(ran.stdout.contains(word), "{word}: {ran:?}");
        }
        let broken = CURL.replace("version: 13", "version: 8");
        let ran = sockets
            .run(&["/bin/sh", "-c", &format!("{broken}socket/echo")])
            .good();
        assert!(ran.stdout.contains("malformed_request"), "{ran:?}");
        assert!(ran.stdout.ends_with(" 400"), "{ran:?}");
        assert!(sockets.far.journal().is_empty());

        let stage = &sockets.stage;
        for (url, verdict) in [
            ("wss://ws.torno.test/plain/x", "websocket_not_granted"),
            ("wss://ws.torno.test/socket/x", "allow"),
            ("https://ws.torno.test/plain/x", "allow"),
        ] {
            let tried = stage.torno(&["policy", "simulate", "GET", url]);
            assert!(tried.stdout.contains(verdict), "{url}: {tried:?}");
        }
    });
}

// ATTACK: 101
#[test]
fn a_revocation_cuts_an_open_websocket() {
    at_each_level("a revoked websocket", |sockets| {
        let stage = &sockets.stage;
        let command = [PYTHON, "-c", TICKS];
        let mut run = stage.daemon.run_command(sockets.level, &command);
        let mut run = run
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(run.stdout.take().unwrap());
        let mut line = String::new();
        for _ in 0..5 {
            line.clear();
            said.read_line(&mut line).unwrap();
            assert_eq!(line, "tick\n");
        }
        stage.torno(&["secret", "revoke", "api"]).good();
        let revoked = Instant::now();
        let mut rest = String::new();
        said.read_to_string(&mut rest).unwrap();
        assert!(run.wait().unwrap().success());
        assert!(
            revoked.elapsed() < Duration::from_secs(5),
            "{:?}",
            revoked.elapsed()
        );
        let last = rest.lines().last().unwrap();
        assert_eq!(last, "cut 1008", "{rest}");
        let noted = sockets.noted("/socket/ticks");
        assert_eq!(noted[1]["code"], 1006, "the far end saw a reset: {noted:?}");
    });
}

/// A bot that logs in as chat gateways want it: with its token in a message.
const BOT: &str = r#"
import asyncio, json, os, websockets
token = os.environ['API_TOKEN']
async def say(s, op, **d):
    await s.send(json.dumps({'op': op, 'd': d or None}))
    print(op, (await s.recv()).replace(token, 'TOKEN'), flush=True)
async def main():
    async with websockets.connect('wss://ws.torno.test/socket/gateway', max_size=2**24) as s:
        print(json.loads(await s.recv())['op'])
        await say(s, 1)
        await say(s, 2, token=token, intents=513, properties={'os': 'linux'})
        await say(s, 3, status='x' * 200_000)
        await s.send(json.dumps({'op': 2, 'd': {'token': token}}))
        try:
            await s.recv()
        except websockets.ConnectionClosed:
            print('closed', s.close_code, s.close_reason)
    for message in [json.dumps({'op': 2, 'd': {'token': 'mine'}}), b'binary', 'no json',
            '{"op":2,"d":{"token":"' + token + '","Token":1}}']:
        async with websockets.connect('wss://ws.torno.test/socket/gateway') as s:
            await s.recv()
            await s.send(message)
            try:
                print('heard', await s.recv())
            except websockets.ConnectionClosed:
                print('closed', s.close_code)
asyncio.run(main())
"#;

// ATTACK: 063, 083, 086
#[test]
fn a_bot_logs_in_with_its_token_in_a_message() {
    at_each_level("a token in a message", |sockets| {
        let stage = &sockets.stage;
        stage
            .torno(&["secret", "unbind", "api-ws.torno.test"])
            .good();
        let bind = [
            "secret",
            "bind",
            "api",
            "--host",
            HOST,
            "--path",
            "/socket/gateway",
        ];
        stage
            .torno(&[&bind[..], &["--in", "ws.json:/d/token"]].concat())
            .good();
        let ran = sockets.run(&[PYTHON, "-c", BOT]).good();
        let said: Vec<&str> = ran.stdout.lines().collect();
        let ready = r#"2 {"op": 0, "t": "READY", "d": {"you": "TOKEN"}}"#;
        let expected = [
            "10",
            r#"1 {"op": 11, "of": 1}"#,
            ready,
            r#"3 {"op": 11, "of": 3}"#,
        ];
        assert_eq!(said.get(..4), Some(&expected[..]), "{ran:#?}");
        assert!(
            said[4].starts_with("closed 1008 send the placeholder once"),
            "{ran:#?}"
        );
        assert_eq!(said.get(5..), Some(&["closed 1008"; 4][..]), "{ran:#?}");
        let noted = sockets.noted("/socket/gateway");
        let tokens: Vec<_> = noted
            .iter()
            .filter_map(|line| line.get("identified"))
            .collect();
        assert_eq!(tokens, [&Value::from(stage.world.api_token.as_str())]);
        let heads = noted[0]["headers"].to_string();
        assert!(!heads.contains(&stage.world.api_token), "{heads}");
    });
}
