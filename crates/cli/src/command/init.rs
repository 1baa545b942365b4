// SPDX-License-Identifier: Apache-2.0
//! `torno init`: a first, narrow torno.toml from what lies in the directory. It never overwrites,
//! and what it can't know it writes as a comment.

use crate::context::Context;
use crate::document::{self, NAME};
use crate::printable;
use crate::stop::{Outcome, Stop};
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::path::Path;

/// LIMIT: a git configuration is a page of text.
const GIT_CONFIG_BYTES_MAX: u64 = 256 * 1024;

/// Write a first, narrow torno.toml for this directory
///
/// Looks at the git remote and at package manifests. Nothing counts before `torno trust`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: torno init && $EDITOR torno.toml && torno trust")]
pub(crate) struct Init {}

/// A package client and the file that shows its use.
struct Client {
    /// The manifest.
    file: &'static str,
    /// What the install phase sees.
    see: &'static str,
    /// What it runs.
    run: &'static str,
    /// The preset of its hosts.
    preset: &'static str,
    /// What goes into `[sandbox]`, so that what it keeps in home crosses.
    env: Option<&'static str>,
}

/// Of two with one preset the first that is found is meant.
const CLIENTS: [Client; 5] = [
    Client {
        file: "requirements.txt",
        see: r#""requirements.txt""#,
        run: r#"["pip", "install", "--target", ".deps", "-r", "requirements.txt"]"#,
        preset: "pip",
        env: None,
    },
    Client {
        file: "package-lock.json",
        see: r#""package.json", "package-lock.json""#,
        run: r#"["npm", "ci"]"#,
        preset: "npm",
        env: None,
    },
    Client {
        file: "package.json",
        see: r#""package.json""#,
        run: r#"["npm", "install"]"#,
        preset: "npm",
        env: None,
    },
    Client {
        file: "Cargo.toml",
        see: r#""Cargo.toml", "Cargo.lock", "src/**""#,
        run: r#"["cargo", "fetch"]"#,
        preset: "cargo",
        env: Some(r#"CARGO_HOME = "/workspace/.cargo-home""#),
    },
    Client {
        file: "go.mod",
        see: r#""go.mod", "go.sum""#,
        run: r#"["go", "mod", "download"]"#,
        preset: "go",
        env: Some(r#"GOMODCACHE = "/workspace/.go-mod""#),
    },
];

/// The clients whose manifests lie in the directory, one for each preset.
fn clients(directory: &Path) -> Vec<&'static Client> {
    let mut found: Vec<&Client> = Vec::new();
    for client in &CLIENTS {
        let known = found.iter().any(|other| other.preset == client.preset);
        if !known && directory.join(client.file).is_file() {
            found.push(client);
        }
    }
    found
}

/// An install phase for these clients, as a suggestion: nothing of it counts as it stands.
fn install(clients: &[&Client]) -> String {
    let list = |of: fn(&Client) -> &'static str| {
        let all: Vec<_> = clients.iter().map(|client| of(client)).collect();
        all.join(", ")
    };
    let presets: Vec<_> = clients
        .iter()
        .map(|client| format!("{{ preset = \"{}\" }}", client.preset))
        .collect();
    let mut text = format!(
        "\n# Before the first step: sees these files only, may reach these hosts, holds no \
         credential.\n\
         # Learn each preset once: `torno preset learn NAME --whole-hosts -- CLIENT …`.\n\
         # [install]\n\
         # see = [{}]\n\
         # run = [{}]\n\
         # allow = [{}]\n",
        list(|client| client.see),
        list(|client| client.run),
        presets.join(", ")
    );
    let kept: Vec<_> = clients.iter().filter_map(|client| client.env).collect();
    if !kept.is_empty() {
        text.push_str(
            "# Home does not cross from there; under [sandbox] this keeps packages in the \
             workspace:\n",
        );
        text.push_str(&format!("# env = {{ {} }}\n", kept.join(", ")));
    }
    text
}

/// Runs it.
pub(crate) fn run(_: &Init, context: &Context) -> Outcome<u8> {
    let text = first(&context.directory);
    // What is written here is parsed here: a surprise in the directory is ours to notice.
    if let Err(error) = document::parse(&text) {
        return Err(document::invalid(Path::new(NAME), &text, &error));
    }
    let file = context.directory.join(NAME);
    let mut new = std::fs::File::create_new(&file).map_err(|error| {
        let stop = Stop::new(format!("`{NAME}` can't be written")).because(&error);
        match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                stop.next("it exists already and is never overwritten; edit it, then `torno trust`")
            }
            _ => stop,
        }
    })?;
    new.write_all(text.as_bytes())
        .map_err(|error| Stop::new(format!("`{NAME}` can't be written")).because(&error))?;
    context.show(
        &serde_json::json!({ "file": file, "text": text }),
        &format!("wrote {NAME}\nnext: read it, then `torno trust`, then `torno run -- CMD`\n"),
    )?;
    Ok(0)
}

