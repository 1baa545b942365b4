// SPDX-License-Identifier: Apache-2.0
//! Places that nobody but their owner and root prepares: directories and files that count because
//! of where they lie. What lies in a place of somebody else's is that one's word, not the
//! operator's. ATTACK: 149

use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// In such a directory everybody removes and renames only what is their own (inode(7)).
const STICKY: u32 = 0o1000;
/// LIMIT: links that lead to one file; distributions chain two or three.
const LINKS_MAX: usize = 8;

/// Why a place can't be relied on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// Somebody owns a directory above it.
    #[error(
        "`{above}` is in the way to `{path}` and belongs to uid {uid}, who could swap it; run \
         `chown {own} {above}`, or choose a place of your own (TORNO_HOME)"
    )]
    OthersWay {
        /// The directory.
        above: PathBuf,
        /// What was looked for.
        path: PathBuf,
        /// Its owner.
        uid: u32,
        /// Who runs this.
        own: u32,
    },
    /// Others may write to a directory above it.
    #[error(
        "others may write to `{above}`, and so swap `{path}`; run `chmod go-w {above}`, or choose \
         a place of your own (TORNO_HOME)"
    )]
    OpenWay {
        /// The directory.
        above: PathBuf,
        /// What was looked for.
        path: PathBuf,
    },
    /// It is somebody else's.
    #[error(
        "`{path}` belongs to uid {uid}; remove it, or give it to uid {own}: `chown {own} {path}`"
    )]
    Others {
        /// What was looked for.
        path: PathBuf,
        /// Its owner.
        uid: u32,
        /// Who runs this.
        own: u32,
    },
    /// Others may write to it.
    #[error("others may write to `{0}`; run `chmod go-w {0}`")]
    Open(PathBuf),
    /// It is something else than was expected, or a link to it.
    #[error("`{0}` is no {1}")]
    Kind(PathBuf, &'static str),
    /// The system's own refusal.
    #[error("`{0}`")]
    System(PathBuf, #[source] io::Error),
}

fn system(path: &Path) -> impl Fn(io::Error) -> PlaceError {
    move |error| PlaceError::System(path.to_owned(), error)
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Refuses a place that somebody else than its owner could swap: whoever owns a directory above
/// it, or may write there, can put another directory, or a link, where ours is looked for.
///
/// # Errors
/// The first directory above it that another could use.
pub fn nobody_else_prepares(path: &Path, owner: Option<u32>) -> Result<(), PlaceError> {
    let Some(parent) = path.ancestors().skip(1).find(|above| above.exists()) else {
        return Err(PlaceError::Kind(path.to_owned(), "absolute path"));
    };
    // By the way that is named, links included, and by the way that it really goes.
    let real = parent.canonicalize().map_err(system(parent))?;
    for above in parent.ancestors().chain(real.ancestors()) {
        let meta = std::fs::symlink_metadata(above).map_err(system(above))?;
        let own = own_uid();
        if ![0, own].contains(&meta.uid()) && Some(meta.uid()) != owner {
            return Err(PlaceError::OthersWay {
                above: above.to_owned(),
                path: path.to_owned(),
                uid: meta.uid(),
                own,
            });
        }
        if !meta.is_symlink() && others_write(&meta) && meta.mode() & STICKY == 0 {
            return Err(PlaceError::OpenWay {
                above: above.to_owned(),
                path: path.to_owned(),
            });
        }
    }
    Ok(())
}

/// Root's group is root.
fn others_write(meta: &std::fs::Metadata) -> bool {
    meta.mode() & 0o002 != 0 || (meta.mode() & 0o020 != 0 && meta.gid() != 0)
}

/// Makes a directory, or finds it made: ours or its owner's, no link, in a place that nobody else
/// prepares. Its rights, where it is there already, stay.
///
/// # Errors
/// When it can't be made, or is not such a one.
pub fn make_directory(path: &Path, owner: Option<u32>) -> Result<(), PlaceError> {
    nobody_else_prepares(path, owner)?;
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(system(parent))?;
    }
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(system(path)(error));
        }
        Ok(()) | Err(_) => {}
    }
    // Once more: what was not there a moment ago may have been made by somebody else.
    nobody_else_prepares(path, owner)?;
    let meta = std::fs::symlink_metadata(path).map_err(system(path))?;
    if !meta.is_dir() {
        return Err(PlaceError::Kind(path.to_owned(), "directory"));
    }
    let own = own_uid();
    if meta.uid() != own && Some(meta.uid()) != owner {
        return Err(PlaceError::Others {
            path: path.to_owned(),
            uid: meta.uid(),
            own,
        });
    }
    Ok(())
}

