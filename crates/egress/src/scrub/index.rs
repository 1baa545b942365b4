// SPDX-License-Identifier: Apache-2.0
//! Finds any window of any form in a text (Wu and Manber, 1994): four bytes of the text say how
//! far the next window can't start, so that most bytes are never looked at.

use super::Secret;
use super::forms::{Form, RUN_BYTES, forms};

/// LIMIT: 32 Ki shifts stay in a core's second cache; a thousand windows leave most at the full
/// jump.
const TABLE_BITS: u32 = 15;
const TABLE: usize = 1 << TABLE_BITS;
const BLOCK: usize = 4;
/// The jump where no window holds the block.
const FULL_JUMP: u8 = 9;
const _: () = assert!(FULL_JUMP as usize == RUN_BYTES - BLOCK + 1);

/// Parts of a text that are looked at at once.
const PARTS: usize = 6;

/// One place of one form.
#[derive(Debug, Clone, Copy)]
struct Window {
    form: usize,
    start: usize,
    end: usize,
}

/// The search for a set of secrets.
pub(crate) struct Scrubber {
    forms: Vec<Form>,
    /// Which secret a form is of.
    owners: Vec<usize>,
    placeholders: Vec<String>,
    /// In the order of their texts.
    windows: Vec<Window>,
    jumps: Box<[u8; TABLE]>,
    /// Which blocks a window may start with, by their hash.
    fronts: Box<[bool]>,
    longest: usize,
}

/// A window that stands in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) form: usize,
    pub(super) length: usize,
}

