// SPDX-License-Identifier: Apache-2.0
//! What a machine is made from, found once when the launcher starts: QEMU, a kernel with its
//! modules, a maker of images, the host's files that lie in the machine's memory.

use super::monitor::Kvm;
use super::tool::Tool;
use crate::facts::Paths;
use crate::plan::TreeStep;
use crate::spec::Level;
use crate::sys;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// What runs the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acceleration {
    /// The processor, through KVM: a boundary.
    Kvm,
    /// QEMU's translator: for development and tests. QEMU claims no boundary for it, nor do we.
    Emulation,
}

/// The parts of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineParts {
    /// A directory laid out like `/` that has QEMU; `/` where it is installed.
    pub root: PathBuf,
    /// What QEMU says of itself, the first line.
    pub version: String,
    /// The kernel's file.
    pub kernel: PathBuf,
    /// Its modules, each after what it needs.
    pub modules: Vec<Module>,
    /// mkfs.erofs.
    pub image_maker: PathBuf,
    /// nft, as a machine carries it; none where it can't be had.
    pub(crate) nft: Option<Tool>,
    /// The image that holds `/usr`, once it is made.
    pub image: Option<PathBuf>,
    /// Entries of the host's `/etc` that programs of `/usr` need, as files and links.
    pub(crate) etc: Vec<TreeStep>,
    /// What runs the guest's instructions; emulation until a start has shown more.
    pub acceleration: Acceleration,
    /// The processor's time stamp counter. A guest that has to measure it against emulated timers
    /// stalls on a busy host.
    pub tsc_khz: u64,
    /// What is known of KVM.
    pub kvm: Kvm,
}

