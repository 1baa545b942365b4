// SPDX-License-Identifier: Apache-2.0
//! What the notary is opened with: its files, its keys, the organisation's policy.

use crate::orders::Start;
use anyhow::{Context, ensure};
use rustix::fs::{Mode, OFlags};
use std::io::{Read, Write};
use std::path::Path;
use torno_audit::SigningKey;
use torno_notary::Config;
use torno_notary_protocol::receipt::ReceiptKey;
use torno_policy::names::TenantName;
use torno_policy::organisation::Organisation;
use torno_vault::SystemEntropy;
use zeroize::Zeroizing;

/// Reads and makes what the notary needs of its directory.
pub(super) fn config(start: &Start) -> anyhow::Result<Config> {
    let organisation = match &start.organisation {
        Some(text) => Organisation::parse(text)
            .map_err(|e| anyhow::anyhow!("organisation.cedar: {e}"))
            .context("mend it, then start tornod again; nothing is allowed without it")?,
        None => Organisation::shipped(),
    };
    Ok(Config {
        store: start.directory.join("notary.sqlite"),
        record: start.directory.join("record"),
        signing_key: signing_key(&start.directory.join("record.key"))?,
        receipt_key: ReceiptKey::new(start.receipt_key.context("no receipt key")?),
        tenant: TenantName::parse("local")?,
        organisation,
        software: concat!("tornod ", env!("CARGO_PKG_VERSION")).to_owned(),
        entropy: Box::new(SystemEntropy),
    })
}

/// The key that signs the record's checkpoints: made once, mode 0600, never replaced.
fn signing_key(path: &Path) -> anyhow::Result<SigningKey> {
    let about = || format!("`{}`", path.display());
    let mut seed = Zeroizing::new([0_u8; 32]);
    let flags = OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let fresh = flags | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    match rustix::fs::open(path, fresh, Mode::from_raw_mode(0o600)) {
        Ok(file) => {
            getrandom::fill(&mut *seed).context("no random bytes")?;
            let mut file = std::fs::File::from(file);
            file.write_all(&*seed)
                .and_then(|()| file.sync_all())
                .with_context(about)?;
        }
        Err(rustix::io::Errno::EXIST) => {
            let file = rustix::fs::open(path, flags | OFlags::RDONLY, Mode::empty());
            let mut file = std::fs::File::from(file.with_context(about)?);
            file.read_exact(&mut *seed).with_context(about)?;
            let rest = file.read(&mut [0_u8; 1]).with_context(about)?;
            ensure!(rest == 0, "`{}` is no key of 32 bytes", path.display());
        }
        Err(error) => return Err(error).with_context(about),
    }
    Ok(SigningKey::from_seed(&seed))
}