/// Opens the log in a directory of ours, which is made where there is none; no link is followed.
///
/// # Errors
/// When the directory or the file is not ours, or can't be made.
pub fn open_log(path: &Path) -> Result<File, PlaceError> {
    if let Some(directory) = path.parent() {
        make_directory(directory, None)?;
    }
    let flags = OFlags::CREATE | OFlags::APPEND | OFlags::WRONLY | OFlags::NONBLOCK;
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let log = rustix::fs::open(path, flags, Mode::from_raw_mode(0o600));
    let log = File::from(log.map_err(|errno| system(path)(errno.into()))?);
    check_file(path, &log)?;
    Ok(log)
}

/// Opens a file of the operator's for reading; nothing where there is none. It, and the way to it,
/// by links too, is root's or ours, and nobody else may write to it.
///
/// # Errors
/// When it is not such a one, or can't be opened.
pub fn open_trusted(path: &Path) -> Result<Option<File>, PlaceError> {
    let mut real = path.to_owned();
    // What one link more would lead to is not opened.
    for _ in 0..LINKS_MAX {
        nobody_else_prepares(&real, None)?;
        let Ok(target) = std::fs::read_link(&real) else {
            break;
        };
        let meta = std::fs::symlink_metadata(&real).map_err(system(&real))?;
        check_owner(&real, &meta)?;
        real = real.parent().unwrap_or(&real).join(target);
    }
    // Nothing is waited for: not the writer of a FIFO.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = match rustix::fs::open(&real, flags, Mode::empty()) {
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        file => File::from(file.map_err(|errno| system(path)(errno.into()))?),
    };
    check_file(path, &file)?;
    Ok(Some(file))
}

/// An open file is a regular one of root's or ours, and nobody else may write to it.
fn check_file(path: &Path, file: &File) -> Result<(), PlaceError> {
    let meta = file.metadata().map_err(system(path))?;
    if !meta.is_file() {
        return Err(PlaceError::Kind(path.to_owned(), "regular file"));
    }
    check_owner(path, &meta)?;
    if others_write(&meta) {
        return Err(PlaceError::Open(path.to_owned()));
    }
    Ok(())
}

fn check_owner(path: &Path, meta: &std::fs::Metadata) -> Result<(), PlaceError> {
    let own = own_uid();
    if [0, own].contains(&meta.uid()) {
        return Ok(());
    }
    Err(PlaceError::Others {
        path: path.to_owned(),
        uid: meta.uid(),
        own,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A directory of this test's own, gone with it.
    struct Ground(PathBuf);

    impl Ground {
        fn new(name: &str) -> Self {
            let name = format!("torno-places-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::DirBuilder::new()
                .mode(0o700)
                .create(&path)
                .unwrap();
            Self(path)
        }

        fn file(&self, name: &str, mode: u32) -> PathBuf {
            let path = self.0.join(name);
            std::fs::write(&path, name).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path
        }
    }

    impl Drop for Ground {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn a_file_counts_where_nobody_else_could_write_it_or_change_the_way_to_it() {
        let ground = Ground::new("file");
        let fine = ground.file("fine", 0o644);
        assert!(open_trusted(&fine).unwrap().is_some());
        assert!(open_trusted(&ground.0.join("none")).unwrap().is_none());
        let link = ground.0.join("link");
        symlink(&fine, &link).unwrap();
        assert!(open_trusted(&link).unwrap().is_some());
        let open = open_trusted(&ground.file("open", 0o646));
        assert!(matches!(open, Err(PlaceError::Open(_))));
        assert!(matches!(open_trusted(&ground.0), Err(PlaceError::Kind(..))));
        // By a link in an open directory, which ends at a fine file.
        let way = ground.0.join("way");
        std::fs::create_dir(&way).unwrap();
        std::fs::set_permissions(&way, std::fs::Permissions::from_mode(0o777)).unwrap();
        symlink(&fine, way.join("middle")).unwrap();
        let first = ground.0.join("first");
        symlink(way.join("middle"), &first).unwrap();
        let swapped = open_trusted(&first);
        assert!(matches!(swapped, Err(PlaceError::OpenWay { .. })));
    }

    #[test]
    fn a_log_is_made_in_a_directory_of_ours_and_no_link_is_followed() {
        let ground = Ground::new("log");
        let log = ground.0.join("made/too/tornod.log");
        open_log(&log).unwrap();
        open_log(&log).unwrap();
        let mode = std::fs::metadata(&log).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o600);
        let link = ground.0.join("made/link.log");
        symlink(ground.file("other", 0o600), &link).unwrap();
        assert!(open_log(&link).is_err());
        symlink(ground.0.join("made"), ground.0.join("aside")).unwrap();
        let aside = open_log(&ground.0.join("aside/tornod.log"));
        assert!(matches!(aside, Err(PlaceError::Kind(..))));
    }
}
