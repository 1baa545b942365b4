// SPDX-License-Identifier: Apache-2.0
//! What the desk asks. The desk is the people's side: it never sees a credential, and its word is
//! checked against the notary's own rows.

use crate::notary::{Notary, Now, Reaction};
use crate::refusals::{record_unavailable, refusal, session_unknown, undecidable, unlock_refusal};
use crate::sessions::cause;
use torno_audit::record::{Source, Verdict};
use torno_audit::{Digest, Durability, Event, List};
use torno_notary_protocol::desk::{DeskMessage, DeskReply, Fingerprint, SessionNote};
use torno_notary_protocol::gate::Ticket;
use torno_policy::decide::{decide, explain};
use torno_policy::decision::{Decision, Layer, Reason, Refusal};
use torno_policy::facts::Act;
use torno_policy::grant;
use torno_policy::names::{RecordSeq, SessionId};

impl Notary {
    /// Does what the desk asks.
    pub fn desk(&mut self, message: DeskMessage, now: Now) -> Reaction<DeskReply> {
        match message {
            DeskMessage::Begin(begin) => {
                let ticket = begin.ticket;
                let begun = self.begin(*begin, now);
                Reaction::reply(or_refused(
                    ticket,
                    begun.map(|begun| DeskReply::Begun(Box::new(begun))),
                ))
            }
            DeskMessage::Lock { ticket, session } => {
                done(ticket, self.lock(&session, now).map(Some))
            }
            DeskMessage::End {
                ticket,
                session,
                exit_status,
                cause: why,
            } => {
                let (record, effects) = self.end(&session, (cause(why), exit_status), now);
                Reaction {
                    effects,
                    ..done(ticket, record)
                }
            }
            DeskMessage::Kill { ticket, session } => self.desk_kill(ticket, session.as_ref(), now),
            DeskMessage::Pause { ticket, session } => self.desk_pause(ticket, &session, now),
            DeskMessage::Resume { ticket, session } => done(ticket, self.resume(&session, now)),
            DeskMessage::Checkpoint { ticket, change } => {
                done(ticket, self.checkpoint(change, now).map(Some))
            }
            DeskMessage::Killed {
                ticket,
                session,
                processes,
                leftovers,
            } => done(
                ticket,
                self.killed(&session, (processes, leftovers), now).map(Some),
            ),
            DeskMessage::Judge {
                ticket,
                session,
                act,
            } => Reaction::reply(or_refused(
                ticket,
                self.judge_tool(ticket, &session, &act, now),
            )),
            DeskMessage::Note { session, note } => self.desk_note(&session, note, now),
            DeskMessage::Explain {
                ticket,
                session,
                act,
            } => Reaction::reply(or_refused(
                ticket,
                self.explain(ticket, &session, &act, now),
            )),
            DeskMessage::Sessions { ticket } => Reaction::reply(DeskReply::Standings {
                ticket,
                sessions: self.standings(),
            }),
            DeskMessage::Fingerprints { ticket } => {
                Reaction::reply(or_refused(ticket, self.fingerprints(ticket)))
            }
        }
    }

    fn desk_kill(
        &mut self,
        ticket: Ticket,
        only: Option<&SessionId>,
        now: Now,
    ) -> Reaction<DeskReply> {
        if only.is_some_and(|id| !self.sessions.contains_key(id)) {
            return done(ticket, Err(session_unknown()));
        }
        let (kill, effects) = self.kill(only, now);
        let reply = kill.map(|kill| DeskReply::KillRecorded {
            ticket,
            sessions: kill.sessions,
            credentialed_writes: kill.credentialed_writes,
            placeholders: kill.placeholders,
        });
        Reaction {
            reply: Some(or_refused(ticket, reply)),
            effects,
        }
    }

    fn desk_pause(&mut self, ticket: Ticket, id: &SessionId, now: Now) -> Reaction<DeskReply> {
        let (record, effects) = self.pause(id, now);
        Reaction {
            effects,
            ..done(ticket, record)
        }
    }

    fn desk_note(&mut self, id: &SessionId, note: SessionNote, now: Now) -> Reaction<DeskReply> {
        self.note_session(id, note, now);
        Reaction {
            reply: None,
            effects: Vec::new(),
        }
    }

