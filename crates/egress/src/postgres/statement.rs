// SPDX-License-Identifier: Apache-2.0
//! What a text of SQL would do, as far as its words tell. This is the second check: at a binding
//! that reads the server itself is told to refuse what writes. What is not known to read, writes.

use super::lexer::{Token, Tokens, Unclear};

/// What statements do, the strongest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Transactions, settings that are taken, nothing.
    Session,
    /// Reads.
    Read,
    /// Writes, or may.
    Write,
    /// Changes what the gate or the binding holds: who acts, how text is read.
    Held,
    /// Makes a login, changes a password, gives rights: it would outlive the session.
    Authority,
}

/// A text after it was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Judged {
    pub(crate) class: Class,
    /// How many statements it has.
    pub(crate) count: usize,
    /// Whether one of them begins or ends a transaction.
    pub(crate) is_transaction: bool,
}

/// Looks at a text.
pub(crate) fn judge(text: &[u8]) -> Judged {
    let unclear = Judged {
        class: Class::Write,
        count: 1,
        is_transaction: false,
    };
    statements(text).unwrap_or(unclear)
}

fn statements(text: &[u8]) -> Result<Judged, Unclear> {
    let mut all = Judged {
        class: Class::Session,
        count: 0,
        is_transaction: false,
    };
    let mut tokens = Tokens::new(text);
    let mut words = Words::default();
    loop {
        let token = tokens.next()?;
        match token {
            Some(token) if token != Token::End => words.push(token),
            Some(_) | None => {
                if words.count > 0 {
                    all.count += 1;
                    all.class = all.class.max(words.class());
                    all.is_transaction |= words.is_transaction();
                    words = Words::default();
                }
                if token.is_none() {
                    return Ok(all);
                }
            }
        }
    }
}

/// LIMIT: the first tokens of a statement, which say its kind.
const FIRST_MAX: usize = 8;

/// What is kept of one statement.
#[derive(Default)]
struct Words<'a> {
    first: [Option<Token<'a>>; FIRST_MAX],
    count: usize,
    /// A word that only writing has.
    writes: bool,
    /// A function that acts, or runs text that nobody looked at.
    acts: bool,
    /// `TO STDOUT` was the last that was said of where to.
    to_stdout: bool,
    has_from: bool,
    has_program: bool,
    /// `WRITE` or `PREPARED`, wherever it stands: `BEGIN … , READ WRITE`, `COMMIT PREPARED`.
    has_mode: bool,
    depth: usize,
    last: Option<Token<'a>>,
}

/// Words that no statement has which only reads.
const WRITING: [&str; 8] = [
    "insert", "update", "delete", "merge", "into", "create", "refresh", "program",
];

/// Functions that change settings, act beside the transaction, or run a text: by name or by the
/// beginning of it.
const ACTING: [&str; 22] = [
    "set_config",
    "dblink",
    "lo_",
    "loread",
    "lowrite",
    "query_to_xml",
    "cursor_to_xml",
    "table_to_xml",
    "schema_to_xml",
    "database_to_xml",
    "ts_stat",
    "ts_rewrite",
    "crosstab",
    "connectby",
    "pg_notify",
    "pg_terminate_",
    "pg_cancel_",
    "pg_reload_",
    "pg_rotate_",
    "pg_logical_",
    "pg_create_",
    "pg_drop_",
];

