// SPDX-License-Identifier: Apache-2.0
//! `--hmac`: the credential is a key that both sides have, and what goes out is signed with it.

use torno_policy::binding::{Hash, Hmac, KeyForm, Recipe, SignedField, Slot};

/// What is signed, and what goes out for it.
#[derive(Debug, clap::Args)]
pub(super) struct Keyed {
    /// It is the key of an HMAC over this, made of fixed text and words in braces
    ///
    /// {method} {host} {path} {query} {target} (path and query) {header:NAME} {body} {body_sha256}
    /// {timestamp} {timestamp_ms} {lf}. The gate signs what it sends, at its own time; where the
    /// body is signed it is read first, at most 1 MiB.
    #[arg(
        long, value_name = "RECIPE", value_parser = recipe, requires = "sends",
        conflicts_with_all = ["header", "scheme", "basic", "place", "template", "sigv4", "jwt"],
    )]
    hmac: Option<Recipe>,
    /// A header field that goes out for it, again for more: {hex} or {base64} is the signature, in
    /// one of them, {timestamp} the time
    #[arg(
        long, value_name = "FIELD: RECIPE", value_parser = field, requires = "hmac",
    )]
    sends: Vec<SignedField>,
    /// Its hash; sha256 when left out
    #[arg(long, value_enum, requires = "hmac")]
    hash: Option<HashWord>,
    /// How the stored value spells the key; text when left out
    #[arg(long, value_enum, requires = "hmac")]
    key_form: Option<KeyWord>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum HashWord {
    /// HMAC-SHA-256
    Sha256,
    /// HMAC-SHA-512
    Sha512,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum KeyWord {
    /// Its bytes are the key
    Text,
    /// It is the key in base64
    Base64,
    /// It is the key in hex
    Hex,
}

impl Keyed {
    /// The slot, when one is asked for.
    pub(super) fn slot(&self) -> Option<Slot> {
        Some(Slot::Hmac(Box::new(Hmac {
            hash: match self.hash {
                Some(HashWord::Sha512) => Hash::Sha512,
                Some(HashWord::Sha256) | None => Hash::Sha256,
            },
            key: match self.key_form {
                Some(KeyWord::Base64) => KeyForm::Base64,
                Some(KeyWord::Hex) => KeyForm::Hex,
                Some(KeyWord::Text) | None => KeyForm::Text,
            },
            text: self.hmac.clone()?,
            fields: self.sends.clone(),
        })))
    }
}

fn recipe(text: &str) -> Result<Recipe, String> {
    Recipe::try_from(text.to_owned()).map_err(str::to_owned)
}

/// `X-Hub-Signature-256: sha256={hex}`.
fn field(text: &str) -> Result<SignedField, String> {
    let (name, value) = text
        .split_once(": ")
        .ok_or("write it as `FIELD: RECIPE`, as in `X-Hub-Signature-256: sha256={hex}`")?;
    Ok(SignedField {
        name: name.to_ascii_lowercase(),
        value: recipe(value)?,
    })
}
