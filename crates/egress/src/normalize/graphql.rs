// SPDX-License-Identifier: Apache-2.0
//! GraphQL documents (spec of October 2021, §2): which operations stand in one. The whole grammar
//! of executable documents is checked, so that no server sees another border between definitions.

mod tokens;

use crate::refuse::Fault;
use tokens::{Token, Tokens};
use torno_policy::facts::GraphqlOperation;

/// LIMIT: selections, values and types nest this deep at most; introspection needs 13.
const DEPTH_MAX: usize = 64;

/// An operation of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Operation<'a> {
    pub(super) name: Option<&'a str>,
    pub(super) kind: GraphqlOperation,
}

/// The type of the operation that a server runs: the one that is named, or the only one.
pub(crate) fn operation(document: &str, name: Option<&str>) -> Result<GraphqlOperation, Fault> {
    let operations = operations(document)?;
    let runs = match (name, operations.as_slice()) {
        // An empty name is none to some servers and unknown to others: with one operation both
        // run that or nothing.
        (None | Some(""), [only]) => Some(only),
        (None, _) => None,
        (Some(name), all) => all.iter().find(|operation| operation.name == Some(name)),
    };
    runs.map(|operation| operation.kind).ok_or(Fault::malformed(
        "send one GraphQL operation, or name one of those in the document by `operationName`",
    ))
}

/// Every operation of an executable document.
fn operations(document: &str) -> Result<Vec<Operation<'_>>, Fault> {
    let mut parser = Parser {
        tokens: Tokens::of(document)?,
    };
    let mut found: Vec<Operation<'_>> = Vec::new();
    while parser.tokens.peek() != Token::End {
        if let Some(operation) = parser.definition()? {
            let anonymous = operation.name.is_none() || found.iter().any(|o| o.name.is_none());
            let same = found.iter().any(|other| other.name == operation.name);
            if same || (anonymous && !found.is_empty()) {
                return Err(fault());
            }
            found.push(operation);
        }
    }
    Ok(found)
}

pub(super) fn fault() -> Fault {
    Fault::malformed("send a GraphQL document of operations and fragments that is well-formed")
}

struct Parser<'a> {
    tokens: Tokens<'a>,
}

impl<'a> Parser<'a> {
    /// An operation, or a fragment, which runs nothing by itself.
    fn definition(&mut self) -> Result<Option<Operation<'a>>, Fault> {
        if self.tokens.peek() == Token::Mark(b'{') {
            self.selections(0)?;
            let kind = GraphqlOperation::Query;
            return Ok(Some(Operation { name: None, kind }));
        }
        let kind = match self.name()? {
            "query" => GraphqlOperation::Query,
            "mutation" => GraphqlOperation::Mutation,
            "subscription" => GraphqlOperation::Subscription,
            "fragment" => {
                if self.name()? == "on" || self.name()? != "on" {
                    return Err(fault());
                }
                self.name()?;
                self.directives()?;
                self.selections(0)?;
                return Ok(None);
            }
            _ => return Err(fault()),
        };
        let name = match self.tokens.peek() {
            Token::Name(_) => Some(self.name()?),
            _ => None,
        };
        if self.take(b'(') {
            self.variables()?;
        }
        self.directives()?;
        self.selections(0)?;
        Ok(Some(Operation { name, kind }))
    }

    fn variables(&mut self) -> Result<(), Fault> {
        loop {
            self.expect(b'$')?;
            self.name()?;
            self.expect(b':')?;
            self.kind(0)?;
            if self.take(b'=') {
                self.value(0)?;
            }
            self.directives()?;
            if self.take(b')') {
                return Ok(());
            }
        }
    }

    /// A type reference.
    fn kind(&mut self, depth: usize) -> Result<(), Fault> {
        bounded(depth)?;
        if self.take(b'[') {
            self.kind(depth + 1)?;
            self.expect(b']')?;
        } else {
            self.name()?;
        }
        self.take(b'!');
        Ok(())
    }

    fn selections(&mut self, depth: usize) -> Result<(), Fault> {
        bounded(depth)?;
        self.expect(b'{')?;
        loop {
            self.selection(depth)?;
            if self.take(b'}') {
                return Ok(());
            }
        }
    }

    fn selection(&mut self, depth: usize) -> Result<(), Fault> {
        if self.tokens.peek() == Token::Spread {
            self.tokens.next()?;
            match self.tokens.peek() {
                Token::Name("on") => {
                    self.name()?;
                    self.name()?;
                }
                Token::Name(_) => {
                    self.name()?;
                    return self.directives();
                }
                _ => {}
            }
            self.directives()?;
            return self.selections(depth + 1);
        }
        self.name()?;
        if self.take(b':') {
            self.name()?;
        }
        self.arguments()?;
        self.directives()?;
        if self.tokens.peek() == Token::Mark(b'{') {
            self.selections(depth + 1)?;
        }
        Ok(())
    }

    fn directives(&mut self) -> Result<(), Fault> {
        while self.take(b'@') {
            self.name()?;
            self.arguments()?;
        }
        Ok(())
    }

    fn arguments(&mut self) -> Result<(), Fault> {
        if !self.take(b'(') {
            return Ok(());
        }
        loop {
            self.name()?;
            self.expect(b':')?;
            self.value(0)?;
            if self.take(b')') {
                return Ok(());
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<(), Fault> {
        bounded(depth)?;
        match self.tokens.next()? {
            Token::Mark(b'$') => self.name().map(drop),
            Token::Name(_) | Token::Literal => Ok(()),
            Token::Mark(b'[') => {
                while !self.take(b']') {
                    self.value(depth + 1)?;
                }
                Ok(())
            }
            Token::Mark(b'{') => {
                while !self.take(b'}') {
                    self.name()?;
                    self.expect(b':')?;
                    self.value(depth + 1)?;
                }
                Ok(())
            }
            Token::Mark(_) | Token::Spread | Token::End => Err(fault()),
        }
    }

    fn name(&mut self) -> Result<&'a str, Fault> {
        match self.tokens.next()? {
            Token::Name(name) => Ok(name),
            _ => Err(fault()),
        }
    }

    fn take(&mut self, mark: u8) -> bool {
        let there = self.tokens.peek() == Token::Mark(mark);
        there && self.tokens.next().is_ok()
    }

    fn expect(&mut self, mark: u8) -> Result<(), Fault> {
        match self.tokens.next()? {
            Token::Mark(found) if found == mark => Ok(()),
            _ => Err(fault()),
        }
    }
}

fn bounded(depth: usize) -> Result<(), Fault> {
    if depth > DEPTH_MAX {
        Err(Fault::malformed("nest a GraphQL document less deeply"))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
