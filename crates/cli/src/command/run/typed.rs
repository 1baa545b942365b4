// SPDX-License-Identifier: Apache-2.0
//! The document of a `torno run` without a torno.toml: the same grammar, written from arguments.

use super::Run;
use crate::values::{self, Level, Variable, Workspace, level_word};
use std::fmt::Write as _;
use torno_policy::grant::WorkspaceMode;
use torno_policy::names::Port;

/// The sandbox as it is typed.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Shape {
    /// The boundary; `container` is used only when it is named
    #[arg(long, value_name = "LEVEL")]
    pub(super) isolation: Option<Level>,
    /// How this directory comes in
    #[arg(long, value_name = "MODE")]
    pub(super) workspace: Option<Workspace>,
    /// Set a variable inside; nothing of your own environment is passed
    #[arg(long, value_name = "NAME=VALUE", value_parser = values::variable)]
    pub(super) env: Vec<Variable>,
    /// Show this host directory inside, read-only (without torno.toml only)
    #[arg(long, value_name = "DIR")]
    pub(super) also: Vec<String>,
    /// End the session after this time, as in 15m
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(super) wall: Option<u64>,
    /// An emulated LEVEL will do, which is no boundary: for development and tests
    #[arg(long, requires = "isolation")]
    pub(super) emulation: bool,
}

impl Shape {
    /// A sandbox with nothing in it, for what Torno itself runs there.
    pub(crate) fn empty((isolation, emulation): (Option<Level>, bool), wall: u64) -> Self {
        Self {
            isolation,
            workspace: Some(Workspace::None),
            env: Vec::new(),
            also: Vec::new(),
            wall: Some(wall),
            emulation,
        }
    }

    /// Its part of a document. The same arguments give the same text, and so the same digest.
    pub(crate) fn text(&self) -> String {
        let mut text = String::from("# Typed on the command line.\n[sandbox]\n");
        write_sandbox(&mut text, self);
        text
    }
}

/// The whole text of a run.
pub(super) fn text(run: &Run) -> String {
    let mut text = run.shape.text();
    // Writing to a String can't fail.

    for secret in &run.secret {
        let (name, variable) = (quoted(secret.name.as_str()), quoted(&secret.variable));
        let _ = writeln!(text, "\n[secret.{name}]\nenv = {variable}");
    }
    for allowed in &run.allow {
        let _ = writeln!(
            text,
            "\n[[allow]]\nhost = {}",
            quoted(&allowed.host.to_string())
        );
        if allowed.port != Port::HTTPS {
            let _ = writeln!(text, "port = {}", allowed.port);
        }
        let _ = writeln!(text, "methods = [\"GET\", \"HEAD\"]");
    }
    text
}

fn write_sandbox(text: &mut String, shape: &Shape) {
    // Writing to a String can't fail.
    if let Some(level) = shape.isolation {
        let _ = writeln!(text, "isolation = {}", quoted(level_word(level.into())));
    }
    if shape.emulation {
        text.push_str("emulation = true\n");
    }
    if let Some(workspace) = shape.workspace {
        let mode = match workspace.into() {
            WorkspaceMode::Copy => "copy",
            WorkspaceMode::Bind => "bind",
            WorkspaceMode::None => "none",
        };
        let _ = writeln!(text, "workspace = {{ mode = {} }}", quoted(mode));
    }
    if !shape.also.is_empty() {
        let also: Vec<_> = shape.also.iter().map(|dir| quoted(dir)).collect();
        let _ = writeln!(text, "also = [{}]", also.join(", "));
    }
    if !shape.env.is_empty() {
        let pair = |v: &Variable| format!("{} = {}", quoted(&v.name), quoted(&v.value));
        let env: Vec<_> = shape.env.iter().map(pair).collect();
        let _ = writeln!(text, "env = {{ {} }}", env.join(", "));
    }
    if let Some(seconds) = shape.wall {
        let _ = writeln!(text, "limits = {{ wall = \"{seconds}s\" }}");
    }
}

/// A TOML basic string.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;
    use torno_policy::grant::{HostPattern, Isolation};

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        run: Run,
    }

    fn typed(arguments: &[&str]) -> String {
        let all = ["torno"].iter().chain(arguments).chain(&["--", "true"]);
        text(&Line::try_parse_from(all).unwrap().run)
    }

    #[test]
    fn the_text_means_what_was_typed() {
        let text = typed(&[
            "--isolation=container",
            "--workspace=none",
            "--allow=docs.example.org:8443",
            "--secret=github=GITHUB_TOKEN",
            "--env=QUOTE=a\"b\\c\nd",
            "--also=~/.cargo/bin",
            "--wall=15m",
        ]);
        let grant = crate::document::parse(&text).unwrap_or_else(|e| panic!("{text}\n{e}"));
        assert_eq!(grant.sandbox.isolation, Isolation::Container);
        assert_eq!(grant.sandbox.workspace, WorkspaceMode::None);
        assert_eq!(grant.sandbox.also, ["~/.cargo/bin"]);
        assert_eq!(grant.sandbox.env[0].1, "a\"b\\c\nd");
        assert_eq!(grant.sandbox.limits.wall_seconds, 900);
        assert_eq!(grant.secrets[0].env.as_deref(), Some("GITHUB_TOKEN"));
        let host = torno_policy::names::Host::parse("docs.example.org").unwrap();
        assert_eq!(grant.allow[0].host, HostPattern::Exact(host));
        assert_eq!(grant.allow[0].port.number(), 8443);
        assert_eq!(grant.allow[0].methods.len(), 2);
    }

    #[test]
    fn nothing_typed_grants_nothing() {
        let grant = crate::document::parse(&typed(&[])).unwrap();
        assert_eq!(grant, crate::document::parse("").unwrap());
    }
}
