// SPDX-License-Identifier: Apache-2.0
//! `--jwt`: the credential is a key, and claims that are signed with it go out as a bearer token.

use crate::values;
use torno_policy::binding::{Algorithm, Jwt, Slot};

/// What is claimed. The program inside chooses none of it.
#[derive(Debug, clap::Args)]
pub(super) struct Claims {
    /// It is the key that signs a JWT, sent as `Authorization: Bearer …`: a private key in PEM for
    /// RS256 and ES256, a secret of 32 bytes or more for HS256
    #[arg(
        long, value_name = "ALGORITHM", value_enum, requires = "issuer",
        conflicts_with_all = ["header", "scheme", "basic", "place", "template", "sigv4", "hmac"],
    )]
    jwt: Option<AlgorithmWord>,
    /// `iss`: the id of an app, the mail address of a service account
    #[arg(long, value_name = "TEXT", requires = "jwt")]
    issuer: Option<String>,
    /// `sub`
    #[arg(long, value_name = "TEXT", requires = "jwt")]
    subject: Option<String>,
    /// `aud`
    #[arg(long, value_name = "TEXT", requires = "jwt")]
    audience: Option<String>,
    /// `kid`: which of the issuer's keys it is
    #[arg(long, value_name = "TEXT", requires = "jwt")]
    key_id: Option<String>,
    /// How long a token is good for, 2m to 10m; 10m when left out
    #[arg(long, value_name = "TIME", value_parser = values::duration, requires = "jwt")]
    lifetime: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum AlgorithmWord {
    /// RSA with SHA-256
    #[value(name = "RS256")]
    Rs256,
    /// P-256 with SHA-256
    #[value(name = "ES256")]
    Es256,
    /// HMAC with SHA-256
    #[value(name = "HS256")]
    Hs256,
}

/// Ten minutes, the longest.
const LIFETIME_SECONDS: u64 = 600;

impl Claims {
    /// The slot, when one is asked for.
    pub(super) fn slot(&self) -> Option<Slot> {
        let seconds = self.lifetime.unwrap_or(LIFETIME_SECONDS);
        Some(Slot::Jwt(Box::new(Jwt {
            algorithm: match self.jwt? {
                AlgorithmWord::Rs256 => Algorithm::RS256,
                AlgorithmWord::Es256 => Algorithm::ES256,
                AlgorithmWord::Hs256 => Algorithm::HS256,
            },
            issuer: self.issuer.clone()?,
            subject: self.subject.clone(),
            audience: self.audience.clone(),
            key_id: self.key_id.clone(),
            // What is more than fits is refused with what is too long.
            lifetime_seconds: u16::try_from(seconds).unwrap_or(u16::MAX),
        })))
    }
}
