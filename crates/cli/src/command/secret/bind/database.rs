// SPDX-License-Identifier: Apache-2.0
//! `--postgres`: the credential is the password of one user of one database.

use crate::stop::{Outcome, Stop};
use torno_policy::binding::{Binding, Mode, Slot};
use torno_policy::postgres::{Access, Login, Name};

/// What the command line says of a database.
#[derive(Debug, clap::Args)]
pub(super) struct Database {
    /// The credential is the password of a PostgreSQL user
    #[arg(
        long, requires_all = ["host", "user", "access"],
        conflicts_with_all = [
            "template", "methods", "paths", "header", "scheme", "basic", "place", "mode",
            "plaintext", "allow_minting",
        ],
    )]
    pub(super) postgres: bool,
    /// The exact user that logs in
    #[arg(long, value_name = "USER", requires = "postgres", value_parser = name)]
    user: Option<Name>,
    /// The exact database; named like the user when left out
    #[arg(long, value_name = "DATABASE", requires = "postgres", value_parser = name)]
    database: Option<Name>,
    /// How far its connections go; the server itself keeps those that read from writing
    #[arg(long, value_enum, requires = "postgres")]
    access: Option<Reach>,
    /// A role that each connection takes before its first statement
    #[arg(long, value_name = "ROLE", requires = "postgres", value_parser = name)]
    role: Option<Name>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
enum Reach {
    /// Read only
    Read,
    /// Read and write
    Write,
}

impl Database {
    /// The row of a database, from what every row has.
    pub(super) fn binding(&self, row: Binding) -> Outcome<Binding> {
        let (Some(user), Some(reach)) = (&self.user, self.access) else {
            return Err(Stop::new("a database is bound with --user and --access"));
        };
        let login = Login {
            database: self.database.clone().unwrap_or_else(|| user.clone()),
            user: user.clone(),
        };
        let access = match reach {
            Reach::Read => Access::Read,
            Reach::Write => Access::Write,
        };
        Ok(Binding {
            methods: access.methods(),
            paths: login.pattern().into_iter().collect(),
            slot: Slot::Postgres {
                access,
                role: self.role.clone(),
            },
            mode: Mode::Inject,
            ..row
        })
    }
}

fn name(text: &str) -> Result<Name, String> {
    let rule = "a name has at most 63 letters, digits, `_`, `-` and `.`, the first no `.`";
    Name::parse(text).ok_or_else(|| rule.to_owned())
}
