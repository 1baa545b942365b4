// SPDX-License-Identifier: Apache-2.0
//! The canary search: is a secret anywhere in these bytes, in any of twelve encodings? In the same
//! run a decoy is planted in each surface in each encoding and must be found, so that "no hit"
//! means "not there" and never "not looked".

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use memchr::memmem;
use std::collections::BTreeSet;
use std::fmt;
use std::io::{Read, Write};
use std::path::Path;

/// LIMIT: what one gzip member may unpack to; a bomb is no place to hide a token in.
const UNPACKED_BYTES_MAX: u64 = 16 << 20;
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b, 8];
/// A run of the raw secret as short as this is a hit too.
const RUN_BYTES: usize = 12;

/// A way to write a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Encoding {
    /// As it is.
    Raw,
    /// Base64, at the beginning of a group.
    Base64At0,
    /// Base64, one byte into a group.
    Base64At1,
    /// Base64, two bytes into a group.
    Base64At2,
    /// The URL alphabet of base64.
    Base64Url,
    /// Hex, lower case.
    HexLower,
    /// Hex, upper case.
    HexUpper,
    /// Every byte `%41`, upper case.
    PercentUpper,
    /// Every byte `%4a`, lower case.
    PercentLower,
    /// Every byte `\u0041`.
    JsonEscape,
    /// Every byte `&#65;`.
    HtmlEntity,
    /// Inside a gzip member.
    Gzip,
}

impl Encoding {
    /// All twelve.
    pub const ALL: [Self; 12] = [
        Self::Raw,
        Self::Base64At0,
        Self::Base64At1,
        Self::Base64At2,
        Self::Base64Url,
        Self::HexLower,
        Self::HexUpper,
        Self::PercentUpper,
        Self::PercentLower,
        Self::JsonEscape,
        Self::HtmlEntity,
        Self::Gzip,
    ];

    /// The secret so written, as it would stand among other bytes.
    #[must_use]
    pub fn write(self, secret: &[u8]) -> Vec<u8> {
        let each = |spelling: fn(u8) -> String| -> Vec<u8> {
            secret
                .iter()
                .flat_map(|byte| spelling(*byte).into_bytes())
                .collect()
        };
        match self {
            Self::Raw => secret.to_vec(),
            Self::Base64At0 => base64(secret, 0),
            Self::Base64At1 => base64(secret, 1),
            Self::Base64At2 => base64(secret, 2),
            Self::Base64Url => URL_SAFE_NO_PAD.encode(secret).into_bytes(),
            Self::HexLower => data_encoding::HEXLOWER.encode(secret).into_bytes(),
            Self::HexUpper => data_encoding::HEXUPPER.encode(secret).into_bytes(),
            Self::PercentUpper => each(|byte| format!("%{byte:02X}")),
            Self::PercentLower => each(|byte| format!("%{byte:02x}")),
            Self::JsonEscape => each(|byte| format!("\\u{byte:04x}")),
            Self::HtmlEntity => each(|byte| format!("&#{byte};")),
            Self::Gzip => {
                let mut zip = GzEncoder::new(Vec::new(), Compression::default());
                zip.write_all(secret)
                    .and_then(|()| zip.finish())
                    .unwrap_or_default()
            }
        }
    }
}

/// The characters of a base64 text that depend on the secret alone, at an alignment.
fn base64(secret: &[u8], before: usize) -> Vec<u8> {
    let mut padded = vec![0; before];
    padded.extend_from_slice(secret);
    let whole = padded.len() * 8 / 6;
    let text = STANDARD_NO_PAD.encode(&padded);
    let start = [0, 2, 3].get(before).copied().unwrap_or(0);
    text.as_bytes()
        .get(start..whole)
        .unwrap_or_default()
        .to_vec()
}

/// A secret that must not be where it is looked for.
#[derive(Clone)]
pub struct Canary {
    name: String,
    secret: Vec<u8>,
    patterns: Vec<(Encoding, Vec<u8>)>,
}