fn first(directory: &Path) -> String {
    let mut text = String::from(
        "# What one session may do. Counts only after `torno trust`; any change asks again.\n\
         # `torno policy check` points at mistakes, `torno policy simulate METHOD URL` tries it out.\n\
         \n\
         [sandbox]\n\
         isolation = \"strongest\"          # the strongest that works here; `container` must be named\n\
         workspace = { path = \".\", mode = \"copy\" }\n",
    );
    // Writing to a String can't fail.
    let clients = clients(directory);
    if !clients.is_empty() {
        text.push_str(&install(&clients));
    }
    match remote(directory) {
        Some(url) => {
            let _ = write!(
                text,
                "\n[git.\"{url}\"]\n\
                 fetch = \"allow\"\n\
                 # secret = \"git\"                # a name in the vault: `torno secret put git`\n\
                 # push = {{ refs = [\"refs/heads/agent/*\"] }}\n"
            );
        }
        None => {
            text.push_str("\n# [git.\"https://git.example.org/acme/app\"]\n# fetch = \"allow\"\n")
        }
    }
    text.push_str(
        "\n# [secret.api]                     # where it may go: `torno secret bind api --host …`\n\
         # env = \"API_TOKEN\"               # holds the placeholder\n\
         \n\
         # [[allow]]\n\
         # host = \"docs.example.org\"       # GET and HEAD over https\n",
    );
    text
}

/// The https form of the remote `origin`, without credentials, when the grammar takes it.
fn remote(directory: &Path) -> Option<String> {
    let file = document::open_regular(&directory.join(".git/config")).ok()?;
    let mut config = String::new();
    file.take(GIT_CONFIG_BYTES_MAX)
        .read_to_string(&mut config)
        .ok()?;
    let url = https_form(&origin(&config)?)?;
    let document = format!("[git.\"{url}\"]\nfetch = \"allow\"\n");
    let plain = !url.contains(['"', '\\']) && printable::line(&url) == url;
    (plain && document::parse(&document).is_ok()).then_some(url)
}

/// `url` of `[remote "origin"]` (git-config, as git itself writes it).
fn origin(config: &str) -> Option<String> {
    let mut inside = false;
    for line in config.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line == "[remote \"origin\"]";
        } else if inside
            && let Some((key, value)) = line.split_once('=')
            && key.trim() == "url"
        {
            return Some(value.trim().to_owned());
        }
    }
    None
}

/// `git@host:owner/name.git`, `ssh://git@host/…`, `https://user:password@host/…` →
/// `https://host/owner/name`.
fn https_form(url: &str) -> Option<String> {
    let (authority, path) = match url.split_once("://") {
        Some(("https", rest)) => rest.split_once('/')?,
        Some(("ssh", rest)) => {
            let (authority, path) = rest.split_once('/')?;
            // A port of SSH says nothing about https.
            (
                authority
                    .rsplit_once(':')
                    .map_or(authority, |(host, _)| host),
                path,
            )
        }
        Some(_) => return None,
        None => url.split_once(':')?,
    };
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    let path = path.trim_end_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    (!host.is_empty() && !path.is_empty()).then(|| format!("https://{host}/{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = directory.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        directory
    }

    #[test]
    fn remotes_become_https_without_credentials() {
        for url in [
            "git@git.example.org:acme/app.git",
            "ssh://git@git.example.org:2222/acme/app.git",
            "https://user:ghp_canary@git.example.org/acme/app.git",
            "https://git.example.org/acme/app/",
        ] {
            assert_eq!(
                https_form(url).as_deref(),
                Some("https://git.example.org/acme/app")
            );
        }
        for url in [
            "file:///srv/app.git",
            "/srv/app.git",
            "git.example.org",
            "https://a.example",
        ] {
            assert_eq!(https_form(url), None, "{url}");
        }
    }

    #[test]
    fn the_first_document_parses_and_grants_fetch_alone() {
        let config = "[core]\n\tbare = false\n[remote \"up\"]\n\turl = git@x.example:a/b\n\
                      [remote \"origin\"]\n\turl = git@git.example.org:acme/app.git\n";
        let with = directory(&[(".git/config", config), ("Cargo.toml", "")]);
        let text = first(with.path());
        let grant = document::parse(&text).unwrap();
        assert_eq!(grant.git[0].repository, "/acme/app");
        assert!(grant.git[0].fetch && grant.git[0].push_refs.is_empty());
        assert!(grant.allow.is_empty() && grant.secrets.is_empty() && grant.install.is_none());
        assert!(text.contains("# run = [[\"cargo\", \"fetch\"]]"), "{text}");
        assert!(text.contains("# env = { CARGO_HOME = "), "{text}");
    }

    #[test]
    fn every_client_is_suggested_once_and_the_suggestion_is_valid() {
        let found = directory(&[
            ("requirements.txt", ""),
            ("package.json", "{}"),
            ("package-lock.json", "{}"),
            ("go.mod", ""),
        ]);
        let text = first(found.path());
        let suggested =
            "# allow = [{ preset = \"pip\" }, { preset = \"npm\" }, { preset = \"go\" }]";
        assert!(text.contains(suggested), "{text}");
        // With its comments taken off it is a document that names these presets.
        let mut bold = text.replace("# [install]", "[install]");
        for key in ["see", "run", "allow"] {
            bold = bold.replace(&format!("# {key} ="), &format!("{key} ="));
        }
        let grant = document::parse(&bold).unwrap_or_else(|e| panic!("{bold}\n{e}"));
        let install = grant.install.unwrap();
        assert_eq!(install.run.len(), 3);
        assert_eq!(install.run[1], ["npm", "ci"]);
        assert_eq!(torno_policy::document::presets_named(&bold).len(), 3);
    }

    #[test]
    fn a_hostile_remote_writes_nothing_into_the_document() {
        for url in [
            "https://a.example/x\"]\nisolation = \"container\"",
            "https://a.example/\u{202e}x",
        ] {
            let config = format!("[remote \"origin\"]\nurl = {url}\n");
            let text = first(directory(&[(".git/config", &config)]).path());
            let grant = document::parse(&text).unwrap();
            assert!(grant.git.is_empty(), "{text}");
        }
    }
}
