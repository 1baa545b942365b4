// SPDX-License-Identifier: Apache-2.0
//! What a session changed, and which of it would run on a host.

use super::tree::{self, Entry};
use crate::orders::{Baseline, BaselineEntry, PorterReply};
use anyhow::Context;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

/// LIMIT: the baseline of a million entries with long names.
const BASELINE_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// One changed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) path: String,
    pub(super) kind: Kind,
}

/// How it changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Added,
    Modified,
    Deleted,
}

/// Reads the baseline that was written at copy-in.
pub(super) fn read_baseline(file: OwnedFd) -> anyhow::Result<Baseline> {
    let reader = std::io::BufReader::new(File::from(file).take(BASELINE_BYTES_MAX));
    serde_json::from_reader(reader).context("the baseline of this session can't be read")
}

/// Compares the session's copy with the baseline, in order of paths.
pub(super) fn of(changed: &OwnedFd, baseline: &Baseline) -> anyhow::Result<Vec<Change>> {
    let now = state(changed)?;
    let mut changes = Vec::new();
    for (path, entry) in &now {
        let kind = match baseline.get(path) {
            None => Kind::Added,
            Some(before) if before != entry => Kind::Modified,
            Some(_) => continue,
        };
        changes.push(Change {
            path: path.clone(),
            kind,
        });
    }
    let gone = baseline.keys().filter(|path| !now.contains_key(*path));
    changes.extend(gone.map(|path| Change {
        path: path.clone(),
        kind: Kind::Deleted,
    }));
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(changes)
}

/// What lies in a directory now.
fn state(directory: &OwnedFd) -> anyhow::Result<Baseline> {
    let mut now = Baseline::new();
    tree::walk(directory, &mut |path, entry| {
        match entry {
            Entry::File { file, mode, .. } => {
                let digest = tree::digest(file).with_context(|| format!("can't read `{path}`"))?;
                let executable = mode & 0o100 != 0;
                now.insert(
                    path.to_owned(),
                    BaselineEntry {
                        digest,
                        executable,
                        link: false,
                    },
                );
            }
            Entry::Link(to) => {
                let digest = tree::text_digest(&to);
                now.insert(
                    path.to_owned(),
                    BaselineEntry {
                        digest,
                        executable: false,
                        link: true,
                    },
                );
            }
            // Directories come and go with their files; special files never come back.
            Entry::Directory | Entry::Special => {}
        }
        Ok(())
    })?;
    Ok(now)
}

/// Writes the baseline of a directory as it is.
pub(super) fn write_baseline(
    directory: &OwnedFd,
    baseline: OwnedFd,
) -> anyhow::Result<PorterReply> {
    let now = state(directory)?;
    serde_json::to_writer(&mut File::from(baseline), &now).context("baseline")?;
    Ok(PorterReply::Done { changed: 0 })
}

/// A path as it may stand in a line of a report: control characters escaped. A path that needs that
/// is shown but never brought back: a person could not confirm it.
pub(super) fn shown(path: &str) -> String {
    let escape = |c: char| {
        if c.is_control() {
            c.escape_default().to_string()
        } else {
            c.into()
        }
    };
    path.chars().map(escape).collect()
}

/// The place of the repository that a path belongs to: the path up to its first `.git`, in any case
/// of letters, as file systems may have it. No file of one ever comes back.
pub(super) fn repository_of(path: &str) -> Option<&str> {
    let mut end = 0;
    for part in path.split('/') {
        end += part.len();
        if part.eq_ignore_ascii_case(".git") {
            return path.get(..end);
        }
        end += 1;
    }
    None
}

/// How many paths of each repository changed, and the line that a person gets for it.
#[derive(Default)]
pub(super) struct Repositories(BTreeMap<String, u32>);

impl Repositories {
    /// Whether the path is one's; then it is counted.
    pub(super) fn count(&mut self, path: &str) -> bool {
        let Some(place) = repository_of(path) else {
            return false;
        };
        let count = self.0.entry(shown(place)).or_default();
        *count = count.saturating_add(1);
        true
    }

    /// `PLACE: what became of it`, in order.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(place, count)| {
            let files = if *count == 1 { "file" } else { "files" };
            let next = if place == ".git" {
                "commits come back with `torno session commits`"
            } else {
                "it stays inside, commits too"
            };
            format!("{place}: {count} {files} of a repository changed; {next}")
        })
    }
}

