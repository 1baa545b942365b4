// SPDX-License-Identifier: Apache-2.0
//! Package sources: those of the machine, read from its own files (sources.list(5), in both forms),
//! or a mirror that was named. Only what apt verifies is taken over: a source that is trusted
//! unseen is none here.

use super::{Mirror, Suite};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A line of sources.list(5), in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    mirror: Mirror,
    suite: Suite,
    /// `main` and others; spelled like suites.
    components: Vec<Suite>,
    keyring: PathBuf,
    /// As the machine's own apt: mirrors of one moment are older than their index says they may be.
    checks_age: bool,
}

/// Why there are no sources.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SourceError {
    /// A file.
    #[error("`{0}` can't be read")]
    Read(PathBuf, #[source] io::Error),
    /// Not Debian.
    #[error("this machine is no Debian, or says no suite of its own: name one with `--suite`")]
    NoSuite,
    /// None that fits.
    #[error("this machine's package sources have no suite `{0}`: name one of theirs, or a mirror")]
    NoSource(Suite),
    /// Nothing to verify by.
    #[error("there is no keyring of Debian: run `apt-get install debian-archive-keyring`")]
    NoKeyring,
}

/// Debian's own keys.
const KEYRINGS: [&str; 2] = [
    "/usr/share/keyrings/debian-archive-keyring.gpg",
    "/usr/share/keyrings/debian-archive-keyring.pgp",
];
/// LIMIT: a file of sources has some lines.
const FILE_BYTES_MAX: u64 = 256 << 10;
/// LIMIT: of one machine.
const SOURCES_MAX: usize = 64;
/// What belongs to a suite besides itself.
const PARTS: [&str; 3] = ["", "-updates", "-security"];

impl Source {
    /// A mirror's suite, with Debian's own keys.
    ///
    /// # Errors
    /// [`SourceError::NoKeyring`].
    pub fn of(mirror: Mirror, suite: Suite) -> Result<Self, SourceError> {
        Ok(Self {
            mirror,
            suite,
            components: vec![Suite("main".to_owned())],
            keyring: keyring().ok_or(SourceError::NoKeyring)?,
            checks_age: true,
        })
    }

    /// The line, in one word for `mmdebstrap`. No part of it has a blank, quote or bracket that
    /// could begin another part.
    #[must_use]
    pub fn line(&self) -> String {
        let age = if self.checks_age {
            ""
        } else {
            " check-valid-until=no"
        };
        let components: Vec<&str> = self.components.iter().map(Suite::as_str).collect();
        format!(
            "deb [signed-by={}{age}] {} {} {}",
            self.keyring.display(),
            self.mirror,
            self.suite,
            components.join(" ")
        )
    }
}

/// The suite of this machine, as os-release(5) says.
///
/// # Errors
/// [`SourceError::NoSuite`].
pub fn own_suite() -> Result<Suite, SourceError> {
    let text = read(Path::new("/etc/os-release")).unwrap_or_default();
    suite_of(&text).ok_or(SourceError::NoSuite)
}

fn suite_of(os_release: &str) -> Option<Suite> {
    let value = |key: &str| {
        let mut lines = os_release.lines();
        let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        value.map(|value| value.trim_matches('"'))
    };
    let suite = value("VERSION_CODENAME").filter(|_| value("ID") == Some("debian"));
    suite?.parse().ok()
}

/// This machine's own sources of a suite, its updates and its security. `checks_age` says whether
/// the machine's apt looks at the age of an index at all.
///
/// # Errors
/// [`SourceError`].
pub fn own_sources(suite: &Suite, checks_age: bool) -> Result<Vec<Source>, SourceError> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    let further = fs::read_dir("/etc/apt/sources.list.d")
        .into_iter()
        .flatten();
    let mut further: Vec<PathBuf> = further.flatten().map(|entry| entry.path()).collect();
    further.sort();
    files.extend(further);
    let keyring = keyring().ok_or(SourceError::NoKeyring)?;
    let mut found = Vec::new();
    for file in files {
        let is_of = |end: &str| file.extension().is_some_and(|found| found == end);
        let text = match read(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            text => text.map_err(|error| SourceError::Read(file.clone(), error))?,
        };
        if is_of("list") {
            found.extend(text.lines().filter_map(one_line));
        } else if is_of("sources") {
            found.extend(stanzas(&text));
        }
    }
    let mut sources = Vec::new();
    for entry in found {
        sources.extend(entry.sources(suite, &keyring, checks_age));
    }
    sources.dedup();
    sources.truncate(SOURCES_MAX);
    if sources.iter().any(|source| source.suite == *suite) {
        Ok(sources)
    } else {
        Err(SourceError::NoSource(suite.clone()))
    }
}

