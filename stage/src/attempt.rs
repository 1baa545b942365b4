// SPDX-License-Identifier: Apache-2.0
//! An attempt: a small hostile script, what it wants, and how both ends show whether it got it.
//! The same script runs twice: once with its wall off, where it must succeed, and once sealed.

use crate::canary::Canary;
use crate::world::journal::{Connection, Request};
use std::fmt::Write as _;

/// A hostile script and its aim.
#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    /// What it tries, as the table says it.
    pub name: &'static str,
    /// What counts as success.
    pub goal: Goal,
    /// The wall that is in its way.
    pub wall: &'static str,
    /// Python, after [`PRELUDE`].
    pub script: &'static str,
}

/// What an attempt wants.
#[derive(Debug, Clone, Copy)]
pub enum Goal {
    /// A real credential in the script's own output.
    SeeSecret,
    /// Anything at all at the attacker's sink.
    ReachSink,
    /// A request at the API that looks like this.
    ApiSees(fn(&Request) -> bool),
    /// A connection at the API with this in the TLS hello.
    ApiHello(&'static str),
    /// A request at the other API that looks like this.
    OtherSees(fn(&Request) -> bool),
    /// A real credential at the other API.
    SecretAtOther,
    /// The protected branch moved.
    BranchMoves,
    /// The content of a file or a process of the host, in the output.
    SeeHost,
    /// The script says that it did it.
    Says(&'static str),
    /// A process of the host died.
    VictimDies,
    /// A file appeared on the host.
    FileAppears,
}

/// What happened while a script ran.
#[derive(Debug, Default)]
pub struct Observation {
    /// Everything it wrote.
    pub output: Vec<u8>,
    /// Connections that the far ends got meanwhile.
    pub sink: Vec<Connection>,
    /// At the API.
    pub api: Vec<Connection>,
    /// At the other API.
    pub other: Vec<Connection>,
    /// At the git server.
    pub git: Vec<Connection>,
    /// The protected branch moved.
    pub branch_moved: bool,
    /// The victim died.
    pub victim_died: bool,
    /// The file appeared.
    pub file_appeared: bool,
    /// The last refusal that was recorded meanwhile: code, layer, rule.
    pub recorded: Option<(String, String, String)>,
}

/// What no script may see: the two credentials, and the host's own secret.
#[derive(Debug, Clone)]
pub struct Secrets {
    /// The credentials.
    pub credentials: Vec<Canary>,
    /// What stands in a file and in the environment of a process on the host.
    pub host: Canary,
}

impl Observation {
    /// The evidence that the attempt got what it wanted, if it did.
    #[must_use]
    pub fn success(&self, goal: &Goal, secrets: &Secrets) -> Option<String> {
        let found = |bytes: &[u8]| secrets.credentials.iter().find_map(|c| c.find(bytes));
        let at = |far: &[Connection]| far.iter().find_map(|c| found(&c.received));
        let request = |far: &[Connection], wanted: fn(&Request) -> bool| {
            let seen = far.iter().flat_map(|c| &c.requests).find(|r| wanted(r));
            seen.map(|r| {
                format!(
                    "{} {} → {}",
                    r.method,
                    r.target,
                    r.status.unwrap_or_default()
                )
            })
        };
        let said = |yes: bool, what: &str| yes.then(|| what.to_owned());
        match goal {
            Goal::SeeSecret => found(&self.output).map(|e| format!("the credential as {e:?}")),
            Goal::ReachSink => {
                let bytes: u64 = self.sink.iter().map(|c| c.received_bytes).sum();
                (bytes > 0).then(|| format!("{bytes} bytes at the sink"))
            }
            Goal::ApiSees(wanted) => request(&self.api, *wanted),
            Goal::ApiHello(name) => {
                let seen = self.api.iter().any(|c| c.sni.as_deref() == Some(name));
                said(seen, "the hello at the API")
            }
            Goal::OtherSees(wanted) => request(&self.other, *wanted),
            Goal::SecretAtOther => at(&self.other).map(|e| format!("the credential as {e:?}")),
            Goal::BranchMoves => said(self.branch_moved, "main moved"),
            Goal::SeeHost => secrets
                .host
                .find(&self.output)
                .map(|_| "the host's secret".to_owned()),
            Goal::Says(word) => {
                let said_it = memchr::memmem::find(&self.output, word.as_bytes()).is_some();
                said(said_it, word)
            }
            Goal::VictimDies => said(self.victim_died, "the process died"),
            Goal::FileAppears => said(self.file_appeared, "the file is there"),
        }
    }

    /// A real credential where it must never be, whatever the goal was: in the output, at the
    /// sink, at the other API.
    #[must_use]
    pub fn leak(&self, secrets: &Secrets) -> Option<String> {
        let found = |bytes: &[u8]| secrets.credentials.iter().find_map(|c| c.find(bytes));
        let far = self.sink.iter().chain(&self.other);
        found(&self.output)
            .map(|e| format!("a credential in the output as {e:?}"))
            .or_else(|| {
                far.filter_map(|c| found(&c.received))
                    .next()
                    .map(|e| format!("a credential at a far end that must not have it, as {e:?}"))
            })
    }

    /// The refusal that Torno answered, if the script printed one, or else recorded: code, layer,
    /// rule.
    #[must_use]
    pub fn refusal(&self) -> Option<(String, String, String)> {
        self.printed_refusal().or_else(|| self.recorded.clone())
    }

    fn printed_refusal(&self) -> Option<(String, String, String)> {
        let text = String::from_utf8_lossy(&self.output);
        text.match_indices("{\"code\":").find_map(|(at, _)| {
            let rest = text.get(at..)?;
            let object = rest.get(..=rest.find('}')?)?;
            let value: serde_json::Value = serde_json::from_str(object).ok()?;
            let field = |name: &str| value.get(name)?.as_str().map(str::to_owned);
            Some((field("code")?, field("layer")?, field("rule")?))
        })
    }

    /// What the sandbox saw, in a few words.
    #[must_use]
    pub fn inside(&self) -> String {
        if let Some((code, _, _)) = self.printed_refusal() {
            return code;
        }
        let text = String::from_utf8_lossy(&self.output);
        let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
        let plain = |c: &char| !c.is_control();
        last.unwrap_or("nothing")
            .chars()
            .filter(plain)
            .take(46)
            .collect()
    }

    /// What the far ends saw, in a few words.
    #[must_use]
    pub fn outside(&self) -> String {
        let mut text = String::new();
        for (name, far) in [
            ("api", &self.api),
            ("other", &self.other),
            ("git", &self.git),
            ("sink", &self.sink),
        ] {
            let requests: usize = far.iter().map(|c| c.requests.len()).sum();
            let bytes: u64 = far.iter().map(|c| c.received_bytes).sum();
            if requests > 0 {
                let _ = write!(text, "{name}: {requests} requests; ");
            } else if bytes > 0 {
                let _ = write!(text, "{name}: {bytes} bytes; ");
            }
        }
        let text = text.trim_end_matches("; ");
        if text.is_empty() {
            "nothing".to_owned()
        } else {
            text.to_owned()
        }
    }
}

/// What every script begins with. Plain sockets, so that nothing is hidden in a library.
pub const PRELUDE: &str = r#"
import base64, glob, os, re, signal, socket, ssl, subprocess, sys, time
API, OTHER, GIT, EVIL = 'api.torno.test', 'other.torno.test', 'git.torno.test', 'evil.torno.test'
TOKEN = os.environ.get('API_TOKEN', '')
AUTH = 'Bearer ' + TOKEN
SHAPES = re.compile(rb'(?:sk-live-|ghp_)[0-9A-Za-z]{16,}')

def out(what):
    what = what if isinstance(what, bytes) else str(what).encode()
    sys.stdout.buffer.write(what + b'\n')
    sys.stdout.buffer.flush()

def dial(host, port=443, tls=True, sni=None):
    stream = socket.create_connection((host, port), timeout=6)
    if tls:
        context = ssl.create_default_context()
        if sni:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        stream = context.wrap_socket(stream, server_hostname=sni or host)
    return stream

def read(stream):
    got = b''
    try:
        while len(got) < 1 << 20:
            part = stream.recv(65536)
            if not part:
                break
            got += part
    except (TimeoutError, OSError) as error:
        out('[%s]' % error)
    return got

def call(method, host, path, headers=(), body=b'', port=443, tls=True, sni=None, name=None):
    stream = dial(host, port, tls, sni)
    lines = ['%s %s HTTP/1.1' % (method, path), 'Host: ' + (name or host), 'Connection: close']
    lines += ['%s: %s' % pair for pair in headers]
    if body or method == 'POST':
        lines.append('Content-Length: %d' % len(body))
    stream.sendall('\r\n'.join(lines).encode() + b'\r\n\r\n' + body)
    got = read(stream)
    out(got)
    return got

def raw(host, data, port=443, tls=True, sni=None):
    stream = dial(host, port, tls, sni)
    stream.sendall(data)
    got = read(stream)
    out(got)
    return got

def shapes(data):
    for found in SHAPES.findall(data):
        out(found)
"#;
