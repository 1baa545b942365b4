// SPDX-License-Identifier: Apache-2.0
//! The site that everybody fetches from: nginx on loopback with TLS, which answers only to the real
//! secret, counts its requests, and has two bodies; and the authority that vouches for it.

use anyhow::{Context, Result, bail};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The site's name for Torno and reverse proxies.
pub const NAME: &str = "api.torno.test";
/// The site's name for forward proxies, which resolve it by the system's hosts file.
pub const LOCAL_NAME: &str = "localhost";
/// Where the site listens; squid goes to 443 whatever it is asked for.
pub const PORTS: [u16; 2] = [443, 18443];
/// Where nginx says how much it did.
const STATUS_PORT: u16 = 18444;
/// The real secret: only requests that carry it get a 200.
pub const SECRET: &str = "sk-live-5c0ffee15c0ffee15c0ffee15c0ffee1";
/// The header that peers set.
pub const HEADER: &str = "Bearer sk-live-5c0ffee15c0ffee15c0ffee15c0ffee1";
/// LIMIT: a server opens its port in well under a second; mitmproxy's imports take two.
const START_WAIT: Duration = Duration::from_secs(20);

/// A body: its path and its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Body {
    /// The path.
    pub path: &'static str,
    /// The file with the block that the body repeats, below [`Site::www`].
    pub block: &'static str,
    /// Bytes of the block.
    block_bytes: usize,
    /// Bytes of the body.
    pub bytes: u64,
}

/// 1 KiB: an API's answer.
pub const SMALL: Body = Body {
    path: "/1k",
    block: "1k",
    block_bytes: 1024,
    bytes: 1024,
};
/// 100 MB: a download.
pub const LARGE: Body = Body {
    path: "/100m",
    block: "block",
    block_bytes: 1_000_000,
    bytes: 100_000_000,
};

/// LIMIT: how long a server has to end by itself.
const END_WAIT: Duration = Duration::from_secs(5);

/// The running site.
#[derive(Debug)]
pub struct Site {
    directory: TempDir,
    server: Child,
}

impl Site {
    /// Makes keys and bodies, and starts nginx.
    ///
    /// # Errors
    /// When a part does not start.
    pub fn start(nginx: &Path, environment: &[(String, String)]) -> Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("torno-bench-")
            .tempdir()
            .context("no temporary directory")?;
        let root = directory.path();
        // squid and nginx read their keys as their own users.
        open(root)?;
        for name in ["www", "logs", "sq"] {
            std::fs::create_dir(root.join(name)).context("no directory")?;
        }
        keys(root)?;
        bodies(&root.join("www"))?;
        let text = filled(include_str!("../peers/nginx-upstream.conf"), root);
        let path = root.join("upstream.conf");
        std::fs::write(&path, text).context("no configuration of nginx")?;
        let mut command = Command::new(nginx);
        command.args(["-p"]).arg(root).arg("-c").arg(&path);
        command.args(["-e"]).arg(root.join("logs/upstream.err"));
        let server = spawn(command, environment, root, "upstream")?;
        let mut site = Self { directory, server };
        let log = site.directory.path().join("logs/upstream.log");
        wait_for(PORTS[1], &mut site.server, &log)?;
        Ok(site)
    }

    /// The scratch directory: `ca.crt`, `ca.key`, `s.pem`, `s.key`, `s-all.pem`, `www`, `logs`.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The authority's certificate.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.directory.path().join("ca.crt")
    }

    /// The bodies.
    #[must_use]
    pub fn www(&self) -> PathBuf {
        self.directory.path().join("www")
    }

    /// Requests that nginx answered since it started, this question not counted.
    ///
    /// # Errors
    /// When nginx does not say.
    pub fn requests(&self) -> Result<u64> {
        let text = fetch(STATUS_PORT, "/status")?;
        let numbers = text
            .lines()
            .skip_while(|line| !line.starts_with("server accepts"))
            .nth(1);
        let asked = numbers.and_then(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok());
        let asked = asked.with_context(|| format!("nginx says {text:?}"))?;
        Ok(asked.saturating_sub(1))
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        end(&mut self.server);
    }
}

