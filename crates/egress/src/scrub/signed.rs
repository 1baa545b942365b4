// SPDX-License-Identifier: Apache-2.0
//! Tokens that this gate signed: used again while they are young, so that a session has few of
//! them, and searched for in answers until no far end takes them any more.

use super::{Inner, Released};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use torno_policy::Refusal;
use torno_policy::names::Endpoint;
use zeroize::Zeroizing;

/// When a token is good for what, in Unix seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Term {
    /// It was made then.
    pub(crate) from: u64,
    /// It is used again before this.
    pub(crate) young_until: u64,
    /// It is searched for until this.
    pub(crate) dead_after: u64,
}

/// Tokens by what was signed, for whom and with what. Each is a secret of the session too, so there
/// are at most as many.
pub(super) type Tokens = HashMap<[u8; 32], (Token, Term)>;

/// One signed token.
pub(crate) type Token = Arc<Zeroizing<Vec<u8>>>;

impl Released {
    /// The token of this id, while it is young.
    pub(crate) fn signed(&self, id: &[u8; 32], now: u64) -> Option<Token> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        let (token, term) = inner.tokens.get(id)?;
        let is_young = (term.from..term.young_until).contains(&now);
        is_young.then(|| Arc::clone(token))
    }

    /// Keeps a token that was just signed. All answers are searched for its signature from now on,
    /// and no longer for those that are dead.
    pub(crate) fn keep_signed(
        &self,
        id: [u8; 32],
        (placeholder, endpoint): (&str, &Endpoint),
        token: Zeroizing<Vec<u8>>,
        term: Term,
    ) -> Result<Token, Refusal> {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.bury(term.from);
        let dot = token.iter().rposition(|byte| *byte == b'.');
        let signature = token.get(dot.map_or(0, |dot| dot + 1)..);
        let signature = signature.unwrap_or_default();
        self.add(&mut inner, placeholder, signature)?;
        if let Some(secret) = inner.secrets.iter_mut().find(|s| *s.value == *signature) {
            secret.dead_after = Some(term.dead_after);
        }
        inner.endpoints.insert(endpoint.clone());
        let token = Arc::new(token);
        inner.tokens.insert(id, (Arc::clone(&token), term));
        Ok(token)
    }
}

impl Inner {
    /// Forgets what no far end takes any more.
    fn bury(&mut self, now: u64) {
        self.secrets
            .retain(|secret| secret.dead_after.is_none_or(|dead| now <= dead));
        self.tokens.retain(|_, (_, term)| now <= term.dead_after);
    }
}
