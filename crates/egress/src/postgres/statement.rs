// SPDX-License-Identifier: Apache-2.0
//! What a text of SQL would do, as far as its words tell. This is the second check: at a binding
//! that reads the server itself is told to refuse what writes. What is not known to read, writes;
//! what could be read in two ways is refused.

mod functions;
mod rights;
mod settings;

use super::lexer::{Token, Tokens};
use functions::{acts, acts_when_called};
use rights::Rights;
use settings::Calls;

/// What statements do, the strongest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Transactions, settings that are taken, nothing.
    Session,
    /// Reads.
    Read,
    /// Writes, or may.
    Write,
    /// Could be cut into words in two ways: what the server would do is not known.
    Unclear,
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
    /// Whether one of them ends a transaction, or may: `EXECUTE` runs what was prepared.
    pub(crate) is_transaction: bool,
    /// Whether it reads so only under the settings that the gate holds.
    pub(crate) by_settings: bool,
}

/// Looks at a text.
pub(crate) fn judge(text: &[u8]) -> Judged {
    let mut all = Judged {
        class: Class::Session,
        count: 0,
        is_transaction: false,
        by_settings: false,
    };
    let mut tokens = Tokens::new(text);
    let mut words = Words::default();
    loop {
        let token = tokens.next();
        if let Ok(Some(token)) = token
            && token != Token::End
        {
            words.push(token);
            continue;
        }
        if words.count > 0 {
            all.count += 1;
            all.class = all.class.max(words.class());
            all.is_transaction |= words.ends_transaction();
            words = Words::default();
        }
        match token {
            Ok(Some(_)) => {}
            Ok(None) => {
                all.by_settings = tokens.by_settings();
                return all;
            }
            // The rest could be anything: it is the strongest of what was seen, and refused.
            Err(_) => {
                return Judged {
                    class: all.class.max(Class::Unclear),
                    is_transaction: true,
                    by_settings: true,
                    ..all
                };
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
    set_config: Calls,
    /// The view of the settings, which changes them when it is written.
    has_settings: bool,
    rights: Rights,
    /// `TO STDOUT` was the last that was said of where to.
    to_stdout: bool,
    has_from: bool,
    /// Also in `EXPLAIN ANALYZE EXECUTE` and `CREATE TABLE … AS EXECUTE`.
    executes: bool,
    /// `WRITE` or `PREPARED`, wherever it stands: `BEGIN … , READ WRITE`, `COMMIT PREPARED`.
    has_mode: bool,
    depth: usize,
    last: Option<Token<'a>>,
}

/// Words that no statement has which only reads.
const WRITING: [&str; 8] = [
    "insert", "update", "delete", "merge", "into", "create", "refresh", "program",
];

impl<'a> Words<'a> {
    fn push(&mut self, token: Token<'a>) {
        if let Some(place) = self.first.get_mut(self.count) {
            *place = Some(token);
        }
        self.count += 1;
        self.set_config.push(token, self.last);
        self.rights.push(token, self.last);
        self.has_settings |= token.is_name("pg_settings");
        match token {
            Token::Mark(b'(') => {
                self.depth += 1;
                if let Some(Token::Word(name) | Token::Quoted(name)) = self.last {
                    self.acts |= acts_when_called(name);
                }
            }
            Token::Mark(b')') => self.depth = self.depth.saturating_sub(1),
            Token::Word(word) => {
                self.writes |= WRITING.iter().any(|known| token.is(known));
                self.acts |= acts(word);
                self.to_stdout |= self.depth == 0 && self.follows("to") && token.is("stdout");
                self.has_from |= self.depth == 0 && token.is("from");
                let is_there = self.count == 1 || self.is(0, "explain") || self.follows("as");
                self.executes |= is_there && token.is("execute");
                self.has_mode |= token.is("write") || token.is("prepared");
            }
            Token::Quoted(name) => self.acts |= acts(name),
            Token::Text(_) | Token::Literal | Token::End | Token::Mark(_) => {}
        }
        self.last = Some(token);
    }

    fn follows(&self, word: &str) -> bool {
        self.last.is_some_and(|last| last.is(word))
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

    /// `BEGIN` begins none where one is under way, and the server is told before what it may do.
    fn ends_transaction(&self) -> bool {
        let ends = self.is_transaction() && !self.is_any(0, &["begin", "start"]);
        let prepares = self.is(0, "prepare") && self.is(1, "transaction");
        ends || prepares || self.executes
    }

    fn class(&self) -> Class {
        if self.is_authority() {
            return Class::Authority;
        }
        let said = self.by_first_word();
        if self.set_config.are_held() || (self.has_settings && self.writes) {
            said.max(Class::Held)
        } else if self.acts {
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
        // What others said comes with it.
        if self.is(0, "listen") {
            return Class::Read;
        }
        if self.is(0, "unlisten") {
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
        let named = self.first.get(at).copied().flatten();
        if dotted || named.is_some_and(settings::is_free) {
            Class::Session
        } else {
            Class::Held
        }
    }

    fn is_authority(&self) -> bool {
        let of_rights = ["grant", "revoke", "reassign", "security", "load", "import"];
        self.is_any(0, &of_rights)
            || (self.is(0, "copy") && self.rights.has_program)
            || (self.is_any(0, &["create", "alter", "drop"]) && self.changes_authority())
    }

    /// `CREATE`, `ALTER` or `DROP` of what others are let in by, act as or are kept out by.
    fn changes_authority(&self) -> bool {
        let kinds = [
            "role",
            "user",
            "group",
            "server",
            "subscription",
            "system",
            "policy",
            "event",
            "owned",
        ];
        let of_database = self.is(0, "alter") || self.rights.has_owner;
        self.is_any(1, &kinds)
            || self.rights.are_given
            || (self.is(1, "default") && self.is(2, "privileges"))
            || (self.is(1, "database") && of_database)
            || (self.is(1, "foreign") && (self.is(2, "data") || self.rights.has_program))
    }
}

#[cfg(test)]
mod tests;