/// Files and directories that some program on a host runs or obeys without being asked: hooks,
/// shells' and editors' configuration, CI, agents' settings, our own policy. Each is confirmed
/// by a person, one by one.
const RUNS_ON_HOST: &[&str] = &[
    ".git/",
    ".envrc",
    ".github/",
    ".gitlab-ci.yml",
    ".circleci/",
    ".buildkite/",
    "Jenkinsfile",
    "GEMINI.md",
    "opencode.json",
    "lefthook.yml",
    "lefthook.yaml",
    "lefthook.toml",
    "lefthook.json",
    "opencode.jsonc",
    "CLAUDE.local.md",
    "azure-pipelines.yaml",
    "bitbucket-pipelines.yaml",
    "bitbucket-pipelines.yml",
    ".travis.yml",
    "azure-pipelines.yml",
    ".vscode/",
    ".idea/",
    ".zed/",
    ".nvim.lua",
    ".exrc",
    ".vimrc",
    ".claude/",
    "CLAUDE.md",
    "AGENTS.md",
    ".cursor/",
    ".cursorrules",
    ".mcp.json",
    ".codex/",
    ".gemini/",
    ".aider.conf.yml",
    ".gitattributes",
    ".gitmodules",
    ".husky/",
    ".pre-commit-config.yaml",
    ".tool-versions",
    "mise.toml",
    ".mise.toml",
    ".direnv/",
    ".devcontainer/",
    ".cargo/config.toml",
    ".cargo/config",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    "torno.toml",
    "rust-toolchain.toml",
    "rust-toolchain",
];

/// Whether some file system takes a name for another one: it folds the letters of all alphabets
/// (APFS, HFS+, NTFS, ext4 with casefold), leaves out what is not seen, a dot or a space at the
/// end, or gives short names and streams (VFAT, NTFS).
fn may_be_another(name: &str) -> bool {
    let folds = |c: char| {
        let compatible = COMPATIBLE.iter().any(|range| range.contains(&c));
        let is_letter = c.is_alphanumeric() || ('\u{300}'..='\u{36f}').contains(&c);
        !c.is_ascii()
            && (!is_letter
                || compatible
                || c.to_lowercase()
                    .chain(c.to_uppercase())
                    .any(|c| c.is_ascii()))
    };
    let is_odd = name.ends_with(['.', ' ']) || name.contains(['~', ':', '\\']);
    is_odd || name.chars().any(folds)
}

/// Blocks of the Unicode standard whose letters and digits may be folded to ASCII's (UAX #15,
/// NFKC).
const COMPATIBLE: &[std::ops::RangeInclusive<char>] = &[
    '\u{aa}'..='\u{ba}',
    '\u{2b0}'..='\u{2ff}',
    '\u{1d2c}'..='\u{1dbf}',
    '\u{2070}'..='\u{218f}',
    '\u{2460}'..='\u{24ff}',
    '\u{3200}'..='\u{33ff}',
    '\u{fb00}'..='\u{fb4f}',
    '\u{fe00}'..='\u{ffef}',
    '\u{1d400}'..='\u{1d7ff}',
    '\u{1f100}'..='\u{1f1ff}',
];

/// Whether a path is one of those, at any depth and in any case of letters.
pub(super) fn runs_on_host(path: &str) -> bool {
    if path.split('/').any(may_be_another) {
        return true;
    }
    let path = path.to_ascii_lowercase();
    // Hidden files are configuration of some program; the two names make a directory a repository.
    let hidden = path.split('/').any(|part| part.starts_with('.'));
    let repository = matches!(path.rsplit('/').next(), Some("config" | "head"));
    if hidden || repository {
        return true;
    }
    RUNS_ON_HOST.iter().any(|known| {
        let known = known.to_ascii_lowercase();
        match known.strip_suffix('/') {
            Some(directory) => path.split('/').any(|part| part == directory),
            None => path == known || path.ends_with(&format!("/{known}")),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_would_run_is_known_at_any_depth() {
        for path in [
            ".git/hooks/pre-commit",
            "sub/.git/config",
            ".envrc",
            "a/.envrc",
            ".GIT/config",
            ".github/workflows/ci.yml",
            ".vscode/tasks.json",
            "torno.toml",
            "x/.Cargo/config.toml",
            ".hg/hgrc",
            ".dir-locals.el",
            "bare/config",
            "bare/HEAD",
            "\u{200c}.git/hooks/x",
            "AGENT\u{17f}.md",
            "GIT~1/hooks/x",
            "torno.toml.",
            "Jenkinsfile ",
            "\u{ff27}emini.md",
            "CLAUDE.md::$DATA",
            "\u{212a}ube.yml",
            "lefthook.yaml",
        ] {
            assert!(runs_on_host(path), "{path}");
        }
        for path in [
            "src/main.rs",
            "git/config.rs",
            "my.envrc.md",
            "docs/torno.toml.md",
            "docs/Übersicht.md",
            "docs/e\u{301}te.md",
            "資料/読む.txt",
            "лес.txt",
        ] {
            assert!(!runs_on_host(path), "{path}");
        }
    }
}
