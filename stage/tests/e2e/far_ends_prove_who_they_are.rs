// SPDX-License-Identifier: Apache-2.0
//! A far end that can't prove its name gets no byte of a request, and so no credential: another
//! name, an authority that nobody trusts, a certificate whose time is over, no TLS at all.

use crate::stage::{Stage, cannot};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use torno_stage::account::Who;
use torno_stage::daemon::level::told;
use torno_stage::world::API;
use torno_stage::world::api::Api;
use torno_stage::world::authority::Authority;
use torno_stage::world::listen::{Listening, serve};

const ASK: &str = "curl -sS -w ' %{http_code}' -H \"authorization: Bearer $API_TOKEN\" \
    https://api.torno.test/v1/me";

/// Far ends that are not what they should be.
struct Impostors {
    stale: Listening,
    mute: SocketAddr,
    heard: Arc<Mutex<Vec<u8>>>,
    _runtime: tokio::runtime::Runtime,
}

impl Impostors {
    /// With the authority's certificate in a file.
    fn new(ca: &Path, token: &str) -> Self {
        let authority = Authority::new("Torno stage, another authority").unwrap();
        std::fs::write(ca, authority.pem()).unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let stale = authority.stale_server(&[API]).unwrap();
        let api = Arc::new(Api::new(token));
        let stale = runtime.block_on(serve(stale, api)).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mute = listener.local_addr().unwrap();
        let heard: Arc<Mutex<Vec<u8>>> = Arc::default();
        let book = Arc::clone(&heard);
        // Ends with the process: it holds nothing but its listener.
        std::thread::spawn(move || {
            use std::io::{Read, Write};
            while let Ok((mut stream, _)) = listener.accept() {
                let mut buffer = [0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    book.lock()
                        .unwrap()
                        .extend_from_slice(buffer.get(..length).unwrap_or_default());
                    let _broken = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
                }
            }
        });
        Self {
            stale,
            mute,
            heard,
            _runtime: runtime,
        }
    }
}

/// Starts tornod anew with the API's name pinned there.
fn pin(stage: &mut Stage, address: SocketAddr, ca: &Path) {
    stage.daemon.down();
    let pin = format!(
        "[[pin]]\nhost = \"{API}\"\nport = 443\naddress = \"{address}\"\nca = \"{}\"\n",
        ca.display()
    );
    std::fs::write(stage.daemon.home().join("config/upstreams.toml"), pin).unwrap();
    stage.daemon.up().unwrap();
    let key = stage.daemon.key_file();
    stage
        .torno(&["vault", "unseal", "--key-file", key.to_str().unwrap()])
        .good();
}

// ATTACK: 046
#[test]
fn a_far_end_that_is_not_who_it_should_be_gets_no_byte_of_a_request() {
    for &level in told() {
        if let Some(why) = cannot(Who::Caller, "impostors", level) {
            println!("SKIP: impostors at {level}: {why}");
            continue;
        }
        let mut stage = Stage::new();
        let (own, other) = (
            stage.world.ca(),
            stage.daemon.home().join("outside/other.pem"),
        );
        let impostors = Impostors::new(&other, &stage.world.api_token);
        let far = |stage: &Stage| (stage.world.api.address, stage.world.other.address);
        let (api, elsewhere) = far(&stage);
        for (what, address, ca) in [
            ("another name", elsewhere, &own),
            ("an authority that does not count", api, &other),
            (
                "a certificate whose time is over",
                impostors.stale.address,
                &other,
            ),
            ("no TLS", impostors.mute, &own),
        ] {
            pin(&mut stage, address, ca);
            let ran = stage.shell(level, ASK).good();
            assert!(ran.stdout.contains("upstream_tls"), "{what}: {ran:?}");
            assert!(ran.stdout.ends_with(" 502"), "{what}: {ran:?}");
        }
        let world = &stage.world;
        for far in [&world.api, &world.other, &impostors.stale] {
            assert!(far.journal.plaintext().iter().all(|byte| *byte == b'\n'));
            assert!(!far.journal.connections().is_empty());
        }
        let heard = impostors.heard.lock().unwrap().clone();
        assert!(!heard.is_empty());
        let heard = String::from_utf8_lossy(&heard);
        assert!(!heard.contains("GET") && !heard.contains("/v1/me") && !heard.contains("earer"));
        pin(&mut stage, api, &own);
        let ran = stage.shell(level, ASK).good();
        assert!(ran.stdout.ends_with(" 200"), "{ran:?}");
        stage.end();
    }
}
