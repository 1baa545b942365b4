// SPDX-License-Identifier: Apache-2.0
//! Inputs of the classes A, C to H and K that are not the listed examples, sent from inside over
//! every entry, whole or byte by byte. Each is refused with its code, or reaches the far end in the
//! one form that is right; the far end's book says which.

mod cases;

use crate::stage::{Stage, at_each_level};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cases::{Case, Right};
use torno_stage::unwalled::PYTHON;
use torno_stage::world::journal::Request;

/// Reads cases as `entry name base64`, prints each answer as base64. `@PH@` is the placeholder.
const SEND: &str = r"
import base64, concurrent.futures, os, socket, ssl, sys
blind = ssl.create_default_context()
blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE

def hear(stream):
    got = b''
    stream.settimeout(45)
    try:
        while True:
            part = stream.recv(65536)
            if not part:
                break
            got += part
            # One refusal or one answer is all there is to come; the rest is waited for briefly.
            stream.settimeout(0.7)
    except OSError:
        pass
    return got

def proxy(name):
    stream = socket.create_connection(('127.0.0.1', 3128), timeout=20)
    if name:
        stream.sendall(b'CONNECT %s:443 HTTP/1.1\r\nHost: %s:443\r\n\r\n' % (name, name))
        head = b''
        while not head.endswith(b'\r\n\r\n'):
            part = stream.recv(1)
            if not part:
                return stream, head
            head += part
        if b' 200 ' not in head.split(b'\r\n')[0]:
            return stream, head
    return stream, b''

def send(entry, name, said):
    dialled, _, sni = name.partition('/')
    if entry in ('proxy', 'tunnel'):
        stream, refused = proxy(dialled.encode() if entry == 'tunnel' else b'')
        if refused:
            return refused + hear(stream)
    else:
        port = {'plain': 80, 'raw': 443, 'odd': 8443}.get(entry, 443)
        stream = socket.create_connection((dialled, port), timeout=20)
    if entry in ('tls', 'slow', 'tunnel', 'odd'):
        stream = blind.wrap_socket(stream, server_hostname=sni or dialled)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if entry == 'slow':
        for at in range(len(said)):
            stream.sendall(said[at:at + 1])
    else:
        stream.sendall(said)
    return hear(stream)

def answer(line):
    entry, name, said = line.split()
    said = base64.b64decode(said).replace(b'@PH@', os.environ['API_TOKEN'].encode())
    try:
        return send(entry, name, said)
    except OSError as error:
        return b'cut: ' + str(error).encode()

with concurrent.futures.ThreadPoolExecutor(8) as pool:
    for got in pool.map(answer, sys.stdin):
        print(base64.b64encode(got).decode(), flush=True)
";

// ATTACK: 001, 003, 004, 005, 007, 009, 010, 011, 014, 015, 037, 038, 040, 042, 043, 045, 047, 049
// ATTACK: 051, 052, 053, 054, 055, 059, 060, 062, 070, 073, 075, 077, 078, 080, 083, 086, 088, 091
// ATTACK: 095, 097, 098, 112, 118, 124
#[test]
fn no_input_of_a_known_class_gets_further_than_it_may() {
    at_each_level("hostile inputs", |stage, level| {
        let cases = cases::all();
        let lines: String = cases
            .iter()
            .map(|c| format!("{} {} {}\n", c.entry, c.name, STANDARD.encode(&c.bytes)))
            .collect();
        stage.daemon.write_workspace("cases", &lines).unwrap();
        let script = format!("exec {PYTHON} -c \"$0\" < cases");
        let ran = stage.run(level, &["/bin/sh", "-c", &script, SEND]).good();
        let answers: Vec<String> = ran
            .stdout
            .lines()
            .map(|line| String::from_utf8_lossy(&STANDARD.decode(line).unwrap()).into_owned())
            .collect();
        assert_eq!(answers.len(), cases.len(), "{ran:?}");
        let seen = stage.world.api.journal.requests();
        let wrong: Vec<String> = cases
            .iter()
            .enumerate()
            .filter_map(|(at, case)| {
                let mine: Vec<&Request> = seen
                    .iter()
                    .filter(|r| r.target.contains(&case.mark))
                    .collect();
                let fault = judge(stage, case, &answers[at], &mine)?;
                Some(format!(
                    "{}: {fault}\n  answered {:?}\n  seen {mine:?}",
                    case.what, answers[at]
                ))
            })
            .collect();
        assert!(wrong.is_empty(), "{level}:\n{}", wrong.join("\n"));
        assert!(stage.world.evil.journal.connections().is_empty());
        assert!(stage.world.other.journal.requests().is_empty());
        assert!(stage.world.git.journal.requests().is_empty());
    });
}

/// What is wrong with an answer, if anything.
fn judge(stage: &Stage, case: &Case, answer: &str, seen: &[&Request]) -> Option<String> {
    let whole = seen.iter().filter(|r| r.body_sha256.is_some()).count();
    let real = format!("Bearer {}", stage.world.api_token);
    let fault = match &case.right {
        Right::Refused(codes) => {
            let refused = codes.iter().any(|code| answer.contains(code));
            (whole > 0 || !refused).then(|| format!("wanted one of {codes:?} and nothing sent"))
        }
        Right::Sent(check) => {
            let good =
                answer.starts_with("HTTP/1.1 200 ") && whole == 1 && seen.iter().all(|r| check(r));
            (!good).then(|| "wanted one good request".to_owned())
        }
        Right::Credentialed => {
            let sent: Vec<_> = seen.iter().map(|r| fields(r, "authorization")).collect();
            (sent != [vec![real]]).then(|| "wanted the one credential".to_owned())
        }
    };
    // Whatever came of it, an answer is no place for what was sent, nor for a credential.
    let leaks = answer.contains("<script") || answer.contains(&stage.world.api_token);
    fault.or_else(|| leaks.then(|| "the answer repeats what it must not".to_owned()))
}

/// Every field of that name.
pub(crate) fn fields(request: &Request, name: &str) -> Vec<String> {
    let all = request.headers.iter();
    all.filter(|(field, _)| field.eq_ignore_ascii_case(name))
        .map(|(_, value)| String::from_utf8_lossy(value).into_owned())
        .collect()
}
