// SPDX-License-Identifier: Apache-2.0
//! An order in two parts: the shape, which is fixed when a sandbox boots, and the session's own,
//! which comes in when a session has it. A sandbox made ahead has a shape and nothing else.

use super::images;
use super::levels;
use super::sandboxes::Failed;
use crate::orders::SandboxOrder;
use std::path::PathBuf;
use torno_control_api::images::Held;
use torno_policy::grant::{FileRules, HostLimits, Isolation, Limits, WorkspaceMode};
use torno_policy::names::{ImageDigest, TenantName};
use torno_sandbox::{AlsoDirectory, HomeFile, SandboxId, SandboxSpec, VerifiedGuest, Workspace};

/// What a boot fixes. Two orders of one shape differ only in what comes at the claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    /// Nobody gets what was made for another one's sessions.
    tenant: TenantName,
    isolation: Isolation,
    also: Vec<(PathBuf, PathBuf)>,
    workspace: WorkspaceMode,
    files: FileRules,
    /// Those of the group and the mounts; the others are zero.
    limits: Limits,
    /// Places of the files in the home directory.
    home: Vec<PathBuf>,
    /// What it is made of.
    image: Option<ImageDigest>,
}

/// What is one session's own.
pub(super) struct Own {
    env: Vec<(String, String)>,
    ca_pem: String,
    git_hosts: Vec<String>,
    /// What the files of the home directory say, in the order of their places.
    home: Vec<String>,
}

/// Who a sandbox is on this host.
pub(super) struct Identity<'a> {
    pub(super) id: &'a SandboxId,
    pub(super) uid_base: u32,
    /// Its agent waits for a host.
    pub(super) made_ahead: bool,
    /// What it is made of, held; nothing for the host's `/usr`.
    pub(super) image: Option<&'a Held>,
}

/// Takes an order apart.
pub(super) fn split(order: SandboxOrder) -> (Shape, Own) {
    // Without `..`: what an order gains belongs to one of the two, or to neither for a reason.
    let SandboxOrder {
        session: _,
        // Each has a sandbox of its own, made alike.
        phase: _,
        tenant,
        isolation,
        also,
        workspace,
        files,
        env,
        limits,
        ca_pem,
        git_hosts,
        home,
        image,
    } = order;
    let (places, texts) = home.into_iter().unzip();
    let shape = Shape {
        tenant,
        isolation,
        also,
        workspace,
        files,
        limits: of_the_boot(&limits),
        home: places,
        image,
    };
    let own = Own {
        env,
        ca_pem,
        git_hosts,
        home: texts,
    };
    (shape, own)
}

/// The limits that the kernel holds from the boot on; desk and gate hold the others.
fn of_the_boot(limits: &Limits) -> Limits {
    let Limits {
        cpu_milli,
        memory_bytes,
        pids,
        disk_bytes,
        wall_seconds: _,
        idle_seconds: _,
        egress_bytes: _,
        ingress_bytes: _,
        records: _,
        requests: _,
        rate: _,
        streams: _,
        each_host: _,
    } = *limits;
    Limits {
        cpu_milli,
        memory_bytes,
        pids,
        disk_bytes,
        wall_seconds: 0,
        idle_seconds: 0,
        egress_bytes: 0,
        ingress_bytes: 0,
        records: 0,
        requests: 0,
        rate: 0,
        streams: 0,
        each_host: HostLimits {
            requests: 0,
            egress_bytes: 0,
            ingress_bytes: 0,
            streams: 0,
        },
    }
}

