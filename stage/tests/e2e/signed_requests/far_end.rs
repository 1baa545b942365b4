// SPDX-License-Identifier: Apache-2.0
//! A store that speaks S3 and takes nothing unsigned, outside: every request's signature is made
//! once more by botocore, with the real key, and compared.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use torno_stage::unwalled::PYTHON;
use torno_stage::world::authority::Authority;

/// Its name.
pub(super) const HOST: &str = "s3.torno.test";
/// The id of its only key.
pub(super) const KEY_ID: &str = "AKIAIOSFODNN7EXAMPLE";

/// Each line of standard input is the key from then on, and empties the store. One line of the journal
/// for each request.
const SERVER: &str = r#"
import hashlib, json, re, ssl, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
certificate, key, journal, key_id = sys.argv[1:]
secret = ['']
objects = {}
def wanted(request, path, signed):
    names = signed.split(';')
    fields = {name: ','.join(request.headers.get_all(name) or []) for name in names}
    made = AWSRequest(method=request.command, url='https://' + request.headers['host'] + path,
                      headers={name: value for name, value in fields.items() if name != 'host'})
    made.headers['host'] = fields['host']
    made.context['timestamp'] = request.headers['x-amz-date']
    auth = S3SigV4Auth(Credentials(key_id, secret[0]), 's3', 'eu-central-1')
    canonical = auth.canonical_request(made)
    return auth.signature(auth.string_to_sign(made, canonical), made)
class Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def log_message(self, *_): pass
    def answer(self):
        length = int(self.headers.get('content-length') or 0)
        body = self.rfile.read(length)
        status, out = self.judged(body)
        with open(journal, 'a') as book:
            book.write(json.dumps({'line': self.requestline, 'status': status,
                'headers': [[n.lower(), v] for n, v in self.headers.items()]}) + '\n')
        self.send_response(status)
        if status != 204:
            self.send_header('content-length', str(len(out)))
        self.send_header('content-type', 'application/xml')
        self.end_headers()
        if status != 204 and self.command != 'HEAD':
            self.wfile.write(out)
    def judged(self, body):
        told = self.headers.get('authorization') or ''
        form = (r'AWS4-HMAC-SHA256 Credential=' + key_id + r'/(\d{8})/eu-central-1/s3/aws4_request, '
                r'SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})')
        found = re.fullmatch(form, told)
        every = [n.lower() for n in self.headers if n.lower().startswith('x-amz-')] + ['host']
        if not found or not set(every) <= set(found[2].split(';')):
            return 403, b'<Error><Code>AccessDenied</Code></Error>'
        if wanted(self, self.path, found[2]) != found[3]:
            return 403, b'<Error><Code>SignatureDoesNotMatch</Code></Error>'
        said = self.headers['x-amz-content-sha256']
        if said != 'UNSIGNED-PAYLOAD' and said != hashlib.sha256(body).hexdigest():
            return 400, b'<Error><Code>XAmzContentSHA256Mismatch</Code></Error>'
        path, _, query = self.path.partition('?')
        if self.command == 'PUT':
            objects[path] = body
            return 200, b''
        if self.command == 'DELETE':
            objects.pop(path, None)
            return 204, b''
        if path == '/bucket':
            keys = ''.join('<Contents><Key>%s</Key><Size>%d</Size></Contents>' % (k[8:], len(v))
                           for k, v in sorted(objects.items()))
            return 200, ('<ListBucketResult><Name>bucket</Name><EncodingType>url</EncodingType>'
                         + keys + '</ListBucketResult>').encode()
        if path == '/bucket/echo':
            return 200, ('key ' + secret[0] + ' and ' + told).encode()
        if path in objects:
            return 200, objects[path]
        return 404, b'<Error><Code>NoSuchKey</Code></Error>'
    do_GET = do_PUT = do_DELETE = do_HEAD = do_POST = answer
server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_address[1], flush=True)
for line in sys.stdin:
    secret[0] = line.strip()
    objects.clear()
    print('known', flush=True)
"#;

/// The store, until it is dropped.
pub(super) struct FarEnd {
    server: Child,
    said: std::cell::RefCell<BufReader<std::process::ChildStdout>>,
    port: u16,
    directory: tempfile::TempDir,
}

impl FarEnd {
    pub(super) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = |name: &str| directory.path().join(name);
        let authority = Authority::new("Torno stage, authority of a store").unwrap();
        let (chain, key) = authority.server_pem(&[HOST]).unwrap();
        std::fs::write(place("ca.pem"), authority.pem()).unwrap();
        std::fs::write(place("chain.pem"), chain).unwrap();
        std::fs::write(place("key.pem"), key).unwrap();
        std::fs::write(place("journal"), "").unwrap();
        let mut server = Command::new(PYTHON)
            .args(["-c", SERVER])
            .args([&place("chain.pem"), &place("key.pem"), &place("journal")])
            .arg(KEY_ID)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(server.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        Self {
            port: line.trim().parse().expect("the store did not come up"),
            server,
            said: said.into(),
            directory,
        }
    }

    /// The key that counts from now on.
    pub(super) fn know(&self, secret: &str) {
        use std::io::Write as _;
        let mut input = self.server.stdin.as_ref().unwrap();
        writeln!(input, "{secret}").unwrap();
        let mut line = String::new();
        self.said.borrow_mut().read_line(&mut line).unwrap();
        assert_eq!(line, "known\n");
    }

    /// The operator's pin for it.
    pub(super) fn pin(&self) -> String {
        let (port, ca) = (self.port, self.place("ca.pem"));
        format!(
            "[[pin]]\nhost = \"{HOST}\"\nport = 443\naddress = \"127.0.0.1:{port}\"\nca = \"{}\"\n",
            ca.display()
        )
    }

    /// What it noted.
    pub(super) fn journal(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.place("journal")).unwrap();
        let lines = text.lines();
        lines.map(|l| serde_json::from_str(l).unwrap()).collect()
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
