// SPDX-License-Identifier: Apache-2.0
//! The login at the far end, whose TLS is verified: SCRAM-SHA-256, bound to the TLS connection
//! where the server offers that. It must prove itself too. No other way in is taken: a server that
//! wants the password in clear or as MD5, or none at all, is refused.

use super::frame::{FROM_FAR_END_MAX, Frame, text};
use super::outbox::{Far, Outbox};
use super::scram::{PLAIN, PLUS, attributes, decoded, is_nonce, nonce};
use super::startup::CancelKey;
use super::{Around, Ended, answers, channel};
use crate::connect::Upstream;
use crate::inject::Password;
use crate::refuse::Fault;
use crate::report::Reporter;
use data_encoding::BASE64;
use torno_policy::binding::Slot;
use torno_policy::postgres::Access;

/// LIMIT: what a server says between login and its first ReadyForQuery: about 20 messages.
const WELCOME_MAX: usize = 256;
/// LIMIT: PostgreSQL's default is 4096; a hostile count would hold the gate.
const ITERATIONS: std::ops::RangeInclusive<u32> = 4096..=100_000;

/// A session at the far end, ready for its first statement.
pub(super) struct Session {
    pub(super) far: Far,
    /// What the client is told of it: settings and notices.
    pub(super) welcome: Vec<Frame>,
    pub(super) key: Option<CancelKey>,
}

/// What the far end is told at the start, before the client's first statement. As the session's own
/// defaults they are what RESET goes back to.
pub(super) fn ours(slot: &Slot) -> Vec<(&'static str, String)> {
    let mut ours = vec![
        ("client_encoding", "UTF8".to_owned()),
        ("standard_conforming_strings", "on".to_owned()),
    ];
    if let Slot::Postgres { access, role } = slot {
        if *access == Access::Read {
            ours.push(("default_transaction_read_only", "on".to_owned()));
        }
        ours.extend(role.as_ref().map(|role| ("role", role.to_string())));
    }
    ours
}

