// SPDX-License-Identifier: Apache-2.0
//! nft of the host, as a machine carries it in its memory: the program, the loader that it names
//! and the libraries that this finds. Read once, when the parts are found; an image has to have
//! none of it.

use super::archive::Archive;
use super::monitor::has_interpreter;
use crate::facts::read_bounded;
use crate::plan::relative;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use torno_guest_protocol::MACHINE_TOOLS;

/// A program with all that it takes to run.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Tool {
    program: Arc<[u8]>,
    /// Nothing for a program that is linked whole.
    loader: Option<Arc<[u8]>>,
    libraries: Vec<(String, Arc<[u8]>)>,
}

/// LIMIT: Debian's nft takes eleven.
const LIBRARIES_MAX: usize = 64;
/// LIMIT: the largest is libc with 2 MB. What is carried lies in each machine's memory once.
const FILE_BYTES_MAX: u64 = 8 << 20;

const PROGRAM: &str = "nft";
const LOADER: &str = "loader";
const LIBRARIES: &str = "lib";

impl Tool {
    /// Reads it. None where one of its parts can't be had.
    pub(super) fn find(program: &Path) -> Option<Self> {
        let read = |path: &Path| read_bounded(path, FILE_BYTES_MAX);
        let mut tool = Self {
            program: read(program)?,
            loader: None,
            libraries: Vec::new(),
        };
        if !has_interpreter(program) {
            return Some(tool);
        }
        let (loader, libraries) = parse(&needs(program)?)?;
        tool.loader = Some(read(&loader)?);
        for (name, path) in libraries {
            tool.libraries.push((name, read(&path)?));
        }
        Some(tool)
    }

    /// Puts it into the archive that a machine boots.
    pub(super) fn pack(&self, archive: &mut Archive) {
        let tools = relative(Path::new(MACHINE_TOOLS));
        archive.directory(&tools);
        archive.file(&tools.join(PROGRAM), 0o755, &self.program);
        if let Some(loader) = &self.loader {
            archive.file(&tools.join(LOADER), 0o755, loader);
            archive.directory(&tools.join(LIBRARIES));
        }
        for (name, bytes) in &self.libraries {
            archive.file(&tools.join(LIBRARIES).join(name), 0o644, bytes);
        }
    }

    /// The words that start it there.
    pub(super) fn words(&self) -> Vec<String> {
        let at = |name: &str| format!("{MACHINE_TOOLS}/{name}");
        match self.loader {
            None => vec![at(PROGRAM)],
            Some(_) => vec![
                at(LOADER),
                "--library-path".to_owned(),
                at(LIBRARIES),
                at(PROGRAM),
            ],
        }
    }
}

impl std::fmt::Debug for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.libraries.iter().map(|(name, _)| name);
        f.debug_list().entries(names).finish()
    }
}

/// What the program's own loader says that it would load (ld.so(8), `LD_TRACE_LOADED_OBJECTS`); the
/// program itself does not run.
fn needs(program: &Path) -> Option<String> {
    let output = Command::new(program)
        .env_clear()
        .env("LD_TRACE_LOADED_OBJECTS", "1")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    String::from_utf8(output.stdout).ok()
}

/// Loader and libraries, each by the name that is asked for.
type Needs = (PathBuf, Vec<(String, PathBuf)>);

/// Lines like `libc.so.6 => /lib/x/libc.so.6 (0x…)` and, for the loader, `/lib64/ld.so (0x…)`. What
/// the kernel brings has no path.
fn parse(said: &str) -> Option<Needs> {
    let (mut loader, mut libraries) = (None, Vec::new());
    for line in said.lines() {
        let mut words = line.split_whitespace();
        let (name, next) = (words.next()?, words.next()?);
        if next == "=>" {
            let path = Path::new(words.next()?);
            if !path.is_absolute() || name.contains('/') || libraries.len() == LIBRARIES_MAX {
                return None;
            }
            libraries.push((name.to_owned(), path.to_owned()));
        } else if name.starts_with('/') && loader.replace(PathBuf::from(name)).is_some() {
            return None;
        }
    }
    libraries.sort();
    Some((loader?, libraries))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::vm::archive::tests::listed;

    /// One with a library.
    pub(in crate::vm) fn tool() -> Tool {
        Tool {
            program: b"NFT".as_slice().into(),
            loader: Some(b"LOADER".as_slice().into()),
            libraries: vec![("libc.so.6".to_owned(), b"LIBC".as_slice().into())],
        }
    }

    #[test]
    fn what_a_loader_says_is_taken_whole_or_not_at_all() {
        let said = "\tlinux-vdso.so.1 (0x7f)\n\tlibm.so.6 => /lib/libm.so.6 (0x7e)\n\
                    \tlibc.so.6 => /lib/libc.so.6 (0x7d)\n\t/lib64/ld.so (0x7c)\n";
        let (loader, libraries) = parse(said).unwrap();
        assert_eq!(loader, Path::new("/lib64/ld.so"));
        let names: Vec<&str> = libraries.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["libc.so.6", "libm.so.6"]);
        for bad in [
            "",
            "libc.so.6 => /lib/libc.so.6 (0x7d)\n",
            "libc.so.6 => not found\n/lib64/ld.so (0x7c)\n",
            "/lib64/ld.so (0x7c)\n/lib64/ld2.so (0x7c)\n",
            "../libc.so => /lib/libc.so.6 (0x7d)\n/lib64/ld.so (0x7c)\n",
            "usage\n",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_program_is_carried_with_its_loader_and_started_by_it() {
        let mut archive = Archive::default();
        tool().pack(&mut archive);
        let listed = listed(&archive.finish()).join("\n");
        for expected in [
            "100755 3 tools/nft",
            "100755 6 tools/loader",
            "100644 4 tools/lib/libc.so.6",
        ] {
            assert!(listed.contains(expected), "{listed}");
        }
        let words = tool().words();
        assert_eq!(
            words,
            [
                "/tools/loader",
                "--library-path",
                "/tools/lib",
                "/tools/nft"
            ]
        );
    }

    #[test]
    fn nft_of_this_host_is_carried_with_libc() {
        let Some(nft) = crate::facts::Paths::default().find("nft") else {
            println!("SKIP: nft as a machine carries it: it is not installed");
            return;
        };
        let tool = Tool::find(&nft).unwrap();
        let has_libc = tool.libraries.iter().any(|(name, _)| name == "libc.so.6");
        assert!(has_libc || tool.loader.is_none(), "{tool:?}");
    }
}
