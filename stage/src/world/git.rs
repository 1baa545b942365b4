// SPDX-License-Identifier: Apache-2.0
//! The real `git http-backend` behind TLS and Basic authentication: no fake of git anywhere.

use crate::world::lfs::Objects;
use crate::world::listen::{Answer, Origin, Visit, answer, with};
use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;

/// The system's git: the one that a sandbox has too.
pub const GIT: &str = "/usr/bin/git";

/// Repositories below one directory.
#[derive(Debug)]
pub struct GitOrigin {
    root: PathBuf,
    token: String,
    /// Its large files.
    pub large: Objects,
}

impl GitOrigin {
    /// Serves the repositories below `root` to whoever presents this token as a password.
    #[must_use]
    pub fn new(root: &Path, token: &str) -> Self {
        Self {
            root: root.to_path_buf(),
            token: token.to_owned(),
            large: Objects::default(),
        }
    }

    async fn backend(&self, visit: &mut Visit) -> Result<Answer> {
        let body = visit.body().await?;
        let request = &visit.request;
        let header = |name: &str| visit.header(name).unwrap_or_default();
        let mut command = tokio::process::Command::new(GIT);
        command
            .arg("http-backend")
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("GIT_PROJECT_ROOT", &self.root)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("HOME", &self.root)
            .env("REMOTE_USER", "agent")
            .env("REMOTE_ADDR", "127.0.0.1")
            .env("REQUEST_METHOD", request.method().as_str())
            .env("PATH_INFO", request.uri().path())
            .env("QUERY_STRING", request.uri().query().unwrap_or_default())
            .env("CONTENT_TYPE", header("content-type"))
            .env("CONTENT_LENGTH", body.len().to_string())
            .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
            .env("GIT_PROTOCOL", header("git-protocol"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut child = command.spawn().context("cannot start git http-backend")?;
        let mut input = child.stdin.take().context("no pipe to git http-backend")?;
        let feed = tokio::spawn(async move {
            // The backend may answer before it has read everything.
            let _broken = input.write_all(&body).await;
        });
        let output = child.wait_with_output().await.context("git http-backend")?;
        let _ended = feed.await;
        cgi(&output.stdout)
    }
}

impl Origin for GitOrigin {
    async fn answer(self: Arc<Self>, mut visit: Visit) -> Answer {
        let presented = visit
            .header("authorization")
            .and_then(|value| value.strip_prefix("Basic "))
            .and_then(|value| STANDARD.decode(value).ok())
            .and_then(|pair| String::from_utf8(pair).ok());
        let password = presented.as_deref().and_then(|pair| pair.split_once(':'));
        if password.map(|(_, password)| password) != Some(self.token.as_str()) {
            let _broken = visit.drain().await;
            return with(
                answer(401, "who are you?\n"),
                "www-authenticate",
                "Basic realm=\"git\"",
            );
        }
        if visit.request.uri().path().contains("/info/lfs/") {
            return self.large.answer(&mut visit).await;
        }
        match self.backend(&mut visit).await {
            Ok(answer) => answer,
            Err(error) => answer(500, format!("{error:#}\n")),
        }
    }
}

/// A CGI program's output as an answer.
fn cgi(output: &[u8]) -> Result<Answer> {
    let end = memchr::memmem::find(output, b"\r\n\r\n").context("no CGI head")?;
    let head = std::str::from_utf8(output.get(..end).unwrap_or_default()).context("CGI head")?;
    let body = output.get(end + 4..).unwrap_or_default().to_vec();
    let mut made = answer(200, body);
    for line in head.split("\r\n") {
        let Some((name, value)) = line.split_once(':') else {
            bail!("a CGI head line without a colon");
        };
        let value = value.trim();
        if name.eq_ignore_ascii_case("status") {
            let status = value.split(' ').next().unwrap_or_default();
            *made.status_mut() = status.parse().context("a CGI status")?;
        } else {
            let name: hyper::header::HeaderName = name.parse().context("a CGI field")?;
            made.headers_mut()
                .append(name, value.parse().context("a CGI value")?);
        }
    }
    Ok(made)
}

/// A bare repository with one commit on `main`, pushes over HTTP allowed.
///
/// # Errors
/// When git fails.
pub fn make_repository(root: &Path, name: &str) -> Result<()> {
    let bare = root.join(format!("{name}.git"));
    std::fs::create_dir_all(&bare).context("no directory for a repository")?;
    let work = tempfile::tempdir().context("no temporary directory")?;
    run(
        &bare,
        &["init", "--quiet", "--bare", "--initial-branch=main", "."],
    )?;
    run(&bare, &["config", "http.receivepack", "true"])?;
    run(
        work.path(),
        &["init", "--quiet", "--initial-branch=main", "."],
    )?;
    std::fs::write(work.path().join("README"), format!("{name}\n")).context("no README")?;
    run(work.path(), &["add", "README"])?;
    run(work.path(), &["commit", "--quiet", "-m", "first"])?;
    let to = bare.to_str().context("a path that is not UTF-8")?;
    run(work.path(), &["push", "--quiet", to, "main"])
}

/// What a reference of a repository points to.
#[must_use]
pub fn reference(root: &Path, name: &str, reference: &str) -> Option<String> {
    let output = git(&root.join(format!("{name}.git")))
        .args(["rev-parse", "--verify", "--quiet", reference])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn run(directory: &Path, arguments: &[&str]) -> Result<()> {
    let output = git(directory)
        .args(arguments)
        .output()
        .context("cannot start git")?;
    if !output.status.success() {
        bail!(
            "git {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

fn git(directory: &Path) -> std::process::Command {
    let mut command = std::process::Command::new(GIT);
    command
        .current_dir(directory)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .args(["-c", "user.name=stage", "-c", "user.email=stage@torno.test"]);
    command
}
