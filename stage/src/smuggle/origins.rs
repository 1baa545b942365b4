// SPDX-License-Identifier: Apache-2.0
//! The far ends: real servers, each as its makers ship it. Some run an application of ours that
//! says what it saw; others pass requests on, and hyper stands behind them.

mod version;

use super::book::{self, Book};
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::runtime::Handle;

const SERVERS: &str = include_str!("origins/servers.py");
const NODE: &str = include_str!("origins/node.js");

/// LIMIT: a Python server imports for a second or two; on a busy machine for more than a minute.
const START_WAIT: Duration = Duration::from_secs(180);

const PYTHON: &str = "/usr/bin/python3";
/// Where a server's complaints go, in its directory.
const NOISE: &str = "stderr";

/// How a server is started.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// In this process.
    Hyper,
    /// The application is Node's.
    Node,
    /// The application is Python's, on the server of that name.
    Python,
    /// The same, by ASGI, which has one word for an empty query and for none.
    Asgi,
    /// Passes on to hyper: program, configuration and its file's name.
    Passing(&'static str, &'static str, &'static str),
}

/// Every server that is known here, by name.
const KNOWN: [(&str, Kind); 17] = [
    ("hyper", Kind::Hyper),
    ("node", Kind::Node),
    ("gunicorn", Kind::Python),
    ("uvicorn-h11", Kind::Asgi),
    ("uvicorn-httptools", Kind::Asgi),
    ("hypercorn", Kind::Asgi),
    ("aiohttp", Kind::Python),
    ("waitress", Kind::Python),
    ("tornado", Kind::Python),
    ("twisted", Kind::Python),
    ("cheroot", Kind::Python),
    (
        "nginx",
        Kind::Passing("nginx", include_str!("origins/nginx.conf"), "nginx.conf"),
    ),
    (
        "haproxy",
        Kind::Passing(
            "haproxy",
            include_str!("origins/haproxy.cfg"),
            "haproxy.cfg",
        ),
    ),
    (
        "apache2",
        Kind::Passing(
            "apache2",
            include_str!("origins/apache.conf"),
            "apache.conf",
        ),
    ),
    (
        "lighttpd",
        Kind::Passing(
            "lighttpd",
            include_str!("origins/lighttpd.conf"),
            "lighttpd.conf",
        ),
    ),
    (
        "squid",
        Kind::Passing("squid", include_str!("origins/squid.conf"), "squid.conf"),
    ),
    (
        "varnish",
        Kind::Passing(
            "varnishd",
            include_str!("origins/varnish.vcl"),
            "varnish.vcl",
        ),
    ),
];

/// The names of all.
#[must_use]
pub fn names() -> Vec<&'static str> {
    KNOWN.iter().map(|(name, _)| *name).collect()
}

/// Where servers that this machine has not installed were unpacked: Debian's below `root`, Python's
/// below `python`.
#[derive(Debug, Clone, Default)]
pub struct Tools {
    /// The directory, when there is one.
    pub directory: Option<PathBuf>,
}

impl Tools {
    fn program(&self, name: &str) -> Result<PathBuf> {
        let root = self
            .directory
            .as_ref()
            .map(|directory| directory.join("root"));
        let roots = root.into_iter().chain([PathBuf::from("/")]);
        let mut places =
            roots.flat_map(|root| ["usr/sbin", "usr/bin"].map(|part| root.join(part).join(name)));
        let found = places.find(|place| place.is_file());
        found.with_context(|| format!("{name} is not here"))
    }

    /// The directory in place of `/`, for servers that read files of their own.
    fn root(&self) -> PathBuf {
        self.directory
            .as_ref()
            .map_or_else(PathBuf::new, |directory| directory.join("root"))
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if let Some(directory) = &self.directory {
            let library = directory.join("root/usr/lib/x86_64-linux-gnu");
            let libraries = format!("{}:{}/varnish", library.display(), library.display());
            command.env("LD_LIBRARY_PATH", libraries);
            command.env("PYTHONPATH", directory.join("python"));
        }
        command
    }
}

/// A running far end.
#[derive(Debug)]
pub struct FarEnd {
    /// Its name among the known.
    pub name: &'static str,
    /// Where it listens.
    pub address: SocketAddr,
    /// What its application saw.
    pub book: Book,
    /// Its version, as its makers number it.
    pub version: String,
    /// Its application can be told that a query is there and empty.
    pub tells_empty_queries: bool,
    child: Option<Child>,
    directory: TempDir,
}

