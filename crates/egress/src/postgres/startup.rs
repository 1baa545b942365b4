// SPDX-License-Identifier: Apache-2.0
//! The first packet of a PostgreSQL connection: read once into one value. What is not on the list
//! is refused, never passed on: a parameter here is a setting of the session there.

use super::frame::{malformed, text};
use crate::refuse::Fault;
use torno_policy::Reason;
use torno_policy::postgres::{Login, Name};

/// What a first packet is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum First {
    /// TLS, please.
    Tls,
    /// Encryption by GSSAPI, please.
    Gss,
    /// Cancel what another connection does.
    Cancel(CancelKey),
    /// A session.
    Start(Startup),
}

/// What names a session to whoever cancels in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CancelKey {
    pub(crate) process: u32,
    pub(crate) secret: u32,
}

/// A session as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Startup {
    pub(crate) login: Login,
    /// Settings that are passed on: listed names, visible ASCII.
    pub(crate) settings: Vec<(&'static str, String)>,
}

const PROTOCOL_3_0: u32 = 3 << 16;
const CANCEL: u32 = 80_877_102;
const TLS: u32 = 80_877_103;
const GSS: u32 = 80_877_104;

/// LIMIT: as in PostgreSQL (`MAX_STARTUP_PACKET_LENGTH`).
const PACKET_BYTES_MAX: usize = 10_000;
/// LIMIT: zone names and application names are shorter.
const VALUE_BYTES_MAX: usize = 128;

/// The settings that a client may bring, in lower case.
const SETTINGS: [&str; 5] = [
    "application_name",
    "datestyle",
    "extra_float_digits",
    "intervalstyle",
    "timezone",
];

/// Whether these are the first bytes of such a packet; nothing when more of them must come. No
/// request line and no TLS record begins with a zero.
pub(crate) fn opens(bytes: &[u8]) -> Option<bool> {
    if bytes.iter().take(2).any(|byte| *byte != 0) {
        return Some(false);
    }
    let (length, code) = head(bytes)?;
    let is_known = code >> 16 == 3 || [CANCEL, TLS, GSS].contains(&code);
    Some(is_known && (8..=PACKET_BYTES_MAX).contains(&length))
}

/// Reads the first packet and its length; nothing when more must come.
pub(crate) fn read(bytes: &[u8]) -> Result<Option<(First, usize)>, Fault> {
    match opens(bytes) {
        None => return Ok(None),
        Some(false) => return Err(malformed()),
        Some(true) => {}
    }
    let Some((length, code)) = head(bytes) else {
        return Ok(None);
    };
    let Some(body) = bytes.get(8..length) else {
        return Ok(None);
    };
    let first = match code {
        TLS | GSS if !body.is_empty() => return Err(malformed()),
        TLS => First::Tls,
        GSS => First::Gss,
        CANCEL => First::Cancel(CancelKey::read(body)?),
        PROTOCOL_3_0 => First::Start(Startup::read(body)?),
        _ => {
            return Err(Fault::malformed(
                "speak version 3.0 of PostgreSQL's protocol",
            ));
        }
    };
    Ok(Some((first, length)))
}

fn head(bytes: &[u8]) -> Option<(usize, u32)> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (code, _) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    Some((length, u32::from_be_bytes(*code)))
}

impl CancelKey {
    /// Two numbers, as in BackendKeyData and in a cancel.
    pub(crate) fn read(body: &[u8]) -> Result<Self, Fault> {
        let halves = body.split_first_chunk::<4>();
        let (process, secret) = halves.ok_or_else(malformed)?;
        let secret: [u8; 4] = secret.try_into().map_err(|_| malformed())?;
        Ok(Self {
            process: u32::from_be_bytes(*process),
            secret: u32::from_be_bytes(secret),
        })
    }

    pub(super) fn bytes(self) -> [u8; 8] {
        let number = (u64::from(self.process) << 32) | u64::from(self.secret);
        number.to_be_bytes()
    }

    /// The whole packet of a cancel.
    pub(super) fn packet(self) -> Vec<u8> {
        packet(CANCEL, &self.bytes())
    }
}

