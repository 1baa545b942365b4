// SPDX-License-Identifier: Apache-2.0
//! The session's tripwires, looked for in what leaves: in a head before the question is asked, so
//! that the notary judges the find, and in a body before each piece goes on. The search is that of
//! answers, turned around: every listed encoding, and any run of 12 characters.

use super::{PRESENTED_MAX, Request};
use crate::head::Head;
use crate::scrub::{Scrubber, Secret};
use std::sync::Arc;
use torno_policy::facts::{Location, Presented};
use torno_policy::placeholder::MARK;
use torno_policy::tripwire::{HINT, IssuedTripwire, Tripwire};
use torno_policy::{Layer, Reason, Refusal};

/// What to look for. Without tripwires nothing is.
#[derive(Default)]
pub(crate) struct Tripwires {
    /// In the order of the search's owners.
    issued: Vec<IssuedTripwire>,
    search: Option<Arc<Scrubber>>,
}

impl Tripwires {
    /// Looked for is what is random of each: its shape stands in honest text too.
    pub(crate) fn new(tripwires: &[Tripwire]) -> Self {
        let (mut issued, mut values) = (Vec::new(), Vec::new());
        for tripwire in tripwires {
            let random = tripwire.value.split_once(MARK).map(|(_, random)| random);
            if let (Some(wire), Some(random)) = (tripwire.issued(), random) {
                issued.push(wire);
                values.push(Secret::new(random.as_bytes(), ""));
            }
        }
        let search = (!values.is_empty()).then(|| Arc::new(Scrubber::new(&values)));
        Self { issued, search }
    }

    /// Adds to the request's facts each place of its head that holds one.
    pub(crate) fn present(&self, request: &mut Request) {
        // Most heads hold none: one look over each.
        if self.of_head(&request.head).is_none() {
            return;
        }
        let presented = &mut request.facts.presented;
        let mut place = |location: Location, text: &[u8]| {
            // The first is enough to refuse it, and a question has its size.
            if presented.len() < 2 * PRESENTED_MAX
                && let Some(wire) = self.find(text)
            {
                let digest = wire.digest;
                presented.push(Presented { location, digest });
            }
        };
        let target = request.head.first();
        let query_at = target.iter().position(|byte| *byte == b'?');
        let (path, query) = target.split_at(query_at.unwrap_or(target.len()));
        place(Location::Path, path);
        place(Location::Query, query);
        for field in request.head.fields() {
            let location = || Location::Header(field.name.to_ascii_lowercase());
            place(location(), field.value);
            place(location(), field.name.as_bytes());
        }
    }

    /// A search of one body; none where bodies are a model's transcripts.
    pub(crate) fn of_body(&self, transcripts: bool) -> BodySearch<'_> {
        BodySearch {
            tripwires: self,
            transcripts,
            tail: Vec::new(),
        }
    }

    fn of_head(&self, head: &Head) -> Option<&IssuedTripwire> {
        let lines = head.fields().flat_map(|f| [f.name.as_bytes(), f.value]);
        let mut texts = std::iter::once(head.first()).chain(lines);
        texts.find_map(|text| self.find(text))
    }

    fn find(&self, text: &[u8]) -> Option<&IssuedTripwire> {
        let owner = self.search.as_ref()?.first_owner(text)?;
        self.issued.get(owner)
    }
}

/// The search over a body that comes in pieces.
pub(crate) struct BodySearch<'a> {
    tripwires: &'a Tripwires,
    /// What is said is a model's transcript, which may quote one.
    transcripts: bool,
    /// The end of what came, shorter than the longest window.
    tail: Vec<u8>,
}

impl BodySearch<'_> {
    /// Refuses the piece with which a tripwire would be whole.
    pub(crate) fn pass(&mut self, piece: &[u8]) -> Result<(), Refusal> {
        let Some(search) = self.tripwires.search.as_ref().filter(|_| !self.transcripts) else {
            return Ok(());
        };
        let keep = search.longest().saturating_sub(1);
        // Across the border first: the kept end and the start of this piece.
        let mut border = std::mem::take(&mut self.tail);
        border.extend_from_slice(piece.get(..keep).unwrap_or(piece));
        let found = self.tripwires.find(&border);
        refuse(found.or_else(|| self.tripwires.find(piece)))?;
        let end = if piece.len() >= keep { piece } else { &border };
        let from = end.len().saturating_sub(keep);
        self.tail = end.get(from..).unwrap_or_default().to_vec();
        Ok(())
    }

    /// Refuses a text that stands for itself, as a trailer does: no transcript has any.
    pub(crate) fn pass_whole(&self, text: &[u8]) -> Result<(), Refusal> {
        refuse(self.tripwires.find(text))
    }
}

fn refuse(found: Option<&IssuedTripwire>) -> Result<(), Refusal> {
    found.map_or(Ok(()), |issued| {
        Err(Refusal {
            reason: Reason::Tripwire,
            layer: Layer::Vault,
            rule: issued.wire.rule(),
            hint: HINT.to_owned(),
        })
    })
}

#[cfg(test)]
mod tests;
