// SPDX-License-Identifier: Apache-2.0
//! `torno vault`: make, unseal and seal the vault.

use crate::context::Context;
use crate::notary::{Notary, unexpected};
use crate::secret_input::{self, Typed};
use crate::stop::{Outcome, Stop};
use std::path::PathBuf;
use torno_notary_protocol::operator::{OperatorReply, OperatorRequest, UnsealKind, VaultStatus};

/// The name of the systemd credential that unseals.
const SYSTEMD_CREDENTIAL: &str = "torno-unseal";

/// Make, unseal and seal the vault
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Vault {
    /// Make a vault, and say how it is unsealed from now on
    #[command(after_help = "Examples:
  torno vault init
  head -c 32 /dev/urandom > /root/unseal.key && torno vault init --key-file /root/unseal.key")]
    Init(With),
    /// Unseal: with a passphrase, a key file, or the systemd credential `torno-unseal`
    #[command(after_help = "Example: torno vault unseal")]
    Unseal(With),
    /// Drop every key: credentials are refused until unsealed again
    #[command(after_help = "Example: torno vault seal")]
    Seal,
    /// Sealed or not, and what is in it
    #[command(after_help = "Example: torno vault status --output json")]
    Status,
    /// A new tenant key; every credential's own key is wrapped anew
    #[command(name = "rotate-kek", after_help = "Example: torno vault rotate-kek")]
    RotateKek,
}

/// Where the secret that unseals comes from; a prompt or standard input when nothing is named.
#[derive(Debug, clap::Args)]
pub(crate) struct With {
    /// Read the passphrase from this file (one newline at its end is dropped)
    #[arg(long, value_name = "FILE", conflicts_with = "key_file")]
    passphrase_file: Option<PathBuf>,
    /// Use this file's bytes: 32 or more, random
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

/// Runs it.
pub(crate) async fn run(command: &Vault, context: &Context) -> Outcome<u8> {
    let notary = Notary::open(context).await?;
    let done = match command {
        Vault::Init(with) => {
            let (secret, unseal) = new_secret(with)?;
            context.progress("making the vault");
            let request = OperatorRequest::Init { unseal };
            expect_done(&notary.ask_with(&request, secret.into_transit()).await?)?;
            "the vault is made and unsealed; what unseals it can't be recovered when it is lost"
        }
        Vault::Unseal(with) => {
            let secret = known_secret(with, &status(&notary).await?, context)?;
            context.progress("unsealing");
            let reply = notary.ask_with(&OperatorRequest::Unseal, secret.into_transit());
            expect_done(&reply.await?)?;
            "the vault is unsealed"
        }
        Vault::Seal => {
            notary.done(&OperatorRequest::Seal).await?;
            "the vault is sealed; credentials are refused until `torno vault unseal`"
        }
        Vault::RotateKek => {
            context.progress("wrapping every key anew");
            notary.done(&OperatorRequest::RotateKek).await?;
            "the tenant key is a new one"
        }
        Vault::Status => {
            let status = status(&notary).await?;
            context.show(&status, &lines(&status))?;
            return Ok(0);
        }
    };
    context.show(&serde_json::json!({ "done": done }), &format!("{done}\n"))?;
    Ok(0)
}

fn new_secret(with: &With) -> Outcome<(Typed, UnsealKind)> {
    Ok(match (&with.passphrase_file, &with.key_file) {
        (_, Some(file)) => (
            secret_input::from_file(file)?.not_empty("key file")?,
            UnsealKind::KeyFile,
        ),
        (Some(file), None) => (
            passphrase(secret_input::from_file(file)?)?,
            UnsealKind::Passphrase,
        ),
        (None, None) => (secret_input::new_passphrase()?, UnsealKind::Passphrase),
    })
}

/// The secret for a vault that exists, in the form that its kind needs.
fn known_secret(with: &With, status: &VaultStatus, context: &Context) -> Outcome<Typed> {
    let Some(kind) = status.unseal.filter(|_| status.initialised) else {
        return Err(Stop::new("there is no vault yet").next("make one with `torno vault init`"));
    };
    let systemd = context
        .credentials
        .as_ref()
        .map(|dir| dir.join(SYSTEMD_CREDENTIAL));
    let systemd = systemd.filter(|file| file.is_file());
    let file = match kind {
        UnsealKind::Passphrase => with.passphrase_file.as_ref(),
        UnsealKind::KeyFile => with.key_file.as_ref(),
    };
    let other = match kind {
        UnsealKind::Passphrase => with.key_file.is_some(),
        UnsealKind::KeyFile => with.passphrase_file.is_some(),
    };
    match (kind, file.or(systemd.as_ref()), other) {
        (UnsealKind::Passphrase, _, true) => Err(Stop::new(
            "this vault is unsealed with a passphrase, not with a key file",
        )),
        (UnsealKind::KeyFile, _, true) => Err(Stop::new(
            "this vault is unsealed with a key file, not with a passphrase",
        )),
        (UnsealKind::Passphrase, Some(file), false) => passphrase(secret_input::from_file(file)?),
        (UnsealKind::Passphrase, None, false) => {
            passphrase(secret_input::from_stdin("Passphrase: ")?)
        }
        (UnsealKind::KeyFile, Some(file), false) => {
            secret_input::from_file(file)?.not_empty("key file")
        }
        (UnsealKind::KeyFile, None, false) => {
            Err(Stop::new("this vault is unsealed with a key file")
                .next("name it: `torno vault unseal --key-file FILE`"))
        }
    }
}

fn passphrase(typed: Typed) -> Outcome<Typed> {
    typed.without_newline().not_empty("passphrase")
}

async fn status(notary: &Notary) -> Outcome<VaultStatus> {
    match notary.ask(&OperatorRequest::Status).await? {
        OperatorReply::Status(status) => Ok(status),
        _ => Err(unexpected()),
    }
}

fn expect_done(reply: &OperatorReply) -> Outcome {
    match reply {
        OperatorReply::Done => Ok(()),
        _ => Err(unexpected()),
    }
}

fn lines(status: &VaultStatus) -> String {
    if !status.initialised {
        return "no vault; make one with `torno vault init`\n".to_owned();
    }
    let state = if status.sealed {
        "sealed; `torno vault unseal` opens it"
    } else {
        "unsealed"
    };
    let with = match status.unseal {
        Some(UnsealKind::Passphrase) => "a passphrase",
        Some(UnsealKind::KeyFile) => "a key file",
        None => "-",
    };
    format!(
        "state        {state}\nunseals with {with}\ncredentials  {}\ntenant key   version {}\n",
        status.credentials, status.kek_version
    )
}
