// SPDX-License-Identifier: Apache-2.0
//! What the host is like, read once when the launcher starts: layout of `/usr`, trust bundle, time
//! zone, runtimes and cgroups. Plans are made from these facts and nothing else of the host.

use crate::cgroup::CgroupHost;
use crate::rights::{Refusal, Rights};
use crate::runtime::Runtime;
use crate::vm::MachineParts;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where the caller keeps what this crate needs on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// Directories searched for runtimes and `nft`, in order.
    pub search: Vec<PathBuf>,
    /// Directories laid out like `/` that are searched for the parts of a machine, in order.
    pub machines: Vec<PathBuf>,
    /// The caller's own binary, run as `keeper` beside each sandbox; none means no keeper (tests).
    pub keeper: Option<PathBuf>,
}

impl Default for Paths {
    fn default() -> Self {
        let search = [
            "/usr/local/sbin",
            "/usr/local/bin",
            "/usr/sbin",
            "/usr/bin",
            "/sbin",
            "/bin",
        ];
        Self {
            search: search.iter().map(PathBuf::from).collect(),
            machines: vec![PathBuf::from("/")],
            keeper: None,
        }
    }
}

impl Paths {
    /// The first executable file of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        self.search
            .iter()
            .map(|directory| directory.join(name))
            .find(|path| path.is_file())
    }
}

/// A name in `/` that stands for a part of `/usr`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootEntry {
    /// Merged: a symbolic link, with its target.
    Link(String),
    /// Not merged: a directory of its own, bound read-only.
    Directory,
}

/// What the host is like.
#[derive(Debug, Clone)]
pub struct HostFacts {
    /// `bin`, `lib`, `lib64` … as the host has them.
    pub root: Vec<(&'static str, RootEntry)>,
    /// Entries of the host's `/etc` that are bound read-only (none holds a secret).
    pub etc: Vec<&'static str>,
    /// The system's trust bundle.
    pub trust_bundle: Arc<[u8]>,
    /// The time zone's rules, for `/etc/localtime`.
    pub local_time: Option<Arc<[u8]>>,
    /// Whether `/usr/local` exists and has to be covered.
    pub has_usr_local: bool,
    /// Runs `container`.
    pub container_runtime: Option<Runtime>,
    /// Runs `gvisor`.
    pub gvisor_runtime: Option<Runtime>,
    /// Loads the rules of the sealed network.
    pub nft: Option<PathBuf>,
    /// The keeper's binary.
    pub keeper: Option<PathBuf>,
    /// The hierarchies that limits are written to.
    pub cgroups: CgroupHost,
    /// As whom sandboxes are made, or why none can be.
    pub rights: Result<Rights, Refusal>,
    /// Mount points that the kernel keeps with the directory below which they lie: every one of
    /// the host, where the launcher is root of a namespace only (mount_namespaces(7)).
    pub locked_mounts: Vec<PathBuf>,
    /// The kernel's landlock; 0 for none.
    pub landlock_version: u32,
    /// Most open files that a process inside may be given.
    pub open_files_max: u64,
    /// The parts of a machine, looked for when one is asked for ([`HostFacts::find_machine`]).
    pub machine: Option<MachineParts>,
}

/// Parts of `/usr` that a root directory may name.
const ROOT_NAMES: [&str; 6] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// Host `/etc` entries that programs of `/usr` need and that hold no secret.
const ETC_NAMES: [&str; 4] = ["alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d"];
const TRUST_BUNDLES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
];
/// LIMIT: Debian's bundle has 220 kB; a larger file than this is not a trust bundle.
const TRUST_BUNDLE_BYTES_MAX: u64 = 4 << 20;
/// LIMIT: a time zone's rules are a few kB.
const LOCAL_TIME_BYTES_MAX: u64 = 256 << 10;
/// LIMIT: what build tools ask for; lower where the launcher's own hard limit is.
const OPEN_FILES_MAX: u64 = 65_536;

