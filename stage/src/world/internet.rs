// SPDX-License-Identifier: Apache-2.0
//! An internet of one's own, for stories about addresses: a network namespace for Torno, joined to
//! one that answers at every address there is, and a scripted name server between them. Torno runs
//! whole in the first, with no pin and no seam; whatever it dials is accepted and noted, so a
//! dialled address that should not have been is in the book.
//!
//! ```text
//!   torno: 11.22.33.2 ──veth── 11.22.33.1: every other address, port 443
//!          its own and loopback addresses, port 443     11.22.33.53: names
//! ```
//!
//! The addresses look public because the dialer takes no other; they exist in these namespaces
//! alone, which have no way to anywhere else.

mod names;
mod namespaces;

pub use names::{Entry, Manner, Names, Question, parsed};
pub use namespaces::Door;

use crate::world::authority::Authority;
use crate::world::journal::Connection;
use crate::world::listen::{Answer, Listening, Origin, Visit, answer, serve_at, with};
use anyhow::{Context, Result};
use namespaces::Namespace;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Every name that a story grants is one label below this.
pub const DOMAIN: &str = "far.test";
/// The machine's own addresses, in the namespace that Torno runs in.
/// The last two are further ones of an interface: as a source the kernel picks the first.
pub const OWN: [&str; 4] = ["11.22.33.2", "2a00:11:22::2", "11.22.33.3", "2a00:11:22::3"];

const NAME_SERVER: &str = "11.22.33.53:53";
const HTTPS: &str = "[::]:443";
/// A resolver that gives up soon, and would try a search list if it were asked to.
const RESOLVER: &str = "nameserver 11.22.33.53\nsearch corp.test evil.test\n\
    options timeout:1 attempts:1 ndots:9\n";
const NAME_SERVICE: &str = "hosts: files dns\n";

/// The far side: all addresses are its own.
const FAR: &str = "ip link add far type veth peer name out netns TORNO
ip address add 11.22.33.1/24 dev far
ip address add 11.22.33.53/24 dev far
ip address add 2a00:11:22::1/64 dev far nodad
ip link set far up
ip route add local default dev lo table main
ip -6 route add local default dev lo table main";
/// Torno's side: one way out.
const NEAR: &str = "ip address add 11.22.33.2/24 dev out
ip address add 11.22.33.3/24 dev out
ip address add 2a00:11:22::2/64 dev out nodad
ip address add 2a00:11:22::3/64 dev out nodad
ip link set out up
ip route add default via 11.22.33.1
ip -6 route add default via 2a00:11:22::1";

/// The internet, until it is dropped.
#[derive(Debug)]
pub struct Internet {
    directory: TempDir,
    /// The name server.
    pub names: Names,
    far: Listening,
    own: Listening,
    near: Namespace,
    _beyond: Namespace,
    _runtime: Runtime,
}

impl Internet {
    /// Starts one with a zone below [`DOMAIN`] (names as labels) and lines of `/etc/hosts`.
    ///
    /// # Errors
    /// When namespaces, sockets or certificates can't be made.
    pub fn start(zone: BTreeMap<String, Entry>, hosts: &str) -> Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("torno-internet-")
            .tempdir()
            .context("no temporary directory")?;
        let file = |name: &str, text: &str| -> Result<PathBuf> {
            let path = directory.path().join(name);
            std::fs::write(&path, text).with_context(|| format!("cannot write {name}"))?;
            Ok(path)
        };
        let near = Namespace::new(&[
            (file("resolv.conf", RESOLVER)?, "/etc/resolv.conf"),
            (file("nsswitch.conf", NAME_SERVICE)?, "/etc/nsswitch.conf"),
            (file("hosts", hosts)?, "/etc/hosts"),
        ])?;
        let beyond = Namespace::new(&[])?;
        beyond.must(&FAR.replace("TORNO", &near.process().to_string()))?;
        near.must(NEAR)?;
        let authority = Authority::new("Torno stage, authority of its own internet")?;
        file("ca.pem", &authority.pem())?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .context("no runtime")?;
        let entered = runtime.enter();
        let names = Names::new(below_domain(zone));
        names.serve(
            beyond.socket(|| std::net::UdpSocket::bind(NAME_SERVER))?,
            beyond.socket(|| std::net::TcpListener::bind(NAME_SERVER))?,
        )?;
        let tls = || authority.server(&[&format!("*.{DOMAIN}"), DOMAIN]);
        let listen = |namespace: &Namespace| -> Result<Listening> {
            let listener = namespace.socket(|| std::net::TcpListener::bind(HTTPS))?;
            serve_at(listener, tls()?, Arc::new(Anybody))
        };
        let (far, own) = (listen(&beyond)?, listen(&near)?);
        drop(entered);
        Ok(Self {
            directory,
            names,
            far,
            own,
            near,
            _beyond: beyond,
            _runtime: runtime,
        })
    }

    /// How a command gets to where Torno runs.
    #[must_use]
    pub fn door(&self) -> Door {
        self.near.door()
    }

    /// The operator's `upstreams.toml`: the authority, and no pin.
    #[must_use]
    pub fn upstreams(&self) -> String {
        let ca = self.directory.path().join("ca.pem");
        format!("[[root]]\nfile = \"{}\"\n", ca.display())
    }

    /// Every connection that was accepted anywhere, by the address that was dialled.
    #[must_use]
    pub fn dialled(&self) -> Vec<(IpAddr, Connection)> {
        let both = [&self.far, &self.own];
        let connections = both.iter().flat_map(|l| l.journal.connections());
        connections
            .filter_map(|c| Some((c.dialled?.ip().to_canonical(), c)))
            .collect()
    }
}

fn below_domain(zone: BTreeMap<String, Entry>) -> BTreeMap<String, Entry> {
    let full = |(label, entry)| (format!("{label}.{DOMAIN}"), entry);
    zone.into_iter().map(full).collect()
}

/// Whoever is dialled: says where one is, and sends on whoever asks for it.
#[derive(Debug)]
struct Anybody;

impl Origin for Anybody {
    async fn answer(self: Arc<Self>, mut visit: Visit) -> Answer {
        let path = visit.request.uri().path().to_owned();
        if visit.drain().await.is_err() {
            return answer(400, "broken off\n");
        }
        match path.strip_prefix("/to/") {
            Some(label) => {
                let to = format!("https://{label}.{DOMAIN}/");
                with(answer(302, ""), "location", &to)
            }
            None => answer(200, "reached\n"),
        }
    }
}
