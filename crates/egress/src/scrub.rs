// SPDX-License-Identifier: Apache-2.0
//! Phase 10: what comes back is searched for every secret of this session, used or only watched, in
//! every listed encoding, and any run of 12 bytes of one. A find is replaced by the session's
//! placeholder, a partial one by `[redacted]`. Encodings outside `scrub/forms.rs` are a stated
//! limit.

mod forms;
mod gunzip;
mod index;
mod signed;
mod stream;
mod unpack;

pub(crate) use index::Scrubber;
pub(crate) use signed::Term;
pub(crate) use stream::ScrubStream;
pub(crate) use unpack::Unpack;
#[cfg(test)]
pub(crate) use unpack::tests as packed;

use crate::cookies::{Jar, Place, Sent, Taken};
use crate::refuse::Fault;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use torno_notary_protocol::gate::Injection;
use torno_notary_protocol::transit::CredentialInTransit;
use torno_policy::names::{BindingId, CredentialName, Endpoint};
use torno_policy::{Reason, Refusal};
use zeroize::Zeroizing;

/// One secret that was released, and what stands for it in the sandbox.
pub(crate) struct Secret {
    value: Zeroizing<Vec<u8>>,
    placeholder: String,
    /// Unix seconds after which it is worth nothing; nothing for what has no end of its own.
    dead_after: Option<u64>,
}

impl Secret {
    pub(crate) fn new(value: &[u8], placeholder: &str) -> Self {
        Self {
            value: Zeroizing::new(value.to_vec()),
            placeholder: placeholder.to_owned(),
            dead_after: None,
        }
    }

    pub(crate) fn is(&self, value: &[u8]) -> bool {
        self.value.as_slice() == value
    }

    pub(crate) fn byte_count(&self) -> usize {
        self.value.len()
    }
}

/// LIMIT: values released in one session, rotations and tokens that are alive included. At the
/// limit nothing more is injected: an answer that can't be scrubbed must not come.
const SECRETS_MAX: usize = 64;
/// LIMIT: searches that are alive; cookies that come beyond it are dropped, as over any limit of
/// theirs, so that answers which stand still hold no more.
const SEARCHES_MAX: usize = 16;

/// Every secret that the notary released to this gate so far.
#[derive(Default)]
pub(crate) struct Released {
    inner: RwLock<Inner>,
    version: AtomicU64,
    watch: AtomicU64,
}

#[derive(Default)]
struct Inner {
    secrets: Vec<Secret>,
    /// Values that far ends made, by what stands for them.
    minted: HashMap<String, Minted>,
    /// Tokens that were signed here.
    tokens: signed::Tokens,
    jar: Jar,
    scrubber: Option<Arc<Scrubber>>,
    /// Every search that an answer may still hold: one that stands still keeps the one it has.
    searches: Vec<Weak<Scrubber>>,
    endpoints: HashSet<Endpoint>,
}

/// A value that a far end made with a credential of the session, and where alone it may go.
struct Minted {
    endpoint: Endpoint,
    value: Arc<CredentialInTransit>,
    refresh: Option<RefreshedAt>,
}

/// Which binding's token endpoint made a refresh token, and at which path.
struct RefreshedAt {
    binding: BindingId,
    path: String,
}

/// A token endpoint: where refresh tokens are made, and taken back.
#[derive(Clone, Copy)]
pub(crate) struct Refreshing<'a> {
    pub(crate) binding: &'a BindingId,
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) path: &'a str,
}

impl RefreshedAt {
    fn is_at(&self, path: &str) -> bool {
        self.path == path
    }
}

impl Released {
    /// Called before a credential is put on the wire: from now on every answer is searched for it.
    pub(crate) fn remember(
        &self,
        injection: &Injection,
        endpoint: &Endpoint,
        value: &[u8],
    ) -> Result<(), Refusal> {
        let knows = |inner: &Inner| {
            inner.endpoints.contains(endpoint)
                && inner.secrets.iter().any(|s| s.value.as_slice() == value)
        };
        if knows(&self.inner.read().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(());
        }
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.endpoints.insert(endpoint.clone());
        self.add(&mut inner, &injection.placeholder, value)
    }

    /// Called before a request is sent that does not use the credential: its answer, and all later
    /// ones, are searched for it.
    pub(crate) fn watch_for(&self, placeholder: &str, value: &[u8]) -> Result<(), Refusal> {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        self.add(&mut inner, placeholder, value)
    }

    /// Whether answers are searched for this value already.
    pub(crate) fn knows(&self, value: &[u8]) -> bool {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        inner.secrets.iter().any(|s| s.value.as_slice() == value)
    }

    /// Keeps a value that this endpoint made, for requests to it that present the placeholder. All
    /// later answers are searched for it.
    pub(crate) fn keep_minted(
        &self,
        placeholder: &str,
        (endpoint, refreshing): (&Endpoint, Option<Refreshing<'_>>),
        value: &Zeroizing<Vec<u8>>,
    ) -> Result<(), Refusal> {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        self.add(&mut inner, placeholder, value)?;
        let minted = Minted {
            endpoint: endpoint.clone(),
            value: Arc::new(CredentialInTransit::new(value.clone())),
            refresh: refreshing.map(|at| RefreshedAt {
                binding: at.binding.clone(),
                path: at.path.to_owned(),
            }),
        };
        inner.minted.insert(placeholder.to_owned(), minted);
        Ok(())
    }

    /// The minted value that the placeholder stands for, at the endpoint that made it.
    pub(crate) fn minted(
        &self,
        placeholder: &str,
        endpoint: &Endpoint,
    ) -> Option<Arc<CredentialInTransit>> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        let minted = inner.minted.get(placeholder);
        let minted = minted.filter(|minted| minted.endpoint == *endpoint);
        minted.map(|minted| Arc::clone(&minted.value))
    }

