// SPDX-License-Identifier: Apache-2.0
//! Golden plans, and what is refused.

use super::*;
use crate::cgroup::CgroupHost;
use crate::spec::AlsoDirectory;
use torno_policy::grant::{FileRules, HostLimits, Limits};

pub(crate) fn facts() -> HostFacts {
    let runtime = |kind: RuntimeKind, version: &str| {
        Some(Runtime {
            kind,
            path: Path::new("/usr/bin").join(kind.name()),
            version: version.into(),
        })
    };
    HostFacts {
        root: vec![
            ("bin", RootEntry::Link("usr/bin".into())),
            ("lib", RootEntry::Link("usr/lib".into())),
            ("lib64", RootEntry::Directory),
        ],
        etc: vec!["alternatives", "ld.so.cache"],
        trust_bundle: b"PUBLIC ROOTS".as_slice().into(),
        local_time: Some(b"TZif2".as_slice().into()),
        has_usr_local: true,
        container_runtime: runtime(RuntimeKind::Crun, "crun version 1.21"),
        gvisor_runtime: runtime(RuntimeKind::Runsc, "runsc version 0.0~20240729.0"),
        nft: Some("/usr/sbin/nft".into()),
        keeper: None,
        cgroups: CgroupHost {
            unified: None,
            hybrid_mount: None,
            v1: vec![],
        },
        rights: Ok(Rights::Root),
        locked_mounts: vec![],
        landlock_version: 6,
        open_files_max: 65_536,
        machine: None,
    }
}

pub(crate) fn spec(level: Level) -> SandboxSpec {
    SandboxSpec {
        id: SandboxId::parse("abcdefghijklmnopqrstuvwx23").unwrap(),
        level,
        also: vec![AlsoDirectory {
            host: "/home/u/.cargo/bin".into(),
            inside: "/home/agent/.cargo/bin".into(),
        }],
        workspace: Workspace::Copy,
        files: FileRules {
            write: Some(vec!["src/**".into()]),
            hide: vec![".env".into()],
        },
        env: vec![
            ("GITHUB_TOKEN".into(), "placeholder".into()),
            ("LANG".into(), "de_DE.UTF-8".into()),
        ],
        git_hosts: vec!["git.example.org".into()],
        home: vec![],
        limits: Limits {
            wall_seconds: 60,
            idle_seconds: 60,
            cpu_milli: 1500,
            memory_bytes: 2 << 30,
            pids: 512,
            disk_bytes: 300 << 20,
            egress_bytes: 1 << 20,
            records: 100,
            requests: 1,
            rate: 1,
            ingress_bytes: 0,
            streams: 1,
            each_host: HostLimits {
                requests: 1,
                egress_bytes: 0,
                ingress_bytes: 0,
                streams: 1,
            },
        },
        ca_pem: "SESSION CA\n".into(),
        uid_base: 1_000_000_000,
        guest: VerifiedGuest::of_the_host(Path::new("/dev/null")).unwrap(),
        guest_arguments: vec!["init".into()],
        image: None,
    }
}

use crate::spec::VerifiedGuest;

/// The plan as a reviewer reads it; contents of files as text.
pub(crate) fn printed(plan: &Plan) -> String {
    let mut text = String::new();
    let mut line = |words: String| {
        text.push_str(&words);
        text.push('\n');
    };
    line(format!(
        "{} {:?}",
        plan.runtime.path.display(),
        plan.runtime
            .arguments(plan.id.as_str(), plan.file_access(), 0)
    ));
    line(format!("{:?}", plan.cgroup));
    line(format!("{:?}", plan.rules));
    for step in &plan.tree {
        match step {
            TreeStep::File(path, content) if content.starts_with(b"070701") => {
                line(format!("archive {}", path.display()));
                crate::vm::listed(content).into_iter().for_each(&mut line);
            }
            TreeStep::File(path, content) => {
                line(format!(
                    "file {} {:?}",
                    path.display(),
                    String::from_utf8_lossy(content)
                ));
            }
            step => line(format!("{step:?}")),
        }
    }
    let mut config: serde_json::Value = serde_json::from_str(&plan.config).unwrap();
    // The profile has its own test.
    if let Some(profile) = config.pointer_mut("/linux/seccomp/syscalls") {
        *profile = "…".into();
    }
    line(serde_json::to_string_pretty(&config).unwrap());
    text
}

