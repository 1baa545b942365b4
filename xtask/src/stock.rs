// SPDX-License-Identifier: Apache-2.0
//! Torno on a stock Debian 12: its kernel, systemd, cgroup v2 alone, people who log in. The machine
//! that tests run on has another kernel or other cgroups more often than not, so this one is made
//! from Debian's packages and booted in QEMU, by emulation, with nothing but the shipped binaries.

use crate::build::{self, Built, Profile};
use crate::packages::Graph;
use crate::{debian, setup, shell};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// The release, and what a newcomer has installed on it.
const SUITE: &str = "bookworm";
const PACKAGES: &str = "systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,login,procps,\
    kmod,initramfs-tools,linux-image-cloud-amd64,nftables,crun,uidmap,git,curl,ca-certificates";
/// LIMIT: an emulated boot takes 30 to 60 s here, and each start a few seconds.
const BOOT_SECONDS_MAX: &str = "900";
/// Who logs in, at which serial line, with which script.
const PEOPLE: [(&str, &str, &str, &str); 2] = [
    ("root", "ttyS0", "root", include_str!("stock/root.sh")),
    (
        "guest",
        "ttyS1",
        "home/guest",
        include_str!("stock/user.sh"),
    ),
];
/// What each script says when all of it went well.
const WELL: &str = "STOCK: all went well";

/// Makes the machine, boots it, and looks at what both people saw.
pub(crate) fn run(root: &Path) -> Result<()> {
    if !setup::is_root() {
        bail!("debootstrap needs root: run this as root");
    }
    let tools = setup::run(root).context("set-up")?;
    let built = build::run(root, Profile::Dev, &tools).context("build")?;
    let directory = Graph::load(root)?.target.join("tools/stock");
    let host = directory.join("host");
    if !host.join("usr/bin/qemu-system-x86_64").exists() {
        let packages = ["debootstrap", "qemu-system-x86"];
        debian::unpack(&packages, &directory.join("archives"), &host)?;
    }
    let machine = directory.join("machine");
    if !machine.join("etc/debian_version").exists() || kernel(&machine).is_err() {
        bootstrap(&host, &machine)?;
    }
    furnish(&machine, &built)?;
    let disk = directory.join("disk.img");
    let _absent = std::fs::remove_file(&disk);
    shell::run(
        shell::program("mke2fs")
            .args(["-q", "-t", "ext4", "-d"])
            .arg(&machine)
            .arg(&disk)
            .arg("3G"),
    )?;
    boot(&host, &machine, &directory)?;
    judge(&directory)
}

fn bootstrap(host: &Path, machine: &Path) -> Result<()> {
    let _absent = std::fs::remove_dir_all(machine);
    shell::run(
        shell::program(host.join("usr/sbin/debootstrap"))
            .env("DEBOOTSTRAP_DIR", host.join("usr/share/debootstrap"))
            .args(["--variant=minbase", &format!("--include={PACKAGES}"), SUITE])
            .arg(machine)
            .arg(debian::archive()?),
    )
}

