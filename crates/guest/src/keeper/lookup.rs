// SPDX-License-Identifier: Apache-2.0
//! Finds the program's file, as execvp(3) would. A program that is given by its file, and that
//! needs no directory of its own, is started without a copy of the keeper's memory: in a user-space
//! kernel such a copy costs more than the start itself.

use std::io;
use std::path::PathBuf;

use rustix::fs::{Access, FileType, access, stat};

/// Where programs are looked for when the plan has no PATH, as in execvp(3).
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The file of `name`: itself when it names a place, else the first of that name on `path` that the
/// calling thread may execute.
pub(super) fn program(name: &str, path: Option<&str>) -> io::Result<PathBuf> {
    if name.contains('/') {
        return Ok(name.into());
    }
    if name.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let mut refused = io::ErrorKind::NotFound;
    for directory in path.unwrap_or(DEFAULT_PATH).split(':') {
        // An empty part is the working directory, where the program starts.
        let directory = if directory.is_empty() { "." } else { directory };
        let file = PathBuf::from(directory).join(name);
        match is_executable(&file) {
            Ok(true) => return Ok(file),
            Ok(false) | Err(rustix::io::Errno::ACCESS) => {
                refused = io::ErrorKind::PermissionDenied;
            }
            Err(_) => {}
        }
    }
    Err(refused.into())
}

fn is_executable(file: &PathBuf) -> rustix::io::Result<bool> {
    let is_file = FileType::from_raw_mode(stat(file)?.st_mode) == FileType::RegularFile;
    match access(file, Access::EXEC_OK) {
        Ok(()) => Ok(is_file),
        Err(rustix::io::Errno::ACCESS) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_first_executable_file_on_the_path_is_it() {
        let directory = tempfile::tempdir().unwrap();
        let at = |place: &str| directory.path().join(place);
        for (place, mode) in [("plain/tool", 0o644), ("good/tool", 0o755)] {
            std::fs::create_dir_all(at(place).parent().unwrap()).unwrap();
            std::fs::write(at(place), "").unwrap();
            std::fs::set_permissions(at(place), PermissionsExt::from_mode(mode)).unwrap();
        }
        std::fs::create_dir_all(at("directory/tool")).unwrap();
        let path = |parts: &[&str]| {
            let parts: Vec<_> = parts.iter().map(|part| at(part)).collect();
            std::env::join_paths(parts).unwrap().into_string().unwrap()
        };
        let all = path(&["none", "directory", "plain", "good"]);
        assert_eq!(program("tool", Some(&all)).unwrap(), at("good/tool"));
        let kind = |name: &str, path: &str| program(name, Some(path)).unwrap_err().kind();
        let refused = path(&["plain", "none"]);
        assert_eq!(kind("tool", &refused), io::ErrorKind::PermissionDenied);
        assert_eq!(kind("tool", &path(&["none"])), io::ErrorKind::NotFound);
        assert_eq!(kind("", &all), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_name_with_a_slash_is_a_place_and_without_a_path_the_usual_ones_count() {
        assert_eq!(
            program("./tool", Some("/bin")).unwrap(),
            PathBuf::from("./tool")
        );
        assert!(program("sh", None).unwrap().ends_with("bin/sh"));
    }
}