pub(crate) fn check_golden(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/plan/golden")
        .join(name);
    if std::env::var_os("TORNO_GOLDEN").is_some_and(|how| how == "write") {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    if expected != found {
        let new = std::env::temp_dir().join(name);
        std::fs::write(&new, found).unwrap();
        panic!("{} differs: compare with {}", path.display(), new.display());
    }
}

#[test]
fn the_container_plan_is_the_golden_one() {
    check_golden(
        "container.txt",
        &printed(&plan(&spec(Level::Container), &facts()).unwrap()),
    );
}

#[test]
fn the_gvisor_plan_is_the_golden_one() {
    check_golden(
        "gvisor.txt",
        &printed(&plan(&spec(Level::Gvisor), &facts()).unwrap()),
    );
}

#[test]
fn a_kernel_of_its_own_asks_anew_for_files_that_change_from_outside() {
    let words = |level, workspace| {
        let spec = SandboxSpec {
            workspace,
            ..spec(level)
        };
        let plan = plan(&spec, &facts()).unwrap();
        let words = plan.runtime.arguments("x", plan.file_access(), 0);
        words.contains(&"-file-access=shared".to_owned())
    };
    assert!(words(Level::Gvisor, Workspace::Shared));
    assert!(!words(Level::Gvisor, Workspace::Copy));
    assert!(!words(Level::Container, Workspace::Shared));
}

fn refused(change: impl FnOnce(&mut SandboxSpec)) -> PlanError {
    let mut spec = spec(Level::Container);
    change(&mut spec);
    plan(&spec, &facts()).unwrap_err()
}

// ATTACK: 239
#[test]
fn a_level_without_its_parts_is_refused_with_the_command_that_brings_them() {
    assert_eq!(
        refused(|spec| spec.level = Level::Microvm),
        PlanError::MachineMissing
    );
    assert_eq!(
        refused(|spec| spec.level = Level::Vm),
        PlanError::MachineMissing
    );
    let bare = HostFacts {
        gvisor_runtime: None,
        ..facts()
    };
    let error = plan(&spec(Level::Gvisor), &bare).unwrap_err();
    let said = error.to_string();
    assert!(
        said.starts_with("no runtime for `gvisor`: needs runsc of 2024 or later"),
        "{said}"
    );
    let bare = HostFacts {
        nft: None,
        ..facts()
    };
    assert_eq!(
        plan(&spec(Level::Container), &bare).unwrap_err(),
        PlanError::NftMissing
    );
    let bare = HostFacts {
        landlock_version: 1,
        ..facts()
    };
    assert_eq!(
        plan(&spec(Level::Container), &bare).unwrap_err(),
        PlanError::LandlockTooOld(1)
    );
    assert!(plan(&spec(Level::Gvisor), &bare).is_ok());
    let mut old = facts();
    if let Some(runtime) = &mut old.gvisor_runtime {
        runtime.version = "runsc version 0.0~20221219.0".into();
    }
    assert!(matches!(
        plan(&spec(Level::Gvisor), &old).unwrap_err(),
        PlanError::RuntimeTooOld { .. }
    ));
}

// ATTACK: 159
#[test]
fn a_limit_of_nothing_or_of_everything_is_refused() {
    for value in [0, 1, u64::MAX] {
        assert_eq!(
            refused(|spec| spec.limits.memory_bytes = value),
            PlanError::Limit("memory")
        );
        assert_eq!(
            refused(|spec| spec.limits.pids = value),
            PlanError::Limit("pids")
        );
        assert_eq!(
            refused(|spec| spec.limits.cpu_milli = value),
            PlanError::Limit("cpus")
        );
        assert_eq!(
            refused(|spec| spec.limits.disk_bytes = value),
            PlanError::Limit("disk")
        );
    }
}

#[test]
fn a_uid_range_of_people_or_over_the_end_is_refused() {
    for base in [0, 1000, 65_534, u32::MAX - 65_536] {
        assert_eq!(
            refused(|spec| spec.uid_base = base),
            PlanError::UidRange(base)
        );
    }
}

#[test]
fn secret_places_cannot_be_listed() {
    for (host, inside) in [
        ("/home/u/.ssh", "/opt/x"),
        ("/home/u/.config/gh", "/opt/x"),
        ("/etc/ssl", "/opt/x"),
        ("/run/user/1000", "/opt/x"),
        ("/home", "/opt/x"),
        ("/", "/opt/x"),
        ("/home/u/../../etc/x", "/opt/x"),
        ("relative", "/opt/x"),
        ("/home/u/tools", "/etc/x"),
        ("/home/u/tools", "/usr/local"),
        ("/home/u/tools", "/home/agent"),
        ("/home/u/tools", "/opt"),
        ("/home/u/tools", "/opt/../etc/x"),
    ] {
        let also = AlsoDirectory {
            host: host.into(),
            inside: inside.into(),
        };
        assert!(
            matches!(refused(|spec| spec.also = vec![also]), PlanError::Also(_)),
            "{host} {inside}"
        );
    }
}

#[test]
fn what_is_mounted_below_a_directory_refuses_where_it_cant_be_left_out() {
    let mut facts = facts();
    facts.locked_mounts = ["/", "/usr", "/usrx", "/home/u/.cargo"]
        .map(Into::into)
        .into();
    assert!(plan(&spec(Level::Gvisor), &facts).is_ok());
    for (host, mount) in [
        ("/usr", "/usr/share/x"),
        ("/home/u/.cargo/bin", "/home/u/.cargo/bin/y"),
    ] {
        facts.locked_mounts.push(mount.into());
        let (host, mount) = (host.into(), mount.into());
        let error = plan(&spec(Level::Gvisor), &facts).unwrap_err();
        assert_eq!(error, PlanError::MountBelow { host, mount });
        facts.locked_mounts.pop();
    }
}

#[test]
fn variables_and_git_hosts_are_plain() {
    for (name, value) in [
        ("", "x"),
        ("A B", "x"),
        ("A=B", "x"),
        ("1A", "x"),
        ("A", "x\0y"),
        ("Ä", "x"),
    ] {
        let variable = (name.to_owned(), value.to_owned());
        assert!(
            matches!(
                refused(|spec| spec.env = vec![variable]),
                PlanError::Environment(_)
            ),
            "{name}"
        );
    }
    for host in ["", "a\"]\n[core]", "A.example", "a b", "a/b"] {
        assert!(
            matches!(
                refused(|spec| spec.git_hosts = vec![host.into()]),
                PlanError::GitHost(_)
            ),
            "{host}"
        );
    }
}
