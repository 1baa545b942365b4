// SPDX-License-Identifier: Apache-2.0
//! The scrubber against its slow reference: random secrets, random texts with them in every listed
//! encoding, whole, in part and nearly, cut anywhere. `cargo xtask campaign scrub` asks for more.

use super::reference::{ENCODINGS, Fault, Reference, Stretch, encoded};
use super::*;
use std::collections::BTreeMap;
use std::ops::Range;

/// A xorshift generator: the same cases on every machine.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 20) % sides as u64).unwrap()
    }

    fn rarely(&mut self, sides: usize) -> bool {
        self.below(sides) == 0
    }

    fn pick(&mut self, from: &[u8]) -> u8 {
        from[self.below(from.len())]
    }

    fn bytes(&mut self, count: usize, from: &[u8]) -> Vec<u8> {
        (0..count).map(|_| self.pick(from)).collect()
    }

    /// Fewer than `most` of them.
    fn some(&mut self, most: usize, from: &[u8]) -> Vec<u8> {
        let count = self.below(most);
        self.bytes(count, from)
    }
}

const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
const AWKWARD: &[u8] = b"\"\\/<>&'%+= ;#u0a";
/// Few letters: windows of one secret overlap each other.
const FEW: &[u8] = b"ab";
const HEX: &[u8] = b"0123456789abcdef";
const ENCODED: &[u8] = b"0123456789abcdefABCDEF%\\u&#x;/+=\n ";

/// LIMIT: the lengths that a vault takes.
const LENGTH: std::ops::RangeInclusive<usize> = 12..=8192;
/// Texts for one set of secrets, so that a campaign does not only build searches.
const TEXTS: u64 = 64;

fn secret(dice: &mut Dice) -> Vec<u8> {
    let length = match dice.below(2_000) {
        0 => 301 + dice.below(LENGTH.end() - 300),
        1..=60 => 41 + dice.below(260),
        _ => LENGTH.start() + dice.below(29),
    };
    let visible: Vec<u8> = (b' '..=b'~').collect();
    let alphabets = [LETTERS, LETTERS, &visible, AWKWARD, FEW, HEX];
    let alphabet = alphabets[dice.below(alphabets.len())];
    dice.bytes(length, alphabet)
}

/// Up to four, some of them made of others: prefixes, continuations, overlaps, one byte apart.
fn secrets(dice: &mut Dice) -> Vec<(Vec<u8>, String)> {
    let mut all: Vec<Vec<u8>> = vec![secret(dice)];
    for _ in 0..dice.below(4) {
        let mut value = all[dice.below(all.len())].clone();
        let cut = LENGTH.start() + dice.below(value.len() - LENGTH.start() + 1);
        match dice.below(6) {
            0 => value.truncate(cut),
            1 => value.extend(dice.some(20, LETTERS)),
            2 => {
                value.drain(..value.len() - cut);
                value.extend(dice.some(20, LETTERS));
            }
            3 => value[cut - 1] = dice.pick(LETTERS),
            _ => value = secret(dice),
        }
        value.truncate(*LENGTH.end());
        if !all.contains(&value) {
            all.push(value);
        }
    }
    let named = |(at, value): (usize, Vec<u8>)| (value, format!("\u{2}{at}\u{3}"));
    all.into_iter().enumerate().map(named).collect()
}

/// A value in one of the listed encodings; base64 with something before and behind it.
fn spelled(dice: &mut Dice, value: &[u8]) -> Vec<u8> {
    let encoding = dice.below(ENCODINGS.len() + 2);
    if encoding < ENCODINGS.len() {
        return encoded(encoding, value);
    }
    let text = [dice.some(8, LETTERS), value.to_vec(), dice.some(8, LETTERS)];
    let alphabet = [BASE64, BASE64URL];
    let alphabet = &alphabet[encoding - ENCODINGS.len()];
    alphabet.encode(&text.concat()).into_bytes()
}

fn text(dice: &mut Dice, secrets: &[(Vec<u8>, String)]) -> Vec<u8> {
    let mut text = Vec::new();
    for _ in 0..dice.below(5) {
        let value = &secrets[dice.below(secrets.len())].0;
        let from = dice.below(value.len());
        let to = from + dice.below(value.len() - from + 1);
        let mut piece = match dice.below(8) {
            0 => dice.some(24, LETTERS),
            1 => dice.some(24, ENCODED),
            2 | 3 => spelled(dice, value),
            4 => spelled(dice, &value[from..to]),
            // The beginning in one encoding and the end in another.
            5 => [spelled(dice, &value[..to]), spelled(dice, &value[to..])].concat(),
            // Cut off at either end.
            6 => {
                let whole = spelled(dice, value);
                let (a, b) = (dice.below(whole.len() + 1), dice.below(whole.len() + 1));
                whole[a.min(b)..a.max(b)].to_vec()
            }
            _ => spelled(dice, value),
        };
        if dice.rarely(6) && !piece.is_empty() {
            // Nearly.
            let at = dice.below(piece.len());
            piece[at] = piece[at].wrapping_add(1 + u8::from(dice.rarely(2)));
        }
        text.extend(piece);
    }
    text
}

