// SPDX-License-Identifier: Apache-2.0
//! Runs of messages that end a transaction in their middle, by a client of its own making, so that
//! what comes behind would be read only no more: functions that were there before undo that.
//! Without the gate six of the nine write to a server of version 15; one more notifies.

use super::{Databases, POLICY, PYTHON, at_each_level};

const RUNS: &str = r#"
import base64, hashlib, hmac, os, socket, struct

def message(kind, body):
    return kind + struct.pack('>I', len(body) + 4) + body

def hear(io):
    head = io.recv(5, socket.MSG_WAITALL)
    if len(head) < 5:
        return None, b''
    length = struct.unpack('>I', head[1:])[0] - 4
    return head[:1], io.recv(length, socket.MSG_WAITALL) if length else b''

def log_in():
    io = socket.create_connection(('db.torno.test', 5432))
    start = struct.pack('>I', 3 << 16) + b'user\0app\0database\0shop\0\0'
    io.sendall(struct.pack('>I', len(start) + 4) + start)
    bare = 'n=,r=' + base64.b64encode(os.urandom(18)).decode()
    while True:
        kind, body = hear(io)
        step = struct.unpack('>I', body[:4])[0] if kind == b'R' else None
        if step == 10:
            first = ('n,,' + bare).encode()
            io.sendall(message(b'p', b'SCRAM-SHA-256\0' + struct.pack('>I', len(first)) + first))
        elif step == 11:
            server = body[4:].decode()
            said = dict(part.split('=', 1) for part in server.split(','))
            last = 'c=biws,r=' + said['r']
            salt, count = base64.b64decode(said['s']), int(said['i'])
            salted = hashlib.pbkdf2_hmac('sha256', os.environ['API_TOKEN'].encode(), salt, count)
            key = hmac.digest(salted, b'Client Key', 'sha256')
            text = ','.join([bare, server, last]).encode()
            sign = hmac.digest(hashlib.sha256(key).digest(), text, 'sha256')
            proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, sign))).decode()
            io.sendall(message(b'p', (last + ',p=' + proof).encode()))
        elif kind in (b'Z', b'E', None):
            return io

Q = lambda sql: message(b'Q', sql + b'\0')
P = lambda name, sql: message(b'P', name + b'\0' + sql + b'\0\0\0')
B = lambda portal, name: message(b'B', portal + b'\0' + name + b'\0' + bytes(6))
E = lambda portal: message(b'E', portal + b'\0' + bytes(4))
S = message(b'S', b'')
commit = P(b'c', b'commit')
undo = P(b'', b'select undo()') + B(b'', b'') + E(b'')
sneak = P(b's', b'select sneak()') + B(b'q', b's') + E(b'q')
long = b'n' * 63

STORIES = {
    'open': [undo + commit + B(b'p', b'c') + E(b'p') + sneak + S],
    'taken': [commit + S, P(b'c', b'select 1') + S, undo + B(b'p', b'c') + E(b'p') + sneak + S],
    'failed': [P(b'', b'commit') + S, P(b'x', b'select no') + P(b'', b'select 1') + S,
               P(b'u', b'select undo()') + B(b'u', b'u') + E(b'u')
               + B(b'p', b'') + E(b'p') + sneak + S],
    'long': [P(long + b'1', b'commit') + S, undo + B(b'p', long + b'2') + E(b'p') + sneak + S],
    'portal': [Q(b'begin'), commit + B(b'p', b'c') + S, undo + E(b'p') + sneak + S],
    'execute': [commit + S, Q(b'select undo(); execute c; select sneak()')],
    'executed': [commit + S, P(b'x', b'execute c') + S,
                 undo + B(b'p', b'x') + E(b'p') + sneak + S],
    'folded': [P(b'u', b'select fold_undo()') + B(b'u', b'u') + commit + B(b'p', b'c') + E(b'p')
               + P(b's', b'select fold_sneak()') + B(b's', b's') + S],
    'escaped': [P(b'', b'select unquote()') + B(b'', b'') + E(b'')
                + P(b's', rb"select '\' as a, ', pg_notify($$a$$, $$b$$) --'")
                + B(b's', b's') + E(b's') + S],
}
for name, runs in STORIES.items():
    io, said = log_in(), []
    for run in runs:
        io.sendall(run)
        kind = b''
        while kind not in (b'Z', None):
            kind, body = hear(io)
            if kind == b'E':
                said.append(body.decode().split('\0M')[1].split('\0')[0])
    print(name, '|', ' / '.join(said) or 'done')
"#;

#[test]
fn a_run_of_messages_ends_its_transaction_last() {
    let story = "databases whose transactions end in the middle";
    at_each_level(
        story,
        (&["--access", "read"], POLICY),
        |databases: &Databases| {
            let ran = databases
                .stage
                .run(databases.level, &[PYTHON, "-c", RUNS])
                .good();
            let said: Vec<(&str, &str)> = ran
                .stdout
                .lines()
                .filter_map(|line| line.split_once(" | "))
                .collect();
            assert_eq!(said.len(), 9, "{ran:#?}");
            for (name, told) in said {
                let words = match name {
                    "long" => "at most 63 bytes",
                    "escaped" => "backslash",
                    // It undid its guard, which the server says as soon as it failed.
                    "folded" => "was changed",
                    _ => "end transactions",
                };
                assert!(told.contains(words), "{name}: {told}: {ran:#?}");
            }
            let text = "select count(*) from items where id > 2";
            assert_eq!(databases.far.ask(text), "0");
        },
    );
}