impl FarEnd {
    /// Starts one; hyper runs on the given runtime.
    ///
    /// # Errors
    /// When it is not known, not here, or does not come up.
    pub fn start(name: &str, tools: &Tools, runtime: &Handle) -> Result<Self> {
        let known = KNOWN.iter().copied().find(|(known, _)| *known == name);
        let (name, kind) = known.with_context(|| format!("no far end is called `{name}`"))?;
        let directory = tempfile::Builder::new()
            .prefix("torno-origin-")
            .tempdir()
            .context("no temporary directory")?;
        let book = Book::default();
        let serve = || runtime.block_on(book::serve(book.clone()));
        let port = free_port()?;
        let at = directory.path();
        let command = match kind {
            Kind::Hyper => None,
            Kind::Node => {
                let script = laid(at, "node.js", NODE)?;
                let mut command = tools.command(&tools.program("node")?);
                command.arg(script).arg(port.to_string());
                Some(command)
            }
            Kind::Python | Kind::Asgi => {
                let script = laid(at, "servers.py", SERVERS)?;
                let mut command = tools.command(Path::new(PYTHON));
                command.arg(script).arg(name).arg(port.to_string());
                Some(command)
            }
            Kind::Passing(program, text, file) => {
                let filled = text
                    .replace("@PORT@", &port.to_string())
                    .replace("@BACKEND@", &serve()?.port().to_string())
                    .replace("@ROOT@", &tools.root().display().to_string())
                    .replace("@DIR@", &at.display().to_string());
                let file = laid(at, file, &filled)?;
                let mut command = tools.command(&tools.program(program)?);
                passing(&mut command, program, (&file, port), tools);
                Some(command)
            }
        };
        let mut far = Self {
            name,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            book: book.clone(),
            version: version::of(name, kind, tools),
            tells_empty_queries: !matches!(kind, Kind::Asgi),
            child: None,
            directory,
        };
        match command {
            None => far.address = serve()?,
            Some(mut command) => far.run(&mut command)?,
        }
        Ok(far)
    }

    /// Starts its process, reads what it says, and waits until it listens.
    fn run(&mut self, command: &mut Command) -> Result<()> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(self.noise()?)
            .spawn()
            .with_context(|| format!("cannot start {}", self.name))?;
        let said = child.stdout.take().context("no pipe")?;
        self.child = Some(child);
        let book = self.book.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(said).lines().map_while(Result::ok) {
                book.take(&line);
            }
        });
        let end = Instant::now() + START_WAIT;
        while TcpStream::connect(self.address).is_err() {
            let child = self.child.as_mut().context("no child")?;
            if Instant::now() > end || child.try_wait().context("its end")?.is_some() {
                bail!("{} did not come up: {}", self.name, self.last_noise());
            }
            std::thread::sleep(Duration::from_millis(30));
        }
        Ok(())
    }

    /// Takes what it complains of, which says why it does not come up.
    fn noise(&self) -> Result<Stdio> {
        let file = std::fs::File::create(self.directory.path().join(NOISE));
        Ok(file.context("no file for what it complains of")?.into())
    }

    fn last_noise(&self) -> String {
        let text = std::fs::read_to_string(self.directory.path().join(NOISE));
        let text = text.unwrap_or_default();
        text.lines().last().unwrap_or("it said nothing").to_owned()
    }

    /// Whether it still serves.
    #[must_use]
    pub fn is_up(&self) -> bool {
        TcpStream::connect(self.address).is_ok()
    }
}

impl Drop for FarEnd {
    fn drop(&mut self) {
        let Some(child) = &mut self.child else {
            return;
        };
        // Most have workers, which end with their master when that is asked to.
        let pid = i32::try_from(child.id()).ok();
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
            let _gone = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let end = Instant::now() + Duration::from_secs(3);
        while Instant::now() < end && matches!(child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _dead = child.kill();
        let _reaped = child.wait();
    }
}

/// How each server that passes on is told its configuration, in the foreground.
fn passing(command: &mut Command, program: &str, (file, port): (&Path, u16), tools: &Tools) {
    let directory = file.parent().unwrap_or(file);
    match program {
        "nginx" => command.arg("-p").arg(directory).arg("-c").arg(file),
        "haproxy" => command.arg("-db").arg("-f").arg(file),
        "apache2" => command.arg("-DFOREGROUND").arg("-f").arg(file),
        "lighttpd" => {
            let modules = tools.root().join("usr/lib/lighttpd");
            command.arg("-D").arg("-m").arg(modules).arg("-f").arg(file)
        }
        "squid" => command.arg("-N").arg("-f").arg(file),
        _ => {
            let modules = tools.root().join("usr/lib/x86_64-linux-gnu/varnish/vmods");
            command
                .arg("-F")
                .arg("-n")
                .arg(directory.join("work"))
                .arg("-f")
                .arg(file)
                .arg("-a")
                .arg(format!("127.0.0.1:{port}"))
                .args([
                    "-j",
                    "none",
                    "-s",
                    "malloc,32m",
                    "-p",
                    "auto_restart=off",
                    "-p",
                ])
                .arg(format!("vmod_path={}", modules.display()))
        }
    };
}

fn laid(directory: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = directory.join(name);
    std::fs::write(&path, text).context("no file for a far end")?;
    Ok(path)
}

/// A port that is free now; who takes it in between makes the start fail, and is seen.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port")?;
    Ok(listener.local_addr().context("no address")?.port())
}
