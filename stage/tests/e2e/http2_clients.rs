// SPDX-License-Identifier: Apache-2.0
//! Unmodified clients that speak HTTP/2 inside: curl, Python's httpx, and gRPC against the far end
//! of its own library, which speaks nothing else.

use crate::registries::{PYTHON, pip};
use crate::stage::{Stage, at_each_level, at_each_level_with};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use torno_stage::world::authority::Authority;
use torno_stage::world::random;

const HTTPX: &str = include_str!("http2_clients/httpx.py");
const CLIENT: &str = include_str!("http2_clients/client.py");
const SERVER: &str = include_str!("http2_clients/server.py");

/// What the stories need of Python's registry.
const HTTPX_PACKAGE: &str = "httpx[http2]";
const GRPC_PACKAGE: &str = "grpcio";

/// Packages installed on the host, or why they can't be had here.
fn packages(wanted: &str) -> Result<TempDir, String> {
    pip()?;
    let site = tempfile::tempdir().unwrap();
    let mut install = Command::new(PYTHON);
    install.args(["-m", "pip", "install", "--quiet", "--no-input", "--target"]);
    let installed = install.arg(site.path()).arg(wanted).output().unwrap();
    if installed.status.success() {
        Ok(site)
    } else {
        Err(String::from_utf8_lossy(&installed.stderr).into_owned())
    }
}

/// Lays packages and a script into the workspace.
fn lay_out(stage: &Stage, site: &Path, script: &str) {
    let to = stage.daemon.workspace().join("site");
    if !to.exists() {
        let copied = Command::new("/bin/cp")
            .arg("-r")
            .arg(site)
            .arg(&to)
            .status();
        assert!(copied.unwrap().success());
    }
    stage.daemon.write_workspace("script.py", script).unwrap();
}

#[test]
fn curl_speaks_http2_and_its_echo_is_scrubbed() {
    const SCRIPT: &str = r#"
for way in --http2 --http1.1; do
  curl -sS $way -w ' %{http_version}\n' -H "authorization: Bearer $API_TOKEN" \
    'https://api.torno.test/v1/me' || exit 1
done
curl -sS --http2 -d some=data -H "authorization: Bearer $API_TOKEN" \
  'https://api.torno.test/echo?as=raw' | grep -q "Bearer $API_TOKEN" && echo scrubbed
head -c 3000000 /dev/zero > large
curl -sS --http2 -T large -X POST -H "authorization: Bearer $API_TOKEN" \
  -o /dev/null -w 'upload %{http_code} %{http_version}\n' https://api.torno.test/upload
curl -sS --http2 -w ' %{http_code}\n' https://evil.torno.test/
curl -sS --http2-prior-knowledge http://api.torno.test/public/x && echo unseen
curl -sS --http2 -o /dev/null -w 'cleartext %{http_version}\n' http://api.torno.test/public/x
"#;
    at_each_level("http2 curl", |stage, level| {
        let ran = stage.shell(level, SCRIPT);
        let said = ran.stdout.as_str();
        assert!(
            said.contains("\"agent\",\"plan\":\"demo\"} 2\n"),
            "{ran:#?}"
        );
        assert!(
            said.contains("\"agent\",\"plan\":\"demo\"} 1.1\n"),
            "{ran:#?}"
        );
        assert!(said.contains("scrubbed\n"), "{ran:#?}");
        assert!(said.contains("upload 201 2\n"), "{ran:#?}");
        assert!(
            said.contains("host_not_granted") && said.contains(" 403\n"),
            "{ran:#?}"
        );
        // ATTACK: 059
        assert!(
            !said.contains("unseen") && said.contains("cleartext 1.1\n"),
            "{ran:#?}"
        );
    });
}

#[test]
fn httpx_has_many_streams_on_one_connection_and_one_refusal() {
    let site = match packages(HTTPX_PACKAGE) {
        Ok(site) => site,
        Err(why) => return println!("SKIP: http2 clients: httpx: {why}"),
    };
    at_each_level("http2 httpx", |stage, level| {
        lay_out(stage, site.path(), HTTPX);
        let ran = stage
            .shell(level, "PYTHONPATH=site /usr/bin/python3 script.py")
            .good();
        let lines: Vec<_> = ran.stdout.lines().collect();
        let wanted = [
            "{'HTTP/2'}",
            "20",
            "403 True",
            "True",
            "True",
            "HTTP/2 True",
        ];
        assert_eq!(lines, wanted, "{ran:#?}");
    });
}

