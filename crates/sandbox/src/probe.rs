// SPDX-License-Identifier: Apache-2.0
//! Does a level work here? Answered by a real start of a shell that says one word over its link,
//! not
//! by looking for device nodes or programs.

use crate::cgroup::CgroupError;
use crate::facts::HostFacts;
use crate::guarantees::{Guarantees, guarantees};
use crate::network::NetworkError;
use crate::plan::{PlanError, RUNSC_FIX, plan};
use crate::spec::{Level, SandboxId, SandboxSpec, VerifiedGuest, Workspace};
use crate::start::{StartError, StartInputs, start};
use std::error::Error;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use thiserror::Error;
use torno_policy::grant::{FileRules, HostLimits, Limits};

/// What a level lacks here, and what brings it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("isolation `{level}` does not work here: {part}")]
pub struct Missing {
    /// The level.
    pub level: &'static str,
    /// The absent part, in words.
    pub part: String,
    /// The command, or what else brings it. Empty where nothing is known to.
    pub fix: String,
}

const WORD: &[u8] = b"torno\n";
/// LIMIT: a started shell answers in milliseconds; the start itself has its own wait.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// Starts a sandbox of that level and hears it. The name is one that the caller has written down:
/// he knows what to end should he die meanwhile and be started again.
///
/// # Errors
/// [`Missing`] names the part and the command.
pub fn probe(
    level: Level,
    facts: &HostFacts,
    (id, uid_base): (&SandboxId, u32),
) -> Result<Guarantees, Missing> {
    let missing = |part: String, fix: &str| Missing {
        level: level.name(),
        part,
        fix: fix.to_owned(),
    };
    if let Err(refusal) = &facts.rights {
        return Err(missing(refusal.part.clone(), &refusal.fix));
    }
    if matches!(level, Level::Microvm | Level::Vm) {
        return crate::vm::probe(level, facts);
    }
    let spec = spec(level, id, uid_base).map_err(|part| missing(part, "apt-get install dash"))?;
    let plan = plan(&spec, facts).map_err(|error| missing(plan_part(&error), &plan_fix(&error)))?;
    let pair = UnixStream::pair().map_err(|error| missing(chain(&error), UNKNOWN))?;
    let (mut host, inside) = pair;
    let inputs = StartInputs {
        link: inside.into(),
        workspace: None,
        network: None,
    };
    let started =
        start(&plan, inputs).map_err(|error| missing(chain(&error), start_fix(&error)))?;
    let mut word = Vec::new();
    let heard = host
        .set_read_timeout(Some(ANSWER_WAIT))
        .and_then(|()| host.by_ref().take(WORD.len() as u64).read_to_end(&mut word));
    let removed = started.handle.remove();
    match (heard, removed) {
        (Ok(_), Ok(())) if word == WORD => {
            guarantees(level, facts).ok_or_else(|| missing("no runtime".to_owned(), UNKNOWN))
        }
        (Err(error), _) | (_, Err(error)) => Err(missing(chain(&error), UNKNOWN)),
        (Ok(_), Ok(())) => Err(missing(
            "the sandbox started but said nothing".to_owned(),
            UNKNOWN,
        )),
    }
}

/// Nothing is known to bring it; the part says what there is to say.
const UNKNOWN: &str = "";

fn plan_part(error: &PlanError) -> String {
    match error {
        // The fix is said beside it.
        PlanError::RuntimeMissing { .. } => "no runtime".to_owned(),
        error => error.to_string(),
    }
}

fn plan_fix(error: &PlanError) -> String {
    let fix = match error {
        PlanError::RuntimeMissing {
            level: "container", ..
        } => "apt-get install crun",
        PlanError::RuntimeMissing { fix, .. } => fix,
        PlanError::NftMissing => "apt-get install nftables",
        PlanError::RuntimeTooOld { .. } => RUNSC_FIX,
        PlanError::RuncNeedsRoot => "apt-get install crun",
        PlanError::MountBelow { mount, .. } => return format!("umount '{}'", mount.display()),
        _ => UNKNOWN,
    };
    fix.to_owned()
}

fn start_fix(error: &StartError) -> &'static str {
    match error {
        StartError::Network(NetworkError::NftMissing) => "apt-get install nftables",
        StartError::Network(NetworkError::Nft(_)) => "modprobe nf_tables",
        StartError::Cgroup(CgroupError::NoController(_)) => {
            "systemctl set-property tornod.service Delegate=yes"
        }
        StartError::Cgroup(CgroupError::Shared(_)) => "systemd-run --scope -p Delegate=yes tornod",
        _ => UNKNOWN,
    }
}

/// An error and its sources in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

/// The smallest sandbox of a level, with a shell that says one word.
pub(crate) fn spec(level: Level, id: &SandboxId, uid_base: u32) -> Result<SandboxSpec, String> {
    let shell = std::fs::canonicalize("/bin/sh").map_err(|error| error.to_string())?;
    let guest = VerifiedGuest::of_the_host(&shell).map_err(|error| chain(&error))?;
    Ok(SandboxSpec {
        id: id.clone(),
        level,
        also: Vec::new(),
        workspace: Workspace::None,
        files: FileRules::default(),
        env: Vec::new(),
        git_hosts: Vec::new(),
        home: Vec::new(),
        limits: Limits {
            wall_seconds: 10,
            idle_seconds: 10,
            cpu_milli: 1000,
            memory_bytes: 256 << 20,
            pids: 64,
            disk_bytes: 16 << 20,
            egress_bytes: 0,
            records: 0,
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
        ca_pem: String::new(),
        uid_base,
        guest,
        guest_arguments: vec![
            "-c".to_owned(),
            "echo torno >&0; read -r end <&0".to_owned(),
        ],
        image: None,
    })
}