    /// The refresh token that the placeholder stands for, at the token endpoint that made it.
    pub(crate) fn refresh(
        &self,
        placeholder: &str,
        at: Refreshing<'_>,
    ) -> Option<Arc<CredentialInTransit>> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        let minted = inner.minted.get(placeholder)?;
        let made = minted.refresh.as_ref()?;
        let is_here = minted.endpoint == *at.endpoint && made.is_at(at.path);
        (is_here && made.binding == *at.binding).then(|| Arc::clone(&minted.value))
    }

    /// Whether a refresh token was made here.
    pub(crate) fn has_refreshed_at(&self, endpoint: &Endpoint, path: &str) -> bool {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        inner.minted.values().any(|minted| {
            let made = minted.refresh.as_ref();
            minted.endpoint == *endpoint && made.is_some_and(|made| made.is_at(path))
        })
    }

    /// Takes up the cookies that an answer sets. All later answers are searched for them, and what
    /// its endpoint sets from now on goes into no sandbox.
    pub(crate) fn keep_cookies<'l>(
        &self,
        place: Place<'_>,
        lines: impl Iterator<Item = &'l [u8]>,
    ) -> Taken {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.searches.retain(|search| search.strong_count() > 0);
        if inner.searches.len() >= SEARCHES_MAX {
            return Taken::default();
        }
        let taken = inner.jar.take(place, lines);
        if taken.is_news {
            inner.endpoints.insert(place.endpoint.clone());
            self.search_anew(&mut inner);
        }
        taken
    }

    /// The cookies that go into a request.
    pub(crate) fn cookies(&self, place: Place<'_>) -> Vec<Sent> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        inner.jar.sent(place)
    }

    /// Cookies that a revoked credential earned are gone; answers are still searched for them.
    pub(crate) fn forget_cookies(&self, credential: Option<&CredentialName>) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.jar.forget(credential);
    }

    /// The watch of this number is taken up: all of its secrets are known here.
    pub(crate) fn take_up(&self, watch: u64) {
        self.watch.fetch_max(watch, Ordering::AcqRel);
    }

    /// The newest watch that was taken up.
    pub(crate) fn watch(&self) -> u64 {
        self.watch.load(Ordering::Acquire)
    }

    fn add(&self, inner: &mut Inner, placeholder: &str, value: &[u8]) -> Result<(), Refusal> {
        if inner.secrets.iter().any(|s| s.value.as_slice() == value) {
            return Ok(());
        }
        if inner.secrets.len() >= SECRETS_MAX {
            return Err(Fault::new(
                Reason::LimitReached,
                "the session has used as many credential values as it may: start a new one",
            )
            .refusal());
        }
        inner.secrets.push(Secret::new(value, placeholder));
        self.search_anew(inner);
        Ok(())
    }

    fn search_anew(&self, inner: &mut Inner) {
        let all = inner.secrets.iter().chain(inner.jar.searched());
        let search = Arc::new(Scrubber::new(all));
        inner.searches.push(Arc::downgrade(&search));
        inner.scrubber = Some(search);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Whether nothing was released yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.version() == 0
    }

    /// Raised by each value that is released.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The search for all of them.
    pub(crate) fn scrubber(&self) -> Option<Arc<Scrubber>> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        inner.scrubber.clone()
    }

    /// Whether a credential was ever sent to this endpoint.
    pub(crate) fn was_sent_to(&self, endpoint: &Endpoint) -> bool {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        inner.endpoints.contains(endpoint)
    }
}

/// The search over one answer's body. It takes up secrets that are released while the answer is
/// still coming.
pub(crate) struct BodyScrub<'a> {
    released: &'a Released,
    version: u64,
    stream: Option<ScrubStream>,
}

impl<'a> BodyScrub<'a> {
    pub(crate) fn new(released: &'a Released) -> Self {
        let version = released.version();
        Self {
            released,
            version,
            stream: released.scrubber().map(ScrubStream::new),
        }
    }

    /// Passes bytes through; what may still become a find is held, at most one window of it.
    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let version = self.released.version();
        if version != self.version {
            self.version = version;
            if let Some(scrubber) = self.released.scrubber() {
                match &mut self.stream {
                    Some(stream) => stream.adopt(scrubber, out),
                    none @ None => *none = Some(ScrubStream::new(scrubber)),
                }
            }
        }
        match &mut self.stream {
            Some(stream) => stream.push(bytes, out),
            None => out.extend_from_slice(bytes),
        }
    }

    /// Lets out what is held.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        if let Some(stream) = &mut self.stream {
            stream.finish(out);
        }
    }

    /// Finds so far.
    pub(crate) fn hits(&self) -> u32 {
        self.stream.as_ref().map_or(0, ScrubStream::hits)
    }
}

/// Scrubs bytes that are all there. Gives the number of finds.
pub(crate) fn scrub_whole(
    scrubber: Option<&Arc<Scrubber>>,
    bytes: &[u8],
    out: &mut Vec<u8>,
) -> u32 {
    let Some(scrubber) = scrubber else {
        out.extend_from_slice(bytes);
        return 0;
    };
    ScrubStream::new(Arc::clone(scrubber)).whole(bytes, out)
}

#[cfg(test)]
mod tests;
