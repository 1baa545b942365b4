// SPDX-License-Identifier: Apache-2.0
//! What each level promises, as data: what organisation policy can demand and what the banner at
//! the start prints. An absent wall is stated.

use crate::facts::HostFacts;
use crate::faults::{faults_of, version_of};
use crate::runtime::RuntimeKind;
use crate::spec::Level;

/// One wall, and whether it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wall {
    /// Its name in policy.
    pub name: &'static str,
    /// Whether it stands at this level.
    pub stands: bool,
    /// How, or why not.
    pub how: &'static str,
}

/// What a level promises here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guarantees {
    /// The level.
    pub level: Level,
    /// No boundary is claimed: nothing chooses it unless it is named.
    pub emulated: bool,
    /// What a workload has to break to leave.
    pub boundary: &'static str,
    /// Whose network stack parses the workload's packets.
    pub network_stack: &'static str,
    /// The runtime's own words on its version.
    pub runtime: String,
    /// The second walls, absent ones too.
    pub walls: Vec<Wall>,
    /// Known faults of this runtime version, for the operator.
    pub warnings: Vec<String>,
}

/// The promises of a level with the runtime of these facts; none without one.
#[must_use]
pub fn guarantees(level: Level, facts: &HostFacts) -> Option<Guarantees> {
    let (runtime, boundary, network_stack) = match level {
        Level::Container => (
            facts.container_runtime.as_ref()?,
            "the host's kernel, reached by the system calls of the allow-list",
            "the host's, in a sealed namespace",
        ),
        Level::Gvisor => (
            facts.gvisor_runtime.as_ref()?,
            "a user-space kernel, itself a confined process of the host",
            "the host's, in a sealed namespace",
        ),
        Level::Microvm | Level::Vm => {
            return Some(crate::vm::guarantees(level, facts.machine.as_ref()?));
        }
    };
    let is_container = level == Level::Container;
    let warnings = faults_of(runtime).map(|fault| {
        let version = version_of(runtime).map_or_else(
            || "unknown version".to_owned(),
            |version| version.to_string(),
        );
        format!(
            "{} {version} may have {} ({}), unless the distribution repaired it",
            runtime.kind.name(),
            fault.name,
            fault.what
        )
    });
    Some(Guarantees {
        level,
        emulated: false,
        boundary,
        network_stack,
        runtime: runtime.version.clone(),
        walls: walls(is_container, runtime.kind, facts.landlock_version),
        warnings: warnings.collect(),
    })
}

fn walls(is_container: bool, kind: RuntimeKind, landlock_version: u32) -> Vec<Wall> {
    let stands = |name, how| Wall {
        name,
        stands: true,
        how,
    };
    let absent = |name, how| Wall {
        name,
        stands: false,
        how,
    };
    vec![
        stands(
            "uid_range",
            "a host uid range of its own, mapped by a user namespace",
        ),
        stands(
            "no_capabilities",
            "all five capability sets are empty; uid 1000",
        ),
        stands("no_new_privs", "set-user-id programs gain nothing"),
        if is_container {
            stands("seccomp", "an allow-list for the native ABI alone")
        } else {
            stands(
                "seccomp",
                "the user-space kernel's own filter on the host's system calls",
            )
        },
        if is_container {
            stands("landlock", landlock(landlock_version))
        } else {
            absent("landlock", "the user-space kernel has none")
        },
        stands(
            "read_only_system",
            "/usr and the root directory are read-only mounts of the host's kernel",
        ),
        stands(
            "sealed_network",
            "loopback only; every TCP dial is captured, all else is dropped",
        ),
        stands("limits", "memory, processes and CPU by cgroups of the host"),
        if is_container {
            stands("inodes", "files in memory are counted")
        } else {
            absent(
                "inodes",
                "the user-space kernel doesn't count files in memory; the memory limit holds them",
            )
        },
        absent(
            "workspace_quota",
            "a workspace on disk is limited by its file system alone",
        ),
        if kind == RuntimeKind::Crun || kind == RuntimeKind::Runc {
            absent("own_kernel", "the host's kernel serves the workload")
        } else {
            stands("own_kernel", "system calls end in the user-space kernel")
        },
    ]
}

/// What the wall holds back depends on the kernel (landlock(7), "Compatibility").
fn landlock(version: u32) -> &'static str {
    match version {
        6.. => "raised inside by the agent on each program it runs",
        3..6 => {
            "raised inside by the agent on each program it runs; on this kernel programs may \
             signal the agent's own processes"
        }
        _ => {
            "raised inside by the agent on each program it runs; on this kernel programs may \
             signal the agent's own processes, and only read-only mounts hold back truncation"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::facts;

    #[test]
    fn both_levels_state_the_same_walls_and_which_are_absent() {
        let names = |level| -> Vec<&'static str> {
            guarantees(level, &facts())
                .unwrap()
                .walls
                .iter()
                .map(|wall| wall.name)
                .collect()
        };
        assert_eq!(names(Level::Container), names(Level::Gvisor));
        let absent = |level| -> Vec<&'static str> {
            let all = guarantees(level, &facts()).unwrap().walls;
            all.into_iter()
                .filter(|wall| !wall.stands)
                .map(|wall| wall.name)
                .collect()
        };
        assert_eq!(absent(Level::Container), ["workspace_quota", "own_kernel"]);
        assert_eq!(
            absent(Level::Gvisor),
            ["landlock", "inodes", "workspace_quota"]
        );
        assert_eq!(guarantees(Level::Microvm, &facts()), None);
        let with_parts = crate::vm::tests::facts();
        for level in [Level::Microvm, Level::Vm] {
            let machine = guarantees(level, &with_parts).unwrap();
            let walls: Vec<_> = machine.walls.iter().map(|wall| wall.name).collect();
            assert_eq!(walls, names(Level::Gvisor));
            assert!(machine.emulated && machine.boundary.starts_with("none claimed"));
        }
    }

    #[test]
    fn an_older_landlock_says_what_it_leaves_out() {
        let how = |landlock_version| {
            let facts = HostFacts {
                landlock_version,
                ..facts()
            };
            let walls = guarantees(Level::Container, &facts).unwrap().walls;
            let wall = walls.into_iter().find(|wall| wall.name == "landlock");
            wall.unwrap().how
        };
        assert!(!how(6).contains("this kernel"));
        assert!(how(3).contains("signal") && !how(3).contains("truncation"));
        assert!(how(2).contains("signal") && how(2).contains("truncation"));
    }
}
