// SPDX-License-Identifier: Apache-2.0
//! Settings by their names: which of them a client may change, whichever way it says so.

use super::Token;

/// How values look, how long things may take, how plans are made. A name with a dot is an
/// extension's or an application's own.
const FREE: [&str; 22] = [
    "application_name",
    "bytea_output",
    "client_min_messages",
    "constraints",
    "datestyle",
    "extra_float_digits",
    "geqo",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "intervalstyle",
    "jit",
    "lock_timeout",
    "max_parallel_workers_per_gather",
    "random_page_cost",
    "schema",
    "search_path",
    "seed",
    "statement_timeout",
    "time",
    "timezone",
    "transaction",
    "work_mem",
];

/// Whether the keyword behind `SET` names one that a client may change.
pub(super) fn is_free(token: Token<'_>) -> bool {
    FREE.iter().any(|known| token.is(known))
}

/// What was read of the calls of `set_config` in a statement. A name that does not stand there as
/// one plain string could be any setting's.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Calls {
    /// None, or of settings that a client may change.
    #[default]
    Free,
    /// The name comes next.
    Opened,
    /// A free name came; a comma must follow.
    Named,
    /// One that is held, or not told.
    Held,
}

impl Calls {
    /// The next token, and the one before it.
    pub(super) fn push(&mut self, token: Token<'_>, before: Option<Token<'_>>) {
        *self = match (*self, token) {
            (Self::Held, _) => Self::Held,
            (Self::Opened, Token::Text(name)) if is_free_text(name) => Self::Named,
            (Self::Named, Token::Mark(b',')) => Self::Free,
            (Self::Opened | Self::Named, _) => Self::Held,
            (Self::Free, Token::Mark(b'(')) if before.is_some_and(is_set_config) => Self::Opened,
            (Self::Free, _) => Self::Free,
        };
    }

    pub(super) fn are_held(self) -> bool {
        self != Self::Free
    }
}

fn is_set_config(token: Token<'_>) -> bool {
    token.is_name("set_config")
}

/// The name of a setting in a string of plain letters.
fn is_free_text(name: &[u8]) -> bool {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.');
    let has_dot = name.contains(&b'.');
    name.iter().all(plain) && (has_dot || is_free(Token::Word(name)))
}