impl HostFacts {
    /// Reads them.
    #[must_use]
    pub fn gather(paths: &Paths) -> Self {
        let first = |names: &[&str]| names.iter().find_map(|name| Runtime::find(paths, name));
        let cgroups = CgroupHost::discover();
        let rights = Rights::discover(&cgroups);
        let locked_mounts = match rights {
            Ok(Rights::Root) => Vec::new(),
            _ => mount_points(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default()),
        };
        Self {
            root: ROOT_NAMES.into_iter().filter_map(root_entry).collect(),
            etc: ETC_NAMES
                .into_iter()
                .filter(|name| is_plain(&Path::new("/etc").join(name)))
                .collect(),
            trust_bundle: TRUST_BUNDLES
                .iter()
                .find_map(|path| read_bounded(Path::new(path), TRUST_BUNDLE_BYTES_MAX))
                .unwrap_or_default(),
            local_time: read_bounded(Path::new("/etc/localtime"), LOCAL_TIME_BYTES_MAX),
            has_usr_local: Path::new("/usr/local").is_dir(),
            container_runtime: first(&["crun", "runc"]),
            gvisor_runtime: first(&["runsc"]),
            nft: paths.find("nft"),
            keeper: paths.keeper.clone(),
            rights,
            cgroups,
            locked_mounts,
            landlock_version: crate::sys::landlock_version(),
            open_files_max: open_files_max(),
            machine: None,
        }
    }

    /// Looks for the parts of a machine.
    pub fn find_machine(&mut self, paths: &Paths) {
        self.machine = MachineParts::find(paths, &self.etc);
        if let Some(parts) = &mut self.machine {
            // Nobody else may make a node of the device.
            parts.kvm.is_there &= self.rights == Ok(Rights::Root);
        }
    }
}

/// The mount points of proc_pid_mountinfo(5).
fn mount_points(mountinfo: &str) -> Vec<PathBuf> {
    let points = mountinfo.lines().filter_map(|line| line.split(' ').nth(4));
    points
        .map(|point| PathBuf::from(unescaped(point)))
        .collect()
}

/// The kernel writes these four characters in octal.
fn unescaped(path: &str) -> String {
    let characters = [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ];
    characters
        .iter()
        .fold(path.to_owned(), |path, (code, plain)| {
            path.replace(code, plain)
        })
}

/// There, and itself: a link could point anywhere.
fn is_plain(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| !found.file_type().is_symlink())
}

fn root_entry(name: &'static str) -> Option<(&'static str, RootEntry)> {
    let path = Path::new("/").join(name);
    let kind = fs::symlink_metadata(&path).ok()?.file_type();
    if kind.is_symlink() {
        let target = fs::read_link(&path)
            .ok()?
            .to_str()?
            .trim_start_matches('/')
            .to_owned();
        return target
            .starts_with("usr/")
            .then_some((name, RootEntry::Link(target)));
    }
    kind.is_dir().then_some((name, RootEntry::Directory))
}

pub(crate) fn read_bounded(path: &Path, bytes_max: u64) -> Option<Arc<[u8]>> {
    let mut bytes = Vec::new();
    fs::File::open(path)
        .ok()?
        .take(bytes_max + 1)
        .read_to_end(&mut bytes)
        .ok()?;
    let fits = u64::try_from(bytes.len()).is_ok_and(|length| length <= bytes_max);
    fits.then(|| bytes.into())
}

fn open_files_max() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.maximum.unwrap_or(OPEN_FILES_MAX).min(OPEN_FILES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_read_with_their_spaces() {
        let line = r"36 35 98:0 / /mnt/a\040b rw,noatime shared:1 - ext3 /dev/root rw";
        assert_eq!(mount_points(line), [PathBuf::from("/mnt/a b")]);
        assert!(mount_points("\n36 35").is_empty());
    }
}
