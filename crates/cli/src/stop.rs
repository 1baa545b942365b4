// SPDX-License-Identifier: Apache-2.0
//! Why a command stopped: what failed, its causes, and what to do next. Printed once, in `main`.

use std::error::Error;

/// Torno itself refused or failed; no workload has this of itself.
pub(crate) const REFUSED: u8 = 125;
/// The command is there and can't be executed; as shells and container runtimes say it.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// There is no such command inside; as shells and container runtimes say it.
pub(crate) const NOT_FOUND: u8 = 127;
/// The session's time limit was reached.
pub(crate) const TIME_LIMIT: u8 = 124;
/// The session was killed.
pub(crate) const KILLED: u8 = 137;
/// Checked, and found wanting: a policy with errors, a record that does not verify.
pub(crate) const FOUND_WANTING: u8 = 1;

/// A failure for a person.
#[derive(Debug)]
pub(crate) struct Stop {
    /// The exit code.
    pub(crate) exit: u8,
    /// A stable code, when the desk or notary gave one.
    pub(crate) code: Option<String>,
    /// What failed.
    pub(crate) message: String,
    /// Why, outermost first.
    pub(crate) causes: Vec<String>,
    /// What to do next.
    pub(crate) next: Option<String>,
}

/// What a step of a command gives.
pub(crate) type Outcome<T = ()> = Result<T, Stop>;

impl Stop {
    /// A failure with exit code 125.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            exit: REFUSED,
            code: None,
            message: message.into(),
            causes: Vec::new(),
            next: None,
        }
    }

    /// Adds an error and its sources as causes.
    pub(crate) fn because(mut self, error: &(dyn Error + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            self.causes.push(error.to_string());
            next = error.source();
        }
        self
    }

    /// Says what to do next.
    pub(crate) fn next(mut self, next: impl Into<String>) -> Self {
        let next = next.into();
        self.next = (!next.is_empty()).then_some(next);
        self
    }

    /// Sets another exit code.
    pub(crate) fn exit(mut self, exit: u8) -> Self {
        self.exit = exit;
        self
    }

    /// Sets the stable code.
    pub(crate) fn code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }
}
