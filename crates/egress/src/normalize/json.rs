// SPDX-License-Identifier: Apache-2.0
//! JSON as strictly as it can be read (RFC 8259): what two parsers could read in two ways is
//! refused. No member stands twice in an object, whatever its depth; no lone surrogate, no byte
//! order mark, nothing behind the end.

use crate::refuse::Fault;

/// A value. Numbers and booleans are checked and forgotten: no rule looks at one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Text(String),
    Array(Vec<Value>),
    /// In the order of the text.
    Object(Vec<(String, Value)>),
    Scalar,
}

/// LIMIT: real requests nest a dozen deep; the stack of every parser behind us holds this.
const DEPTH_MAX: usize = 64;

/// Reads one whole text.
pub(crate) fn read(bytes: &[u8]) -> Result<Value, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|_| fault())?;
    let mut reader = Reader {
        text,
        rest: text.as_bytes(),
    };
    let value = reader.value(0)?;
    reader.skip_space();
    if reader.rest.is_empty() {
        Ok(value)
    } else {
        Err(fault())
    }
}

fn fault() -> Fault {
    // ATTACK: 200
    Fault::malformed("send one well-formed JSON text, with each member of an object once")
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a [u8],
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Result<Value, Fault> {
        if depth > DEPTH_MAX {
            return Err(Fault::malformed("nest JSON less deeply"));
        }
        self.skip_space();
        match self.rest.first() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Value::Text(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word(b"true", Value::Scalar),
            Some(b'f') => self.word(b"false", Value::Scalar),
            Some(b'n') => self.word(b"null", Value::Null),
            Some(_) | None => Err(fault()),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, Fault> {
        self.take(b'{')?;
        let mut members = Vec::new();
        self.skip_space();
        if self.take(b'}').is_ok() {
            return Ok(Value::Object(members));
        }
        loop {
            self.skip_space();
            let name = self.string()?;
            self.skip_space();
            self.take(b':')?;
            members.push((name, self.value(depth + 1)?));
            self.skip_space();
            if self.take(b',').is_err() {
                break;
            }
        }
        self.take(b'}')?;
        let mut names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| pair.first() == pair.last()) {
            return Err(fault());
        }
        Ok(Value::Object(members))
    }

    fn array(&mut self, depth: usize) -> Result<Value, Fault> {
        self.take(b'[')?;
        let mut values = Vec::new();
        self.skip_space();
        if self.take(b']').is_ok() {
            return Ok(Value::Array(values));
        }
        loop {
            values.push(self.value(depth + 1)?);
            self.skip_space();
            if self.take(b',').is_err() {
                break;
            }
        }
        self.take(b']')?;
        Ok(Value::Array(values))
    }

    fn string(&mut self) -> Result<String, Fault> {
        self.take(b'"')?;
        let mut whole = String::new();
        loop {
            let plain = self
                .rest
                .iter()
                .position(|b| matches!(b, b'"' | b'\\' | ..0x20));
            let plain = plain.ok_or_else(fault)?;
            let start = self.text.len() - self.rest.len();
            // Both ends stand beside an ASCII byte, so this is a text again.
            let piece = self.text.get(start..start + plain).ok_or_else(fault)?;
            whole.push_str(piece);
            self.rest = self.rest.get(plain..).unwrap_or_default();
            match self.next()? {
                b'"' => return Ok(whole),
                b'\\' => whole.push(self.escape()?),
                _ => return Err(fault()),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Fault> {
        Ok(match self.next()? {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.unit()?;
                let second = if (0xd800..0xdc00).contains(&first) {
                    self.take(b'\\')?;
                    self.take(b'u')?;
                    Some(self.unit()?)
                } else {
                    None
                };
                let mut decoded = char::decode_utf16([first].into_iter().chain(second));
                match (decoded.next(), decoded.next()) {
                    (Some(Ok(character)), None) => character,
                    _ => return Err(fault()),
                }
            }
            _ => return Err(fault()),
        })
    }

    /// Four hexadecimal digits.
    fn unit(&mut self) -> Result<u16, Fault> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = char::from(self.next()?).to_digit(16).ok_or_else(fault)?;
            unit = unit * 16 + digit;
        }
        u16::try_from(unit).map_err(|_| fault())
    }

    fn number(&mut self) -> Result<Value, Fault> {
        let _sign = self.take(b'-');
        if self.take(b'0').is_err() && self.digits() == 0 {
            return Err(fault());
        }
        if self.take(b'.').is_ok() && self.digits() == 0 {
            return Err(fault());
        }
        if self.take(b'e').is_ok() || self.take(b'E').is_ok() {
            let _sign = self.take(b'+').or_else(|_| self.take(b'-'));
            if self.digits() == 0 {
                return Err(fault());
            }
        }
        Ok(Value::Scalar)
    }

    fn digits(&mut self) -> usize {
        let count = self.rest.iter().take_while(|b| b.is_ascii_digit()).count();
        self.rest = self.rest.get(count..).unwrap_or_default();
        count
    }

    fn word(&mut self, word: &[u8], value: Value) -> Result<Value, Fault> {
        self.rest = self.rest.strip_prefix(word).ok_or_else(fault)?;
        Ok(value)
    }

    fn skip_space(&mut self) {
        let space = |b: &&u8| matches!(b, b' ' | b'\t' | b'\n' | b'\r');
        let count = self.rest.iter().take_while(space).count();
        self.rest = self.rest.get(count..).unwrap_or_default();
    }

    fn next(&mut self) -> Result<u8, Fault> {
        let (first, rest) = self.rest.split_first().ok_or_else(fault)?;
        self.rest = rest;
        Ok(*first)
    }

    fn take(&mut self, byte: u8) -> Result<(), Fault> {
        self.rest = self.rest.strip_prefix(&[byte]).ok_or_else(fault)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
