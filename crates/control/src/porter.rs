// SPDX-License-Identifier: Apache-2.0
//! The porter: one job on files, as the caller's user, with nothing reachable but the job's
//! directories. It walks by handle, never follows a link, and leaves special files out.

mod apply;
mod changes;
mod commits;
mod copy;
mod diff;
mod pack;
mod place;
mod protected;
mod sync;
mod tree;
mod unpack;

use crate::confine::{self, Reach};
use crate::orders::{PorterJob, PorterReply, PorterTask};
use crate::role_channel::{exactly, receive, send};
use crate::roles::Role;
use anyhow::Context;
use std::os::fd::{AsFd, OwnedFd};
use torno_control_api::channel::Channel;
use torno_notary_protocol::desk::Fingerprint;

/// Does one job and ends; with the supervisor it ends at once, or it would go on writing into the
/// directories that the next start removes.
pub(crate) async fn run(supervisor: Channel) -> anyhow::Result<()> {
    end_with_the(&supervisor)?;
    let packet = supervisor.receive().await?.context("no job")?;
    let mut descriptors = packet.descriptors.into_iter();
    let desk = Channel::new(descriptors.next().context("no channel to the desk")?)?;
    let mut job_descriptors: Vec<OwnedFd> = descriptors.collect();
    let (task, _) = receive::<PorterTask>(&desk).await?.context("no job")?;
    let PorterTask { job, within } = task;
    if within {
        let namespace = job_descriptors.pop().context("no namespace")?;
        enter(&namespace).context("the namespace of the sandboxes' ids")?;
        end_with_the(&supervisor)?;
    }
    let reach: Vec<_> = job_descriptors
        .iter()
        .enumerate()
        .filter(|(_, fd)| is_directory(fd))
        .map(|(at, fd)| Reach {
            place: fd.as_fd(),
            write: writes(&job, at),
        })
        .collect();
    confine::role(Role::Porter, &reach)?;
    let reply = do_job(job, job_descriptors);
    let reply = reply.unwrap_or_else(|e| PorterReply::Failed {
        message: format!("{e:#}"),
    });
    send(&desk, &reply, &[]).await
}

/// Becomes root of the user namespace that an ordinary user's launcher made, where the files of its
/// sandboxes have owners, and keeps of that only what reading and writing them takes.
/// It reaches no more than its job's directories all the same.
fn enter(namespace: &OwnedFd) -> anyhow::Result<()> {
    use rustix::thread::{
        CapabilitySet, CapabilitySets, LinkNameSpaceType, move_into_link_name_space,
    };
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::User))?;
    let files = CapabilitySet::DAC_OVERRIDE | CapabilitySet::CHOWN;
    let sets = CapabilitySets {
        effective: files,
        permitted: files,
        inheritable: CapabilitySet::empty(),
    };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

/// From here on the kernel ends this process with its parent; one that was gone before has left a
/// closed channel, since a process gives its descriptors back before it is told of as dead.
fn end_with_the(supervisor: &Channel) -> anyhow::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    anyhow::ensure!(!supervisor.is_closed()?, "the supervisor is gone");
    Ok(())
}

/// Which of a job's directories is written.
fn writes(job: &PorterJob, at: usize) -> bool {
    match job {
        PorterJob::CopyIn { .. } | PorterJob::Checkpoint { .. } => at == 1,
        PorterJob::Apply { .. } | PorterJob::Unpack { .. } => at == 0,
        PorterJob::Sync(_) => at <= 1,
        PorterJob::Diff
        | PorterJob::Commits
        | PorterJob::Note
        | PorterJob::Count
        | PorterJob::Pack { .. }
        | PorterJob::Show { .. } => false,
    }
}

fn is_directory(fd: &OwnedFd) -> bool {
    let kind = rustix::fs::fstat(fd).map(|s| rustix::fs::FileType::from_raw_mode(s.st_mode));
    matches!(kind, Ok(rustix::fs::FileType::Directory))
}

fn do_job(job: PorterJob, descriptors: Vec<OwnedFd>) -> anyhow::Result<PorterReply> {
    match job {
        PorterJob::CopyIn {
            fingerprints,
            bytes_max,
            only,
            hide,
        } => {
            let [source, target, baseline] = exactly(descriptors)?;
            let rules = copy::Rules {
                fingerprints,
                bytes_max,
                only,
                hide,
                limit: "limits.disk",
            };
            copy::copy_in(&source, &target, Some(baseline), &rules)
        }
        PorterJob::Checkpoint {
            fingerprints,
            bytes_max,
        } => {
            let [source, target] = exactly(descriptors)?;
            keep(&source, &target, fingerprints, bytes_max)
        }
        PorterJob::Sync(rules) => sync::round(sync::Round::of(descriptors)?, &rules),
        PorterJob::Note => {
            let [directory, baseline] = exactly(descriptors)?;
            changes::write_baseline(&directory, baseline)
        }
        PorterJob::Count => {
            let [changed, baseline] = exactly(descriptors)?;
            let changes = changes::of(&changed, &changes::read_baseline(baseline)?)?;
            Ok(PorterReply::Done {
                changed: u32::try_from(changes.len()).unwrap_or(u32::MAX),
            })
        }
        PorterJob::Pack { bytes_max, hide } => {
            let [directory, stream] = exactly(descriptors)?;
            pack::write(&directory, stream, bytes_max, &hide)
        }
        PorterJob::Show {
            fingerprints,
            bytes_max,
        } => {
            let [directory, stream] = exactly(descriptors)?;
            pack::shown::write(&directory, stream, bytes_max, &fingerprints)
        }
        PorterJob::Unpack { bytes_max, files } => {
            let [target, before, stream] = exactly(descriptors)?;
            unpack::read(&target, &before, stream, bytes_max, &files)
        }
        PorterJob::Commits => {
            let [changed, pipe] = exactly(descriptors)?;
            commits::send(&changed, pipe)
        }
        PorterJob::Diff => {
            let [original, changed, baseline, pipe] = exactly(descriptors)?;
            diff::write(&original, &changed, baseline, pipe)
        }
        PorterJob::Apply { paths, confirmed } => {
            let [target, changed, baseline, pipe] = exactly(descriptors)?;
            let wanted = apply::Wanted { paths, confirmed };
            apply::bring_back(&target, &changed, baseline, pipe, &wanted)
        }
    }
}

/// Copies what a session had onto the disk.
fn keep(
    source: &OwnedFd,
    target: &OwnedFd,
    fingerprints: Vec<Fingerprint>,
    bytes_max: u64,
) -> anyhow::Result<PorterReply> {
    let rules = copy::Rules {
        fingerprints,
        bytes_max,
        only: None,
        // It never entered what is copied here.
        hide: Vec::new(),
        limit: "what is left of `checkpoint_mib` in tornod.toml",
    };
    let copied = copy::copy_in(source, target, None, &rules)?;
    rustix::fs::syncfs(target).context("the copy does not reach the disk")?;
    Ok(copied)
}
