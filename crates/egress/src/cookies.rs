// SPDX-License-Identifier: Apache-2.0
//! The jar: cookies of hosts whose binding says `broker`, kept here and put into later requests
//! that the same binding covers (decision 0035). A cookie goes to the endpoint that set it, for the
//! binding that earned it, at its path, in this session, and nowhere else. The sandbox gets a
//! marker of the same name, which means nothing to anybody.

mod date;
mod line;

pub(crate) use line::SetCookie;

use crate::scrub::Secret;
use std::collections::VecDeque;
use std::sync::Arc;
use torno_notary_protocol::gate::Keeping;
use torno_notary_protocol::transit::CredentialInTransit;
use torno_policy::names::{BindingId, CredentialName, Endpoint};
use zeroize::Zeroizing;

/// The value that a sandbox gets instead of a cookie's: clients that look for a cookie find one.
pub(crate) const MARKER: &str = "kept-by-torno";

/// LIMIT: cookies of one binding; sites set a handful. The one that was set first goes for a new
/// one.
const COOKIES_MAX: usize = 16;
/// LIMIT: their names and values together, so that one line of a head holds them: servers take
/// lines of 8 KiB.
const BYTES_MAX: usize = 6 * 1024;
/// LIMIT: bindings of a session that keep cookies: every answer is searched for all of them. What
/// is set for a further one goes nowhere.
const BINDINGS_MAX: usize = 4;
/// LIMIT: values that were replaced and are still searched for, since the far end may honour them.
const REPLACED_MAX: usize = 4;
/// LIMIT: the shortest value that answers are searched for, as for any secret.
const SEARCHED_BYTES_MIN: usize = 12;

/// Whose cookies, and for which requests.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) keeping: &'a Keeping,
    pub(crate) endpoint: &'a Endpoint,
    /// The request's path, canonical, without its query.
    pub(crate) path: &'a str,
    /// Unix seconds.
    pub(crate) now: u64,
}

/// One cookie.
struct Kept {
    binding: BindingId,
    credential: CredentialName,
    endpoint: Endpoint,
    name: String,
    path: String,
    value: Arc<CredentialInTransit>,
    searched: Arc<Secret>,
    expires: Option<u64>,
}

/// A cookie on its way out.
pub(crate) struct Sent {
    pub(crate) name: String,
    pub(crate) value: Arc<CredentialInTransit>,
}

/// What an answer did to the jar.
#[derive(Default)]
pub(crate) struct Taken {
    /// The values that are searched for changed.
    pub(crate) is_news: bool,
    /// The names of cookies that were set.
    pub(crate) names: Vec<String>,
    /// What the sandbox gets for them: values of `Set-Cookie`.
    pub(crate) markers: Vec<Vec<u8>>,
}

/// Every cookie that this session keeps.
#[derive(Default)]
pub(crate) struct Jar {
    kept: Vec<Kept>,
    /// The newest last.
    replaced: VecDeque<Arc<Secret>>,
}

