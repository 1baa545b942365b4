// SPDX-License-Identifier: Apache-2.0
//! Each field of a specification either comes at the claim or makes another sandbox.

use super::super::plan;
use super::super::tests::{facts, spec};
use super::*;
use crate::spec::{
    AlsoDirectory, HomeFile, ImageTree, Level, SandboxId, SandboxSpec, VerifiedGuest,
};
use torno_policy::grant::{FileRules, Limits};

/// How a field of a session's specification is told apart from the spare's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    /// It is written at the claim, or given to each command.
    Claimed,
    /// Another value is another sandbox.
    Shape,
}

/// A session's specification, home in memory and the workspace whole.
fn session(level: Level) -> SandboxSpec {
    let home = |below: &str| HomeFile {
        below: below.into(),
        text: "decoy".to_owned(),
    };
    SandboxSpec {
        files: FileRules::default(),
        home: vec![home(".netrc"), home(".ssh/id_ed25519")],
        ..spec(level)
    }
}

/// The same without anything of the session.
fn ahead(of: &SandboxSpec) -> SandboxSpec {
    let mut spare = SandboxSpec {
        env: vec![],
        git_hosts: vec![],
        ca_pem: String::new(),
        ..of.clone()
    };
    for file in &mut spare.home {
        file.text.clear();
    }
    spare
}

type Change = fn(&mut SandboxSpec);

/// One change of each field. The destructuring has no `..`: a new field needs a row here.
fn changes() -> Vec<(&'static str, Field, Change)> {
    use Field::{Claimed, Shape};
    let SandboxSpec {
        id: _,
        level: _,
        also: _,
        workspace: _,
        files: _,
        env: _,
        git_hosts: _,
        limits:
            Limits {
                // The desk and the gate hold these.
                wall_seconds: _,
                idle_seconds: _,
                egress_bytes: _,
                ingress_bytes: _,
                records: _,
                requests: _,
                rate: _,
                streams: _,
                each_host: _,
                // The group and the mounts hold these.
                cpu_milli: _,
                memory_bytes: _,
                pids: _,
                disk_bytes: _,
            },
        ca_pem: _,
        home: _,
        uid_base: _,
        guest: _,
        guest_arguments: _,
        image: _,
    } = session(Level::Gvisor);
    vec![
        ("id", Shape, |s| {
            s.id = SandboxId::parse("bbcdefghijklmnopqrstuvwx23").unwrap();
        }),
        ("level", Shape, |s| {
            s.level = match s.level {
                Level::Gvisor => Level::Container,
                _ => Level::Gvisor,
            };
        }),
        ("also, one fewer", Shape, |s| s.also.clear()),
        ("also, another", Shape, |s| {
            s.also.push(AlsoDirectory {
                host: "/opt/tools".into(),
                inside: "/opt/tools".into(),
            });
        }),
        ("workspace", Shape, |s| s.workspace = Workspace::None),
        ("files.write", Shape, |s| {
            s.files.write = Some(vec!["a/**".into()]);
        }),
        ("files.hide", Shape, |s| s.files.hide = vec![".env".into()]),
        ("env", Claimed, |s| s.env.push(("A".into(), "b".into()))),
        ("env, a base variable", Claimed, |s| {
            s.env.push(("PATH".into(), "/opt/bin".into()));
        }),
        ("git_hosts", Claimed, |s| s.git_hosts.push("g.test".into())),
        ("limits.wall", Claimed, |s| s.limits.wall_seconds += 1),
        ("limits.egress", Claimed, |s| s.limits.egress_bytes += 1),
        ("limits.cpu", Shape, |s| s.limits.cpu_milli += 10),
        ("limits.memory", Shape, |s| s.limits.memory_bytes += 4096),
        ("limits.pids", Shape, |s| s.limits.pids += 1),
        ("limits.disk", Shape, |s| s.limits.disk_bytes += 3 << 20),
        ("ca_pem", Claimed, |s| s.ca_pem = "OTHER\n".into()),
        ("home, what a file says", Claimed, |s| {
            s.home.iter_mut().for_each(|file| file.text.push('x'));
        }),
        ("home, a file more", Shape, |s| {
            s.home.push(HomeFile {
                below: ".pgpass".into(),
                text: String::new(),
            });
        }),
        ("home, another place", Shape, |s| {
            if let Some(file) = s.home.first_mut() {
                file.below = ".npmrc".into();
            }
        }),
        ("uid_base", Shape, |s| s.uid_base += 65_536),
        ("guest", Shape, |s| {
            s.guest = VerifiedGuest::of_the_host(Path::new("/proc/version")).unwrap();
        }),
        ("guest_arguments", Shape, |s| {
            s.guest_arguments.push("--x".into());
        }),
        ("image", Shape, |s| {
            s.image = Some(ImageTree {
                root: "/images/abc/root".into(),
                parts: Vec::new(),
                env: Vec::new(),
                disk: None,
            });
        }),
    ]
}

/// Every change, and every two of different fields: the spare is the session's exactly when nothing
/// of its shape was changed.
#[test]
fn a_spare_is_a_sessions_only_if_all_but_what_it_brings_is_alike() {
    for level in [Level::Container, Level::Gvisor] {
        let spare = plan(&ahead(&session(level)), &facts()).unwrap();
        for (first, field, change) in changes() {
            for (second, other, change_again) in changes() {
                let mut wanted = session(level);
                change(&mut wanted);
                if first != second {
                    change_again(&mut wanted);
                }
                // Some two are of no plan at all.
                let wanted = plan(&wanted, &facts());
                let is_alike = field == Field::Claimed && other == Field::Claimed;
                let is_its = wanted.is_ok_and(|wanted| spare.brought(&wanted).is_some());
                assert_eq!(is_its, is_alike, "{first}, {second}");
            }
        }
    }
}

#[test]
fn a_session_brings_its_authority_its_git_hosts_and_its_files_of_home() {
    let wanted = session(Level::Gvisor);
    let spare = plan(&ahead(&wanted), &facts()).unwrap();
    let wanted = plan(&wanted, &facts()).unwrap();
    let brought = spare.brought(&wanted).unwrap();
    let paths: Vec<_> = brought
        .iter()
        .map(|(path, _)| path.to_str().unwrap())
        .collect();
    let expected = [
        "etc/ssl/certs/ca-certificates.crt",
        "etc/ssl/certs/torno-session-ca.pem",
        "etc/gitconfig",
        "home/agent/.netrc",
        "home/agent/.ssh/id_ed25519",
    ];
    assert_eq!(paths, expected);
    assert_eq!(spare.brought(&spare).unwrap(), []);
}

#[test]
fn a_persons_directory_and_rules_for_a_workspace_are_not_made_ahead() {
    let can = |workspace, files: &FileRules| {
        let spec = SandboxSpec {
            workspace,
            files: files.clone(),
            ..spec(Level::Container)
        };
        plan(&spec, &facts()).unwrap().can_be_made_ahead()
    };
    let rules = FileRules {
        write: None,
        hide: vec![".env".into()],
    };
    let none = FileRules::default();
    assert!(can(Workspace::None, &none) && can(Workspace::Copy, &none));
    // Without a workspace they rule nothing.
    assert!(can(Workspace::None, &rules));
    assert!(!can(Workspace::Copy, &rules));
}