/// Settings that a client may change: how values look, how long things may take, how plans are
/// made. A name with a dot is an extension's or an application's own.
const SETTINGS: [&str; 22] = [
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

impl<'a> Words<'a> {
    fn push(&mut self, token: Token<'a>) {
        if let Some(place) = self.first.get_mut(self.count) {
            *place = Some(token);
        }
        self.count += 1;
        let after_to = self.last.is_some_and(|last| last.is("to"));
        match token {
            Token::Mark(b'(') => self.depth += 1,
            Token::Mark(b')') => self.depth = self.depth.saturating_sub(1),
            Token::Word(word) => {
                self.writes |= WRITING.iter().any(|known| token.is(known));
                self.acts |= acts(word);
                self.to_stdout |= self.depth == 0 && after_to && token.is("stdout");
                self.has_from |= self.depth == 0 && token.is("from");
                self.has_program |= token.is("program");
                self.has_mode |= token.is("write") || token.is("prepared");
            }
            Token::Quoted(name) => self.acts |= acts(name),
            Token::Literal | Token::End | Token::Mark(_) => {}
        }
        self.last = Some(token);
    }

    fn is(&self, at: usize, word: &str) -> bool {
        let token = self.first.get(at).copied().flatten();
        token.is_some_and(|token| token.is(word))
    }

    fn is_any(&self, at: usize, words: &[&str]) -> bool {
        words.iter().any(|word| self.is(at, word))
    }

    fn is_transaction(&self) -> bool {
        self.is_any(0, &["begin", "start", "commit", "end", "abort", "rollback"])
    }

    fn class(&self) -> Class {
        if self.is_authority() {
            return Class::Authority;
        }
        let said = self.by_first_word();
        if self.acts {
            said.max(Class::Write)
        } else {
            said
        }
    }

    fn by_first_word(&self) -> Class {
        let reading = if self.writes {
            Class::Write
        } else {
            Class::Read
        };
        // `SELECT`, possibly in parentheses.
        let opens = matches!(self.first.first(), Some(Some(Token::Mark(b'('))));
        if opens
            || self.is_any(
                0,
                &["select", "values", "table", "with", "explain", "declare"],
            )
        {
            return reading;
        }
        if self.is_any(
            0,
            &["fetch", "move", "close", "execute", "show", "deallocate"],
        ) {
            return reading;
        }
        if self.is(0, "prepare") && !self.is(1, "transaction") {
            return reading;
        }
        if self.is(0, "copy") {
            let reads = self.to_stdout && !self.has_from;
            return if reads { reading } else { Class::Write };
        }
        if self.is_transaction() || self.is_any(0, &["savepoint", "release"]) {
            return if self.has_mode {
                Class::Write
            } else {
                Class::Session
            };
        }
        if self.is_any(0, &["listen", "unlisten"]) {
            return Class::Session;
        }
        if self.is(0, "discard") && !self.is(1, "all") {
            return Class::Session;
        }
        match (self.is(0, "set"), self.is(0, "reset")) {
            (true, _) => self.set(),
            (_, true) => self.reset(),
            (false, false) if self.is(0, "discard") => Class::Held,
            (false, false) => Class::Write,
        }
    }

    /// `SET [SESSION | LOCAL] name …`
    fn set(&self) -> Class {
        let at = if self.is(1, "local") { 2 } else { 1 };
        // `SET SESSION x` is `SET x`; CHARACTERISTICS and AUTHORIZATION are their own statements.
        let at = match self.is(1, "session") {
            true if self.is(2, "characteristics") => {
                return if self.has_mode {
                    Class::Write
                } else {
                    Class::Session
                };
            }
            true => 2,
            false => at,
        };
        if self.is(at, "names") || self.is(at, "client_encoding") {
            return Class::Held;
        }
        if self.is(at, "transaction") {
            return if self.has_mode {
                Class::Write
            } else {
                Class::Session
            };
        }
        self.setting(at)
    }

    /// `RESET name`. `ALL` goes back to what the gate said at the start.
    fn reset(&self) -> Class {
        if self.is(1, "all") {
            Class::Session
        } else {
            self.setting(1)
        }
    }

    fn setting(&self, at: usize) -> Class {
        let dotted = self.first.get(at + 1).copied().flatten() == Some(Token::Mark(b'.'));
        if dotted || SETTINGS.iter().any(|known| self.is(at, known)) {
            Class::Session
        } else {
            Class::Held
        }
    }

    fn is_authority(&self) -> bool {
        let changes = self.is_any(0, &["create", "alter", "drop"]);
        let kinds = ["role", "user", "group", "server", "subscription", "system"];
        let of_rights = ["grant", "revoke", "reassign", "security", "load", "import"];
        let defaults = self.is(0, "alter") && self.is(1, "default") && self.is(2, "privileges");
        (changes && self.is_any(1, &kinds))
            || self.is_any(0, &of_rights)
            || defaults
            || (self.is(0, "copy") && self.has_program)
    }
}

fn acts(name: &[u8]) -> bool {
    let begins = |known: &str| {
        let start = name.get(..known.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(known.as_bytes()))
    };
    ACTING.iter().any(|known| begins(known))
}

#[cfg(test)]
mod tests;