impl Jar {
    /// Takes up what an answer sets. What is malformed, for another host, or over a limit is
    /// dropped, as every cookie was that nobody keeps.
    pub(crate) fn take<'l>(
        &mut self,
        place: Place<'_>,
        lines: impl Iterator<Item = &'l [u8]>,
    ) -> Taken {
        let mut taken = Taken::default();
        for line in lines.take(COOKIES_MAX) {
            let cookie = SetCookie::parse(line, place.now);
            if let Some(cookie) = cookie.filter(|c| c.is_for(place.endpoint)) {
                self.set(place, cookie, &mut taken);
            }
        }
        taken
    }

    fn set(&mut self, place: Place<'_>, cookie: SetCookie, taken: &mut Taken) {
        let path = cookie.path.clone();
        let path = path.unwrap_or_else(|| line::default_path(place.path).to_owned());
        let is_same =
            |kept: &Kept| kept.is_of(place) && kept.name == cookie.name && kept.path == path;
        if cookie.is_over(place.now) {
            taken.is_news |= self.remove(is_same);
            taken.markers.push(cookie.marker(place.now));
            return;
        }
        if !self.has_room(place, &cookie) {
            return;
        }
        let at = self.kept.iter().position(is_same);
        taken.names.push(cookie.name.clone());
        taken.markers.push(cookie.marker(place.now));
        let known = at.and_then(|at| self.kept.get_mut(at));
        if let Some(known) = known {
            known.expires = cookie.expires;
            if known.searched.is(&cookie.value) {
                return;
            }
        }
        taken.is_news = true;
        let size = cookie.size();
        let made = Kept::new(place, cookie, path);
        // One that is set anew keeps its turn (RFC 6265bis §5.7).
        match at.and_then(|at| self.kept.get_mut(at)) {
            Some(known) => {
                let old = std::mem::replace(known, made);
                self.retire(&old.searched);
            }
            None => self.kept.push(made),
        }
        self.shrink(place, size);
    }

    fn has_room(&self, place: Place<'_>, cookie: &SetCookie) -> bool {
        let mut others: Vec<&BindingId> = self.kept.iter().map(|kept| &kept.binding).collect();
        others.retain(|binding| **binding != place.keeping.binding);
        others.sort_unstable();
        others.dedup();
        others.len() < BINDINGS_MAX && cookie.size() <= BYTES_MAX
    }

    /// Within its limits again, the oldest first. The newest alone always fits.
    fn shrink(&mut self, place: Place<'_>, newest: usize) {
        loop {
            let own = || self.kept.iter().filter(|kept| kept.is_of(place));
            let bytes: usize = own().map(Kept::size).sum();
            if own().count() <= COOKIES_MAX && (bytes <= BYTES_MAX || bytes == newest) {
                return;
            }
            let Some(oldest) = self.kept.iter().position(|kept| kept.is_of(place)) else {
                return;
            };
            let old = self.kept.remove(oldest);
            self.retire(&old.searched);
        }
    }

    fn remove(&mut self, is_meant: impl Fn(&Kept) -> bool) -> bool {
        let mut gone = Vec::new();
        self.kept.retain(|kept| {
            let is_meant = is_meant(kept);
            if is_meant {
                gone.push(Arc::clone(&kept.searched));
            }
            !is_meant
        });
        gone.iter().for_each(|old| self.retire(old));
        !gone.is_empty()
    }

    /// A value that is no longer sent is still searched for, as long as few came behind it.
    fn retire(&mut self, old: &Arc<Secret>) {
        if self.replaced.len() >= REPLACED_MAX {
            self.replaced.pop_front();
        }
        self.replaced.push_back(Arc::clone(old));
    }

    /// What goes into a request: longer paths first, then those that were set first.
    pub(crate) fn sent(&self, place: Place<'_>) -> Vec<Sent> {
        let fits = |kept: &&Kept| {
            kept.is_of(place)
                && kept.expires.is_none_or(|expires| place.now < expires)
                && line::is_path_match(place.path, &kept.path)
        };
        let mut fitting: Vec<&Kept> = self.kept.iter().filter(fits).collect();
        fitting.sort_by_key(|kept| std::cmp::Reverse(kept.path.len()));
        let sent = fitting.into_iter().map(|kept| Sent {
            name: kept.name.clone(),
            value: Arc::clone(&kept.value),
        });
        sent.collect()
    }

    /// The credential was revoked, or the whole session.
    pub(crate) fn forget(&mut self, credential: Option<&CredentialName>) {
        self.remove(|kept| credential.is_none_or(|name| kept.credential == *name));
    }

    /// The values that answers are searched for.
    pub(crate) fn searched(&self) -> impl Iterator<Item = &Secret> {
        let kept = self.kept.iter().map(|kept| &kept.searched);
        let all = kept.chain(&self.replaced).map(Arc::as_ref);
        all.filter(|secret| secret.byte_count() >= SEARCHED_BYTES_MIN)
    }
}

impl Kept {
    fn new(place: Place<'_>, cookie: SetCookie, path: String) -> Self {
        Self {
            binding: place.keeping.binding.clone(),
            credential: place.keeping.credential.clone(),
            endpoint: place.endpoint.clone(),
            searched: Arc::new(Secret::new(&cookie.value, MARKER)),
            value: Arc::new(CredentialInTransit::new(cookie.value)),
            name: cookie.name,
            path,
            expires: cookie.expires,
        }
    }

    fn is_of(&self, place: Place<'_>) -> bool {
        self.binding == place.keeping.binding && self.endpoint == *place.endpoint
    }

    fn size(&self) -> usize {
        self.name.len() + self.value.byte_count()
    }
}

/// Whether a client's `Cookie` holds markers alone: they are dropped wherever they go.
pub(crate) fn is_markers(field: &[u8]) -> bool {
    let mut pairs = field.split(|b| *b == b';').map(<[u8]>::trim_ascii);
    pairs.all(|pair| {
        let value = pair.splitn(2, |b| *b == b'=').nth(1);
        value == Some(MARKER.as_bytes())
    })
}

/// How many bytes the field line of these cookies has.
pub(crate) fn line_size(sent: &[Sent]) -> usize {
    let pairs: usize = sent
        .iter()
        .map(|one| one.name.len() + one.value.byte_count() + 3)
        .sum();
    pairs + FIELD.len() + 2
}

/// How the field line begins.
pub(crate) const FIELD: &[u8] = b"cookie: ";

/// What an answer's lines leave in an empty jar, for the fuzzer: how many cookies a request with
/// this path gets.
pub(crate) fn kept_of(place: Place<'_>, lines: &[u8]) -> (usize, usize) {
    let mut jar = Jar::default();
    let taken = jar.take(place, lines.split(|b| *b == b'\n'));
    for marker in &taken.markers {
        let marker = Zeroizing::new(marker.clone());
        let again = SetCookie::parse(&marker, place.now);
        assert!(
            again.is_some_and(|c| *c.value == *MARKER.as_bytes()),
            "no marker"
        );
    }
    let sent = jar.sent(place);
    (sent.len(), line_size(&sent))
}

#[cfg(test)]
mod tests;
