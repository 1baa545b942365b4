// SPDX-License-Identifier: Apache-2.0
//! Before the agent serves anything: nothing came in but the standard descriptors, and the host has
//! said its first word.

use anyhow::{Context as _, bail};
use tokio::io::AsyncReadExt as _;
use torno_guest_protocol::{Frame, HostDecoder, HostMessage, PROTOCOL_VERSION};

use crate::link::Reader;

/// The host's first message.
pub(super) async fn greeting(link: &mut Reader, decoder: &mut HostDecoder) -> anyhow::Result<()> {
    let mut buffer = [0; 1_024];
    loop {
        match decoder.next_frame()? {
            Some(Frame::Control(HostMessage::Hello {
                version: PROTOCOL_VERSION,
            })) => return Ok(()),
            Some(Frame::Control(HostMessage::Hello { version })) => {
                bail!("the host speaks version {version}, we {PROTOCOL_VERSION}; use one release")
            }
            Some(_) => bail!("the host did not greet first"),
            None => {}
        }
        let count = link
            .read(&mut buffer)
            .await
            .context("cannot read the link")?;
        if count == 0 {
            bail!("the link closed before the greeting");
        }
        decoder.push(buffer.get(..count).unwrap_or_default());
    }
}

/// Only the three standard descriptors may come in: a forgotten one would be a way out.
pub(super) fn refuse_inherited_descriptors() -> anyhow::Result<()> {
    let mut open = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd").context("cannot list own descriptors")? {
        open.extend(
            entry?
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<u32>().ok()),
        );
    }
    // One of them is the listing's own, closed by now.
    let still_open = open
        .into_iter()
        .filter(|fd| *fd > 2 && std::fs::symlink_metadata(format!("/proc/self/fd/{fd}")).is_ok());
    let extra: Vec<u32> = still_open.collect();
    if !extra.is_empty() {
        bail!("inherited descriptors {extra:?}; the launcher must pass only the standard three");
    }
    Ok(())
}