/// An entry as it stands in a file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Entry {
    mirrors: Vec<String>,
    suites: Vec<String>,
    components: Vec<String>,
    signed_by: Option<String>,
    checks_age: bool,
}

impl Entry {
    /// What of it is good here.
    fn sources(&self, suite: &Suite, keyring: &Path, checks_age: bool) -> Vec<Source> {
        let named = self.signed_by.as_ref().map(PathBuf::from);
        let keyring = match named {
            None => keyring.to_owned(),
            Some(path) if is_keyring(&path) => path,
            // Keys that stand in the file itself, or fingerprints: apt inside finds none of them.
            Some(_) => return Vec::new(),
        };
        let components = self.components.iter().map(|name| name.parse());
        let Ok(components) = components.collect::<Result<Vec<Suite>, _>>() else {
            return Vec::new();
        };
        let mut sources = Vec::new();
        for mirror in self.mirrors.iter().filter_map(|text| text.parse().ok()) {
            let mirror: Mirror = mirror;
            for found in self.suites.iter().filter_map(|text| text.parse().ok()) {
                let found: Suite = found;
                let rest = found.as_str().strip_prefix(suite.as_str());
                if rest.is_some_and(|rest| PARTS.contains(&rest)) && !components.is_empty() {
                    sources.push(Source {
                        mirror: mirror.clone(),
                        suite: found,
                        components: components.clone(),
                        keyring: keyring.clone(),
                        checks_age: checks_age && self.checks_age,
                    });
                }
            }
        }
        sources
    }
}

/// `deb [option=value …] URI SUITE COMPONENT…`.
fn one_line(line: &str) -> Option<Entry> {
    let line = line.split('#').next()?.trim();
    let rest = line.strip_prefix("deb")?;
    let rest = rest.strip_prefix([' ', '\t'])?.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        None => ("", rest),
        Some(rest) => rest.split_once(']')?,
    };
    let mut entry = Entry {
        checks_age: true,
        ..Entry::default()
    };
    for option in options.split_whitespace() {
        let (name, value) = option.split_once('=')?;
        entry.option(name, value)?;
    }
    let mut words = rest.split_whitespace().map(str::to_owned);
    entry.mirrors = vec![words.next()?];
    entry.suites = vec![words.next()?];
    entry.components = words.collect();
    Some(entry)
}

impl Entry {
    /// None for an option with which it is no source here.
    fn option(&mut self, name: &str, value: &str) -> Option<()> {
        match name.to_ascii_lowercase().as_str() {
            "signed-by" => self.signed_by = Some(value.to_owned()),
            "check-valid-until" => self.checks_age = !is_no(value),
            "trusted" | "allow-insecure" | "allow-weak" if !is_no(value) => return None,
            _ => {}
        }
        Some(())
    }
}

fn is_no(value: &str) -> bool {
    matches!(value, "no" | "false" | "without" | "off" | "disable" | "0")
}

