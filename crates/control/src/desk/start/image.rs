// SPDX-License-Identifier: Apache-2.0
//! The image of a start: what the document's name stands for at this moment, or a refusal. From
//! here on the session is made of that, whatever the name stands for later.

use super::super::Desk;
use super::{internal, level, out_of_turn};
use crate::orders::{LauncherReply, LauncherRequest};
use torno_control_api::request::{Failure, StartSession};
use torno_policy::grant::Image;
use torno_policy::names::ImageDigest;

/// Asks the launcher, where the document wants another image than the host's.
pub(super) async fn find(
    desk: &Desk,
    wanted: &StartSession,
) -> Result<Option<ImageDigest>, Failure> {
    let image = level::grant(wanted)?.sandbox.image;
    if image == Image::Host {
        return Ok(None);
    }
    let request = LauncherRequest::FindImage { image };
    let asked = desk.launcher.ask(&request, &[]);
    match asked.await.map_err(|e| internal(&e))?.0 {
        LauncherReply::Image { digest } => Ok(Some(digest)),
        LauncherReply::Failed {
            code,
            message,
            hint,
        } => Err(Failure {
            code,
            message,
            hint,
        }),
        _ => Err(out_of_turn("launcher")),
    }
}