/// gRPC's own server.
struct FarEnd {
    directory: TempDir,
    child: Child,
    port: String,
}

impl FarEnd {
    fn start(site: &Path) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::new("Torno stage, authority of gRPC").unwrap();
        let (chain, key) = authority.server_pem(&["rpc.torno.test"]).unwrap();
        let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text);
        write("chain.pem", &chain).unwrap();
        write("key.pem", &key).unwrap();
        write("ca.pem", &authority.pem()).unwrap();
        write("server.py", SERVER).unwrap();
        let mut child = Command::new(PYTHON)
            .arg(directory.path().join("server.py"))
            .arg(directory.path())
            .env("PYTHONPATH", site)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut port).unwrap();
        Self {
            port: port.trim().to_owned(),
            directory,
            child,
        }
    }

    /// The operator's pin.
    fn pin(&self) -> String {
        format!(
            "[[pin]]\nhost = \"rpc.torno.test\"\nport = 443\naddress = \"127.0.0.1:{}\"\nca = \"{}\"\n\n",
            self.port,
            self.directory.path().join("ca.pem").display()
        )
    }

    /// The credentials that it got, one for each call.
    fn seen(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.directory.path().join("seen")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for FarEnd {
    fn drop(&mut self) {
        let _dead = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// The grant: one credential, bound to one service.
const POLICY: &str = r#"[sandbox]
workspace = { path = ".", mode = "copy" }
limits = { wall = "10m", memory = "1GiB", pids = 256 }

[secret.rpc]
env = "RPC_TOKEN"
"#;

#[test]
fn a_grpc_client_calls_and_streams_with_its_credential_put_in() {
    let site = match packages(GRPC_PACKAGE) {
        Ok(site) => site,
        Err(why) => return println!("SKIP: http2 clients: grpc: {why}"),
    };
    let far = FarEnd::start(site.path());
    at_each_level_with("http2 grpc", &far.pin(), |stage, level| {
        stage.is_not_seen_whole("gRPC's library exports no keys");
        let token = format!("rpc-live-{}", random().unwrap());
        stage.daemon.put("rpc", "rpc-live-", &token).unwrap();
        let bind = ["secret", "bind", "rpc", "--host", "rpc.torno.test"];
        let to = ["--method", "POST", "--path", "/torno.Open/**"];
        stage.daemon.must(&[&bind[..], &to].concat()).unwrap();
        lay_out(stage, site.path(), CLIENT);
        stage.daemon.write_workspace("torno.toml", POLICY).unwrap();
        stage.daemon.must(&["trust", "--yes"]).unwrap();
        let before = far.seen().len();
        for proxy in [
            "",
            "env -u https_proxy -u HTTPS_PROXY -u http_proxy -u HTTP_PROXY -u ALL_PROXY ",
        ] {
            let ran = stage.shell(
                level,
                &format!("PYTHONPATH=site {proxy}/usr/bin/python3 script.py"),
            );
            let said = ran.stdout.as_str();
            for wanted in [
                "unary:hello 0 True True\n",
                "unary:hello 2 True True\n",
                "part 0, part 1, part 2, part 3, part 4\n",
                "back:ask 4\nleft [] OK\n",
                "refused PERMISSION_DENIED binding_not_granted: the credential for ",
            ] {
                assert!(said.contains(wanted), "{wanted}: {ran:#?}");
            }
            // In a message nothing can stand in its place: the call ends, and soon.
            let ended = !said.contains("echo b") && !said.contains("DEADLINE_EXCEEDED");
            assert!(ended && !said.contains(&token), "{ran:#?}");
        }
        let seen = &far.seen()[before..];
        assert_eq!(seen.len(), 12, "{seen:?}");
        assert!(
            seen.iter().all(|seen| *seen == format!("Bearer {token}")),
            "{seen:?}"
        );
        let files = stage.files.borrow();
        assert!(memchr::memmem::find(&files, token.as_bytes()).is_none());
    });
}
