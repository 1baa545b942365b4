// SPDX-License-Identifier: Apache-2.0
//! Words of SQL as PostgreSQL's own scanner cuts them (`scan.l`), with strings and comments left
//! out. What it would cut in two ways, by version or setting, is refused.

/// A piece of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// A keyword or plain name.
    Word(&'a [u8]),
    /// A name in double quotes, without them.
    Quoted(&'a [u8]),
    /// A string in plain quotes, without them.
    Text(&'a [u8]),
    /// Another string, or a number.
    Literal,
    /// `;`
    End,
    /// Any other byte.
    Mark(u8),
}

/// A text that could be read in more than one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unclear;

/// The tokens of a text, one by one.
#[derive(Debug, Clone)]
pub(crate) struct Tokens<'a> {
    rest: &'a [u8],
    by_settings: bool,
}

impl Token<'_> {
    /// Whether it is this keyword, in any case.
    pub(super) fn is(&self, word: &str) -> bool {
        matches!(self, Self::Word(text) if text.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// Whether it is this name, in quotes or without.
    pub(super) fn is_name(&self, name: &str) -> bool {
        matches!(self, Self::Word(text) | Self::Quoted(text)
            if text.eq_ignore_ascii_case(name.as_bytes()))
    }
}

impl<'a> Tokens<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self {
            rest: text,
            by_settings: false,
        }
    }

    /// Whether what was cut so far is cut so only while `standard_conforming_strings` and
    /// `client_encoding` are what the gate holds them to.
    pub(super) fn by_settings(&self) -> bool {
        self.by_settings
    }

    /// The next one; nothing at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Token<'a>>, Unclear> {
        self.skip_space()?;
        let Some((first, behind)) = self.rest.split_first() else {
            return Ok(None);
        };
        let token = match first {
            b'\'' => self.string(false)?,
            b'"' => self.quoted()?,
            b'$' => self.dollar()?,
            b'0'..=b'9' => self.number()?,
            b';' => {
                self.rest = behind;
                Token::End
            }
            start if is_start(*start) => self.word()?,
            other => {
                self.rest = behind;
                Token::Mark(*other)
            }
        };
        Ok(Some(token))
    }

    fn skip_space(&mut self) -> Result<(), Unclear> {
        loop {
            match self.rest {
                [b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c, rest @ ..] => self.rest = rest,
                [b'-', b'-', rest @ ..] => {
                    let end = rest.iter().position(|b| matches!(b, b'\n' | b'\r'));
                    self.rest = end.and_then(|end| rest.get(end..)).unwrap_or_default();
                }
                [b'/', b'*', rest @ ..] => self.rest = after_comment(rest)?,
                _ => return Ok(()),
            }
        }
    }

    /// A string in quotes; `''` is one quote, and where `escapes` a backslash takes the next byte.
    fn string(&mut self, escapes: bool) -> Result<Token<'a>, Unclear> {
        let text = self.rest.get(1..).unwrap_or_default();
        let mut rest = text;
        loop {
            match rest {
                [b'\'', b'\'', more @ ..] => rest = more,
                [b'\'', more @ ..] => {
                    self.rest = more;
                    break;
                }
                [b'\\', _, more @ ..] if escapes => rest = more,
                [_, more @ ..] => rest = more,
                [] => return Err(Unclear),
            }
        }
        let text = text.get(..text.len() - rest.len()).unwrap_or_default();
        let has_backslash = memchr::memchr(b'\\', text).is_some();
        self.by_settings |= has_backslash && (!escapes || !text.is_ascii());
        // A string with escapes goes on behind a line end, under its own rules.
        if escapes {
            let mut ahead = self.clone();
            ahead.skip_space()?;
            if ahead.rest.first() == Some(&b'\'') {
                return Err(Unclear);
            }
            return Ok(Token::Literal);
        }
        Ok(Token::Text(text))
    }

    fn quoted(&mut self) -> Result<Token<'a>, Unclear> {
        let text = self.rest.get(1..).unwrap_or_default();
        let mut at = 0;
        loop {
            match text.get(at..) {
                Some([b'"', b'"', ..]) => at += 2,
                Some([b'"', more @ ..]) => {
                    self.rest = more;
                    return Ok(Token::Quoted(text.get(..at).unwrap_or_default()));
                }
                Some([_, ..]) => at += 1,
                _ => return Err(Unclear),
            }
        }
    }

    /// `$tag$ … $tag$`, a parameter, or the sign alone.
    fn dollar(&mut self) -> Result<Token<'a>, Unclear> {
        let rest = self.rest.get(1..).unwrap_or_default();
        if rest.first().is_some_and(u8::is_ascii_digit) {
            self.rest = rest;
            return self.number();
        }
        let tag = rest
            .iter()
            .take_while(|b| is_start(**b) || b.is_ascii_digit())
            .count();
        if rest.get(tag) != Some(&b'$') {
            self.rest = rest;
            return Ok(Token::Mark(b'$'));
        }
        // LIMIT: a name has at most 63 bytes; a longer tag is nobody's.
        let delimiter = self
            .rest
            .get(..tag + 2)
            .filter(|_| tag <= 63)
            .ok_or(Unclear)?;
        let body = self.rest.get(tag + 2..).unwrap_or_default();
        let end = memchr::memmem::find(body, delimiter).ok_or(Unclear)?;
        self.rest = body.get(end + delimiter.len()..).unwrap_or_default();
        Ok(Token::Literal)
    }

    /// Digits, a fraction, an exponent. What is glued behind them is read in two ways by two
    /// versions.
    fn number(&mut self) -> Result<Token<'a>, Unclear> {
        let mut rest = digits(self.rest);
        if let [b'.', more @ ..] = rest
            && more.first() != Some(&b'.')
        {
            rest = digits(more);
        }
        if let [b'e' | b'E', more @ ..] = rest {
            let signed = match more {
                [b'+' | b'-', behind @ ..] => behind,
                _ => more,
            };
            if !signed.first().is_some_and(u8::is_ascii_digit) {
                return Err(Unclear);
            }
            rest = digits(signed);
        }
        if rest.first().is_some_and(|b| is_start(*b) || *b == b'$') {
            return Err(Unclear);
        }
        self.rest = rest;
        Ok(Token::Literal)
    }

    fn word(&mut self) -> Result<Token<'a>, Unclear> {
        let inside = |b: &u8| is_start(*b) || b.is_ascii_digit() || *b == b'$';
        let length = self.rest.iter().take_while(|b| inside(b)).count();
        let (word, rest) = self.rest.split_at_checked(length).ok_or(Unclear)?;
        match (word, rest) {
            (b"e" | b"E", [b'\'', ..]) => {
                self.rest = rest;
                self.string(true)
            }
            // Escapes that spell a name, or a quote.
            (b"u" | b"U", [b'&', b'\'' | b'"', ..]) => Err(Unclear),
            _ => {
                self.rest = rest;
                Ok(Token::Word(word))
            }
        }
    }
}

