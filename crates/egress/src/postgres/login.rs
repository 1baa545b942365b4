// SPDX-License-Identifier: Apache-2.0
//! The client's login: it proves by SCRAM that it knows the session's placeholder. Nothing that it
//! says goes to the far end, and there is one try on a connection.

use super::Ended;
use super::frame::{Lane, malformed, put};
use super::scram::{PLAIN, Salted, attributes, decoded, is_nonce, nonce};
use crate::refuse::Fault;
use data_encoding::BASE64;
use rustls::crypto::SecureRandom;
use torno_policy::names::RuleName;
use torno_policy::{Layer, Reason, Refusal};

/// LIMIT: the smallest count of RFC 7677; a placeholder has 128 random bits.
const ITERATIONS: u32 = 4096;

/// Asks the client for its proof and checks it. Gives the last message of SCRAM, which is told
/// together with the far end's welcome.
pub(super) async fn authenticate(
    client: &mut Lane,
    placeholder: &str,
    random: &dyn SecureRandom,
) -> Result<Vec<u8>, Ended> {
    tell(client, 10, &[PLAIN.as_bytes(), b"\0\0"].concat()).await?;
    let first = answer(client).await?;
    let first = First::read(&first)?;
    let whole_nonce = format!("{}{}", first.nonce, nonce(random)?);
    let salt = nonce(random)?;
    let server_first = format!("r={whole_nonce},s={salt},i={ITERATIONS}");
    tell(client, 11, server_first.as_bytes()).await?;
    let last = answer(client).await?;
    let (without_proof, proof) = first.check_last(&last, &whole_nonce)?;
    let message = format!("{},{server_first},{without_proof}", first.bare);
    let salted = Salted::new(placeholder.as_bytes(), &decoded(&salt)?, ITERATIONS);
    if !salted.accepts(message.as_bytes(), &proof) {
        return Err(Ended::Refused(wrong_placeholder()));
    }
    let signature = BASE64.encode(&salted.server_signature(message.as_bytes()));
    Ok(format!("v={signature}").into_bytes())
}

/// The client's first message of SCRAM.
struct First {
    /// What comes before the message itself: whether channels could be bound.
    header: String,
    bare: String,
    nonce: String,
}

impl First {
    /// Reads SASLInitialResponse.
    fn read(mut body: &[u8]) -> Result<Self, Fault> {
        let mechanism = super::frame::text(&mut body)?;
        if mechanism != PLAIN.as_bytes() {
            return Err(malformed());
        }
        let (length, message) = body.split_first_chunk::<4>().ok_or_else(malformed)?;
        if usize::try_from(u32::from_be_bytes(*length)) != Ok(message.len()) {
            return Err(malformed());
        }
        let text = std::str::from_utf8(message).map_err(|_| malformed())?;
        // A name to act as is refused; `p=` was not offered.
        let headers = ["n,,", "y,,"];
        let header = headers.into_iter().find(|header| text.starts_with(header));
        let header = header.ok_or_else(malformed)?;
        let bare = text.strip_prefix(header).ok_or_else(malformed)?;
        // The user is the one of the start; PostgreSQL's clients leave it out here.
        let [_, nonce] = attributes(bare.as_bytes(), ["n", "r"])?;
        if !is_nonce(nonce) {
            return Err(malformed());
        }
        Ok(Self {
            header: header.to_owned(),
            bare: bare.to_owned(),
            nonce: nonce.to_owned(),
        })
    }

    /// The last message: without its proof, and the proof.
    fn check_last(&self, last: &[u8], whole_nonce: &str) -> Result<(String, Vec<u8>), Fault> {
        let [channel, nonce, proof] = attributes(last, ["c", "r", "p"])?;
        let expected = BASE64.encode(self.header.as_bytes());
        if channel != expected || nonce != whole_nonce {
            return Err(malformed());
        }
        Ok((format!("c={channel},r={nonce}"), decoded(proof)?))
    }
}

async fn answer(client: &mut Lane) -> Result<bytes::Bytes, Ended> {
    match client.next().await? {
        Some(frame) if frame.kind == b'p' => Ok(frame.body),
        Some(_) => Err(malformed().into()),
        None => Err(Ended::Gone),
    }
}

/// An authentication message.
pub(super) fn authentication(kind: u32, body: &[u8], out: &mut Vec<u8>) {
    put(b'R', &[&kind.to_be_bytes(), body].concat(), out);
}

async fn tell(client: &mut Lane, kind: u32, body: &[u8]) -> Result<(), Ended> {
    let mut message = Vec::new();
    authentication(kind, body, &mut message);
    Ok(client.send(&message).await?)
}

fn wrong_placeholder() -> Refusal {
    Refusal {
        reason: Reason::PlaceholderUnknown,
        layer: Layer::Vault,
        rule: RuleName::new("egress.postgres"),
        hint: "give the placeholder from this session's environment as the password".to_owned(),
    }
}
