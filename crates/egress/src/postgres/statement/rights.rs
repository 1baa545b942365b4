// SPDX-License-Identifier: Apache-2.0
//! Words by which a statement leaves rights behind, wherever in it they stand: `GRANT` within
//! `CREATE SCHEMA`, a new owner, a function that acts as whoever made it.

use super::Token;

/// What was seen of them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rights {
    /// `GRANT`, `AUTHORIZATION`, `OWNER TO`, `SECURITY DEFINER`, `ROW LEVEL SECURITY`.
    pub(super) are_given: bool,
    /// `OWNER`, which `CREATE DATABASE` has without `TO`.
    pub(super) has_owner: bool,
    /// `PROGRAM`, in quotes too, as an option of a foreign table has it.
    pub(super) has_program: bool,
}

impl Rights {
    /// The next token, and the one before it.
    pub(super) fn push(&mut self, token: Token<'_>, before: Option<Token<'_>>) {
        let follows = |word| before.is_some_and(|before| before.is(word));
        self.are_given |= token.is("grant")
            || token.is("authorization")
            || (token.is("to") && follows("owner"))
            || (token.is("definer") && follows("security"))
            || (token.is("security") && follows("level"));
        self.has_owner |= token.is("owner");
        self.has_program |= token.is_name("program");
    }
}