impl Shape {
    /// The disk limit.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.limits.disk_bytes
    }

    /// Whose sessions have it.
    pub(super) fn tenant(&self) -> &TenantName {
        &self.tenant
    }

    /// The level.
    pub(super) fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// It has a kernel of its own, and shares no directory with the host.
    pub(super) fn is_machine(&self) -> bool {
        self.isolation.is_machine()
    }

    /// Whether there is a workspace.
    pub(super) fn has_workspace(&self) -> bool {
        self.workspace != WorkspaceMode::None
    }

    /// What it is made of; nothing for the host's `/usr`.
    pub(super) fn image(&self) -> Option<&ImageDigest> {
        self.image.as_ref()
    }

    /// Nothing of a session.
    pub(super) fn nobody(&self) -> Own {
        Own {
            env: Vec::new(),
            ca_pem: String::new(),
            git_hosts: Vec::new(),
            home: vec![String::new(); self.home.len()],
        }
    }

    /// The sandbox of this shape with what one session owns.
    pub(super) fn spec(
        &self,
        own: &Own,
        identity: &Identity<'_>,
        guest: VerifiedGuest,
    ) -> Result<SandboxSpec, Failed> {
        let also = self.also.iter().cloned();
        let also = also.map(|(host, inside)| AlsoDirectory { host, inside });
        let home = self.home.iter().cloned().zip(own.home.iter().cloned());
        let home = home.map(|(below, text)| HomeFile { below, text });
        let mut guest_arguments = levels::guest_arguments(self.has_workspace(), self.isolation);
        if identity.made_ahead {
            guest_arguments.push("--made-ahead".to_owned());
        }
        Ok(SandboxSpec {
            id: identity.id.clone(),
            level: levels::of(self.isolation)?,
            also: also.collect(),
            workspace: match self.workspace {
                WorkspaceMode::Copy => Workspace::Copy,
                WorkspaceMode::Bind => Workspace::Shared,
                WorkspaceMode::None => Workspace::None,
            },
            files: self.files.clone(),
            env: own.env.clone(),
            git_hosts: own.git_hosts.clone(),
            limits: self.limits.clone(),
            ca_pem: own.ca_pem.clone(),
            home: home.collect(),
            uid_base: identity.uid_base,
            guest,
            guest_arguments,
            image: identity.image.map(images::tree).transpose()?,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use torno_policy::names::SessionId;
    use torno_policy::standing::Phase;

    pub(in super::super) fn order() -> SandboxOrder {
        SandboxOrder {
            session: SessionId::parse("s1").unwrap(),
            phase: Phase::Locked,
            tenant: TenantName::parse("local").unwrap(),
            isolation: Isolation::Gvisor,
            also: vec![("/opt/tools".into(), "/opt/tools".into())],
            workspace: WorkspaceMode::None,
            files: FileRules::default(),
            env: vec![("A".into(), "b".into())],
            limits: Limits {
                wall_seconds: 1,
                idle_seconds: 2,
                cpu_milli: 1000,
                memory_bytes: 1 << 30,
                pids: 64,
                disk_bytes: 1 << 30,
                ..of_the_boot(&zero())
            },
            ca_pem: "CA".to_owned(),
            git_hosts: vec!["git.test".to_owned()],
            home: vec![(".netrc".into(), "decoy".to_owned())],
            image: None,
        }
    }

    fn zero() -> Limits {
        serde_json::from_str(
            r#"{"wall_seconds":0,"idle_seconds":0,"cpu_milli":0,"memory_bytes":0,"pids":0,
            "disk_bytes":0,"egress_bytes":0,"ingress_bytes":0,"records":0,"requests":0,"rate":0,
            "streams":0,"each_host":{"requests":0,"egress_bytes":0,"ingress_bytes":0,
            "streams":0}}"#,
        )
        .unwrap()
    }

    type Change = fn(&mut SandboxOrder);

    /// A change of each field, and whether the shape is another one then.
    const CHANGES: [(&str, bool, Change); 22] = [
        ("session", false, |o| {
            o.session = SessionId::parse("s2").unwrap();
        }),
        ("phase", false, |o| o.phase = Phase::Install),
        ("tenant", true, |o| {
            o.tenant = TenantName::parse("other").unwrap();
        }),
        ("isolation", true, |o| o.isolation = Isolation::Container),
        ("also", true, |o| o.also.clear()),
        ("workspace", true, |o| o.workspace = WorkspaceMode::Copy),
        ("workspace, bound", true, |o| {
            o.workspace = WorkspaceMode::Bind
        }),
        ("files", true, |o| o.files.hide.push(".env".into())),
        ("env", false, |o| o.env.clear()),
        ("ca_pem", false, |o| o.ca_pem.push('x')),
        ("git_hosts", false, |o| o.git_hosts.clear()),
        ("home, what is said", false, |o| o.home[0].1.push('x')),
        ("home, a place", true, |o| o.home[0].0 = ".npmrc".into()),
        ("home, one fewer", true, |o| o.home.clear()),
        ("image", true, |o| {
            let digest = format!("sha256:{}", "a".repeat(64));
            o.image = ImageDigest::parse(&digest).ok();
        }),
        ("cpu", true, |o| o.limits.cpu_milli += 1),
        ("memory", true, |o| o.limits.memory_bytes += 1),
        ("pids", true, |o| o.limits.pids += 1),
        ("disk", true, |o| o.limits.disk_bytes += 1),
        ("wall", false, |o| o.limits.wall_seconds += 1),
        ("idle", false, |o| o.limits.idle_seconds += 1),
        ("requests", false, |o| o.limits.each_host.requests += 1),
    ];

    /// Every change, and every two of them.
    #[test]
    fn orders_have_one_shape_unless_a_part_of_it_differs() {
        for (first, first_other, change) in CHANGES {
            for (second, second_other, change_again) in CHANGES {
                let mut changed = order();
                change(&mut changed);
                // Places that are gone can't be changed.
                if !changed.home.is_empty() {
                    change_again(&mut changed);
                }
                let is_other = first_other || second_other;
                let is_alike = split(changed).0 == split(order()).0;
                assert_eq!(is_alike, !is_other, "{first}, {second}");
            }
        }
    }

    #[test]
    fn a_shape_holds_nothing_of_a_session() {
        let (shape, _) = split(order());
        let nobody = shape.nobody();
        assert!(nobody.env.is_empty() && nobody.git_hosts.is_empty() && nobody.ca_pem.is_empty());
        assert_eq!(nobody.home, [String::new()]);
        let said = format!("{shape:?}");
        for own in ["s1", "CA", "git.test", "decoy", "\"b\""] {
            assert!(!said.contains(own), "{own} in {said}");
        }
    }
}
