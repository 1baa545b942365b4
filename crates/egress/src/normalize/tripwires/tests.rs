// SPDX-License-Identifier: Apache-2.0
//! A tripwire is found however it is written and cut, and nothing else is.

use super::*;
use data_encoding::{BASE64, HEXLOWER};
use proptest::prelude::*;
use torno_policy::tripwire::Wire;

fn wires() -> Vec<Tripwire> {
    (0_u8..)
        .zip(Wire::ALL)
        .map(|(at, wire)| Tripwire::new(wire, [at.wrapping_mul(37).wrapping_add(11); 16]))
        .collect()
}

/// The value in some encodings, with something around it.
fn written(value: &str, how: usize) -> Vec<u8> {
    let percent: String = value.bytes().map(|b| format!("%{b:02X}")).collect();
    match how % 5 {
        0 => format!("a={value}&b").into_bytes(),
        1 => format!("d={}", HEXLOWER.encode(value.as_bytes())).into_bytes(),
        2 => percent.into_bytes(),
        3 => BASE64
            .encode(format!("user:{value}").as_bytes())
            .into_bytes(),
        // A part of it is enough.
        _ => value.as_bytes()[value.len() - 14..].to_vec(),
    }
}

fn passes(tripwires: &Tripwires, pieces: &[&[u8]]) -> Result<(), Refusal> {
    let mut search = tripwires.of_body(false);
    pieces.iter().try_for_each(|piece| search.pass(piece))
}

proptest! {
    #[test]
    fn a_tripwire_in_a_body_is_refused_however_it_is_written_and_cut(
        at in 0..4_usize,
        how in 0..5_usize,
        before in proptest::collection::vec(any::<u8>(), 0..300),
        cuts in proptest::collection::vec(0..1000_usize, 0..8),
    ) {
        let wires = wires();
        let tripwires = Tripwires::new(&wires);
        let mut body = before;
        body.push(b'\n');
        let clean = body.len();
        body.extend(written(&wires[at].value, how));
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut % body.len()).collect();
        cuts.extend([0, body.len()]);
        cuts.sort_unstable();
        let pieces: Vec<_> = cuts.windows(2).map(|cut| &body[cut[0]..cut[1]]).collect();
        let refusal = passes(&tripwires, &pieces).unwrap_err();
        prop_assert_eq!(refusal.reason, Reason::Tripwire);
        prop_assert_eq!(refusal.rule, wires[at].wire.rule());
        prop_assert!(passes(&tripwires, &[&body[..clean]]).is_ok());
        // A model's transcript may quote it.
        prop_assert!(tripwires.of_body(true).pass(&body).is_ok());
    }
}

#[test]
fn another_placeholder_and_ordinary_text_are_no_tripwire() {
    let tripwires = Tripwires::new(&wires());
    let other = Tripwire::new(Wire::Netrc, [200; 16]).value;
    assert!(passes(&tripwires, &[other.as_bytes(), b"AKIATRNO is the mark"]).is_ok());
    assert!(passes(&Tripwires::default(), &[wires()[0].value.as_bytes()]).is_ok());
}

#[test]
fn one_run_of_twelve_characters_is_found_in_every_form_wherever_it_is_cut() {
    let wires = wires();
    let tripwires = Tripwires::new(&wires);
    let value = wires[1].value.as_bytes();
    let run = &value[value.len() - 12..];
    let each = |spell: fn(u8) -> String| run.iter().map(|b| spell(*b)).collect::<String>();
    let forms = [
        each(|b| char::from(b).to_string()),
        each(|b| format!("{b:02x}")),
        each(|b| format!("%{b:02X}")),
        each(|b| format!("\\u00{b:02x}")),
        each(|b| format!("&#x{b:02x};")),
        BASE64.encode(run),
    ];
    for form in forms {
        let body = format!("before {form} behind").into_bytes();
        for cut in 0..body.len() {
            let (front, back) = body.split_at(cut);
            assert!(passes(&tripwires, &[front, back]).is_err(), "{form} {cut}");
        }
        let bytes: Vec<_> = body.chunks(1).collect();
        assert!(passes(&tripwires, &bytes).is_err(), "{form}");
        let less = body.strip_suffix(b" behind").unwrap();
        let less = &less[..less.len() - 2];
        assert!(passes(&tripwires, &[less]).is_ok(), "{form}");
    }
}
