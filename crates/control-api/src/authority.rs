// SPDX-License-Identifier: Apache-2.0
//! Who may ask what: one table, read by the desk before anything else happens with a request.
//!
//! | request | operator | brain of the session | brain of another |
//! |---|---|---|---|
//! | start, kill all, doctor, brain token, apply, commits, sessions (all) | yes | no | no |
//! | leftovers, pause, resume, checkpoints | yes | no | no |
//! | exec, attach, sessions (own), stop, kill (own), diff, explain | yes | yes | no |
//!
//! Vault, policy acceptance and the record are not here at all: they are the notary's own socket.

use crate::request::ApiRequest;
use torno_policy::names::SessionId;

/// Who is at the other end of a connection, known from the token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// Has not said yet.
    Unknown,
    /// A person with the operator's token.
    Operator,
    /// The brain of one session.
    Brain(SessionId),
}

/// Whether the caller may make the request. `Authenticate` is always taken.
#[must_use]
pub fn may(caller: &Caller, request: &ApiRequest) -> bool {
    if matches!(request, ApiRequest::Authenticate { .. }) {
        return true;
    }
    match caller {
        Caller::Unknown => false,
        Caller::Operator => true,
        Caller::Brain(own) => session_of(request) == Some(own),
    }
}

/// The session that a brain's request is about; `None` for what no brain may ask.
fn session_of(request: &ApiRequest) -> Option<&SessionId> {
    match request {
        ApiRequest::Exec(exec) => Some(&exec.session),
        ApiRequest::Attach { session, .. }
        | ApiRequest::Stop { session }
        | ApiRequest::Diff { session }
        | ApiRequest::Explain { session, .. } => Some(session),
        ApiRequest::Sessions { session } | ApiRequest::Kill { session } => session.as_ref(),
        ApiRequest::Authenticate { .. }
        | ApiRequest::Start(_)
        | ApiRequest::Apply { .. }
        | ApiRequest::Commits { .. }
        // A person's brake: who is held by it must not let it go.
        | ApiRequest::Pause { .. }
        | ApiRequest::Resume { .. }
        | ApiRequest::Checkpoint { .. }
        | ApiRequest::Checkpoints
        | ApiRequest::RemoveCheckpoint { .. }
        | ApiRequest::Doctor
        | ApiRequest::Leftovers { .. }
        | ApiRequest::IssueBrainToken { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // ATTACK: 126
    #[test]
    fn a_brain_reaches_its_own_session_and_nothing_else() {
        let own = SessionId::parse("own").unwrap();
        let other = SessionId::parse("other").unwrap();
        let brain = Caller::Brain(own.clone());
        assert!(may(
            &brain,
            &ApiRequest::Stop {
                session: own.clone()
            }
        ));
        assert!(may(&brain, &ApiRequest::Kill { session: Some(own) }));
        for request in [
            ApiRequest::Stop {
                session: other.clone(),
            },
            ApiRequest::Kill {
                session: Some(other.clone()),
            },
            ApiRequest::Kill { session: None },
            ApiRequest::Sessions { session: None },
            ApiRequest::Diff {
                session: other.clone(),
            },
            ApiRequest::Doctor,
            ApiRequest::Leftovers { remove: false },
            ApiRequest::Pause {
                session: SessionId::parse("own").unwrap(),
            },
            ApiRequest::Resume {
                session: SessionId::parse("own").unwrap(),
            },
            ApiRequest::Checkpoint {
                session: SessionId::parse("own").unwrap(),
                name: None,
            },
            ApiRequest::Checkpoints,
            ApiRequest::Commits {
                session: SessionId::parse("own").unwrap(),
            },
            ApiRequest::IssueBrainToken { session: other },
        ] {
            assert!(!may(&brain, &request), "{request:?}");
        }
    }

    // ATTACK: 127
    #[test]
    fn without_a_token_nothing_is_answered() {
        assert!(!may(&Caller::Unknown, &ApiRequest::Doctor));
        assert!(!may(
            &Caller::Unknown,
            &ApiRequest::Sessions { session: None }
        ));
    }
}
