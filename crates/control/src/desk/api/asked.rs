// SPDX-License-Identifier: Apache-2.0
//! What is only asked, and changes no session: an explanation, what works here, a brain's token.

use super::super::pause::unknown;
use super::super::start::{internal, of_refusal, out_of_turn};
use super::Connection;
use sha2::{Digest, Sha256};
use torno_control_api::request::{ApiReply, Failure, LevelReport};
use torno_notary_protocol::desk::{DeskMessage, DeskReply};
use torno_policy::facts::Act;
use torno_policy::names::SessionId;

impl Connection {
    pub(super) async fn explain(
        &self,
        session: SessionId,
        act: Box<Act>,
    ) -> Result<ApiReply, Failure> {
        let explain = |ticket| DeskMessage::Explain {
            ticket,
            session,
            act,
        };
        match self
            .desk
            .notary
            .ask(explain)
            .await
            .map_err(|e| internal(&e))?
        {
            DeskReply::Explained {
                verdict,
                layers,
                refusal,
                ..
            } => {
                let layers = layers
                    .into_iter()
                    .map(|(layer, v, rule)| (layer, v, rule.to_string()));
                Ok(ApiReply::Explained {
                    verdict,
                    layers: layers.collect(),
                    refusal,
                })
            }
            DeskReply::Refused { refusal, .. } => Err(of_refusal(&refusal)),
            _ => Err(out_of_turn("notary")),
        }
    }

    pub(super) async fn doctor(&self) -> Result<ApiReply, Failure> {
        let levels = super::super::start::probed(&self.desk, None).await?;
        let report = |level: crate::orders::ProbeResult| {
            let mut lines = level.lines;
            lines.extend(
                level
                    .absent
                    .iter()
                    .map(|wall| format!("not at this level: {wall}")),
            );
            LevelReport {
                isolation: level.isolation,
                works: level.works,
                lines,
                fix: level.fix.filter(|fix| !fix.is_empty()),
            }
        };
        Ok(ApiReply::Doctor(levels.into_iter().map(report).collect()))
    }

    pub(super) fn brain_token(&self, session: SessionId) -> Result<ApiReply, Failure> {
        if self.desk.sessions.with(&session, |row| row.life.is_over()) != Some(false) {
            return Err(unknown(&session));
        }
        let mut random = [0_u8; 32];
        getrandom::fill(&mut random).map_err(|e| internal(&e.into()))?;
        let token = data_encoding::BASE64URL_NOPAD.encode(&random);
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        self.desk.brains.borrow_mut().insert(digest, session);
        Ok(ApiReply::Token { token })
    }
}