impl Startup {
    fn read(mut body: &[u8]) -> Result<Self, Fault> {
        let (mut user, mut database) = (None, None);
        let mut settings = Vec::new();
        loop {
            let name = text(&mut body)?;
            if name.is_empty() {
                break;
            }
            let value = text(&mut body)?;
            match name {
                b"user" => once(&mut user, name_of(value)?)?,
                b"database" => once(&mut database, name_of(value)?)?,
                _ => setting(name, value, &mut settings)?,
            }
        }
        if !body.is_empty() {
            return Err(malformed());
        }
        let user = user.ok_or_else(malformed)?;
        let database = database.unwrap_or_else(|| user.clone());
        Ok(Self {
            login: Login { database, user },
            settings,
        })
    }

    /// The packet for the far end, with the gate's own settings behind the client's.
    pub(crate) fn packet(&self, ours: &[(&'static str, String)]) -> Vec<u8> {
        let mut body = Vec::new();
        let login = [
            ("user", self.login.user.as_str()),
            ("database", self.login.database.as_str()),
        ];
        let theirs = self.settings.iter().chain(ours);
        let theirs = theirs.map(|(name, value)| (*name, value.as_str()));
        for (name, value) in login.into_iter().chain(theirs) {
            for text in [name, value] {
                body.extend_from_slice(text.as_bytes());
                body.push(0);
            }
        }
        body.push(0);
        packet(PROTOCOL_3_0, &body)
    }
}

/// What asks a far end for TLS.
pub(crate) fn tls_request() -> Vec<u8> {
    packet(TLS, &[])
}

fn packet(code: u32, body: &[u8]) -> Vec<u8> {
    // INVARIANT: packets of ours hold a few names and settings.
    let length = u32::try_from(body.len().saturating_add(8)).unwrap_or(u32::MAX);
    [&length.to_be_bytes(), &code.to_be_bytes(), body].concat()
}

fn once(place: &mut Option<Name>, name: Name) -> Result<(), Fault> {
    if place.replace(name).is_some() {
        return Err(Fault::malformed("name user and database once each"));
    }
    Ok(())
}

fn name_of(value: &[u8]) -> Result<Name, Fault> {
    let name = std::str::from_utf8(value).ok().and_then(Name::parse);
    name.ok_or_else(|| {
        Fault::malformed(
            "a user or database has at most 63 letters, digits, `_`, `-` and `.` here, and no \
             connection string in its place",
        )
    })
}

fn setting(
    name: &[u8],
    value: &[u8],
    settings: &mut Vec<(&'static str, String)>,
) -> Result<(), Fault> {
    if name.eq_ignore_ascii_case(b"client_encoding") {
        return check_encoding(value);
    }
    let known = SETTINGS
        .iter()
        .find(|known| name.eq_ignore_ascii_case(known.as_bytes()));
    let known = known.ok_or_else(|| {
        Fault::new(
            Reason::OperationNotGranted,
            "leave out options, replication and settings at the start of a connection: user, \
             database, application_name, client_encoding, datestyle, extra_float_digits, \
             intervalstyle and timezone are taken",
        )
    })?;
    let plain = |b: &u8| (b' '..0x7f).contains(b);
    let text = std::str::from_utf8(value).ok();
    let text = text.filter(|text| text.len() <= VALUE_BYTES_MAX && text.bytes().all(|b| plain(&b)));
    let text =
        text.ok_or_else(|| Fault::malformed("a setting is at most 128 visible characters"))?;
    if settings.iter().any(|(name, _)| name == known) {
        return Err(Fault::malformed("say each setting once"));
    }
    settings.push((known, text.to_owned()));
    Ok(())
}

/// Statements are judged as UTF-8, so that is spoken. A client without a locale says SQL_ASCII and
/// is told UTF-8.
fn check_encoding(value: &[u8]) -> Result<(), Fault> {
    let folded: Vec<u8> = value
        .iter()
        .filter(|byte| byte.is_ascii_alphanumeric())
        .map(u8::to_ascii_lowercase)
        .collect();
    match folded.as_slice() {
        b"utf8" | b"unicode" | b"sqlascii" => Ok(()),
        _ => Err(Fault::new(
            Reason::OperationNotGranted,
            "use client_encoding UTF8: statements are judged in it",
        )),
    }
}

#[cfg(test)]
mod tests;
