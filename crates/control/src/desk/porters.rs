// SPDX-License-Identifier: Apache-2.0
//! Orders a porter for one job: a fresh process as the caller's user, with the job's directories.

use super::Desk;
use crate::orders::{Order, PorterJob, PorterReply, PorterTask};
use crate::role_channel::{receive, send};
use anyhow::Context;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use torno_control_api::channel::{self, Channel, Peer};
use torno_policy::names::SessionId;

/// Runs one job to its end. The descriptors are the job's, in [`PorterJob`]'s order.
pub(super) async fn run(
    desk: &Desk,
    session: &SessionId,
    caller: Peer,
    job: &PorterJob,
    give: &[BorrowedFd<'_>],
) -> anyhow::Result<PorterReply> {
    run_within(desk, session, caller, (job, None), give).await
}

/// The same, within a user namespace if one is given: where the owners of a running sandbox's files
/// are nobody outside of it.
pub(super) async fn run_within(
    desk: &Desk,
    session: &SessionId,
    caller: Peer,
    (job, within): (&PorterJob, Option<&OwnedFd>),
    give: &[BorrowedFd<'_>],
) -> anyhow::Result<PorterReply> {
    let (ours, theirs) = channel::pair().context("socket pair")?;
    let ours = Channel::new(ours)?;
    let order = Order::SpawnPorter {
        session: session.clone(),
        uid: caller.uid,
        gid: caller.gid,
    };
    let mut descriptors = vec![theirs.as_fd()];
    descriptors.extend_from_slice(give);
    descriptors.extend(within.map(AsFd::as_fd));
    {
        let _turn = desk.spawning.lock().await;
        let is_killed = desk.sessions.with(session, |row| row.is_killed);
        anyhow::ensure!(is_killed != Some(true), "the session was killed");
        desk.supervisor
            .send(&order.encode(), &descriptors)
            .await
            .context("the supervisor is gone")?;
    }
    drop(theirs);
    let task = PorterTask {
        job,
        within: within.is_some(),
    };
    send(&ours, &task, &[]).await?;
    let reply = receive::<PorterReply>(&ours).await?;
    reply
        .map(|(reply, _)| reply)
        .context("the porter ended without a reply")
}
