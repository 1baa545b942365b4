// SPDX-License-Identifier: Apache-2.0
#![expect(clippy::string_slice, reason = "texts of tests are ASCII")]

mod campaign;
mod reference;

use super::*;
use data_encoding::{BASE64, BASE64URL, HEXLOWER, HEXUPPER};
use proptest::prelude::*;

const SECRET: &str = "sk-ant-A1b2/C3d4+E5f6&G7h8\"I9<jk";

fn scrubber() -> Arc<Scrubber> {
    Arc::new(Scrubber::new(&[Secret::new(SECRET.as_bytes(), "PH")]))
}

fn scrub(text: &[u8], cuts: &[usize]) -> (Vec<u8>, u32) {
    let mut stream = ScrubStream::new(scrubber());
    let (mut out, mut rest) = (Vec::new(), text);
    for cut in cuts {
        let (piece, after) = rest.split_at(*cut % (rest.len() + 1));
        stream.push(piece, &mut out);
        rest = after;
    }
    stream.push(rest, &mut out);
    stream.finish(&mut out);
    (out, stream.hits())
}

fn percent(text: &str, upper: bool) -> String {
    let one = |b: u8| {
        if upper {
            format!("%{b:02X}")
        } else {
            format!("%{b:02x}")
        }
    };
    text.bytes().map(one).collect()
}

/// The slow reference: mark every window at every place, then replace each stretch that overlaps.
fn reference(text: &[u8]) -> Vec<u8> {
    let scrubber = scrubber();
    let windows: Vec<_> = scrubber.window_texts().collect();
    let mut finds: Vec<(usize, usize, usize)> = Vec::new();
    for at in 0..text.len() {
        let here = windows.iter().filter(|(_, w)| text[at..].starts_with(w));
        let Some((form, window)) = here.max_by_key(|(_, w)| w.len()) else {
            continue;
        };
        match finds.last_mut() {
            Some((_, _, end)) if at < *end => *end = (*end).max(at + window.len()),
            _ => finds.push((*form, at, at + window.len())),
        }
    }
    let (mut out, mut done) = (Vec::new(), 0);
    for (form, start, end) in finds {
        out.extend_from_slice(&text[done..start]);
        out.extend_from_slice(scrubber.replacement(form, (end - start) as u64).as_bytes());
        done = end;
    }
    out.extend_from_slice(&text[done..]);
    out
}

#[test]
fn every_listed_form_is_withheld_whole_and_in_part() {
    // ATTACK: 105, 106
    let mut forms = vec![
        SECRET.to_owned(),
        format!("Bearer {SECRET}"),
        format!("user:{SECRET}"),
        HEXLOWER.encode(SECRET.as_bytes()),
        HEXUPPER.encode(SECRET.as_bytes()),
        percent(SECRET, true),
        percent(SECRET, false),
        SECRET
            .replace('/', "%2F")
            .replace('+', "%2B")
            .replace('&', "%26")
            .replace('"', "%22")
            .replace('<', "%3C"),
        SECRET.bytes().map(|b| format!("\\u{b:04x}")).collect(),
        SECRET.bytes().map(|b| format!("\\u{b:04X}")).collect(),
        SECRET.replace('"', "\\\""),
        SECRET.replace('"', "\\\"").replace('/', "\\/"),
        SECRET
            .replace('"', "\\\"")
            .replace('&', "\\u0026")
            .replace('<', "\\u003c"),
        SECRET
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('"', "&quot;"),
        SECRET.bytes().map(|b| format!("&#{b};")).collect(),
        SECRET.bytes().map(|b| format!("&#x{b:02x};")).collect(),
    ];
    for front in ["", "x", "xy", "user:", "Bearer "] {
        let text = format!("{front}{SECRET}zz");
        forms.push(BASE64.encode(text.as_bytes()));
        forms.push(BASE64URL.encode(text.as_bytes()));
    }
    for form in forms {
        let text = format!("before {form} after");
        let (out, hits) = scrub(text.as_bytes(), &[]);
        let out = String::from_utf8(out).unwrap();
        assert_eq!(hits, 1, "{form}: {out}");
        assert!(out.contains("PH"), "{form}: {out}");
        assert!(
            out.starts_with("before ") && out.ends_with(" after"),
            "{out}"
        );
    }
    for start in 0..=SECRET.len() - 12 {
        let text = format!("<{}>", &SECRET[start..start + 12]);
        let (out, _) = scrub(text.as_bytes(), &[]);
        assert_eq!(out, b"<[redacted]>");
    }
    let (out, hits) = scrub(&SECRET.as_bytes()[..11], &[]);
    assert_eq!((out.as_slice(), hits), (&SECRET.as_bytes()[..11], 0));
}

