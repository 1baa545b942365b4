// SPDX-License-Identifier: Apache-2.0
//! The client: connect, say who you are, call.

use crate::channel::Channel;
use crate::request::{ApiReply, ApiRequest};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use thiserror::Error;

/// Why a call got no reply.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CallError {
    /// Nobody listens, or the daemon went away in the middle.
    #[error("the desk at `{path}` does not answer; is tornod running?")]
    Unreachable {
        /// The socket.
        path: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The desk speaks another version.
    #[error("the desk's reply is not of this version; run the torno and tornod of one release")]
    Version,
    /// The token is not the desk's.
    #[error("the desk does not know this token; read it anew from `operator.token`")]
    Token,
}

/// A connection to the desk.
#[derive(Debug)]
pub struct Client {
    channel: Channel,
    path: String,
}

impl Client {
    /// Connects and authenticates.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn connect(socket: &Path, token: &str) -> Result<Self, CallError> {
        let path = socket.display().to_string();
        let channel = Channel::connect(socket).map_err(|source| CallError::Unreachable {
            path: path.clone(),
            source,
        })?;
        let client = Self { channel, path };
        let hello = ApiRequest::Authenticate {
            token: token.to_owned(),
        };
        match client.call(&hello, &[]).await?.0 {
            ApiReply::Authenticated => Ok(client),
            _ => Err(CallError::Token),
        }
    }

    /// Makes one request and waits for its reply and descriptors.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn call(
        &self,
        request: &ApiRequest,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(ApiReply, Vec<OwnedFd>), CallError> {
        let unreachable = |source| CallError::Unreachable {
            path: self.path.clone(),
            source,
        };
        let bytes = serde_json::to_vec(request).map_err(|_| CallError::Version)?;
        self.channel
            .send(&bytes, descriptors)
            .await
            .map_err(unreachable)?;
        let packet = self.channel.receive().await.map_err(unreachable)?;
        let packet = packet.ok_or_else(|| unreachable(io::ErrorKind::UnexpectedEof.into()))?;
        let reply = serde_json::from_slice(&packet.bytes).map_err(|_| CallError::Version)?;
        Ok((reply, packet.descriptors))
    }
}
