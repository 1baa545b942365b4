// SPDX-License-Identifier: Apache-2.0
//! One value of `Set-Cookie` (RFC 6265bis §5.6), read by one host for itself: `Domain` widens
//! nothing here, a name that not everybody reads in one way is no name, and what is in doubt is no
//! cookie.

use super::{MARKER, date};
use torno_policy::names::{Endpoint, Host, Scheme};
use zeroize::Zeroizing;

/// LIMIT: RFC 6265bis §5.6: name and value of 4096 bytes.
const PAIR_BYTES_MAX: usize = 4096;
/// LIMIT: names of real cookies have at most about 200 bytes.
const NAME_BYTES_MAX: usize = 256;
/// LIMIT: RFC 6265bis §5.6: an attribute's value of 1024 bytes; longer ones are no attribute.
const ATTRIBUTE_BYTES_MAX: usize = 1024;
/// LIMIT: RFC 6265bis §5.6 asks for no more than 400 days.
const AGE_SECONDS_MAX: u64 = 400 * 86_400;

/// A cookie as a far end sets it.
pub(crate) struct SetCookie {
    pub(super) name: String,
    pub(super) value: Zeroizing<Vec<u8>>,
    /// Where it says so.
    pub(super) path: Option<String>,
    domain: Option<String>,
    /// Unix seconds; nothing lasts as long as the session.
    pub(super) expires: Option<u64>,
    is_secure: bool,
    is_http_only: bool,
}

impl SetCookie {
    /// Reads a line; nothing where it is no cookie.
    pub(crate) fn parse(line: &[u8], now: u64) -> Option<Self> {
        if !line.iter().all(|b| matches!(b, b' '..=b'~' | b'\t')) {
            return None;
        }
        let mut parts = line.split(|b| *b == b';');
        let pair = parts.next()?.trim_ascii();
        let equals = memchr::memchr(b'=', pair)?;
        let (name, value) = (pair.get(..equals)?, pair.get(equals + 1..)?);
        let (name, value) = (name.trim_ascii(), value.trim_ascii());
        let is_fitting = name.len() + value.len() <= PAIR_BYTES_MAX;
        if !is_fitting || !is_name(name) || value.contains(&b'\t') {
            return None;
        }
        let mut cookie = Self {
            name: String::from_utf8(name.to_vec()).ok()?,
            value: Zeroizing::new(value.to_vec()),
            path: None,
            domain: None,
            expires: None,
            is_secure: false,
            is_http_only: false,
        };
        let (mut age, mut date) = (None, None);
        for part in parts {
            let mut halves = part.splitn(2, |b| *b == b'=').map(<[u8]>::trim_ascii);
            let name = halves.next().unwrap_or_default().to_ascii_lowercase();
            let value = halves.next().unwrap_or_default();
            if value.len() > ATTRIBUTE_BYTES_MAX {
                continue;
            }
            // Nothing but the tab of a line is no printable character.
            let text = || {
                String::from_utf8(value.to_vec())
                    .ok()
                    .filter(|t| !t.contains('\t'))
            };
            // The last of a name counts, as everywhere.
            match name.as_slice() {
                b"path" => cookie.path = text().filter(|path| path.starts_with('/')),
                b"domain" => cookie.domain = text(),
                b"max-age" => age = seconds(value).or(age),
                b"expires" => date = date::unix_seconds(value).or(date),
                b"secure" => cookie.is_secure = true,
                b"httponly" => cookie.is_http_only = true,
                _ => {}
            }
        }
        let age = age.map(|age| now.saturating_add(age.min(AGE_SECONDS_MAX)));
        cookie.expires = age.or(date);
        Some(cookie)
    }

    /// Whether the endpoint may set it. Where it names a domain, the host is in it; it stays the
    /// host's own all the same.
    pub(crate) fn is_for(&self, endpoint: &Endpoint) -> bool {
        let is_secure = self.is_secure && endpoint.scheme == Scheme::Https;
        let is_root = self.path.as_deref() == Some("/");
        let name = self.name.to_ascii_lowercase();
        if name.starts_with("__host-") && !(is_secure && is_root && self.domain.is_none()) {
            return false;
        }
        if name.starts_with("__secure-") && !is_secure {
            return false;
        }
        if self.is_secure && !is_secure {
            return false;
        }
        let domain = self.domain.as_deref().filter(|domain| !domain.is_empty());
        domain.is_none_or(|domain| is_within(&endpoint.host, domain))
    }

    /// Whether it is set in order to be removed.
    pub(super) fn is_over(&self, now: u64) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// Whether a byte of it could end a field or a pair: never.
    pub(crate) fn has_control(&self) -> bool {
        let all = self.name.bytes().chain(self.value.iter().copied());
        let path = self.path.iter().flat_map(|path| path.bytes());
        all.chain(path)
            .any(|b| !(b' '..0x7f).contains(&b) || b == b';')
    }

    pub(super) fn size(&self) -> usize {
        self.name.len() + self.value.len()
    }

    /// What the sandbox gets: the name, a value that opens nothing, and as long as this lasts.
    pub(super) fn marker(&self, now: u64) -> Vec<u8> {
        let mut marker = format!("{}={MARKER}", self.name);
        if let Some(path) = &self.path {
            marker.push_str(&format!("; Path={path}"));
        }
        if let Some(expires) = self.expires {
            marker.push_str(&format!("; Max-Age={}", expires.saturating_sub(now)));
        }
        if self.is_secure {
            marker.push_str("; Secure");
        }
        if self.is_http_only {
            marker.push_str("; HttpOnly");
        }
        marker.into_bytes()
    }
}

/// A name that no reader of cookies takes apart.
fn is_name(name: &[u8]) -> bool {
    let plain = |b: &u8| b.is_ascii_graphic() && !b"\",;\\=".contains(b);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.iter().all(plain)
}

/// `Max-Age`: negative is no time at all.
fn seconds(value: &[u8]) -> Option<u64> {
    let (sign, digits) = match value.split_first() {
        Some((b'-', digits)) => (true, digits),
        _ => (false, value),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let text = std::str::from_utf8(digits).ok()?;
    let count = text.parse().unwrap_or(u64::MAX);
    Some(if sign { 0 } else { count })
}

/// Whether a host is the domain or below it (RFC 6265bis §5.1.3).
fn is_within(host: &Host, domain: &str) -> bool {
    let domain = domain.strip_prefix('.').unwrap_or(domain);
    let domain = domain.to_ascii_lowercase();
    let Host::Name(name) = host else {
        return host.to_string() == domain;
    };
    let below = name.strip_suffix(domain.as_str());
    below.is_some_and(|below| below.is_empty() || below.ends_with('.'))
}

/// The path of a cookie that says none (RFC 6265bis §5.1.4): the request's, up to its last slash.
pub(super) fn default_path(request: &str) -> &str {
    let end = request.rfind('/').unwrap_or(0);
    request
        .get(..end)
        .filter(|path| !path.is_empty())
        .unwrap_or("/")
}

/// Whether a request's path is at or below a cookie's (RFC 6265bis §5.1.4).
pub(super) fn is_path_match(request: &str, cookie: &str) -> bool {
    let rest = request.strip_prefix(cookie);
    rest.is_some_and(|rest| rest.is_empty() || cookie.ends_with('/') || rest.starts_with('/'))
}