#[test]
fn an_event_is_let_out_at_once_and_less_than_a_window_is_held() {
    let mut stream = ScrubStream::new(scrubber());
    let mut out = Vec::new();
    stream.push(b"data: hello\n\n", &mut out);
    assert_eq!(out, b"data: hello\n\n");
    let mut held = 0;
    for byte in SECRET.bytes().cycle().take(10_000) {
        out.clear();
        stream.push(&[byte], &mut out);
        held = held.max(stream.held());
    }
    assert!(held < scrubber().longest(), "{held}");
}

#[test]
fn a_longer_spelling_that_is_cut_is_replaced_with_its_escape() {
    // Found by the campaign: behind the escape stands a plain window, which came whole first.
    let secret = Secret::new(b"\"v:9$X,YF5f\\ eo^", "PH");
    let scrubber = Arc::new(Scrubber::new(&[secret]));
    let text = br#"\"v:9$X,YF5f\\ eo^"#;
    for cut in 0..text.len() {
        let mut stream = ScrubStream::new(Arc::clone(&scrubber));
        let mut out = Vec::new();
        stream.push(&text[..cut], &mut out);
        stream.push(&text[cut..], &mut out);
        stream.finish(&mut out);
        assert_eq!(out, b"PH", "cut at {cut}");
    }
}

#[test]
fn a_secret_released_in_the_middle_is_found_from_then_on() {
    let other = Secret::new(b"another-secret-value", "PH2");
    let both = Arc::new(Scrubber::new(&[
        Secret::new(SECRET.as_bytes(), "PH"),
        other,
    ]));
    let mut stream = ScrubStream::new(scrubber());
    let mut out = Vec::new();
    stream.push(format!("x{}", &SECRET[..20]).as_bytes(), &mut out);
    stream.adopt(both, &mut out);
    stream.push(b" another-secret-value", &mut out);
    stream.finish(&mut out);
    let out = String::from_utf8(out).unwrap();
    assert!(
        !out.contains(&SECRET[..12]) && out.ends_with("PH2"),
        "{out}"
    );
}

#[test]
fn gzip_is_unpacked_and_a_bomb_is_not() {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(b"hello ").unwrap();
    let packed = encoder.finish().unwrap();
    let mut out = Vec::new();
    let mut gunzip = Unpack::gzip();
    for byte in &packed {
        gunzip
            .push(&[*byte], |bytes| out.extend_from_slice(bytes))
            .unwrap();
    }
    gunzip.finish(|bytes| out.extend_from_slice(bytes)).unwrap();
    assert_eq!(out, b"hello ");
    let mut cut = Unpack::gzip();
    cut.push(&packed[..packed.len() - 3], |_| {}).unwrap();
    assert!(cut.finish(|_| {}).is_err());
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&vec![0; 64 << 20]).unwrap();
    let bomb = encoder.finish().unwrap();
    let mut seen = 0;
    assert!(
        Unpack::gzip()
            .push(&bomb, |bytes| seen += bytes.len())
            .is_err()
    );
    assert!(seen < 10 << 20, "{seen}");
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        (0..SECRET.len(), 0..SECRET.len()).prop_map(|(a, b)| SECRET[a.min(b)..a.max(b)].to_owned()),
        Just(SECRET.to_owned()),
        (0..3usize, 0..30usize).prop_map(|(front, cut)| {
            let text = BASE64.encode(format!("{}{SECRET}", &"xyz"[..front]).as_bytes());
            text[cut..].to_owned()
        }),
        (0..20usize).prop_map(|cut| HEXLOWER.encode(SECRET.as_bytes())[cut..].to_owned()),
        Just(percent(SECRET, true)),
        "[a-zA-Z0-9/+&\"<%\\\\ \n-]{0,20}",
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_cut_of_a_text_is_scrubbed_like_the_whole(text in text(), cuts in prop::collection::vec(0..60usize, 0..8)) {
        let (out, _) = scrub(&text, &cuts);
        prop_assert_eq!(&out, &reference(&text));
        let mut whole = Vec::new();
        scrub_whole(Some(&scrubber()), &text, &mut whole);
        prop_assert_eq!(&whole, &out);
        prop_assert!(memchr::memmem::find(&out, SECRET.as_bytes()).is_none());
        for start in 0..=SECRET.len() - 12 {
            prop_assert!(memchr::memmem::find(&out, &SECRET.as_bytes()[start..start + 12]).is_none());
        }
    }

    #[test]
    fn what_is_held_is_the_end_that_a_window_could_start_with(text in text()) {
        let scrubber = scrubber();
        let windows: Vec<_> = scrubber.window_texts().map(|(_, window)| window).collect();
        let could = |end: &[u8]| windows.iter().any(|w| w.len() > end.len() && w.starts_with(end));
        let first = (0..text.len()).find(|at| could(&text[*at..]));
        prop_assert_eq!(scrubber.hold(&text), first.unwrap_or(text.len()));
    }
}