/// Sends the start that waits, logs in, and waits until the server is ready.
pub(super) async fn log_in(
    around: &Around<'_>,
    upstream: Upstream,
    (outbox, reporter): (&mut Outbox<'_>, &mut Reporter),
    (slot, password): (&Slot, Password),
) -> Result<Session, Ended> {
    let Upstream {
        io, certificate, ..
    } = upstream;
    let mut far = Far::new(io, FROM_FAR_END_MAX, around.limits.body_wait);
    outbox.send(&mut far, reporter).await?;
    let offered = authentication(&mut far, 10).await?;
    let end_point = certificate.and_then(|certificate| channel::end_point(&certificate));
    let own_nonce = nonce(around.random)?;
    let exchange = Exchange::new(&offered, end_point, own_nonce)?;
    outbox.put_own(&exchange.first())?;
    outbox.send(&mut far, reporter).await?;
    let server_first = authentication(&mut far, 11).await?;
    let (last, salted, message) = exchange.last(&server_first, &password)?;
    drop(password);
    outbox.put_own(&last)?;
    outbox.send(&mut far, reporter).await?;
    let server_last = authentication(&mut far, 12).await?;
    let [signature] = attributes(&server_last, ["v"]).map_err(|_| no_login())?;
    let signature = decoded(signature).map_err(|_| no_login())?;
    if !salted.is_signed(message.as_bytes(), &signature) {
        return Err(no_login().into());
    }
    authentication(&mut far, 0).await?;
    let is_reading = matches!(
        slot,
        Slot::Postgres {
            access: Access::Read,
            ..
        }
    );
    welcome(far, is_reading).await
}

/// One login by SCRAM, from this side.
struct Exchange {
    mechanism: &'static str,
    /// The header of the channel's binding, and what is bound.
    header: &'static str,
    bound: Vec<u8>,
    nonce: String,
}

impl Exchange {
    fn new(offered: &[u8], end_point: Option<Vec<u8>>, nonce: String) -> Result<Self, Fault> {
        let offers = |name: &str| offered.split(|b| *b == 0).any(|one| one == name.as_bytes());
        let (mechanism, header, bound) = match end_point {
            Some(bound) if offers(PLUS) => (PLUS, "p=tls-server-end-point,,", bound),
            // It would have been bound: a server that offered it notices that somebody took it out.
            Some(_) if offers(PLAIN) => (PLAIN, "y,,", Vec::new()),
            None if offers(PLAIN) => (PLAIN, "n,,", Vec::new()),
            Some(_) | None => return Err(no_scram()),
        };
        Ok(Self {
            mechanism,
            header,
            bound,
            nonce,
        })
    }

    fn bare(&self) -> String {
        format!("n=,r={}", self.nonce)
    }

    /// SASLInitialResponse.
    fn first(&self) -> Vec<u8> {
        let message = format!("{}{}", self.header, self.bare());
        let length = u32::try_from(message.len())
            .unwrap_or(u32::MAX)
            .to_be_bytes();
        let name = self.mechanism.as_bytes();
        response(&[name, b"\0", &length, message.as_bytes()].concat())
    }

    /// SASLResponse, what checks the server's answer, and the text that both sign.
    fn last(
        &self,
        server_first: &[u8],
        password: &Password,
    ) -> Result<(Vec<u8>, super::Salted, String), Ended> {
        let [nonce, salt, count] =
            attributes(server_first, ["r", "s", "i"]).map_err(|_| no_login())?;
        let added = nonce.strip_prefix(self.nonce.as_str());
        let is_fresh = added.is_some_and(|added| !added.is_empty()) && is_nonce(nonce);
        let salt_bytes = decoded(salt).map_err(|_| no_login())?;
        let iterations = count
            .parse()
            .ok()
            .filter(|count| ITERATIONS.contains(count));
        let (true, Some(iterations), false) = (is_fresh, iterations, salt_bytes.is_empty()) else {
            return Err(no_login().into());
        };
        let salted = password.salted(&salt_bytes, iterations)?;
        let channel = BASE64.encode(&[self.header.as_bytes(), &self.bound].concat());
        let without_proof = format!("c={channel},r={nonce}");
        let server_first = String::from_utf8_lossy(server_first);
        let message = format!("{},{server_first},{without_proof}", self.bare());
        let proof = BASE64.encode(&salted.proof(message.as_bytes()));
        let last = response(format!("{without_proof},p={proof}").as_bytes());
        Ok((last, salted, message))
    }
}

fn response(body: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    super::put(b'p', body, &mut message);
    message
}

/// The next message must be this step of the login.
async fn authentication(far: &mut Far, step: u32) -> Result<bytes::Bytes, Ended> {
    loop {
        let frame = far.next().await?.ok_or_else(no_login)?;
        match frame.kind {
            b'R' => {
                let kind = frame.body.split_first_chunk::<4>();
                return match kind.map(|(kind, _)| u32::from_be_bytes(*kind)) {
                    Some(kind) if kind == step => Ok(frame.body.slice(4..)),
                    _ => Err(no_scram().into()),
                };
            }
            b'N' => {}
            b'E' => return Err(refused(&frame).into()),
            _ => return Err(answers::malformed().into()),
        }
    }
}

/// What comes between the login and the first ReadyForQuery.
async fn welcome(mut far: Far, is_reading: bool) -> Result<Session, Ended> {
    let mut welcome = Vec::new();
    let mut key = None;
    while welcome.len() < WELCOME_MAX {
        let frame = far.next().await?.ok_or_else(no_login)?;
        match frame.kind {
            b'S' => {
                answers::check_setting(&frame, is_reading)?;
                welcome.push(frame);
            }
            b'N' => welcome.push(frame),
            b'K' => key = CancelKey::read(&frame.body).ok(),
            b'Z' if answers::status(&frame)? == b'I' => {
                return Ok(Session { far, welcome, key });
            }
            b'E' => return Err(refused(&frame).into()),
            _ => return Err(answers::malformed().into()),
        }
    }
    Err(answers::malformed().into())
}

/// The server's own no. Of what it says, only the code's kind is told on.
fn refused(error: &Frame) -> Fault {
    let mut body = error.body.as_ref();
    while let Ok(field) = text(&mut body) {
        match field {
            [b'C', b'2', b'8', ..] => return no_login(),
            [b'C', b'5', b'3', ..] => {
                return Fault::answer("the far end takes no more connections: try again later");
            }
            [b'C', b'3', b'D', ..] => return Fault::answer("the far end has no such database"),
            [] => break,
            _ => {}
        }
    }
    Fault::answer(
        "the far end did not open the session: check database, user and role of the binding",
    )
}

fn no_login() -> Fault {
    Fault::answer(
        "the far end did not take the login: check user, password and role of the binding",
    )
}

fn no_scram() -> Fault {
    Fault::answer(
        "the far end does not ask for SCRAM-SHA-256: set password_encryption and pg_hba.conf, no \
         password is sent otherwise",
    )
}
