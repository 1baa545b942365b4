// SPDX-License-Identifier: Apache-2.0
//! The organisation's layer: Cedar, deny wins, `@ask` on a `forbid` turns it into a question.

use crate::decision::Refusal;
use crate::facts::Act;
use crate::grant::{Grant, Verdict};
use crate::names::RuleName;

/// The shipped policy, in force where the organisation has none. `torno policy show` prints it.
pub const SHIPPED: &str = include_str!("organisation/shipped.cedar");

/// A parsed and validated organisation policy.
#[derive(Debug)]
pub struct Organisation {}