impl fmt::Debug for Canary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canary")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Where a canary was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Which canary.
    pub canary: String,
    /// Which surface.
    pub surface: String,
    /// How it was written.
    pub encoding: Encoding,
}

impl fmt::Display for Hit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} stands in {} as {:?}",
            self.canary, self.surface, self.encoding
        )
    }
}

impl Canary {
    /// A secret under a name.
    #[must_use]
    pub fn new(name: &str, secret: &str) -> Self {
        let secret = secret.as_bytes().to_vec();
        let mut patterns: Vec<(Encoding, Vec<u8>)> = Encoding::ALL
            .into_iter()
            .filter(|encoding| *encoding != Encoding::Gzip)
            .map(|encoding| (encoding, encoding.write(&secret)))
            .collect();
        for run in secret.windows(RUN_BYTES) {
            patterns.push((Encoding::Raw, run.to_vec()));
        }
        Self {
            name: name.to_owned(),
            secret,
            patterns,
        }
    }

    /// How it is written in these bytes, if it is there.
    #[must_use]
    pub fn find(&self, bytes: &[u8]) -> Option<Encoding> {
        self.find_plain(bytes).or_else(|| {
            memmem::find_iter(bytes, GZIP_MAGIC)
                .any(|at| {
                    self.find_plain(&unpack(bytes.get(at..).unwrap_or_default()))
                        .is_some()
                })
                .then_some(Encoding::Gzip)
        })
    }

    /// Every encoding in which the whole of it stands in these bytes.
    #[must_use]
    pub fn writings(&self, bytes: &[u8]) -> BTreeSet<Encoding> {
        let whole = |pattern: &[u8]| pattern.len() >= self.secret.len();
        let mut all: BTreeSet<_> = self
            .patterns
            .iter()
            .filter(|(_, p)| whole(p) && memmem::find(bytes, p).is_some())
            .map(|(encoding, _)| *encoding)
            .collect();
        let packed = memmem::find_iter(bytes, GZIP_MAGIC).any(|at| {
            let plain = unpack(bytes.get(at..).unwrap_or_default());
            memmem::find(&plain, &self.secret).is_some()
        });
        all.extend(packed.then_some(Encoding::Gzip));
        all
    }

    fn find_plain(&self, bytes: &[u8]) -> Option<Encoding> {
        self.patterns
            .iter()
            .find(|(_, pattern)| memmem::find(bytes, pattern).is_some())
            .map(|(encoding, _)| *encoding)
    }
}

/// As much of a gzip member as unpacks.
fn unpack(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    // A member that breaks off still gave what it gave.
    let _broken = GzDecoder::new(bytes)
        .take(UNPACKED_BYTES_MAX)
        .read_to_end(&mut plain);
    plain
}