/// Paragraphs of `Field: value`; a value goes on in lines that begin with a blank.
fn stanzas(text: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in text.lines().chain([""]) {
        if line.starts_with('#') {
            continue;
        }
        if line.trim().is_empty() {
            entries.extend(stanza(&std::mem::take(&mut fields)));
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = fields.last_mut() {
                value.push('\n');
                value.push_str(line.trim());
            }
        } else if let Some((name, value)) = line.split_once(':') {
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    entries
}

fn stanza(fields: &[(String, String)]) -> Option<Entry> {
    let mut entry = Entry {
        checks_age: true,
        ..Entry::default()
    };
    let words = |value: &str| value.split_whitespace().map(str::to_owned).collect();
    let mut is_binary = false;
    for (name, value) in fields {
        match name.as_str() {
            "types" => is_binary = value.split_whitespace().any(|kind| kind == "deb"),
            "uris" => entry.mirrors = words(value),
            "suites" => entry.suites = words(value),
            "components" => entry.components = words(value),
            "enabled" if is_no(value) => return None,
            _ => entry.option(name, value)?,
        }
    }
    is_binary.then_some(entry)
}

fn keyring() -> Option<PathBuf> {
    let mut found = KEYRINGS.iter().map(PathBuf::from);
    found.find(|path| path.is_file())
}

/// A file by a plain absolute path, which ends no option of a line.
fn is_keyring(path: &Path) -> bool {
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'-' | b'_');
    let text = path.to_str().unwrap_or_default();
    text.starts_with('/') && text.bytes().all(plain) && path.is_file()
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?
        .take(FILE_BYTES_MAX)
        .read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(entries: &[Entry], checks_age: bool) -> Vec<String> {
        let suite: Suite = "bookworm".parse().unwrap();
        let keyring = Path::new("/keys.gpg");
        let sources = entries
            .iter()
            .flat_map(|entry| entry.sources(&suite, keyring, checks_age));
        sources.map(|source| source.line()).collect()
    }

    #[test]
    fn the_sources_of_a_suite_are_taken_from_lines_and_stanzas_alike() {
        let list = "# deb http://no.test/ bookworm main\n\
            deb http://one.test/debian bookworm main contrib # ours\n\
            deb-src http://one.test/debian bookworm main\n\
            deb [arch=amd64 check-valid-until=no] https://one.test/security bookworm-security main\n\
            deb http://one.test/debian trixie main\n\
            deb http://one.test/flat ./\n";
        let entries: Vec<Entry> = list.lines().filter_map(one_line).collect();
        let expected = [
            "deb [signed-by=/keys.gpg] http://one.test/debian bookworm main contrib",
            "deb [signed-by=/keys.gpg check-valid-until=no] https://one.test/security \
             bookworm-security main",
        ];
        assert_eq!(lines(&entries, true), expected);
        let stanza = "Types: deb deb-src\nURIs: http://one.test/debian\n# a word\n\
            Suites: bookworm\n bookworm-updates\nComponents: main\n\n\
            Types: deb\nEnabled: no\nURIs: http://off.test/\nSuites: bookworm\nComponents: main\n\n\
            Types: deb-src\nURIs: http://src.test/\nSuites: bookworm\nComponents: main\n";
        let expected = [
            "deb [signed-by=/keys.gpg check-valid-until=no] http://one.test/debian bookworm main",
            "deb [signed-by=/keys.gpg check-valid-until=no] http://one.test/debian \
             bookworm-updates main",
        ];
        assert_eq!(lines(&stanzas(stanza), false), expected);
    }

    #[test]
    fn a_source_that_nobody_verifies_or_that_is_two_is_none() {
        for line in [
            "deb [trusted=yes] http://one.test/ bookworm main",
            "deb [allow-insecure=yes] http://one.test/ bookworm main",
            "deb [signed-by=0123456789ABCDEF] http://one.test/ bookworm main",
            "deb [signed-by=/no/such.gpg] http://one.test/ bookworm main",
            "deb http://one.test/ bookworm ma[in",
            "deb http://u:p@one.test/ bookworm main",
            "deb file:///srv/debian bookworm main",
            "deb http://one.test/ bookwormish main",
            "deb http://one.test/ bookworm",
            "deb",
        ] {
            let entries: Vec<Entry> = one_line(line).into_iter().collect();
            assert_eq!(lines(&entries, true), Vec::<String>::new(), "{line}");
        }
        let inline = "Types: deb\nURIs: http://one.test/\nSuites: bookworm\nComponents: main\n\
            Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n x\n";
        assert!(lines(&stanzas(inline), true).is_empty());
        let trusted = "Types: deb\nURIs: http://one.test/\nSuites: bookworm\nComponents: main\n\
            Trusted: yes\n";
        assert!(lines(&stanzas(trusted), true).is_empty());
    }

    #[test]
    fn the_suite_is_that_of_a_debian_and_of_nobody_else() {
        let debian = "PRETTY_NAME=\"Debian\"\nVERSION_CODENAME=bookworm\nID=debian\n";
        assert_eq!(suite_of(debian).unwrap().as_str(), "bookworm");
        assert_eq!(suite_of(&debian.replace("ID=debian", "ID=ubuntu")), None);
        assert_eq!(suite_of("ID=debian\n"), None);
    }
}
