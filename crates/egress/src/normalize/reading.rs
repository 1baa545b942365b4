// SPDX-License-Identifier: Apache-2.0
//! Bodies that are read before the question is asked, and what of them is part of it.

use super::content::CONTENT_BYTES_MAX;
use super::git::{CommandReader, Commands};
use super::{Payload, Request, content, git, slot};
use crate::head::list_members;
use crate::refuse::Fault;
use torno_policy::binding::Slot;
use torno_policy::facts::{BodySlot, GitOperation, Unread};

/// LIMIT: what is read of a push before its commands are whole, as sent.
const PUSH_BYTES_MAX: usize = 2 * git::COMMAND_BYTES_MAX;

/// What a body is read for before the question is asked.
pub(crate) enum Reading {
    /// The commands of a push, at its start.
    Push(Box<CommandReader>),
    /// What the notary wants to know, of the whole.
    Whole(Unread),
    /// All of it, for a signature that has to name its digest.
    Payload,
    /// The refresh token, of the whole.
    Refresh,
}

impl Request {
    /// Whether git commands stand at the start of the body and are part of the question.
    pub(crate) fn is_push(&self) -> bool {
        let git = &self.facts.git;
        git.as_ref()
            .is_some_and(|git| matches!(git.operation, GitOperation::Push(_)))
    }

    /// Whether the client signed a body and did not say its digest.
    pub(crate) fn has_unread_payload(&self) -> bool {
        let signed = self.signed.as_ref();
        signed.is_some_and(|signed| signed.payload == Payload::Unread)
    }

    /// A reader of the commands of this push.
    pub(crate) fn reading_push(&self) -> Result<Reading, Fault> {
        let commands = CommandReader::new(self.push_is_gzip()?);
        Ok(Reading::Push(Box::new(commands)))
    }

    /// What must be known of the head before the body is read. True when there is one to read.
    pub(crate) fn begin(&self, reading: &Reading) -> Result<bool, Fault> {
        match reading {
            Reading::Push(_) => Ok(true),
            Reading::Whole(Unread::Content(kind)) => content::head(self, *kind),
            Reading::Whole(Unread::Slot(slot)) => slot::head(self, slot),
            Reading::Payload => content::payload(self).map(|()| true),
            Reading::Refresh => Ok(true),
        }
    }

    /// Whether that was read already.
    pub(crate) fn has_read(&self, unread: &Unread) -> bool {
        match unread {
            Unread::Content(_) => self.facts.content.is_some(),
            Unread::Slot(_) => self.facts.body.is_some(),
        }
    }

    /// Takes what the start of the body says; false asks for more of it. `is_whole` says that no
    /// more comes.
    pub(crate) fn take(
        &mut self,
        reading: &mut Reading,
        body: &[u8],
        is_whole: bool,
    ) -> Result<bool, Fault> {
        match reading {
            Reading::Push(_) if body.len() > PUSH_BYTES_MAX => Err(git::too_many_references()),
            Reading::Push(commands) => {
                let is_taken = self.read_commands(commands, body)?;
                if is_whole && !is_taken {
                    return Err(Fault::malformed(
                        "end the commands of a push with a flush packet",
                    ));
                }
                Ok(is_taken)
            }
            Reading::Payload if body.len() > CONTENT_BYTES_MAX => Err(content::payload_too_large()),
            Reading::Payload if !is_whole => Ok(false),
            Reading::Payload => {
                if let Some(signed) = &mut self.signed {
                    signed.payload = Payload::of(body);
                }
                Ok(true)
            }
            Reading::Refresh if body.len() > CONTENT_BYTES_MAX => Err(slot::too_large()),
            Reading::Refresh if !is_whole => Ok(false),
            Reading::Refresh => self.read_refresh(body).map(|()| true),
            Reading::Whole(unread) if body.len() > CONTENT_BYTES_MAX => Err(match unread {
                Unread::Content(_) => content::too_large(),
                Unread::Slot(_) => slot::too_large(),
            }),
            Reading::Whole(_) if !is_whole => Ok(false),
            Reading::Whole(Unread::Content(kind)) => {
                self.facts.content = Some(content::read(self, *kind, body)?);
                Ok(true)
            }
            Reading::Whole(Unread::Slot(slot)) => self.read_slot(slot, body).map(|()| true),
        }
    }

    fn read_slot(&mut self, slot: &Slot, body: &[u8]) -> Result<(), Fault> {
        let spot = slot::read(self, slot, body)?;
        let presented = slot::presented(&spot.found, body)?;
        self.facts.presented.extend(presented);
        self.facts.body = Some(Box::new(BodySlot {
            slot: slot.clone(),
            held: spot.found.held,
        }));
        self.spot = Some(spot);
        Ok(())
    }

    /// How a push's body is encoded: not, or with gzip.
    fn push_is_gzip(&self) -> Result<bool, Fault> {
        let codings: Vec<_> = list_members(self.head.values("content-encoding")).collect();
        match codings
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .as_slice()
        {
            [] | ["identity"] => Ok(false),
            ["gzip" | "x-gzip"] => Ok(true),
            _ => Err(Fault::malformed("send a push not encoded, or with gzip")),
        }
    }

    /// Takes the commands at the start of a push's body; false asks for more of it.
    fn read_commands(&mut self, commands: &mut CommandReader, body: &[u8]) -> Result<bool, Fault> {
        let Some(git) = &mut self.facts.git else {
            return Ok(true);
        };
        match commands.read(body)? {
            Commands::More => Ok(false),
            Commands::Whole(updates) => {
                git.operation = GitOperation::Push(updates);
                Ok(true)
            }
        }
    }
}
