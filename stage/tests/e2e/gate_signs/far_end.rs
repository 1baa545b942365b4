// SPDX-License-Identifier: Apache-2.0
//! A far end that checks signatures as services document it, with Python's `hmac`, and tokens with
//! PyJWT.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use torno_stage::unwalled::PYTHON;
use torno_stage::world::authority::Authority;

/// Its name.
pub(super) const HOST: &str = "far.torno.test";

/// Each line of standard input is the shared key from then on.
const SERVER: &str = r#"
import base64, hmac, json, ssl, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import jwt
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec, rsa
app = rsa.generate_private_key(65537, 2048)
robot = ec.generate_private_key(ec.SECP256R1())
shared = [b'']
def pem(key, kind):
    return key.private_bytes(form.Encoding.PEM, kind, form.NoEncryption()).decode()
def tag(text, name='sha256'):
    return hmac.new(shared[0], text, name)
def now(text):
    assert abs(time.time() - int(text)) < 60
    return text.encode()
def same(one, other):
    assert hmac.compare_digest(one, other)
class Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def log_message(self, *_): pass
    def judged(self, body):
        told, path = self.headers, self.path.partition('?')[0]
        if path == '/hub':
            same(told['x-hub-signature-256'], 'sha256=' + tag(body).hexdigest())
        elif path == '/slack':
            at = now(told['x-slack-request-timestamp'])
            same(told['x-slack-signature'], 'v0=' + tag(b'v0:' + at + b':' + body).hexdigest())
        elif path == '/stripe':
            said = dict(part.split('=') for part in told['stripe-signature'].split(','))
            same(said['v1'], tag(now(said['t']) + b'.' + body).hexdigest())
        elif path.startswith('/exchange/'):
            text = now(told['x-access-timestamp']) + (self.command + self.path).encode() + body
            same(told['x-access-sign'], base64.b64encode(tag(text, 'sha512').digest()).decode())
            if path == '/exchange/echo':
                return 'key ' + shared[0].decode()
        else:
            token = told['authorization'].removeprefix('Bearer ')
            if path == '/robot':
                said = jwt.decode(token, robot.public_key(), ['ES256'],
                                  issuer='robot@far.torno.test', audience='https://far.torno.test/',
                                  options={'require': ['exp', 'iat', 'sub']})
            else:
                said = jwt.decode(token, app.public_key(), ['RS256'], issuer='12345',
                                  options={'require': ['exp', 'iat']})
            if path == '/app/echo':
                return told['authorization']
            return json.dumps({**jwt.get_unverified_header(token), **said})
        return 'ok'
    def answer(self):
        body = self.rfile.read(int(self.headers.get('content-length') or 0))
        try:
            status, out = 200, self.judged(body)
        except Exception as wrong:
            status, out = 401, repr(wrong)
        self.send_response(status)
        self.send_header('content-length', str(len(out)))
        self.end_headers()
        self.wfile.write(out.encode())
    do_GET = do_POST = answer
server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(*sys.argv[1:])
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(json.dumps({'port': server.server_address[1],
                  'app': pem(app, form.PrivateFormat.TraditionalOpenSSL),
                  'robot': pem(robot, form.PrivateFormat.PKCS8)}), flush=True)
for line in sys.stdin:
    shared[0] = line.strip().encode()
    print('known', flush=True)
"#;

/// The private keys of its app and its robot, in PEM.
#[derive(serde::Deserialize)]
pub(super) struct Keys {
    port: u16,
    pub(super) app: String,
    pub(super) robot: String,
}

/// The far end, until it is dropped.
pub(super) struct FarEnd {
    server: Child,
    said: RefCell<BufReader<ChildStdout>>,
    pub(super) keys: Keys,
    directory: tempfile::TempDir,
}

impl FarEnd {
    pub(super) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = |name: &str| directory.path().join(name);
        let authority = Authority::new("Torno stage, authority of what is signed").unwrap();
        let (chain, key) = authority.server_pem(&[HOST]).unwrap();
        std::fs::write(place("ca.pem"), authority.pem()).unwrap();
        std::fs::write(place("chain.pem"), chain).unwrap();
        std::fs::write(place("key.pem"), key).unwrap();
        let mut server = Command::new(PYTHON)
            .args(["-c", SERVER])
            .args([&place("chain.pem"), &place("key.pem")])
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(server.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        Self {
            keys: serde_json::from_str(&line).expect("the far end did not come up"),
            server,
            said: said.into(),
            directory,
        }
    }

    /// The shared key that counts from now on.
    pub(super) fn know(&self, secret: &str) {
        let mut input = self.server.stdin.as_ref().unwrap();
        writeln!(input, "{secret}").unwrap();
        let mut line = String::new();
        self.said.borrow_mut().read_line(&mut line).unwrap();
        assert_eq!(line, "known\n");
    }

    /// The operator's pin for it.
    pub(super) fn pin(&self) -> String {
        let (port, ca) = (self.keys.port, self.place("ca.pem"));
        format!(
            "[[pin]]\nhost = \"{HOST}\"\nport = 443\naddress = \"127.0.0.1:{port}\"\nca = \"{}\"\n",
            ca.display()
        )
    }

    fn place(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

impl Drop for FarEnd {
    fn drop(&mut self) {
        let _dead = self.server.kill();
        let _reaped = self.server.wait();
    }
}