/// Ends a server in good order, its workers with it.
pub fn end(child: &mut Child) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _gone = kill_process(pid, Signal::TERM);
    }
    let end = Instant::now() + END_WAIT;
    while Instant::now() < end {
        if matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _dead = child.kill();
    let _reaped = child.wait();
}

/// Fills a configuration's holes.
#[must_use]
pub fn filled(text: &str, directory: &Path) -> String {
    text.replace("@DIR@", &directory.display().to_string())
        .replace("@HEADER@", HEADER)
}

/// Starts a server of the bench with its output in `logs/NAME.log`.
///
/// # Errors
/// When it can't be started.
pub fn spawn(
    mut command: Command,
    environment: &[(String, String)],
    directory: &Path,
    name: &str,
) -> Result<Child> {
    let log = directory.join(format!("logs/{name}.log"));
    let log = std::fs::File::create(log).context("no log")?;
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(log.try_clone().context("no log")?)
        .stderr(log)
        .spawn()
        .with_context(|| format!("cannot start {name}"))
}

/// Waits until a loopback port is open.
///
/// # Errors
/// When it stays closed; the program's log is in the message.
pub fn wait_for(port: u16, server: &mut Child, log: &Path) -> Result<()> {
    let end = Instant::now() + START_WAIT;
    loop {
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(());
        }
        let ended = server.try_wait().context("server")?;
        if ended.is_some() || Instant::now() > end {
            let said = std::fs::read_to_string(log).unwrap_or_default();
            bail!("nobody listens at port {port}: {}", said.trim());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A plain-text answer of a loopback server.
fn fetch(port: u16, path: &str) -> Result<String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect(address).context("nginx's status")?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream
        .write_all(request.as_bytes())
        .context("nginx's status")?;
    let mut text = String::new();
    stream.read_to_string(&mut text).context("nginx's status")?;
    Ok(text)
}

/// Lets other users look for names in a directory.
///
/// # Errors
/// When its mode can't be changed.
pub fn open(directory: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755))
        .context("no permissions")
}

/// A throw-away authority, and a P-256 certificate of both names.
fn keys(root: &Path) -> Result<()> {
    let mut parameters = CertificateParams::default();
    let name = "Torno bench, throw-away authority";
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let key = KeyPair::generate().context("no key")?;
    let issuer = CertifiedIssuer::self_signed(parameters, key).context("no authority")?;
    let names = vec![NAME.to_owned(), LOCAL_NAME.to_owned()];
    let mut parameters = CertificateParams::new(names).context("names")?;
    parameters.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().context("no key")?;
    let certificate = parameters
        .signed_by(&key, &issuer)
        .context("no certificate")?;
    let chain = certificate.pem();
    let all = format!("{chain}{}", key.serialize_pem());
    let authority = format!("{}{}", issuer.pem(), issuer.key().serialize_pem());
    let files = [
        ("ca.crt", issuer.pem()),
        ("ca.key", issuer.key().serialize_pem()),
        ("mitmproxy-ca.pem", authority),
        ("s.pem", chain),
        ("s.key", key.serialize_pem()),
        ("s-all.pem", all),
    ];
    for (name, text) in files {
        std::fs::write(root.join(name), text).with_context(|| format!("cannot write {name}"))?;
    }
    Ok(())
}

fn bodies(www: &Path) -> Result<()> {
    let mut random = std::fs::File::open("/dev/urandom").context("no random source")?;
    for body in [SMALL, LARGE] {
        let mut block = vec![0; body.block_bytes];
        random.read_exact(&mut block).context("no random bytes")?;
        std::fs::write(www.join(body.block), &block).context("no body")?;
        let name = body.path.trim_start_matches('/');
        let mut file = std::fs::File::create(www.join(name)).context("no body")?;
        let mut written = 0;
        while written < body.bytes {
            file.write_all(&block).context("no body")?;
            written += block.len() as u64;
        }
    }
    Ok(())
}