/// Scrubs a text cut at random places. Gives what came out and the most that was held.
fn scrub_in_pieces(dice: &mut Dice, scrubber: &Arc<Scrubber>, text: &[u8]) -> (Vec<u8>, usize) {
    let mut stream = ScrubStream::new(Arc::clone(scrubber));
    let (mut out, mut held, mut rest) = (Vec::new(), 0, text);
    let most = [1, 3, 17, 64, 1 + text.len()][dice.below(5)];
    while !rest.is_empty() {
        let (piece, after) = rest.split_at((1 + dice.below(most)).min(rest.len()));
        stream.push(piece, &mut out);
        held = held.max(stream.held());
        rest = after;
    }
    stream.finish(&mut out);
    (out, held)
}

/// Where the replacements of these stretches stand in what comes out.
fn replaced(reference: &Reference, found: &[Stretch]) -> Vec<Range<usize>> {
    let (mut end, mut out_end) = (0, 0);
    let place = |stretch: &Stretch| {
        let start = out_end + stretch.start - end;
        (end, out_end) = (stretch.end, start + reference.replacement(stretch).0.len());
        start..out_end
    };
    found.iter().map(place).collect()
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn cases() -> u64 {
    number("TORNO_CASES").unwrap_or(20_000)
}

/// The seeds of the sets; `TORNO_SEED` is the first.
fn sets() -> impl Iterator<Item = u64> {
    let first = number("TORNO_SEED").unwrap_or(0);
    (0..cases().div_ceil(TEXTS)).map(move |set| first.wrapping_add(set))
}

fn scrubber_of(secrets: &[(Vec<u8>, String)]) -> Arc<Scrubber> {
    let known = secrets.iter().map(|(value, p)| Secret::new(value, p));
    Arc::new(Scrubber::new(&known.collect::<Vec<_>>()))
}

// ATTACK: 105
#[test]
fn the_scrubber_agrees_with_the_slow_reference_however_a_text_is_cut() {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in sets() {
        let mut dice = Dice::new(seed);
        let secrets = secrets(&mut dice);
        let scrubber = scrubber_of(&secrets);
        let reference = Reference::new(&secrets, Fault::None);
        for _ in 0..TEXTS {
            let text = text(&mut dice, &secrets);
            let (out, held) = scrub_in_pieces(&mut dice, &scrubber, &text);
            let expected = reference.scrub(&text);
            let case = || format!("seed {seed}: {}", text.escape_ascii());
            let shown = || {
                (
                    out.escape_ascii().to_string(),
                    expected.escape_ascii().to_string(),
                )
            };
            assert!(out == expected, "{:?}, {}", shown(), case());
            let mut whole = Vec::new();
            scrub_whole(Some(&scrubber), &text, &mut whole);
            assert!(whole == out, "{:?}, {}", shown(), case());
            assert!(held < scrubber.longest(), "{held} are held, {}", case());
            let found = reference.stretches(&text);
            let ours = replaced(&reference, &found);
            // Eleven plain bytes and the bracket of a replacement may spell a window: by chance.
            let mut left = reference.stretches(&out);
            left.retain(|w| ours.iter().all(|o| w.end <= o.start || o.end <= w.start));
            assert!(left.is_empty(), "{left:?} in {:?}, {}", shown(), case());
            let mut count = |what, by: usize| *counts.entry(what).or_default() += by as u64;
            count("cases", 1);
            count("bytes", text.len());
            count("untouched", usize::from(found.is_empty()));
            count("held", usize::from(held > 0));
            for stretch in &found {
                let what = match reference.replacement(stretch) {
                    (_, true) => "whole",
                    (_, false) => "in part",
                };
                count(what, 1);
            }
        }
    }
    for (what, count) in &counts {
        println!("{count:12}  {what}");
    }
    for what in ["untouched", "held", "whole", "in part"] {
        assert!(counts[what] * 10 >= cases(), "{what}: {counts:?}");
    }
}

#[test]
fn a_fault_of_any_clause_shows() {
    let mut faults: Vec<Fault> = (0..ENCODINGS.len()).map(Fault::EncodingForgotten).collect();
    faults.extend([
        Fault::RunOfThirteen,
        Fault::ThirdAlignmentForgotten,
        Fault::ShortestWins,
        Fault::FindsStandAlone,
        Fault::WholeIsOneShorter,
        Fault::LaterSecretWins,
        Fault::LastSecretForgotten,
    ]);
    for fault in faults {
        let found = sets().position(|seed| {
            let mut dice = Dice::new(seed);
            let secrets = secrets(&mut dice);
            let scrubber = scrubber_of(&secrets);
            let faulty = Reference::new(&secrets, fault);
            (0..TEXTS).any(|_| {
                let text = text(&mut dice, &secrets);
                scrub_in_pieces(&mut dice, &scrubber, &text).0 != faulty.scrub(&text)
            })
        });
        let found = found.unwrap_or_else(|| panic!("no case shows {fault:?}"));
        println!("{fault:?} shows in set {found}");
    }
}