/// The shipped binaries, and two people who log in by themselves and run their scripts.
fn furnish(machine: &Path, built: &Built) -> Result<()> {
    let put = |place: &str, text: &str| {
        let path = machine.join(place);
        let parent = path.parent().unwrap_or(machine);
        std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::write(&path, text))
            .with_context(|| format!("cannot write {}", path.display()))
    };
    if !machine.join("home/guest").exists() {
        let user = ["useradd", "--create-home", "--shell", "/bin/bash", "guest"];
        shell::run(shell::program("chroot").arg(machine).args(user))?;
    }
    put("etc/subuid", "guest:100000:65536\n")?;
    put("etc/subgid", "guest:100000:65536\n")?;
    put("etc/fstab", "/dev/vda / ext4 defaults 0 1\n")?;
    for (name, line, home, script) in PEOPLE {
        let unit = format!("etc/systemd/system/serial-getty@{line}.service");
        let start = format!(
            "[Service]\nExecStart=\n\
             ExecStart=-/sbin/agetty --autologin {name} --noclear 115200 %I linux\n"
        );
        put(&format!("{unit}.d/login.conf"), &start)?;
        put(&format!("{home}/.profile"), script)?;
    }
    let wanted = machine.join("etc/systemd/system/getty.target.wants");
    std::fs::create_dir_all(&wanted).context("no directory of wanted units")?;
    let second = wanted.join("serial-getty@ttyS1.service");
    let _absent = std::fs::remove_file(&second);
    std::os::unix::fs::symlink("/lib/systemd/system/serial-getty@.service", second)
        .context("no second serial line")?;
    let binaries = machine.join("opt");
    shell::run(
        shell::program("cp")
            .args(["-a", "-T"])
            .arg(&built.directory)
            .arg(binaries.join("torno")),
    )
}

fn boot(host: &Path, machine: &Path, directory: &Path) -> Result<()> {
    let (kernel, initrd) = kernel(machine)?;
    let library = |place: &str| host.join(place).display().to_string();
    let libraries = [
        library("usr/lib/x86_64-linux-gnu"),
        library("lib/x86_64-linux-gnu"),
    ];
    let serial = |line: &str| format!("file:{}", directory.join(line).display());
    let disk = directory.join("disk.img").display().to_string();
    shell::run(
        shell::program("timeout")
            .arg(BOOT_SECONDS_MAX)
            .arg(host.join("usr/bin/qemu-system-x86_64"))
            .env("LD_LIBRARY_PATH", libraries.join(":"))
            .env(
                "QEMU_MODULE_DIR",
                host.join("usr/lib/x86_64-linux-gnu/qemu"),
            )
            .args(["-L", &library("usr/share/qemu")])
            .args(["-L", &library("usr/share/seabios")])
            // Emulated: no boundary is claimed, and none is needed.
            .args(["-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max"])
            .args(["-smp", "2", "-m", "2048", "-nographic", "-nodefaults"])
            .arg("-kernel")
            .arg(kernel)
            .arg("-initrd")
            .arg(initrd)
            .args(["-append", "root=/dev/vda rw console=ttyS0 quiet"])
            .arg("-drive")
            .arg(format!("file={disk},if=virtio,format=raw,cache=unsafe"))
            .args(["-serial", &serial("ttyS0"), "-serial", &serial("ttyS1")]),
    )
}

/// The newest kernel of the machine, with its initrd.
fn kernel(machine: &Path) -> Result<(PathBuf, PathBuf)> {
    let boot = machine.join("boot");
    let names = std::fs::read_dir(&boot).context("the machine has no kernel")?;
    let versions = names.filter_map(|entry| {
        let name = entry.ok()?.file_name();
        Some(name.to_str()?.strip_prefix("vmlinuz-")?.to_owned())
    });
    let version = versions.max().context("the machine has no kernel")?;
    let part = |name: &str| boot.join(format!("{name}-{version}"));
    Ok((part("vmlinuz"), part("initrd.img")))
}

fn judge(directory: &Path) -> Result<()> {
    let mut failed = Vec::new();
    for (name, line, ..) in PEOPLE {
        let seen = std::fs::read(directory.join(line)).unwrap_or_default();
        let seen = String::from_utf8_lossy(&seen).replace('\r', "");
        let from = seen.find("STOCK: begins").unwrap_or_default();
        println!("--- {name}\n{}", seen.get(from..).unwrap_or_default());
        if !seen.contains(WELL) {
            failed.push(name);
        }
    }
    if failed.is_empty() {
        println!(
            "stock Debian 12: {} people, both levels, all went well",
            PEOPLE.len()
        );
        return Ok(());
    }
    bail!("on a stock Debian 12 it fails for {}", failed.join(" and "))
}