    fn judge_tool(
        &mut self,
        ticket: Ticket,
        id: &SessionId,
        act: &Act,
        now: Now,
    ) -> Result<DeskReply, Refusal> {
        let Act::Tool(facts) = act else {
            let hint = "requests are asked about by gates; the desk asks about tools";
            return Err(refusal(Reason::Undecidable, Layer::Tool, "judge", hint));
        };
        let facts = facts.clone();
        self.spend(Some(id), 1, now)?;
        let session = self.sessions.get(id).ok_or_else(session_unknown)?;
        let decision = decide(&self.layers(session, session.standing.generation, now), act);
        let (verdict, layer, rule, refused) = match decision {
            Decision::Allow(permit) => {
                (Verdict::Allow, permit.layer(), permit.rule().clone(), None)
            }
            Decision::Ask(asked) => {
                let hint = "a person must approve this and nobody can be asked";
                let reason = Reason::ApprovalUnavailable;
                let refused = refusal(reason, asked.layer, asked.rule.as_str(), hint);
                (Verdict::Ask, asked.layer, asked.rule, Some(refused))
            }
            Decision::Deny(refused) => {
                let rule = refused.rule.clone();
                (Verdict::Deny, refused.layer, rule, Some(refused))
            }
        };
        let arguments = facts.arguments.to_string();
        let event = Event::ToolDecided {
            tool: facts.tool,
            arguments_digest: Digest::of(arguments.as_bytes()),
            verdict,
            layer,
            rule: (&rule).into(),
            reason: refused.as_ref().map(|refused| refused.reason),
        };
        let batch = vec![(now.entry(Some(id.clone()), event), ())];
        let recorded = self.recorder.append(batch, Durability::Written);
        let recorded = recorded.map_err(|_| record_unavailable())?;
        match (refused, recorded.first()) {
            (Some(refused), _) => Err(refused),
            (None, Some(recorded)) => Ok(DeskReply::Permitted {
                ticket,
                record: recorded.seq(),
            }),
            (None, None) => Err(record_unavailable()),
        }
    }

    fn note_session(&mut self, id: &SessionId, note: SessionNote, now: Now) {
        if !self.sessions.contains_key(id) || self.spend(Some(id), 1, now).is_err() {
            return;
        }
        let event = match note {
            SessionNote::CommandStarted { exec, argv } => Event::CommandStarted {
                exec,
                argv: List::new(argv.iter().map(|argument| argument.as_str().into())),
                source: Source::HostObserved,
            },
            SessionNote::CommandEnded { exec, status } => Event::CommandEnded {
                exec,
                status,
                source: Source::GuestReported,
            },
            SessionNote::Hidden { place, shape } => Event::Hidden {
                place: place.as_str().into(),
                shape: shape.as_str().into(),
            },
            SessionNote::Forked { checkpoint, of } => Event::SessionForked { checkpoint, of },
            SessionNote::SandboxClaimed { sandbox } => Event::SandboxClaimed {
                sandbox: sandbox.as_str().into(),
            },
        };
        self.note(vec![(now.entry(Some(id.clone()), event), ())]);
    }

    /// Calls the same functions as enforcement does, and records nothing.
    fn explain(
        &self,
        ticket: Ticket,
        id: &SessionId,
        act: &Act,
        now: Now,
    ) -> Result<DeskReply, Refusal> {
        let session = self.sessions.get(id).ok_or_else(session_unknown)?;
        let layers = self.layers(session, session.standing.generation, now);
        let opinions = explain(&layers, act).layers;
        let opinions = opinions.into_iter().map(|opinion| {
            let verdict = match opinion.verdict() {
                grant::Verdict::Allow => "allow",
                grant::Verdict::Ask => "ask",
                grant::Verdict::Deny => "deny",
            };
            (opinion.layer, verdict.to_owned(), opinion.rule)
        });
        // What the rows allow is still a no while a credential can't be unlocked, to be put in or
        // to be searched for in the answer.
        let (decision, _) = self.releasable(decide(&layers, act));
        let (verdict, refusal) = match self.watches(decision, self.taken_up(id)).0 {
            Decision::Allow(_) => ("allow", None),
            Decision::Ask(_) => ("ask", None),
            Decision::Deny(refusal) => ("deny", Some(refusal)),
        };
        Ok(DeskReply::Explained {
            ticket,
            verdict: verdict.to_owned(),
            layers: opinions.collect(),
            refusal,
        })
    }

    fn fingerprints(&mut self, ticket: Ticket) -> Result<DeskReply, Refusal> {
        // A vault without credentials has nothing to search for, sealed or not.
        if self.vault.credentials(&self.tenant).next().is_none() {
            let fingerprints = Vec::new();
            return Ok(DeskReply::FingerprintSet {
                ticket,
                fingerprints,
            });
        }
        let made = self.vault.fingerprints(&self.tenant, &mut *self.entropy);
        let made = made.map_err(|error| unlock_refusal(&error))?;
        let mut fingerprints = Vec::with_capacity(made.len());
        for one in made {
            fingerprints.push(Fingerprint {
                credential: one.credential.to_string(),
                length: u32::try_from(one.length).map_err(|_| undecidable())?,
                rolling: one.rolling,
                base: one.base,
                salt: one.salt,
                digest: one.digest,
            });
        }
        Ok(DeskReply::FingerprintSet {
            ticket,
            fingerprints,
        })
    }
}

fn done(ticket: Ticket, record: Result<Option<RecordSeq>, Refusal>) -> Reaction<DeskReply> {
    let reply = record.map(|record| DeskReply::Done { ticket, record });
    Reaction::reply(or_refused(ticket, reply))
}

fn or_refused(ticket: Ticket, reply: Result<DeskReply, Refusal>) -> DeskReply {
    reply.unwrap_or_else(|refusal| DeskReply::Refused { ticket, refusal })
}
