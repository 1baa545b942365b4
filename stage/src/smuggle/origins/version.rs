// SPDX-License-Identifier: Apache-2.0
//! Which version of a far end was tried: a row of the matrix counts for that one alone.

use super::{Kind, Tools};
use std::path::Path;
use std::process::Command;

/// Prints the version of a package of Python.
const PYTHON: &str =
    "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))";

/// The version, as its makers number it; a question mark where it does not say.
pub(super) fn of(name: &str, kind: Kind, tools: &Tools) -> String {
    let asked = |program: &Path, words: &[&str]| {
        let mut command = tools.command(program);
        said(command.args(words))
    };
    let version = match kind {
        // What this repository is built with, which its lock file says.
        Kind::Hyper => return "of Cargo.lock".to_owned(),
        Kind::Node => tools
            .program("node")
            .ok()
            .map(|node| asked(&node, &["--version"])),
        Kind::Python | Kind::Asgi => {
            let package = name.split('-').next().unwrap_or(name);
            Some(asked(Path::new(super::PYTHON), &["-c", PYTHON, package]))
        }
        Kind::Passing(program, ..) => {
            let flag = if matches!(program, "varnishd") {
                "-V"
            } else {
                "-v"
            };
            tools
                .program(program)
                .ok()
                .map(|path| asked(&path, &[flag]))
        }
    };
    version
        .as_deref()
        .and_then(number)
        .unwrap_or("?")
        .to_owned()
}

/// Some say it on standard error.
fn said(command: &mut Command) -> String {
    let Ok(output) = command.output() else {
        return String::new();
    };
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// The first word that is a number with dots, without what stands before or behind it.
fn number(text: &str) -> Option<&str> {
    let words = text.split(|c: char| !(c.is_ascii_digit() || c == '.'));
    let mut numbers = words.map(|word| word.trim_matches('.'));
    numbers.find(|word| word.contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_in_what_each_says() {
        for (text, version) in [
            ("v20.19.5\n", "20.19.5"),
            ("nginx version: nginx/1.22.1", "1.22.1"),
            ("HAProxy version 2.6.12-1+deb12u3 2025/10/03", "2.6.12"),
            ("Server version: Apache/2.4.65 (Debian)", "2.4.65"),
            ("lighttpd/1.4.69 (ssl) - a light server", "1.4.69"),
            ("Squid Cache: Version 5.7\nService Name: squid", "5.7"),
            ("varnishd (varnish-7.1.1 revision 7cee1c5)", "7.1.1"),
            ("25.9.0\n", "25.9.0"),
        ] {
            assert_eq!(number(text), Some(version), "{text}");
        }
        assert_eq!(number("command not found"), None);
    }
}
