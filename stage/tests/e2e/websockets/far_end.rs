// SPDX-License-Identifier: Apache-2.0
//! A WebSocket server that is no part of Torno, outside: the `websockets` package of Debian, on
//! loopback, with a certificate of its own authority.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use torno_stage::unwalled::PYTHON;
use torno_stage::world::authority::Authority;

/// Its name.
pub(super) const HOST: &str = "ws.torno.test";

/// Echoes, gives the credential of the handshake back in several ways, closes with a code, or goes
/// on until it is closed. Each connection's head and end is one line of its journal.
const SERVER: &str = r#"
import asyncio, json, ssl, sys, websockets
certificate, key, journal = sys.argv[1:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
def note(**line):
    with open(journal, 'a') as book:
        book.write(json.dumps(line) + '\n')
async def serve(socket):
    path, headers = socket.path, socket.request_headers
    note(path=path, began=True, headers=list(headers.raw_items()))
    got = 0
    try:
        token = headers.get('Authorization', 'Bearer nobody').split()[1]
        if path == '/socket/echo':
            async for message in socket:
                got += len(message)
                await socket.send(message)
        elif path == '/socket/leak':
            await socket.send('whole ' + token)
            await socket.send(['cut ', token[:3], token[3:14], token[14:], '!'])
            await socket.send(json.dumps({'token': token, 'also': token[:20]}))
            await socket.close(1000, 'you sent ' + token)
        elif path == '/socket/binary':
            await socket.send(b'\0\1' + token.encode() + b'\2')
            await socket.wait_closed()
        elif path == '/socket/ping':
            await socket.ping(token[:40])
            await socket.wait_closed()
        elif path == '/socket/gateway':
            await socket.send(json.dumps({'op': 10, 'd': {'heartbeat_interval': 41250}}))
            async for message in socket:
                said = json.loads(message)
                got += 1
                if said['op'] == 2:
                    note(path=path, identified=said['d']['token'])
                    ready = {'op': 0, 't': 'READY', 'd': {'you': said['d']['token']}}
                    await socket.send(json.dumps(ready))
                else:
                    await socket.send(json.dumps({'op': 11, 'of': said['op']}))
        elif path == '/socket/close':
            await socket.close(4001, 'enough')
        else:
            while True:
                await socket.send('tick')
                got += 1
                await asyncio.sleep(0.02)
    except websockets.ConnectionClosed:
        pass
    note(path=path, got=got, code=socket.close_code)
async def main():
    server = await websockets.serve(
        serve, '127.0.0.1', 0, ssl=context, max_size=2**24, subprotocols=['other', 'chat'],
        extra_headers={'X-Server': 'websockets'})
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Future()
asyncio.run(main())
"#;

/// The server, until it is dropped.
pub(super) struct FarEnd {
    server: Child,
    pub(super) port: u16,
    pub(super) ca: PathBuf,
    journal: PathBuf,
}

impl FarEnd {
    /// Starts one, with its files in a directory.
    pub(super) fn start(directory: &Path) -> Self {
        let authority = Authority::new("Torno stage, authority of WebSockets").unwrap();
        let place = |name: &str| directory.join(name);
        let (chain, key) = authority.server_pem(&[HOST]).unwrap();
        std::fs::write(place("ws-ca.pem"), authority.pem()).unwrap();
        std::fs::write(place("ws-chain.pem"), chain).unwrap();
        std::fs::write(place("ws-key.pem"), key).unwrap();
        let journal = place("ws-journal");
        std::fs::write(&journal, "").unwrap();
        let mut server = Command::new(PYTHON)
            .args(["-c", SERVER])
            .args([&place("ws-chain.pem"), &place("ws-key.pem"), &journal])
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let said = server.stdout.take().unwrap();
        BufReader::new(said).read_line(&mut line).unwrap();
        Self {
            port: line.trim().parse().expect("the server did not come up"),
            server,
            ca: place("ws-ca.pem"),
            journal,
        }
    }

    /// The operator's pin for it.
    pub(super) fn pin(&self) -> String {
        let (port, ca) = (self.port, self.ca.display());
        format!(
            "[[pin]]\nhost = \"{HOST}\"\nport = 443\naddress = \"127.0.0.1:{port}\"\nca = \"{ca}\"\n"
        )
    }

    /// What it noted.
    pub(super) fn journal(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.journal).unwrap();
        let lines = text.lines();
        lines.map(|l| serde_json::from_str(l).unwrap()).collect()
    }
}

impl Drop for FarEnd {
    fn drop(&mut self) {
        let _dead = self.server.kill();
        let _reaped = self.server.wait();
    }
}