/// The first byte of a name; every byte above ASCII is part of one.
fn is_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn digits(text: &[u8]) -> &[u8] {
    let count = text.iter().take_while(|b| b.is_ascii_digit()).count();
    text.get(count..).unwrap_or_default()
}

/// Comments nest.
fn after_comment(mut rest: &[u8]) -> Result<&[u8], Unclear> {
    let mut depth = 1_usize;
    loop {
        match rest {
            [b'*', b'/', more @ ..] => {
                rest = more;
                depth -= 1;
                if depth == 0 {
                    return Ok(rest);
                }
            }
            [b'/', b'*', more @ ..] => {
                rest = more;
                depth += 1;
            }
            [_, more @ ..] => rest = more,
            [] => return Err(Unclear),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Result<Vec<String>, Unclear> {
        let mut tokens = Tokens::new(text.as_bytes());
        let mut words = Vec::new();
        while let Some(token) = tokens.next()? {
            words.push(match token {
                Token::Word(word) => String::from_utf8_lossy(word).into_owned(),
                Token::Quoted(name) => format!("\"{}\"", String::from_utf8_lossy(name)),
                Token::Text(_) | Token::Literal => "L".to_owned(),
                Token::End => ";".to_owned(),
                Token::Mark(mark) => char::from(mark).to_string(),
            });
        }
        Ok(words)
    }

    #[test]
    fn strings_and_comments_hide_what_the_server_does_not_read() {
        for (text, expected) in [
            ("select 'a;b'';c' -- ;\n;", "select L ;"),
            ("/* /* ; */ drop */ select 1", "select L"),
            ("select E'a\\';b';x", "select L ; x"),
            ("select e'\\\\';x", "select L ; x"),
            ("select '\\';x", "select L ; x"),
            ("select $$;$$, $a$;$$;$a$ x", "select L , L x"),
            ("select a$b$c; d", "select a$b$c ; d"),
            (
                "select $1, 1.5e-3, .5, 1..2",
                "select L , L , . L , L . . L",
            ),
            ("select \"a\"\"b;\" x", "select \"a\"\"b;\" x"),
            ("select n'x' b'01'", "select n L b L"),
            ("select 1--2\n+3", "select L + L"),
            ("select é", "select é"),
        ] {
            assert_eq!(words(text).unwrap().join(" "), expected, "{text}");
        }
    }

    #[test]
    fn what_a_setting_would_cut_elsewhere_is_told() {
        for (text, expected) in [
            ("select 'a\\d'", true),
            ("select e'\u{e9}\\''", true),
            ("select e'a\\''", false),
            ("select 'a' || $$\\$$ || \"\\\"", false),
            ("select '\u{e9}'", false),
        ] {
            let mut tokens = Tokens::new(text.as_bytes());
            while tokens.next().unwrap().is_some() {}
            assert_eq!(tokens.by_settings(), expected, "{text}");
        }
    }

    #[test]
    fn what_versions_or_settings_read_in_two_ways_is_unclear() {
        for text in [
            "'open",
            "\"open",
            "/* open",
            "$a$ open",
            "U&'d\\0061t'",
            "u&\"d\\0061t\"",
            "1e'x'",
            "1a",
            "0x1f",
            "$1a",
            "E'a'\n'\\';b'",
            "E'a'\n'b'",
            "e'a' -- c\n '\\';b'",
        ] {
            assert_eq!(words(text), Err(Unclear), "{text}");
        }
    }
}
