// SPDX-License-Identifier: Apache-2.0
//! The image of a start: what the document's name stands for at this moment, or a refusal. From
//! here on the session is made of that, whatever the name stands for later. A machine's disk is
//! waited for.

use super::super::Desk;
use super::{level, out_of_turn};
use crate::orders::{LauncherReply, LauncherRequest};
use std::time::Duration;
use torno_control_api::request::{Failure, StartSession};
use torno_policy::grant::{Image, Isolation};
use torno_policy::names::ImageDigest;

/// LIMIT: between two looks at a disk that is being made. The launcher bounds the making.
const COMING_STEP: Duration = Duration::from_millis(100);

/// Asks the launcher, where the document wants another image than the host's.
pub(super) async fn find(
    desk: &Desk,
    wanted: &StartSession,
    isolation: Isolation,
) -> Result<Option<ImageDigest>, Failure> {
    let mut image = level::grant(wanted)?.sandbox.image;
    if image == Image::Host {
        return Ok(None);
    }
    loop {
        let request = LauncherRequest::FindImage { image, isolation };
        match desk.launcher.ask_for(&request, &[]).await?.0 {
            LauncherReply::Image {
                digest,
                is_there: true,
            } => return Ok(Some(digest)),
            // Its name may stand for another one by now.
            LauncherReply::Image { digest, .. } => image = Image::Exact(digest),
            _ => return Err(out_of_turn("launcher")),
        }
        tokio::time::sleep(COMING_STEP).await;
    }
}
