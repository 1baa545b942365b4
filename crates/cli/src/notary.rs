// SPDX-License-Identifier: Apache-2.0
//! The notary as a command sees it, on its own socket: vault, accepted documents, the record.
//! A secret goes there as a frame's attachment, from here straight to it.

use crate::context::Context;
use crate::daemon;
use crate::printable;
use crate::stop::{Outcome, Stop};
use std::time::Duration;
use torno_control_api::channel::Channel;
use torno_notary_protocol::operator::{OperatorReply, OperatorRequest};
use torno_notary_protocol::transit::{self, CredentialInTransit};
use torno_policy::document::{DocumentDigest, Preset, Presets};

/// LIMIT: Argon2id on a small machine takes seconds; a new tenant key wraps every credential anew.
const REPLY_WAIT: Duration = Duration::from_secs(120);

/// A connection to the notary.
#[derive(Debug)]
pub(crate) struct Notary {
    channel: Channel,
}

impl Notary {
    /// Connects; starts the daemon where that is allowed.
    pub(crate) async fn open(context: &Context) -> Outcome<Self> {
        daemon::ensure(context, &context.paths.notary_socket()).await?;
        Self::connect(context)
    }

    /// Connects to a daemon that runs; never starts one.
    pub(crate) fn connect(context: &Context) -> Outcome<Self> {
        let path = context.paths.notary_socket();
        let channel = Channel::connect(&path).map_err(|error| {
            Stop::new(format!("nobody answers at `{}`", path.display()))
                .because(&error)
                .next("start `tornod`, and run this as its user")
        })?;
        Ok(Self { channel })
    }

    /// Asks without a secret.
    pub(crate) async fn ask(&self, request: &OperatorRequest) -> Outcome<OperatorReply> {
        self.send(request, &[]).await
    }

    /// Asks with a secret as attachment 0.
    pub(crate) async fn ask_with(
        &self,
        request: &OperatorRequest,
        secret: CredentialInTransit,
    ) -> Outcome<OperatorReply> {
        self.send(request, &[secret]).await
    }

    /// Whether a document's digest was accepted.
    pub(crate) async fn accepted(&self, digest: DocumentDigest) -> Outcome<bool> {
        let digest = hex(digest);
        match self.ask(&OperatorRequest::Accepted { digest }).await? {
            OperatorReply::Accepted(accepted) => Ok(accepted),
            _ => Err(unexpected()),
        }
    }

    /// Accepts a document's digest.
    pub(crate) async fn accept(&self, digest: DocumentDigest) -> Outcome {
        let digest = hex(digest);
        self.done(&OperatorRequest::Accept { digest }).await
    }

    /// The presets that the operator confirmed.
    pub(crate) async fn presets(&self) -> Outcome<Presets> {
        let OperatorReply::Presets { presets } = self.ask(&OperatorRequest::Presets).await? else {
            return Err(unexpected());
        };
        presets
            .into_iter()
            .try_fold(Presets::shipped(), |known, row| {
                let preset = Preset::parse(&row.text).map_err(|_| unexpected())?;
                Ok(known.with(row.name, preset))
            })
    }

    /// Asks for something that is done or fails.
    pub(crate) async fn done(&self, request: &OperatorRequest) -> Outcome {
        match self.ask(request).await? {
            OperatorReply::Done => Ok(()),
            _ => Err(unexpected()),
        }
    }

    async fn send(
        &self,
        request: &OperatorRequest,
        secrets: &[CredentialInTransit],
    ) -> Outcome<OperatorReply> {
        let lost = |error: &(dyn std::error::Error + 'static)| {
            Stop::new("the notary can't be asked")
                .because(error)
                .next("look at `torno doctor` and the daemon's log")
        };
        let frame = transit::encode(request, secrets).map_err(|error| lost(&error))?;
        let exchange = async {
            self.channel.send(&frame, &[]).await?;
            self.channel.receive().await
        };
        let packet = tokio::time::timeout(REPLY_WAIT, exchange)
            .await
            .map_err(|error| lost(&error))?
            .map_err(|error| lost(&error))?;
        let packet = packet.ok_or_else(|| {
            Stop::new("the notary closed the connection").next(
                "only the owner of the daemon may speak to it: run this as that user, or as root",
            )
        })?;
        let (reply, _) =
            transit::decode::<OperatorReply>(&packet.bytes).map_err(|error| lost(&error))?;
        match reply {
            OperatorReply::Failed { code, message } => {
                Err(Stop::new(printable::line(&message)).code(printable::line(&code)))
            }
            OperatorReply::Refused(refusal) => Err(Stop::new(format!(
                "refused by {}",
                printable::line(refusal.rule.as_str())
            ))
            .code(refusal.reason.code())
            .next(printable::line(&refusal.hint))),
            reply => Ok(reply),
        }
    }
}

/// A digest as the notary is told it.
pub(crate) fn hex(digest: DocumentDigest) -> String {
    data_encoding::HEXLOWER.encode(&digest.0)
}

/// A reply of another kind than the request has.
pub(crate) fn unexpected() -> Stop {
    Stop::new("the notary's reply is none to this request")
        .next("run the torno and tornod of one release")
}
