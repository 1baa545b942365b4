// SPDX-License-Identifier: Apache-2.0
//! What becomes of what comes back for the credential: the part of a binding about answers.

use crate::values;
use torno_policy::binding::{Answers, Cookies, PathPattern};

/// The arguments about answers.
#[derive(Debug, clap::Args)]
pub(super) struct Kept {
    /// What becomes of cookies that the host sets; `drop` when left out
    ///
    /// With `broker` the gate keeps them, puts them into later requests of the same session that
    /// this binding covers, and the sandbox gets markers. A credential of a form may then have GET
    /// and HEAD too, which go with the cookies alone.
    #[arg(long, value_enum)]
    cookies: Option<Said>,
    /// An exact path whose answers hold tokens (RFC 6749), again for more
    ///
    /// They stay outside: the sandbox gets placeholders, and a refresh token's works there again.
    /// An answer that can't be read for them is refused.
    #[arg(long = "token-endpoint", value_name = "PATH", value_parser = values::path)]
    token_endpoints: Vec<PathPattern>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
enum Said {
    /// They go nowhere
    Drop,
    /// They are kept outside and used for the sandbox
    Broker,
}

impl Kept {
    pub(super) fn answers(&self) -> Answers {
        Answers {
            cookies: match self.cookies {
                Some(Said::Broker) => Cookies::Broker,
                Some(Said::Drop) | None => Cookies::Drop,
            },
            token_endpoints: self.token_endpoints.clone(),
        }
    }
}
