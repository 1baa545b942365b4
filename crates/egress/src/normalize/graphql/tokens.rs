// SPDX-License-Identifier: Apache-2.0
//! The words of GraphQL: names, marks, literals. Where lexers differ (line ends in comments, byte
//! order marks, control characters) the document is refused.

use super::fault;
use crate::refuse::Fault;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Name(&'a str),
    /// One of `! $ & ( ) : = @ [ ] { | }`.
    Mark(u8),
    /// `...`
    Spread,
    /// A number or a string.
    Literal,
    End,
}

/// The tokens of a document, one ahead.
pub(super) struct Tokens<'a> {
    text: &'a str,
    at: usize,
    next: Token<'a>,
}

impl<'a> Tokens<'a> {
    pub(super) fn of(text: &'a str) -> Result<Self, Fault> {
        let mut tokens = Self {
            text,
            at: 0,
            next: Token::End,
        };
        tokens.next = tokens.read()?;
        Ok(tokens)
    }

    pub(super) fn peek(&self) -> Token<'a> {
        self.next
    }

    pub(super) fn next(&mut self) -> Result<Token<'a>, Fault> {
        let ahead = self.read()?;
        Ok(std::mem::replace(&mut self.next, ahead))
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn read(&mut self) -> Result<Token<'a>, Fault> {
        self.skip_ignored()?;
        let rest = self.rest();
        let Some(first) = rest.first() else {
            return Ok(Token::End);
        };
        match first {
            b'!' | b'$' | b'&' | b'(' | b')' | b':' | b'=' | b'@' | b'[' | b']' | b'{' | b'|'
            | b'}' => {
                self.at += 1;
                Ok(Token::Mark(*first))
            }
            b'.' if rest.starts_with(b"...") => {
                self.at += 3;
                Ok(Token::Spread)
            }
            b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
                let length = rest.iter().take_while(|b| is_name_byte(**b)).count();
                let name = self.text.get(self.at..self.at + length).ok_or_else(fault)?;
                self.at += length;
                Ok(Token::Name(name))
            }
            b'-' | b'0'..=b'9' => self.number(),
            b'"' if rest.starts_with(b"\"\"\"") => self.block_string(),
            b'"' => self.string(),
            _ => Err(fault()),
        }
    }

    /// Spaces, line ends, commas and comments. A comment ends at a line end that every lexer knows.
    fn skip_ignored(&mut self) -> Result<(), Fault> {
        loop {
            match self.rest().first() {
                Some(b' ' | b'\t' | b'\n' | b'\r' | b',') => self.at += 1,
                Some(b'#') => {
                    let rest = self.text.get(self.at..).ok_or_else(fault)?;
                    let comment = rest.split(['\n', '\r']).next().unwrap_or_default();
                    plain(comment)?;
                    self.at += comment.len();
                }
                Some(_) | None => return Ok(()),
            }
        }
    }

    fn number(&mut self) -> Result<Token<'a>, Fault> {
        let rest = self.rest();
        let digits = |from: usize| {
            let digits = rest.iter().skip(from).take_while(|b| b.is_ascii_digit());
            digits.count()
        };
        let mut end = usize::from(rest.first() == Some(&b'-'));
        let whole = digits(end);
        if whole == 0 || (whole > 1 && rest.get(end) == Some(&b'0')) {
            return Err(fault());
        }
        end += whole;
        if rest.get(end) == Some(&b'.') {
            let part = digits(end + 1);
            if part == 0 {
                return Err(fault());
            }
            end += 1 + part;
        }
        if matches!(rest.get(end), Some(b'e' | b'E')) {
            end += 1 + usize::from(matches!(rest.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits(end);
            if exponent == 0 {
                return Err(fault());
            }
            end += exponent;
        }
        if rest
            .get(end)
            .is_some_and(|b| is_name_byte(*b) || *b == b'.')
        {
            return Err(fault());
        }
        self.at += end;
        Ok(Token::Literal)
    }

    fn string(&mut self) -> Result<Token<'a>, Fault> {
        let rest = self.text.get(self.at + 1..).ok_or_else(fault)?;
        let mut characters = rest.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    plain(rest.get(..at).unwrap_or_default())?;
                    self.at += 1 + at + 1;
                    return Ok(Token::Literal);
                }
                '\\' => match characters.next() {
                    Some((_, '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't')) => {}
                    Some((_, 'u')) => {
                        let hex = characters.by_ref().take(4);
                        if hex.filter(|(_, c)| c.is_ascii_hexdigit()).count() != 4 {
                            return Err(fault());
                        }
                    }
                    Some(_) | None => return Err(fault()),
                },
                _ => {}
            }
        }
        Err(fault())
    }

    fn block_string(&mut self) -> Result<Token<'a>, Fault> {
        let rest = self.text.get(self.at + 3..).ok_or_else(fault)?;
        let mut from = 0;
        loop {
            let found = rest.get(from..).and_then(|rest| rest.find("\"\"\""));
            let end = from + found.ok_or_else(fault)?;
            let inside = rest.get(..end).ok_or_else(fault)?;
            if inside.ends_with('\\') {
                from = end + 3;
                continue;
            }
            for line in inside.split(['\n', '\r']) {
                plain(line)?;
            }
            self.at += 3 + end + 3;
            return Ok(Token::Literal);
        }
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// No control character but the tab, no line end of any standard, no byte order mark.
fn plain(text: &str) -> Result<(), Fault> {
    let odd = |c: char| {
        (c.is_control() && c != '\t') || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
    };
    if text.contains(odd) {
        Err(fault())
    } else {
        Ok(())
    }
}
