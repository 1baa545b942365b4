// SPDX-License-Identifier: Apache-2.0
//! `--sigv4`: the credential is no value to put in, but a key that requests are signed with.

use torno_policy::binding::{Sigv4, Slot};

/// What a signature is made for.
#[derive(Debug, clap::Args)]
pub(super) struct Signed {
    /// It is the secret access key of this access key id: requests to AWS, or to a store that
    /// speaks the same, are signed with it (Signature Version 4)
    ///
    /// The program inside signs with its placeholder as AWS_ACCESS_KEY_ID and any text as
    /// AWS_SECRET_ACCESS_KEY; what goes out is signed anew.
    #[arg(
        long, value_name = "ACCESS_KEY_ID", requires_all = ["region", "service"],
        conflicts_with_all = ["header", "scheme", "basic", "place", "mode", "template"],
    )]
    sigv4: Option<String>,
    /// The region that requests are signed for, as in eu-central-1
    #[arg(long, requires = "sigv4")]
    region: Option<String>,
    /// The service that they are signed for, as in s3
    #[arg(long, requires = "sigv4")]
    service: Option<String>,
}

impl Signed {
    /// The slot, when one is asked for.
    pub(super) fn slot(&self) -> Option<Slot> {
        Some(Slot::Sigv4(Sigv4 {
            key_id: self.sigv4.clone()?,
            region: self.region.clone()?,
            service: self.service.clone()?,
        }))
    }
}