/// Names and contents of every regular file below a directory. Links are not followed.
///
/// # Errors
/// When a file can't be read.
pub fn tree(directory: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut next = vec![directory.to_path_buf()];
    while let Some(directory) = next.pop() {
        let entries = std::fs::read_dir(&directory)
            .with_context(|| format!("cannot list {}", directory.display()))?;
        for entry in entries {
            let entry = entry.context("cannot list a directory")?;
            let kind = entry.file_type().context("cannot look at an entry")?;
            bytes.extend_from_slice(entry.file_name().as_encoded_bytes());
            bytes.push(b'\n');
            if kind.is_dir() {
                next.push(entry.path());
            } else if kind.is_file() {
                let path = entry.path();
                let content = std::fs::read(&path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                bytes.extend_from_slice(&content);
                bytes.push(b'\n');
            }
        }
    }
    Ok(bytes)
}

/// Surfaces to be searched.
#[derive(Debug, Default)]
pub struct Sweep {
    surfaces: Vec<(String, Vec<u8>)>,
}

/// What a sweep found.
#[derive(Debug)]
pub struct Swept {
    /// Canaries that stand where they must not.
    pub hits: Vec<Hit>,
    /// Surfaces searched.
    pub surfaces: usize,
    /// Bytes searched.
    pub bytes: usize,
    /// Decoys planted; all were found, or the sweep failed.
    pub decoys: usize,
}

impl Sweep {
    /// Adds bytes as a surface.
    pub fn add(&mut self, name: &str, bytes: impl Into<Vec<u8>>) {
        self.surfaces.push((name.to_owned(), bytes.into()));
    }

    /// Adds every regular file below a directory as one surface.
    ///
    /// # Errors
    /// When a file can't be read.
    pub fn add_tree(&mut self, name: &str, directory: &Path) -> Result<()> {
        self.add(name, tree(directory)?);
        Ok(())
    }

    /// Searches every surface for every canary, and plants decoys to prove that it looked.
    ///
    /// # Errors
    /// When a decoy was not found, or a surface is empty: then nothing was proven.
    pub fn run(&self, canaries: &[Canary]) -> Result<Swept> {
        let decoy = Canary::new("decoy", "decoy-7f3a/91c2+5e8d~04b6");
        let mut hits = Vec::new();
        let mut decoys = 0;
        for (surface, bytes) in &self.surfaces {
            ensure!(
                !bytes.is_empty(),
                "surface `{surface}` is empty: nothing was searched"
            );
            for canary in canaries {
                hits.extend(canary.find(bytes).map(|encoding| Hit {
                    canary: canary.name.clone(),
                    surface: surface.clone(),
                    encoding,
                }));
            }
            let (before, after) = bytes.split_at(bytes.len() / 2);
            for encoding in Encoding::ALL {
                let planted = [before, &encoding.write(&decoy.secret), after].concat();
                ensure!(
                    decoy.find(&planted).is_some(),
                    "a decoy written as {encoding:?} was not found in `{surface}`"
                );
                decoys += 1;
            }
            ensure!(
                decoy.find(bytes).is_none(),
                "a decoy stood in `{surface}` before"
            );
        }
        Ok(Swept {
            hits,
            surfaces: self.surfaces.len(),
            bytes: self.surfaces.iter().map(|(_, bytes)| bytes.len()).sum(),
            decoys,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "sk-live-0123456789abcdef?>~";

    #[test]
    fn every_encoding_is_found_at_every_alignment_among_other_bytes() {
        let canary = Canary::new("c", SECRET);
        for encoding in Encoding::ALL {
            for before in 0..4 {
                let text = [
                    &b"xyz!"[..before],
                    &encoding.write(SECRET.as_bytes()),
                    b"tail",
                ]
                .concat();
                assert!(canary.find(&text).is_some(), "{encoding:?} after {before}");
            }
        }
        // As an encoder writes it, with neighbours in the same group.
        for before in 0..3 {
            let text = [&b"aa"[..before.min(2)], SECRET.as_bytes(), b"bb"].concat();
            let text = STANDARD_NO_PAD.encode(text);
            assert!(
                canary.find(text.as_bytes()).is_some(),
                "base64 after {before}"
            );
        }
    }

    #[test]
    fn a_run_of_the_secret_is_enough_and_other_bytes_are_no_hit() {
        let canary = Canary::new("c", SECRET);
        assert_eq!(canary.find(&SECRET.as_bytes()[3..15]), Some(Encoding::Raw));
        assert_eq!(canary.find(&SECRET.as_bytes()[3..14]), None);
        assert_eq!(canary.find(b"sk-live-ffffffffffffffffffff"), None);
    }

    #[test]
    fn a_sweep_reports_hits_and_refuses_an_empty_surface() {
        let mut sweep = Sweep::default();
        sweep.add("log", format!("x {SECRET} y"));
        sweep.add("output", "nothing here");
        let swept = sweep.run(&[Canary::new("c", SECRET)]).unwrap();
        assert_eq!(swept.hits.len(), 1);
        assert_eq!(swept.hits[0].surface, "log");
        assert_eq!(swept.decoys, 24);
        sweep.add("empty", "");
        assert!(sweep.run(&[]).is_err());
    }
}
