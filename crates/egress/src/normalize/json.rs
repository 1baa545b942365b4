// SPDX-License-Identifier: Apache-2.0
//! JSON as strictly as it can be read (RFC 8259): what two parsers could read in two ways is
//! refused. No member stands twice in an object, whatever its depth; no lone surrogate, no byte
//! order mark, nothing behind the end. On the way it finds the one place that a pointer names.

use crate::refuse::Fault;
use std::ops::Range;
use torno_policy::binding::Pointer;

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

/// What stands where a pointer leads, by the bytes of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Spot {
    /// A value, a text with its quotes.
    Value(Range<usize>),
    /// Its object is there without it.
    Room(Room),
    /// Neither.
    Nowhere,
    /// A member on the way is named in a spelling that only some servers read as this one.
    Twice,
}

/// Where a first member of an object would begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) at: usize,
    pub(crate) is_empty: bool,
}

/// The names that are left of a pointer; nothing beside its way.
type Way<'w> = Option<&'w [String]>;

/// LIMIT: real requests nest a dozen deep; the stack of every parser behind us holds this.
const DEPTH_MAX: usize = 64;

/// Reads one whole text.
pub(crate) fn read(bytes: &[u8]) -> Result<Value, Fault> {
    Reader::new(bytes)?.whole(None)
}

/// Reads one whole text, and finds where the pointer leads.
pub(crate) fn find(bytes: &[u8], pointer: &Pointer) -> Result<Spot, Fault> {
    let mut reader = Reader::new(bytes)?;
    reader.whole(Some(pointer.names()))?;
    Ok(if reader.is_twice {
        Spot::Twice
    } else {
        reader.spot
    })
}

fn fault() -> Fault {
    // ATTACK: 200
    Fault::malformed("send one well-formed JSON text, with each member of an object once")
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a [u8],
    spot: Spot,
    is_twice: bool,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, Fault> {
        let text = std::str::from_utf8(bytes).map_err(|_| fault())?;
        Ok(Self {
            text,
            rest: text.as_bytes(),
            spot: Spot::Nowhere,
            is_twice: false,
        })
    }

    fn whole(&mut self, way: Way<'_>) -> Result<Value, Fault> {
        let value = self.value(0, way)?;
        self.skip_space();
        if self.rest.is_empty() {
            Ok(value)
        } else {
            Err(fault())
        }
    }

    /// How many bytes were read.
    fn at(&self) -> usize {
        self.text.len() - self.rest.len()
    }

    fn value(&mut self, depth: usize, way: Way<'_>) -> Result<Value, Fault> {
        self.skip_space();
        let start = self.at();
        let value = self.any_value(depth, way)?;
        if way.is_some_and(<[String]>::is_empty) {
            self.spot = Spot::Value(start..self.at());
        }
        Ok(value)
    }

    fn any_value(&mut self, depth: usize, way: Way<'_>) -> Result<Value, Fault> {
        if depth > DEPTH_MAX {
            return Err(Fault::malformed("nest JSON less deeply"));
        }
        match self.rest.first() {
            Some(b'{') => self.object(depth, way),
            Some(b'[') => self.array(depth, way),
            Some(b'"') => Ok(Value::Text(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word(b"true", Value::Scalar),
            Some(b'f') => self.word(b"false", Value::Scalar),
            Some(b'n') => self.word(b"null", Value::Null),
            Some(_) | None => Err(fault()),
        }
    }

    fn object(&mut self, depth: usize, way: Way<'_>) -> Result<Value, Fault> {
        self.take(b'{')?;
        let at = self.at();
        let mut members = Vec::new();
        self.skip_space();
        if self.take(b'}').is_ok() {
            self.leave(way, Room { at, is_empty: true });
            return Ok(Value::Object(members));
        }
        loop {
            self.skip_space();
            let start = self.at();
            let name = self.string()?;
            let spelled = self.text.get(start + 1..self.at() - 1);
            let below = self.below(way, &name, spelled == Some(&name));
            self.skip_space();
            self.take(b':')?;
            members.push((name, self.value(depth + 1, below)?));
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
        if way.is_some_and(|way| {
            way.first()
                .is_none_or(|last| !names.contains(&last.as_str()))
        }) {
            let is_empty = false;
            self.leave(way, Room { at, is_empty });
        }
        Ok(Value::Object(members))
    }

    /// An object on the way is left without the member: there is room for the last one.
    fn leave(&mut self, way: Way<'_>, room: Room) {
        if way.is_some_and(|way| way.len() == 1) {
            self.spot = Spot::Room(room);
        }
    }

    /// What is left of the way below a member.
    ///
    /// ATTACK: 200 – servers fold the case of names (Go, .NET) or end them at a NUL; an escape in
    /// one hides it from whoever searches the bytes.
    fn below<'w>(&mut self, way: Way<'w>, name: &str, is_plain: bool) -> Way<'w> {
        let (wanted, rest) = way?.split_first()?;
        if fold(name) != fold(wanted) {
            return None;
        }
        if !is_plain || name != wanted {
            self.is_twice = true;
        }
        Some(rest)
    }

    fn array(&mut self, depth: usize, way: Way<'_>) -> Result<Value, Fault> {
        self.take(b'[')?;
        let mut values = Vec::new();
        let wanted = way.and_then(<[String]>::split_first);
        self.skip_space();
        if self.take(b']').is_ok() {
            return Ok(Value::Array(values));
        }
        loop {
            let number = values.len().to_string();
            let here = wanted.filter(|(name, _)| **name == number);
            values.push(self.value(depth + 1, here.map(|(_, rest)| rest))?);
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

/// A name as the most forgiving server reads it.
fn fold(name: &str) -> String {
    let name = name.split('\0').next().unwrap_or_default();
    name.to_uppercase().to_lowercase()
}

#[cfg(test)]
mod tests;