/// A kernel module: its file's name, and its bytes.
pub(super) type Module = (&'static str, Arc<[u8]>);

/// QEMU's program for full and micro machines.
pub(super) const QEMU: &str = "usr/bin/qemu-system-x86_64";
const IMAGE_MAKER: &str = "usr/bin/mkfs.erofs";
/// Debian's kernels for virtual machines.
const KERNEL_PREFIX: &str = "vmlinuz-";
const KERNEL_SUFFIX: &str = "-cloud-amd64";

/// In the order in which they are loaded; one that is built into another kernel is left out.
const MODULES: [(&str, &str); 23] = [
    ("drivers/virtio", "virtio_ring.ko"),
    ("drivers/virtio", "virtio.ko"),
    ("drivers/virtio", "virtio_mmio.ko"),
    ("drivers/virtio", "virtio_pci_legacy_dev.ko"),
    ("drivers/virtio", "virtio_pci_modern_dev.ko"),
    ("drivers/virtio", "virtio_pci.ko"),
    ("drivers/char", "virtio_console.ko"),
    ("drivers/block", "virtio_blk.ko"),
    ("lib", "libcrc32c.ko"),
    ("fs/erofs", "erofs.ko"),
    ("net/netfilter", "nfnetlink.ko"),
    ("net/ipv4/netfilter", "nf_defrag_ipv4.ko"),
    ("net/ipv6/netfilter", "nf_defrag_ipv6.ko"),
    ("net/netfilter", "nf_conntrack.ko"),
    ("net/netfilter", "nf_nat.ko"),
    ("net/netfilter", "nf_tables.ko"),
    ("net/netfilter", "nft_chain_nat.ko"),
    ("net/netfilter", "nft_redir.ko"),
    ("net/netfilter", "nft_ct.ko"),
    ("net/ipv4/netfilter", "nf_reject_ipv4.ko"),
    ("net/ipv6/netfilter", "nf_reject_ipv6.ko"),
    ("net/netfilter", "nft_reject.ko"),
    ("net/netfilter", "nft_reject_inet.ko"),
];
/// For a link by vsock.
const LINK_MODULES: [(&str, &str); 3] = [
    ("net/vmw_vsock", "vsock.ko"),
    ("net/vmw_vsock", "vmw_vsock_virtio_transport_common.ko"),
    ("net/vmw_vsock", "vmw_vsock_virtio_transport.ko"),
];

/// LIMIT: the largest is nf_tables with 0.6 MB.
const MODULE_BYTES_MAX: u64 = 4 << 20;
/// LIMIT: Debian's `alternatives` has some hundred links.
const ETC_ENTRIES_MAX: usize = 8192;
/// LIMIT: `ld.so.cache` of a machine with everything installed has 300 kB.
const ETC_BYTES_MAX: u64 = 4 << 20;
/// LIMIT: a version's line.
const VERSION_CHARACTERS_MAX: usize = 200;

impl MachineParts {
    /// Finds them in the first of the directories that has QEMU.
    #[must_use]
    pub fn find(paths: &Paths, etc: &[&'static str]) -> Option<Self> {
        let canonical = |root: &PathBuf| fs::canonicalize(root).ok();
        let roots: Vec<PathBuf> = paths.machines.iter().filter_map(canonical).collect();
        let root = roots.iter().find(|root| root.join(QEMU).is_file())?.clone();
        let (kernel, modules) = roots.iter().find_map(|root| newest_kernel(root))?;
        let makers = roots.iter().map(|root| root.join(IMAGE_MAKER));
        let image_maker = makers.into_iter().find(|maker| maker.is_file())?;
        let read = |list: &[(&str, &'static str)]| -> Vec<Module> {
            let found = list.iter().filter_map(|(directory, name)| {
                let path = modules.join(directory).join(name);
                Some((*name, read_bounded(&path, MODULE_BYTES_MAX)?))
            });
            found.collect()
        };
        Some(Self {
            version: version(&root)?,
            kernel,
            modules: read(&MODULES),
            image_maker,
            nft: paths.find("nft").and_then(|nft| Tool::find(&nft)),
            image: None,
            etc: etc_steps(etc).ok()?,
            acceleration: Acceleration::Emulation,
            tsc_khz: sys::tsc_khz(),
            kvm: Kvm {
                link_modules: read(&LINK_MODULES),
                ..Kvm::find(paths)
            },
            root,
        })
    }

    /// The parts as they are used for a level: under KVM where a machine of it has started there.
    pub(super) fn at(&self, level: Level) -> Self {
        let mut parts = self.clone();
        if parts.kvm.monitor(level).is_some() {
            parts.acceleration = Acceleration::Kvm;
        }
        parts
    }

    /// Where the loader finds libraries that came with QEMU.
    pub(super) fn libraries(root: &Path) -> String {
        let of = |directory: &str| root.join(directory).display().to_string();
        [of("usr/lib/x86_64-linux-gnu"), of("lib/x86_64-linux-gnu")].join(":")
    }
}

/// Its file and the directory of its modules. By name: versions of one distribution sort well
/// enough, and any of them does.
fn newest_kernel(root: &Path) -> Option<(PathBuf, PathBuf)> {
    let boot = root.join("boot");
    let names = fs::read_dir(&boot).ok()?.flatten();
    let releases = names.filter_map(|entry| {
        let name = entry.file_name().to_str()?.to_owned();
        let release = name.strip_prefix(KERNEL_PREFIX)?;
        release.ends_with(KERNEL_SUFFIX).then(|| release.to_owned())
    });
    let release = releases.max()?;
    let kernel = fs::canonicalize(boot.join(format!("{KERNEL_PREFIX}{release}"))).ok()?;
    let modules = root.join("lib/modules").join(release).join("kernel");
    Some((kernel, modules))
}

fn version(root: &Path) -> Option<String> {
    let output = Command::new(root.join(QEMU))
        .arg("--version")
        .env_clear()
        .env("LD_LIBRARY_PATH", MachineParts::libraries(root))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Some(
        text.lines()
            .next()?
            .chars()
            .take(VERSION_CHARACTERS_MAX)
            .collect(),
    )
}

/// The entries, followed nowhere: links stay links.
fn etc_steps(names: &[&'static str]) -> io::Result<Vec<TreeStep>> {
    let mut steps = Vec::new();
    let mut waiting: Vec<PathBuf> = names
        .iter()
        .map(|name| Path::new("etc").join(name))
        .collect();
    while let Some(path) = waiting.pop() {
        if steps.len() > ETC_ENTRIES_MAX {
            return Err(io::Error::other("too many entries in /etc"));
        }
        let host = Path::new("/").join(&path);
        let kind = fs::symlink_metadata(&host)?.file_type();
        if kind.is_symlink() {
            let target = fs::read_link(&host)?.to_string_lossy().into_owned();
            steps.push(TreeStep::Link(path, target));
        } else if kind.is_dir() {
            for entry in fs::read_dir(&host)? {
                waiting.push(path.join(entry?.file_name()));
            }
            steps.push(TreeStep::Directory(path));
        } else if let Some(bytes) = read_bounded(&host, ETC_BYTES_MAX).filter(|_| kind.is_file()) {
            steps.push(TreeStep::File(path, bytes));
        }
    }
    Ok(steps)
}

use crate::facts::read_bounded;