impl Scrubber {
    pub(crate) fn new<'s>(secrets: impl IntoIterator<Item = &'s Secret>) -> Self {
        let mut scrubber = Self {
            forms: Vec::new(),
            owners: Vec::new(),
            placeholders: Vec::new(),
            windows: Vec::new(),
            jumps: Box::new([FULL_JUMP; TABLE]),
            fronts: vec![false; TABLE].into_boxed_slice(),
            longest: 0,
        };
        for (owner, secret) in secrets.into_iter().enumerate() {
            scrubber.placeholders.push(secret.placeholder.clone());
            for form in forms(&secret.value) {
                scrubber.add(form, owner);
            }
        }
        let Self { forms, windows, .. } = &mut scrubber;
        windows.sort_by(|a, b| text_of(forms, *a).cmp(text_of(forms, *b)));
        windows.dedup_by(|a, b| text_of(forms, *a) == text_of(forms, *b));
        scrubber
    }

    fn add(&mut self, form: Form, owner: usize) {
        let number = self.forms.len();
        for window in &form.windows {
            let text = form.text.get(window.clone()).unwrap_or_default();
            if text.len() < RUN_BYTES {
                continue;
            }
            self.longest = self.longest.max(text.len());
            for (at, block) in text.windows(BLOCK).take(usize::from(FULL_JUMP)).enumerate() {
                let jump = FULL_JUMP - 1 - u8::try_from(at).unwrap_or(0);
                if let Some(slot) = self.jumps.get_mut(hash(block)) {
                    *slot = jump.min(*slot);
                }
            }
            let front = text.get(..BLOCK).map(hash);
            if let Some(slot) = front.and_then(|front| self.fronts.get_mut(front)) {
                *slot = true;
            }
            self.windows.push(Window {
                form: number,
                start: window.start,
                end: window.end,
            });
        }
        self.forms.push(form);
        self.owners.push(owner);
    }

    /// Every window that starts before `until`, in order, with its place.
    ///
    /// The text is looked at in several parts at once: where one goes on is known only after two
    /// looks into memory, and meanwhile a processor can do the same for the others.
    pub(super) fn windows(&self, text: &[u8], until: usize) -> Vec<(usize, Found)> {
        let mut found = Vec::new();
        // A shorter end holds no window.
        let until = until.min((text.len() + 1).saturating_sub(RUN_BYTES));
        let part = until.div_ceil(PARTS);
        let mut places: [usize; PARTS] = std::array::from_fn(|at| (at * part).min(until));
        let ends: [usize; PARTS] = std::array::from_fn(|at| ((at + 1) * part).min(until));
        // So many steps take no part over its end, which is then not asked after at each.
        while let steps @ 1.. = fewest_steps(&places, &ends) {
            for _ in 0..steps {
                for at in &mut places {
                    *at += self.step(text, *at, &mut found);
                }
            }
        }
        for (at, end) in places.iter_mut().zip(ends) {
            while *at < end {
                *at += self.step(text, *at, &mut found);
            }
        }
        found.sort_unstable_by_key(|(at, _)| *at);
        found
    }

    /// Keeps the window that stands at a place, and tells how far the next can't start.
    #[inline]
    fn step(&self, text: &[u8], at: usize, found: &mut Vec<(usize, Found)>) -> usize {
        let block = text
            .get(at + RUN_BYTES - BLOCK..)
            .and_then(|rest| rest.first_chunk::<BLOCK>());
        match block.and_then(|block| self.jumps.get(hash_of(*block))) {
            Some(jump @ 1..) => usize::from(*jump),
            _ => self.keep(text, at, found),
        }
    }

    /// Keeps the window that stands at a place, if one does, and tells where to look next.
    #[cold]
    fn keep(&self, text: &[u8], at: usize, found: &mut Vec<(usize, Found)>) -> usize {
        let rest = text.get(at..).unwrap_or_default();
        if self.may_be_front(rest) {
            found.extend(self.starts_with_window(rest).map(|window| (at, window)));
        }
        1
    }

    /// The longest window that `text` starts with.
    pub(super) fn starts_with_window(&self, text: &[u8]) -> Option<Found> {
        let head = text.get(..RUN_BYTES)?;
        let prefix = |w: &Window| {
            let window = text_of(&self.forms, *w);
            window.get(..RUN_BYTES).unwrap_or(window).cmp(head)
        };
        let first = self.windows.partition_point(|w| prefix(w).is_lt());
        let alike = self.windows.get(first..).unwrap_or_default();
        let alike = alike.iter().take_while(|w| prefix(w).is_eq());
        alike
            .filter(|w| text.starts_with(text_of(&self.forms, **w)))
            .map(|w| Found {
                form: w.form,
                length: w.end - w.start,
            })
            .max_by_key(|found| found.length)
    }

    /// The first place of `text` from which its end could be the start of a window.
    pub(super) fn hold(&self, text: &[u8]) -> usize {
        let first = text.len().saturating_sub(self.longest.saturating_sub(1));
        let tail = text.get(first..).unwrap_or_default();
        let held = (0..tail.len()).find(|at| {
            let end = tail.get(*at..).unwrap_or_default();
            self.may_be_front(end) && self.is_window_start(end)
        });
        held.map_or(text.len(), |at| first + at)
    }

    /// Whether a window may start like this, as far as a block of it tells; no block, no word.
    fn may_be_front(&self, end: &[u8]) -> bool {
        let front = end.get(..BLOCK).map(hash);
        let known = front.and_then(|front| self.fronts.get(front));
        known.copied().unwrap_or(true)
    }

    fn is_window_start(&self, end: &[u8]) -> bool {
        let front = |w: &Window| {
            let window = text_of(&self.forms, *w);
            window.get(..end.len()).unwrap_or(window)
        };
        let first = self.windows.partition_point(|w| front(w) < end);
        let alike = self.windows.get(first..).unwrap_or_default();
        // A window that is exactly the end was found already; only a longer one is waited for.
        alike
            .iter()
            .take_while(|w| front(w) == end)
            .any(|w| w.end - w.start > end.len())
    }

    /// What is written instead of a find of this length.
    pub(super) fn replacement(&self, form: usize, length: u64) -> &str {
        let whole = self.forms.get(form).map_or(usize::MAX, |form| form.whole);
        let owner = self.owners.get(form).copied().unwrap_or(usize::MAX);
        match self.placeholders.get(owner) {
            Some(placeholder) if usize::try_from(length).is_ok_and(|l| l >= whole) => placeholder,
            _ => "[redacted]",
        }
    }

    /// Whose window stands first in a text that is all there.
    pub(crate) fn first_owner(&self, text: &[u8]) -> Option<usize> {
        let windows = self.windows(text, text.len());
        let (_, first) = windows.first()?;
        self.owners.get(first.form).copied()
    }

    /// The longest window: what is held never reaches it.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// Every window's text, for the slow reference.
    #[cfg(test)]
    pub(super) fn window_texts(&self) -> impl Iterator<Item = (usize, &[u8])> {
        self.windows
            .iter()
            .map(|w| (w.form, text_of(&self.forms, *w)))
    }
}

fn text_of(forms: &[Form], window: Window) -> &[u8] {
    let form = forms.get(window.form);
    form.and_then(|form| form.text.get(window.start..window.end))
        .unwrap_or_default()
}

/// Steps that each part can take at the full jump without coming to its end.
fn fewest_steps(places: &[usize; PARTS], ends: &[usize; PARTS]) -> usize {
    let left = places
        .iter()
        .zip(ends)
        .map(|(at, end)| end.saturating_sub(*at));
    left.min().unwrap_or(0) / usize::from(FULL_JUMP)
}

fn hash(block: &[u8]) -> usize {
    block
        .first_chunk::<BLOCK>()
        .map_or(0, |block| hash_of(*block))
}

fn hash_of(block: [u8; BLOCK]) -> usize {
    let mixed = u32::from_le_bytes(block).wrapping_mul(0x9E37_79B1) >> (32 - TABLE_BITS);
    usize::try_from(mixed).unwrap_or(0)
}
